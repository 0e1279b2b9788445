"""Gradients of the text: torch's own on a deep copy; the pin's beside; or why there are none."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.analysis.residual import blocks, states
from tests.app_reading import opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.small import looking
from viz.pages.residual import gradients
from viz.pages.residual.gradients import gradients_of

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


def series(chart):
    return {each.name: each.ys for each in chart.series}


def backward(model, source=SOURCE, target=TARGET):
    """A deep copy after torch's own backward pass of the mean loss of the typed target."""
    network = copy.deepcopy(model.network).requires_grad_(True)
    ids = model.source_tokens(source).ids, model.target_tokens(target).ids
    labels = torch.tensor([*ids[1][1:], model.target_tokenizer.end])
    loss = F.cross_entropy(network(*(torch.tensor([each]) for each in ids))[0], labels)
    loss.backward()
    return network.requires_grad_(False), float(loss.detach())


def length(tensors):
    return float(torch.cat([each.flatten() for each in tensors]).norm())


def test_blocks_and_heads_have_the_gradients_of_the_typed_target(small):
    session = looking(small, SOURCE, TARGET)
    inputs, sizes = session.inputs, gradients_of(session)
    network, loss = backward(small)
    blocks_of = series(gradients.block_chart(inputs, "decoder", sizes, "gradient"))
    for name, part in (("self-att.", "self_attention"), ("cross", "cross_attention"), ("FFN", "feed_forward")):
        expected = [
            length(weight.grad for weight in getattr(layer, part).parameters()) for layer in network.decoder.layers
        ]
        assert blocks_of[name].tolist() == pytest.approx(expected, rel=1e-4)
    assert f"{loss:.3g} nats" in gradients.loss_sentence(sizes)
    panels = gradients.head_panels(inputs, "decoder", sizes, "gradient", difference=False).panels
    assert [each.name for each in panels][3:5] == ["Decoder Wᴼ", "Cross W_Q"]
    weight = network.decoder.layers[1].cross_attention.output.weight
    expected = [float(weight.grad[:, at : at + 8].norm()) for at in (0, 8)]
    assert panels[7].values[1].tolist() == pytest.approx(expected, 1e-4)
    weights = network.decoder.layers[0].feed_forward
    expected = length(weight.grad for weight in weights.parameters()) / length(weights.parameters())
    relative = series(gradients.block_chart(inputs, "decoder", sizes, "relative"))
    assert float(relative["FFN"][0]) == pytest.approx(expected, rel=1e-4)


def test_the_stream_is_shown_from_the_first_state_to_the_last(small):
    session = looking(small, SOURCE, TARGET)
    inputs, sizes = session.inputs, gradients_of(session)
    names = states(blocks(small.config, "encoder"))
    figure = gradients.stream_map(inputs, "encoder", sizes, "length", (3, 2))
    values = figure.values.now
    assert np.allclose(values, [sizes.own.stream[name] for name in names], rtol=1e-5)
    assert (figure.chosen, figure.column) == (3, 2)
    assert figure.visible.all()
    figure = gradients.stream_map(inputs, "encoder", sizes, "growth", (3, 2))
    assert np.allclose(figure.values.now, np.log10(values / values[-1].mean()), atol=1e-5)
    assert figure.scale.low == -figure.scale.high


def test_a_state_that_no_loss_depends_on_is_hatched(tmp_path):
    session = looking(write(tmp_path / "one", "decoder-only"), SOURCE)
    visible = gradients.stream_map(session.inputs, "decoder", gradients_of(session), "length", (0, 0)).visible
    assert not visible[:, -1].any()
    assert visible[:, :-1].all()


def test_gradients_are_compared_with_those_of_the_pinned_text(small):
    session = looking(small, "The cat hears the dog.", TARGET, pinned=(small, SOURCE, TARGET))
    inputs, sizes = session.inputs, gradients_of(session)
    own, kept, name = sizes.own, sizes.pinned, "encoder.embedding.output"
    expected = [
        float(own.stream[name][at] - kept.stream[name][place]) if place >= 0 else np.nan
        for at, place in enumerate(session.comparison.source.places)
    ]
    figure = gradients.stream_map(inputs, "encoder", sizes, "length", (0, 0))
    assert np.allclose(figure.values.difference[0], expected, atol=1e-6, equal_nan=True)
    pinned = series(gradients.block_chart(inputs, "encoder", sizes, "gradient"))["FFN, pinned"]
    expected = [kept.parts["encoder", layer, "feed_forward"].gradient for layer in (0, 1)]
    assert pinned.tolist() == pytest.approx(expected, rel=1e-5)
    panel = gradients.head_panels(inputs, "encoder", sizes, "gradient", difference=True).panels[0]
    assert np.allclose(panel.values, own.heads["encoder"][0, 0] - kept.heads["encoder"][0, 0], atol=1e-6)
    assert panel.scale.difference


def test_what_takes_long_waits_to_be_asked_for(small, monkeypatch):
    monkeypatch.setattr(gradients, "LIGHT", 0)
    app = sound(opened("residual", source=SOURCE, target=TARGET, residual_view="gradients"))
    (button,) = [each for each in app.button if each.key == "gradients_ask"]
    assert "kB of memory" in button.label
    assert "gradients" not in app.session_state["session"].memory
    button.click().run()
    assert sent(sound(app), "residual_map")
    type_in(app, "source", "The cat hears the dog.")
    assert [each for each in sound(app).button if each.key == "gradients_ask"]


def test_what_does_not_fit_is_refused_with_a_sentence(small, monkeypatch):
    monkeypatch.setattr("model.analysis.gradients.available", lambda device: 1000)
    lack = gradients_of(looking(small, SOURCE, TARGET))
    assert "the gradients need about" in lack.sentence
    assert "shorter text" in lack.sentence


@pytest.mark.parametrize(
    ("predicts", "ours", "reason"), [(False, True, "predicts nothing"), (True, False, "transformers' own code")]
)
def test_a_model_without_logits_or_of_others_code_has_none(predicts, ours, reason):
    assert reason in gradients.refusal(SimpleNamespace(predicts=predicts, network=SimpleNamespace(ours=ours)))
