"""What-if changes to attentions as a text, for the address bar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast, get_args

from model.head_removal import RemovedHead
from model.interventions import AttentionChange, Causal, Cells, PaddingSeen, Window
from model.quantities import AttentionKind

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
