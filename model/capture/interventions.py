"""What-if changes to the forward pass, made from outside: of masks, of heads, and how an address writes both."""

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

from model.capture.hooks import changed, changing
from model.capture.trace import ATTENTION_PATHS, AttentionKind, attach
from model.network.attention import MultiHeadAttention
from model.network.kernels import plain_kernels
from model.network.masks import Edit, Mask


class Intervention:
    """A change to the forward pass. Subclasses are frozen dataclasses: they are compared, kept and written down.

    explicit: whether scores and weights must be computed inside the pass, and not in a fused kernel.
    """

    explicit: ClassVar[bool] = False

    @property
    def looks_ahead(self) -> bool:
        """Whether a token of what is written comes to depend on later ones: then nothing of it can be kept."""
        return False

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the module at `path` is given instead of `inputs`."""
        return inputs

    def after(self, path: str, module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        """What goes on instead of its output. Maps on demand have no batch dimension."""
        return output


@contextmanager
def intervening(network: nn.Module, changes: Sequence[Intervention]) -> Iterator[None]:
    """A block in which `network` computes with these changes, in this thread alone; traces made in it remember them."""
    attach(network)
    already = tuple(change for whose, change in changing.get() if whose is network)
    with plain_kernels(any(change.explicit for change in changes)), changed(network, (*already, *changes)):
        yield


@dataclass(frozen=True)
class AttentionChange(Intervention):
    """A change to one kind of attention, which can be written down: see below."""

    kind: AttentionKind


@dataclass(frozen=True)
class MaskChange(AttentionChange):
    """A change to the masks of one kind of attention. Scores are computed as ever; M is another."""

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if not isinstance(module, MultiHeadAttention) or not self.concerns(path):
            return inputs
        x, memory, mask, *kept = inputs
        if not isinstance(mask, ChangedMask):
            mask = ChangedMask(mask.keys, mask.causal, mask.window, mask.pattern, original=mask)
        first = kept[0].first(x.shape[1]) if kept and kept[0] is not None else 0
        return (x, memory, self.change(mask, module, first), *kept)

    def concerns(self, path: str) -> bool:
        """Whether the attention at `path` is one of those changed."""
        return kind_and_layer(path)[0] == self.kind

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        """The changed mask; first: the position of the first query, where earlier ones were fed before."""
        raise NotImplementedError


@dataclass(frozen=True)
class Causal(MaskChange):
    """The causal rule on or off: whether a query is kept from later keys (section 3.2.3)."""

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
    """Padding is looked at like any token."""

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        return replace(mask, keys=None)

    def __str__(self) -> str:
        return f"{self.kind}:padding:off"


@dataclass(frozen=True)
class Window(MaskChange):
    """A query sees keys less than `width` away; None: however far (Beltagy et al., 2020, section 3.1)."""

    width: int | None

    def __post_init__(self) -> None:
        if self.width is not None and self.width < 1:
            raise ValueError(f"window ({self.width}) must be at least 1, or off")

    @property
    def looks_ahead(self) -> bool:
        return self.kind == "cross" and self.width is not None  # as above

    def change(self, mask: ChangedMask, attention: MultiHeadAttention, first: int) -> Mask:
        return replace(mask, window=self.width)

    def __str__(self) -> str:
        return f"{self.kind}:window:{self.width or 'off'}"


@dataclass(frozen=True)
class Cells(MaskChange):
    """Cells hidden or shown whatever the rules say: of one query and key, or, where these are None, of all of them.

    layer, head: where; None: in every one.
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
        place = ".".join(_star(each) for each in (self.layer, self.head))
        cell = ",".join(_star(each) for each in (self.query, self.key))
        return f"{self.kind}.{place}:{'show' if self.visible else 'hide'}:{cell}"


def kind_and_layer(path: str) -> tuple[str, int]:
    """Of the attention at `path`; ("", -1) where there is none."""
    found = re.fullmatch(r"(.*\.)(\d+)(\..*)", path)
    kinds = {pattern: kind for kind, pattern in ATTENTION_PATHS.items()}
    if found is None or (kind := kinds.get(f"{found[1]}{{}}{found[3]}")) is None:
        return "", -1
    return kind, int(found[2])


def _star(number: int | None) -> str:
    return "*" if number is None else str(number)


# What-if changes to attentions as a text, for the address bar.

