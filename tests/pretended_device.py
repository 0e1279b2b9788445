"""A pretended accelerator: its tensors compute on the CPU and refuse what CUDA and MPS refuse.

`import tests.pretended_device` registers it with torch's Python route to a backend (PrivateUse1), once a process and
before anything goes backwards: torch's autograd counts devices when it first runs. A tensor there is a wrapper around
one on the CPU, and every operation on it comes by `_run`, which raises where a real accelerator would:

- an operation with tensors of both devices: only copies, a CPU tensor without dimensions and CPU indices are allowed;
- `.numpy()`, and what reads memory like it, of a tensor that was not moved to the CPU; `.item()` and `.tolist()` may;
- a random number drawn there from a generator of the CPU; without one, the device's own generator is drawn from;
- float64, where it is said to have none, as MPS: neither made there, nor converted to on the way to the CPU or from it.

What it does not show: other kernels' rounding, memory, streams, `torch.compile`, and what only their drivers know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretended"
aten = torch.ops.aten
# Between devices they may go; of indices, only the tensor that is indexed must be on the device.
COPIES = {aten.to, aten._to_copy, aten.copy_, aten._foreach_copy_}
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._unsafe_index}
WIDE, HALF = {torch.float64, torch.complex128}, [torch.bfloat16, torch.float16]
# What autocast computes in its own precision, and what in float32, of the operations that our networks use.
LOWER = [aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default, aten.addmm.default]
LOWER += [aten.scaled_dot_product_attention.default]
FLOAT32 = [aten.softmax.int, aten.log_softmax.int, aten.layer_norm.default, aten.cross_entropy_loss.default]
FLOAT32 += [aten.nll_loss.default, aten.pow.Tensor_Scalar, aten.sum.default, aten.cumsum.default]

run_as_on_mps: set[str] = set()  # operations, by torch's names
_generator = torch.Generator()
_drawing = threading.Lock()
_knows_float64 = True
_available = False  # nothing chooses the device by itself: it has to be asked for


class PretendedTensor(torch.Tensor):
    """A tensor on the device; `held` is the one on the CPU that has its numbers."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> PretendedTensor:
        with torch.inference_mode(held.is_inference()):  # a view of an ordinary tensor is ordinary
            made = torch.Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=torch.device(NAME, 0),
            )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _run(operation, *args, **kwargs or {})

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def __repr__(self, **_: Any) -> str:
        return f"pretended {self.held!r}"

    def data_ptr(self) -> int:
        return self.held.data_ptr()  # a number that tells tensors apart, as on a GPU; nothing reads what lies there

    def __deepcopy__(self, memo: dict[int, Any]) -> PretendedTensor:
        if id(self) not in memo:
            memo[id(self)] = PretendedTensor(self.held.detach().clone()).requires_grad_(self.requires_grad)
            memo[id(self)].__dict__.update({name: each for name, each in self.__dict__.items() if name != "held"})
        return memo[id(self)]

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, other: PretendedTensor) -> None:
        torch.Tensor.data.__set__(self, other)
        self.held = other.held


@contextmanager
def pretending(float64: bool = True) -> Iterator[torch.device]:
    """Inside, the device is available, with float64 or without it, as MPS."""
    global _knows_float64, _available
    _knows_float64, _available = float64, True
    try:
        yield torch.device(NAME)
    finally:
        _knows_float64, _available = True, False


