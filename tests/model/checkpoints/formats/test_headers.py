"""Headers of safetensors and GGUF files made to harm: each is refused, and large files are listed."""

import json
import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from model.analysis.weights.statistics import readable
from model.checkpoints.formats import gguf as safe_gguf
from model.checkpoints.formats.safetensors import read_header
from model.checkpoints.tensors import tensor_table
from model.runtime.errors import CheckpointError, UnmeasuredError
from tests.model.tensor_files import raw_safetensors


def entry(start=0, end=8, shape=(2,), dtype="F32", **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end], **more}


DOUBLED = json.dumps({"a": entry()})[:-1].encode() + b"," + json.dumps({"a": entry()})[1:].encode()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (DOUBLED, "it says 'a' twice"),
        (b'{"a":' + b"[" * 100_000, "it nests too deep"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number has 5,000 digits"),
        (b'{"\xff": 1}', "can't decode byte 0xff"),
        (b"[]", "its header is not an object but list"),
        (b'{"a":[' + b"0," * 1_000_001 + b"0]}", "more than 1,000,000 values"),
        ({"a": entry(), "b": entry()}, "the values of 'b' begin at 0, those before end at 8"),
        ({"a": entry(0, 4, [1]), "b": entry(8, 8, [0])}, "the values of 'b' begin at 8, those before end at 4"),
        ({"a": entry(0, 4, [1])}, "its tensors have 4 bytes of values, the file 8"),
        ({"a": entry(0, 16, [4])}, "its tensors have 16 bytes of values, the file 8"),
        ({"a": entry(8, 0, [-2])}, "the shape of 'a' is not a list of up to 32 sizes"),
        ({"a": entry(shape=[1] * 33)}, "the shape of 'a' is not a list of up to 32 sizes"),
        ({"a": entry(shape=[2.0])}, "the shape of 'a' is not"),
        ({"a": entry(shape=[True, 2])}, "the shape of 'a' is not"),
        ({"a": entry(shape=[1 << 62, 4])}, "does not fit its data_offsets"),
        ({"a": entry(shape=[1 << 63])}, "the shape of 'a' is not"),
        ({"a": entry(0, 1 << 64)}, "data_offsets of 'a' are not two places"),
        ({"a": entry(dtype="OBJECT")}, "of the type 'OBJECT', which the format has not"),
        ({"a": entry(dtype=["F32"])}, "which the format has not"),
        ({"a": entry(code="1")}, "is not dtype, shape and data_offsets"),
        ({"a": ["not", "a", "tensor"]}, "is not dtype, shape and data_offsets"),
        ({"a": entry(shape=[1 << 40])}, "does not fit its data_offsets"),
        ({"a\n": entry()}, "a name has 1 to 250 characters that can be printed"),
        ({"\ud800": entry()}, "a name has 1 to 250 characters that can be printed"),
        ({"a" * 251: entry()}, "a name has 1 to 250 characters"),
        ({"a": entry(), "__metadata__": {"format": 1}}, "its __metadata__ is not a list of texts by name"),
    ],
)
def test_a_harmful_header_is_refused(header, message, tmp_path):
    with pytest.raises(CheckpointError, match=message) as refused:
        tensor_table(raw_safetensors(tmp_path / "x.safetensors", header, bytes(8)))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("length", [0, 1, 10**8 + 1, 2**63, 2**64 - 1])
def test_a_header_of_another_length_is_refused(length, tmp_path):
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        tensor_table(raw_safetensors(tmp_path / "x.safetensors", {"a": entry()}, bytes(8), length))


