"""The rules of one kind's masks, and how clicks change them and single cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from model.analysis.attention_maps import Maps
from model.capture.interventions import AttentionChange, Causal, Cells, PaddingSeen, Window
from model.capture.trace import AttentionKind, Trace
from model.network.config import TransformerConfig
from viz.i18n.format import sides

if TYPE_CHECKING:
    from viz.state.session import Selection, Session


@dataclass(frozen=True)
class Rules:
    """Rules of the masks of one kind of attention: they hide the future, padding, keys as far away as `window`."""

    kind: AttentionKind
    causal: bool
    padding: bool
    window: int | None

    @classmethod
    def of(cls, config: TransformerConfig, kind: AttentionKind, layer: int = 0) -> Rules:
        """The model's own in this layer."""
        return cls(kind, kind == "decoder", True, None if kind == "cross" else config.window_of(layer))

    def after(self, changes: Sequence[AttentionChange]) -> Rules:
        """Rules in force after these changes."""
        rules = self
        for each in changes:
            if each.kind != self.kind:
                continue
            if isinstance(each, Causal):
                rules = replace(rules, causal=each.on)
            elif isinstance(each, PaddingSeen):
                rules = replace(rules, padding=False)
            elif isinstance(each, Window):
                rules = replace(rules, window=each.width)
        return rules

    def changes(self, others: Sequence[AttentionChange], own: Rules) -> list[AttentionChange]:
        """Changes that put these rules in force, and leave the others; the model's own rules are no change."""
        switches = (Causal, PaddingSeen, Window)
        new_changes = [each for each in others if each.kind != self.kind or not isinstance(each, switches)]
        if self.causal != own.causal:
            new_changes.append(Causal(self.kind, self.causal))
        if self.padding != own.padding:
            new_changes.append(PaddingSeen(self.kind))
        if self.window != own.window:
            new_changes.append(Window(self.kind, self.window))
        return new_changes


def with_cells(changes: Sequence[AttentionChange], cells: Cells) -> list[AttentionChange]:
    """The changes after a click: the same cells changed before are as they were, others are changed."""
    others = [each for each in changes if not isinstance(each, Cells) or replace(each, visible=cells.visible) != cells]
    return others if len(others) < len(changes) else [*changes, cells]


def cells_at(visible: Tensor, query: int, key: int) -> Tensor:
    """A cell of a mask, a row (key −1) or a column (query −1)."""
    return visible[slice(None) if query < 0 else query, slice(None) if key < 0 else key]


def fit(session: Session, trace: Trace, kind: AttentionKind) -> Selection:
    """The selection inside what this kind of attention has; a click on its queries' tokens chooses another."""
    maps = Maps(trace, kind)
    session.selection.side = sides(trace, kind)[0]
    return session.fit_selection(maps.layers, maps.heads, maps.queries)
