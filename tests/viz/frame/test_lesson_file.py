"""A lesson as one file: its questions have the model's answers, its text is text, and it stays below its size."""

from __future__ import annotations

import base64
import json
import math
import re
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest

from model.checkpoints.load import open_checkpoint
from model.lessons.lesson import Lesson, read_lesson
from model.lessons.state import State
from model.lessons.trained import trained_subject
from viz.frame import lesson_file
from viz.frame.lesson_file import fitting, formula_html, lesson_document, plain, text_html
from viz.frame.python_code import ROOT

HOSTILE = "</script><img src=x onerror=alert(1)>"
LESSON = f"""---
title: "{HOSTILE}"
minutes: 10
level: for beginners
model: reverse
language: en
---

## Who {HOSTILE}

**Read** [a page](/masks?source=abc), [a site](https://example.com) and `{HOSTILE}`.

```state
/attention?attention=cross&layer=0&head=0&query=2&source=hello
```

```question
kind: key
hints: [a nudge, "{HOSTILE}"]
```

## The same state

```question
kind: next
query: 1
hints: [one, two]
```

## Trained

```state
/training?training_part=curves&training=reverse&training_step=6
```

```question
kind: step
of: loss
value: 99.5
hints: [one, two]
```

## Its map

```state
/attention?attention=cross&training=reverse&training_step=3
```
"""


class Tags(HTMLParser):
    """Tags of a file, and the attributes that each has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@cache
def opened(name: str):
    return open_checkpoint(ROOT / "checkpoints" / name)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory) -> Lesson:
    file = tmp_path_factory.mktemp("lessons") / "hostile.en.md"
    file.write_text(LESSON, encoding="utf-8")
    return read_lesson(file)


@pytest.fixture(scope="module")
def document(lesson):
    return lesson_document(lesson, "en", opened)


def test_its_questions_have_the_models_answers(document):
    asked, second, third, _none = document.more[lesson_file.MODULE]["questions"]
    trace = opened("reverse").trace_generated(opened("reverse").source_tokens("hello"))[0]
    weights = trace.attention("cross")[0, 0, 2]
    best = trace.source_tokens[int(weights.argmax())]
    assert asked["options"][asked["right"]].startswith(best)
    assert asked["said"]["right"].startswith("Right. ")
    assert asked["said"]["wrong"].startswith("Not so. ")
    assert f"{float(weights.max()):.3g}" in asked["said"]["shown"]
    assert asked["hints"] == ["a nudge", HOSTILE]
    assert second["right"] is not None
    assert third["value"] == 1
    assert third["said"]["wrong"] == "Not so. It is step 1."


def test_a_state_is_drawn_once_and_what_a_file_cannot_show_says_so(document):
    assert document.more[lesson_file.MODULE]["groups"] == [0, 0, 1, 2]
    assert document.body.count('<div class="group"') == 3
    assert document.body.count("<section>") == 4
    keys = [view.key for view in document.views]
    trained = ["1.curves_loss", "1.training_film", "2.heads", "2.head_large", "2.stages"]
    assert keys == ["0.heads", "0.head_large", "0.stages", *trained]
    assert {click.split(" ")[0] for click, _key, _data in document.choices} == {"0.heads", "2.heads"}
    assert {key for _click, key, _data in document.choices} <= set(keys)


def test_nothing_of_its_text_is_run_and_it_asks_nobody(document):
    text = document.html()
    tags = Tags(text).tags
    assert [tag for tag, _ in tags if tag in ("img", "iframe", "object", "link", "base")] == []
    assert sum(tag == "script" for tag, _ in tags) == 2
    assert not [name for _, given in tags for name in given if name.startswith("on")]
    assert {given["href"] for tag, given in tags if tag == "a" and "href" in given} == {"https://example.com"}
    assert "default-src 'none'" in text
    numbers = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', text)[1])
    assert numbers["more"][lesson_file.MODULE]["questions"][0]["hints"][1] == HOSTILE


def test_a_step_in_training_has_the_film_of_its_run_and_stands_at_its_step(document):
    film = json.loads(json.dumps(document.film))
    assert film["steps"] == list(range(7))
    assert [step for step, _frame in film["frames"]] == film["steps"]
    assert document.more[lesson_file.MODULE]["steps"] == [None, 6, 3]
    first, weights = film["kinds"]["cross"]["first"], film["frames"][6][1]["weights"]
    size = math.prod(film["kinds"]["cross"]["shape"])
    drawn = np.frombuffer(base64.b64decode(weights[1]), np.uint8)[first : first + size]
    trace = trained_subject(State("training", {"training": "reverse", "training_step": "6"})).trace
    np.testing.assert_allclose(drawn / 255, trace.attention("cross").numpy().ravel(), atol=0.6 / 255)


def test_what_clicks_show_is_left_out_where_there_is_no_room():
    choices = [(f"heads head {number}", "head_large", b"0" * 300) for number in range(4)]
    assert fitting(choices, 10_000) == (choices, False)
    assert fitting(choices, 1000) == (choices[:2], True)


def test_literal_markdown_is_the_text_that_it_shows():
    assert plain(r"\[x\]\(y\) **b** \<s\> 0.5") == "[x](y) b <s> 0.5"
    assert text_html("[x](lessons?lesson=a)") == "<p><a>x</a></p>\n"


def test_a_formula_is_mathml():
    formula = formula_html(r"\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right) V")
    assert formula.startswith("<math")
    assert "<msqrt>" in formula
    assert "softmax" in re.sub("<[^>]*>", "", formula)
