"""What-if changes to the forward pass, made from outside: to masks, heads, experts, and their form as a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.capture.hooks import changed, changes_to
from model.capture.trace import ATTENTION_PATHS, AttentionKind, attach
from model.message import InputError
from model.network.attention import MultiHeadAttention
from model.network.experts import Gates
from model.network.kernels import plain_kernels
from model.network.masks import Edit, Mask


class Intervention:
    """Change to the forward pass. Subclasses are frozen dataclasses, which can be compared.

    explicit: whether the pass must compute scores and weights step by step.
    """

    explicit: ClassVar[bool] = False

    @property
    def looks_ahead(self) -> bool:
        """True if the states of a generated token come to depend on later ones, so that they cannot be cached."""
        return False

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Inputs of the module at `path`, in the place of `inputs`."""
        return inputs

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        """Output of the module at `path`, in the place of `output` of the same shape (maps on demand have no batch)."""
        return output


@contextmanager
def intervening(network: nn.Module, changes: Sequence[Intervention]) -> Iterator[None]:
    """Block in which `network` computes with these changes, in this context alone; its traces keep them."""
    attach(network)
    together = (*changes_to(network), *changes)
    with plain_kernels(any(change.explicit for change in changes)), changed(network, together):
        yield


@dataclass(frozen=True)
class AttentionChange(Intervention):
    """Change to one kind of attention, or to a layer that has it; `str` is its text, see `read_changes`."""

    kind: AttentionKind


@dataclass(frozen=True)
class MaskChange(AttentionChange):
    """Change to the masks M of one kind of attention; scores stay as they are."""

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if not isinstance(module, MultiHeadAttention) or not self.concerns(path):
            return inputs
        x, memory, mask, *cache = inputs
        if not isinstance(mask, ChangedMask):
            mask = ChangedMask(mask.keys, mask.causal, mask.window, mask.pattern, original=mask)
        first = cache[0].first(x.shape[1]) if cache and cache[0] is not None else 0
        return (x, memory, self.change(mask, module, first), *cache)

    def concerns(self, path: str) -> bool:
        """True if the change is to the attention at `path`."""
        return kind_and_layer(path)[0] == self.kind

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        """Changed mask; first: position of the first query, above 0 where earlier ones are in a cache."""
        raise NotImplementedError


@dataclass(frozen=True)
class Causal(MaskChange):
    """Causal rule on or off: whether later keys are hidden from a query (section 3.2.3)."""

    on: bool

    @property
    def looks_ahead(self) -> bool:
        return self.kind == ("cross" if self.on else "decoder")  # the last query stands at the source's last key

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        return replace(mask, causal=self.on)

    def __str__(self) -> str:
        return f"{self.kind}:causal:{'on' if self.on else 'off'}"


@dataclass(frozen=True)
class PaddingSeen(MaskChange):
    """Padding is visible like any token."""

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        return replace(mask, keys=None)

    def __str__(self) -> str:
        return f"{self.kind}:padding:off"


@dataclass(frozen=True)
class Window(MaskChange):
    """Sliding window: a query sees keys less than `width` away; None: all (Beltagy et al., 2020, section 3.1).

    Raises:
        ValueError: `width` is below 1.
    """

    width: int | None

    def __post_init__(self) -> None:
        if self.width is not None and self.width < 1:
            raise InputError("window ({width}) must be at least 1, or off", width=self.width)

    @property
    def looks_ahead(self) -> bool:
        return self.kind == "cross" and self.width is not None  # as above

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        return replace(mask, window=self.width)

    def __str__(self) -> str:
        return f"{self.kind}:window:{self.width or 'off'}"


