"""Two languages, by gettext catalogues in locale/: one for the frame, and one for each page that has its own."""

from __future__ import annotations

import gettext
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path

LANGUAGES = {"en": "EN", "zh": "中文"}
LOCALE = Path(__file__).parent / "locale"

_language: ContextVar[str] = ContextVar("language", default="")
_sessions: list[Callable[[], str]] = []


def use(language: str) -> None:
    """Speak this language until the end of this run of the script."""
    _language.set(language if language in LANGUAGES else "en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """A block in which this language is in use."""
    before = _language.set(language if language in LANGUAGES else "en")
    try:
        yield
    finally:
        _language.reset(before)


def follow(session: Callable[[], str]) -> None:
    """Use the language of `session` where none is in use yet: a button's callback runs before the script does."""
    _sessions[:] = [session]


def language() -> str:
    return _language.get() or next((each() for each in _sessions), "en")


def preferred(locale: str | None) -> str:
    """The language to begin with for a browser's locale, such as "zh-CN"."""
    wanted = (locale or "").split("-")[0].lower()
    return wanted if wanted in LANGUAGES else "en"


def _(text: str) -> str:
    """`text` in the language in use. Placeholders are for `str.format`."""
    return _lookup(language(), text)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The one of two texts that goes with a count, in the language in use."""
    return _catalogue(language()).ngettext(singular, plural, count)


@lru_cache(maxsize=1 << 14)  # a figure asks for hundreds at a keystroke, and each catalogue would be looked into
def _lookup(name: str, text: str) -> str:
    return _catalogue(name).gettext(text)


@cache
def _catalogue(name: str) -> gettext.NullTranslations:
    if name == "en":
        return gettext.NullTranslations()
    catalogue = gettext.NullTranslations()
    for path in sorted((LOCALE / name / "LC_MESSAGES").glob("*.mo")):
        catalogue.add_fallback(gettext.translation(path.stem, localedir=LOCALE, languages=[name]))
    return catalogue
