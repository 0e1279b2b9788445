"""The header of a GGUF file, read and checked here: llama.cpp's format, quantized or not.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The package `gguf` knows the types and turns their
values into numbers; it reads a header by believing it.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.checkpoints.formats.safetensors import FormatError, require_name
from model.checkpoints.formats.weight_files import map_file
from model.runtime.errors import CheckpointError, UnmeasuredError

MOST_TENSORS = 50_000
MOST_RECORDS = 100_000
MOST_ITEMS = 2_000_000  # texts in lists: tokens and merges
MOST_DIMENSIONS = 4
MOST_UNPACKED = 1 << 28  # values of a quantized tensor: 1 GiB
PIECE = 1 << 20  # elements turned into numbers at a time
STRING, ARRAY = 8, 9
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes by type of a value
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    **{f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class Block:
    """A tensor of a GGUF file. kind: its type as llama.cpp calls it. start: of its values in the file."""

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    bytes: int


class GgufFile:
    """An opened GGUF file: its tensors at once, their values one tensor at a time.

    Raises:
        CheckpointError: the package `gguf` is not there, or the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        types = _types(path)
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self.blocks = _Header(content, types).blocks()
        except (FormatError, CheckpointError, OSError, ValueError, struct.error) as error:
            why = "its header goes on beyond its end" if isinstance(error, struct.error) else str(error)
            raise CheckpointError(f"{path} cannot be read as GGUF: {why}; get the file again") from error

    def load(self, block: Block) -> Tensor:
        """The values, turned into float32 where they are quantized.

        Raises:
            UnmeasuredError: they cannot be, or are too many.
        """
        if not block.bytes:
            return torch.empty(block.shape)
        stored = map_file(self.path, block.start, block.bytes)
        if block.kind in DTYPES:
            return stored.view(DTYPES[block.kind]).reshape(block.shape)
        if not loaded(block):
            raise UnmeasuredError(
                f"{block.name!r} of type {block.kind} and {math.prod(block.shape):,} values is not turned into "
                "numbers: convert the file to F16"
            )
        elements, size = _block_size(block.kind)
        blocks = stored.numpy().reshape(-1, size)
        made = np.empty((len(blocks), elements), dtype=np.float32)
        step = max(1, PIECE // elements)
        for first in range(0, len(blocks), step):  # what it keeps on the way is as large as several copies
            piece = blocks[first : first + step].reshape(1, -1)  # one row: the package goes through rows in Python
            made[first : first + step] = _numbers(piece, block.kind).reshape(-1, elements)
        return torch.from_numpy(made).reshape(block.shape)


def loaded(block: Block) -> str:
    """torch's name of the type that its values are loaded in; empty where the package turns them into no numbers, or
    where these would take much more memory than the file.
    """
    if block.kind in DTYPES:
        return str(DTYPES[block.kind]).removeprefix("torch.")
    return "float32" if math.prod(block.shape) <= MOST_UNPACKED and _is_unpacked(block.kind) else ""


@cache
def _is_unpacked(kind: str) -> bool:
    try:
        _numbers(np.zeros((1, _block_size(kind)[1]), dtype=np.uint8), kind)
    except (NotImplementedError, ValueError):
        return False
    return True


def _block_size(kind: str) -> tuple[int, int]:
    """Elements and bytes of a block."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    elements, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return elements, size


def _numbers(rows: np.ndarray, kind: str) -> np.ndarray:
    from gguf import GGMLQuantizationType, quants

    with np.errstate(all="ignore"):  # scales of damaged blocks are none
        return quants.dequantize(rows, GGMLQuantizationType[kind])


Types = dict[int, tuple[str, int, int]]  # name, elements of a block, bytes of a block


def _types(path: Path) -> Types:
    try:
        from gguf import GGML_QUANT_SIZES
    except ImportError as error:
        raise CheckpointError(f"{path} needs the package gguf, which is not installed: pip install gguf") from error
    return {kind.value: (kind.name, elements, size) for kind, (elements, size) in GGML_QUANT_SIZES.items()}


class _Header:
    """Read once, from front to end; a place beyond the file is a struct.error."""

    def __init__(self, content: mmap.mmap, types: Types) -> None:
        self.content, self.types = content, types
        self.at = self.items = 0
        self.alignment = 32

    def blocks(self) -> list[Block]:
        if self.content[:4] != b"GGUF":
            raise FormatError("it does not begin with GGUF")
        self.at = 4
        version, tensors, records = self.number("<I"), self.number("<Q"), self.number("<Q")
        if version not in (2, 3):
            raise FormatError(f"its version is {version}, and 2 and 3 are read")
        if tensors > MOST_TENSORS or records > MOST_RECORDS:
            raise FormatError(f"it claims {tensors:,} tensors and {records:,} records")
        for _ in range(records):
            self.record()
        said = [self.said() for _ in range(tensors)]
        begin = -(-self.at // self.alignment) * self.alignment
        return self.placed(said, begin)

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
            raise FormatError(f"it has a name of {length:,} bytes")
        begin = self.at
        self.skip(length)
        return self.content[begin : self.at].decode("utf-8")

    def record(self) -> None:
        """A value by name, of which only the alignment matters here."""
        name, kind = self.text(1000), self.number("<I")
        if name == "general.alignment":
            if kind != 4:
                raise FormatError("its alignment is no whole number")
            self.alignment = self.number("<I")
            if self.alignment not in {1 << power for power in range(3, 17)}:
                raise FormatError(f"its alignment is {self.alignment}")
        elif kind == ARRAY:
            self.array(self.number("<I"), self.number("<Q"))
        else:
            self.value(kind)

    def value(self, kind: int) -> None:
        if kind == STRING:
            self.skip(self.number("<Q"))
        elif kind in SCALARS:
            self.skip(SCALARS[kind])
        else:
            raise FormatError(f"it has a record of the type {kind}, which the format has not")

    def array(self, kind: int, count: int) -> None:
        if kind in SCALARS:
            self.skip(count * SCALARS[kind])
            return
        self.items += count
        if kind != STRING or self.items > MOST_ITEMS:
            raise FormatError(f"it claims a list of {count:,} values of the type {kind}")
        for _ in range(count):
            self.value(kind)

    def said(self) -> tuple[str, str, tuple[int, ...], int, int]:
        """Name, type, shape, place after the header and bytes of a tensor."""
        name, dimensions = self.text(1000), self.number("<I")
        require_name(name)
        if dimensions > MOST_DIMENSIONS:
            raise FormatError(f"{name!r} has {dimensions} dimensions")
        shape = [self.number("<Q") for _ in range(dimensions)]
        kind, start = self.number("<I"), self.number("<Q")
        if kind not in self.types:
            raise FormatError(f"{name!r} is of the type {kind}, which the package gguf does not know")
        label, elements, size = self.types[kind]
        if elements > 1 and (not shape or shape[0] % elements):
            raise FormatError(f"{name!r} of shape {shape} does not consist of {label}'s blocks of {elements}")
        return name, label, tuple(reversed(shape)), start, math.prod(shape) // elements * size

    def placed(self, said: list[tuple[str, str, tuple[int, ...], int, int]], begin: int) -> list[Block]:
        blocks, end = [], 0
        for name, kind, shape, start, size in sorted(said, key=lambda each: (each[3], each[4])):
            if start < end or start % self.alignment or begin + start + size > max(len(self.content), begin):
                raise FormatError(f"{name!r} claims {size:,} bytes from {start:,} on, which are not its own")
            end = start + size
            blocks.append(Block(name, kind, shape, begin + start, size))
        if len({block.name for block in blocks}) < len(blocks):
            raise FormatError("it holds two tensors of one name")
        return blocks
