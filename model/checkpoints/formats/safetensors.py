"""The header of a safetensors file, read and checked here before any library sees the file.

Format: 8 bytes with the length of the header, little-endian; the header, a JSON object; the values, one tensor after
another without gaps (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import math
import os
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.checkpoints.formats.weight_files import MAPPING_ERRORS, map_file
from model.message import Message, MessageError
from model.runtime.errors import CheckpointError, UnmeasuredError, first_line
from model.runtime.file_pages import LOADED, close_read_files
from model.runtime.files import open_file, require_file
from model.runtime.untrusted_json import parse_json

LARGEST_HEADER = 100_000_000  # bytes: the format's own limit
LONGEST_NAME = 250
MOST_DIMENSIONS = 32
MOST_TENSORS = 100_000
BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
# Names in torch of the types of a safetensors header; others are shown as the header has them.
DTYPES = {
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "BF16": "bfloat16",
    "C64": "complex64",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


class Entry(NamedTuple):
    """A tensor in the header. dtype: its name in the format. start, end: offsets of its values after the header, in
    bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_header(path: Path) -> list[Entry]:
    """Tensors of the header in the order of their values; no value is read.

    Raises:
        CheckpointError: the file is no safetensors file, or its header and its size contradict each other.
    """
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, LARGEST_HEADER):
                raise FormatError(
                    Message(
                        "a header of {length:,} bytes, where the file has {size:,} and a header at most "
                        "{largest_header:,}",
                        length=length,
                        size=size,
                        largest_header=LARGEST_HEADER,
                    )
                    if size >= 8
                    else Message("{size} bytes are too few for a header", size=size)
                )
            content = file.read(length)
        return _entries(_object(content), size - 8 - length)
    except (FormatError, CheckpointError, OSError) as error:
        raise CheckpointError(
            "{file} cannot be read as safetensors: {error}; get the file again, or wait until it is written",
            file=path,
            error=error,
        ) from error


class SafeValues:
    """Values of a file whose header was read; the file is opened when the first of them is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None
        weakref.finalize(self, close_read_files).atexit = False

    def load(self, entry: Entry) -> Tensor:
        """Values of a tensor in the shape of its entry.

        Raises:
            UnmeasuredError: torch has no such type.
            CheckpointError: the file was replaced since its header was read, or the memory does not hold the tensor.
        """
        try:
            if self._file is None:
                self._file = safe_open(require_file(self.path), framework="pt")
            tensor: Tensor = self._file.get_tensor(entry.name)
        except MAPPING_ERRORS:
            return self._alone(entry)
        except (SafetensorError, OSError) as error:
            raise UnmeasuredError(
                "torch cannot compute with {dtype}, the type of {name!r}: {first_line}",
                dtype=entry.dtype,
                name=entry.name,
                first_line=first_line(error),
            ) from error
        if tuple(tensor.shape) != entry.shape:
            raise CheckpointError("{path} has changed since it was listed: open it again", path=self.path)
        LOADED.loaded(tensor)
        return tensor

    def _alone(self, entry: Entry) -> Tensor:
        """Values of a tensor of a file that the system cannot map whole."""
        dtype = getattr(torch, DTYPES.get(entry.dtype, ""), None)
        if dtype is None:
            reason = "it has no such type"
            raise UnmeasuredError(
                "torch cannot compute with {dtype}, the type of {name!r}: {reason}",
                dtype=entry.dtype,
                name=entry.name,
                reason=reason,
            )
        with open_file(self.path) as file:
            begin = 8 + int.from_bytes(file.read(8), "little")
        return map_file(self.path, begin + entry.start, entry.end - entry.start).view(dtype).reshape(entry.shape)


class FormatError(MessageError):
    """A contradiction between a file and its format, as the end of a sentence."""


def _object(content: bytes) -> dict[str, Any]:
    header = parse_json(content, "its header", parts=10 * MOST_TENSORS)
    if not isinstance(header, dict):
        raise FormatError("its header is not an object but {kind}", kind=type(header).__name__)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError("its __metadata__ is not a list of texts by name")
    return header


def _entries(header: dict[str, Any], size: int) -> list[Entry]:
    """Entries in the order of their values. size: bytes after the header, every one of which belongs to a tensor."""
    parsed = (_entry(name, record) for name, record in header.items())
    entries = sorted(parsed, key=lambda entry: (entry.start, entry.end))
    end = 0
    for entry in entries:
        if entry.start != end:
            raise FormatError(
                "the values of {name!r} begin at {start:,}, those before end at {end:,}",
                name=entry.name,
                start=entry.start,
                end=end,
            )
        end = entry.end
    if end != size:
        raise FormatError("its tensors have {end:,} bytes of values, the file {size:,}", end=end, size=size)
    return entries


def _entry(name: str, record: Any) -> Entry:
    require_name(name)
    if not isinstance(record, dict) or set(record) != {"dtype", "shape", "data_offsets"}:
        raise FormatError("what it says of {name!r} is not dtype, shape and data_offsets", name=name)
    dtype, shape, offsets = record["dtype"], record["shape"], record["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise FormatError(
            "{file!r} is of the type {dtype!r}, which the format has not", file=name, dtype=str(dtype)[:60]
        )
    if not _counts(shape) or len(shape) > MOST_DIMENSIONS:
        raise FormatError(
            "the shape of {name!r} is not a list of up to {most_dimensions} sizes",
            name=name,
            most_dimensions=MOST_DIMENSIONS,
        )
    if not _counts(offsets) or len(offsets) != 2:
        raise FormatError("the data_offsets of {name!r} are not two places in the file", name=name)
    bits = math.prod(shape) * BITS[dtype]
    if bits != 8 * (offsets[1] - offsets[0]):
        raise FormatError(
            "{file!r} of shape {shape} and type {dtype} does not fit its data_offsets {offsets}",
            file=name,
            shape=tuple(shape[:8]),
            dtype=dtype,
            offsets=tuple(offsets),
        )
    return Entry(name, dtype, tuple(shape), offsets[0], offsets[1])


def require_name(name: str) -> None:
    """Refuse a tensor's name that no program would write.

    Raises:
        CheckpointError: the name is empty, too long, or has characters that cannot be printed.
    """
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise CheckpointError(
            "a tensor is called {name!r}, and a name has 1 to {longest_name} characters that can be printed",
            name=name[:60],
            longest_name=LONGEST_NAME,
        )


def _counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 63 for value in values)
