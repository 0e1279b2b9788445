"""The steps of a pickle of torch.save, followed without carrying them out."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from model.checkpoints.formats.safetensors import MOST_DIMENSIONS
from model.message import MessageError

# Calls that a pickle of torch.save may contain, and stand-ins for their results.

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
LAYOUT = "torch.serialization._get_layout"
UNREADABLE = {
    "torch._utils._rebuild_sparse_tensor": "sparse",
    LAYOUT: "sparse",
    "torch._utils._rebuild_qtensor": "quantized",
    **{f"torch.{bits}Storage": "quantized" for bits in ("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4")},
    "torch._utils._rebuild_nested_tensor": "nested",
    "torch._utils._rebuild_meta_tensor_no_storage": "without values, on the device meta",
    "torch._tensor._rebuild_from_type_v2": "of a class of its own",
    "torch._utils._rebuild_wrapper_subclass": "of a class of its own",
}


class StandIn(Enum):
    """Stand-ins for values of a pickle whose content does not matter."""

    TENSOR = "Tensor"
    STORAGE = "storage"
    DEVICE = "device"
    LAYOUT = "layout"
    SET = "set"


class Dictionary:
    """Stand-in for a dictionary. entries: number of names set in it, to which the time of a copy is proportional."""

    def __init__(self) -> None:
        self.entries = 0


class Named(NamedTuple):
    """Dotted path of a function or class that the pickle asks for."""

    path: str


class NumpyType(NamedTuple):
    """Type of one of NumPy's scalars, by its code: b1, i8, f4, or U and a number of characters."""

    code: str

    @property
    def states(self) -> tuple[tuple[Any, ...], ...]:
        """Attributes that a pickle may set on it: version, order of bytes, three that only records have, sizes."""
        sizes = (4 * int(self.code[1:]), 4, 8) if self.code[0] == "U" else (-1, -1, 0)
        return tuple((3, order, None, None, None, *sizes) for order in "<|")


def kind(value: object) -> str:
    """Words for the type of a value, to stand in a sentence."""
    if isinstance(value, Named):
        return value.path[:60]
    if isinstance(value, Dictionary):
        return "a value of type dict"
    return f"a value of type {value.value if isinstance(value, StandIn) else type(value).__name__}"


class RefusedError(MessageError):
    """Reason why a pickle must not be loaded, to stand after the name of the file."""


def refusal(path: str) -> RefusedError:
    """Error of a pickle that asks for the function or class `path`, which must not be called."""
    if path in UNREADABLE:
        return RefusedError(
            "holds a tensor that is {unreadable}: only plain ones can be shown", unreadable=UNREADABLE[path]
        )
    return RefusedError(
        "holds more than tensors ({path}), which could run code: save only a model's state_dict", path=path[:60]
    )


def are_sizes(value: Any) -> bool:
    """True if a value is a shape, or strides."""
    return type(value) is tuple and len(value) <= MOST_DIMENSIONS and all(type(size) is int for size in value)


def _tensor(arguments: tuple[Any, ...]) -> StandIn | None:
    """_rebuild_tensor_v2(storage, offset, shape, strides, gradient, hooks), _v3 with the type behind it."""
    storage, offset, shape, strides, gradient, hooks, *dtype = arguments
    plain = storage is StandIn.STORAGE and type(offset) is int and are_sizes(shape) and are_sizes(strides)
    typed = not dtype or (isinstance(dtype[0], Named) and dtype[0].path.removeprefix("torch.") in DTYPES)
    return StandIn.TENSOR if plain and typed and type(gradient) is bool and isinstance(hooks, Dictionary) else None


def _counter(arguments: tuple[Any, ...]) -> Dictionary | None:
    """Copy of a dictionary, in which a schedule of learning rates keeps its milestones."""
    if len(arguments) != 1 or not isinstance(arguments[0], Dictionary):
        return None
    copy = Dictionary()
    copy.entries = arguments[0].entries
    return copy


def _parameter(arguments: tuple[Any, ...]) -> StandIn | None:
    plain = len(arguments) == 3 and arguments[0] is StandIn.TENSOR and type(arguments[1]) is bool
    return StandIn.TENSOR if plain else None


def _device(arguments: tuple[Any, ...]) -> StandIn | None:
    plain = tuple(map(type, arguments)) in ((str,), (str, int))
    return StandIn.DEVICE if plain else None


