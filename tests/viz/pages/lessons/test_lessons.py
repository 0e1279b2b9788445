"""Lessons on the page: the list, a step beside its figure, a guess, the address; and the bundled ones."""

from __future__ import annotations

from functools import cache

import torch
from streamlit.util import calc_hash

from model.inference.copies import with_weights
from model.lessons.check import check_folder, subject_of
from model.lessons.reckoning import fits, minutes_alone
from model.lessons.state import PAGES, Subject
from tests.app_reading import opened, sound, type_in
from tests.model.lessons.test_lesson import HEAD, STATE
from viz.frame import app as frame
from viz.i18n.catalogue import speaking
from viz.pages.lessons.shelf import BOX, FOLDER, lesson_named, lessons
from viz.pages.lessons.steps import state_of
from viz.state.sampling_sliders import slider_values
from viz.state.session import Key


def test_the_pages_of_an_address_are_those_of_the_application():
    assert set(PAGES) == set(frame.PAGES)


def test_the_bundled_lessons_have_no_fault():
    checks = list(check_folder(BOX))
    assert [check.faults for check in checks if check.faults] == []
    assert len(checks) == len(list(BOX.glob("*.md")))
    assert [check.lesson.name for check in checks if check.undecided] == []


def test_the_bundled_lessons_are_the_same_in_both_languages():
    with speaking("zh"):
        chinese = {lesson.name: lesson for lesson in lessons()[0]}
    for lesson in lessons()[0]:
        other = chinese[lesson.name]
        assert (lesson.language, other.language, lesson.minutes) == ("en", "zh", other.minutes)
        assert lesson.alone == other.alone
        for each in (lesson, other):
            assert fits(each.alone or each.minutes, each), (each.file, minutes_alone(each))
            assert sum(step.minutes for step in each.steps) == each.minutes
        assert [step.state for step in lesson.steps] == [step.state for step in other.steps]
        for step, same in zip(lesson.steps, other.steps, strict=True):
            assert (step.question is None) == (same.question is None)
            if step.question is not None:
                assert step.question.__dict__ | {"hints": 0} == same.question.__dict__ | {"hints": 0}


def test_a_wrong_model_has_other_answers_to_the_questions_of_every_bundled_lesson():
    """Its weights are shuffled: every number is another, but for two that no weight decides; most keys are others."""
    generator = torch.Generator().manual_seed(1)

    def shuffled(weight):
        order = torch.randperm(weight.numel(), generator=generator)
        return weight.detach().flatten()[order].view_as(weight)

    wrong = cache(lambda model: with_weights(model, shuffled))
    same, keys = [], []
    for lesson in lessons()[0]:
        for number, step in enumerate(lesson.steps):
            state = state_of(lesson, number)
            if step.question is None or step.question.kind in ("change", "search") or state.trained:
                continue
            right = subject_of(lesson, state, BOX)
            model, texts = wrong(right.model), [each for each in (right.source, right.target) if each is not None]
            planted = Subject(model, model.trace_tokens(*texts), right.source, right.target)
            one, other = (step.question.answer(each.with_changes(*state.changes)) for each in (right, planted))
            same += [(lesson.name, number + 1)] * (one.measures == other.measures)
            keys.append(key_of(one) == key_of(other))
    assert same == [("order-and-masks", 5), ("experts", 2)]  # a row of a single cell, and a number of weights
    assert len(keys) > 25
    assert sum(keys) < len(keys) / 4


def key_of(answer):
    """Option that is right, or the number itself."""
    if not answer.options:
        return answer.measures
    return None if answer.right is None else str(answer.options[answer.right])


def test_a_folder_of_ones_own_is_in_the_list_with_what_is_wrong_in_it(tmp_path, monkeypatch):
    (tmp_path / "mine.en.md").write_text(f"{HEAD}## One\n{STATE}", encoding="utf-8")
    (tmp_path / "bad.en.md").write_text(HEAD, encoding="utf-8")
    monkeypatch.setenv(FOLDER, str(tmp_path))
    here, faults = lessons()
    assert {each.name for each in here} == {"mine", *(file.name.partition(".")[0] for file in BOX.glob("*.md"))}
    assert [str(each) for each in faults] == [
        "bad.en.md, line 7: there is no step: a step begins with ## and its title"
    ]
    app = sound(opened("lessons"))
    assert "bad.en.md, line 7" in app.warning[0].value
    monkeypatch.setenv(FOLDER, str(tmp_path / "none"))
    assert [str(each) for each in lessons()[1]] == ["none is no folder of lessons"]


