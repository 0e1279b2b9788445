"""The demonstration reaches what it promises; a new model is that of its seed."""

import dataclasses

import numpy as np
import pytest
import torch

from model.data.pairs import in_split
from model.data.readers import read_pairs_from
from model.data.tasks import exact_match
from model.network.config import TransformerConfig
from model.network.transformer import build
from model.training.demonstration import REVERSE, fresh
from model.training.live.live_training import LiveTraining
from tests.model.training.live.live_examples import SMALL, material

SECONDS = 600.0


def test_a_new_model_is_that_of_its_seed():
    learned = material("decoder-only")
    size = len(learned.tokenizers[0])
    config = TransformerConfig.one_stack("decoder-only", size, 1, **SMALL)
    made = fresh("mine", config, learned, seed=5)
    torch.manual_seed(5)
    expected = build(config)
    for name, parameter in made.network.named_parameters():
        assert torch.equal(parameter, expected.get_parameter(name))
    assert (made.name, made.kind, made.source_tokenizer) == ("mine", "decoder-only", learned.tokenizers[0])
    other = dataclasses.replace(config, target_vocabulary=99)
    with pytest.raises(
        ValueError, match=rf"vocabularies \(99, 99\) must be those of the tokenizers \({size}, {size}\)"
    ):
        fresh("mine", other, learned, seed=5)


def anti_diagonal(weights: np.ndarray) -> float:
    """The mean weight with which the row that writes a letter looks at that letter, of the best layer and head."""
    letters = len(REVERSE.text)
    rows = np.arange(letters)
    return float(weights[:, :, rows, letters - 1 - rows].mean(axis=-1).max()) / 255


@pytest.mark.slow
def test_from_nothing_to_99_percent_of_unseen_words_turned_round():
    model, learned, probe = REVERSE.begin()
    given = LiveTraining(model, learned, REVERSE.settings, probe, source=REVERSE.source, unseen=SECONDS)
    given.run()
    assert given.settled(SECONDS)
    assert given.snapshot.status == "finished"
    assert given.snapshot.exact_match >= 0.99
    assert given.snapshot.step <= 1500
    test = [pair.source for pair in in_split(read_pairs_from(REVERSE.source.data), "test")]
    assert len(test) > 300
    written = [made.text for made in given.view().model.generate_batch(test)]
    assert exact_match(REVERSE.task, test, written) >= 0.99
    film = given.current.film.attention("cross")
    assert anti_diagonal(film[0]) < 0.2
    assert anti_diagonal(film[-1]) > 0.5
    given.close()
