"""Files of torch.save, read without running anything that they hold."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from model.checkpoints.formats.safetensors import LONGEST_NAME, MOST_DIMENSIONS
from model.checkpoints.formats.weight_files import Refused, map_file
from model.checkpoints.formats.zip import read_archive
from model.runtime.errors import CheckpointError

Plain = int | float | str | bool
DEEPEST = 32  # containers within containers
MOST_VALUES = 200_000  # a container that others hold many times is unfolded as often


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors in a .pt, .pth or .bin file, by name; those within dictionaries and lists as "outer.inner".

    Values stay in the file until they are used; `materialize` reads them, also where the system maps no file whole.
    Plain values beside the tensors are left out.

    Raises:
        CheckpointError: the file is damaged, of another kind, holds code or no tensors.
    """
    tensors, _ = _read(path)
    if not tensors:
        raise CheckpointError(f"{path} holds no tensors: save a model's state_dict")
    return tensors


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """The tensors and the plain values in a .pt, .pth or .bin file, by name: "model.wte.weight", "model_args.n_layer".

    Values of tensors stay in the file until they are used.

    Raises:
        CheckpointError: the file is damaged, of another kind, or holds code.
    """
    tensors, records = _read(path)
    return {name: materialize(path, tensor) for name, tensor in tensors.items()}, records


def materialize(path: Path, tensor: Tensor) -> Tensor:
    """The values of a tensor that `read_pickled` gave.

    Raises:
        CheckpointError: the memory does not hold it.
    """
    if not tensor.is_meta:
        return tensor
    storage = tensor.untyped_storage()
    held = map_file(path, storage_place(tensor), storage.nbytes())
    return torch.empty(0, dtype=tensor.dtype).set_(
        held.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )


def storage_place(tensor: Tensor) -> int:
    """Where its storage begins, in memory, or in a file that was not mapped: a number that tells storages apart."""
    storage = tensor.untyped_storage()
    return storage._checkpoint_offset or 0 if tensor.is_meta else storage.data_ptr()


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    archive = read_archive(path)
    try:
        inspect(archive.pickle, archive.sizes)
    except RefusedError as error:
        raise CheckpointError(f"{path} {error}") from error
    try:
        content = _loaded(path)
    except Exception as error:  # damaged bytes can lead torch to any exception
        raise CheckpointError(f"{path} {_refused(error)}") from error
    return _unfolded(content, path)


