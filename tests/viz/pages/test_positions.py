"""Tokens and positions: what the page sends to the browser, and what it does to the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.checkpoints import open_checkpoint, save_checkpoint
from model.text import MASK, train_characters
from model.variation import vary
from tests.app_reading import labels, opened
from tests.model.examples import one_stack
from tests.model.test_kinds import TOKENIZERS
from tests.viz.components.test_pack import unpack
from tests.viz.small import write_small

TEXT = "The cat sees the dog."
HOSTILE = ["", "</script><script>alert(1)</script>🙂مرحبا\x00" + 99 * "x"]
EXPERIMENTS = ["curves", "wavelengths", "shift", "any_length", "misread", "learned", "relative"]
PARTS = ["tokens", "laboratory", "applied", "order"]


@pytest.fixture
def small(here):
    return open_checkpoint(write_small(here / "small"))


def page(part: str, **address: str):
    return sound(opened("positions", **({"source": TEXT, "part": part} | address)))


def sound(app):
    assert not app.exception
    assert not app.error
    assert not app.warning
    return app


def views(app) -> dict[str, tuple[dict, list]]:
    """The heatmaps and charts that were sent, by the name of what they save."""
    protos = [each.proto for each in app.get("bidi_component")]
    sent = [unpack(each.bytes) for each in protos if each.component_name in ("vitrine_heatmap", "vitrine_chart")]
    return {header["file"]: (header, arrays) for header, arrays in sent}


def said(app) -> str:
    return "\n".join(each.value for each in app.text)


def one(folder, kind, **options):
    made = TOKENIZERS[kind]
    save_checkpoint(folder, one_stack(kind, vocabulary=len(made), **options), (made, made))
    return open_checkpoint(folder)


def test_tokens_are_shown_with_their_ids_vectors_and_norms(small):
    sent = views(page("tokens", query="3"))
    trace, tokens = small.trace(TEXT), small.source_tokens(TEXT)
    header, (values, _visible) = sent["embedding-source-tokens"]
    assert header["rows"]["labels"] == [f"{n} {label}" for n, label in zip(tokens.ids, tokens.labels, strict=True)]
    assert np.allclose(values, trace["encoder.embedding.tokens"])
    assert header["chosen"] == 3
    header, arrays = sent["norms-source"]
    norms = dict(zip([each["name"] for each in header["series"]], arrays[1::2], strict=True))
    plain = small.model.encoder.embedding.tokens.weight[tokens.ids].norm(dim=-1).numpy()
    assert np.allclose(norms["token embedding E"], plain)
    assert np.allclose(norms["E · √d_model"], 4 * plain, rtol=1e-5)
    assert np.allclose(norms["E / √d_model"], plain / 4, rtol=1e-5)
    assert np.allclose(norms["position"], 8**0.5, rtol=1e-5)  # 8 pairs of a sine and a cosine
    assert np.allclose(norms["their sum"], trace["encoder.embedding.output"].norm(dim=-1), rtol=1e-5)
    header, (_places, cosines) = sent[f"nearest-{tokens.ids[3]}"]
    weight = small.model.encoder.embedding.tokens.weight
    expected = torch.nn.functional.cosine_similarity(weight, weight[tokens.ids[3]], dim=-1)
    assert np.allclose(cosines, expected.sort(descending=True).values[1:13], atol=1e-6)
    assert header["x"]["labels"][0] == small.source_tokenizer.label(int(expected.argsort(descending=True)[1]))


def test_the_plane_is_that_of_the_chosen_quantity(small):
    app = page("tokens")
    for quantity in ("positions", "output"):
        app.segmented_control(key="vectors").set_value(quantity).run()
        header, (xs, ys) = views(sound(app))[f"plane-source-{quantity}"]
        x = small.trace(TEXT)[f"encoder.embedding.{quantity}"].double().numpy()
        _left, values, right = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        assert np.allclose(np.abs(xs), np.abs((x - x.mean(axis=0)) @ right[0]), atol=1e-4)
        assert len(ys) == len(x)
        share = 100 * values[0] ** 2 / (values**2).sum()
        assert f"{share:.3g} % and" in header["sentence"]


def test_wide_embeddings_are_grouped_or_cut_and_it_is_said(here):
    write_small(here / "wide", d_model=520)
    header, (values, _visible) = views(page("tokens"))["embedding-source-tokens"]
    assert values.shape[1] == 174
    assert header["note"] == "means of 3 channels"
    header, (values, _visible) = views(page("tokens", channels="first"))["embedding-source-tokens"]
    assert values.shape[1] == 256
    assert header["note"] == "channels 0 to 255 of 520"


def test_a_pin_is_shown_as_difference_and_beside(small):
    app = page("tokens")
    bench = app.session_state["workbench"]
    bench.keep()
    bench.differing = True
    app.text_input(key="source").set_value("The cat sees the bird.").run()
    sent = views(sound(app))
    header, (values, _visible) = sent["embedding-source-tokens"]
    assert header["scale"]["difference"] is True
    expected = bench.comparison.difference("encoder.embedding.tokens").numpy()
    assert np.array_equal(values, expected, equal_nan=True)
    assert np.isnan(values).any()
    assert [each["name"] for each in sent["norms-source"][0]["series"]][-1] == "their sum · pinned"
    assert [each["name"] for each in sent["plane-source-tokens"][0]["series"]][-1] == "pinned"


def test_a_pin_of_another_vocabulary_of_the_same_size_is_not_compared(small):
    app = page("tokens")
    bench = app.session_state["workbench"]
    bench.keep()
    assert [each["name"] for each in series(app.run(), "nearest")] == ["cosine", "cosine · pinned"]
    others = train_characters(["".join(chr(0x5000 + place) for place in range(len(small.source_tokenizer) - 4))])
    assert len(others) == len(small.source_tokenizer)
    stranger = type(small)("stranger", small.model, (others, small.target_tokenizer), {})
    bench.pin = replace(bench.pin, lens=stranger)
    assert [each["name"] for each in series(app.run(), "nearest")] == ["cosine"]
    app.segmented_control(key="part").set_value("order").run()
    assert "pinned" not in [each["name"] for each in series(app, "order")]


def series(app, name: str) -> list[dict]:
    headers = [header for header, _arrays in views(sound(app)).values()]
    (found,) = [header["series"] for header in headers if header["file"].startswith(name) and "series" in header]
    return found


def test_the_laboratory_follows_its_fields_and_explains_what_cannot_be(small):
    app = page("laboratory", experiment="wavelengths", bases="10000")
    assert "base 10,000: dimension 0 repeats after 6.28 positions" in said(app)
    app.text_input(key="bases").set_value("100, 50").run()
    assert "With base 50 instead of 100, 14 of 16 dimensions have a shorter wavelength." in said(sound(app))
    app.select_slider(key="bases_slider").set_value(500.0).run()
    assert app.text_input(key="bases").value == "500, 50"
    assert "base 500" in said(sound(app))
    app.text_input(key="bases").set_value("0, <b>").run()
    assert not app.exception
    assert "base 500" not in said(app)
    assert any("0 is out of range" in each.proto.body for each in app.get("html"))


def test_every_experiment_has_its_figures_table_and_explanation(here):
    write_small(here / "small", position="learned")
    app = page("laboratory")
    for key in ("laboratory_explanation", "laboratory_data"):
        app.session_state[key] = True
    for experiment in EXPERIMENTS:
        app.segmented_control(key="experiment").set_value(experiment).run()
        sound(app)
        assert len(app.get("plotly_chart")) == (3 if experiment == "relative" else 2), experiment
        assert said(app)
        assert len(app.dataframe[0].value) > 10
        assert any("def sinusoidal" in each.value for each in app.code)


def test_other_positions_are_applied_to_the_model_on_every_page(small):
    app = page("applied")
    trained = app.session_state["workbench"].trace
    app.segmented_control(key="applied_type").set_value("rotary").run()
    bench = sound(app).session_state["workbench"]
    assert app.query_params["position"] == "rotary"
    expected = vary(small, position="rotary").trace(TEXT)
    assert torch.equal(bench.trace["output.logits"], expected["output.logits"])
    lens, trace = bench.lens, bench.trace
    app.text_input(key="applied_base").set_value("50").run()
    assert sound(app).session_state["workbench"].lens.config.position_base == 50
    app.text_input(key="applied_base").set_value("10000").run()
    assert "position_base" not in app.query_params
    app.switch_page("viz/pages/attention.py").run()
    assert bench.lens.config == lens.config
    assert any("positions: rotary, base 10,000, up to 32 tokens" in each.proto.body for each in app.get("html"))
    kept = bench.trace
    app.run()
    assert bench.trace is kept  # no pass for what was computed
    app.button(key="restore").click().run()
    assert "position" not in app.query_params
    assert bench.lens.config == small.config
    assert torch.equal(bench.trace["output.logits"], trained["output.logits"])
    assert trace is not bench.trace


def test_loss_and_attention_are_compared_with_the_trained_model_and_it_can_be_pinned(small):
    app = page("applied", target=small.target_tokenizer.label(6) * 3, position="none")
    now, before = vary(small, position="none"), small
    source, target = small.source_tokens(TEXT), small.target_tokens(small.target_tokenizer.label(6) * 3)
    asked = torch.tensor([*target.ids[1:], small.target_tokenizer.end])
    expected = [
        torch.nn.functional.cross_entropy(lens.trace_tokens(source, target)["output.logits"], asked, reduction="none")
        for lens in (now, before)
    ]
    header, arrays = views(app)["loss"]
    assert header["x"]["labels"] == [*target.labels, "</s>"]
    assert [each["name"] for each in header["series"]] == ["now", "as trained"]
    assert arrays[0].tolist() == [1, 2, 3, 4]
    assert np.allclose(arrays[1], expected[0], atol=1e-5)
    assert np.allclose(arrays[3], expected[1], atol=1e-5)
    first, second = (f"{float(each.mean()):.3g}" for each in expected[::-1])
    assert f"Loss {first} → {second} nats per token" in said(app)
    header, (changes, _visible) = views(app)["attention-change"]
    weights = [lens.trace_tokens(source, target).attention("cross")[1] for lens in (now, before)]
    distance = (weights[0] - weights[1]).abs().sum(-1).mean(-1) / 2
    assert header["rows"]["labels"] == ["Encoder 1", "Encoder 2", "Decoder 1", "Decoder 2", "Cross 1", "Cross 2"]
    assert np.allclose(changes[5], distance, atol=1e-6)
    app.button(key="pin_trained").click().run()
    pin = sound(app).session_state["workbench"].pin
    assert (pin.model, pin.text) == ("small", TEXT)
    assert torch.equal(pin.trace["output.logits"], small.trace_tokens(source, target)["output.logits"])
    header, arrays = views(app)["loss"]
    assert header["series"][-1]["name"] == "pinned"
    assert np.allclose(arrays[-1], expected[1], atol=1e-5)


def test_more_tokens_than_were_trained_are_read(small):
    text = "The cat sees the dog. " * 6
    app = page("applied", source=text, target="x")
    assert len(labels(app, "source")) == 32
    app.text_input(key="applied_length").set_value("400").run()
    assert len(labels(sound(app), "source")) == len(small.source_tokenizer.encode(text)) + 1
    app.text_input(key="applied_length").set_value("5000").run()
    assert any("5000 is out of range: 1 to 4096." in each.proto.body for each in app.get("html"))


def test_a_text_without_a_loss_is_told_and_no_nan_is_shown(here):
    one(here / "goes-on", "decoder-only", position="rotary")
    one(here / "hides", "encoder-only", position="rotary")
    assert "No token of this text has a loss" in said(page("applied", model="goes-on", source=""))
    app = page("applied", model="goes-on", source="cat " * 99, max_length="33")  # the token beyond predicts nothing
    assert "nan" not in said(app)
    app = page("applied", model="hides", source="The cat. " * 99, max_length="99")  # hidden are the first 64 alone
    assert "Loss" in said(app)
    assert "nan" not in said(app)


def test_a_wish_is_for_one_model_and_an_impossible_one_is_refused(small, here):
    write_small(here / "zother", seed=2)
    app = page("applied", model="small", position="alibi")
    app.selectbox(key="model").set_value("zother").run()
    assert "position" not in app.query_params
    assert app.session_state["workbench"].lens.config.position == "sinusoidal"
    app = page("tokens", model="small", position="learned", max_length="12x", position_base="1e3")
    assert any("small has no learned positions" in each.proto.body for each in app.get("html"))
    assert app.session_state["workbench"].lens.config == small.config


def test_without_positions_the_reversed_text_has_the_same_states(small):
    app = page("order")
    text = said(app)
    assert "so the outputs are a permutation of each other" in text
    sent = views(app)
    header, arrays = sent["order-differences"]
    assert arrays[1].max() < 1e-4
    assert arrays[3].max() > 1e-3
    _header, (cosines, _visible) = sent["order_off"]
    count = len(cosines) - 1  # </s> stays where it is
    assert np.allclose([cosines[place, count - 1 - place] for place in range(count)], 1, atol=1e-5)
    assert not np.allclose(sent["order_on"][1][0], cosines, atol=1e-3)
    assert header["x"]["labels"] == small.source_tokens(TEXT).labels


def assert_all_parts_stand(app, side: str = "source") -> None:
    for part in PARTS:
        app.segmented_control(key="part").set_value(part).run()
        sound(app)
        for text in HOSTILE:
            app.text_input(key=side).set_value(text).run()
            sound(app)


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack_have_the_page_too(here, kind):
    one(here / "one", kind, position="rotary" if kind == "decoder-only" else "learned", norm="rms")
    app = page("order", source=f"The {MASK} sees" if kind == "encoder-only" else "The cat", max_length="16")
    assert ("A causal mask" in said(app)) == (kind == "decoder-only")
    assert_all_parts_stand(app)


@pytest.mark.parametrize("options", [{"norm": "none", "residual": False, "n_encoder_layers": 1}, {"position": "alibi"}])
def test_any_config_has_the_page(here, options):
    write_small(here / "small", **options)
    assert_all_parts_stand(page("tokens", position_base="77"), "target")
