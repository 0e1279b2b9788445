"""Which rows of a bridged model's matrices are each head's: found by what its queries, keys and values depend on.

No name is known here and no layout guessed. The products of matrices are cut out of the graph of a few tokens, so that
a gradient is other than zero exactly at the channels that a head is made of, however they are packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from model.checkpoints.bridge.match import as_linear, is_linear
from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import HeadPart, MirrorAttention
from model.checkpoints.bridge.probe import Attended, Event, close, first, flat, probing, same

if TYPE_CHECKING:
    from model.checkpoints.bridge.runner import Runner
    from model.checkpoints.bridge.stack import BridgedStack

MADE = ("query", "key", "value")
Cut = Mapping[nn.Module, list[Tensor]]  # what each call of a matrix gave, as the beginning of the graph


class UnclearError(Exception):
    """Which rows are whose cannot be told; the reason is its argument."""


@contextmanager
def cutting(stack: nn.Module, attentions: Iterable[nn.Module]) -> Iterator[Cut]:
    """A block in which the products of matrices begin the graph, and no norm inside an attention does anything: it
    scales channels, and moves none.
    """
    cut: dict[nn.Module, list[Tensor]] = {}

    def begin(
        module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(map(_detached, inputs)), {name: _detached(each) for name, each in named.items()}

    def matrix(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        leaf = output.detach().requires_grad_()
        cut.setdefault(module, []).append(leaf)
        return leaf.clone()  # which may be added to in place

    def norm(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
        fits = inputs and isinstance(output, Tensor) and output.shape == inputs[0].shape
        return inputs[0] if fits else output

    outer = set(attentions)
    norms = {each for one in outer for each in one.modules() if "norm" in type(each).__name__.lower()}
    hooks = [each.register_forward_pre_hook(begin, with_kwargs=True) for each in outer]
    hooks += [each.register_forward_hook(norm) for each in norms - outer]
    hooks += [each.register_forward_hook(matrix) for each in stack.modules() if _multiplies(each)]
    try:
        yield cut
    finally:
        for hook in hooks:
            hook.remove()


class Matrices:
    """The matrices that an attention multiplies by, their channels counted through.

    inside: the calls.
    """

    def __init__(self, inside: list[Event], cut: Cut) -> None:
        self.inside = inside
        self.leaves = [cut[each.module][each.number] for each in inside]
        self.widths = [leaf.shape[-1] for leaf in self.leaves]

    def moved(self, made: Tensor) -> tuple[Bool[Tensor, " channel"], Bool[Tensor, " channel"]]:
        """On which channels a tensor depends, at any position but the last, and at the last one: where the gradient of
        a random sum is not zero.
        """
        nowhere = [torch.zeros(width, dtype=torch.bool) for width in self.widths]
        if not made.requires_grad:
            return torch.cat(nowhere), torch.cat(nowhere)
        weights = torch.randn(made.shape, generator=torch.Generator().manual_seed(0)).to(made)
        found = torch.autograd.grad(made, self.leaves, weights, retain_graph=True, allow_unused=True)
        changes = [
            none[None] if each is None else (flat(each) != 0).cpu() for none, each in zip(nowhere, found, strict=True)
        ]
        return torch.cat([each[:-1].any(0) for each in changes]), torch.cat([each[-1] for each in changes])

    def rows(self, responding: Bool[Tensor, "head channel"]) -> tuple[Event, Tensor, Tensor]:
        """The matrix that made these channels, the rows (head, channel) of each head, and what they gave.

        Raises:
            UnclearError: heads have none or not as many, or they come of several matrices or of more than one step.
        """
        counts = responding.sum(1)
        if not int(counts[0]) or bool((counts != counts[0]).any()):
            raise UnclearError(Reason.HEADS)
        channels = responding.nonzero()[:, 1].view(len(responding), -1)
        start = 0
        for event, leaf, width in zip(self.inside, self.leaves, self.widths, strict=True):
            own = channels - start
            if bool(((own >= 0) & (own < width)).all()):
                if event.x.requires_grad:
                    raise UnclearError(Reason.SEVERAL)
                return event, own, flat(leaf).detach()[:, own.to(leaf.device)].transpose(0, 1)
            start += width
        raise UnclearError(Reason.HEADS)


@torch.inference_mode(False)
@torch.enable_grad()
def find_head_parts(runner: Runner, stacks: Sequence[BridgedStack], ids: Mapping[str, Tensor]) -> None:
    """The four matrices of every attention, kept by its shadow, or the reason why they are not known.

    ids: a few tokens for each stack.
    """
    memory: Tensor | None = None
    for built in stacks:
        shadows = {(event.module, event.number): each for event, _side, each in built.tells if _attends(each)}
        stack = runner.encoder if built.name == "encoder" and runner.encoder is not None else runner.decoder
        own = ids[built.name].clone()  # of no inference: it may be kept for the gradient
        try:
            with cutting(stack, {module for module, _number in shadows}) as cut, probing(stack, built.name) as events:
                memory = runner.encode(own, None) if built.name == "encoder" else runner.decode(own, None, memory)
        except Exception:  # code of others raises what it likes where a gradient is asked for
            for shadow in shadows.values():
                shadow.unclear = Reason.HEADS
            return
        memory = memory.detach()
        for event in events:
            found = shadows.get((event.module, event.number))
            if found is not None and event.attention is not None:
                _find(events, cut, found, event)


def _attends(shadow: nn.Module) -> TypeGuard[MirrorAttention]:
    return isinstance(shadow, MirrorAttention)


def _find(events: list[Event], cut: Cut, shadow: MirrorAttention, event: Event) -> None:
    inside = [each for each in events if event in each.within and is_linear(each) and each.module in cut]
    seen = event.attention
    assert seen is not None
    try:
        matrices = Matrices(inside, cut)
        called = seen.call is not None
        shadow.parts = _called(events, matrices, seen) if called else _outside(events, matrices, seen.weights, event)
    except UnclearError as error:
        shadow.unclear = error.args[0]
    except RuntimeError:  # no gradient, or none of this kind of number
        shadow.unclear = Reason.HEADS


def _called(events: list[Event], matrices: Matrices, seen: Attended) -> dict[str, HeadPart]:
    """Of an attention that gave its queries, keys and values to our function."""
    assert seen.heads is not None
    parts = {}
    for name in MADE:
        made: Tensor = getattr(seen.call, name)
        moved = [matrices.moved(head) for head in made[0].unbind()]
        by, rows, given = matrices.rows(torch.stack([earlier | last for earlier, last in moved]))
        if rows.shape[1] != made.shape[-1]:
            raise UnclearError(Reason.HEADS)
        # At the first position nothing is rotated: what a head has there is in the order of its rows.
        places = slice(None) if name == "value" else slice(1)
        _require_alike(made[0, :, places], given[:, places])
        parts[name] = _part(by, rows)
    joined = seen.heads.flatten(2)[0]
    written = first(events, lambda each: is_linear(each) and same(each.x, joined))
    if written is None:
        raise UnclearError(Reason.WRITTEN)
    return {**parts, "output": _part(written, _blocks(joined.shape[-1], seen.heads.shape[2]), columns=True)}


def _outside(events: list[Event], matrices: Matrices, weights: Tensor, event: Event) -> dict[str, HeadPart]:
    """Of an attention of which only the weights are seen, and what its W^O reads.

    The weights of the last query depend on its own channels at its own place only, and on those of keys elsewhere.
    """
    moved = [matrices.moved(head) for head in weights[0, :, -1].unbind()]
    keys = torch.stack([earlier for earlier, _last in moved])
    queries = torch.stack([last for _earlier, last in moved]) & ~keys
    if bool((queries.sum(0) > 1).any()):
        raise UnclearError(Reason.HEADS)
    made = {"query": matrices.rows(queries), "key": matrices.rows(keys)}
    known = (queries | keys).any(0)
    layer = event.within[-1] if event.within else event
    for written in (each for each in events if is_linear(each) and (layer in each.within or event in each.within)):
        if not written.x.requires_grad or written.x.dim() != 2 or written.x.shape[-1] % len(keys):
            continue
        columns = _blocks(written.x.shape[-1], len(keys))
        joined = written.x[:, columns].transpose(0, 1)
        moved = [matrices.moved(head) for head in joined.unbind()]
        values = torch.stack([earlier | last for earlier, last in moved])
        if not bool((values & queries).any(1).all()):
            continue
        made["value"] = matrices.rows(values & ~known)
        _require_alike(joined, weights[0] @ made["value"][2])
        parts = {name: _part(by, places) for name, (by, places, _given) in made.items()}
        return {**parts, "output": _part(written, columns, columns=True)}
    raise UnclearError(Reason.WRITTEN)


def _part(event: Event, places: Tensor, columns: bool = False) -> HeadPart:
    with torch.no_grad():
        if as_linear(event) is None:
            raise UnclearError(Reason.HEADS)
    return HeadPart(event.module, places, columns)


def _require_alike(made: Tensor, own: Tensor) -> None:
    """The same, (head, position, channel), up to one factor."""
    factor = (made * own).sum() / (own * own).sum()
    if not close(made.detach(), (own * factor).detach()):
        raise UnclearError(Reason.HEADS)


def _blocks(width: int, heads: int) -> Tensor:
    return torch.arange(width).view(heads, -1)


def _multiplies(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _detached(given: Any) -> Any:
    return given.detach() if isinstance(given, Tensor) else given
