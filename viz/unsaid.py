"""What a model of others leaves unsaid: what was taken for granted when it was opened, and what it does not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from viz.absent import reason_words
from viz.i18n import _
from viz.said import said
from viz.words import literal

if TYPE_CHECKING:
    from model.inference.model import Inspectable


def assumed(lens: Inspectable) -> list[str]:
    """What its weights do not say and was assumed, each in a few words; a file may have written what is quoted."""
    found = lens.training.get("assumed")
    return [said(each)[:200] for each in found if isinstance(each, str)] if isinstance(found, list) else []


def missing(lens: Inspectable) -> dict[str, list[str]]:
    """Names of the quantities that it does not have, those of all layers as one, by the sentence why."""
    found: dict[str, list[str]] = {}
    for name, reason in getattr(lens.model, "missing", {}).items():
        named = re.sub(r"\.\d+\.", ".*.", name)
        names = found.setdefault(reason_words(reason), [])
        if named not in names:
            names.append(named)
    return found


def in_short(lens: Inspectable) -> str:
    """All of it in a few lines of Markdown; empty where there is nothing to say."""
    lines = [f"- {_('Assumed')}: {literal(each)}" for each in assumed(lens)]
    lines += [f"- {why} `{', '.join(names)}`" for why, names in missing(lens).items()]
    return "\n".join(lines)


def title(lens: Inspectable) -> str:
    """How much of it there is."""
    sentence = _("{name}: {assumed} assumed, {missing} quantities missing")
    count = sum(map(len, missing(lens).values()))
    return sentence.format(name=literal(lens.name), assumed=len(assumed(lens)), missing=count)
