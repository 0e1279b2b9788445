"""Which files of a path hold its tensors, and what is refused by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model.runtime.errors import CheckpointError
from model.runtime.files import finish_replacing
from model.runtime.untrusted_json import read_json

SAFETENSORS, PYTORCH = "model.safetensors", "pytorch_model.bin"  # in a folder, ours or of Hugging Face
PICKLED = (".pt", ".pth", ".bin")
READ = (".safetensors", *PICKLED, ".gguf")
ENDS = ", ".join(READ)
INSIDE = ("*/config.json", "snapshots/*/config.json")  # the second is Hugging Face's cache
MOST_SHARDS = 1000
POINTER, POINTER_MOST = b"version https://git-lfs.github.com/spec/", 1000  # how it begins, and bytes it has fewer than
HUGGING_FACE = "load it with transformers where it comes from and write it again with save_pretrained"
UNPACK = "unpack it and give the folder, or upload it as .zip"
REFUSED = {
    ".ckpt": (
        "a checkpoint of PyTorch Lightning or TensorFlow, which holds objects of its program",
        'write its weights with torch.save(torch.load(path, weights_only=True)["state_dict"], "model.pt")',
    ),
    **dict.fromkeys((".pkl", ".pickle"), ("a pickle, which can run any code when it is read", "save a .safetensors")),
    **dict.fromkeys((".joblib", ".dill"), ("a pickle, which can run any code when it is read", "save a .safetensors")),
    **dict.fromkeys((".h5", ".hdf5", ".keras"), ("a model of Keras", HUGGING_FACE)),
    ".msgpack": ("a model of Flax", HUGGING_FACE),
    **dict.fromkeys((".pb", ".tflite", ".index"), ("a model of TensorFlow", HUGGING_FACE)),
    **dict.fromkeys(
        (".npz", ".npy"),
        ("NumPy's arrays", 'write them with safetensors.numpy.save_file(dict(numpy.load(path)), "model.safetensors")'),
    ),
    ".onnx": ("a graph of ONNX, without the names of its training", "give the checkpoint that it was made from"),
    ".mar": ("an archive of TorchServe, with code in it", "give the checkpoint that it was made from"),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"), ("an archive", UNPACK)),
    **dict.fromkeys((".ggml", ".ggjt"), ("an old format of llama.cpp", "convert it to .gguf with llama.cpp")),
    ".json": ("no file of tensors", "give its folder"),
    ".py": ("a program, which is not run", "give the checkpoint that it writes"),
}


@dataclass(frozen=True)
class Weights:
    """The files that hold the tensors of a path. index: the file of each tensor, where several files share them."""

    files: list[Path]
    index: dict[str, str] = field(default_factory=dict)


def weights_of(path: Path) -> Weights:
    """`path` itself, or in a folder model.safetensors, pytorch_model.bin, the files of their index, or one alone.

    Raises:
        CheckpointError: there are none, or their names are not those of files with tensors.
    """
    finish_replacing(path)
    if path.is_dir():
        return _in_folder(path)
    if path.exists() and not path.is_file():
        raise CheckpointError(
            f"{path} is neither a file nor a folder: give a checkpoint folder, or a file that ends in {ENDS}"
        )
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist: give a checkpoint folder, or a file that ends in {ENDS}")
    suffix = path.suffix.lower()
    if suffix in REFUSED:
        what, instead = REFUSED[suffix]
        raise CheckpointError(f"{path} is {what}, and is not opened: {instead}")
    if suffix not in READ:
        raise CheckpointError(f"{path} must be a checkpoint folder or end in {ENDS}")
    return Weights([path])


def _in_folder(folder: Path) -> Weights:
    for name in (SAFETENSORS, PYTORCH):
        if (folder / name).is_file():
            return Weights([folder / name])
        if (folder / f"{name}.index.json").is_file():
            return _indexed(folder / f"{name}.index.json", Path(name).suffix)
    alone = [file for file in folder.iterdir() if file.suffix.lower() in READ and file.is_file()]
    if len(alone) == 1:
        return Weights(alone)
    inside = [file.parent for pattern in INSIDE for file in folder.glob(pattern)]
    if inside and not alone:
        raise CheckpointError(
            f"{folder} is a folder of checkpoints, and none itself: give one of them, such as "
            f"{min(inside).relative_to(folder)}"
        )
    raise CheckpointError(
        f"{folder} is a folder without {SAFETENSORS}: give a checkpoint folder, or a file that ends in {ENDS}"
    )


def _indexed(index: Path, suffix: str) -> Weights:
    said = read_json(index)
    places = said.get("weight_map") if isinstance(said, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise CheckpointError(f"{index} must say in weight_map in which file each tensor is")
    names = sorted(set(places.values()))
    for name in names:
        if not name.endswith(suffix) or {"/", "\\", ":", "\0"} & set(name) or name.startswith("."):
            raise CheckpointError(f"{index} names {name[:60]!r}, which is no {suffix} file of its folder")
        if not (index.parent / name).is_file():
            raise CheckpointError(f"{index} names {name[:60]!r}, which is not in its folder: put it there")
    if len(names) > MOST_SHARDS:
        raise CheckpointError(f"{index} names {len(names):,} files: at most {MOST_SHARDS:,} are read")
    return Weights([index.parent / name for name in names], places)


def require_weights_themselves(file: Path, size: int) -> None:
    """
    Raises:
        CheckpointError: a git that knows nothing of large files has left a note in their place.
    """
    if size < POINTER_MOST and file.read_bytes().startswith(POINTER):
        raise CheckpointError(f"{file} only points to the weights, which Git LFS keeps: fetch them with git lfs pull")


def require_indexed(found: dict[str, str], weights: Weights) -> None:
    """Refuse an index that says something else than its files. found: the file of each tensor.

    Raises:
        CheckpointError: a tensor is not in the file that the index says.
    """
    for name, file in weights.index.items():
        if found.get(name) != file:
            raise CheckpointError(
                f"{weights.files[0].parent}: the index says that {name[:60]!r} is in {file[:60]!r}, where it is not: "
                "get the folder again from where it comes"
            )


# Files of weights that are no model by themselves, recognised by their names and those of their tensors.

# How names of queries end in Hugging Face's families, whose layouts are told apart by a config.json alone; fairseq and
# torchtune have some of these names too.
QUERIES = (
    "attention.self.query.weight",  # BERT, RoBERTa, ELECTRA
    "attention.q_lin.weight",  # DistilBERT
    "attention.attn.q.weight",  # MPNet
    "attn.q_proj.weight",  # Llama, Mistral, Qwen, Gemma, OPT, BART, Marian
    "attn.qkv_proj.weight",  # Phi-3
    "attention.query_key_value.weight",  # GPT-NeoX, BLOOM, Falcon
    "SelfAttention.q.weight",  # T5
)
GPT2 = "h.0.attn.c_attn.weight"  # also nanoGPT's, whose matrix is the transpose of this one
ADAPTER = (".lora_A.", ".lora_embedding_A")
LLAMA_CPP = ".gguf"
SHARD = re.compile(r"-\d{5}-of-\d{5}\.")  # one of several files of a model


def require_whole(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse what no network can be made of, however well it is known. shapes: of the file's tensors by name.

    Raises:
        CheckpointError: it is such a file; the sentence says what to open instead.
    """
    if file.suffix.lower() == LLAMA_CPP:
        raise CheckpointError(
            f"{file.name} is a GGUF file of llama.cpp, with which no network computes here: open the folder of Hugging "
            "Face that it was made from; its tensors can be looked at under Checkpoints → Read"
        )
    if any(part in name for name in shapes for part in ADAPTER):
        raise CheckpointError(
            f"{file.name} holds a LoRA adapter, which changes another model and is none itself: merge it into that "
            "model with peft (merge_and_unload), save that and open it; its tensors can be looked at under Checkpoints "
            "→ Read"
        )
    if SHARD.search(file.name):
        raise CheckpointError(
            f"{file.name} is by its name one of several files of a model: open their whole folder, with its "
            "config.json, or a .zip of it; its tensors can be looked at under Checkpoints → Read"
        )
    if any(_is_hugging_face(name, shape) for name, shape in shapes.items()):
        raise CheckpointError(
            f"{file.name} has weights named as Hugging Face (some also as fairseq or torchtune) names them, without "
            "the config.json that says how to compute with them: open the whole folder of the Hugging Face model, or a "
            ".zip of it; the tensors alone can be looked at under Checkpoints → Read"
        )


def _is_hugging_face(name: str, shape: tuple[int, ...]) -> bool:
    return name.endswith(QUERIES) or (name.endswith(GPT2) and len(shape) == 2 and shape[1] == 3 * shape[0])


# A part of a file as a tensor whose pages are read when they are used: for files that memory does not hold whole.

Refused = (RuntimeError, MemoryError)  # what libraries raise where the system maps no file as large as this one


def map_file(path: Path, start: int, count: int) -> Tensor:
    """So many bytes of a file. Writing to them changes no file.

    Raises:
        CheckpointError: not even they fit into memory.
    """
    if not count:
        return torch.empty(0, dtype=torch.uint8)
    try:
        return torch.from_numpy(np.memmap(path, np.uint8, "c", start, (count,)))
    except ValueError as error:
        raise CheckpointError(f"{path} has changed since it was listed: open it again") from error
    except (OSError, MemoryError) as error:
        raise CheckpointError(
            f"{path} holds a tensor of {count / 1e9:.1f} GB, more than can be had of memory: it is listed, not measured"
        ) from error
