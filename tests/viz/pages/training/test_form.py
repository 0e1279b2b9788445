"""The page Training before a training: the demonstration, data, the form of a new model, what it will cost."""

from __future__ import annotations

import re

import pytest

from model.data.pairs import Pair, in_split
from model.data.sources import digest_of_pairs, task_data
from model.message import InputError, field_of
from model.training.cost import forecast, memory_needed
from model.training.demonstration import REVERSE
from tests.app_reading import sent, sound, typed
from tests.viz.pages.training.training_page import TABLE, TINY, begun, demonstrated, live, page, pasted, words
from viz.pages.training import cost, form
from viz.pages.training import start as training_start
from viz.state import training

WRONG = "ab,ba\nlonely\n,empty\n<b>x</b>,**y**\n"


def test_the_demonstration_is_the_first_thing_and_runs_at_once():
    app = page()
    assert "99\N{NO-BREAK SPACE}%" in app.markdown[0].value
    app = demonstrated()
    given = live(app)
    assert (given.snapshot.status, given.snapshot.step) == ("finished", 3)
    assert given.material.record()["task"] == "reverse"
    assert app.session_state["model"] == training.ENTRY
    assert typed(app, "source") == REVERSE.text
    assert app.query_params["attention"] == "cross"
    assert "ended after step 3" in words(app)
    progress, _arrays = sent(app, "demonstration_progress")
    assert progress["share"] == 1
    assert progress["text"].startswith("step 3 of 3 ")
    again = app.button(key="demonstration_begin")
    assert again.label == "Begin again"
    frames = len(given.runs[0].film)
    again.click()
    sound(app.run())
    assert live(app) is given  # with the run so far, and its film
    assert ([run.number for run in given.runs], len(given.runs[0].film)) == ([1, 2], frames)
    assert given.snapshot.status == "finished"


def test_rows_in_error_are_listed_and_the_others_train_a_new_model():
    app = pasted(TABLE + WRONG)
    assert not app.exception
    assert "rows to learn from: 7 · duplicates left out: 1 · empty lines: 0 · rows in error: 2" in words(app)
    app.text_input(key="network_n_encoder_layers").set_value("1")
    given = begun(app, steps="2", batch_tokens="40", validate_every="1")
    assert (given.snapshot.step, given.start.config.d_model, given.start.config.n_encoder_layers) == (2, 8, 1)
    assert given.settings.batch_tokens == 40
    labels = [given.material.tokenizers[1].label(token) for token in range(len(given.material.tokenizers[1]))]
    assert {"a", "b", "c", "d"} <= set(labels)
    assert app.session_state["model"] == training.ENTRY


def test_a_training_that_does_not_fit_into_memory_leaves_the_one_that_goes_on(monkeypatch):
    app = demonstrated()
    before = live(app)
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 0)
    monkeypatch.setattr(training_start, "fresh", pytest.fail)  # a model that there is no room for is not made
    app.session_state["begin_form"] = True
    for way in ("new", "on"):  # said before anybody clicks
        app.session_state["begin"] = way
        assert "max_length, the layers or batch_tokens" in app.run().error[0].value
        assert ("A copy of" in words(app)) == (way == "on")
        assert app.button(key="begin_button").disabled
    app.session_state["begin"] = "demonstration"
    app.run().button(key="demonstration_begin").click().run()
    assert not app.exception
    assert not app.error  # another run of the one that is there
    assert live(app) is before
    assert len(before.runs) == 2
    training.trainings().end(app.session_state["session"].training.run)
    app.run().button(key="demonstration_begin").click().run()
    assert len([each for each in app.error if "max_length, the layers or batch_tokens" in each.value]) == 1
    assert not training.trainings()


def test_a_size_that_does_not_fit_is_said_before_the_start_until_it_is_another(monkeypatch):
    app = pasted(TABLE)
    monkeypatch.setattr("model.training.cost.left_memory", lambda: 1 << 30)
    app.text_input(key="network_max_length").set_value("100000000").run()
    (error,) = app.error
    assert error.value.startswith("the training needs about ")
    needed = re.search(r"needs about ([\d.]+) GB", error.value)
    shown = re.search(r"about ([\d.]+) GB of memory while it trains", words(app))
    assert float(needed[1]) == pytest.approx(float(shown[1]), rel=0.01)
    assert app.button(key="begin_button").disabled
    app.text_input(key="network_max_length").set_value("64").run()
    assert not sound(app).error
    assert not app.button(key="begin_button").disabled


def test_what_kept_a_training_from_beginning_is_said_of_that_one_only(monkeypatch):
    app = pasted(TABLE)

    def refuse(*_arguments):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(form, "start", refuse)
    app.button(key="begin_button").click().run()
    assert "allocate memory" in app.error[0].value
    app.text_input(key="network_d_model").set_value("4").run()
    assert not sound(app).error


def test_a_number_that_nothing_holds_is_refused_beside_its_field():
    app = pasted(TABLE, d_ff="9" * 306)
    assert not app.exception
    assert "d_ff (“99999999999999999999”) must be at most 1,000,000,000,000,000" in app.error[0].value
    app.text_input(key="network_d_ff").set_value("8")
    app.session_state["setting_steps"] = "7" * 330
    assert not app.run().exception
    assert app.button(key="begin_button").disabled