def _loaded(path: Path) -> Any:
    """Mapped whole; where the system does not do that, without values, which `materialize` maps one by one."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Refused as error:
        if "unable to mmap" not in str(error):
            raise
        return torch.load(path, map_location="meta", weights_only=True)


def _refused(error: Exception) -> RefusedError:
    """What torch says in many lines, some of them how to load the file with the code in it, as part of a sentence."""
    text = str(error).rpartition("WeightsUnpickler error: ")[2].strip()
    if refused := re.search(r"GLOBAL (\S+) w", text):
        return RefusedError(
            f"holds more than tensors ({refused[1][:60]}), which could run code: save only a model's state_dict"
        )
    detail = f"{type(error).__name__}: {text[:120]}".splitlines()[0].removesuffix(": ")
    return RefusedError(f"is damaged: torch cannot load it ({detail})")


def _unfolded(content: Any, path: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """Iteratively, with bounds: a dictionary that holds itself, or another one many times, has no end."""
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds {kind(content)}, not tensors by name: save a model's state_dict")
    tensors: dict[str, Tensor] = {}
    records: dict[str, Plain] = {}
    waiting: list[tuple[str, int, Any]] = [("", 0, content)]
    met = 0
    while waiting:
        name, depth, value = waiting.pop()
        if name in tensors or name in records:
            raise CheckpointError(f"{path} holds two values called {name[:60]!r}: rename one of them")
        if isinstance(value, Tensor):
            if why := _unreadable(value):
                raise CheckpointError(f"{path} holds at {name[:60]!r} a tensor that cannot be read: {why}")
            tensors[name] = value
        elif isinstance(value, dict | list | tuple):
            # The class's own methods: a dictionary of the file may have attributes of the same names.
            inner = list(dict.items(value)) if isinstance(value, dict) else list(enumerate(value))
            met += len(inner)
            if depth == DEEPEST or met > MOST_VALUES:
                why = "containers too deep" if depth == DEEPEST else f"more than {MOST_VALUES:,} values"
                raise CheckpointError(f"{path} holds too much at {name[:60]!r} ({why}): save only a model's state_dict")
            waiting += [(_joined(name, key, path), depth + 1, each) for key, each in reversed(inner)]
        elif isinstance(value, Plain):
            records[name] = value
    return tensors, records


def _joined(name: str, key: str | int, path: Path) -> str:
    joined = f"{name}.{key}" if name else str(key)
    if len(joined) > LONGEST_NAME or not joined.isprintable():
        raise CheckpointError(
            f"{path} holds the name {joined[:60]!r}, and a name has up to {LONGEST_NAME} characters that can be printed"
        )
    return joined


def _unreadable(tensor: Tensor) -> str:
    """Why the values must not be touched, or ""."""
    size, held = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
    if size > held:
        return f"it claims {tensor.numel():,} elements, {size:,} bytes, where the file has {held:,} for it"
    return ""


# What a pickle of torch.save may call, and stand-ins for what those calls would make.

BYTES = {
    **dict.fromkeys(("ByteStorage", "CharStorage", "BoolStorage", "UntypedStorage"), 1),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    "ComplexDoubleStorage": 16,
}
DTYPES = """float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool
float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 complex32 bits16 bits8 bits4x2
bits2x4 bits1x8""".split()
UNREADABLE = {
    "torch._utils._rebuild_sparse_tensor": "sparse",
    "torch.serialization._get_layout": "sparse",
    "torch._utils._rebuild_qtensor": "quantized",
    **{f"torch.{bits}Storage": "quantized" for bits in ("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4")},
    "torch._utils._rebuild_nested_tensor": "nested",
    "torch._utils._rebuild_meta_tensor_no_storage": "without values, on the device meta",
    "torch._tensor._rebuild_from_type_v2": "of a class of its own",
    "torch._utils._rebuild_wrapper_subclass": "of a class of its own",
}


class Made(Enum):
    """Stand-ins for what a pickle makes, where it does not matter what is in it."""

    LIST = "list"
    TENSOR = "Tensor"
    STORAGE = "storage"


class Dictionary:
    """A stand-in for one, with how many names were set in it: copying them takes so long."""

    def __init__(self) -> None:
        self.entries = 0


class Named(NamedTuple):
    """A function or class that the pickle asks for."""

    path: str


def kind(value: object) -> str:
    """What a value is, in a sentence."""
    if isinstance(value, Named):
        return value.path[:60]
    name = value.value if isinstance(value, Made) else "dict" if isinstance(value, Dictionary) else type(value).__name__
    return f"a value of type {name}"


def why_not(path: str) -> str:
    """Why a function or class must not be called, to stand after the name of the file."""
    if path in UNREADABLE:
        return f"holds a tensor that is {UNREADABLE[path]}: only plain ones can be shown"
    return f"holds more than tensors ({path[:60]}), which could run code: save only a model's state_dict"


def _sizes(value: Any) -> bool:
    return type(value) is tuple and len(value) <= MOST_DIMENSIONS and all(type(each) is int for each in value)


def _tensor(given: tuple[Any, ...]) -> Made | None:
    """_rebuild_tensor_v2(storage, offset, shape, strides, gradient, hooks), _v3 with the type behind it."""
    if len(given) not in (6, 7):
        return None
    storage, offset, shape, strides, gradient, hooks, *dtype = given
    plain = storage is Made.STORAGE and type(offset) is int and _sizes(shape) and _sizes(strides)
    typed = not dtype or (isinstance(dtype[0], Named) and dtype[0].path.removeprefix("torch.") in DTYPES)
    return Made.TENSOR if plain and typed and type(gradient) is bool and isinstance(hooks, Dictionary) else None


def _counter(given: tuple[Any, ...]) -> Dictionary | None:
    """What a plan of learning rates keeps its milestones in: a copy of a dictionary."""
    if len(given) != 1 or not isinstance(given[0], Dictionary):
        return None
    made = Dictionary()
    made.entries = given[0].entries
    return made


def _parameter(given: tuple[Any, ...]) -> Made | None:
    return Made.TENSOR if len(given) == 3 and given[0] is Made.TENSOR and type(given[1]) is bool else None


CALLS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "collections.OrderedDict": lambda given: Dictionary() if not given else None,
    "collections.Counter": _counter,
    "torch.Size": lambda given: given[0] if len(given) == 1 and _sizes(given[0]) else None,
    "torch._utils._rebuild_tensor_v2": lambda given: _tensor(given) if len(given) == 6 else None,
    "torch._utils._rebuild_tensor_v3": lambda given: _tensor(given) if len(given) == 7 else None,
    "torch._utils._rebuild_parameter": _parameter,
}


# What a pickle of torch.save would make torch do, found out without doing it.
#
# torch.load(weights_only=True) runs no code of the file, but it carries out every allowed call before anybody can look
# at the outcome: tables of any size, keys whose hash takes for ever, storages beyond the file. So the same opcodes are
# gone through here first with stand-ins for what they make, in time and memory proportional to the pickle's bytes;
# only what a dictionary of tensors and plain values needs is let through.

MOST_STEPS = 500_000  # opcodes, of which a tensor takes about 30
DEEPEST_STACK = 1000  # containers begun and not ended
MOST_TENSORS = 20_000
STOP = ord(".")
LARGEST_KEY = 1 << 31  # of a dictionary: larger numbers can be chosen so that all fall into one place


class RefusedError(Exception):
    """Why the pickle must not be loaded, to stand after the name of the file."""


def inspect(content: bytes, sizes: Mapping[str, int]) -> None:
    """Go through a pickle. sizes: bytes of each file in the archive.

    Raises:
        RefusedError: it is damaged, or would make something else than tensors and plain values.
    """
    reading = _Reading(content, sizes)
    try:
        reading.run()
    except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        why = f"its data.pkl makes no sense at byte {reading.at:,}"
        raise RefusedError(f"is damaged: torch cannot load it ({why})") from error


class _Reading:
    """The machine of torch's restricted unpickler: a stack, marks on it, and a memory by number."""

    def __init__(self, content: bytes, sizes: Mapping[str, int]) -> None:
        self.content, self.sizes = content, sizes
        self.at = self.steps = self.tensors = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memory: dict[int, Any] = {}

    def run(self) -> None:
        while self.steps < MOST_STEPS:
            self.steps += 1
            code = self.content[self.at]
            self.at += 1
            if code == STOP:
                self.stack.pop()
                return
            step = STEPS.get(code)
            if step is None:
                raise RefusedError(f"is damaged: torch cannot load it (its data.pkl has the step {bytes([code])!r})")
            step(self)
        raise RefusedError(f"has a data.pkl of more than {MOST_STEPS:,} steps, the most that are read")

    def version(self) -> None:
        if (found := self.number("<B")) != 2:
            raise RefusedError(f"is a pickle of version {found}, and torch.save writes 2: save it again")

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.content, self.at)
        self.at += struct.calcsize(form)
        return value

    def some(self, count: int) -> bytes:
        if self.at + count > len(self.content):
            raise IndexError(count)
        self.at += count
        return self.content[self.at - count : self.at]

    def line(self) -> str:
        end = self.content.index(b"\n", self.at)
        return self.some(end + 1 - self.at)[:-1].decode("utf-8")

    def marked(self) -> list[Any]:
        """What was made since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def push(self, value: object) -> None:
        self.stack.append(value)

    def mark(self) -> None:
        if len(self.below) == DEEPEST_STACK:
            raise RefusedError("holds containers too deep: save only a model's state_dict")
        self.below.append(self.stack)
        self.stack = []

    def pair_up(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) < count:
            raise IndexError(count)
        self.stack[-count:] = [items]

    def keep(self, place: int) -> None:
        self.memory[place] = self.stack[-1]

    def append(self, items: list[Any]) -> None:
        if self.stack[-1] is not Made.LIST:
            raise RefusedError(f"is damaged: it appends to {kind(self.stack[-1])}")

    def set_items(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if not isinstance(into, Dictionary) or len(items) % 2:
            raise RefusedError(f"is damaged: it sets names in {kind(into)}")
        into.entries += len(items) // 2
        for key in items[::2]:
            if type(key) is not str and type(key) is not int:
                raise RefusedError(f"holds a name that is {kind(key)}, not a text: save only a model's state_dict")
            if type(key) is int and not -LARGEST_KEY < key < LARGEST_KEY:
                raise RefusedError(f"holds the number {str(key)[:30]} as a name: save only a model's state_dict")

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.some(self.number("B")), "little", signed=True))

    def text(self, form: str, encoding: str) -> None:
        self.stack.append(str(self.some(self.number(form)), "utf-8", encoding))

    def global_name(self) -> None:
        self.stack.append(Named(f"{self.line()}.{self.line()}"))

    def storage(self) -> None:
        word, asked, key, place, count = self.stack.pop()
        name = asked.path.rpartition(".")[2] if isinstance(asked, Named) else ""
        if isinstance(asked, Named) and asked.path in UNREADABLE:
            raise RefusedError(why_not(asked.path))
        if word != "storage" or name not in BYTES or type(key) is not str or type(place) is not str:
            raise RefusedError(f"holds more than tensors ({name[:60] or kind(asked)}): save only a model's state_dict")
        held = self.sizes.get(f"data/{key}")
        if held is None:
            raise RefusedError(f"is damaged: its values data/{key[:60]} are not in it")
        if type(count) is not int or not 0 <= count * BYTES[name] <= held:
            asked_for = f"those of {str(count)[:30]} numbers" if type(count) is int else kind(count)  # never its text
            raise RefusedError(f"is damaged: data/{key} has {held:,} bytes, not {asked_for}")
        self.stack.append(Made.STORAGE)

    def build(self) -> None:
        """A state_dict carries `_metadata`, versions of its modules, as an attribute."""
        state, made = self.stack.pop(), self.stack[-1]
        if not isinstance(state, Dictionary) or not isinstance(made, Dictionary):
            raise RefusedError(f"holds objects of Python ({kind(made)}): save only a model's state_dict")
        self.steps += state.entries

    def create(self) -> None:
        """What no dictionary of tensors needs: an object made past its class's own beginning."""
        self.stack.pop()
        asked = self.stack.pop()
        raise RefusedError(why_not(asked.path if isinstance(asked, Named) else "objects of Python"))

    def call(self) -> None:
        given, asked = self.stack.pop(), self.stack[-1]
        if not isinstance(asked, Named) or type(given) is not tuple:
            raise RefusedError("is damaged: it calls what is no function")
        call = CALLS.get(asked.path)
        if call is None:
            raise RefusedError(why_not(asked.path))
        if (made := call(given)) is None:
            raise RefusedError(f"is damaged: it calls {asked.path} with what that does not take")
        self.steps += made.entries if isinstance(made, Dictionary) else 0
        self.tensors += made is Made.TENSOR
        if self.tensors > MOST_TENSORS:
            raise RefusedError(f"holds more than {MOST_TENSORS:,} tensors, the most that are read")
        self.stack[-1] = made


