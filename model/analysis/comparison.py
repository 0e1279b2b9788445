"""A trace beside another: the same quantities at the same tokens, and what changed most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from model.capture.trace import AttentionKind, Trace
from model.network.attention import MAPS
from model.runtime.device import exact

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

# Quantities with a row for each key; all others have one for each query or position.
OF_KEYS = ("key", "value")


@dataclass(frozen=True)
class Alignment:
    """Places of the tokens of one version of a text in another version.

    places: for each token of this version its place in the other, −1 where it was inserted.
    deleted: places of the other version that this one no longer has.
    replaced: places of this version at which the other has another token.
    """

    places: list[int]
    deleted: list[int]
    replaced: tuple[int, ...] = ()

    @property
    def inserted(self) -> list[int]:
        """Places of this version that the other does not have."""
        return [place for place, other in enumerate(self.places) if other < 0]


def align(tokens: Sequence[str], others: Sequence[str], replaced: bool = False) -> Alignment:
    """Alignment by the longest common runs of two token sequences (Ratcliff and Metzener, 1988, as in difflib).

    replaced: tokens in the place of as many others are their counterparts, one by one.
    """
    places = [-1] * len(tokens)
    changed: list[int] = []
    for act, first, end, other, last in SequenceMatcher(None, tokens, others, autojunk=False).get_opcodes():
        pairs = replaced and act == "replace" and end - first == last - other
        if act == "equal" or pairs:
            places[first:end] = range(other, last)
            changed += range(first, end) if pairs else ()
    matches = set(places)
    deleted = [place for place in range(len(others)) if place not in matches]
    return Alignment(places, deleted, tuple(changed))


class Comparison:
    """A trace beside the pinned one, whose quantities are moved to this trace's tokens.

    same_words: whether both models predict the tokens of one vocabulary; else no logit has a counterpart, and no token
    takes the place of another.
    """

    def __init__(self, trace: Trace, pinned: Trace, same_words: bool = True) -> None:
        self.trace, self.pinned, self.same_words = trace, pinned, same_words
        self.source = align(trace.source_tokens, pinned.source_tokens, same_words)
        self.target = align(trace.target_tokens, pinned.target_tokens, same_words)
        self._stacks: dict[str, Alignment] = {}

    def counterpart(self, name: str) -> Tensor | None:
        """Pinned quantity of this name, in its shape, at the places of this trace's tokens, NaN at inserted tokens.

        None where the pinned trace has none of that name, or one of another shape: another model's.
        """
        if name == "output.logits" and not self.same_words:
            return None
        try:
            tensor, shape = self.pinned[name], self.trace[name].shape
        except KeyError:
            return None
        tensor = self.moved(name, tensor.float() if tensor.dtype == torch.bool else tensor)
        return tensor if tensor.shape == shape else None

    def moved(self, name: str, tensor: Tensor) -> Tensor:
        """Tensor of the pinned trace, whose axes are those of the quantity of this name, at the places of this trace's
        tokens; NaN at inserted tokens.
        """
        for axis, alignment in self._axes(name, tensor):
            tensor = moved(tensor, alignment.places, axis)
        return tensor

    def difference(self, name: str) -> Tensor | None:
        """This trace's quantity minus the pinned one, in its shape, NaN where one of them has no such token.

        None where the quantity has no counterpart.
        """
        other = self.counterpart(name)
        return None if other is None else self.trace[name].to(other.dtype) - other.to(self.trace[name].device)

    def attention(self, kind: AttentionKind) -> Float[Tensor, "layer head query key"] | None:
        """Pinned weights of all layers and heads of one kind at this trace's tokens; None where a layer has none."""
        names = [f"{path}.weights" for path in self.trace.attention_paths(kind)]
        maps = [weights for name in names if (weights := self.counterpart(name)) is not None]
        return torch.stack(maps) if maps and len(maps) == len(names) else None

    @cached_property
    def changes(self) -> pandas.DataFrame:
        """Changes, largest first within each `kind`: head, layer, position, prediction.

        name: the quantity; layer, head, position: where, or None. change: for heads the mean total variation distance
        ½ Σ|w − w′| of a query's weights (0 to 1, weight on inserted and deleted keys counts in full); for layers and
        positions ‖x − x′‖ / ‖x′‖ of the residual stream; for predictions the divergence KL(p′ ‖ p) in nats.
        """
        import pandas

        rows = [*self._heads(*get_args(AttentionKind)), *self._residuals(), *self._predictions()]
        table = pandas.DataFrame(rows, columns=["kind", "name", "layer", "head", "position", "change"])
        table = table.astype(dict.fromkeys(("layer", "head", "position"), "Int64"))
        return table.sort_values(["kind", "change"], ascending=[True, False], ignore_index=True)

    def head_changes(self, kind: AttentionKind) -> NDArray[np.float32]:
        """Changes (layer, head) of the heads of one kind, NaN where the pinned trace has none to compare with."""
        paths = self.trace.attention_paths(kind)
        changes = np.full((len(paths), len(self.trace[f"{paths[0]}.weights"])), np.nan, np.float32)
        for _head, _path, layer, head, _place, change in self._heads(kind):
            changes[layer, head] = change  # type: ignore[call-overload]
        return changes

    def alignments(self, name: str) -> tuple[Alignment, Alignment]:
        """Alignments of the rows of the quantity of this name, and of its columns if it is a map."""
        stack = "encoder." if name.startswith("encoder.") else "decoder."
        if stack not in self._stacks:  # a decoder reads the source in a model of one stack, the target in one of two
            self._stacks[stack] = align(self.trace.tokens_of(stack), self.pinned.tokens_of(stack), self.same_words)
        queries = self._stacks[stack]
        keys = self.source if ".cross_attention." in name else queries
        return (keys if name.rpartition(".")[2] in OF_KEYS else queries), keys

    def _axes(self, name: str, tensor: Tensor) -> list[tuple[int, Alignment]]:
        rows, columns = self.alignments(name)
        if name.rpartition(".")[2] in (*MAPS, "visible"):
            return [(-2, rows), (-1, columns)]
        return [(-1 if tensor.dim() == 1 else -2, rows)]

    def row_changes(self, path: str) -> Float[Tensor, "head query"] | None:
        """½ Σ|w − w′| of every query of an attention, weight on inserted and deleted keys in full; NaN at queries that
        the pinned trace lacks. None where that has no such weights.
        """
        name = f"{path}.weights"
        other = self.counterpart(name)
        if other is None:
            return None
        own = self.trace[name].float()
        distance = (own - other.float()).abs().nansum(-1)
        queries, keys = self.alignments(name)
        inserted = own[..., keys.inserted].sum(-1)
        deleted = moved(self.pinned[name].float()[..., keys.deleted].sum(-1), queries.places, -1)
        return (distance + inserted + deleted) / 2

    def _heads(self, *kinds: AttentionKind) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for kind in kinds:
            for layer, path in enumerate(self.trace.attention_paths(kind)):
                changes = self.row_changes(path)
                if changes is None:
                    continue
                common = [
                    place for place, other in enumerate(self.alignments(f"{path}.weights")[0].places) if other >= 0
                ]
                if common:
                    means = changes[:, common].mean(dim=-1).tolist()
                    rows += [("head", path, layer, head, None, change) for head, change in enumerate(means)]
        return rows

    def _residuals(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        names = [name for name in self.trace.names() if name.endswith(".residual")]
        last = {name.partition(".")[0]: name for name in names}
        for name in names:
            other = self.counterpart(name)
            if other is None:
                continue
            change = (self.trace[name].float() - other.float()).norm(dim=-1) / other.float().norm(dim=-1)
            layer = int(name.split(".")[2])
            if not change.isnan().all():
                rows.append(("layer", name, layer, None, None, float(change.nanmean())))
            if name in last.values():
                places = enumerate(change.tolist())
                rows += [("position", name, layer, None, place, value) for place, value in places if value == value]
        return rows

    def _predictions(self) -> list[tuple[object, ...]]:
        name = "output.logits"
        other = self.counterpart(name)
        changes = [] if other is None else divergence(self.trace[name], other).tolist()
        return [("prediction", name, None, None, place, value) for place, value in enumerate(changes) if value == value]


def moved(tensor: Tensor, places: Sequence[int], axis: int) -> Tensor:
    """Slices of a tensor, of any shape, at `places` along `axis`, NaN for −1."""
    slices = tensor.movedim(axis, 0)
    result = slices.new_full((len(places), *slices.shape[1:]), torch.nan)
    rows = [number for number, place in enumerate(places) if place >= 0]
    result[rows] = slices[[places[number] for number in rows]]
    return result.movedim(0, axis)


# Effects of a change to the forward pass: one text traced before and after it.


def weight_changes(now: Trace, before: Trace, kind: AttentionKind) -> Float[Tensor, "layer head"]:
    """½ Σ |w − w′| over the keys, averaged over the queries: the total variation distance, 0 to 1.

    A row that lost all its keys has lost its whole weight and counts ½.
    """
    names = [f"{path}.weights" for path in now.attention_paths(kind)]
    changes = ((now[name].float() - before[name].float()).abs() for name in names)  # a layer at a time: maps are large
    return torch.stack([change.sum(dim=-1).mean(dim=-1) / 2 for change in changes])


def output_changes(now: Trace, before: Trace, kind: AttentionKind) -> Float[Tensor, "layer query"]:
    """‖o − o′‖ of each attention's output, after W^O, at every query."""
    paths = [f"{path}.output" for path in now.attention_paths(kind)]
    return torch.stack([(now[path].float() - before[path].float()).norm(dim=-1) for path in paths])


def divergence(
    now: Float[Tensor, "position vocabulary"], before: Float[Tensor, "position vocabulary"]
) -> Float[Tensor, position]:
    """KL(p′ ‖ p) = Σ p′ (ln p′ − ln p) in nats, from the logits of p (now) and p′ (before); NaN where one is."""
    return divergence_of_logs(exact(now).log_softmax(dim=-1), exact(before).log_softmax(dim=-1))


def divergence_of_logs(
    now: Float[Tensor, "position vocabulary"], before: Float[Tensor, "position vocabulary"]
) -> Float[Tensor, position]:
    """KL(p′ ‖ p) in nats, from ln p (now) and ln p′ (before)."""
    return (before.exp() * (before - now)).sum(dim=-1).clamp(min=0)
