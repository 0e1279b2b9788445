"""What a pickle of torch.save may call, and stand-ins for what those calls would make."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from model.safe_header import MOST_DIMENSIONS

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
