"""The Training page without a browser: begin, data with bad rows, runs, saving, and what it says."""

from __future__ import annotations

import io
import shutil
import zipfile
from dataclasses import replace
from types import SimpleNamespace

from model.checkpoints.load import open_checkpoint
from model.training.demonstration import REVERSE
from tests.app_reading import model_list, opened, sound, type_in
from tests.model.training.live.live_examples import LONG, Gate
from tests.viz.pages.training.training_page import TABLE, begun, demonstrated, live, page, part, pasted, words
from tests.viz.small import write_small
from viz.i18n.format import literal
from viz.pages.training import demonstration, start
from viz.state import training
from viz.state.checkpoints import CHECKPOINTS as BUNDLED
from viz.state.checkpoints import find, open_place, places
from viz.ui.save_name import refused


def test_a_branch_of_a_running_training_runs_on(monkeypatch):
    app = sound(part(demonstrated(), "settings"))
    app.text_input(key="setting_steps").set_value("6").run()
    given = live(app)
    gate = Gate(given)
    given.run()
    assert gate.reached.wait(LONG)
    part(app, "runs")
    app.text_input(key="runs_value_rate").set_value("0.01")
    branch = given.branch
    monkeypatch.setattr(given, "branch", lambda *key, **changes: (branch(*key, **changes), gate.open.set()))
    app.button(key="runs_branch").click().run()
    assert (live(app).snapshot.status, live(app).snapshot.run, live(app).snapshot.step) == ("finished", 2, 3)
    assert given.runs[1].parent == 1


def test_a_run_out_of_patience_says_so(monkeypatch):
    rough = replace(demonstration.REVERSE.settings, steps=60, warmup=0, rate=1.0, patience=2)
    short = replace(demonstration.REVERSE, settings=rough)
    monkeypatch.setattr(start, "REVERSE", short)
    app = demonstrated()
    snapshot = live(app).snapshot
    assert snapshot.status == "finished"
    assert snapshot.step < 60
    assert f"ended after step {snapshot.step}: patience is 2, and as many validations gave no new" in words(app)


def test_stop_is_a_button_and_ends_the_run():
    app = sound(part(demonstrated(), "settings"))
    app.text_input(key="setting_steps").set_value("6").run()
    assert live(app).snapshot.status == "idle"
    part(app, "runs").button(key="runs_stop").click().run()
    assert "stopped after step 3. To go on, go back or branch" in words(sound(app))
    assert app.button(key="runs_stop").disabled
    live(app).run()
    live(app).change(steps=9)
    live(app).run()
    assert (live(app).snapshot.status, live(app).snapshot.step) == ("stopped", 3)
    assert len(app.dataframe[0].value) == 1  # what it recorded stays


def test_runs_go_back_and_branch_and_say_what_differs():
    app = sound(part(demonstrated(), "runs"))
    assert app.button(key="runs_stop").disabled  # a run at its end is not stopped too
    assert app.text_input(key="runs_value_rate").label == f"from {REVERSE.settings.rate:g} to"
    app.text_input(key="runs_value_rate").set_value("0.01").run()
    app.button(key="runs_branch").click().run()
    given = live(sound(app))
    assert [(run.number, run.parent, run.begins) for run in given.runs] == [(1, None, 0), (2, 1, 0)]
    table = sound(app.run()).dataframe[0].value
    assert list(table["its settings differ"]) == ["", f"rate {REVERSE.settings.rate:g} → 0.01"]
    assert list(table["run"]) == ["1", "2 ●"]
    app.button(key="runs_branch").click().run()
    assert "rate is 0.01 already" in app.error[0].value
    app.selectbox(key="runs_run").set_value(1).run()
    app.number_input(key="runs_step").set_value(2).run()
    app.button(key="runs_rewind").click().run()
    assert (live(app).snapshot.run, live(app).snapshot.step) == (1, 0)
    app.run()
    app.button(key="runs_give_up").click().run()
    assert "This gives up 2 runs, and all that is not saved of them." in [each.value for each in app.warning]
    app.button(key="runs_cancel").click().run()
    assert live(app).runs
    assert not app.warning
    app.button(key="runs_give_up").click().run()
    app.button(key="runs_confirm").click().run()
    assert sound(app.run()).session_state["model"] == "small"
    assert "No training has begun" in words(app)


def test_a_model_is_saved_found_and_deleted(here):
    app = sound(part(demonstrated(), "runs"))
    app.text_input(key="saving_name").set_value("../evil").run()
    assert app.button(key="saving_save").disabled
    app.text_input(key="saving_name").set_value("mine").run()
    app.button(key="saving_save").click().run()
    assert f"Saved as mine, in {literal(str(here / 'saved' / 'mine'))}" in words(sound(app))
    assert "Saved as" not in words(sound(app.run()))  # told once
    assert [each.proto.label for each in app.get("download_button")] == ["Download as .zip"]
    assert app.checkbox(key="saving_curves").label.endswith("for TensorBoard")
    assert model_list(app).options[1:] == ["mine", "small"]
    training = open_checkpoint(here / "saved" / "mine").training
    assert (training["steps"], training["licence"]) == (3, "made by code, model/data/tasks.py")
    assert app.button(key="saving_save").disabled
    app.checkbox(key="saving_replace").set_value(True).run()
    assert not app.button(key="saving_save").disabled
    assert model_list(opened(model="mine")).value == "mine"
    model_list(app).set_value("mine").run()
    app.query_params["model"] = "mine"  # as the browser's address has it
    app.button(key="saving_delete").click().run()
    assert not (here / "saved" / "mine").exists()
    app.query_params["model"] = "mine"  # a browser asks for it once more
    assert not app.run().warning  # who deletes the model that is shown need not be told that it is gone
    model_list(app).set_value("training").run()
    assert model_list(app).options[1:] == ["small"]
    with zipfile.ZipFile(io.BytesIO(live(app).zip("mine", curves=True))) as archive:
        assert any(name.startswith("mine/curves/run-1/events") for name in archive.namelist())


