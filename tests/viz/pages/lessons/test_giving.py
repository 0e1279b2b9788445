"""Giving a lesson: what it puts away comes back; the teacher's notes; the worksheet, whose answers are the model's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from streamlit.util import calc_hash

from model.checkpoints.load import open_checkpoint
from model.inference.copies import with_weights
from model.lessons.check import CHECKPOINTS
from model.lessons.lesson import parse
from model.training.demonstration import DEMONSTRATIONS, REVERSE
from tests.app_reading import model_list, opened, sound, type_in
from tests.model.lessons.test_lesson import HEAD
from viz.pages.lessons import strip, worksheet
from viz.pages.lessons.notes import notes_data
from viz.pages.lessons.shelf import FOLDER, lesson_named
from viz.pages.lessons.steps import Part, state_of
from viz.state import training
from viz.state.session import Key

OWN = "I am a student."


@pytest.fixture(scope="module")
def model():
    return open_checkpoint(CHECKPOINTS / "eng-cmn")


def test_ones_own_text_and_choice_come_back_at_the_end_of_a_lesson():
    app = sound(opened("lessons", language="en"))
    type_in(app, "source", OWN)
    session = app.session_state[Key.SESSION]
    session.select(layer=1, head=4)
    app.button(key="open_causal-mask").click().run()
    sound(app)
    assert session.traced[0] != OWN
    assert any("Your own text comes back" in each.value for each in app.caption)
    for _step in range(2):
        app.button(key="lesson_next").click().run()
    assert session.what_if.changes
    app.button(key="lesson_end").click().run()
    sound(app)
    assert session.traced[0] == OWN
    assert (session.selection.layer, session.selection.head, session.what_if.changes) == (1, 4, ())


def test_ones_own_text_of_a_model_that_was_not_shown_comes_back_with_it_after_a_lesson():
    """Typed for one model, put away by another one that cannot read it; the lesson shows the first."""
    app = sound(opened("lessons", language="en"))
    session = app.session_state[Key.SESSION]

    def choose(name):
        sound(model_list(app).set_value(name).run())
        return session.traced[0]

    typed = "一只狗。"
    type_in(app, "source", OWN)
    assert choose("reverse") != OWN
    type_in(app, "source", typed)
    app.button(key="open_causal-mask").click().run()
    assert session.model.name == "eng-cmn"
    assert session.traced[0] not in (OWN, typed)
    sound(app.button(key="lesson_end").click().run())
    assert (session.model.name, session.traced[0]) == ("reverse", typed)
    assert choose("eng-cmn") == OWN


def test_a_typed_text_stays_at_steps_of_the_same_model_and_texts_until_the_lessons_is_wanted(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    question = "```question\nkind: key\nquery: 1\nhints: [a, b]\n```\n"
    state = "/attention?attention=cross&layer=2&head=6&query=0&source="
    steps = [(f"{state}She reads.", question), (f"{state}I like tea.", ""), (f"{state}She reads.&head=5", question)]
    parts = [f"## S\n```state\n{address}\n```\n{asked}" for address, asked in steps]
    (tmp_path / "tiny.en.md").write_text(HEAD + "\n".join(parts), encoding="utf-8")
    app = sound(opened("lessons", language="en"))
    session = app.session_state[Key.SESSION]
    browser = []
    monkeypatch.setattr(strip, "_lesson", lambda data, **_: browser.append(data))
    app.button(key="open_tiny").click().run()
    assert not [each for each in app.button if each.key == "lesson_text"]
    assert browser[-1]["asides"] == []
    type_in(app, "source", OWN)
    assert app.button(key="lesson_text")
    assert "Here is your own text" in browser[-1]["asides"][0]  # which stands beside what is presented too
    label = {OWN: "Lesson's text", "I like tea.": "Your text"}  # of the button that brings the other
    for press, source in (("next", "I like tea."), ("next", OWN), ("back", "I like tea."), ("back", OWN)):
        sound(app.button(key=f"lesson_{press}").click().run())
        assert session.traced[0] == source
        assert app.button(key="lesson_text").label == label[source]
    for press in ("next", "text"):
        sound(app.button(key=f"lesson_{press}").click().run())
    assert (session.traced[0], app.button(key="lesson_text").label) == (OWN, "Lesson's text")
    for press in ("back", "text", "next", "next"):
        sound(app.button(key=f"lesson_{press}").click().run())
    assert session.traced[0] == "She reads."


def test_a_target_that_the_button_lets_the_model_write_is_no_text_of_ones_own(monkeypatch):
    browser = []
    monkeypatch.setattr(strip, "_lesson", lambda data, **_: browser.append(data))
    app = sound(opened("lessons", language="en"))
    app.button(key="open_causal-mask").click().run()
    for _step in range(2):  # the causal mask is off: what the button writes stands in the field as text
        app.button(key="lesson_next").click().run()
    next(each for each in app.button if each.label == "Translate").click().run()
    sound(app)
    assert app.session_state[Key.SESSION].texts.typed[Key.TARGET]
    assert browser[-1]["asides"] == ["The model is changed: Decoder: causal mask off"]
    assert len(browser[-1]["options"]) > 1
    assert not [each for each in app.button if each.key == "lesson_text"]


def test_a_step_shows_nothing_that_the_visitor_has_chosen_which_comes_back_at_the_end():
    """On the page of the step, on another one, and where a widget alone may write the address."""
    own = {
        "more": "open",
        "metric": "distance",
        "order": "lowest",
        "layers": "2",
        "threshold": "0.25",
        "scale": "largest",
    }
    app = sound(opened("lessons", language="en", **own, bases="500", pieces="merged", residual_view="stream"))
    app.button(key="open_causal-mask").click().run()
    session = app.session_state[Key.SESSION]
    sound(app)
    assert not {*own, "pieces", "residual_view"} & set(app.query_params)
    assert app.selectbox(key="order").value == "layer"
    assert not [each for each in app.number_input if each.key == "threshold"]
    session.keep()
    sound(app.button(key="lesson_next").click().run())
    assert session.pin is None
    app.button(key="lesson_end").click().run()
    sound(app)
    assert {name: app.query_params[name] for name in own} == own
    app._page_hash = calc_hash("attention")
    sound(app.run())
    assert app.selectbox(key="order").value == "lowest"
    assert app.number_input(key="threshold").value == 0.25
    assert not app.warning


def test_a_step_of_the_laboratory_has_the_fields_of_its_state_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    part = "/positions?part=laboratory&experiment=curves"
    steps = [f"## S\n```state\n{part}{more}\n```\n" for more in ("&bases=500", "")]
    (tmp_path / "tiny.en.md").write_text(HEAD + "\n".join(steps), encoding="utf-8")
    app = sound(opened("lessons", language="en"))
    for press, bases in (("open_tiny", "500"), ("lesson_next", "10000, 1000"), ("lesson_back", "500")):
        sound(app.button(key=press).click().run())
        assert app.text_input(key="bases").value == bases
    app.text_input(key="bases").set_value("700").run()
    sound(app.button(key="lesson_next").click().run())
    assert app.text_input(key="bases").value == "10000, 1000"
    assert not app.warning


def test_a_lesson_that_is_not_here_is_said():
    app = opened("attention", lesson="none", step="2", language="en")
    assert "a lesson that is not here" in app.warning[0].value


def test_the_notes_have_the_minutes_of_each_step():
    notes = "```notes\nminutes: 4\n\nAsk *first*.\n```\n"
    state = "```state\n/attention\n```\n"
    data = notes_data(parse(f"{HEAD}## One\n{state}{notes}\n## Two\n\nText.\n", "a.en.md"), 1)
    assert [each["minutes"] for each in data["steps"]] == [4, None]
    assert data["steps"][0]["notes"][0]["spans"] == [["Ask ", ""], ["first", "emphasis"], [".", ""]]
    assert (data["minutes"], data["step"]) == (9, 1)


def test_the_answers_of_a_worksheet_are_those_of_the_model_and_others_of_a_wrong_one(model, monkeypatch):
    generator = torch.Generator().manual_seed(1)

    def shuffled(weight):
        order = torch.randperm(weight.numel(), generator=generator)
        return weight.detach().flatten()[order].view_as(weight)

    lesson = lesson_named("attention-seen")
    answers = []
    for each in (model, with_weights(model, shuffled)):
        monkeypatch.setattr(worksheet.shown_model, "open_named", lambda _name, each=each: each)
        numbers = [number for number, step in enumerate(lesson.steps) if step.question and not step.question.change]
        answers.append([worksheet.question_of(lesson, number)["key"] for number in numbers])
    right, wrong = answers
    assert right[0] == "·red: 0.993"
    assert "of the cross-attention" in worksheet.question_of(lesson, numbers[1])["question"]
    assert all(one != other for one, other in zip(right, wrong, strict=True))


def test_a_worksheet_has_at_most_three_figures_and_their_states():
    figures = worksheet.figures(lesson_named("attention-seen"))
    assert len(figures) == worksheet.FIGURES
    printed = worksheet.worksheet_data(lesson_named("attention-seen"), [])["figures"]
    assert all("model=eng-cmn" in each["address"] and "lesson" not in each["address"] for each in printed)
    assert printed[0]["what"].startswith("cross-attention · head 6 of layer 3 · ")
    of_heads = [each["what"] for each in printed if each["name"] == "heads"]  # of which one is asked for
    assert [each.partition(" · She")[0] for each in of_heads] == [
        "cross-attention · all heads",
        "self-attention of the encoder · all heads",
    ]
    addresses = [state.address for _step, state in worksheet.figures(lesson_named("experts"))]
    assert addresses
    assert not any(address.startswith("/map") for address in addresses)
    addresses = [state.address for _step, state in worksheet.figures(lesson_named("decoding"))]
    assert len(addresses) == worksheet.FIGURES
    assert not any("view=search" in address for address in addresses)  # it says how the search ends, too small to read
    addresses = [state.address for _step, state in worksheet.figures(lesson_named("causal-mask"))]
    assert sum("changes=" in address for address in addresses) == 1  # of the question that cannot be read elsewhere


def test_a_question_on_paper_says_what_is_changed_in_the_model_and_the_numbers_that_it_needs():
    def printed_of(lesson):
        numbers = [number for number, step in enumerate(lesson.steps) if step.question]
        return numbers, {number: worksheet.question_of(lesson, number) for number in numbers}

    lesson = lesson_named("causal-mask")
    numbers, printed = printed_of(lesson)
    changed = [number for number in numbers if printed[number]["changes"]]
    assert changed == [number for number in numbers if state_of(lesson, number).changes]
    assert "causal mask off" in printed[changed[0]]["changes"]
    lesson = lesson_named("experts")
    numbers, printed = printed_of(lesson)
    given = [number for number in numbers if printed[number]["paragraphs"]]
    assert given == [number for number in numbers if lesson.steps[number].question.kind == "number"]
    words = "".join(text for each in printed[given[0]]["paragraphs"] for text, _style in each["spans"])
    assert all(number in words for number in ("122,368", "8,320"))


def test_a_step_trains_its_model_and_the_end_of_the_lesson_frees_it(tmp_path, monkeypatch):
    """To the step that its state names, from there to the next one, and back to an earlier one."""
    monkeypatch.setitem(DEMONSTRATIONS, "reverse", replace(REVERSE, pairs=600))
    monkeypatch.setenv(FOLDER, str(tmp_path))
    question = "```question\nkind: step\nof: loss\nvalue: 99\nhints: [a, b]\n```\n"
    steps = [
        f"## S\n```state\n/attention?training=reverse&training_step={step}\n```\n{question}" for step in (3, 12, 5)
    ]
    (tmp_path / "tiny.en.md").write_text(HEAD + "\n".join(steps), encoding="utf-8")
    app = sound(opened("lessons", language="en"))
    session = app.session_state[Key.SESSION]
    for press, step in (("open_tiny", 3), ("lesson_next", 12), ("lesson_next", 5)):
        app.button(key=press).click().run()
        live = training.trainings().get(session.training.run)
        assert live.settled(20)
        assert live.snapshot.step == step
        sound(app.run())
        assert any("loss below 99" in each.value for each in app.markdown)
    assert session.training.step == 5
    app.session_state[Part.PLACE] = {"step": 3}  # as on_place leaves it
    app.run()
    assert app.button(key="lesson_pick").label == "It is step 3"
    app.button(key="lesson_pick").click().run()
    assert any(each.value == "Not so. It is step 1." for each in sound(app).markdown)
    run = session.training.run
    app.button(key="lesson_end").click().run()
    sound(app)
    assert training.trainings().get(run) is None
    assert app.session_state[Key.MODEL] == "eng-cmn"
    assert not {"run", "training", "training_step", "lesson"} & set(app.query_params)


def test_a_step_that_wants_a_training_at_least_trains_alone_and_leaves_one_that_has_come_further(tmp_path, monkeypatch):
    """Opened by its link it trains; after the steps before it, what these have trained stays."""
    monkeypatch.setitem(DEMONSTRATIONS, "reverse", replace(REVERSE, pairs=600))
    monkeypatch.setenv(FOLDER, str(tmp_path))
    steps = ["training_step=3", "training_least=5", "training_least=4"]
    states = [f"## S\n```state\n/training?training_part=film&training=reverse&{step}\n```\n" for step in steps]
    (tmp_path / "tiny.en.md").write_text(HEAD + "\n".join(states), encoding="utf-8")
    app = sound(opened("training", lesson="tiny", step="2", language="en"))
    session = app.session_state[Key.SESSION]

    def settled_step() -> int:
        live = training.trainings().get(session.training.run)
        assert live.settled(20)
        return live.snapshot.step

    assert (settled_step(), app.query_params["training_step"]) == (5, "5")
    training.trainings().get(session.training.run).advance(3)
    for press, step in (("next", 8), ("back", 8), ("back", 3), ("next", 5)):
        sound(app.button(key=f"lesson_{press}").click().run())
        assert settled_step() == step
    app.button(key="lesson_end").click().run()
