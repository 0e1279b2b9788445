"""Whose tokens are the rows and columns of an attention map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viz.i18n import _

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind, Trace

SIDES = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}


def sides(trace: Trace, kind: AttentionKind) -> tuple[str, str]:
    """Whose tokens are the rows and the columns of a map. A model of one stack has source tokens alone."""
    return SIDES[kind] if trace.target_tokens else ("source", "source")


def tokens(trace: Trace, side: str) -> list[str]:
    return trace.source_tokens if side == "source" else trace.target_tokens


def side_name(trace: Trace, side: str) -> str:
    if not trace.target_tokens:
        return _("text")
    return _("source") if side == "source" else _("target")
