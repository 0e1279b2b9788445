"""The tensors of a file or checkpoint folder: names, shapes and sizes at once, their values one tensor at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoints.formats.gguf import GgufFile, loaded
from model.checkpoints.formats.pickle import materialize, read_pickled, storage_place
from model.checkpoints.formats.safetensors import DTYPES, SafeValues, read_header
from model.checkpoints.formats.weight_files import require_indexed, require_weights_themselves, weights_of
from model.runtime.errors import CheckpointError, UnmeasuredError, first_line

PIECE = 1 << 16  # elements turned into float64 at a time
TRAINING = re.compile(r"optim|(lr_)?sched|scaler")  # how names begin of what only a training needs
# Kept masks of GPT-2's families, which have the name of a bias of one dimension; and tables that nobody trains.
BUFFER = re.compile(r"\.(attn|attention|self_attn)\.(bias|masked_bias|mask)$")
TABLE = re.compile(r"(\binv_freq|\b(position|token_type)_ids|num_batches_tracked|_embed\.1\.pe)$")


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
    loaded: torch's name of the type of its values, where dtype is a name of another format.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    place: str
    load: Callable[[], Tensor] = field(repr=False, compare=False)
    loaded: str = ""

    @property
    def values(self) -> str:
        """The type of its values: for what is computed with them."""
        return self.loaded or self.dtype

    @property
    def quantized(self) -> bool:
        """Whether its values are made of fewer bits than their type has."""
        return bool(self.loaded) and self.bytes < self.elements * getattr(torch, self.loaded).itemsize

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def measure(self) -> Measures:
        """Read the values, a piece at a time.

        Raises:
            UnmeasuredError: torch cannot compute with their type.
        """
        try:
            return measure(self.load())
        except RuntimeError as error:
            reason = f"{self.dtype}, the type of {self.name!r}: {first_line(error)}"
            raise UnmeasuredError(f"torch cannot compute with {reason}") from error


def tensor_table(path: Path | str) -> list[TensorInfo]:
    """The tensors of a checkpoint folder or of a .safetensors, .pt, .pth, .bin or .gguf file, in the order of the file.

    Values are read when `TensorInfo.load` or `measure` asks for them.

    Raises:
        CheckpointError: there is no such file, it is damaged, or holds something else than tensors; the sentence says
            which, and what to do.
    """
    weights = weights_of(Path(path))
    infos: list[TensorInfo] = []
    found: dict[str, str] = {}
    for file in weights.files:
        stamp = _stamp(file)
        require_weights_themselves(file, stamp[1])
        for info in TABLES.get(file.suffix.lower(), _read_pickled)(file):
            if found.setdefault(info.name, file.name) != file.name:
                raise CheckpointError(f"{path} holds {info.name!r} twice, in {found[info.name]} and in {file.name}")
            infos.append(replace(info, load=partial(_load, file, stamp, info.load)))
    require_indexed(found, weights)
    return infos


def read_tensors(path: Path | str) -> dict[str, Tensor]:
    """Every tensor of the same paths by its name. Values stay in the files until they are used.

    Raises:
        CheckpointError: as of `tensor_table`.
    """
    return {info.name: info.load() for info in tensor_table(path)}


def size(table: Iterable[TensorInfo]) -> tuple[int, int]:
    """Parameters of the model and bytes of the file, a tensor that lies in another's place counted once."""
    own = [info for info in table if info.place == info.name]
    return sum(info.elements for info in own if is_parameter(info)), sum(info.bytes for info in own)


def is_of_training(name: str) -> bool:
    """Whether it is an optimizer's, or of another part of what only a training needs."""
    return bool(TRAINING.match(name))


def is_parameter(info: TensorInfo) -> bool:
    """Whether a model learned it: not what belongs to its training, nor masks, counts and tables that it only keeps."""
    mask = BUFFER.search(info.name) and (len(info.shape) != 1 or info.values == "bool")
    return not (is_of_training(info.name) or mask or TABLE.search(info.name))


def _stamp(file: Path) -> tuple[int, int, int]:
    said = file.stat()
    return said.st_ino, said.st_size, said.st_mtime_ns


def _load(file: Path, stamp: tuple[int, int, int], load: Callable[[], Tensor]) -> Tensor:
    """The values, if the file is still the one whose header was read: one that was cut short ends the whole process."""
    try:
        same = _stamp(file) == stamp
    except OSError as error:
        raise CheckpointError(f"{file} is no longer there: open it again") from error
    if not same:
        raise CheckpointError(f"{file} has changed since it was listed: open it again")
    return load()


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
    values = SafeValues(path)
    return [
        TensorInfo(
            entry.name,
            entry.shape,
            DTYPES.get(entry.dtype, entry.dtype),
            entry.end - entry.start,
            entry.name,
            load=partial(values.load, entry),
        )
        for entry in read_header(path)
    ]


def _read_gguf(path: Path) -> list[TensorInfo]:
    file = GgufFile(path)
    return [
        TensorInfo(
            block.name,
            block.shape,
            block.kind,
            block.bytes,
            block.name,
            load=partial(file.load, block),
            loaded=loaded(block),
        )
        for block in file.blocks
    ]


def _read_pickled(path: Path) -> list[TensorInfo]:
    places: dict[object, str] = {}
    infos = []
    for name, tensor in read_pickled(path).items():
        layout = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
        place = (storage_place(tensor), *layout) if tensor.numel() else name
        infos.append(
            TensorInfo(
                name,
                tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
                tensor.numel() * tensor.element_size(),
                places.setdefault(place, name),
                load=partial(materialize, path, tensor),
            )
        )
    return infos


TABLES: dict[str, Callable[[Path], list[TensorInfo]]] = {".safetensors": _read_safetensors, ".gguf": _read_gguf}