@dataclass(frozen=True)
class Cells(MaskChange):
    """Cells of the mask that are hidden or visible whatever the rules say.

    query, key, layer, head: of the cells; None: all.
    """

    visible: bool
    query: int | None = None
    key: int | None = None
    layer: int | None = None
    head: int | None = None

    @property
    def looks_ahead(self) -> bool:
        ahead = self.query is None or self.key is None or self.key > self.query
        return self.kind == "decoder" and self.visible and ahead

    def concerns(self, path: str) -> bool:
        return super().concerns(path) and self.layer in (None, kind_and_layer(path)[1])

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        n_heads = attention.query.n_heads
        if self.head is not None and self.head >= n_heads:
            return mask
        return replace(
            mask,
            edits=(*mask.edits, (self.head, self.query, self.key, self.visible)),
            heads=mask.heads if self.head is None else n_heads,
            first=first,
        )

    def __str__(self) -> str:
        attention = ".".join(_star(number) for number in (self.layer, self.head))
        cell = ",".join(_star(number) for number in (self.query, self.key))
        return f"{self.kind}.{attention}:{'show' if self.visible else 'hide'}:{cell}"


def kind_and_layer(path: str) -> tuple[str, int]:
    """Kind and layer of the attention at `path`; ("", -1) where there is none."""
    parts = re.fullmatch(r"(.*\.)(\d+)(\..*)", path)
    kinds = {pattern: kind for kind, pattern in ATTENTION_PATHS.items()}
    if parts is None or (kind := kinds.get(f"{parts[1]}{{}}{parts[3]}")) is None:
        return "", -1
    return kind, int(parts[2])


def _star(number: int | None) -> str:
    return "*" if number is None else str(number)


# Changes to attentions as a text.

MOST = 500  # changes in one text
KINDS = "|".join(get_args(AttentionKind))
NUMBER = r"(\d{1,5}|\*)"
SWITCH = re.compile(rf"({KINDS}):(causal:on|causal:off|padding:off|window:off|window:\d{{1,5}})", re.ASCII)
CELLS = re.compile(rf"({KINDS})\.{NUMBER}\.{NUMBER}:(show|hide):{NUMBER},{NUMBER}", re.ASCII)
REMOVED = re.compile(rf"({KINDS})\.(\d{{1,5}})\.(\d{{1,5}}):remove", re.ASCII)
REMOVED_EXPERT = re.compile(r"(encoder|decoder)\.(\d{1,5})\.expert\.(\d{1,5}):remove", re.ASCII)


def write_changes(changes: Sequence[AttentionChange]) -> str:
    """Changes as a text, for `read_changes`; layers, heads and positions count from 0."""
    return ";".join(map(str, changes))


def read_changes(text: str) -> tuple[AttentionChange, ...]:
    """Changes of a text, as `write_changes` wrote it.

    Raises:
        ValueError: a part of the text is no change, or there are more than 500.
    """
    parts = text.split(";") if text else []
    if len(parts) > MOST:
        raise InputError("there are {count} changes: {most} are the most", count=len(parts), most=MOST)
    return tuple(_read(part) for part in parts)


def _read(part: str) -> AttentionChange:
    if match := SWITCH.fullmatch(part):
        kind, (rule, value) = cast(AttentionKind, match[1]), match[2].split(":")
        if rule == "causal":
            return Causal(kind, value == "on")
        return PaddingSeen(kind) if rule == "padding" else Window(kind, None if value == "off" else int(value))
    if match := CELLS.fullmatch(part):
        layer, head, query, key = (None if number == "*" else int(number) for number in match.group(2, 3, 5, 6))
        return Cells(cast(AttentionKind, match[1]), match[4] == "show", query, key, layer, head)
    if match := REMOVED.fullmatch(part):
        return RemovedHead(cast(AttentionKind, match[1]), int(match[2]), int(match[3]))
    if match := REMOVED_EXPERT.fullmatch(part):
        return RemovedExpert(cast(AttentionKind, match[1]), int(match[2]), int(match[3]))
    raise InputError(
        "{part!r} is no change: write, for example, decoder:causal:off or decoder.3.1:remove", part=part[:40]
    )


# Removing heads: their weighted values are 0 before W^O (Michel et al., 2019, section 2.3).


