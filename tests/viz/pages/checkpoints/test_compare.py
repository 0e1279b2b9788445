"""Comparing checkpoints without a browser: two of them, and several of one run."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.load import open_checkpoint
from tests.app_reading import opened, sent, sound
from tests.model.checkpoints.bridge.models import theirs
from tests.viz.pages.checkpoints.reading_page import MATRIX, WEIGHTS, change, columns, page
from tests.viz.small import write_small
from viz.pages.checkpoints import course
from viz.pages.checkpoints.subjects import Subject, nearest
from viz.state.session import Key

QUERY = "encoder.layers.0.self_attention.query.weight"
PAIR = {"compare_a": "run-1", "compare_b": "run-2"}


def pair(here):
    """Two checkpoints of one run: a matrix moved, and one row of the queries of a head."""
    write_small(here / "run-1")
    write_small(here / "run-2")

    def noise(x):
        return x + 0.1 * torch.randn_like(x)

    old = load_file(here / "run-1" / WEIGHTS)

    def second_head(x):
        x[-1] += 1
        return x

    return old, change(here / "run-2", **{MATRIX: noise, QUERY: second_head})


def test_two_checkpoints_are_compared(here):
    old, new = pair(here)
    app = page("compare", tensor=MATRIX, **PAIR)
    found = columns(app, "moved_tree")
    for name in old:
        moved = float((new[name] - old[name]).norm() / old[name].norm())
        assert found[name]["‖B−A‖/‖A‖"] == pytest.approx(moved, rel=1e-4, abs=1e-7), name
    header, (difference, _visible) = sent(app, "w_map")
    assert header["scale"]["difference"]
    assert np.array_equal(difference, new[MATRIX] - old[MATRIX])
    _header, arrays = sent(app, "w_spectrum")
    assert np.allclose(arrays[1], torch.linalg.svdvals(old[MATRIX].double()), rtol=1e-5)
    assert np.allclose(arrays[3], torch.linalg.svdvals(new[MATRIX].double()), rtol=1e-5)
    _header, arrays = sent(page("compare", compare_view="heads", **PAIR), "moved_heads")
    one, other = (weights[QUERY].unflatten(0, (2, -1)) for weights in (old, new))
    expected = (other - one).norm(dim=(1, 2)) / one.norm(dim=(1, 2))
    assert np.allclose(arrays[0][0], expected, rtol=1e-4)
    assert expected[0] == 0 < expected[1]
    app = page("compare", compare_view="layers", compare_stack="encoder.layers", **PAIR)
    header, arrays = sent(app, "moved_layers")
    names = [series["name"] for series in header["series"]]
    changes = arrays[2 * names.index("feed_forward.output") + 1]
    assert changes[0] == 0 < changes[1]


@pytest.mark.slow
def test_heads_of_others_are_compared_or_a_sentence_says_why_not(here):
    write_small(here / "a")
    for name in ("llama-1", "llama-2"):
        shutil.copytree(theirs("llama")[1], here / name)
    for name in ("falcon-40b", "deepseek_v2"):
        shutil.copytree(theirs(name)[1], here / name)
    shutil.copytree(here / "falcon-40b", here / "falcon-2")
    change(here / "llama-2", **{"model.layers.1.self_attn.o_proj.weight": lambda x: x * torch.tensor(2.0)})
    address = {"model": "a", "compare_a": "llama-1", "compare_b": "llama-2", "compare_view": "heads"}
    _header, arrays = sent(page("compare", **address), "moved_heads")
    assert [array.tolist() for array in arrays[::2]] == [[[0.0] * 4] * 2] * 3 + [[[0.0] * 4, [1.0] * 4]]
    app = page("compare", **(address | {"compare_b": "deepseek_v2"}))
    assert any("has no matrices of queries" in each.value for each in app.info)
    packed = "transformer.h.1.self_attention.query_key_value.weight"
    turned = torch.ones(64, 1)
    turned[40:48] = -1  # of two groups the first: two queries, a key, a value; then of the fourth head the queries
    change(here / "falcon-2", **{packed: lambda x: x * turned})
    app = page("compare", **(address | {"compare_a": "falcon-40b", "compare_b": "falcon-2"}))
    _header, arrays = sent(app, "moved_heads")
    assert [array.tolist() for array in arrays[::2]] == [[[0.0] * 4, [0, 0, 0, 2.0]], *[[[0.0] * 4] * 2] * 3]
    app = page("compare", **(address | {"compare_b": "a"}))
    assert any("not of the same number and shapes" in each.value for each in app.info)


@pytest.mark.parametrize("typed", ["The cat sees the dog.", ""])
def test_their_traces_are_pinned_and_shown(here, typed):
    pair(here)
    write_small(here / "other")
    (here / "run-2" / "training.json").write_text(json.dumps({"example": "The bird sings."}))
    app = page("compare", model="other", **PAIR, **({"source": typed} if typed else {}))
    app.button(key="compare_traces").click().run()
    session = sound(app).session_state["session"]
    assert session.pin.name == "run-1"
    assert session.model.name == "run-2"
    assert session.differing
    assert app.segmented_control(key="view").value == app.query_params["view"] == "layers"  # the answer by depth
    # A text that was only an example gives way to B's example, in both.
    text = typed or "The bird sings."
    assert session.traced[0] == text
    expected = open_checkpoint(here / "run-1").trace(text)
    assert torch.equal(session.pin.trace["output.logits"], expected["output.logits"])


def test_what_only_one_has_is_said(here):
    write_small(here / "run-1")
    write_small(here / "run-2", d_ff=48)
    app = page("compare", **PAIR)
    header, _arrays = sent(app, "moved_tree")
    assert "12 of another shape" in header["sentence"]
    assert MATRIX not in header["names"]


def test_a_statistic_is_shown_over_steps(here):
    old, new = pair(here)
    for name, step in (("run-1", 300), ("run-2", 100)):
        (here / name / "training.json").write_text(json.dumps({"steps": step}))
    write_small(here / "other-1", d_model=12)
    write_small(here / "another", d_model=20)
    app = page("compare", compare_view="steps", compare_part="tensors", compare_pattern=MATRIX, model="run-1")
    app.text_input(key="compare_pattern").set_value(MATRIX).run()
    header, (steps, norms) = sent(sound(app), "steps_chart")
    assert steps.tolist() == [100, 300]
    assert norms.tolist() == pytest.approx([float(new[MATRIX].norm()), float(old[MATRIX].norm())], rel=1e-5)
    assert header["x"]["title"] == "step"


def run_of(here, steps):
    """Checkpoints of a training, each with other weights; the latest losses are in the last."""
    for step in steps:
        write_small(here / f"run-{step:03}", seed=step)
        losses = [[each, 5 - each / 100] for each in range(100, step + 1, 100)]
        record = {"steps": step, "validations": losses, "losses": losses[:1], "settings": {"steps": 400}}
        (here / f"run-{step:03}" / "training.json").write_text(json.dumps(record))


@pytest.mark.parametrize(("kind", "name"), [("decoder", "decoder.layers.1.self_attention"), ("cross", "")])
def test_a_run_is_followed_from_its_folder(here, kind, name):
    """Its losses, and a head at each of its checkpoints, which are the models' own weights; what comes is taken in."""
    run_of(here, (0, 200))
    address = {"compare_view": "steps", "model": "run-200", "w_kind": kind, "source": "The bird sings."}
    app = page("compare", **address, target="鸟", layer="1", head="1")
    header, (steps, losses, *_training) = sent(app, "course_losses")
    assert header["sentence"] == "step 200 of 400"
    assert (steps.tolist(), losses.tolist()) == ([100, 200], [4, 3])

    def check(names):
        header, arrays = sent(app, "course_film")
        assert [panel["name"] for panel in header["panels"]] == [f"step {int(each[4:]):,}" for each in names]
        for place, each in enumerate(names):
            model = open_checkpoint(here / each)
            trace = model.trace("The bird sings.", "鸟")
            path = name or "decoder.layers.1.cross_attention"
            assert np.allclose(arrays[2 * place], trace[f"{path}.weights"][1], atol=1e-6)
            assert np.array_equal(arrays[2 * place + 1], trace[f"{path}.visible"].expand(2, -1, -1)[1])
            assert header["panels"][place]["note"][:9] == model.generate("The bird sings.").text[:9]

    check(["run-000", "run-200"])
    (region, *_others) = app.session_state[Key.SESSION].live_regions
    assert not region.is_old
    run_of(here, (400,))
    course.LOOK_AGAIN, patience = 0.0, course.LOOK_AGAIN
    try:
        assert region.is_old
    finally:
        course.LOOK_AGAIN = patience
    sound(app.run())
    check(["run-000", "run-200", "run-400"])
    assert sent(app, "course_losses")[0]["sentence"] == "step 400 of 400"
    app.multiselect(key="compare_several").set_value(["run-000", "run-400"]).run()
    run_of(here, (300,))
    sound(app.run())
    assert app.multiselect(key="compare_several").value == ["run-000", "run-400"]  # as the user chose them


