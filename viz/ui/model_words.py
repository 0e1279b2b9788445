"""Words for a checkpoint: what kind of model it is, and what it does with a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.message import Message
from viz.i18n.catalogue import _
from viz.i18n.messages import in_language

if TYPE_CHECKING:
    from model.checkpoints.catalog import CatalogEntry

LANGUAGES = {
    ("eng", "en"): Message("English"),
    ("cmn", "zho", "chi", "zh"): Message("Chinese"),
    ("deu", "ger", "de"): Message("German"),
    ("fra", "fre", "fr"): Message("French"),
    ("spa", "es"): Message("Spanish"),
    ("rus", "ru"): Message("Russian"),
    ("jpn", "ja"): Message("Japanese"),
    ("kor", "ko"): Message("Korean"),
}
TASKS = {
    "copy": Message("copies letters"),
    "reverse": Message("writes letters backwards"),
    "sort": Message("sorts digits"),
    "addition": Message("adds numbers"),
    "brackets": Message("judges brackets"),
    "dates": Message("rewrites dates"),
    "caesar": Message("moves letters on in the alphabet"),
}
DOES = {
    "decoder-only": Message("goes on with a text"),
    "encoder-only": Message("fills gaps in a text"),
}


def model_words(model: CatalogEntry) -> str:
    """Kind of a checkpoint, and what it does, as far as its files say."""
    return " · ".join(filter(None, (_(model.kind) if model.kind else "", what_it_does(model))))


def what_it_does(model: CatalogEntry) -> str:
    """What a checkpoint does with a text, as far as its files say."""
    if model.languages:
        source, target = map(language_name, model.languages)
        return _("translates {source} → {target}").format(source=source, target=target)
    if model.task in TASKS:
        return in_language(TASKS[model.task])
    return in_language(DOES[model.kind]) if model.kind in DOES and model.predicts else ""


def language_name(code: str) -> str:
    """A language by its code; the code of one that has no name here."""
    short = code.lower().partition("_")[0]
    return next((in_language(name) for codes, name in LANGUAGES.items() if short in codes), code)