def _layout(arguments: tuple[Any, ...]) -> StandIn:
    """torch.layout by its name, of which only sparse tensors have another one."""
    if arguments != ("torch.strided",):
        raise refusal(LAYOUT)
    return StandIn.LAYOUT


def _set(arguments: tuple[Any, ...]) -> StandIn | None:
    """Set of the values in a list. Those whose hashes may have been chosen to fall into one place are few."""
    if len(arguments) != 1 or not isinstance(arguments[0], list):
        return None
    plain = all(map(is_plain, arguments[0]))
    if not plain and len(arguments[0]) > MOST_CHOSEN:
        raise RefusedError(
            "holds a set of more than {most_chosen:,} values: save only a model's state_dict", most_chosen=MOST_CHOSEN
        )
    for value in () if plain else arguments[0]:
        inner = value if type(value) is tuple and len(value) <= MOST_DIMENSIONS else (value,)
        if not all(is_plain(each) or type(each) is float for each in inner):
            raise RefusedError("holds a set with {kind} in it: save only a model's state_dict", kind=kind(value))
    return StandIn.SET


def is_plain(value: Any) -> bool:
    """True if a value is a text, a small whole number, true, false or none."""
    return type(value) in (str, bool, type(None)) or (type(value) is int and abs(value) < LARGEST_KEY)


def _encoded(arguments: tuple[Any, ...]) -> bytes | None:
    """Bytes, which a pickle of version 2 writes as a text of as many characters."""
    plain = len(arguments) == 2 and type(arguments[0]) is str and arguments[1] in ("latin1", "latin-1")
    return arguments[0].encode("latin1") if plain else None


def _array_of_bytes(arguments: tuple[Any, ...]) -> bytes | None:
    content = _encoded(arguments) if len(arguments) == 2 else (*arguments, b"")[0]
    return content if len(arguments) < 3 and type(content) is bytes else None


def _complex(arguments: tuple[Any, ...]) -> complex | None:
    plain = len(arguments) == 2 and all(type(part) is float for part in arguments)
    return complex(*arguments) if plain else None


def _numpy_type(arguments: tuple[Any, ...]) -> NumpyType | None:
    """numpy.dtype(code, align, copy)."""
    code = arguments[0] if len(arguments) == 3 and type(arguments[0]) is str else ""
    plain = re.fullmatch(r"b1|[iu][1248]|f[248]|U[1-9]\d{0,3}", code) and all(
        type(each) is bool for each in arguments[1:]
    )
    return NumpyType(code) if plain else None


def _numpy_scalar(arguments: tuple[Any, ...]) -> Any:
    """numpy.scalar(type, bytes)."""
    if len(arguments) != 2 or not isinstance(arguments[0], NumpyType) or type(arguments[1]) is not bytes:
        return None
    dtype = np.dtype(arguments[0].code)
    return np.frombuffer(arguments[1], dtype)[0].item() if len(arguments[1]) == dtype.itemsize else None


# Stand-in for the result of each allowed call by its arguments; None where the function does not take these.
CALLS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    **{f"{module}.set": _set for module in ("builtins", "__builtin__")},
    **{f"{module}.frozenset": _set for module in ("builtins", "__builtin__")},
    **{f"{module}.bytes": lambda arguments: None if arguments else b"" for module in ("builtins", "__builtin__")},
    **{f"{module}.bytearray": _array_of_bytes for module in ("builtins", "__builtin__")},
    **{f"{module}.complex": _complex for module in ("builtins", "__builtin__")},
    **{f"{module}.scalar": _numpy_scalar for module in ("numpy.core.multiarray", "numpy._core.multiarray")},
    "numpy.dtype": _numpy_type,
    "torch.device": _device,
    LAYOUT: _layout,
    "_codecs.encode": _encoded,
    "collections.OrderedDict": lambda arguments: Dictionary() if not arguments else None,
    "collections.Counter": _counter,
    "torch.Size": lambda arguments: arguments[0] if len(arguments) == 1 and are_sizes(arguments[0]) else None,
    "torch._utils._rebuild_tensor_v2": lambda arguments: _tensor(arguments) if len(arguments) == 6 else None,
    "torch._utils._rebuild_tensor_v3": lambda arguments: _tensor(arguments) if len(arguments) == 7 else None,
    "torch._utils._rebuild_parameter": _parameter,
}


# The steps of a pickle of torch.save, followed without carrying them out.
#
# torch.load(weights_only=True) runs no code of the file, but it carries out every allowed call before the result can be
# checked: tables of any size, keys whose hash takes for ever, storages beyond the file. So the same opcodes are
# followed here first with stand-ins for their results, in time and memory proportional to the pickle's bytes; only what
# a dictionary of tensors and plain values needs is let through.