def test_a_tebibyte_is_listed_without_reading_it(tmp_path):
    size = 1 << 40  # to read it takes an hour
    path = raw_safetensors(tmp_path / "x.safetensors", {"a": entry(0, size, [size // 8, 2])})
    os.truncate(path, path.stat().st_size + size)
    (info,) = tensor_table(path)
    assert (info.bytes, info.shape) == (size, (size // 8, 2))


def test_the_header_agrees_with_the_library(tmp_path):
    """Every bundled file, against what safetensors says of it."""
    from safetensors import safe_open

    for folder in ("sort", "eng-cmn"):
        path = f"checkpoints/{folder}/model.safetensors"
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        assert {each.name: each.shape for each in read_header(Path(path))} == shapes


def gguf_file(path, tensors=(("a", (2, 3), 0, 0),), records=b"", count=None, data=bytes(64), version=3):
    """tensors: name, sizes from the innermost on, number of the type, place."""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), count if count is not None else int(bool(records)))
    for name, sizes, kind, place in tensors:
        records += text(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        records += struct.pack("<IQ", kind, place)
    content = head + records
    path.write_bytes(content + bytes(-len(content) % 32) + data)
    return path


def record(name, kind, value):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


def test_gguf_is_listed_as_the_package_reads_it(tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_token_list(["a", "b", "的"])
    writer.add_uint32("some", 7)
    writer.add_tensor("plain", values)
    writer.add_tensor("half", values.astype(np.float16))
    writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("long", packed.reshape(-1), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    table = {info.name: info for info in tensor_table(tmp_path / "x.gguf")}
    assert {name: (info.shape, info.dtype, info.bytes) for name, info in table.items()} == {
        "plain": ((4, 64), "F32", 1024),
        "half": ((4, 64), "F16", 512),
        "packed": ((4, 64), "Q8_0", packed.nbytes),
        "long": ((256,), "Q8_0", packed.nbytes),
    }
    assert np.array_equal(table["plain"].load().numpy(), values)
    assert np.array_equal(table["half"].load().numpy(), values.astype(np.float16))
    expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
    assert np.array_equal(table["packed"].load().numpy(), expected)
    assert [table[name].values for name in ("plain", "half", "packed")] == ["float32", "float16", "float32"]
    assert [table[name].quantized for name in ("plain", "half", "packed")] == [False, False, True]
    assert np.array_equal(table["long"].load().numpy(), expected.reshape(-1))
    pieces = []
    numbers = safe_gguf._dequantized
    monkeypatch.setattr(safe_gguf, "_dequantized", lambda rows, kind: pieces.append(rows.size) or numbers(rows, kind))
    monkeypatch.setattr(safe_gguf, "PIECE", 96)  # three blocks at a time, also of a single row
    assert np.array_equal(table["packed"].load().numpy(), expected)
    assert np.array_equal(table["long"].load().numpy(), expected.reshape(-1))
    assert pieces == 2 * [3 * 34, 3 * 34, 2 * 34]
    monkeypatch.setattr(safe_gguf, "MOST_UNPACKED", 255)  # a small file may hold many values
    (large,) = (info for info in tensor_table(tmp_path / "x.gguf") if info.name == "packed")
    assert not readable(large)
    with pytest.raises(UnmeasuredError, match="'packed' of type Q8_0 and 256 values is not turned into numbers"):
        large.load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 1}, "its version is 1"),
        ({"count": 1 << 60}, "it claims 1 tensors and"),
        ({"count": 5}, "cannot be read as GGUF"),
        ({"records": record("x", 9, struct.pack("<IQ", 8, 1 << 60))}, "it claims a list of 1,152,921,504,606,846,976"),
        ({"records": record("x", 9, struct.pack("<IQ", 4, 1 << 60))}, "goes on beyond its end"),
        ({"records": record("x", 9, struct.pack("<IQ", 9, 2))}, "it claims a list of 2 values of the type 9"),
        ({"records": record("x", 8, struct.pack("<Q", 1 << 60))}, "goes on beyond its end"),
        ({"records": record("x", 99, b"")}, "a record of the type 99"),
        ({"records": record("x", 4, bytes(4)) * 2, "count": 2}, "it says 'x' twice"),
        ({"records": record("x", 9, struct.pack("<IQ", 6, 1 << 62))}, "goes on beyond its end"),
        ({"tensors": [("a", (0, 1 << 63), 0, 0)]}, "'a' claims the shape"),
        ({"records": record("general.alignment", 4, struct.pack("<I", 0))}, "its alignment is 0"),
        ({"tensors": [("a", (1 << 62, 4), 0, 0)]}, "'a' claims"),
        ({"tensors": [("a", (2,), 0, 0), ("a", (2,), 0, 32)]}, "two tensors of one name"),
        ({"tensors": [("a", (2,), 0, 0), ("b", (2,), 0, 0)]}, "'b' claims 8 bytes from 0 on"),
        ({"tensors": [("a", (2,), 0, 1 << 63)]}, "'a' claims"),
        ({"tensors": [("a", (2,), 999, 0)]}, "of the type 999"),
        ({"tensors": [("a", (3,), 8, 0)]}, "does not consist of Q8_0's blocks of 32"),
        ({"tensors": [("a", (1,) * 9, 0, 0)]}, "has 9 dimensions"),
        ({"tensors": [("a\n", (1,), 0, 0)]}, "characters that can be printed"),
    ],
)
def test_a_harmful_gguf_is_refused(options, message, tmp_path):
    assert [info.shape for info in tensor_table(gguf_file(tmp_path / "y.gguf"))] == [(3, 2)]
    with pytest.raises(CheckpointError, match=message):
        tensor_table(gguf_file(tmp_path / "x.gguf", **options))


def packed_text(*values: bytes) -> bytes:
    return b"".join(struct.pack("<Q", len(value)) + value for value in values)


def test_records_are_read_as_they_were_written(tmp_path, monkeypatch):
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    values = {"uint8": 200, "int8": -5, "uint16": 65535, "int16": -3, "uint32": 1 << 31, "int32": -(1 << 31)}
    values |= {"uint64": 1 << 63, "int64": -(1 << 63), "float64": 1 / 3, "bool": True, "string": "的 é"}
    for kind, value in values.items():
        getattr(writer, f"add_{kind}")(kind, value)
    writer.add_float32("float32", 1e-6)  # in float32 it is 9.99999997e-07
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("scores", [0.5, -1.25])
    writer.add_array("tokens", ["a", "的", ""])
    writer.add_tensor("a", np.ones(4, np.float32))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    file = safe_gguf.GgufFile(tmp_path / "x.gguf")
    assert {name: file.records[name] for name in values} == values
    assert file.records["general.architecture"] == "llama"
    assert file.records["float32"] == 1e-6
    assert isinstance(file.records["bool"], bool)
    assert [file.values(name) for name in ("numbers", "scores", "tokens")] == [
        [1, -2, 3],
        [0.5, -1.25],
        ["a", "的", ""],
    ]
    assert file.values("missing") == file.values("float32") == []
    monkeypatch.setattr(safe_gguf, "MOST_ITEMS", 2)
    with pytest.raises(CheckpointError, match="has 3 values in 'numbers': at most 2"):
        file.values("numbers")


def test_texts_of_strangers_are_bounded(tmp_path, monkeypatch):
    """A text that is too long is left out, one that is not UTF-8 is kept readable; a list of such is refused."""
    monkeypatch.setattr(safe_gguf, "LONGEST_TEXT", 10)
    monkeypatch.setattr(safe_gguf, "MOST_TEXT", 12)
    texts = {"long": b"x" * 11, "first": b"x" * 9, "strange": b"\xff", "last": b"x" * 3}
    records = b"".join(record(name, 8, packed_text(text)) for name, text in texts.items())
    records += record("list", 9, struct.pack("<IQ", 8, 2) + packed_text(b"a", b"\xff"))
    records += record("lists", 9, struct.pack("<IQ", 8, 1) + packed_text(b"x" * 11))
    records += record("many", 9, struct.pack("<IQ", 8, 8) + packed_text(*[b"x" * 9] * 8))
    file = safe_gguf.GgufFile(gguf_file(tmp_path / "x.gguf", records=records, count=7))
    kept = {name: value for name, value in file.records.items() if isinstance(value, str)}
    assert kept == {"first": "x" * 9, "strange": "\N{REPLACEMENT CHARACTER}"}  # twelve bytes are not exceeded
    for name, message in (("list", "can't decode"), ("lists", "a name of 11 bytes"), ("many", "of more than 48 bytes")):
        with pytest.raises(CheckpointError, match=message):
            file.values(name)


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(CheckpointError, match="pip install gguf"):
        tensor_table(gguf_file(tmp_path / "x.gguf"))
