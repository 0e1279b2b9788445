"""What-if changes to the forward pass, made from outside; here those of masks, in head_removal.py those of heads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from model.attention import MultiHeadAttention, explicit_attention
from model.masks import ChangedMask, Mask
from model.observing import changed, changing
from model.quantities import ATTENTION_PATHS, AttentionKind
from model.trace import attach


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
def intervening(model: nn.Module, changes: Sequence[Intervention]) -> Iterator[None]:
    """A block in which `model` computes with these changes, in this thread alone; traces made in it remember them."""
    attach(model)
    already = tuple(change for whose, change in changing.get() if whose is model)
    explicit = explicit_attention.set(explicit_attention.get() or any(change.explicit for change in changes))
    try:
        with changed(model, (*already, *changes)):
            yield
    finally:
        explicit_attention.reset(explicit)


@dataclass(frozen=True)
class AttentionChange(Intervention):
    """A change to one kind of attention, which can be written down: see change_texts.py."""

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