MOST_STEPS = 500_000  # opcodes, of which a tensor takes about 30
DEEPEST_STACK = 1000  # containers begun and not ended
MOST_TENSORS = 20_000
STOP = ord(".")
LARGEST_KEY = 1 << 31  # of a dictionary: larger numbers can be chosen so that all fall into one place
MOST_CHOSEN = 1000  # values of a set that can be chosen so
FEW_BYTES = 1 << 16


def inspect(content: bytes, sizes: Mapping[str, int]) -> None:
    """Follow the steps of a pickle. sizes: bytes of each file in the archive.

    Raises:
        RefusedError: the pickle is damaged, or would make something else than tensors and plain values.
    """
    Reading(content, sizes).result()


class Reading:
    """Machine of torch's restricted unpickler: a stack, marks on it, and a memory by number.

    at: the byte of `content` to begin at. calls: stand-ins for results, see `CALLS`. table: what each step does, see
    `STEPS`. versions: of pickles that are read.
    """

    calls = CALLS
    table: Mapping[int, Callable[[Any], object]] = {}
    versions: tuple[int, ...] = (2,)
    new_dictionary: Callable[[], Dictionary] = Dictionary

    def __init__(self, content: bytes, sizes: Mapping[str, int], at: int = 0) -> None:
        self.content, self.sizes, self.at = content, sizes, at
        self.steps = self.tensors = self.bytes = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memory: dict[int, Any] = {}

    def result(self) -> Any:
        """Stand-in for what the pickle makes.

        Raises:
            RefusedError: as of `inspect`.
        """
        try:
            return self._run()
        except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
            why = f"its data.pkl makes no sense at byte {self.at:,}"
            raise RefusedError("is damaged: torch cannot load it ({why})", why=why) from error

    def _run(self) -> Any:
        while self.steps < MOST_STEPS:
            self.steps += 1
            code = self.content[self.at]
            self.at += 1
            if code == STOP:
                return self.stack.pop()
            step = self.table.get(code)
            if step is None:
                raise RefusedError(
                    "is damaged: torch cannot load it (its data.pkl has the step {bytes!r})", bytes=bytes([code])
                )
            step(self)
        raise RefusedError(
            "has a data.pkl of more than {most_steps:,} steps, the most that are read", most_steps=MOST_STEPS
        )

    def version(self) -> None:
        if (version := self.number("<B")) not in self.versions:
            raise RefusedError(
                "is a pickle of version {version}, and torch.save writes 2: save it again", version=version
            )

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.content, self.at)
        self.at += struct.calcsize(form)
        return value

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.content):
            raise IndexError(count)
        self.at += count
        return self.content[self.at - count : self.at]

    def line(self) -> str:
        end = self.content.index(b"\n", self.at)
        return self.take(end + 1 - self.at)[:-1].decode("utf-8")

    def marked(self) -> list[Any]:
        """Values pushed since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def marked_tuple(self) -> None:
        items = tuple(self.marked())
        self.stack.append(items)

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
        if not isinstance(self.stack[-1], list):
            raise RefusedError("is damaged: it appends to {kind}", kind=kind(self.stack[-1]))
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        into = self.stack[-1]
        if not isinstance(into, Dictionary) or len(items) % 2:
            raise RefusedError("is damaged: it sets names in {kind}", kind=kind(into))
        into.entries += len(items) // 2
        for key in items[::2]:
            if type(key) is not str and type(key) is not int:
                raise RefusedError(
                    "holds a name that is {kind}, not a text: save only a model's state_dict", kind=kind(key)
                )
            if type(key) is int and not -LARGEST_KEY < key < LARGEST_KEY:
                raise RefusedError(
                    "holds the number {key} as a name: save only a model's state_dict", key=str(key)[:30]
                )

    def long(self) -> None:
        self.stack.append(int.from_bytes(self.take(self.number("B")), "little", signed=True))

    def text(self, form: str, errors: str) -> None:
        self.stack.append(str(self.take(self.number(form)), "utf-8", errors))

    def global_name(self) -> None:
        self.stack.append(Named(f"{self.line()}.{self.line()}"))

    def storage(self) -> None:
        word, storage_type, key, place, count = self.stack.pop()
        name = storage_type.path.rpartition(".")[2] if isinstance(storage_type, Named) else ""
        if isinstance(storage_type, Named) and storage_type.path in UNREADABLE:
            raise refusal(storage_type.path)
        if word != "storage" or name not in BYTES or type(key) is not str or type(place) is not str:
            raise RefusedError(
                "holds more than tensors ({value}): save only a model's state_dict",
                value=name[:60] or kind(storage_type),
            )
        stored = self.sizes.get(f"data/{key}")
        if stored is None:
            raise RefusedError("is damaged: its values data/{key} are not in it", key=key[:60])
        if type(count) is not int or not 0 <= count * BYTES[name] <= stored:
            asked_for = f"those of {str(count)[:30]} numbers" if type(count) is int else kind(count)  # never its text
            raise RefusedError(
                "is damaged: data/{key} has {stored:,} bytes, not {asked_for}",
                key=key,
                stored=stored,
                asked_for=asked_for,
            )
        self.stack.append(StandIn.STORAGE)

    def build(self) -> None:
        """Set attributes: a state_dict carries `_metadata`, versions of its modules, as one."""
        state, owner = self.stack.pop(), self.stack[-1]
        if isinstance(owner, NumpyType) and state in owner.states:
            return
        if not isinstance(state, Dictionary) or not isinstance(owner, Dictionary):
            raise RefusedError("holds objects of Python ({kind}): save only a model's state_dict", kind=kind(owner))
        self.steps += state.entries

    def create(self) -> None:
        """Refuse an object made without its class's `__init__`, which no dictionary of tensors needs."""
        self.stack.pop()
        cls = self.stack.pop()
        raise refusal(cls.path if isinstance(cls, Named) else "objects of Python")

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        if not isinstance(function, Named) or type(arguments) is not tuple:
            raise RefusedError("is damaged: it calls what is no function")
        call = self.calls.get(function.path)
        if call is None:
            raise refusal(function.path)
        if (result := call(arguments)) is None:
            raise RefusedError("is damaged: it calls {path} with what that does not take", path=function.path)
        self.steps += sum(map(_cost, arguments))
        if type(result) in (str, bytes):
            self.bytes += sum(len(each) for each in arguments if type(each) in (str, bytes))
            if self.bytes > 2 * len(self.content) + FEW_BYTES:  # each is encoded, then made a scalar or an array
                raise RefusedError("makes more bytes than it holds: save only a model's state_dict")
        self.tensors += result is StandIn.TENSOR
        if self.tensors > MOST_TENSORS:
            raise RefusedError(
                "holds more than {most_tensors:,} tensors, the most that are read", most_tensors=MOST_TENSORS
            )
        self.stack[-1] = result


