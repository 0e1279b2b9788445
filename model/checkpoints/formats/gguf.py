"""GGUF files, llama.cpp's format, quantized or not: their header, checked here, with its records, and the values of
their tensors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The package `gguf` supplies the types and
dequantizes values; its own reader of headers trusts the file and is not used.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.checkpoints.formats.safetensors import FormatError, require_name
from model.checkpoints.formats.weight_files import map_file
from model.runtime.errors import CheckpointError, UnmeasuredError
from model.runtime.files import open_file

MOST_TENSORS = 50_000
MOST_RECORDS = 100_000
MOST_ITEMS = 2_000_000  # texts in lists: tokens and merges
MOST_DIMENSIONS = 4
MOST_UNPACKED = 1 << 28  # values of a quantized tensor that is looked at: 1 GiB
LONGEST_TEXT = 1 << 20  # bytes of a text that is kept
MOST_TEXT = 1 << 24  # bytes of all texts that are kept, and four times as many of those in one list
PIECE = 1 << 20  # elements dequantized at a time
FLOAT, STRING, ARRAY = 6, 8, 9
# numpy's types of values by the format's numbers of them
NUMBERS = ((0, "u1"), (1, "i1"), (2, "<u2"), (3, "<i2"), (4, "<u4"), (5, "<i4"), (6, "<f4"), (7, "?"), (10, "<u8"))
SCALARS = {kind: np.dtype(name) for kind, name in (*NUMBERS, (11, "<i8"), (12, "<f8"))}
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    **{f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class GgufTensor:
    """Header entry of a tensor. kind: name of its type in llama.cpp. start: offset of its values in the file, in bytes.
    bytes: size of its values there.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    bytes: int


@dataclass(frozen=True)
class GgufList:
    """Record that is a list. kind: number of its values' type. start: offset of the first in the file, in bytes."""

    kind: int
    count: int
    start: int


Record = bool | int | float | str | GgufList


class GgufFile:
    """A GGUF file whose header was read; values are read one tensor at a time.

    records: by name; texts of more than a megabyte are left out.

    Raises:
        CheckpointError: the package `gguf` is not installed, or the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        types = _types(path)
        with self._content() as content:
            header = _Header(content, types)
            self.tensors, self.records = header.tensors(), header.records

    @contextmanager
    def _content(self) -> Iterator[mmap.mmap]:
        """Block with the mapped file, in which damage becomes a sentence.

        Raises:
            CheckpointError: the file is damaged.
        """
        try:
            with open_file(self.path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield content
        except (FormatError, CheckpointError, OSError, ValueError, struct.error) as error:
            why = "its header goes on beyond its end" if isinstance(error, struct.error) else str(error)
            raise CheckpointError(
                "{path} cannot be read as GGUF: {why}; get the file again", path=self.path, why=why
            ) from error

    def values(self, name: str) -> list[Any]:
        """Values of a record that is a list of texts or of numbers; empty: there is no such list.

        Raises:
            CheckpointError: a text is not in UTF-8, the list is too long, or the file has changed.
        """
        if not isinstance(record := self.records.get(name), GgufList):
            return []
        if record.count > MOST_ITEMS:
            raise CheckpointError(
                "{file} has {count:,} values in {name!r}: at most {most_items:,}",
                file=self.path.name,
                count=record.count,
                name=name,
                most_items=MOST_ITEMS,
            )
        with self._content() as content:
            header = _Header(content, {}, record.start)
            if record.kind == STRING:
                return header.texts(record.count)
            begin = header.at
            header.skip(record.count * SCALARS[record.kind].itemsize)
            return list(np.frombuffer(content[begin : header.at], SCALARS[record.kind]).tolist())

    def load(self, tensor: GgufTensor, bounded: bool = True) -> Tensor:
        """Values of a tensor in its own shape, quantized ones as float32. bounded: whether a tensor whose values would
        take more than 1 GiB is refused.

        Raises:
            UnmeasuredError: the package cannot dequantize this type, or the result would be too large.
            CheckpointError: the memory does not hold the values.
        """
        if not tensor.bytes:
            return torch.empty(tensor.shape)
        stored = map_file(self.path, tensor.start, tensor.bytes)
        if tensor.kind in DTYPES:
            return stored.view(DTYPES[tensor.kind]).reshape(tensor.shape)
        if not loaded_dtype(tensor, bounded):
            raise UnmeasuredError(
                "{name!r} of type {kind} and {prod:,} values is not turned into numbers: convert the file to F16",
                name=tensor.name,
                kind=tensor.kind,
                prod=math.prod(tensor.shape),
            )
        elements, size = _block_size(tensor.kind)
        blocks = stored.numpy().reshape(-1, size)
        values = np.empty((len(blocks), elements), dtype=np.float32)
        step = max(1, PIECE // elements)
        for first in range(0, len(blocks), step):  # the package's intermediate arrays are as large as several copies
            piece = blocks[first : first + step].reshape(1, -1)  # one row: the package loops over rows in Python
            values[first : first + step] = _dequantized(piece, tensor.kind).reshape(-1, elements)
        return torch.from_numpy(values).reshape(tensor.shape)


def loaded_dtype(tensor: GgufTensor, bounded: bool = True) -> str:
    """Name of the torch type that `GgufFile.load` gives; empty where the package cannot dequantize the tensor, or where
    its values would take much more memory than the file, if that is `bounded`.
    """
    if tensor.kind in DTYPES:
        return str(DTYPES[tensor.kind]).removeprefix("torch.")
    fits = not bounded or math.prod(tensor.shape) <= MOST_UNPACKED
    return "float32" if fits and _can_dequantize(tensor.kind) else ""


@cache
def _can_dequantize(kind: str) -> bool:
    try:
        _dequantized(np.zeros((1, _block_size(kind)[1]), dtype=np.uint8), kind)
    except (NotImplementedError, ValueError):
        return False
    return True


def _block_size(kind: str) -> tuple[int, int]:
    """Elements and bytes of a quantization block."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return elements, size


