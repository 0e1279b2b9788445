"""Lessons are read from Markdown with a front matter; what cannot be is a sentence with its file and line."""

from __future__ import annotations

import pytest

from model.lessons.lesson import Paragraph, Span, parse, read_folder, read_lesson
from model.lessons.light import Light
from model.lessons.state import State
from model.message import InputError

HEAD = "---\ntitle: A title\nminutes: 9\nlevel: first year\nmodel: eng-cmn\nlanguage: en\n---\n"
STATE = "```state\n/attention?layer=2&head=6\n```\n"
QUESTION = "```question\nkind: key\nquery: 3\nhints: [a nudge, a suggestion]\n```\n"


def lesson(body: str, head: str = HEAD):
    return parse(head + body, "a.en.md")


def test_a_lesson_has_its_front_matter_and_its_steps():
    read = lesson(
        f"## One\n\n{STATE}\nLook **here**, at `w`.\n\n1. first\n2. *second*\n\n{QUESTION}\n## Two\n\nMore.\n"
    )
    assert (read.name, read.title, read.minutes, read.level) == ("a", "A title", 9, "first year")
    assert (read.model, read.language, read.alone) == ("eng-cmn", "en", None)
    assert lesson(f"## One\n{STATE}", HEAD.replace("level", "alone: 4\nlevel")).alone == 4
    one, two = read.steps
    assert (one.title, one.line, two.title, two.line) == ("One", 8, "Two", 25)
    assert one.state == State("attention", {"layer": "2", "head": "6"})
    assert two.state is None
    spans = (Span("Look "), Span("here", "strong"), Span(", at "), Span("w", "code"), Span("."))
    assert one.paragraphs[0] == Paragraph(spans)
    assert [(each.number, each.spans[-1].style) for each in one.paragraphs[1:]] == [(1, ""), (2, "emphasis")]
    question = one.question
    assert (question.kind, question.layer, question.head, question.query) == ("key", 2, 6, 3)
    assert question.hints == ("a nudge", "a suggestion")


def test_a_step_has_notes_lights_and_hidden_controls():
    notes = "```notes\nminutes: 4\n\nAsk *first*.\n\n- then wait\n```\n"
    blocks = f"{notes}```light\ntoken: red\n\nhead: 2.10\ncontrol: More\n```\n"
    state = "```state\n/attention?layer=2&hide=more,header\n```\n"
    (step,) = lesson(f"## One\n\n{state}\nText.\n\n{blocks}").steps
    assert step.minutes == 4
    assert [paragraph.spans[0].content for paragraph in step.notes] == ["Ask ", "then wait"]
    assert [paragraph.spans[0].content for paragraph in step.paragraphs] == ["Text."]
    assert step.lights == (Light("token", "red"), Light("head", "2.10"), Light("control", "More"))
    assert step.lights[1].place == (2, 10)
    assert step.state.hidden == ("more", "header")
    (other,) = lesson(f"## One\n{state}```notes\nRemember: wait.\n```\n").steps
    assert (other.minutes, len(other.notes)) == (None, 1)


