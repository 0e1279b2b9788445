"""A mixture of experts on the page: the router, the loads of a text and of a file, the units of one expert."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest
import torch

import viz.state.checkpoints
from model.analysis.experts import loads_of
from model.checkpoints.bridge.load import open_bridged
from model.runtime import cancellation
from tests.app_reading import opened, sent, sound
from tests.model.checkpoints.bridge.models import settings_in, theirs, write_tokenizer
from tests.viz.small import looking
from viz.pages.feed_forward import experts, layer, units
from viz.pages.feed_forward.units import UnitSelection, choose_units
from viz.render.reader import Reader
from viz.render.render import render
from viz.state.session import Key

TEXT, OTHER = "the cat sees a dog .", "she bought a red car"
MIXTURE = "decoder.layers.1.feed_forward"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    made = {}
    for name in ("mixtral", "deepseek_v3"):
        folder = tmp_path_factory.mktemp("experts") / name
        shutil.copytree(theirs(name)[1], folder)
        write_tokenizer(folder)
        made[name] = open_bridged(folder, settings_in(folder), torch.device("cpu"), torch.float32)
    return made


def chosen_in(inputs, expert=""):
    return choose_units(inputs, UnitSelection("decoder", "gated", "number", 0, None, expert))


def test_the_router_is_drawn_as_it_weighed_and_an_expert_that_a_token_does_not_take_is_hatched(models):
    inputs = looking(models["mixtral"], TEXT, "", layer=1, query=2).inputs
    gates = inputs.trace[f"{MIXTURE}.gates"].numpy()
    drawn = experts.router_map(inputs, chosen_in(inputs), "gates")
    assert np.array_equal(drawn.values.now, gates)
    assert np.array_equal(drawn.visible, gates != 0)
    assert "2 of 4 experts" in drawn.caption.name
    assert drawn.column == gates[2].argmax()
    logits = experts.router_map(inputs, chosen_in(inputs), "router")
    assert np.array_equal(logits.values.now, inputs.trace[f"{MIXTURE}.router"])
    assert logits.visible is None


def test_the_expert_of_the_chosen_token_is_looked_at_unless_another_is_chosen(models):
    inputs = looking(models["mixtral"], TEXT, "", layer=1, query=3).inputs
    gates = inputs.trace[f"{MIXTURE}.gates"]
    own = str(int(gates[3].argmax()))
    assert chosen_in(inputs).expert == own
    assert chosen_in(inputs, "99").expert == own
    assert chosen_in(inputs, "shared").expert == own  # there is none
    other = chosen_in(inputs, "2")
    assert other.path == f"{MIXTURE}.experts.2"
    values, _pinned = units.values_of(inputs, other)
    assert np.array_equal(values.isnan().all(dim=1), gates[:, 2] == 0)
    shared = chosen_in(looking(models["deepseek_v3"], TEXT, "", layer=1).inputs, "shared")
    assert shared.path == f"{MIXTURE}.shared"


def test_loads_are_counted_and_dense_layers_are_hatched(models):
    inputs = looking(models["deepseek_v3"], TEXT, "", layer=1).inputs
    taken = (inputs.trace[f"{MIXTURE}.gates"] != 0).float().mean(dim=0)
    drawn = experts.load_map(inputs, chosen_in(inputs))
    assert np.isnan(drawn.values.now[0]).all()
    assert drawn.values.now[1] == pytest.approx(taken.numpy())
    chart = experts.load_chart(inputs, chosen_in(inputs))
    assert chart.series[0].ys == pytest.approx(taken.numpy())
    assert experts.load_table(inputs, chosen_in(inputs))["tokens"].sum() == 2 * len(inputs.trace.source_tokens)


def test_an_unused_expert_is_said_to_be(models):
    inputs = looking(models["deepseek_v3"], "the", "", layer=1).inputs
    gates = inputs.trace[f"{MIXTURE}.gates"]
    idle = str(int((gates != 0).sum(dim=0).argmin()))
    chosen = chosen_in(inputs, idle)
    assert not units.is_used(inputs, chosen)
    assert "no token of this text" in layer.layer_sentence(inputs, chosen, None)
    assert units.is_used(inputs, chosen_in(inputs))


def test_the_pinned_loads_stand_beside(models):
    inputs = looking(models["mixtral"], TEXT, "", (models["mixtral"], OTHER, ""), layer=1).inputs
    chart = experts.load_chart(inputs, chosen_in(inputs))
    assert [series.name for series in chart.series] == ["this text", "pinned"]


def test_loads_over_a_file_are_those_of_its_texts(models):
    model, texts = models["mixtral"], [TEXT, OTHER, "the"]
    job = experts.FileLoads(model, "a", texts, 0)
    assert job.wait(60)
    assert not job.errors
    gates = torch.cat([model.trace(text)[f"{MIXTURE}.gates"] for text in texts])
    assert job.loads.share(MIXTURE) == pytest.approx((gates != 0).float().mean(dim=0))
    assert job.loads.positions[MIXTURE] == len(gates)
    assert loads_of(model, []).tokens == {}
    session = looking(model, TEXT, "", layer=1)
    session.memory[experts.Part.KEPT] = job
    inputs = session.inputs
    chart = experts.load_chart(inputs, chosen_in(inputs), experts.file_loads(session))
    assert chart.series[-1].ys == pytest.approx((gates != 0).float().mean(dim=0).numpy())
    other = looking(models["deepseek_v3"], TEXT, "", layer=1)
    other.memory[experts.Part.KEPT] = job  # of another model: nothing of it is shown
    assert experts.file_loads(other) is None


@pytest.mark.parametrize("name", ["mixtral", "deepseek_v3", "gpt_oss"])
def test_the_page_shows_each_layer_and_expert(tmp_path, monkeypatch, name):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    shutil.copytree(theirs(name)[1], tmp_path / name)
    write_tokenizer(tmp_path / name)
    app = sound(opened("feed_forward", source=TEXT, layer="1", look="load"))
    assert sent(app, "experts_router")[1][0].shape == (6, 4)
    assert not app.info
    for look in ("unit", "token", "layer", "apart"):
        app.session_state["look"] = look
        sound(app.run())
    app.session_state["expert"] = "2"
    assert "expert 3" in " ".join(each.value for each in sound(app.run()).markdown)
    dense = sound(opened("feed_forward", source=TEXT, layer="0"))
    if name == "deepseek_v3":
        assert not [each for each in dense.segmented_control if each.key == "expert"]
        assert "Layer 1: nearly zero" in " ".join(each.value for each in dense.markdown)


def test_nothing_of_a_file_is_shown_before_all_of_it_is_read(models, monkeypatch):
    model = models["mixtral"]
    begun, cut = threading.Event(), experts.loads_of

    def slow(model, lines):
        if len(lines) == 1 and not begun.is_set():
            begun.set()
            while True:
                cancellation.check()
        return cut(model, lines)

    monkeypatch.setattr(experts, "loads_of", slow)
    job = experts.FileLoads(model, "a", [TEXT] * 9, 0)
    assert begun.wait(60)
    assert job.sentence == "read 8 of 9 lines"
    job.cancel()
    assert job.wait(60)
    session = looking(model, TEXT, "", layer=1)
    session.memory[experts.Part.KEPT] = job
    assert experts.file_loads(session) is None
    job.start()
    assert job.wait(60)
    assert experts.file_loads(session).positions[MIXTURE] == 9 * 6


def test_lines_that_are_cut_are_counted(models):
    longest = models["mixtral"].config.max_length
    assert loads_of(models["mixtral"], [TEXT, "the " * (longest + 1)]).cut == 1


def test_tokens_that_do_not_go_through_an_expert_are_hatched_and_no_number_of_it_is_theirs(models):
    inputs = looking(models["mixtral"], TEXT, "", layer=1, query=0).inputs
    gates = inputs.trace[f"{MIXTURE}.gates"].numpy()
    expert = next(number for number in range(4) if 0 < (gates[:, number] != 0).sum() < len(gates))
    token = int((gates[:, expert] == 0).argmax())
    inputs.selection.query = token
    chosen = chosen_in(inputs, str(expert))
    drawn = units.unit_map(inputs, chosen)
    assert np.array_equal(drawn.visible[:, 0], gates[:, expert] != 0)
    assert "odd" not in render(drawn, Reader()).header
    assert units.top_units(inputs, chosen) == []
    note = units.unit_chart(inputs, chosen).caption.note
    assert "nan" not in note
    assert f"expert {expert + 1}: unit" in units.unit_chart(inputs, chosen).caption.name


def test_an_expert_of_ours_is_removed_and_restored_on_the_page():
    app = sound(opened("feed_forward", model="experts", source="3hello", stack="encoder", query="1", language="en"))
    session = app.session_state[Key.SESSION]
    path = "encoder.layers.0.feed_forward"
    own = int(session.trace[f"{path}.gates"][1].argmax())
    assert app.button(key="expert_remove").label == f"Remove expert {own + 1}"
    sound(app.button(key="expert_remove").click().run())
    assert [str(each) for each in session.what_if.changes] == [f"encoder.0.expert.{own}:remove"]
    assert session.trace[f"{path}.gates"][:, own].abs().sum() == 0
    assert app.button(key="expert_remove").label == f"Restore expert {own + 1}"
    sound(app.button(key="expert_remove").click().run())
    assert session.what_if.changes == ()
    assert int(session.trace[f"{path}.gates"][1].argmax()) == own
