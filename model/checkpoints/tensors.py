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

from model.checkpoints.formats.gguf import GgufFile, loaded_dtype
from model.checkpoints.formats.pickle import materialize, read_pickled, storage_place
from model.checkpoints.formats.safetensors import DTYPES, SafeValues, read_header
from model.checkpoints.formats.weight_files import require_indexed, require_weights_themselves, weights_of
from model.runtime import cancellation
from model.runtime.errors import CheckpointError, UnmeasuredError, first_line
from model.runtime.file_pages import in_turn

PIECE = 1 << 16  # elements turned into float64 at a time
TRAINING = re.compile(r"optim|(lr_)?sched|scaler")  # beginnings of names of a training's state
# Masks that GPT-2's families keep under the name of a bias of one dimension; and tables that are not trained.
BUFFER = re.compile(r"\.((self|cross)_?)?(att|attn|attention)\.(bias|masked_bias|mask)$")
TABLE = re.compile(
    r"(\binv_freq|\bfreqs(_cos|_sin|_cis)?|\b(position|token_type)_ids|num_batches_tracked|_embed\.1\.pe|\.tril|"
    r"\.pos_table|\.pos_emb\.encoding)$"
)


@dataclass(frozen=True)
class Measures:
    """Euclidean norm and largest absolute value of the finite elements; numbers of elements that are NaN and ±∞."""

    norm: float
    largest: float
    nan: int
    infinite: int


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as its file describes it, without its values.

    dtype: name of its type in torch, or in the file's format. bytes: size of its values in the file. place: name of the
    first tensor stored in the same place: another tensor's for tied weights, else its own. load: reads the values.
    loaded: name of the torch type that `load` gives, where dtype is a name of the file's format.
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
        """Name of the type that computations with the values have."""
        return self.loaded or self.dtype

    @property
    def quantized(self) -> bool:
        """True if the file stores the values with fewer bits than the loaded type has."""
        return bool(self.loaded) and self.bytes < self.elements * getattr(torch, self.loaded).itemsize

    @property
    def elements(self) -> int:
        """Number of values."""
        return math.prod(self.shape)

    def measure(self) -> Measures:
        """Measures of the values, read a piece at a time.

        Raises:
            UnmeasuredError: torch cannot compute with the type of the values.
        """
        try:
            return measure(self.load())
        except RuntimeError as error:
            reason = f"{self.dtype}, the type of {self.name!r}: {first_line(error)}"
            raise UnmeasuredError("torch cannot compute with {reason}", reason=reason) from error


def tensor_table(path: Path | str) -> list[TensorInfo]:
    """Tensors of a checkpoint folder or of a file that ends in one of `weight_files.READ`, in the order of the file.

    Values are read only by `TensorInfo.load` and `TensorInfo.measure`.

    Raises:
        CheckpointError: the file is missing, damaged, or holds something else than tensors; the sentence says which,
            and what to do.
    """
    weights = weights_of(Path(path))
    infos: list[TensorInfo] = []
    file_of: dict[str, str] = {}
    for file in weights.files:
        stamp = stamp_of(file)
        require_weights_themselves(file, stamp[1])
        for info in TABLES.get(file.suffix.lower(), _read_pickled)(file):
            if file_of.setdefault(info.name, file.name) != file.name:
                raise CheckpointError(
                    "{file} holds {name!r} twice, in {file_of} and in {name_2}",
                    file=path,
                    name=info.name,
                    file_of=file_of[info.name],
                    name_2=file.name,
                )
            infos.append(replace(info, load=partial(load_unchanged, file, stamp, info.load)))
    require_indexed(file_of, weights)
    return infos


def under(table: Iterable[TensorInfo], prefix: str, name: str) -> list[TensorInfo]:
    """Tensors of one of several models in a file, without the beginning of their names. name: of the file or folder.

    Raises:
        CheckpointError: no name begins so.
    """
    begin = f"{prefix}."
    inside = [info for info in table if info.name.startswith(begin)]
    if not inside:
        raise CheckpointError(
            "{file} has no tensors whose names begin with {begin}: leave prefix:{prefix} out",
            file=name,
            begin=begin,
            prefix=prefix,
        )
    places = [info.place.removeprefix(begin) if info.place.startswith(begin) else "" for info in inside]
    names = [info.name.removeprefix(begin) for info in inside]
    return [
        replace(info, name=short, place=place or short)
        for info, short, place in zip(inside, names, places, strict=True)
    ]


