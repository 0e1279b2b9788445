"""Modules that give what they compute to whoever records, and let themselves be changed from outside; without a
recording or a change they only compute.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

# Called with the recorder, the module's path, the quantity's name, the inputs and the output.
Keep = Callable[[Any, str, str, tuple[Any, ...], Tensor], None]

# Those who record in this context; each has the `model` it looks into.
recording: ContextVar[tuple[Any, ...]] = ContextVar("recording", default=())

# What is changed in this context: models, each with an `interventions.Intervention`.
changing: ContextVar[tuple[tuple[nn.Module, Any], ...]] = ContextVar("changing", default=())

_kinds: dict[type[nn.Module], type[nn.Module]] = {}  # a class of module: the same class, observed


@contextmanager
def no_recording() -> Iterator[None]:
    """A block in which nothing is recorded."""
    before = recording.set(())
    try:
        yield
    finally:
        recording.reset(before)


@contextmanager
def changed(network: nn.Module, changes: tuple[Any, ...]) -> Iterator[None]:
    """A block in which these changes, and no others, are made to `model`."""
    others = tuple(each for each in changing.get() if each[0] is not network)
    before = changing.set((*others, *((network, change) for change in changes)))
    try:
        yield
    finally:
        changing.reset(before)


def is_watched() -> bool:
    """Whether someone records, changes or compiles what models compute in this context."""
    return torch.compiler.is_compiling() or bool(recording.get() or changing.get())


def looks_ahead(network: nn.Module) -> bool:
    """Whether `model` is changed so that what it computes for a token depends on those after it."""
    return any(change.looks_ahead for whose, change in changing.get() if whose is network)


def observe(module: nn.Module, network: nn.Module, path: str, name: str, keep: Keep) -> None:
    """From now on `module`, at `path` of `model`, gives its output to `keep` whenever someone records `model`."""
    # A weak reference: a deep copy of the model keeps it, and is not taken for the model.
    module.__dict__["_seen"] = (weakref.ref(network), path, name, keep)
    module.__class__ = _observing(type(module))


def original_class(module: nn.Module) -> type[nn.Module]:
    """The class of a module, as it is where it is not observed."""
    kind = type(module)
    return kind.__mro__[1] if _kinds.get(kind) is kind else kind


def _observing(kind: type[nn.Module]) -> type[nn.Module]:
    """A subclass that looks the same, and not a forward hook: torch calls a module that has hooks by a path
    that costs more than a tiny module's own work.
    """
    if kind in _kinds:
        return _kinds[kind]
    compute = kind.forward

    def forward(self: nn.Module, *inputs: Any) -> Any:
        changed, recorders = changing.get(), recording.get()
        if not changed and not recorders:
            return compute(self, *inputs)
        seen, path, name, keep = self.__dict__["_seen"]
        network = seen()
        changes = [change for whose, change in changed if whose is network] if changed else ()
        for change in changes:
            inputs = change.before(path, self, inputs)
        output: Tensor = compute(self, *inputs)
        for change in changes:
            output = change.after(path, self, inputs, output)
        for recorder in recorders:
            if recorder.network is network:
                keep(recorder, path, name, inputs, output)
        return output

    members = {"forward": forward, "__module__": kind.__module__, "__doc__": kind.__doc__}
    made = type(kind.__name__, (kind,), members)
    _kinds[kind] = _kinds[made] = made
    return made
