"""Tokens and positions: what the page sends to the browser, and what it does to the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.text.tokenizer import MASK
from model.text.tokenizer_training import train_characters
from tests.app_reading import type_in
from tests.viz.pages.positions.positions_page import HOSTILE, TEXT, one, page, pinned, said, series, sound, views
from tests.viz.small import write_small

EXPERIMENTS = ["curves", "wavelengths", "shift", "any_length", "misread", "learned", "relative"]
PARTS = ["tokens", "laboratory", "applied", "order"]


def test_tokens_are_shown_with_their_ids_vectors_and_norms(small):
    sent = views(page("tokens", query="3"))
    trace, tokens = small.trace(TEXT), small.source_tokens(TEXT)
    header, (values, _visible) = sent["embedding-source-tokens"]
    assert header["rows"]["labels"] == [f"{n} {label}" for n, label in zip(tokens.ids, tokens.labels, strict=True)]
    assert np.allclose(values, trace["encoder.embedding.tokens"])
    assert header["chosen"] == 3
    header, arrays = sent["norms-source"]
    norms = dict(zip([each["name"] for each in header["series"]], arrays[1::2], strict=True))
    plain = small.network.encoder.embedding.tokens.weight[tokens.ids].norm(dim=-1).numpy()
    assert np.allclose(norms["token embedding E"], plain)
    assert np.allclose(norms["E · √d_model"], 4 * plain, rtol=1e-5)
    assert np.allclose(norms["E / √d_model"], plain / 4, rtol=1e-5)
    assert np.allclose(norms["position"], 8**0.5, rtol=1e-5)  # 8 pairs of a sine and a cosine
    assert np.allclose(norms["their sum"], trace["encoder.embedding.output"].norm(dim=-1), rtol=1e-5)
    header, (_places, cosines) = sent[f"nearest-{tokens.ids[3]}"]
    weight = small.network.encoder.embedding.tokens.weight
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
        assert header["series"][0]["side"] == "source"
        assert header["series"][0]["labels"] == small.source_tokens(TEXT).labels
    drawn = [each["name"] for each in header["series"]]
    app.segmented_control(key="vectors").set_value("tokens").run()
    assert [each["name"] for each in series(sound(app), "plane")] == [*drawn, "nearest to the chosen token"]


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
    session = pinned(app)
    session.differing = True
    type_in(app, "source", "The cat sees the bird.")
    sent = views(sound(app))
    header, (values, _visible) = sent["embedding-source-tokens"]
    assert header["scale"]["difference"] is True
    expected = session.comparison.difference("encoder.embedding.tokens").numpy()
    assert np.array_equal(values, expected, equal_nan=True)
    assert np.isnan(values).any()
    assert [each["name"] for each in sent["norms-source"][0]["series"]][-1] == "their sum · pinned"
    assert [each["name"] for each in sent["plane-source-tokens"][0]["series"]][-1] == "pinned"


def test_a_pin_of_another_vocabulary_of_the_same_size_is_not_compared(small):
    app = page("tokens")
    session = pinned(app)
    assert [each["name"] for each in series(app.run(), "nearest")] == ["cosine", "cosine · pinned"]
    others = train_characters(["".join(chr(0x5000 + place) for place in range(len(small.source_tokenizer) - 4))])
    assert len(others) == len(small.source_tokenizer)
    stranger = type(small)("stranger", small.network, (others, small.target_tokenizer), {})
    session.pin = replace(session.pin, model=stranger)
    assert [each["name"] for each in series(app.run(), "nearest")] == ["cosine"]
    assert "another vocabulary" in views(app)["nearest-" + str(session.source.ids[1])][0]["sentence"]


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
        assert app.code


def assert_all_parts_stand(app, side: str = "source") -> None:
    for part in PARTS:
        app.segmented_control(key="part").set_value(part).run()
        sound(app)
        for text in HOSTILE:
            type_in(app, side, text)
            sound(app)


def test_both_texts_of_the_reversal_light_up_with_the_tokens(small):
    header, _arrays = views(page("order"))["order_off"]
    rows, columns = header["rows"], header["columns"]
    assert (rows["side"], columns["side"]) == ("source", "source")
    assert columns["labels"] == [rows["labels"][place] for place in columns["places"]]
    assert columns["places"] != sorted(columns["places"])


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
