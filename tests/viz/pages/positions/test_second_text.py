"""The vectors of a second text among those that are added up, and their lengths."""

from __future__ import annotations

import torch

from model.checkpoints.load import open_checkpoint
from tests.model.checkpoints.test_pairs import PAIR, made
from tests.viz.small import looking
from viz.pages.positions.tokens import Chosen, lengths


def test_the_sum_has_the_vector_of_the_second_text(tmp_path):
    made("BertForMaskedLM", tmp_path)
    model = open_checkpoint(tmp_path)
    for text, second in ((" [SEP] ".join(PAIR), True), (PAIR[0], False)):
        trace, found = model.trace(text), lengths(Chosen(looking(model, text).inputs))
        parts = [trace[f"encoder.embedding.{name}"] for name in ("tokens", "positions", "types")]
        torch.testing.assert_close(found["sum"], sum(parts).norm(dim=-1))
        assert ("types" in found) == second
