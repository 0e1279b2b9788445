"""Every page with the recurrent network: it shows what exists, and says in a sentence what does not."""

from __future__ import annotations

import numpy as np
import pytest

import viz.state.checkpoints
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.app_reading import component, heads, labels, opened, sound
from tests.model.examples import recurrent, sentences, tokenizers

TEXT = "The cat sees the dog."
ORDER = "This network is recurrent: it reads one token after the other"
STATE = "This network is recurrent: it has no residual stream and no norms"
ADDITIVE = "This network scores by vᵀ tanh(W s + U h)"
SAID = {  # a page, what is chosen on it, and the beginning of what it says; "": it says nothing
    ("map", ""): "",
    ("positions", "tokens"): "",
    ("positions", "applied"): ORDER,
    ("positions", "order"): ORDER,
    ("attention", ""): ADDITIVE,
    ("masks", ""): ADDITIVE,
    ("residual", "norms"): STATE,
    ("residual", "gradients"): STATE,
    ("feed_forward", ""): "This network is recurrent: it has no feed-forward layers",
    ("predictions", "positions"): "",
    ("predictions", "layers"): STATE,
    ("predictions", "film"): "",
    ("predictions", "search"): "",
    ("training", ""): "",
    ("checkpoints", ""): "",
}
CHOSEN = {"positions": "part", "residual": "residual_view", "predictions": "view"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    both = tokenizers(sentences(60))
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    save_checkpoint(tmp_path / "small", recurrent(**sizes), both)
    return tmp_path / "small"


@pytest.mark.slow
def test_every_page_shows_what_exists_and_says_what_does_not(here):
    app = None
    for (page, view), sentence in SAID.items():
        if app is None:
            app = sound(opened(page, source=TEXT))
        if page in CHOSEN:
            app.session_state[CHOSEN[page]] = view
        sound(app.switch_page(f"viz/pages/{page}/page.py").run())
        said = [each.value for each in app.info if each.value.startswith("This network")]
        assert [each for each in said if each.startswith(sentence)] == said, (page, view)
        assert bool(said) == bool(sentence), (page, view)


def test_its_alignment_is_one_cross_attention_of_one_head(here):
    app = sound(opened(source=TEXT))
    trace = open_checkpoint(here).trace(TEXT)
    header, values, _states = heads(app)
    assert header["order"] == [[0, 0]]
    assert np.abs(values - trace.attention("cross").numpy()).max() < 1 / 200
    assert labels(app, "target") == trace.target_tokens


def test_the_map_has_its_units_and_all_its_parameters(here):
    app = sound(opened("map", source=TEXT))
    header, _arrays = component(app, "model_map")
    kinds = [block["kind"] for block in header["blocks"]]
    assert kinds.count("recurrence") == 3
    assert {"embedding", "cross-attention", "readout", "output"} <= set(kinds)
    summary = dict(tuple(line) for line in header["summary"])
    assert "in no block" not in summary


def test_it_is_said_in_chinese_too(here):
    app = sound(opened("feed_forward", source=TEXT, language="zh"))
    assert any(info.value.startswith("这个网络是循环网络") for info in app.info)
