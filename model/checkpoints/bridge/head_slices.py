"""Rows of each head in a bridged model's matrices, found by the channels that its queries, keys and values depend on.

No name and no layout is presupposed. The products of matrices become leaves of the autograd graph of a few tokens, so
that a gradient is not zero exactly at the channels of a head, however they are packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from model.checkpoints.bridge.match import as_linear
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import HeadPart, MirrorAttention
from model.checkpoints.bridge.probe import Event, ObservedAttention, close, first, flat, is_linear, probing, same

if TYPE_CHECKING:
    from model.checkpoints.bridge.runner import Runner
    from model.checkpoints.bridge.stack import BridgedStack

PROJECTIONS = ("query", "key", "value")
Leaves = Mapping[nn.Module, list[Tensor]]  # output of each call of a matrix, a leaf of the graph


class UnclearError(Exception):
    """The rows of heads cannot be told apart; its argument is the reason."""


@contextmanager
def cutting(stack: nn.Module, attentions: Iterable[nn.Module]) -> Iterator[Leaves]:
    """Block in which the products of matrices are leaves of the graph, and norms inside an attention, which scale
    channels and move none, are the identity.
    """
    leaves: dict[nn.Module, list[Tensor]] = {}

    def begin(
        _module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(map(_detached, inputs)), {name: _detached(argument) for name, argument in named.items()}

    def matrix(module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        leaf = output.detach().requires_grad_()
        leaves.setdefault(module, []).append(leaf)
        return leaf.clone()  # to which the model may add in place

    def norm(_module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        fits = inputs and isinstance(output, Tensor) and output.shape == inputs[0].shape
        return inputs[0] if fits else output

    outer = set(attentions)
    parts = {module for attention in outer for module in attention.modules()}
    norms = {module for module in parts if "norm" in type(module).__name__.lower()}
    hooks = [module.register_forward_pre_hook(begin, with_kwargs=True) for module in outer]
    hooks += [module.register_forward_hook(norm) for module in norms - outer]
    hooks += [module.register_forward_hook(matrix) for module in stack.modules() if _multiplies(module)]
    try:
        yield leaves
    finally:
        for hook in hooks:
            hook.remove()


class Matrices:
    """Matrices that an attention multiplies by, their output channels numbered through.

    inside: their calls.
    """

    def __init__(self, inside: list[Event], leaves: Leaves) -> None:
        self.inside = inside
        self.leaves = [leaves[event.module][event.number] for event in inside]
        self.widths = [leaf.shape[-1] for leaf in self.leaves]

    def moved(self, result: Tensor) -> tuple[Bool[Tensor, " channel"], Bool[Tensor, " channel"]]:
        """Channels on which `result` (of any shape) depends, at any position but the last, and at the last one: where
        the gradient of a random sum is not zero.
        """
        nowhere = [torch.zeros(1, width, dtype=torch.bool) for width in self.widths]
        changes = nowhere
        if result.requires_grad:
            weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(0)).to(result)
            gradients = torch.autograd.grad(result, self.leaves, weights, retain_graph=True, allow_unused=True)
            changes = [
                none if gradient is None else (flat(gradient) != 0).cpu()
                for none, gradient in zip(nowhere, gradients, strict=True)
            ]
        earlier, last = [change[:-1].any(0) for change in changes], [change[-1] for change in changes]
        return torch.cat(earlier), torch.cat(last)

    def rows(self, responding: Bool[Tensor, "head channel"]) -> tuple[Event, Tensor, Tensor]:
        """Call of the matrix with these channels, rows (head, channel) of each head, and their outputs (head, position,
        channel).

        Raises:
            UnclearError: heads have no channels or different numbers of them, channels of several matrices, or of a
                matrix that reads another one's product.
        """
        counts = responding.sum(1)
        if not int(counts[0]) or bool((counts != counts[0]).any()):
            raise UnclearError(Reason.HEADS)
        channels = responding.nonzero()[:, 1].view(len(responding), -1)
        start = 0
        for event, leaf, width in zip(self.inside, self.leaves, self.widths, strict=True):
            rows = channels - start
            if bool(((rows >= 0) & (rows < width)).all()):
                if event.x.requires_grad:
                    raise UnclearError(Reason.SEVERAL)
                return event, rows, flat(leaf).detach()[:, rows.to(leaf.device)].transpose(0, 1)
            start += width
        raise UnclearError(Reason.HEADS)


@torch.inference_mode(False)
@torch.enable_grad()
def find_head_parts(runner: Runner, stacks: Sequence[BridgedStack], ids: Mapping[str, Tensor]) -> None:
    """Set the four matrices of every attention on its mirror, or the reason why they are not known.

    ids: a few tokens (1, position) for each stack.
    """
    memory: Tensor | None = None
    for bridged in stacks:
        mirrors = {
            (event.module, event.number): mirror
            for event, _side, mirror in bridged.links
            if isinstance(mirror, MirrorAttention)
        }
        is_encoder = bridged.name == "encoder"
        stack = runner.encoder if is_encoder and runner.encoder is not None else runner.decoder
        tokens = ids[bridged.name].clone()  # no inference tensor: it may be kept for the gradient
        try:
            with (
                cutting(stack, {module for module, _number in mirrors}) as leaves,
                probing(stack, bridged.name) as events,
            ):
                memory = runner.encode(tokens, None) if is_encoder else runner.decode(tokens, None, memory)
        except Exception:  # noqa: BLE001 - a model's code may raise anything where a gradient is asked for
            for mirror in mirrors.values():
                mirror.unclear = Reason.HEADS
            return
        memory = memory.detach()
        for event in events:
            attending = mirrors.get((event.module, event.number))
            if attending is not None and event.attention is not None:
                _find(events, leaves, attending, event, event.attention)


def _find(
    events: list[Event], leaves: Leaves, mirror: MirrorAttention, event: Event, attention: ObservedAttention
) -> None:
    inside = [call for call in events if event in call.within and is_linear(call) and call.module in leaves]
    try:
        matrices = Matrices(inside, leaves)
        if attention.call is None:
            mirror.parts = _outside(events, matrices, attention.weights, event)
        else:
            mirror.parts = _called(events, matrices, attention)
    except UnclearError as error:
        mirror.unclear = error.args[0]
    except RuntimeError:  # no gradient, or none of this type of numbers
        mirror.unclear = Reason.HEADS


def _called(events: list[Event], matrices: Matrices, attention: ObservedAttention) -> dict[str, HeadPart]:
    """Matrices of an attention that called our function with its queries, keys and values."""
    assert attention.heads is not None
    parts = {}
    for name in PROJECTIONS:
        projected: Tensor = getattr(attention.call, name)
        moved = [matrices.moved(head) for head in projected[0].unbind()]
        matrix, rows, outputs = matrices.rows(torch.stack([earlier | last for earlier, last in moved]))
        if rows.shape[1] != projected.shape[-1]:
            raise UnclearError(Reason.HEADS)
        # At the first position nothing is rotated: what a head has there is in the order of its rows.
        places = slice(None) if name == "value" else slice(1)
        _require_alike(projected[0, :, places], outputs[:, places])
        parts[name] = _part(matrix, rows)
    joined = attention.heads.flatten(2)[0]
    written = first(events, lambda event: is_linear(event) and same(event.x, joined))
    if written is None:
        raise UnclearError(Reason.WRITTEN)
    return {**parts, "output": _part(written, _blocks(joined.shape[-1], attention.heads.shape[2]), columns=True)}


def _outside(events: list[Event], matrices: Matrices, weights: Tensor, event: Event) -> dict[str, HeadPart]:
    """Matrices of an attention of which only the weights and the input of its W^O are seen.

    Weights of the last query depend on the query's channels at its own position only, and on the keys' elsewhere.
    """
    moved = [matrices.moved(head) for head in weights[0, :, -1].unbind()]
    keys = torch.stack([earlier for earlier, _last in moved])
    queries = torch.stack([last for _earlier, last in moved]) & ~keys
    if bool((queries.sum(0) > 1).any()):
        raise UnclearError(Reason.HEADS)
    projections = {"query": matrices.rows(queries), "key": matrices.rows(keys)}
    read = (queries | keys).any(0)
    layer = event.within[-1] if event.within else event
    for written in (call for call in events if is_linear(call) and (layer in call.within or event in call.within)):
        if not written.x.requires_grad or written.x.dim() != 2 or written.x.shape[-1] % len(keys):
            continue
        columns = _blocks(written.x.shape[-1], len(keys))
        joined = written.x[:, columns].transpose(0, 1)
        moved = [matrices.moved(head) for head in joined.unbind()]
        values = torch.stack([earlier | last for earlier, last in moved])
        if not bool((values & queries).any(1).all()):
            continue
        projections["value"] = matrices.rows(values & ~read)
        _require_alike(joined, weights[0] @ projections["value"][2])
        parts = {name: _part(by, places) for name, (by, places, _given) in projections.items()}
        return {**parts, "output": _part(written, columns, columns=True)}
    raise UnclearError(Reason.WRITTEN)


def _part(event: Event, places: Tensor, columns: bool = False) -> HeadPart:
    with torch.no_grad():
        if as_linear(event) is None:
            raise UnclearError(Reason.HEADS)
    return HeadPart(event.module, places, columns)


def _require_alike(x: Tensor, y: Tensor) -> None:
    """Require that two tensors (head, position, channel) are equal up to one factor.

    Raises:
        UnclearError: they are not.
    """
    factor = (x * y).sum() / (y * y).sum()
    if not close(x.detach(), (y * factor).detach()):
        raise UnclearError(Reason.HEADS)


def _blocks(width: int, heads: int) -> Tensor:
    return torch.arange(width).view(heads, -1)


def _multiplies(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
