"""python -m model lesson check: a line a lesson, a sentence a fault, and the exit status."""

from __future__ import annotations

import pytest

from model.__main__ import main
from tests.model.lessons.test_lesson import HEAD, QUESTION, STATE

GOOD = f"{HEAD}## One\n{STATE}\nSee [the other](b.en.md), or [its masks](/masks?layer=1).\n\n{QUESTION}"


def checked(folder, capsys) -> tuple[int, list[str]]:
    try:
        code = main(["lesson", "check", str(folder)])
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr().out.splitlines()


def test_lessons_without_a_fault(tmp_path, capsys):
    for name in ("a.en.md", "b.en.md"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    code, lines = checked(tmp_path, capsys)
    assert code == 0
    assert lines == [f"{name}: A title, 9 min: 1 step, 1 question, 0 faults" for name in ("a.en.md", "b.en.md")]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("model: eng-cmn", "model: eng-xxx", "eng-xxx"),
        ("layer=2&head=6", "layer=3&head=6", "layer (3) is not there: there are 3, from 0"),
        ("layer=2&head=6", "layer=2&head=8", "head (8) is not there"),
        ("layer=2&head=6", "query=400", "query (400) is not there"),
        ("layer=2&head=6", "changes=decoder.7.1:remove", "removes a head that eng-cmn lacks"),
        ("b.en.md", "c.en.md", "c.en.md is no lesson of this folder"),
        ("/masks?layer=1", "/masks?layer=8", "layer (8) is not there"),
        ("kind: key", "kind: key\nlayer: 7", "layer (7) is not there"),
        ("minutes: 9", "minutes: x", "minutes is missing"),
        ("minutes: 9", "minutes: 9\nalone: 4", "alone (4) is more than a third off"),
    ],
)
def test_a_fault_is_a_sentence_with_its_line(tmp_path, capsys, before, after, words):
    (tmp_path / "b.en.md").write_text(GOOD, encoding="utf-8")
    (tmp_path / "a.en.md").write_text(GOOD.replace(before, after), encoding="utf-8")
    code, lines = checked(tmp_path, capsys)
    assert code == 1
    assert lines[-1].startswith("a.en.md, line ")
    assert words in lines[-1]
    assert any(line.startswith("b.en.md") and line.endswith("0 faults") for line in lines)


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["lesson", "check", str(tmp_path / "none")]) == 2
    assert "none is no folder of lessons" in capsys.readouterr().err