def _cost(argument: Any) -> int:
    """Steps that a call takes more for the size of an argument, which the pickle may name in many calls."""
    if isinstance(argument, Dictionary):
        return argument.entries
    return len(argument) if isinstance(argument, list) else 0


STEPS: dict[int, Callable[[Reading], object]] = {
    ord(code): step
    for code, step in {
        "\x80": Reading.version,
        "c": Reading.global_name,
        "R": Reading.call,
        "\x81": Reading.create,
        "b": Reading.build,
        "Q": lambda it: it.storage(),
        "(": Reading.mark,
        "a": lambda it: it.append([it.stack.pop()]),
        "e": lambda it: it.append(it.marked()),
        "s": lambda it: it.set_items([it.stack.pop(), it.stack.pop()][::-1]),
        "u": lambda it: it.set_items(it.marked()),
        "t": Reading.marked_tuple,
        "\x85": lambda it: it.pair_up(1),
        "\x86": lambda it: it.pair_up(2),
        "\x87": lambda it: it.pair_up(3),
        "N": lambda it: it.stack.append(None),
        "\x89": lambda it: it.stack.append(False),
        "\x88": lambda it: it.stack.append(True),
        ")": lambda it: it.stack.append(()),
        "]": lambda it: it.stack.append([]),
        "}": lambda it: it.stack.append(it.new_dictionary()),
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
        "\x8a": Reading.long,
    }.items()
}
Reading.table = STEPS


class Entries(Dictionary, dict[Any, Any]):
    """A dictionary that keeps what is set in it."""

    def __init__(self) -> None:
        Dictionary.__init__(self)
        dict.__init__(self)


class KeepingReading(Reading):
    """The same machine, which keeps what dictionaries hold."""

    new_dictionary = Entries

    def set_items(self, items: list[Any]) -> None:
        super().set_items(items)
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))
