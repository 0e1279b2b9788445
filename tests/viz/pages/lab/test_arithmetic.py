"""The laboratory's worked example and vectors: what is typed and dragged gives the numbers counted otherwise."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps
from model.experiments.engines.similarity import Agreement
from model.experiments.engines.worked_example import DOCUMENT, take_steps, texts_of
from tests.app_reading import sent, sound, type_in
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.pretended_device import NAME, pretending
from tests.test_app_kinds import write
from tests.viz.pages.lab.lab_page import TEXT, looked_at, page, said
from tests.viz.small import write_small
from viz.pages.lab import scaling, similarity, worked_example
from viz.pages.lab.worked_example import Part, verdicts


def matrices(app) -> dict[str, np.ndarray]:
    """What is computed in the worked example, by its name."""
    header, arrays = sent(app, "example_matrices")
    named = [each for line in header["lines"] for each in line["matrices"] if each["first"] < 0]
    return {each["name"]: array for each, array in zip(named, arrays, strict=True)}


def test_it_opens_with_the_worked_example_and_its_true_weights(small):
    app = page("example")
    text = said(app)
    assert "the true weights are 0.0634, 0.468, 0.468, its output (1.94, 6.68, 1.6)" in text
    assert "rounded to multiples of 0.5: 0, 0.5, 0.5, (2, 7, 1.5)" in text
    assert "still sum to 1" in text
    found = matrices(app)
    assert np.allclose(found["Outputs"][0], [1.9366, 6.6831, 1.5951], atol=1e-4)
    assert np.allclose(found["Error"], found["Rounded outputs"] - found["Outputs"], atol=1e-6)
    app.segmented_control(key="example_round").set_value("tenth").run()
    assert "Rounded, the weights of input 1 sum to 1.1" in said(sound(app))
    app.segmented_control(key="example_scale").set_value("on").run()
    assert "the true weights are 0.136, 0.432, 0.432" in said(sound(app))
    assert app.query_params["example_scale"] in ("on", ["on"])
    assert np.allclose(matrices(app)["Weights"][0], [0.13613, 0.43194, 0.43194], atol=1e-5)


def test_what_is_typed_is_computed_kept_in_the_address_and_taken_back(small):
    typed = texts_of(DOCUMENT)
    typed[0] = "3"
    app = page("example", example=",".join(typed))
    changed = dict(DOCUMENT, X=((3.0, 0.0, 1.0, 0.0), *DOCUMENT["X"][1:]))
    steps = take_steps(changed, scaled=False)
    assert np.allclose(matrices(app)["Outputs"], steps.outputs, atol=1e-5)
    app.button(key="example_restore").click().run()
    assert "example" not in sound(app).query_params
    assert np.allclose(matrices(app)["Outputs"][0], [1.9366, 6.6831, 1.5951], atol=1e-4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "W_Q, row 1, column 2 is empty: write a number"),
        ("</script>", "“</script>” is not a number"),
        ("inf", "“inf” is too large: write a number from −1,000,000 to 1,000,000."),
    ],
)
def test_a_bad_cell_is_a_sentence_and_the_last_numbers_stay(small, text, sentence):
    with looked_at(small) as session:
        (before,) = worked_example.findings(False, 0.5).rows[0]
        session.memory[Part.EXAMPLE] = [text if place == 13 else each for place, each in enumerate(texts_of(DOCUMENT))]
        wrong = worked_example.findings(False, 0.5)
    (now,) = wrong.rows[0]
    assert sentence in wrong.verdicts[0]
    assert (now.drawn.wrong, now.drawn.sentence_wrong) == (13, wrong.verdicts[0])
    assert now.table().equals(before.table())


def test_an_address_that_is_no_example_is_the_tutorials(small):
    assert "(2, 7, 1.5)" in said(page("example", example="1,2,</script>"))


def test_the_rounding_may_change_nothing():
    alike = dict(DOCUMENT, W_Q=((0.0, 0.0, 0.0),) * 4, X=((1.0, 0.0, 0.0, 0.0),) * 3)
    steps = take_steps(alike, scaled=False)  # weights 1/3: no multiple of 0.5
    assert "moves the outputs" in "\n".join(verdicts(steps, steps, 0.5, False))
    sure = dict(DOCUMENT, W_V=((0.0, 0.0, 0.0),) * 4)
    steps = take_steps(sure, scaled=False)
    assert "changes no output" in "\n".join(verdicts(steps, steps, 0.5, False))


def test_the_claim_fails_at_the_counter_example_and_holds_elsewhere(small):
    app = page("similarity", vectors="2,0,1,0,0,1")
    assert "Here the claim holds: a has the larger dot product and the larger cosine." in said(app)
    app.button(key="similarity_restore").click().run()
    assert "Here the claim fails: b has the larger dot product, a the larger cosine." in said(sound(app))
    header, _arrays = sent(app, "similarity_plane")
    assert [each["name"] for each in header["vectors"]] == ["q", "a", "b"]
    for places, sentence in (
        (((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)), "has no direction"),
        (((1.0, 0.0), (1.0, 0.0), (2.0, 0.0)), "the same cosine: only their lengths"),
        (((1.0, 0.0), (1.0, 1.0), (1.0, 2.0)), "the same dot product, but not the same cosine"),
        (((1.0, 0.0), (1.0, 1.0), (1.0, -1.0)), "neither is preferred"),
    ):
        assert sentence in similarity.plane_verdict(places)
    assert similarity.read("1,2,nan,4,5,6".split(",")) is None


def test_the_models_keys_are_ranked_both_ways(small):
    with looked_at(small, layer=1, head=1, query=2) as session:
        found = similarity.model_findings("encoder")
    (heads,), (queries,), (scatter,) = ([each.drawn for each in row] for row in found.rows)
    trace = session.trace
    query = trace["encoder.layers.1.self_attention.query"][1, 2].double()
    key = trace["encoder.layers.1.self_attention.key"][1].double()
    (dots,) = scatter.series
    assert dots.labels == queries.x.labels == trace.source_tokens
    assert np.allclose(dots.ys, key @ query, atol=1e-5)
    assert np.allclose(dots.xs, torch.nn.functional.cosine_similarity(key, query[None]), atol=1e-6)
    assert [panel.name for panel in heads.panels] == ["same best key", "rank correlation"]
    assert 0 <= heads.panels[0].values.min() <= heads.panels[0].values.max() <= 1
    assert f"over {4 * len(trace.source_tokens):,} queries of all heads" in found.verdicts[0]


def test_the_pin_stands_beside(small):
    with looked_at(small, "The dog sees the cat.", pinned=(small, TEXT, "")) as session:
        found = similarity.model_findings("encoder")
        assert "Pinned:" in scaling.of_model(session, "encoder").verdicts[0]
    assert "In the pinned trace:" in found.verdicts[0]
    assert [series.name for series in found.rows[2][0].drawn.series] == ["keys", "pinned"]


def test_the_models_verdict_can_come_out_either_way():
    def verdict(same: list[float]) -> str:
        found = torch.tensor(same).view(1, 1, -1)
        return similarity.model_verdict(Agreement(found, found, torch.arange(len(same))), None)

    assert "never choose differently" in verdict([1.0, 1.0])
    assert "not always" in verdict([1.0, 1.0, 0.0])
    assert "lengths of the keys decide" in verdict([0.0, 0.0, 1.0])
    assert "nothing to rank" in verdict([float("nan")])


def test_what_a_bridged_model_does_not_show_is_said(here):
    shutil.copytree(theirs("gptj")[1], here / "gptj")
    write_tokenizer(here / "gptj")
    for claim in ("similarity", "scaling"):
        app = page(claim)
        assert any(info.value.startswith("This model computes its attention by code") for info in app.info), claim
    app = page("softmax", softmax_from="head")
    assert any(info.value.startswith("This model computes its attention by code") for info in app.info)


def test_the_code_that_is_shown_is_the_laboratorys_own(here):
    shutil.copytree(theirs("gptj")[1], here / "gptj")
    write_tokenizer(here / "gptj")
    app = page("example")
    app.session_state["example_explanation"] = True
    (code,) = sound(app.run()).code
    assert "def take_steps" in code.value
    assert "GPTJ" not in code.value


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack(here, kind):
    write(here / "one", kind)
    for claim in ("similarity", "softmax", "scaling"):
        app = page(claim, softmax_from="head")
        assert not app.info
        assert "nan" not in said(app)


@pytest.mark.parametrize("claim", ["similarity", "softmax", "scaling"])
def test_a_device_without_float64(here, monkeypatch, claim):
    monkeypatch.setenv("VITRINE_DEVICE", NAME)
    write_small(here / "small")
    with pretending(float64=False):
        app = page(claim, softmax_from="head", attention="encoder", query="0")
        assert app.session_state["session"].model.device.type == NAME
        app.session_state["session"].keep()
        assert not sound(type_in(app, "source", "The dog </script>🙂مرحبا\x00 sees")).info


def test_maps_are_those_of_the_kind_that_is_chosen(small):
    app = page("similarity", attention="decoder")
    header, _arrays = sent(app, "similarity_queries")
    assert len(header["x"]["labels"]) == Maps(app.session_state["session"].trace, "decoder").queries