def _run(operation: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """The operation on the CPU, if it may be done on the device; what it makes is on the device."""
    given = list(_leaves((args, kwargs)))
    if not _knows_float64:
        run_as_on_mps.add(str(operation))
    wrappers = {id(each.held): each for each in given if isinstance(each, PretendedTensor)}
    _refuse_mixtures(operation, args, kwargs, given)
    if isinstance(kwargs.get("generator"), torch.Generator):
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found '{kwargs['generator'].device}'")
    devices = [each.type for each in given if isinstance(each, torch.device)]
    there = devices[0] == NAME if devices else bool(wrappers)
    if wrappers:
        wanted = [each for each in given if isinstance(each, torch.dtype)]
        _refuse_float64(*wanted, *[args[0].dtype] if operation == aten.copy_.default else [])
    args, kwargs = _changed(_as_here, (args, kwargs))
    with _own_chance() if there and torch.Tag.nondeterministic_seeded in operation.tags else nullcontext():
        made = operation(*args, **kwargs)
    return _changed(lambda each: _wrapped(each, wrappers), made) if there else made


def _leaves(value: Any) -> Iterator[Any]:
    """What is in lists and dictionaries, and in those within them."""
    if isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value


def _changed(change: Callable[[Any], Any], value: Any) -> Any:
    """The same lists and dictionaries of other things; torch's tree_map takes six times as long."""
    if isinstance(value, dict):
        return {name: _changed(change, each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_changed(change, each) for each in value])
    return change(value)


def _as_here(given: Any) -> Any:
    """What stands on the CPU for an argument."""
    if isinstance(given, PretendedTensor):
        return given.held
    return torch.device("cpu") if isinstance(given, torch.device) else given


def _wrapped(made: Any, wrappers: dict[int, PretendedTensor]) -> Any:
    """On the device what was computed there; an argument that was written to is itself."""
    if not isinstance(made, Tensor):
        return made
    _refuse_float64(made.dtype)
    return wrappers[id(made)] if id(made) in wrappers else PretendedTensor(made)


def _refuse_mixtures(operation: torch._ops.OpOverload, args: Any, kwargs: Any, given: list[Any]) -> None:
    if operation.overloadpacket in COPIES:
        return
    tensors = [each for each in given if isinstance(each, Tensor)]
    here = [each for each in tensors if not isinstance(each, PretendedTensor)]
    if not here or len(here) == len(tensors):
        return
    if operation.overloadpacket in INDEXING and isinstance(args[0], PretendedTensor):
        here = [each for each in args[2:] if isinstance(each, Tensor) and not isinstance(each, PretendedTensor)]
    named = {argument.name: kwargs.get(argument.name) for argument in operation._schema.arguments}
    named |= {argument.name: each for argument, each in zip(operation._schema.arguments, args, strict=False)}
    written = [named[each.name] for each in operation._schema.arguments if each.alias_info and each.alias_info.is_write]
    onto_cpu = any(each is target for target in written for each in here)
    if onto_cpu or any(each.dim() for each in here):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cpu and {NAME}:0! "
            f"({operation}, {[tuple(each.shape) for each in tensors]})"
        )


def _refuse_float64(*dtypes: torch.dtype) -> None:
    if not _knows_float64 and not WIDE.isdisjoint(dtypes):
        raise TypeError(f"Cannot convert a {NAME} Tensor to float64 dtype as the framework doesn't support float64")


@contextmanager
def _own_chance() -> Iterator[None]:
    """Inside, what draws from the CPU's generator draws from the device's."""
    with _drawing:
        before = torch.default_generator.get_state()
        torch.default_generator.set_state(_generator.get_state())
        try:
            yield
        finally:
            _generator.set_state(torch.default_generator.get_state())
            torch.default_generator.set_state(before)


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """What torch.tensor(…, device=…) copies by, past `__torch_dispatch__`."""
    _refuse_float64(target.dtype)
    _as_here(target).copy_(_as_here(source))
    return target


class _Module:
    """What torch asks a device's module for; as torch.cuda, as far as Vitrine needs it."""

    is_available = staticmethod(lambda: _available)
    default_generators = (_generator,)
    is_initialized = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)
    manual_seed_all = staticmethod(_generator.manual_seed)
    get_amp_supported_dtype = staticmethod(lambda: HALF)
    _is_in_bad_fork = staticmethod(lambda: False)


def _autocast(operation: torch._ops.OpOverload, lower: bool) -> Callable[..., Any]:
    """The operation in autocast's precision, or in float32, as CUDA's autocast has it."""
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def cast(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(NAME) if lower else torch.float32

        def converted(each: Any) -> Any:
            return each.to(dtype) if isinstance(each, Tensor) and each.dtype in (torch.float32, *HALF) else each

        with torch._C._ExcludeDispatchKeyGuard(key):
            args, kwargs = _changed(converted, (args, kwargs))
            return operation(*args, **kwargs)

    return cast


def _register() -> list[torch.library.Library]:
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module)
    anything, single = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    anything.fallback(_run, "PrivateUse1")
    anything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    single.impl("_copy_from", _copy_from, "PrivateUse1")
    for lower, operations in ((True, LOWER), (False, FLOAT32)):
        for operation in operations:
            single.impl(operation, _autocast(operation, lower), "AutocastPrivateUse1")
    return [anything, single]


_registered = _register()  # kept: without them the registration would go