STEPS: dict[int, Callable[[_Reading], object]] = {
    ord(code): step
    for code, step in {
        "\x80": _Reading.version,
        "c": _Reading.global_name,
        "R": _Reading.call,
        "\x81": _Reading.create,
        "b": _Reading.build,
        "Q": _Reading.storage,
        "(": _Reading.mark,
        "a": lambda it: it.append([it.stack.pop()]),
        "e": lambda it: it.append(it.marked()),
        "s": lambda it: it.set_items([it.stack.pop(), it.stack.pop()][::-1]),
        "u": lambda it: it.set_items(it.marked()),
        "t": lambda it: it.push(tuple(it.marked())),
        "\x85": lambda it: it.pair_up(1),
        "\x86": lambda it: it.pair_up(2),
        "\x87": lambda it: it.pair_up(3),
        "N": lambda it: it.stack.append(None),
        "\x89": lambda it: it.stack.append(False),
        "\x88": lambda it: it.stack.append(True),
        ")": lambda it: it.stack.append(()),
        "]": lambda it: it.stack.append(Made.LIST),
        "}": lambda it: it.stack.append(Dictionary()),
        "J": lambda it: it.stack.append(it.number("<i")),
        "K": lambda it: it.stack.append(it.number("<B")),
        "M": lambda it: it.stack.append(it.number("<H")),
        "G": lambda it: it.stack.append(it.number(">d")),
        "X": lambda it: it.text("<I", "surrogatepass"),
        "U": lambda it: it.text("<B", "strict"),
        "h": lambda it: it.stack.append(it.memory[it.number("<B")]),
        "j": lambda it: it.stack.append(it.memory[it.number("<I")]),
        "q": lambda it: it.keep(it.number("<B")),
        "r": lambda it: it.keep(it.number("<I")),
        "\x8a": _Reading.long,
    }.items()
}
