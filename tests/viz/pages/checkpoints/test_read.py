"""Reading checkpoints without a browser: what is sent is what the files hold."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import viz.state.checkpoints
from model.checkpoints.load import open_checkpoint
from model.checkpoints.tensors import tensor_table
from tests.app_reading import sent, sound
from tests.model.checkpoints.convert.layout_references import GPT
from tests.viz.pages.checkpoints.reading_page import MATRIX, WEIGHTS, change, columns, page
from tests.viz.small import write_small
from viz.i18n.format import percent, significant
from viz.pages.checkpoints.measuring import measured
from viz.pages.checkpoints.subjects import subjects
from viz.pages.checkpoints.tensor import text_on
from viz.pages.checkpoints.tensor_figures import Weight, summary
from viz.pages.checkpoints.tensors import statistics_table
from viz.state.session import Session
from viz.ui import parts


def health(app) -> dict[str, dict]:
    """The groups of findings by their titles, once all are there."""
    for _attempt in range(50):
        if any(each.proto.id.endswith("-w_findings") for each in app.get("bidi_component")):
            break
        app.run()
    header, _arrays = sent(sound(app), "w_findings")
    return {group["title"]: group for group in header["groups"]}


def sentences(group: dict) -> list[str]:
    return [item["sentence"] for item in group["items"]]


def test_the_table_of_all_tensors_has_their_norms(here):
    write_small(here / "small")
    weights = load_file(here / "small" / WEIGHTS)
    measurements = measured(next(each for each in subjects() if each.name == "small"))
    assert measurements.wait(20)
    table = statistics_table(measurements)
    norms = [float(weights[name].double().norm()) for name in table["tensor"]]
    np.testing.assert_allclose(table["‖W‖"], norms, rtol=1e-6)
    info = measurements.table[0]
    weight = Weight("small", info, measurements.of(info), measurements.remember, measurements.remembers)
    assert str(summary(weight)).endswith(f" · ‖W‖ {significant(norms[0])}")


def test_a_small_number_of_a_table_has_room_and_four_digits():
    """In a column as wide as its first rows 0.000006 was cut to 000006."""
    small, middle, large, whole = [0.5] * 20 + [6e-6], [0.5, np.nan], [0.5, 1234.5], [1, 2]
    columns = {"small": small, "middle": middle, "large": large, "whole": whole}
    found = [parts.number_columns(pd.DataFrame({name: values})) for name, values in columns.items()]
    assert found == [{"small": 110}, {"middle": None}, {}, {}]


def test_every_tensor_has_the_numbers_of_its_values(here):
    write_small(here / "small")
    weights = load_file(here / "small" / WEIGHTS)
    found = columns(page())
    assert found.keys() == weights.keys()
    for name, tensor in weights.items():
        expected = [tensor.mean(), tensor.std(correction=0), tensor.min(), tensor.max(), (tensor == 0).float().mean()]
        names = ("mean", "deviation", "least", "greatest", "zeros")
        assert [found[name][title] for title in names] == pytest.approx([float(x) for x in expected], abs=1e-6), name
        assert found[name]["NaN, ±∞"] == 0
    header, _arrays = sent(page(), "tensor_tree")
    assert sum(header["elements"]) == sum(tensor.numel() for tensor in weights.values())


def test_the_chosen_tensor_is_shown_large(here):
    write_small(here / "small")
    values = load_file(here / "small" / WEIGHTS)[MATRIX]
    app = page(tensor=MATRIX)
    header, (shown, _visible) = sent(app, "w_map")
    assert np.array_equal(shown, values)
    _header, (_places, counts) = sent(app, "w_histogram")
    assert counts.sum() == values.numel()
    header, (_numbers, sigmas) = sent(app, "w_spectrum")
    expected = torch.linalg.svdvals(values.double())
    assert np.allclose(sigmas, expected, rtol=1e-5)
    shares = expected / expected.sum()
    rank = math.exp(-float((shares * shares.log()).sum()))
    stable = float((expected**2).sum() / expected[0] ** 2)
    assert f"effective rank {rank:.3g} of {len(expected)} · stable rank {stable:.3g}" in header["sentence"]
    app.text_input(key="w_rows").set_value("2-5").run()
    app.text_input(key="w_columns").set_value("1").run()
    _header, (shown, _visible) = sent(sound(app), "w_map")
    assert np.array_equal(shown, values[2:6, 1:2])
    app.text_input(key="w_rows").set_value("5-2").run()
    assert any("Not within" in each.value for each in app.caption)


def test_vectors_embeddings_and_positions_have_their_own_views(here):
    model = open_checkpoint(write_small(here / "small", position="learned"))
    weights = load_file(here / "small" / WEIGHTS)
    app = page(tensor="encoder.norm.weight")
    _header, arrays = sent(app, "w_features")
    assert np.array_equal(arrays[1], weights["encoder.norm.weight"])
    app = page(tensor="encoder.embedding.tokens.weight")
    app.text_input(key="w_row_small_encoder.embedding.tokens.weight").set_value("#7").run()
    header, (_places, cosines) = sent(sound(app), "w_near")
    rows = weights["encoder.embedding.tokens.weight"]
    expected = torch.nn.functional.cosine_similarity(rows, rows[7], dim=-1).sort(descending=True)
    assert np.allclose(cosines, expected.values[1:17], atol=1e-5)
    assert header["x"]["labels"][0] == model.source_tokenizer.label(int(expected.indices[1]))
    name = next(name for name in weights if "encoder" in name and "position" in name)
    _header, (products, _visible) = sent(page(tensor=name), "w_positions")
    assert np.allclose(products, weights[name] @ weights[name].T, atol=1e-5)


@pytest.mark.parametrize(
    ("side", "target", "text"), [("encoder", "红", "red"), ("decoder", "红", "红"), ("decoder", "", "red")]
)
def test_a_table_of_tokens_begins_at_the_text_of_its_own_side(here, side, target, text):
    session = Session()
    session.traced = ("red", target)
    table = tensor_table(write_small(here / "small"))
    (info,) = [each for each in table if each.name == f"{side}.embedding.tokens.weight"]
    assert text_on(info, session) == text


def test_heads_are_measured_and_lead_to_the_attention_page(here):
    model = open_checkpoint(write_small(here / "small"))
    app = page(weights_view="heads", w_kind="cross")
    _header, arrays = sent(app, "w_head_norms")
    attention = model.network.decoder.layers[1].cross_attention
    expected = attention.value.weight.unflatten(0, (2, -1)).norm(dim=(1, 2))
    assert np.allclose(arrays[4][1], expected, rtol=1e-5)
    _header, (cosines, _visible) = sent(app, "w_heads_alike")
    assert np.allclose(np.diag(cosines), 1, atol=1e-6)


def test_the_health_report_names_unused_tokens_and_those_that_never_moved(here):
    model = open_checkpoint(write_small(here / "run-2"))
    write_small(here / "run-1")
    write_small(here / "other", d_model=32)
    name = "decoder.embedding.tokens.weight"
    tokens, moved = model.target_tokenizer, []

    def trained(x):
        moved.extend(token for token in range(len(x)) if token not in (6, 9))
        x[moved] *= 1 + 0.1 * torch.rand(len(moved), 1)
        x[5] = 0
        x[7] *= 50
        return x

    change(here / "run-2", **{name: trained})
    app = page(weights_view="health", checkpoint="run-2", health_beside="run-1")
    groups = {title: sentences(group) for title, group in health(app).items()}
    share = 1 / len(tokens)
    assert groups["Tokens of zeros"] == [f"tokens: 5 {tokens.label(5)} ({percent(share)} of the vocabulary)"]
    assert groups["Tokens that stand out"][0].startswith(f"tokens: 7 {tokens.label(7)} (up to ")
    assert groups["Tokens that never moved"] == [
        f"tokens: 6 {tokens.label(6)}, 9 {tokens.label(9)} ({percent(2 * share)} of the vocabulary), as in run-1"
    ]
    assert app.selectbox(key="health_beside").options == ["run-1"]
    assert "Tokens that never moved" not in health(app.selectbox(key="health_beside").set_value(None).run())


def test_the_health_report_names_what_is_wrong(here):
    write_small(here / "small")
    hidden, bias = (f"decoder.layers.0.feed_forward.hidden.{part}" for part in ("weight", "bias"))

    def dead(x):
        x[3] = 0
        return x

    def broken(x):
        x[0, 1] = math.nan
        return x

    change(here / "small", **{hidden: dead, bias: dead, MATRIX: broken})
    groups = health(page(weights_view="health", tensor=hidden))
    (broken_one,) = groups["NaN values"]["items"]
    assert (broken_one["name"], broken_one["sentence"]) == (MATRIX, "values that are NaN: 1")
    (unit,) = [item for item in groups["Dead units"]["items"] if item["name"] == hidden]
    assert unit["sentence"].startswith("units: 3 (")
    assert unit["chosen"]
    assert groups["Infinite values"]["items"] == []


def test_a_table_of_tokens_that_are_ids_is_read_while_a_model_of_words_is_shown(here, monkeypatch):
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(here / "models"))
    write_small(here / "words")
    (here / "models").mkdir()
    torch.save({"model": GPT().state_dict(), "model_args": {"n_head": 3}}, here / "models" / "ids.pt")
    app = page(model="words", checkpoint="ids.pt", tensor="model.transformer.wte.weight", source="The cat sees.")
    header, (_places, cosines) = sent(app, "w_near")
    assert header["note"] == "0 · #0"
    assert len(cosines) == len(header["x"]["labels"])
