"""Two languages, both complete: every text that is looked up is translated, and nothing else is."""

from __future__ import annotations

import ast
import io
import pickle
import re
import string
from functools import cache

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po

from model.message import Message
from tests.viz.i18n.looked_up import DYNAMIC, constants, lookups, said_by_model, texts
from viz.i18n import catalogue as i18n
from viz.i18n.catalogue import _, ngettext, preferred, use
from viz.i18n.messages import in_language

CATALOGUES = i18n.LOCALE / "zh" / "LC_MESSAGES"


@pytest.fixture(autouse=True)
def english_again():
    yield
    use("en")


def catalogues() -> dict[str, Catalog]:
    return {path.stem: read_po(io.BytesIO(path.read_bytes()), locale="zh") for path in sorted(CATALOGUES.glob("*.po"))}


@cache
def translations() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, catalogue in catalogues().items():
        for message in catalogue:
            both = message.id if message.pluralizable else (message.id,)  # one form of Chinese for two of English
            (translated,) = message.string if message.pluralizable else (message.string,)
            assert not [text for text in both if text in found], f"{message.id} is translated in {name}.po and before"
            found |= {text: translated for text in both if text}
    return found


def placeholders(text: str) -> list[tuple[str, str]]:
    return sorted((name, form or "") for _before, name, form, _how in string.Formatter().parse(text) if name)


def test_the_search_finds_texts_in_the_frame_and_on_pages():
    found = texts()
    assert len(found) > 40
    assert {"Translate", "One query, step by step", "rows sum to 1", "encoder-decoder"} <= found
    assert set(DYNAMIC) <= {ast.unparse(argument) for _place, argument in lookups()}


def test_every_text_is_translated():
    known = translations()
    assert not sorted(texts() - known.keys())
    assert not [text for text, translated in known.items() if not translated.strip()]


def test_sentences_of_errors_are_in_the_catalogue_that_they_are_translated_by():
    assert not sorted(said_by_model() - {message.id for message in catalogues()["errors"]})


def test_no_translation_is_stale_or_fuzzy():
    pieces = {text for text in constants() if "{" not in text}  # such as what memory is promised to
    assert not sorted(translations().keys() - texts() - pieces)
    for catalogue in catalogues().values():
        assert not [message.id for message in catalogue if message.id and message.fuzzy]
        assert not catalogue.obsolete


def test_placeholders_are_the_same_in_both_languages():
    compared = 0
    for text, translated in translations().items():
        assert placeholders(translated) == placeholders(text), text
        compared += bool(placeholders(text))
    assert compared >= 4


def test_what_is_filled_into_errors_is_marked_for_tools():
    """In the file itself: Babel adds the mark to what it reads."""
    entries = (CATALOGUES / "errors.po").read_text(encoding="utf-8").split("\n\n")
    filled = [entry for entry in entries if "{" in entry]
    assert len(filled) > 200
    assert not [entry for entry in filled if not entry.startswith("#, python-brace-format\n")]


def test_translations_are_chinese():
    for text, translated in translations().items():
        if not re.sub(r"{\w+}", "", text).strip():
            continue  # two sentences, which Chinese writes without a gap
        if translated.lower() in ("dropout", "pre-norm", "post-norm"):
            continue  # by the glossary
        assert any("一" <= character <= "鿿" or character in "，、；：“" for character in translated), text


def test_the_compiled_catalogues_are_the_written_ones():
    for name, catalogue in catalogues().items():
        compiled = io.BytesIO()
        write_mo(compiled, catalogue)
        compiled.seek(0)
        with (CATALOGUES / f"{name}.mo").open("rb") as file:
            stored, expected = ({str(each.id): each.string for each in read_mo(mo)} for mo in (file, compiled))
        for text in (stored.keys() | expected.keys()) - {""}:
            assert stored.get(text) == expected.get(text), f"{text}: pybabel compile -d viz/i18n/locale -D {name} -l zh"
        assert stored
    assert len(translations()) > 40


def test_lookups_speak_the_language_in_use():
    assert _("Translate") == "Translate"
    use("zh")
    assert i18n.language() == "zh"
    assert _("Translate") == translations()["Translate"] != "Translate"
    assert _("in no catalogue") == "in no catalogue"
    use("en")
    assert _("Translate") == "Translate"


def test_one_is_singular_in_english_and_every_count_is_one_form_in_chinese():
    heads = [Message("{count} head", plural="{count} heads", count=count) for count in (0, 1, 1_000)]
    assert [str(each) for each in heads] == ["0 heads", "1 head", "1000 heads"]
    assert [ngettext("{count} head", "{count} heads", count) for count in (1, 2)] == ["{count} head", "{count} heads"]
    assert pickle.loads(pickle.dumps(heads[2])).plural == heads[2].replacing("a", "b").plural == "{count} heads"
    use("zh")
    assert [in_language(each) for each in heads] == ["0 头", "1 头", "1000 头"]
    assert in_language(Message("{first}, {next}", first=heads[1], next=heads[2])) == "1 头，1000 头"


@pytest.mark.parametrize("unknown", ["", "fr", "zh-CN", "../zh", "<script>"])
def test_an_unknown_language_is_english(unknown):
    use("zh")
    use(unknown)
    assert i18n.language() == "en"
    assert _("Translate") == "Translate"


@pytest.mark.parametrize(
    ("locale", "language"),
    [("zh-CN", "zh"), ("zh", "zh"), ("ZH-tw", "zh"), ("en-US", "en"), ("de", "en"), ("", "en"), (None, "en")],
)
def test_the_browser_chooses_the_first_language(locale, language):
    assert preferred(locale) == language