def test_a_reload_finds_the_training_and_one_that_was_freed_is_said():
    key = demonstrated().session_state["session"].training.run
    app = sound(part(page(run=key), "settings"))
    assert app.text_input(key="setting_steps").value == "3"
    training.trainings().end(key)
    assert "is gone" in words(page(run=key))


def test_a_draft_comes_back_after_a_reload_and_the_part_after_another_page():
    app = pasted(TABLE, n_heads="1")
    key = app.query_params["draft"]
    again = page(draft=key, training_data="own", own_from="paste")
    assert again.text_input(key="network_n_heads").value == "1"
    assert again.text_area(key="own_paste").value == TABLE
    assert "rows to learn from: 6" in words(again)
    assert "draft" not in page(begin="new").query_params  # a form that nobody has touched
    assert page(draft="unknown").text_input(key="network_n_heads").value == "4"
    part(again, "curves")
    for name in ("positions", "training"):
        sound(again.switch_page(f"viz/pages/{name}/page.py").run())
    assert again.query_params["training_part"] == "curves"
    assert again.segmented_control(key="training_part").value == "curves"


def test_one_that_waits_says_so_and_goes_on_by_itself():
    slots = training.trainings().slots
    others = [SimpleNamespace(wake=lambda: None) for _ in range(slots.limit)]
    assert all(slots.take(other) for other in others)
    app = page()
    app.button(key="demonstration_begin").click().run()
    found = training.trainings().get(app.session_state["session"].training.run)
    for _ in range(600):
        if found.snapshot.status == "waiting":
            break
        found.settled(0.1)
    assert "This training waits" in words(sound(app.run()))
    for other in others:
        slots.leave(other)
    assert live(app).snapshot.step == 3


def test_what_broke_a_training_off_is_said():
    app = sound(part(demonstrated(), "settings"))
    for name, value in (("steps", "20"), ("warmup", "0"), ("rate", "1e36"), ("clip", "inf")):
        app.text_input(key=f"setting_{name}").set_value(value).run()
    live(app).run()
    assert live(app).snapshot.status == "failed"
    assert "lower the rate" in app.run().error[0].value
    app.text_input(key="setting_rate").set_value("0.001").run()
    live(app).run()
    assert (live(app).snapshot.status, live(app).snapshot.step) == ("finished", 20)


def test_a_trained_model_goes_on_gently_with_its_own_tokenizers():
    app = page(begin="on", training_data="phrases")
    assert "peak rate 0.0003" in words(app)
    given, before = begun(app), open_place(find("small", places()))
    assert (given.snapshot.step, given.start.name) == (1, "small")
    assert given.material.tokenizers == (before.source_tokenizer, before.target_tokenizer)


def test_the_model_that_a_training_began_with_can_be_shown_meanwhile():
    app = page(begin="on", training_data="phrases")
    begun(app)
    assert app.run().session_state["session"].training.step is not None
    model_list(app).set_value("small")
    session = sound(app.run()).session_state["session"]
    assert session.training.step is None
    assert session.model is live(app).start
    other = "the model that is shown is small"
    assert other not in words(app)  # where one begins
    assert other in words(sound(part(app, "settings")))
    model_list(app).set_value(training.ENTRY)
    assert other not in words(sound(app.run()))


def test_what_another_model_wrote_is_not_read_by_the_one_in_training(here):
    shutil.copytree(BUNDLED / "eng-cmn", here / "bundled" / "eng-cmn")
    app = page(model="small", begin="on", training_data="phrases")
    begun(app)
    type_in(app, "source", "We go home.")
    model_list(app).set_value("eng-cmn")
    other = sound(app.run()).session_state["session"].target
    model_list(app).set_value(training.ENTRY)
    session = sound(app.run()).session_state["session"]
    assert max(other.ids) >= len(live(app).start.target_tokenizer) > max(session.target.ids)


def test_a_name_is_letters_digits_and_signs(here):
    assert refused("Mine-2_b", False) == ""
    for name in ("", "-a", "a b", "a/b", "..", "é", "a" * 65, ".hidden"):
        assert "begins with a letter or a digit" in refused(name, True)
    assert "bundled" in refused("small", True)
    assert "bundled" in refused(training.ENTRY, True)
    write_small(here / "saved" / "old")
    assert "replace" in refused("old", False)
    assert refused("old", True) == ""
