"""Every page with a bridged model of each kind: it shows what exists, and says what does not."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import viz.state.checkpoints
from model.checkpoints.bridge.load import open_bridged
from tests.app_reading import component, heads, opened, sent, sound
from tests.model.checkpoints.bridge.models import settings_in, theirs, write_tokenizer

TEXTS = {"gemma2": "the cat sees a dog .", "electra": "the cat sees a <mask> .", "pegasus": "the cat sees a dog ."}
SEEN = {  # a page and the beginning of what it says of a model that lacks something
    "gptj": {
        "attention": "This model computes its attention by code of its own",
        "masks": "This model computes its attention by code of its own",
    },
    "gpt_oss": {
        "attention": "This model's softmax counts a sink of each head",
    },
    "electra": {"positions": "What enters this model's first layer is not simply the sum"},
}
HEADS = {"gptj": "This model computes its attention by code of its own", "gpt_oss": ""}
PAGES = ("map", "positions", "masks", "residual", "feed_forward", "predictions")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)

    def copied(name: str):
        shutil.copytree(theirs(name)[1], tmp_path / name)
        write_tokenizer(tmp_path / name)
        return tmp_path / name

    return copied


@pytest.mark.parametrize("name", list(TEXTS))
def test_every_page_shows_a_hosted_model(folder, name):
    path = folder(name)
    app = sound(opened(source=TEXTS[name]))
    model = open_bridged(path, settings_in(path), torch.device("cpu"), torch.float32)
    trace = model.trace(TEXTS[name])
    kind = {"gemma2": "decoder", "electra": "encoder", "pegasus": "cross"}[name]
    shown = heads(app)[1]
    assert np.abs(shown - trace.attention(kind).numpy()).max() < 1e-4
    for page in PAGES:
        sound(app.switch_page(f"viz/pages/{page}/page.py").run())


@pytest.mark.parametrize("name", list(SEEN))
def test_what_a_hosted_model_lacks_is_said(folder, name):
    folder(name)
    for page, sentence in SEEN[name].items():
        app = sound(opened(page, source="the cat sees a dog ."))
        assert any(info.value.startswith(sentence) for info in app.info), page


def test_it_is_said_in_chinese_too(folder):
    folder("gptj")
    app = sound(opened("masks", source="the cat", language="zh"))
    assert any("只能看到权重" in info.value for info in app.info)


def test_every_step_has_its_column_and_windows_are_each_layers_own(folder):
    folder("gemma2")
    app = sound(opened(source="the cat sees a dog .", layer="1"))
    header, arrays = component(app, "steps")
    columns = header["words"]["columns"]
    assert [column["formula"] for column in columns[3:5]] == ["c·tanh(·/c)", "−∞"]
    assert len(arrays) == len(columns)  # the output of the head in place of the keys
    states = heads(app)[2]
    assert not (states[..., 5, 0] == 0).any()  # outside of the first layer's window, and seen by the second layer


def test_formulas_and_titles_are_of_what_the_model_does_to_its_scores(folder):
    """Gemma 2 scales by a number of its own, which is 1/√256 here for heads of 16, and caps at 50."""
    folder("gemma2")
    scored = r"50\,\tanh\left(\frac{1}{50}\,0.0625\,QK^\top\right) + M\right)"
    app = opened(source="the cat sees a dog .")
    app.session_state["explanation"] = True
    assert any(scored in each.value for each in sound(app.run()).latex)
    app = sound(app.switch_page("viz/pages/masks/page.py").run())
    app.session_state["mask_explanation"] = True
    assert any(scored in each.value for each in sound(app.run()).latex)
    assert sent(app, "mask_flow")[0]["panels"][0]["name"] == "capped"


def test_the_papers_scale_is_written_where_a_hosted_model_has_it(folder):
    folder("gpt2")
    app = opened("masks", source="the cat sees a dog .")
    app.session_state["mask_explanation"] = True
    assert any(r"\frac{QK^\top}{\sqrt{d_k}} + M" in each.value for each in sound(app.run()).latex)
    assert sent(app, "mask_flow")[0]["panels"][0]["name"] == "scores / √d_k"


def test_what_a_hosted_model_lacks_is_not_offered(folder):
    folder("gptj")
    app = sound(opened(source="the cat sees a dog ."))
    assert not [each for each in app.segmented_control if each.key == "quantity"]
    app = sound(app.switch_page("viz/pages/positions/page.py").run())
    (vectors,) = [each for each in app.segmented_control if each.key == "vectors"]
    assert len(vectors.options) == 2  # no positions, which are in the queries and keys


@pytest.mark.parametrize("name", list(HEADS))
def test_heads_are_weighed_where_the_model_shows_them_apart(folder, name):
    folder(name)
    app = sound(opened(source="the cat sees a dog .", below="importance"))
    if HEADS[name]:
        assert any(each.value.startswith(HEADS[name]) for each in app.info)
    else:
        assert sent(app, "head_effects")[1][0].size == 8


def test_a_head_that_cannot_be_removed_is_said_in_the_frame(folder):
    folder("gptj")
    app = sound(opened(source="the cat sees a dog .", changes="decoder.0.0:remove"))
    assert component(app, "token_bar")["changed"]["refused"].startswith("the heads of this model cannot be removed")
    assert heads(app)[1].any()


@pytest.mark.parametrize("name", ["bloom", "deepseek_v2"])
def test_heads_of_packed_matrices_are_read(folder, name):
    path = folder(name)
    app = sound(opened("checkpoints", checkpoints_part="read", weights_view="heads", checkpoint=name))
    if name == "deepseek_v2":
        assert any("makes its queries, keys or values in several steps" in each.value for each in app.info)
        return
    _header, arrays = sent(app, "w_head_norms")
    packed = load_file(path / "model.safetensors")["transformer.h.1.self_attention.query_key_value.weight"]
    keys = packed.view(4, 3, 8, 32)[:, 1].flatten(1).norm(dim=1)  # of a head its query, key and value, in turn
    assert np.allclose(arrays[2][1], keys, rtol=1e-5)
    header, (cosines, _visible) = sent(app, "w_heads_alike")
    assert np.allclose(np.diag(cosines), 1, atol=1e-6)
    assert header["rows"]["labels"] == [f"{layer}.{head}" for layer in (1, 2) for head in (1, 2, 3, 4)]
