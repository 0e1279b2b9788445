"""Comparing checkpoints without a browser: two of them, and several of one run."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from model.checkpoints import open_checkpoint
from tests.app_reading import sent, sound
from tests.model.hosted.models import theirs
from tests.viz.pages.reading_page import MATRIX, WEIGHTS, at_once, change, columns, page
from tests.viz.small import write_small


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """See `at_once`."""
    at_once(monkeypatch)


def pair(here, scale: float = 0.1):
    """Two checkpoints of one run: a matrix moved, and one row of the queries of a head."""
    write_small(here / "run-1")
    write_small(here / "run-2")

    def noise(x):
        return x + scale * torch.randn_like(x)

    old = load_file(here / "run-1" / WEIGHTS)
    query = "encoder.layers.0.self_attention.query.weight"

    def second_head(x):
        x[-1] += 1
        return x

    new = change(here / "run-2", **{MATRIX: noise, query: second_head})
    return old, new


def test_two_checkpoints_are_compared(here):
    old, new = pair(here)
    app = page("compare", compare_a="run-1", compare_b="run-2", tensor=MATRIX)
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
    header, arrays = sent(page("compare", compare_a="run-1", compare_b="run-2", compare_view="heads"), "moved_heads")
    query = "encoder.layers.0.self_attention.query.weight"
    one, other = (weights[query].unflatten(0, (2, -1)) for weights in (old, new))
    expected = (other - one).norm(dim=(1, 2)) / one.norm(dim=(1, 2))
    assert np.allclose(arrays[0][0], expected, rtol=1e-4)
    assert expected[0] == 0 < expected[1]
    address = {"compare_a": "run-1", "compare_b": "run-2", "compare_view": "layers", "compare_stack": "encoder.layers"}
    header, arrays = sent(page("compare", **address), "moved_layers")
    names = [series["name"] for series in header["series"]]
    changes = arrays[2 * names.index("feed_forward.output") + 1]
    assert changes[0] == 0 < changes[1]


def test_heads_of_others_are_compared_or_a_sentence_says_why_not(here):
    write_small(here / "a")
    for name in ("llama-1", "llama-2"):
        shutil.copytree(theirs("llama")[1], here / name)
    shutil.copytree(theirs("phi3")[1], here / "phi3")
    change(here / "llama-2", **{"model.layers.1.self_attn.o_proj.weight": lambda x: x * torch.tensor(2.0)})
    address = {"model": "a", "compare_a": "llama-1", "compare_b": "llama-2", "compare_view": "heads"}
    _header, arrays = sent(page("compare", **address), "moved_heads")
    assert [array.tolist() for array in arrays[::2]] == [[[0.0] * 4] * 2] * 3 + [[[0.0] * 4, [1.0] * 4]]
    app = page("compare", **(address | {"compare_b": "phi3"}))
    assert any("phi3 has no matrices of queries" in each.value for each in app.info)
    app = page("compare", **(address | {"compare_b": "a"}))
    assert any("not of the same number and shapes" in each.value for each in app.info)


@pytest.mark.parametrize("typed", ["The cat sees the dog.", ""])
def test_their_traces_are_pinned_and_shown(here, typed):
    pair(here)
    write_small(here / "other")
    (here / "run-2" / "training.json").write_text(json.dumps({"example": "The bird sings."}))
    address = {"model": "other", "compare_a": "run-1", "compare_b": "run-2"}
    app = page("compare", **address, **({"source": typed} if typed else {}))
    app.button(key="compare_traces").click().run()
    bench = sound(app).session_state["workbench"]
    assert bench.pin.model == "run-1"
    assert bench.lens.name == "run-2"
    assert bench.differing
    # A text that was only an example gives way to B's example, in both.
    text = typed or "The bird sings."
    assert bench.traced[0] == text
    expected = open_checkpoint(here / "run-1").trace(text)
    assert torch.equal(bench.pin.trace["output.logits"], expected["output.logits"])


def test_what_only_one_has_is_said(here):
    write_small(here / "run-1")
    write_small(here / "run-2", d_ff=48)
    app = page("compare", compare_a="run-1", compare_b="run-2")
    header, _arrays = sent(app, "moved_tree")
    assert "12 of another shape" in header["sentence"]
    assert MATRIX not in header["names"]


def test_a_statistic_is_shown_over_steps(here):
    old, new = pair(here)
    for name, step in (("run-1", 300), ("run-2", 100)):
        (here / name / "training.json").write_text(json.dumps({"steps": step}))
    write_small(here / "other-1", d_model=12)
    write_small(here / "another", d_model=20)
    app = page("compare", compare_view="steps", compare_pattern=MATRIX, model="run-1")
    app.text_input(key="compare_pattern").set_value(MATRIX).run()
    header, (steps, norms) = sent(sound(app), "steps_chart")
    assert steps.tolist() == [100, 300]
    assert norms.tolist() == pytest.approx([float(new[MATRIX].norm()), float(old[MATRIX].norm())], rel=1e-5)
    assert header["x"]["title"] == "step"