def test_a_state_may_be_of_a_training():
    (step,) = lesson("## One\n```state\n/training?training=reverse&training_step=200\n```\n").steps
    assert step.state.trained == ("reverse", 200)
    assert State.read("/?training=reverse").trained == ("reverse", 0)
    assert State.read("/?source=a").trained is None


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("no front matter", 1, "begins with its title"),
        ("---\ntitle: A\nb: [x\nc: y\n---\n## A\n", 4, "no YAML"),
        (
            HEAD.replace("minutes: 9", "minutes: nine") + "## A\n" + STATE,
            1,
            "minutes is missing, or is no whole number",
        ),
        (HEAD.replace("minutes: 9", "minutes: true") + "## A\n" + STATE, 1, "minutes"),
        (HEAD.replace("minutes: 9", "minutes: 9\nalone: half") + "## A\n" + STATE, 1, "alone is missing"),
        (HEAD.replace("minutes: 9", "minutes: 9\nalone: 1000") + "## A\n" + STATE, 1, "alone (1000) must be"),
        (HEAD.replace("language: en", "language: de") + "## A\n" + STATE, 1, "language ('de')"),
        (HEAD.replace("level:", "levle: x\nlevel:") + "## A\n" + STATE, 1, "'levle'"),
        (HEAD, 7, "no step"),
        (HEAD + "Some text.\n\n## A\n" + STATE, 8, "before the first step"),
        (HEAD + "## A\n\nText.\n", 8, "first step needs an address"),
        (HEAD + "# A\n" + STATE, 8, "no other headings"),
        (HEAD + "## A\n" + STATE + "\n### B\n", 13, "no other headings"),
        (HEAD + "## A\n```state\n/nowhere?layer=2\n```\n", 10, "no page 'nowhere'"),
        (HEAD + "## A\n```state\n/attention?layer=two\n```\n", 10, "layer ('two') must be a whole number"),
        (HEAD + "## A\n```state\n/masks?changes=decoder:off\n```\n", 10, "'decoder:off' is no change"),
        (HEAD + "## A\n```state\n/?hide=more,all\n```\n", 10, "hide ('all') must be one of sidebar"),
        (HEAD + "## A\n```state\n/?training=sort\n```\n", 10, "training ('sort') must be one of reverse"),
        (HEAD + "## A\n```state\n/?training=reverse&training_step=9999\n```\n", 10, "at most 1500"),
        (HEAD + "## A\n```state\n/?training_step=9\n```\n", 10, "training ('None')"),
        (HEAD + "## A\n" + STATE + "```light\ntoken: a\nhead: 2\n```\n", 14, "two numbers with a point"),
        (HEAD + "## A\n" + STATE + "```light\nlamp: a\n```\n", 13, "lights nothing"),
        (HEAD + "## A\n" + STATE + "```notes\nminutes: four\n```\n", 13, "minutes is missing"),
        (HEAD + "## A\n" + STATE + "```notes\nminutes: 4\n> said\n```\n", 14, "only paragraphs and lists"),
        (HEAD + "## A\n" + STATE + "```notes\nText\n\n> said\n```\n", 15, "only paragraphs and lists"),
        (HEAD + "## A\n" + STATE + STATE, 12, "at most one block"),
        (HEAD + "## A\n" + STATE + "```python\nprint()\n```\n", 12, "and no other"),
        (HEAD + "## A\n" + STATE + QUESTION.replace("kind: key", "kind: guess"), 13, "kind ('guess')"),
        (HEAD + "## A\n" + STATE + QUESTION.replace("query", "qurey"), 13, "'qurey'"),
        (HEAD + "## A\n" + STATE + QUESTION.replace(", a suggestion", ""), 13, "hints must be two"),
        (HEAD + "## A\n" + STATE + QUESTION.replace("query: 3", "query: 3\n x: [1"), 15, "no YAML"),
        (HEAD + "## A\n" + STATE + "\nText\n[there](/nowhere)\n", 13, "no page 'nowhere'"),
        (HEAD + "## A\n" + STATE + "\n![p](https://x.org/a.png)\n", 13, "no pictures"),
        (HEAD + "## A\n" + STATE + "\n> said\n", 13, "only paragraphs and lists"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, words):
    with pytest.raises(InputError) as raised:
        parse(text, "a.en.md")
    assert str(raised.value).startswith(f"a.en.md, line {line}: ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "hostile",
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "&lt;b&gt; $a$ :red[x]"],
)
def test_hostile_text_stays_text(hostile):
    (step,) = lesson(f"## {hostile}\n{STATE}\n{hostile}\n").steps
    assert {span.style for paragraph in step.paragraphs for span in paragraph.spans} == {""}
    assert "".join(span.content for span in step.paragraphs[0].spans) == hostile.replace("&lt;", "<").replace(
        "&gt;", ">"
    )


@pytest.mark.parametrize(
    "record",
    [
        "!!python/object/apply:os.system [true]",
        "a: &a [x]\nb: &b [*a, *a]\nkind: *b",
        "[" * 3000,
        "kind: " + "k" * 5000,
        "kind: [key]",
        "kind: key\nhints: {a: b}",
        "kind: key\nlayer: 1" + "0" * 3000,
        "? [a]\n: b",
        "kind: number\nof: loss\ntolerance: .nan\nhints: [a, b]",
        "day: 2001-99-99",
    ],
)
def test_a_hostile_record_is_refused_with_its_line(record):
    with pytest.raises(InputError, match=r"^a\.en\.md, line 1[23]"):
        lesson(f"## A\n{STATE}```question\n{record}\n```\n")


@pytest.mark.parametrize(
    "address",
    [
        "/attention?layer=2&head=6&source=She reads. 她&x=1",
        "http://localhost:8501/attention?layer=2&head=6&source=She+reads.+%E5%A5%B9&x=1&language=zh&step=3",
    ],
)
def test_an_address_is_read_as_it_is_copied(address):
    state = State.read(address)
    assert state == State("attention", {"layer": "2", "head": "6", "source": "She reads. 她", "x": "1"})
    assert State.read(state.address) == state
    assert State.read("http://localhost:8501/?layer=1").page == "map"


def test_a_folder_gives_what_can_be_read_and_the_faults_of_the_rest(tmp_path):
    (tmp_path / "a.en.md").write_text(f"{HEAD}## A\n{STATE}", encoding="utf-8")
    (tmp_path / "b.en.md").write_bytes(b"\xff\xfe")
    (tmp_path / "c.en.md").write_text("x" * 300_000)
    (tmp_path / "README.md").write_text("of the folder")
    lessons, faults = read_folder(tmp_path)
    assert [each.name for each in lessons] == ["a"]
    assert [str(each).partition(":")[0] for each in faults] == ["b.en.md, line 1", "c.en.md, line 1"]
    with pytest.raises(InputError, match="no folder"):
        read_folder(tmp_path / "none")
    with pytest.raises(InputError, match=r"d\.md, line 1"):
        read_lesson(tmp_path / "d.md")
