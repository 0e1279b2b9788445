"""Other positions and another order applied to the loaded model: what every page, loss and attention make of it."""

from __future__ import annotations

import numpy as np
import torch

from model.inference.copies import vary
from tests.app_reading import labels, model_list, sent
from tests.viz.pages.positions.positions_page import TEXT, one, page, sound
from tests.viz.small import looking, write_small
from viz.pages.positions.applied import changes_map, compare, losses_chart, verdicts
from viz.pages.positions.order import cosine_map, differences_chart, order_of, reversals
from viz.pages.positions.order import verdicts as order_verdicts


def test_other_positions_are_applied_to_the_model_on_every_page(small):
    app = page("applied")
    trained = app.session_state["session"].trace
    app.segmented_control(key="applied_type").set_value("rotary").run()
    session = sound(app).session_state["session"]
    assert app.query_params["position"] == "rotary"
    source = small.source_tokens(TEXT)
    expected = vary(small, position="rotary").trace_tokens(source, small.trace_generated(source)[1])
    assert torch.equal(session.trace["output.logits"], expected["output.logits"])
    model, trace = session.model, session.trace
    app.text_input(key="applied_base").set_value("50").run()
    assert sound(app).session_state["session"].model.config.position_base == 50
    app.text_input(key="applied_base").set_value("10000").run()
    assert "position_base" not in app.query_params
    app.switch_page("viz/pages/attention/page.py").run()
    assert session.model.config == model.config
    assert any("positions: rotary, base 10,000, up to 32 tokens" in each.proto.body for each in app.get("html"))
    kept = session.trace
    app.run()
    assert session.trace is kept  # no pass for what was computed
    app.button(key="restore").click().run()
    assert "position" not in app.query_params
    assert session.model.config == small.config
    assert torch.equal(session.trace["output.logits"], trained["output.logits"])
    assert trace is not session.trace


def test_loss_and_attention_are_compared_with_the_trained_model(small):
    now, words = vary(small, position="none"), small.target_tokenizer.label(6) * 3
    inputs = looking(now, TEXT, words, pinned=(small, TEXT, words)).inputs
    both, source, target = compare(inputs, small), inputs.source, inputs.target
    asked = torch.tensor([*target.ids[1:], small.target_tokenizer.end])
    expected = [
        torch.nn.functional.cross_entropy(model.trace_tokens(source, target)["output.logits"], asked, reduction="none")
        for model in (now, small)
    ]
    figure = losses_chart(inputs, both)
    assert figure.x.labels == [*target.labels, "</s>"]
    assert [each.name for each in figure.series] == ["now", "as trained", "pinned"]
    assert figure.series[0].xs.tolist() == [1, 2, 3, 4]
    for series, losses in zip(figure.series, [*expected, expected[1]], strict=True):
        assert np.allclose(series.ys, losses, atol=1e-5)
    first, second = (f"{float(each.mean()):.3g}" for each in expected[::-1])
    sentence = "\n".join(verdicts(both))
    assert f"as trained: loss {first} nats per token" in sentence
    assert f"with these positions: {second}, " in sentence
    figure = changes_map(inputs, both)
    weights = [model.trace_tokens(source, target).attention("cross")[1] for model in (now, small)]
    distance = (weights[0] - weights[1]).abs().sum(-1).mean(-1) / 2
    assert figure.rows.labels == ["Encoder 1", "Encoder 2", "Decoder 1", "Decoder 2", "Cross 1", "Cross 2"]
    assert np.allclose(figure.values[5], distance, atol=1e-6)


def test_the_trained_model_can_be_pinned(small):
    app = page("applied", target="x", position="none")
    app.button(key="pin_trained").click().run()
    session = sound(app).session_state["session"]
    assert (session.pin.name, session.pin.text) == ("small", TEXT)
    expected = small.trace_tokens(session.source, session.target)["output.logits"]
    assert torch.equal(session.pin.trace["output.logits"], expected)


def test_more_tokens_than_were_trained_are_read(small):
    text = "The cat sees the dog. " * 6
    app = page("applied", source=text, target="x")
    assert len(labels(app, "source")) == 32
    app.text_input(key="applied_length").set_value("400").run()
    assert len(labels(sound(app), "source")) == len(small.source_tokenizer.encode(text)) + 1
    app.text_input(key="applied_length").set_value("5000").run()
    assert any("5000 is out of range: 1 to 4096." in each.proto.body for each in app.get("html"))


def test_a_text_without_a_loss_is_told_and_no_nan_is_shown(here):
    goes_on, hides = (one(here / kind, kind, position="rotary") for kind in ("decoder-only", "encoder-only"))

    def sentences(model, text: str, length: int) -> str:
        return "\n".join(verdicts(compare(looking(vary(model, max_length=length), text).inputs, model)))

    assert "No token of this text has a loss" in sentences(goes_on, "", 32)
    assert "nan" not in sentences(goes_on, "cat " * 99, 33)  # the token beyond predicts nothing
    assert "nan" not in (told := sentences(hides, "The cat. " * 99, 99))  # hidden are the first 64 alone
    assert "loss" in told


def test_a_wish_is_for_one_model_and_an_impossible_one_is_refused(small, here):
    write_small(here / "zother", seed=2)
    app = page("applied", model="small", position="alibi")
    model_list(app).set_value("zother").run()
    assert "position" not in app.query_params
    assert app.session_state["session"].model.config.position == "sinusoidal"
    app = page("tokens", model="small", position="learned", max_length="12x", position_base="1e3")
    assert any("small has no learned positions" in each.proto.body for each in app.get("html"))
    assert app.session_state["session"].model.config == small.config


def test_without_positions_the_reversed_text_has_the_same_states(small):
    inputs = looking(small, TEXT).inputs
    order = order_of(inputs.trace, inputs.source)
    runs = reversals(small, small, inputs.source, order)
    assert "so the outputs are a permutation of each other" in "".join(order_verdicts(small, *runs))
    chart = differences_chart(inputs, order, runs, None)
    off, on = (each.ys for each in chart.series)
    assert off.max() < 1e-4
    assert on.max() > 1e-3
    cosines, others = (cosine_map(inputs, order, run, None, on=False).values.now for run in runs)
    count = len(cosines) - 1  # </s> stays where it is
    assert np.allclose([cosines[place, count - 1 - place] for place in range(count)], 1, atol=1e-5)
    assert not np.allclose(others, cosines, atol=1e-3)
    assert chart.x.labels == small.source_tokens(TEXT).labels


def test_the_bar_and_the_losses_are_of_one_target_that_the_trained_model_wrote(small):
    app = page("applied", position="none")
    model = app.session_state["session"].model
    written = small.trace_generated(small.source_tokens(TEXT))[1]
    assert [token["label"] for token in sent(app, "tokens")[0]["target"]] == written.labels
    assert sent(app, "applied_losses")[0]["x"]["labels"][: len(written.labels)] == written.labels
    assert "as it was" in sent(app, "tokens")[0]["notes"]["target"]
    translate = next(each for each in app.button if each.label == "Translate")
    translate.click().run()  # the changed model writes, as if it were typed
    session = sound(app).session_state["session"]
    assert session.target.labels[1:] == model.target_tokens(model.generate(TEXT).text).labels[1:]
    assert sent(app, "tokens")[0]["notes"]["target"] == ""
