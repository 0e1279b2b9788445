"""Which tensor of a training step that failed is named."""

import random
import re
from typing import get_args

import pytest
import torch

from model.network.config import Kind
from model.training.trainer import find_first_nonfinite
from tests.model.training.live.live_examples import watched
from tests.model.training.training_examples import make


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_first_quantity_of_the_forward_pass_is_named_and_of_a_healthy_step_none(kind):
    """Its weight is finite, though what it makes of its input is not."""
    given = watched(kind=kind).trainer
    examples = given.epochs.after(0)[2]
    assert find_first_nonfinite(given, [given.train.batch(each, random.Random(1)) for each in examples], "seed") == ""
    name = {
        "encoder-only": "encoder.layers.0.feed_forward.hidden",
        "recurrent": "decoder.readout.from_state",
    }.get(kind, "decoder.layers.0.feed_forward.hidden")
    said = "decoder.readout" if kind == "recurrent" else name  # whose parts are no quantities of their own
    with torch.no_grad():
        given.network.get_parameter(f"{name}.weight").fill_(3e38)
    with pytest.raises(FloatingPointError, match=rf"^step 1: loss nan, .*, not finite first in {re.escape(said)}; "):
        next(given.steps())


def test_every_batch_and_example_of_a_step_is_looked_at(monkeypatch):
    """One token's embedding is too large, of an example behind the first."""
    given = make(accumulation=2)
    batches = [given.train.batch(each, random.Random(1)) for each in given.epochs.after(0)[2]]
    first = {int(token) for token in batches[0].inputs[0].flatten()}
    late = next(int(token) for token in batches[1].inputs[0][1:].flatten() if int(token) not in first)
    with torch.no_grad():
        given.network.encoder.embedding.tokens.weight[late, 0] = 3e38
    assert find_first_nonfinite(given, batches[:1], "seed") == ""
    assert find_first_nonfinite(given, batches, "seed").startswith(", not finite first in encoder.embedding.")