def _dequantized(rows: np.ndarray, kind: str) -> np.ndarray:
    from gguf import GGMLQuantizationType, quants

    with np.errstate(all="ignore"):  # scales of damaged blocks may be NaN
        return quants.dequantize(rows, GGMLQuantizationType[kind])


Types = dict[int, tuple[str, int, int]]  # name, elements of a block, bytes of a block


def _types(path: Path) -> Types:
    try:
        from gguf import GGML_QUANT_SIZES
    except ImportError as error:
        raise CheckpointError(
            "{file} needs the package gguf, which is not installed: pip install gguf", file=path
        ) from error
    return {kind.value: (kind.name, elements, size) for kind, (elements, size) in GGML_QUANT_SIZES.items()}


class _Header:
    """Header of a mapped file, read once from front to end; a read beyond the file raises struct.error.

    at: place of the next read.
    """

    def __init__(self, content: mmap.mmap, types: Types, at: int = 0) -> None:
        self.content, self.types, self.at = content, types, at
        self.items = self.text_bytes = 0
        self.alignment = 32
        self.records: dict[str, Record] = {}

    def tensors(self) -> list[GgufTensor]:
        if self.content[:4] != b"GGUF":
            raise FormatError("it does not begin with GGUF")
        self.at = 4
        version, tensors, records = self.number("<I"), self.number("<Q"), self.number("<Q")
        if version not in (2, 3):
            raise FormatError("its version is {version}, and 2 and 3 are read", version=version)
        if tensors > MOST_TENSORS or records > MOST_RECORDS:
            raise FormatError("it claims {tensors:,} tensors and {records:,} records", tensors=tensors, records=records)
        for _ in range(records):
            self.record()
        entries = [self.entry() for _ in range(tensors)]
        begin = -(-self.at // self.alignment) * self.alignment
        return self.placed(entries, begin)

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.content, self.at)
        self.at += struct.calcsize(form)
        return value

    def skip(self, count: int) -> None:
        if count > len(self.content) - self.at:
            raise FormatError("its header goes on beyond its end")
        self.at += count

    def text(self, longest: int) -> str:
        length = self.number("<Q")
        if length > longest:
            raise FormatError("it has a name of {length:,} bytes", length=length)
        begin = self.at
        self.skip(length)
        return self.content[begin : self.at].decode("utf-8")

    def record(self) -> None:
        """Read one key and its value."""
        name, kind = self.text(1000), self.number("<I")
        if name in self.records:
            raise FormatError("it says {name!r} twice", name=name[:60])
        if name == "general.alignment":
            if kind != 4:
                raise FormatError("its alignment is no whole number")
            self.alignment = self.number("<I")
            if self.alignment not in {1 << power for power in range(3, 17)}:
                raise FormatError("its alignment is {alignment}", alignment=self.alignment)
        elif kind == ARRAY:
            self.records[name] = self.array(self.number("<I"), self.number("<Q"))
        elif kind == STRING:
            begin = self.at + 8
            self.skip(self.number("<Q"))
            if self.at - begin <= min(LONGEST_TEXT, MOST_TEXT - self.text_bytes):
                self.text_bytes += self.at - begin
                self.records[name] = self.content[begin : self.at].decode("utf-8", "replace")
        else:
            self.records[name] = self.value(kind)

    def value(self, kind: int) -> bool | int | float:
        if kind not in SCALARS:
            raise FormatError("it has a record of the type {kind}, which the format has not", kind=kind)
        begin = self.at
        self.skip(SCALARS[kind].itemsize)
        number = np.frombuffer(self.content[begin : self.at], SCALARS[kind])[0]
        # 1e-06 in float32 is 1e-06, as the config.json had it that the file was made from.
        return float(str(number)) if kind == FLOAT else number.item()

    def array(self, kind: int, count: int) -> GgufList:
        start = self.at
        if kind in SCALARS:
            self.skip(count * SCALARS[kind].itemsize)
            return GgufList(kind, count, start)
        self.items += count
        if kind != STRING or self.items > MOST_ITEMS:
            raise FormatError("it claims a list of {count:,} values of the type {kind}", count=count, kind=kind)
        for _ in range(count):
            self.skip(self.number("<Q"))
        return GgufList(kind, count, start)

    def texts(self, count: int) -> list[str]:
        """Texts of a list that begins here."""
        begin, texts = self.at, []
        for _ in range(count):
            texts.append(self.text(LONGEST_TEXT))
            if self.at - begin > 4 * MOST_TEXT:
                raise FormatError("it has a list of more than {most_text:,} bytes", most_text=4 * MOST_TEXT)
        return texts

    def entry(self) -> GgufTensor:
        """The next tensor, with `start` counted from the end of the header."""
        name, dimensions = self.text(1000), self.number("<I")
        require_name(name)
        if dimensions > MOST_DIMENSIONS:
            raise FormatError("{file!r} has {dimensions} dimensions", file=name, dimensions=dimensions)
        shape = [self.number("<Q") for _ in range(dimensions)]
        if math.prod(max(1, size) for size in shape) >= 1 << 62:  # which torch cannot count
            raise FormatError("{file!r} claims the shape {shape}", file=name, shape=shape)
        kind, start = self.number("<I"), self.number("<Q")
        if kind not in self.types:
            raise FormatError(
                "{file!r} is of the type {kind}, which the package gguf does not know", file=name, kind=kind
            )
        label, elements, size = self.types[kind]
        if elements > 1 and (not shape or shape[0] % elements):
            raise FormatError(
                "{file!r} of shape {shape} does not consist of {label}'s blocks of {elements}",
                file=name,
                shape=shape,
                label=label,
                elements=elements,
            )
        return GgufTensor(name, label, tuple(reversed(shape)), start, math.prod(shape) // elements * size)

    def placed(self, entries: list[GgufTensor], begin: int) -> list[GgufTensor]:
        """The tensors in the order of their values, with `start` counted from the beginning of the file."""
        tensors, end = [], 0
        for entry in sorted(entries, key=lambda entry: (entry.start, entry.bytes)):
            start, size = entry.start, entry.bytes
            if start < end or start % self.alignment or begin + start + size > max(len(self.content), begin):
                raise FormatError(
                    "{name!r} claims {size:,} bytes from {start:,} on, which are not its own",
                    name=entry.name,
                    size=size,
                    start=start,
                )
            end = start + size
            tensors.append(replace(entry, start=begin + start))
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise FormatError("it holds two tensors of one name")
        return tensors
