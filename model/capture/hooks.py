"""Hooks on modules: their outputs are recorded and changed from outside, in the context that asks for it only."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from model.runtime import cancellation

# Function of the recorder, the path of the module, the name of the quantity, the inputs and the output.
Keep = Callable[[Any, str, str, tuple[Any, ...], Tensor], None]

# Recorders of this context; the `network` of each is the one that it records.
recording: ContextVar[tuple[Any, ...]] = ContextVar("recording", default=())

# Changes of this context: pairs of a network and an `interventions.Intervention`.
changing: ContextVar[tuple[tuple[nn.Module, Any], ...]] = ContextVar("changing", default=())

_observing_classes: dict[type[nn.Module], type[nn.Module]] = {}  # by class, and by themselves


@contextmanager
def no_recording() -> Iterator[None]:
    """Block in which nothing is recorded."""
    before = recording.set(())
    try:
        yield
    finally:
        recording.reset(before)


@contextmanager
def changed(network: nn.Module, changes: tuple[Any, ...]) -> Iterator[None]:
    """Block in which these changes, and no others, are made to `network`."""
    others = tuple((owner, change) for owner, change in changing.get() if owner is not network)
    before = changing.set((*others, *((network, change) for change in changes)))
    try:
        yield
    finally:
        changing.reset(before)


def is_watched() -> bool:
    """True if networks are recorded or changed in this context; never in compiled code."""
    return not torch.compiler.is_compiling() and bool(recording.get() or changing.get())


def recorders_of(module: nn.Module) -> list[tuple[Any, str]]:
    """Recorders of this context that record the network of an observed module, each with the module's path in it."""
    if torch.compiler.is_compiling() or not recording.get() or "_observed" not in module.__dict__:
        return []
    reference, path, _name, _keep = module.__dict__["_observed"]
    return [(recorder, path) for recorder in recording.get() if recorder.network is reference()]


def looks_ahead(network: nn.Module) -> bool:
    """True if a change to `network` makes the states of a token depend on later tokens."""
    return any(change.looks_ahead for change in changes_to(network))


def changes_to(network: nn.Module) -> tuple[Any, ...]:
    """Changes made to `network` in this context, in their order."""
    return tuple(change for owner, change in changing.get() if owner is network)


def observe(module: nn.Module, network: nn.Module, path: str, name: str, keep: Keep) -> None:
    """Let `module`, at `path` of `network`, give its output to `keep` while `network` is recorded, and be changed."""
    # A weak reference: a deep copy of the network keeps it, and is not taken for the network.
    module.__dict__["_observed"] = (weakref.ref(network), path, name, keep)
    module.__class__ = _observing(type(module))


def original_class(module: nn.Module) -> type[nn.Module]:
    """Class of a module before it was observed."""
    kind = type(module)
    return kind.__mro__[1] if _observing_classes.get(kind) is kind else kind


def _observing(kind: type[nn.Module]) -> type[nn.Module]:
    """Subclass of the same name whose `forward` is recorded and changed.

    A forward hook would do the same; but a call of a module that has hooks costs more than a tiny module's own work.
    """
    if kind in _observing_classes:
        return _observing_classes[kind]
    compute = kind.forward

    def forward(self: nn.Module, *inputs: Any) -> Any:
        changed, recorders = changing.get(), recording.get()
        if not changed and not recorders:
            return compute(self, *inputs)
        cancellation.check()
        reference, path, name, keep = self.__dict__["_observed"]
        network = reference()
        changes = changes_to(network) if changed else ()
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
    observing = type(kind.__name__, (kind,), members)
    _observing_classes[kind] = _observing_classes[observing] = observing
    return observing
