"""Positions count from 1 on the screen, as layers, heads, units and experts do, on every page that numbers them."""

from __future__ import annotations

import numpy as np
import pytest

from model.analysis.blocks import blocks
from model.analysis.residual import blocks as residual_blocks
from tests.viz.small import looking
from viz.pages.map.blocks import changes
from viz.pages.predictions import logit_lens, positions
from viz.pages.predictions.decoding_film import film_figure
from viz.pages.residual import norms, stream
from viz.render.reader import Reader
from viz.render.render import render
from viz.ui.prediction import Subject

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"


@pytest.fixture
def inputs(small):
    return looking(small, SOURCE, TARGET, query=1).inputs


def test_tables_number_positions_from_1(inputs):
    subject = Subject(inputs)
    steps = residual_blocks(inputs.config, "decoder")
    tables = {
        "norms": norms.norms_table(inputs),
        "stream": stream.stream_table(inputs, "decoder", steps),
        "predictions": positions.table(subject),
        "lens": logit_lens.table(subject, logit_lens.read(subject)),
        "film": render(film_figure(subject), Reader("en")).table(),
    }
    assert {name: int(np.min(table["position"])) for name, table in tables.items()} == dict.fromkeys(tables, 1)


def test_sentences_number_positions_from_1(inputs, small):
    assert str(positions.position_sentence(Subject(inputs))) == "what comes after position 2"
    pinned = looking(small, "A cat sees the dog.", TARGET, pinned=(small, SOURCE, TARGET)).inputs
    embedding = next(block for block in blocks(pinned.trace) if block.kind == "embedding")
    text = str(changes(pinned.comparison, [embedding])[0][0][1])
    place = int(text.rsplit(" ", 1)[1])
    assert pinned.trace.source_tokens[place - 1] == "▁"  # a space alone, which is shown as a dot
    assert " at “·”, position" in text