def test_it_begins_with_the_nearest_other_checkpoint(here):
    """First of its own folder, then of its shapes, then of its width; where nothing is near, nothing is chosen."""
    write_small(here / "run" / "step-2")
    write_small(here / "a")
    write_small(here / "b", n_encoder_layers=3)
    write_small(here / "c", d_model=32)
    write_small(here / "z")
    stack = {name: x for name, x in load_file(here / "z" / WEIGHTS).items() if name.startswith("decoder")}
    alone = {name: x for name, x in stack.items() if "cross" not in name}  # a model of another kind
    save_file(alone, here / "decoder.safetensors")
    other = Subject("decoder", here / "decoder.safetensors")
    assert nearest("z", [Subject("z", here / "z"), other]) is None
    found = [Subject(path.name, path) for path in (*(here / name for name in "abcz"), here / "run" / "step-2")]
    assert nearest("z", found) == "a"
    assert nearest("step-2", found) == "a"
    write_small(here / "run" / "step-1")
    assert nearest("step-2", [*found, Subject("step-1", here / "run" / "step-1")]) == "step-1"
    assert nearest("b", found) in ("a", "z", "step-2")
    assert nearest("c", found) is None
    (here / "a" / WEIGHTS).write_bytes(b"damaged")
    assert nearest("z", found[:4]) == "b"
    assert nearest("no such", found) is None


def test_where_no_other_fits_a_sentence_says_so_and_nothing_is_compared(here):
    write_small(here / "one")
    write_small(here / "other", d_model=32)
    app = page("compare", model="one")
    (said,) = (each.value for each in app.info)
    assert said.startswith("No other checkpoint here has the tensors of one")
    (before,) = (each for each in app.selectbox if each.key == "compare_a")
    assert before.value is None
    app = sound(before.set_value("other").run())
    assert not [each for each in app.info if each.value.startswith("No other")]
    assert [each.value for each in app.selectbox if each.key == "compare_b"] == ["one"]


def test_a_pair_is_proposed_where_no_checkpoint_has_the_tensors_of_the_shown_model():
    app = sound(opened("checkpoints", checkpoints_part="compare", language="en"))
    button = next(each for each in app.button if each.label == "reverse → sort")
    assert "tensors in both" in " ".join(each.value for each in app.caption)
    sound(button.click().run())
    assert (app.selectbox(key="compare_a").value, app.selectbox(key="compare_b").value) == ("reverse", "sort")
    assert not [each for each in app.button if str(each.key).startswith("pair_")]
