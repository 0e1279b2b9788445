"""Whole files and folders, and ways to damage them: bytes, numbers, parts of JSON, steps of a pickle."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from copy import deepcopy
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import save, save_file

from model.checkpoints.native import save_checkpoint
from tests.model.examples import network, sentences, tokenizers

NUMBERS = [0, 1, 2, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
NASTY: list[Any] = [*NUMBERS, -1, -(2**63), 10**30, 10**400, 0.5, float("nan"), float("inf"), 1e308, True, False, None]
NASTY += ["", "a", "\0", "\ud800", "../x", "/etc/passwd", "x" * 300, "x.py"]
NASTY += [[], {}, [[]], [1] * 50, {"a": {"a": {}}}, [None]]
PARTS = [b"(", b")", b"]", b"}", b"t", b"u", b"s", b"a", b"e", b"0", b"1", b".", b"N", b"R", b"b", b"Q", b"\x81"]
PARTS += [b"\x85", b"\x86", b"\x87", b"h\x00", b"h\x01", b"q\x00", b"q\x01", b"K\x01", b"M\xff\xff", b"X\1\0\0\0a"]
PARTS += [b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n"]
PARTS += [b"cbuiltins\neval\n", b"cos\nsystem\n", b"ccollections\nCounter\n", b"ctorch\nSize\n", b"\x80\x02"]
HUGE = b"\x8a\x06\0\0\0\0\0\x10\x85R"  # called with 2⁴⁴
PARTS += [b"cbuiltins\nbytearray\n" + HUGE, b"ctorch.storage\nUntypedStorage\n" + HUGE, b"ctorch\nFloatTensor\n" + HUGE]
PARTS += [b"".join(b"q" + bytes([at]) + b"h" + bytes([at]) + b"\x86" for at in range(100, 140)), b"J\0\0\0\xff"]


def damaged(random: Random, content: bytes) -> bytes:
    """One change or a few, most of them near the beginning."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = int(len(content) * random.random() ** random.choice((1, 3)))
        length = random.choice((1, 1, 2, 4, 8, 30))
        new = random.choice(
            [
                random.randbytes(length),
                struct.pack("<Q", random.choice(NUMBERS)),
                struct.pack("<I", random.choice(NUMBERS) & 0xFFFFFFFF),
                content[at : at + length] * random.choice((2, 50)),
                b"",
            ]
        )
        content = content[:at] + new + content[at + random.choice((0, length, len(new))) :]
        if random.random() < 0.05:
            content = content[: int(len(content) * random.random())]
    return content


def changed(random: Random, value: Any) -> Any:
    """JSON with one or a few of its values replaced, removed, or given another name."""
    value = json.loads(json.dumps(value))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        inner, depth = value, random.randint(1, 4)
        for step in range(depth):
            if not isinstance(inner, dict | list) or not inner:
                break
            key = random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            if step < depth - 1 and isinstance(inner[key], dict | list) and inner[key]:
                inner = inner[key]
                continue
            action = random.randint(0, 4)
            if action == 0:
                del inner[key]
            elif action == 1 and isinstance(inner, dict):
                inner[str(random.choice([*NASTY, "another", "one.more"]))] = inner.pop(key)
            else:
                inner[key] = deepcopy(random.choice(NASTY))  # a later round may change what stands there
            break
    return value


def written(random: Random, value: Any) -> bytes:
    """As JSON, now and then with a name twice, or too deep."""
    text = json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    draw = random.random()
    if draw < 0.03 and text[:1] == b"{" and len(text) > 2:
        return text[:-1] + b"," + text[1:]
    return b'{"a":' * 5000 + text if draw > 0.98 else text


