"""The laboratory's softmax and scaling: over a temperature, with the factor and without; both verdicts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.experiments.engines.scaling import BothWays, Thresholds, thresholds
from tests.app_reading import sent, sound
from tests.viz.pages.lab.lab_page import looked_at, page, said
from viz.pages.lab import scaling, softmax, worked_example


def test_a_softmax_with_a_temperature(small):
    app = page("softmax")
    assert "It is a distribution: 3 weights" in said(app)
    assert "At T = 1 it is not saturated: the largest weight is 0.982" in said(app)
    assert "Scores times 1.15: the largest weight exceeds 0.99." in said(app)
    app.select_slider(key="softmax_t").set_value(0.1).run()
    assert "is saturated" in said(sound(app))
    assert app.query_params["softmax_t"] in ("0.1", ["0.1"])
    header, arrays = sent(app, "softmax_bars")
    assert [each["name"] for each in header["series"]] == ["at T = 1", "at T = 0.1"]
    scores = np.array([4.0, 16.0, 12.0])
    assert np.allclose(arrays[3], np.exp(10 * (scores - 16)) / np.exp(10 * (scores - 16)).sum(), atol=1e-6)
    app.segmented_control(key="softmax_query").set_value("1").run()
    assert "The 2 largest scores are equal: however large they are, each gets 50.0\u00a0%" in said(sound(app))


def test_a_softmax_of_the_chosen_head(small):
    with looked_at(small, layer=1, head=1, query=3) as session:
        subject = softmax.of_head("encoder")
        bars, curves = (view.drawn for view in softmax.findings(subject, 2.5).rows[0])
    trace = session.trace
    scores = trace["encoder.layers.1.self_attention.scores"][1, 3].double()
    assert bars.x.labels == trace.source_tokens
    assert np.allclose(bars.series[0].ys, scores.softmax(dim=-1), atol=1e-6)
    assert bars.series[1].name == "at T = 2.5"
    assert curves.marks[1]["x"] == pytest.approx(8**0.5)
    expected = [float((scores / float(t)).softmax(dim=-1).max()) for t in curves.series[0].xs]
    assert np.allclose(curves.series[0].ys, expected, atol=1e-5)
    page("softmax", softmax_from="head", softmax_t="</script>", attention="decoder", query="0")  # sees itself alone


def test_a_softmax_that_is_none_is_said_so():
    subject = softmax.Subject(torch.tensor([float("nan"), 1.0]), ["a", "b"], 4, "x")
    assert "It is no distribution" in softmax.verdicts(subject, 1.0, Thresholds(1.0, None, None))[0]


def test_random_vectors_are_the_card_which_begins_of_itself(small):
    app = page("scaling", scaling_keys="8")
    job = app.session_state["scaling_run"]
    assert job.wait(60.0)
    sound(app.run())
    assert job is app.session_state["scaling_run"]
    assert job.settings[0] == (("keys", 8), ("largest", 1024))
    shown = job.result
    header, arrays = sent(app, "statement_scaled-scores_1")
    assert header["x"]["log"]
    assert np.allclose(arrays[1], shown.figures[1].curves[0].ys, atol=1e-5)
    written = " ".join(each.value for kind in (app.markdown, app.caption) for each in kind)
    assert f"-badge[{shown.verdict}]" in written
    assert "**Rule:** It holds at least in part only if “derivative of the softmax" in written
    assert written.count("**More exactly:**") == 1
    app.text_input(key="scaling_keys").set_value("none").run()
    assert any("is not a number" in each.proto.body for each in sound(app).get("html"))


def test_what_a_model_would_lose_can_come_out_either_way():
    def verdict(*derivatives: float) -> str:
        both = torch.tensor(derivatives)[:, None, None]
        return scaling.model_verdict(BothWays(torch.ones(2, 1, 1), both, 0.25, 16), None)

    assert "less than a tenth" in verdict(0.01, 1.0)
    assert "a tenth at least" in verdict(0.5, 1.0)
    assert "nothing to lose" in verdict(0.0, 0.0)


def test_scores_that_hardly_differ_saturate_at_no_factor():
    subject = softmax.Subject(torch.tensor([1.0, 1.0 + 1e-12], dtype=torch.float64), ["a", "b"], 4, "x")
    assert "Not even times 10⁹" in softmax.verdicts(subject, 1.0, thresholds(subject.scores))[-1]


def test_the_models_heads_with_the_factor_and_without(small):
    with looked_at(small) as session:
        found = scaling.of_model(session, "encoder")
    panels = found.rows[0][0].drawn.panels
    assert [panel.name for panel in panels] == ["without 1/√d_k", "with 1/√d_k"]
    scores = torch.stack([session.trace[f"encoder.layers.{layer}.self_attention.scores"] for layer in (0, 1)]).double()
    for panel, weights in zip(panels, (scores.softmax(-1), session.trace.attention("encoder").double()), strict=True):
        assert np.allclose(panel.values, torch.special.entr(weights).sum(-1).mean(-1), atol=1e-5)
    assert "d_k = 8, computed with the factor 0.354" in found.verdicts[0]


def test_tables_hold_what_was_computed(small):
    app = page("scaling")
    assert app.session_state["scaling_run"].wait(60.0)
    app.session_state["scaling_data"] = True
    frames = [each.value for each in sound(app.run()).dataframe]
    assert any(len(frame) > 10 * 12 and "‖∂w/∂s‖" not in frame.columns for frame in frames)
    with looked_at(small):
        assert len(worked_example.findings(False, 0.5).numbers()) == 9 * 13
