"""One Chinese word for one thing: every entry of the catalogues against the tables of the glossary."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.viz.i18n.test_catalogue import translations
from viz.i18n.catalogue import LOCALE

GLOSSARY = LOCALE.parent / "glossary.md"
# Titles, tokens, options with their values, placeholders: what stands in a Chinese text as it is.
NAMES = re.compile(r"\*[^*]+\*|<\w+>|\b\w+:(?=\w)|\w+ \(?{[^}]*}\)|{[^}]*}|\w+ are {")
# Texts whose English has the word in another sense, by their beginnings.
OTHER_SENSE = {
    "film": ["scores divided by the square root of a head's width (on film"],  # a recorded lecture
    "source": ["line {number} of {name} has both , and ;"],  # a line of a file
    "stack": ["Self-attention joins any two positions in one step", "stack of dilated convolutions"],
    "unit": ["unit, column or place"],  # of a measure
}


@dataclass(frozen=True)
class Term:
    english: tuple[str, ...]
    chinese: tuple[str, ...]
    banned: tuple[str, ...]

    def is_in(self, text: str) -> bool:
        words = "|".join(map(re.escape, self.english))
        pattern = rf"(?<![\w./])(?<!\w-)(?:{words})(?:e?s)?(?!\w|-\w|\.\w|/\w)"
        return bool(re.search(pattern, NAMES.sub("", text), re.IGNORECASE))

    def fault(self, text: str) -> str:
        """The banned word that a translation has, or a note that it has none of ours; empty if it is right."""
        wrong = [word for word in self.banned if word in text]
        return (
            wrong[0] if wrong else "" if any(word.lower() in text.lower() for word in self.chinese) else "none of ours"
        )


def rows() -> list[list[str]]:
    """Cells of the rows of both tables, without the heads."""
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] not in ("English", "not") and not row[0].startswith("---")]


def parts(cell: str, separator: str = "、") -> tuple[str, ...]:
    return tuple(filter(None, cell.split(separator)))


TERMS = [Term(parts(row[0], ", "), parts(row[1]), parts(row[2])) for row in rows() if len(row) == 4]
NEVER = [word for row in rows() if len(row) == 2 for word in parts(row[0])]


def test_the_glossary_has_each_word_once():
    words = [word for term in TERMS for word in term.english]
    assert len(TERMS) >= 50
    assert len(words) == len(set(words))
    assert all(term.chinese for term in TERMS)
    assert len(NEVER) > 8


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.english[0])
def test_every_entry_says_it_in_the_words_of_the_glossary(term):
    apart = tuple(OTHER_SENSE.get(term.english[0], ()))
    found = {text: translated for text, translated in translations().items() if term.is_in(text)}
    assert sum(text.startswith(apart) for text in found) == len(apart)
    faults = [(term.fault(translated), text, translated) for text, translated in found.items()]
    assert not [fault for fault in faults if fault[0] and not fault[1].startswith(apart)]


def test_some_words_are_in_no_entry():
    never = re.compile(f"(?<!因)(?:{'|'.join(NEVER)})")  # 因此 is another word
    assert not [translated for translated in translations().values() if never.search(translated)]


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("Rollout of a head", "一个头的展开"),
        ("no dropout", "没有丢弃"),
        ("each block", "每一部分"),
        ("norms", "规范化"),
    ],
)
def test_a_wrong_word_is_found(english, chinese):
    assert any(term.fault(chinese) for term in TERMS if term.is_in(english))