def test_of_a_text_without_columns_one_stack_reads_the_lines_or_all_of_it():
    app = pasted("just one line\nand another\n")
    assert "No columns were found" in app.error[0].value
    app.session_state["kind"] = "encoder-only"
    assert "rows to learn from: 2" in words(sound(app.run()))
    app.session_state["kind"] = "decoder-only"
    app.run()
    assert "read in its order: 2 lines, 26 characters" in words(app)


def test_costs_are_shown_and_a_step_is_measured_when_asked():
    app = pasted(TABLE, **TINY)
    config_words = words(sound(app))
    costs = re.search(r"([\d,]+) parameters · about ([\d.]+ [kM]B) of memory while it trains · ", config_words)
    assert costs
    app.button(key="cost_measure").click()
    assert re.search(r" · [\d.]+ ms a step · \d+:\d\d in all", words(sound(app.run())))
    given = begun(app)
    assert costs[1] == f"{given.start.network.parameter_count():,}"
    train, _validation = given.material.corpora(given.start.config.max_length, 0.0)
    config = given.start.config
    needed = memory_needed(config, forecast(config, train, given.settings))  # what a refusal would name
    assert costs[2] == cost.size(needed)
    assert re.search(r"about [\d.]+ ms a step, estimated · about \d+:\d\d in all", config_words)


def test_what_is_learned_from_is_the_task_the_pairs_and_the_share_that_were_chosen():
    app = page(begin="new")
    for name, value in {"network_d_model": "8", "network_n_heads": "2"}.items():
        app.session_state[name] = value
    app.selectbox(key="data_task").set_value("sort")
    app.number_input(key="data_count").set_value(300)
    app.selectbox(key="data_share").set_value(20).run()
    material = begun(app).material
    pairs = task_data("sort", 300).pairs
    trained = len(in_split(pairs, "train", 20))
    expected = {
        "task": "sort",
        "training_pairs": trained,
        "validation_percent": 20,
        "data_digest": digest_of_pairs(pairs),
    }
    assert material.record() == expected
    assert material.pairs["validation"] == in_split(pairs, "validation", 20)


@pytest.mark.parametrize(
    ("kind", "example"),
    [("encoder-decoder", "I bought a book. → 我买了一本书。"), ("encoder-only", "I bought a book.")],
)
def test_sentences_made_by_rule_are_those_of_the_kind(kind, example):
    said = [each.value for each in page(training_data="phrases", kind=kind).caption]
    assert f"3,200 sentences put together by rule, such as: {example}" in said


def test_columns_and_what_is_between_them_are_those_that_were_chosen():
    app = pasted("no;Source;target\n1;chat;cat\n2;chien;dog\n")
    assert "Between columns: ; · columns: 3 · rows to learn from: 2" in words(sound(app))
    app.selectbox(key="own_source3").set_value(2)
    app.selectbox(key="own_target3").set_value(1)
    found = begun(app).material.pairs
    assert {*found["train"], *found["validation"]} <= {Pair("cat", "chat"), Pair("dog", "chien")}


def test_the_field_of_a_message_is_found():
    error = InputError("n_heads ({n_heads}) must be divisible by {other}", n_heads=3, other="n_key_value_heads")
    assert field_of(error, ["heads", "n_heads"]) == "n_heads"
    assert field_of(error, ["heads", "n_key_value_heads"]) == "n_key_value_heads"
    assert field_of(ValueError("n_heads"), ["n_heads"]) == ""


def test_one_way_to_begin_is_shown_at_a_time_and_a_link_of_the_form_opens_it():
    app = page()
    begins = {"demonstration_begin": "demonstration", "begin_button": "new"}

    def shown():
        return [begins[each.key] for each in app.button if each.key in begins]

    assert shown() == ["demonstration"]
    app.segmented_control(key="begin").set_value("new").run()
    assert shown() == ["new"]
    assert app.query_params["begin"] == "new"
    facts = words(app)
    assert "parameters" in facts
    assert "examples" not in facts  # the number of pairs stands in its field
    for link in ({"kind": "decoder-only"}, {"training_data": "phrases"}, {"preset": "small"}, {"begin": "on"}):
        app = page(**link)
        assert shown() == ["new"], link


@pytest.mark.parametrize("name", ["curves", "film", "runs"])
def test_a_part_without_a_training_leads_to_where_one_begins(name):
    app = page(training_part=name)
    app.button(key="training_offer").click()
    app = sound(app.run())
    assert app.segmented_control(key="training_part").value == "begin"
    assert app.button(key="demonstration_begin").label == "Begin and run"


def test_a_fault_opens_the_fold_that_its_field_is_in():
    app = page(begin="new")
    fold = next(each for each in app.expander if each.label == "Sizes and options")
    assert not fold.proto.expanded
    app.text_input(key="network_d_model").set_value("nine").run()
    fold = next(each for each in app.expander if each.label == "Sizes and options")
    assert fold.proto.expanded
