"""The documented recipe of a new heatmap: what fifteen lines give, tried."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from model.analysis.residual import blocks, states
from model.message import Message
from tests.viz.components.test_registry import unpack
from tests.viz.small import looking, small_model
from viz.figures.heatmap import Heatmap
from viz.pages.residual import stream
from viz.render.reader import Reader
from viz.render.render import render
from viz.state.token_groups import text_groups

RECIPES = Path(__file__).resolve().parents[3] / "docs" / "add.md"
TEXT, PINNED, TARGET = "the cats sit here", "the dogs sit here", "los gatos"


def distances(states: torch.Tensor | None) -> torch.Tensor | None:
    """(state, token): the numbers of the recipe."""
    return None if states is None else (states - states[-1]).norm(dim=-1)


def recipe() -> str:
    block = re.search(r"<!-- a new heatmap -->\s*```python\n(.*?)```", RECIPES.read_text("utf-8"), re.DOTALL)
    assert block
    return textwrap.dedent(block[1])


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    model = small_model(tmp_path_factory.mktemp("recipe") / "small")
    return looking(model, TEXT, TARGET, (model, PINNED, TARGET))


@pytest.fixture
def figure(session) -> Heatmap:
    names = {**vars(stream), "blocks": blocks, "distances": distances, "Inputs": object}
    exec(recipe(), names)
    return names["distance_map"](session.inputs, "encoder", 1)


def test_it_takes_at_most_fifteen_lines():
    assert len(recipe().splitlines()) <= 15


def test_it_shows_the_values_the_pin_and_their_difference(session, figure):
    parts = blocks(session.model.config, "encoder")
    expected = distances(stream.stream(session.inputs.now, states(parts))).numpy()
    plain, differing = (render(figure, Reader(difference=each)) for each in (False, True))
    np.testing.assert_allclose(plain.arrays()[0], expected, rtol=1e-6)
    assert np.isnan(differing.arrays()[0]).any()  # a token that the pinned text does not have
    assert differing.header["scale"]["difference"]


def test_it_speaks_the_readers_language_and_merges_pieces(session, figure):
    assert render(figure, Reader("zh")).header["columns"]["title"] == "词元"
    groups = text_groups(session)
    assert "source" in groups
    merged = render(figure, Reader(groups=groups))
    assert merged.header["columns"]["labels"] == groups["source"].labels
    assert merged.table().shape[0] == len(groups["source"]) * len(merged.header["rows"]["labels"])


def test_it_has_a_table_a_text_for_screen_readers_and_bytes(figure):
    drawn = render(figure, Reader())
    assert list(drawn.table().columns) == ["after block", "token", "Distance to the last state", "masked"]
    header, (values, _states) = unpack(drawn.data)
    assert header["alt"].startswith("Distance to the last state: Distance to the last state from 0 to ")
    np.testing.assert_array_equal(values, drawn.arrays()[0])
    assert isinstance(figure.caption.name, Message)