def described(name: str, tensor: Tensor) -> TensorInfo:
    """A tensor that was read, of any shape."""
    size, dtype = tensor.numel() * tensor.element_size(), str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(name, tuple(tensor.shape), dtype, size, name, load=lambda: tensor)


def read_tensors(path: Path | str) -> dict[str, Tensor]:
    """Every tensor of a path that `tensor_table` takes, by name and in its own shape; pages are read when used.

    Raises:
        CheckpointError: as `tensor_table` does.
    """
    return {info.name: info.load() for info in tensor_table(path)}


def size(table: Iterable[TensorInfo]) -> tuple[int, int]:
    """Number of parameters of the model and of bytes of the file; tied weights are counted once."""
    distinct = [info for info in table if info.place == info.name]
    return sum(info.elements for info in distinct if is_parameter(info)), sum(info.bytes for info in distinct)


def is_of_training(name: str) -> bool:
    """True if a tensor of this name belongs to an optimizer, a schedule of learning rates or a gradient scaler."""
    return bool(TRAINING.match(name))


def is_parameter(info: TensorInfo) -> bool:
    """True if the tensor is a trained weight: neither state of a training nor a mask, count or table kept as buffer."""
    mask = BUFFER.search(info.name) and (len(info.shape) != 1 or info.values == "bool")
    return not (is_of_training(info.name) or mask or TABLE.search(info.name))


def stamp_of(file: Path) -> tuple[int, int, int]:
    """Numbers that change when a file is replaced, written to or cut short."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def load_unchanged(file: Path, stamp: tuple[int, int, int], load: Callable[[], Tensor]) -> Tensor:
    """The values, if the file is the one whose header was read: reading a mapped file that was cut short would end the
    whole process. stamp: as of `stamp_of`, before the header was read.

    Raises:
        CheckpointError: the file has changed.
        SupersededError: nobody waits for it any more.
    """
    cancellation.check()
    try:
        same = stamp_of(file) == stamp
    except OSError as error:
        raise CheckpointError("{file} is no longer there: open it again", file=file) from error
    if not same:
        raise CheckpointError("{file} has changed since it was listed: open it again", file=file)
    return load()


def measure(tensor: Tensor) -> Measures:
    """Measures of a tensor of any shape, computed in float64, a piece at a time."""
    norm = largest = 0.0
    nan = infinite = 0
    for piece in in_turn(tensor.detach().reshape(-1).split(PIECE)):
        if not len(piece):
            continue
        values = piece.to(torch.complex128 if piece.is_complex() else torch.float64).abs()
        top = float(values.max())  # NaN where one is
        if not math.isfinite(top):
            nan, infinite = nan + int(values.isnan().sum()), infinite + int(values.isinf().sum())
            values = values[values.isfinite()]
            top = float(values.max()) if len(values) else 0.0
        if top:
            # Divided by the largest, so that no square leaves float64's range.
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
            tensor.name,
            tensor.shape,
            tensor.kind,
            tensor.bytes,
            tensor.name,
            load=partial(file.load, tensor),
            loaded=loaded_dtype(tensor),
        )
        for tensor in file.tensors
    ]


def _read_pickled(path: Path) -> list[TensorInfo]:
    places: dict[object, str] = {}
    infos = []
    for name, tensor in read_pickled(path).items():
        layout = tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
        place = (storage_place(tensor), *layout) if tensor.numel() else name
        load = partial(materialize, path, tensor)
        infos.append(replace(described(name, tensor), place=places.setdefault(place, name), load=load))
    return infos


TABLES: dict[str, Callable[[Path], list[TensorInfo]]] = {".safetensors": _read_safetensors, ".gguf": _read_gguf}
