"""The tensors of a file or checkpoint folder: names, shapes and sizes at once, their values one tensor at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.files import finish_replacing
from model.pickled import read_pickled

WEIGHTS = "model.safetensors"  # in a checkpoint folder, ours or of Hugging Face
PIECE = 1 << 16  # elements turned into float64 at a time
# What torch calls the types of a safetensors header; others are shown as the header has them.
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


@dataclass(frozen=True)
class Measures:
    """Of the elements that are finite: the Euclidean norm and the largest absolute value; and how many are NaN, ±∞."""

    norm: float
    largest: float
    nan: int
    infinite: int


@dataclass(frozen=True)
class TensorInfo:
    """What the file says of a tensor, without its values.

    place: the name of the first tensor in the same place of the file: for tied weights another's, else its own.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    place: str
    load: Callable[[], Tensor] = field(repr=False, compare=False)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def measure(self) -> Measures:
        """Read the values, a piece at a time.

        Raises:
            ValueError: torch cannot compute with their type.
        """
        try:
            return measure(self.load())
        except (SafetensorError, RuntimeError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"torch cannot compute with {self.dtype}, the type of {self.name!r}: {reason}") from error


def tensor_table(path: Path | str) -> list[TensorInfo]:
    """The tensors of a checkpoint folder, a .safetensors file, or a .pt or .pth file, in the order of the file.

    Values are read when `TensorInfo.measure` asks for them.

    Raises:
        ValueError: there is no such file, it is damaged, or holds something else than tensors; the message says which.
    """
    file = weights_file(Path(path))
    if file.suffix == ".safetensors":
        return _read_safetensors(file)
    tensors = read_pickled(file)
    places: dict[object, str] = {}
    infos = []
    for name, tensor in tensors.items():
        start = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        place = (*start, tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else name
        infos.append(
            TensorInfo(
                name,
                tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
                tensor.numel() * tensor.element_size(),
                places.setdefault(place, name),
                load=partial(tensors.__getitem__, name),
            )
        )
    return infos


def weights_file(path: Path) -> Path:
    """The file with the tensors: `path` itself, or model.safetensors in that folder.

    Raises:
        ValueError: there is none, or its name does not end as such a file's.
    """
    finish_replacing(path)
    file = path / WEIGHTS if path.is_dir() else path
    if not file.is_file():
        what = f"is a folder without {WEIGHTS}" if path.is_dir() else "does not exist"
        raise ValueError(f"{path} {what}: give a checkpoint folder, or a .safetensors, .pt or .pth file")
    if file.suffix not in (".safetensors", ".pt", ".pth"):
        raise ValueError(f"{path} must be a checkpoint folder or end in .safetensors, .pt or .pth")
    return file


def measure(tensor: Tensor) -> Measures:
    """Norm, largest value and what is not finite, in float64, a piece at a time. tensor: of any shape."""
    norm = largest = 0.0
    nan = infinite = 0
    for piece in tensor.detach().reshape(-1).split(PIECE):
        if not len(piece):
            continue
        values = piece.to(torch.complex128 if piece.is_complex() else torch.float64).abs()
        top = float(values.max())  # NaN where one is
        if not math.isfinite(top):
            nan, infinite = nan + int(values.isnan().sum()), infinite + int(values.isinf().sum())
            values = values[values.isfinite()]
            top = float(values.max()) if len(values) else 0.0
        if top:
            # Of values up to 1, so that no square leaves float64's range.
            norm = math.hypot(norm, top * float(torch.linalg.vector_norm(values / top)))
            largest = max(largest, top)
    return Measures(norm, largest, nan, infinite)


def _read_safetensors(path: Path) -> list[TensorInfo]:
    try:
        file = safe_open(path, framework="pt")  # checks that header and size agree
        with path.open("rb") as content:
            header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as safetensors: {error}") from error
    tensors = [(entry["data_offsets"], name, entry) for name, entry in header.items() if name != "__metadata__"]
    return [
        TensorInfo(
            name,
            tuple(entry["shape"]),
            DTYPES.get(entry["dtype"], entry["dtype"]),
            end - start,
            name,
            load=partial(file.get_tensor, name),
        )
        for (start, end), name, entry in sorted(tensors, key=lambda each: (each[0], each[1]))
    ]