def archive(files: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", compression) as made:
        for name, content in files:
            made.writestr(zipfile.ZipInfo(name), content, compression)
    return held.getvalue()


def safetensors_parts(random: Random) -> bytes:
    """A header put together from parts."""

    def size() -> int:
        return random.choice((random.randint(0, 8), random.choice(NUMBERS), -random.choice(NUMBERS)))

    def entry() -> dict[str, Any]:
        shape = [size() for _ in range(random.randint(0, 4))]
        dtype = random.choice(("F32", "F16", "I64", "BOOL", "F4", "?"))
        return {"dtype": dtype, "shape": shape, "data_offsets": [size(), size()]}

    header = json.dumps({random.choice(("", "a", "b.c", "\ud800")): entry() for _ in range(random.randint(0, 3))})
    return struct.pack("<Q", len(header)) + header.encode() + bytes(8)


def pickle_parts(random: Random) -> bytes:
    """A pickle put together from steps."""
    steps = b"".join(random.choice(PARTS) for _ in range(random.randint(0, 20)))
    files = [("x/data.pkl", b"\x80\x02" + steps + b"."), ("x/byteorder", b"little"), ("x/version", b"3\n")]
    return archive(files)


class Originals:
    """Small whole files of every format."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        tensors = {"a": torch.arange(6.0).reshape(2, 3), "b.c": torch.ones(4, dtype=torch.int64), "d": torch.ones(())}
        self.safetensors = save(tensors, {"format": "pt"})
        held = io.BytesIO()
        record = {"model": {**tensors, "tied": tensors["a"]}, "args": {"n": 1, "name": "x"}, "list": [1.5, None]}
        torch.save(record | {"parameter": torch.nn.Parameter(torch.ones(2).T)}, held)
        self.pt = held.getvalue()
        with zipfile.ZipFile(io.BytesIO(self.pt)) as made:
            self.pt_files = [(name, made.read(name)) for name in made.namelist()]
        self.gguf, self.gguf_model = _gguf(), _gguf_model()
        both = tokenizers(sentences(20))
        model = network(source_vocabulary=len(both[0]), target_vocabulary=len(both[1]), d_model=16, n_heads=2, d_ff=16)
        self.ours = folder / "ours"
        save_checkpoint(self.ours, model, both, {"steps": 3})
        self.foreign = folder / "foreign"
        self.foreign.mkdir()
        (self.foreign / "config.json").write_text(json.dumps(HUGGING_FACE))
        save_file({"transformer.wte.weight": torch.ones(8, 4)}, self.foreign / "model.safetensors")

    def safetensors_header(self, random: Random) -> bytes:
        length = int.from_bytes(self.safetensors[:8], "little")
        header = written(random, changed(random, json.loads(self.safetensors[8 : 8 + length])))
        return struct.pack("<Q", len(header)) + header + self.safetensors[8 + length :]

    def pt_pickle(self, random: Random) -> bytes:
        """A damaged data.pkl, or one with steps put in, in a whole archive."""
        files = dict(self.pt_files)
        name = next(name for name in files if name.endswith("data.pkl"))
        content = files[name]
        if random.random() < 0.5:
            files[name] = damaged(random, content)
        else:
            for _ in range(random.choice((1, 1, 2))):
                at = random.randrange(2, len(content))
                content = content[:at] + random.choice(PARTS) * random.choice((1, 1, 3)) + content[at:]
            files[name] = content
        return archive(list(files.items()))

    def pt_directory(self, random: Random) -> bytes:
        """Files of the archive renamed, doubled, left out, packed."""
        files = list(self.pt_files)
        at = random.randrange(len(files))
        name, content = files[at]
        action = random.randint(0, 4)
        if action == 0:
            del files[at]
        elif action == 1:
            files[at] = (random.choice(("../x", "/x", name.upper(), "", "a\\b", f"{name}/x", "x" * 300)), content)
        elif action == 2:
            files.append((name.swapcase(), content))
        elif action == 3:
            files[at] = (name, damaged(random, content))
        return archive(files, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))

    def our_folder(self, random: Random, folder: Path) -> Path:
        return self._one_changed(random, self.ours, folder)

    def hugging_face_folder(self, random: Random, folder: Path) -> Path:
        return self._one_changed(random, self.foreign, folder)

    def shards(self, random: Random, folder: Path) -> Path:
        path = folder / "shards"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        places = {}
        for number, name in enumerate(("a", "b", "c")):
            file = f"model-{number}.safetensors"
            save_file({name: torch.ones(2)}, path / file)
            places[name] = file
        index = {"metadata": {"total_size": 24}, "weight_map": places}
        (path / "model.safetensors.index.json").write_bytes(written(random, changed(random, index)))
        return path

    def upload(self, random: Random, _: Path) -> list[tuple[str, bytes]]:
        if random.random() < 0.5:
            files = [("m/x.safetensors", self.safetensors), ("m/config.json", b"{}"), ("m/a.py", b"1/0")]
            packed = archive(files, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
            return [("x.zip", damaged(random, packed))]
        drawn = "".join(random.choice("aA./\\:é\0\ud800") for _ in range(random.randint(0, 8))) + ".json"
        names = [str(random.choice(NASTY)), drawn, "x.safetensors", "X.safetensors", "config.json"]
        return [(random.choice(names), self.safetensors) for _ in range(random.randint(0, 3))]

    def _one_changed(self, random: Random, original: Path, folder: Path) -> Path:
        path = folder / original.name
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(original, path)
        file = random.choice(sorted(path.iterdir()))
        if random.random() < 0.5 and file.suffix == ".json":
            file.write_bytes(written(random, changed(random, json.loads(file.read_bytes()))))
        elif random.random() < 0.1:
            file.unlink()
        else:
            file.write_bytes(damaged(random, file.read_bytes()))
        return path


HUGGING_FACE = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_embd": 4,
    "n_head": 2,
    "n_layer": 0,
    "n_positions": 8,
    "vocab_size": 8,
    "activation_function": "gelu_new",
    "auto_map": {"AutoModel": "modeling.Model"},
}


def _gguf() -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    records = text("general.name") + struct.pack("<I", 8) + text("x")
    records += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    records += text("scores") + struct.pack("<IIQ", 9, 6, 2) + bytes(8)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 3) + records
    head += text("a") + struct.pack("<IQQIQ", 2, 3, 2, 0, 0) + text("b") + struct.pack("<IQIQ", 1, 32, 8, 32)
    return head + bytes(-len(head) % 32) + bytes(32 + 34)


def _gguf_model() -> bytes:
    """A Llama of one layer and a tokenizer of byte-level BPE, put together without the package."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def texts(*values: str) -> bytes:
        return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))

    counts = {"block_count": 1, "context_length": 16, "embedding_length": 4, "feed_forward_length": 4}
    counts |= {"attention.head_count": 2, "attention.head_count_kv": 1, "rope.dimension_count": 2}
    records = {"general.architecture": (8, text("llama")), "tokenizer.ggml.model": (8, text("gpt2"))}
    records |= {f"llama.{name}": (4, struct.pack("<I", count)) for name, count in counts.items()}
    records["llama.attention.layer_norm_rms_epsilon"] = (6, struct.pack("<f", 1e-5))
    records["tokenizer.ggml.tokens"] = (9, texts("a", "b", "ab", "Ġ", "<s>", "</s>", "[PAD6]", "c"))
    records["tokenizer.ggml.merges"] = (9, texts("a b"))
    records["tokenizer.ggml.token_type"] = (9, struct.pack("<IQ8i", 5, 8, 1, 1, 1, 1, 3, 3, 5, 1))
    records["tokenizer.ggml.bos_token_id"] = (4, struct.pack("<I", 4))
    shapes = {"token_embd": (8, 4), "output_norm": (4,), "blk.0.attn_norm": (4,), "blk.0.ffn_norm": (4,)}
    shapes |= {"blk.0.attn_q": (4, 4), "blk.0.attn_k": (2, 4), "blk.0.attn_v": (2, 4), "blk.0.attn_output": (4, 4)}
    shapes |= {f"blk.0.ffn_{name}": (4, 4) for name in ("gate", "up", "down")}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(records))
    head += b"".join(text(name) + struct.pack("<I", kind) + value for name, (kind, value) in records.items())
    values = b""
    for name, shape in shapes.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += text(f"{name}.weight") + sizes + struct.pack("<IQ", 0, len(values))
        numbers = [0.1 * number for number in range(prod(shape))]
        values += struct.pack(f"<{len(numbers)}f", *numbers)
        values += bytes(-len(values) % 32)
    return head + bytes(-len(head) % 32) + values
