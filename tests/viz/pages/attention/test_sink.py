"""Weights that go to an attention sink: a column of their own, and a part of every figure of the distribution."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps, combined_sink, rollout
from model.analysis.head_metrics import METRICS, distance, likeness, metric
from model.checkpoints.bridge.load import open_bridged
from tests.model.checkpoints.bridge.models import settings_in, theirs, write_tokenizer
from tests.viz.small import looking
from viz.pages.attention.figure import head_figure, large
from viz.pages.attention.head_grid import all_thumbnails, sink_columns
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.state.session import Selection

TEXT, OTHER = "the cat sees a dog .", "the cat sees a red dog"
HEADS = [(0, 0), (0, 1), (1, 2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sinks") / "gpt_oss"
    shutil.copytree(theirs("gpt_oss")[1], folder)
    write_tokenizer(folder)
    return open_bridged(folder, settings_in(folder), torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def whole(model):
    """(layer, head, query, key and sink): distributions, whose last outcome is the sink."""
    maps = Maps(model.trace(TEXT), "decoder")
    layers = []
    for layer in range(maps.layers):
        weights, sink = maps.weights(layer, slice(None)), maps.sink(layer, slice(None))
        layers.append(torch.cat([weights, sink[..., None]], dim=-1).double())
    return torch.stack(layers)


def test_with_the_sink_every_row_is_a_distribution(whole):
    torch.testing.assert_close(whole.sum(-1), torch.ones_like(whole.sum(-1)), atol=1e-6, rtol=0)
    assert float(whole[..., -1].min()) > 0.05


def test_entropy_counts_the_sink_and_distance_is_of_what_goes_to_keys(model, whole):
    maps = Maps(model.trace(TEXT), "decoder")
    weights = maps.weights(1, slice(None))
    found = metric("entropy", weights, torch.empty(0), maps.sink(1, slice(None)))
    expected = -(whole[1] * whole[1].log().nan_to_num(neginf=0)).sum(-1).mean(-1)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    keys = whole[1, ..., :-1]
    away = (torch.arange(6)[:, None] - torch.arange(6)).abs()
    expected = ((keys * away).sum(-1) / keys.sum(-1)).mean(-1)
    torch.testing.assert_close(METRICS["distance"](weights, torch.empty(0)), expected, atol=1e-5, rtol=1e-5)
    one = torch.eye(4)[None]
    assert float(distance(one)) == 0


def test_heads_are_as_unlike_as_their_distributions_with_the_sink(model, whole):
    found = likeness(model.trace(TEXT), "decoder", 0, 1).maps

    def entropy(p):
        return -(p * p.log2().nan_to_num(neginf=0)).sum(-1)

    p, q = whole, whole[0, 1]
    bits = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    torch.testing.assert_close(found, bits.clamp(0, 1).sqrt().mean(-1), atol=1e-4, rtol=1e-3)


def test_what_rollout_leaves_for_the_sinks_is_what_no_token_gave(model, whole):
    maps, heads = Maps(model.trace(TEXT), "decoder"), [(layer, head) for layer in (0, 1) for head in range(4)]
    joined = torch.eye(6, dtype=torch.float64)
    for layer in whole:
        joined = (layer.mean(0)[:, :-1] + torch.eye(6)) / 2 @ joined
    torch.testing.assert_close(rollout(maps, heads).double(), joined, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(combined_sink(maps, heads, "rollout").double(), 1 - joined.sum(-1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("combination", ["head", "average", "maximum", "rollout"])
@pytest.mark.parametrize("drawing", ["map", "lines"])
def test_the_sink_is_the_last_column_of_every_large_map(model, whole, combination, drawing):
    session = looking(model, TEXT, "")
    shown = HeadMaps(session.trace, HeadSettings("decoder", combination=combination, drawing=drawing), None, False)
    chosen = Selection(layer=1, head=2)
    drawn = head_figure(shown, large(shown, chosen, HEADS), all_thumbnails(shown), chosen, HEADS)
    assert drawn.columns.labels[-1] == "sink"
    own = torch.stack([whole[place][:, -1] for place in HEADS])
    wanted = {"head": own[2], "average": own.mean(0), "maximum": own.amax(0)}.get(combination)
    if wanted is not None:
        assert drawn.values[:, -1] == pytest.approx(wanted.numpy(), abs=1e-6)
    if combination != "maximum":
        assert drawn.values.sum(axis=1) == pytest.approx(np.ones(6), abs=1e-5)


def test_thumbnails_have_it_too_and_differences_are_from_the_pinned_sink(model, whole):
    session = looking(model, TEXT, "", (model, OTHER, ""))
    shown = HeadMaps(session.trace, HeadSettings("decoder"), session.comparison, False)
    columns = sink_columns(shown, all_thumbnails(shown), HEADS)
    assert columns[2, :, 0] == pytest.approx(whole[1, 2, :, -1].numpy(), abs=1e-6)
    differing = HeadMaps(session.trace, HeadSettings("decoder"), session.comparison, True)
    moved = differing.sink([(0, 1)], "average")
    other = Maps(model.trace(OTHER), "decoder").sink(0, slice(1, 2))[0].numpy()
    own = whole[0, 1, :, -1].numpy()
    assert moved[:4] == pytest.approx(own[:4] - other[:4], abs=1e-6)  # the same four tokens
    assert np.isnan(moved[5])  # the pinned text has no full stop
