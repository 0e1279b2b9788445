"""RESULTS.md: a new section takes the place of the old one and leaves the others alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import results

TEXT = "# Results\n\nHow.\n\n## One\n\nold\n\n## Two\n\n- kept\n"


def test_a_section_takes_the_place_of_the_one_of_its_title() -> None:
    assert results.replaced(TEXT, "## One\n\nnew\n") == TEXT.replace("old", "new")


def test_a_new_section_goes_to_the_end() -> None:
    assert results.replaced(TEXT, "## Three\n\nnew\n") == TEXT + "\n## Three\n\nnew\n"


def test_a_title_that_only_begins_alike_is_another() -> None:
    assert results.replaced(TEXT, "## On\n\nnew") == TEXT + "\n## On\n\nnew\n"


def test_writing_twice_leaves_one_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path / "RESULTS.md")
    for body in ("first", "second"):
        results.write("Speed", body)
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert text.startswith(results.HEADING)
    assert text.count("## Speed") == 1
    assert results.machine() in text
    assert text.endswith("\n\nsecond\n")
