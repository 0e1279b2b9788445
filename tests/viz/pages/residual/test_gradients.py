"""The gradients on the page: torch's own on a deep copy, of this text; the pin's beside; or why there are none."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.analysis.residual import blocks, states
from tests.app_reading import opened, sent, sound, type_in
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.test_app_kinds import write
from viz.pages.residual import gradients

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


def page(**address):
    return sound(opened("residual", **({"source": SOURCE, "residual_view": "gradients"} | address)))


def turned(app, **choices):
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def series(app):
    header, arrays = sent(app, "residual_second")
    return {each["name"]: arrays[2 * index + 1] for index, each in enumerate(header["series"])}


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
    app = page(target=TARGET, stack="decoder")
    network, loss = backward(small)
    found = series(app)
    for name, part in (("self-att.", "self_attention"), ("cross", "cross_attention"), ("FFN", "feed_forward")):
        expected = [
            length(weight.grad for weight in getattr(layer, part).parameters()) for layer in network.decoder.layers
        ]
        assert found[name].tolist() == pytest.approx(expected, rel=1e-4)
    assert f"{loss:.3g} nats" in " ".join(each.value for each in app.caption)
    header, arrays = sent(app, "residual_heads")
    assert [each["name"] for each in header["panels"]][3:5] == ["Decoder Wᴼ", "Cross W_Q"]
    weight = network.decoder.layers[1].cross_attention.output.weight
    assert arrays[14][1].tolist() == pytest.approx([float(weight.grad[:, at : at + 8].norm()) for at in (0, 8)], 1e-4)
    app = turned(app, gradient_of="relative")
    weights = network.decoder.layers[0].feed_forward
    expected = length(weight.grad for weight in weights.parameters()) / length(weights.parameters())
    assert float(series(app)["FFN"][0]) == pytest.approx(expected, rel=1e-4)


def test_the_stream_is_shown_from_the_first_state_to_the_last(small):
    app = page(target=TARGET, stack="encoder", layer="1", query="2")
    names = states(blocks(small.config, "encoder"))
    header, (values, visible) = sent(app, "residual_map")
    own = app.session_state["session"].memory["gradients"][1]
    assert np.allclose(values, [own.stream[name] for name in names], rtol=1e-5)
    assert (header["chosen"], header["column"]) == (3, 2)
    assert visible.all()
    header, (growth, _visible) = sent(turned(app, gradient="growth"), "residual_map")
    assert np.allclose(growth, np.log10(values / values[-1].mean()), atol=1e-5)
    assert header["scale"]["low"] == -header["scale"]["high"]


def test_a_state_that_no_loss_depends_on_is_hatched(here):
    write(here / "small", "decoder-only")
    _header, (_values, visible) = sent(page(), "residual_map")
    assert not visible[:, -1].any()
    assert visible[:, :-1].all()


def test_differences_from_the_pin_are_shown_where_they_are_wanted(small):
    app = page(target=TARGET, stack="encoder")
    session = app.session_state["session"]
    session.keep()
    before = session.memory["gradients"][1]
    type_in(app, "source", "The cat hears the dog.")
    session.differing = True
    header, (values, _visible) = sent(sound(app.run()), "residual_map")
    own, name = session.memory["gradients"][1], "encoder.embedding.output"
    assert header["scale"]["difference"]
    places = session.comparison.source.places
    expected = [
        float(own.stream[name][at] - before.stream[name][place]) if place >= 0 else np.nan
        for at, place in enumerate(places)
    ]
    assert np.allclose(values[0], expected, atol=1e-6, equal_nan=True)
    found = series(app)
    assert found["FFN, pinned"].tolist() == pytest.approx(
        [before.parts["encoder", layer, "feed_forward"].gradient for layer in (0, 1)], rel=1e-5
    )
    header, arrays = sent(app, "residual_heads")
    assert np.allclose(arrays[0], own.heads["encoder"][0, 0] - before.heads["encoder"][0, 0], atol=1e-6)


def test_what_takes_long_waits_to_be_asked_for(small, monkeypatch):
    monkeypatch.setattr(gradients, "LIGHT", 0)
    app = page(target=TARGET)
    (button,) = [each for each in app.button if each.key == "gradients_ask"]
    assert "kB of memory" in button.label
    assert "gradients" not in app.session_state["session"].memory
    button.click().run()
    assert sent(sound(app), "residual_map")
    type_in(app, "source", "The cat hears the dog.")
    assert [each for each in sound(app).button if each.key == "gradients_ask"]


def test_what_does_not_fit_is_refused_with_a_sentence(small, monkeypatch):
    monkeypatch.setattr("model.analysis.gradients.available", lambda device: 1000)
    app = page(target=TARGET)
    assert any("the gradients need about" in each.value and "shorter text" in each.value for each in app.info)


def test_a_model_without_logits_or_of_others_code_says_why_it_has_none(here):
    write(here / "small", "encoder-only", output_head="none")
    app = page()
    assert any("predicts nothing" in each.value for each in app.info)
    shutil.copytree(theirs("gemma2")[1], here / "gemma2")
    write_tokenizer(here / "gemma2")
    app = page(model="gemma2")
    assert any("run by transformers' own code" in each.value for each in app.info)