MOST = 500  # changes that one text may list
KINDS = "|".join(get_args(AttentionKind))
NUMBER = r"(\d{1,5}|\*)"
SWITCH = re.compile(rf"({KINDS}):(causal:on|causal:off|padding:off|window:off|window:\d{{1,5}})", re.ASCII)
CELLS = re.compile(rf"({KINDS})\.{NUMBER}\.{NUMBER}:(show|hide):{NUMBER},{NUMBER}", re.ASCII)
REMOVED = re.compile(rf"({KINDS})\.(\d{{1,5}})\.(\d{{1,5}}):remove", re.ASCII)


def write_changes(changes: Sequence[AttentionChange]) -> str:
    """The changes as a text, for `read_changes`; layers, heads and positions count from 0."""
    return ";".join(map(str, changes))


def read_changes(text: str) -> tuple[AttentionChange, ...]:
    """Changes as `write_changes` wrote them.

    Raises:
        ValueError: the text says something else.
    """
    parts = text.split(";") if text else []
    if len(parts) > MOST:
        raise ValueError(f"there are {len(parts)} changes: {MOST} are the most")
    return tuple(_read(part) for part in parts)


def _read(part: str) -> AttentionChange:
    if found := SWITCH.fullmatch(part):
        kind, (rule, how) = cast(AttentionKind, found[1]), found[2].split(":")
        if rule == "causal":
            return Causal(kind, how == "on")
        return PaddingSeen(kind) if rule == "padding" else Window(kind, None if how == "off" else int(how))
    if found := CELLS.fullmatch(part):
        layer, head, query, key = (None if each == "*" else int(each) for each in found.group(2, 3, 5, 6))
        return Cells(cast(AttentionKind, found[1]), found[4] == "show", query, key, layer, head)
    if found := REMOVED.fullmatch(part):
        return RemovedHead(cast(AttentionKind, found[1]), int(found[2]), int(found[3]))
    raise ValueError(f"{part[:40]!r} is no change: write, for example, decoder:causal:off or decoder.3.1:remove")


# Removing heads: their weighted values are 0 before W^O (Michel et al., 2019, section 2.3).


class HeadsRemoved(Intervention):
    """Heads of one layer that give nothing: ξ_h = 0 in Σ_h ξ_h · (softmax(Q Kᵀ / √d_k) V)_h W^O_h."""

    kind: AttentionKind
    layer: int

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        """Write the zeros."""
        raise NotImplementedError

    def before(self, path: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """
        Raises:
            ValueError: only the model's own code has the heads apart.
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
    def _path(self) -> str:  # kept: many may be removed, and each is asked about every module of a pass
        return ATTENTION_PATHS[self.kind].format(self.layer)


@dataclass(frozen=True)
class RemovedHead(AttentionChange, HeadsRemoved):
    """One head; one that the model does not have is no change.

    Each token's output is that of its own pass without the head, so a cache of keys and values stays exact.
    """

    layer: int
    head: int

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        heads[..., self.head : self.head + 1, :, :] = 0

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}:remove"


@dataclass(frozen=True)
class EachRemoved(HeadsRemoved):
    """For a batch of copies of one text: in the first the first of these heads is removed, and so on."""

    kind: AttentionKind
    layer: int
    heads: tuple[int, ...]

    def empty(self, heads: Float[Tensor, "*batch head query channel"]) -> None:
        heads[torch.arange(len(self.heads)), list(self.heads)] = 0


def removed_heads(changes: Sequence[Intervention], kind: str, layer: int) -> list[int]:
    """The heads of a layer that these changes remove."""
    removals = [each for each in changes if isinstance(each, RemovedHead)]
    return sorted({each.head for each in removals if (each.kind, each.layer) == (kind, layer)})


@dataclass(frozen=True, kw_only=True)
class ChangedMask(Mask):
    """A mask with other rules than the network gave it, or with single cells hidden or shown whatever the rules say.

    original: the network's own. edits: the later one wins where two name the same cell; cells outside are none.
    heads: as many as the edits distinguish. first: the position of the first query, where earlier ones are in a cache.
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
        for head, query, key, shown in self.edits:
            row = None if query is None else query - self.first
            if (row is None or 0 <= row < queries) and (key is None or key < keys):
                visible[:, _one_or_all(head), _one_or_all(row), _one_or_all(key)] = shown
        return visible


def _one_or_all(index: int | None) -> int | slice:
    return slice(None) if index is None else index