class HeadsRemoved(Intervention):
    """Removal of heads of one layer: ξ_h = 0 in Σ_h ξ_h · (softmax(Q Kᵀ / √d_k) V)_h W^O_h."""

    kind: AttentionKind
    layer: int

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        """Set the removed heads to zero, in place."""
        raise NotImplementedError

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Inputs unchanged.

        Raises:
            ValueError: the heads of this network cannot be told apart.
        """
        if path == self._path and not hasattr(module, "heads"):
            raise ValueError("the heads of this model cannot be removed: it computes its attention by code of its own")
        return inputs

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        if not path.endswith(".heads") or path != f"{self._path}.heads":
            return output
        output = output.clone()
        self.empty(output)
        return output

    @cached_property
    def _path(self) -> str:  # cached: every removal is asked about every module of a pass
        return ATTENTION_PATHS[self.kind].format(self.layer)


@dataclass(frozen=True)
class RemovedHead(AttentionChange, HeadsRemoved):
    """Removal of one head; no change where the network does not have it.

    A cache of keys and values stays exact: they do not depend on later tokens.
    """

    layer: int
    head: int

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        heads[..., self.head : self.head + 1, :, :] = 0

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}:remove"


@dataclass(frozen=True)
class EachRemoved(HeadsRemoved):
    """Removal of one head in each example of a batch: of `heads[i]` in example i."""

    kind: AttentionKind
    layer: int
    heads: tuple[int, ...]

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        heads[torch.arange(len(self.heads)), list(self.heads)] = 0


def removed_heads(changes: Sequence[Intervention], kind: str, layer: int) -> list[int]:
    """Heads of a layer that these changes remove, in order."""
    removals = [change for change in changes if isinstance(change, RemovedHead)]
    return sorted({removal.head for removal in removals if (removal.kind, removal.layer) == (kind, layer)})


@dataclass(frozen=True)
class RemovedExpert(AttentionChange):
    """Removal of one expert: the router cannot choose it, and its tokens go to the others. No change where the network
    does not have it.

    kind: "encoder" or "decoder", the stack of the layer. Each token is computed alone, so a cache stays exact.
    """

    layer: int
    expert: int

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Logits that are chosen from, −∞ for the expert.

        Raises:
            ValueError: the experts are not ours, or none of the layer is left.
        """
        if path != self._path:
            return inputs
        if not isinstance(module, Gates):
            raise ValueError("the experts of this model cannot be removed: it computes them by code of its own")
        logits: Tensor = inputs[0].clone()
        logits[..., self.expert : self.expert + 1] = -torch.inf
        if bool(logits.isneginf().all()):
            raise InputError("no expert of layer {layer} is left: restore one of them", layer=self.layer + 1)
        return (logits,)

    @cached_property
    def _path(self) -> str:
        return f"{self.kind}.layers.{self.layer}.feed_forward.gates"

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.expert.{self.expert}:remove"


@dataclass(frozen=True, kw_only=True)
class ChangedMask(Mask):
    """Mask with changed rules, or with single cells hidden or visible whatever the rules say.

    original: mask of the network. edits: the later one wins where two are of the same cell; cells outside are ignored.
    heads: number of heads where edits differ between them, else 1. first: position of the first query.
    """

    original: Mask
    edits: tuple[Edit, ...] = ()
    heads: int = 1
    first: int = 0

    def is_plain(self, queries: int, keys: int) -> bool:
        return not self.edits and super().is_plain(queries, keys)

    def _make(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """Kept by the original mask, which all layers of a pass share."""
        rules = (self.keys is None, self.causal, self.window, self.edits, self.heads, self.first)
        return self.original.once((queries, keys, rules), lambda: self._edited(queries, keys, device))

    def _edited(self, queries: int, keys: int, device: torch.device) -> Tensor:
        visible = super()._make(queries, keys, device)
        if self.edits:
            visible = visible.expand(-1, self.heads, -1, -1).clone()
        for head, query, key, is_visible in self.edits:
            row = None if query is None else query - self.first
            if (row is None or 0 <= row < queries) and (key is None or key < keys):
                visible[:, _one_or_all(head), _one_or_all(row), _one_or_all(key)] = is_visible
        return visible


def _one_or_all(index: int | None) -> int | slice:
    return slice(None) if index is None else index
