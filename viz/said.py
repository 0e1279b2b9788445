"""What `model/` says of what went wrong, in the language in use.

`model/` knows no languages: its sentences are found again by their pattern. The catalogue `errors` has each as it is
written there, with the numbers of the values in their places: "d_model ({0}) must be divisible by n_heads ({1})".
"""

from __future__ import annotations

import gettext
import re
from functools import cache

from viz.i18n import LOCALE, language

CATALOGUE = "errors"


def said(error: Exception | str) -> str:
    """The sentence of an error, and those inside of it; as it is where no pattern fits."""
    text = str(error)
    for pattern, translation in _patterns(language()):
        if found := pattern.fullmatch(text):
            return translation.format(*(said(found[f"v{number}"]) for number in range(pattern.groups)))
    return text


@cache
def _patterns(language: str) -> list[tuple[re.Pattern[str], str]]:
    """The sentences with the most words of their own first: others may fit too."""
    if language == "en":
        return []
    with (LOCALE / language / "LC_MESSAGES" / f"{CATALOGUE}.mo").open("rb") as file:
        known: dict[str, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]  # no public way
    written = sorted((text for text in known if text), key=lambda text: -len(re.sub(r"\{\d\}", "", text)))
    return [(_pattern(text), known[text]) for text in written]


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\d)\}", text)
    return re.compile(
        "".join(f"(?P<v{part}>.*?)" if at % 2 else re.escape(part) for at, part in enumerate(parts)), re.DOTALL
    )