def test_a_lesson_of_a_class_says_how_long_it_takes_alone_in_the_list_and_at_its_beginning_alone():
    def captions(app):
        return [each.value for each in app.caption if "45 min in class, about 20 alone" in each.value]

    app = sound(opened("lessons", language="en"))
    assert captions(app) == ["45 min in class, about 20 alone · 12 steps · eng-cmn · for beginners"]
    sound(app.button(key="begin_attention-seen").click().run())
    assert len(captions(app)) == 1
    sound(app.button(key="lesson_next").click().run())
    assert captions(app) == []


def test_a_lesson_is_opened_guessed_and_left():
    """One visit: the list, the first step on its page, a guess, hints, other steps, another sentence, the end."""
    app = sound(opened("lessons", language="en"))
    lesson = lesson_named("causal-mask")
    app.button(key="open_causal-mask").click().run()
    session = app.session_state[Key.SESSION]
    sound(app)
    assert (app.query_params["lesson"], app.query_params["step"]) == ("causal-mask", "1")
    assert (session.selection.layer, session.selection.head, session.selection.query) == (2, 2, 12)
    texts = [each.value for each in app.markdown]
    assert f"**{lesson.steps[0].title}**" in texts
    assert "**In head 3 of layer 3 of the decoder's self-attention: which token does 买 look at most?**" in texts
    guess = next(each for each in app.button_group if each.key.startswith("guess_causal-mask_0"))
    guess.set_value(guess.options.index("天")).run()
    right = "Right. `天`\N{WORD JOINER}\N{NO-BREAK SPACE}0.564 · `她`"  # a number stays beside its token
    assert any(each.value.startswith(right) for each in app.markdown)
    assert not [each for each in app.button if each.key == "lesson_hint"]  # nothing is left to find
    for press in ("lesson_next", "lesson_back"):
        sound(app.button(key=press).click().run())
    assert any(each.value.startswith(right) for each in app.markdown)  # it is still answered
    sound(app.button(key="lesson_again").click().run())
    assert not any(each.value.startswith("Right.") for each in app.markdown)
    guess = next(each for each in app.button_group if each.key.startswith("guess_causal-mask_0"))
    guess.set_value(guess.options.index("她")).run()
    app.button(key="lesson_hint").click().run()
    assert any(lesson.steps[0].question.hints[0] in each.value for each in app.caption)
    for _press in range(2):
        app.button(key="lesson_hint").click().run()
    app.button(key="lesson_next").click().run()
    app.button(key="lesson_next").click().run()
    assert app.query_params["changes"] == "decoder:causal:off"
    assert [str(each) for each in session.what_if.changes] == ["decoder:causal:off"]
    type_in(app, "source", "I like tea.")
    assert any("which token does 欢" in each.value or "which token does 茶" in each.value for each in app.markdown)
    app.button(key="lesson_end").click().run()
    assert "lesson" not in app.query_params
    assert not [each for each in app.button if each.key == "lesson_next"]


def test_sliders_are_those_of_a_step_there_and_back():
    """They alone may write their parameters of the address."""
    app = sound(opened("predictions", lesson="decoding", step="6", language="en"))
    assert (app.slider(key="temperature").value, app.slider(key="top_p").value) == (1.0, 1.0)
    assert not [each for each in app.caption if "was written for" in each.value]  # the step itself opens another model
    sound(app.button(key="lesson_next").click().run())
    assert app.slider(key="top_p").value == 0.9
    sound(app.button(key="lesson_next").click().run())
    sound(app.button(key="lesson_back").click().run())
    assert app.slider(key="top_p").value == 0.9
    sound(app.button(key="lesson_back").click().run())
    assert app.slider(key="top_p").value == 1.0
    assert slider_values({"temperature": "hot", "top_k": "7", "top_p": "5"}) == slider_values({})


def test_a_link_to_a_step_opens_its_state_in_a_new_window():
    app = sound(opened("attention", lesson="causal-mask", step="3", language="en"))
    session = app.session_state[Key.SESSION]
    assert [str(each) for each in session.what_if.changes] == ["decoder:causal:off"]
    assert session.selection.head == 2


def test_a_link_from_a_step_opens_what_it_names_on_another_page():
    app = sound(opened("attention", lesson="causal-mask", step="1", language="en"))
    app.query_params["part"], app._page_hash = "laboratory", calc_hash("positions")
    sound(app.run())
    assert next(each for each in app.button_group if each.key == "part").value == "laboratory"
