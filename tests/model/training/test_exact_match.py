"""Answers that are counted as exactly right, against what is written."""

from dataclasses import replace

import pytest

from model.data.sources import Answers, Translations
from model.data.tasks import exact_match, task_pairs
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.losses import counts_exactly
from tests.model.training.live.live_examples import PAIRS, SETTINGS, material, probe, start

pytestmark = pytest.mark.unchecked


@pytest.mark.parametrize(
    ("kind", "made", "separator"), [("encoder-decoder", Translations, ""), ("decoder-only", Answers, "=")]
)
def test_texts_count_as_exact_that_are_written_to_the_character(kind, made, separator):
    learned = made(task_pairs("brackets", 200, [2, 4, 6], seed=1), "brackets", "characters", 0, validation_percent=20)
    model = start(learned, kind)
    settings = replace(SETTINGS, rate=1e-2, batch_tokens=200, steps=60)
    given = RecordedTrainer(model, learned, settings, probe(model, "()" + separator))
    sources = [pair.source for pair in learned.pairs["validation"]]
    found, written = [], []
    for _ in range(12):
        for _ in range(settings.validate_every):
            given.step()
        texts = [
            each.text for each in given.model.generate_batch([source + separator for source in sources], length=12)
        ]
        found.append(given.run.curves.latest("exact match"))
        written.append(exact_match("brackets", sources, texts))
    assert found == written
    assert len(set(found)) > 2


def test_answers_that_the_tokens_cannot_write_are_not_counted():
    """Letters that it lacks would all be one token, which is predicted easily; a cut answer would be right too soon."""
    other = Translations(task_pairs("sort", 60, [2, 3], seed=1), "sort", "characters", 0)
    learned = Translations(PAIRS, "reverse", "characters", 0, other.tokenizers)
    known = set("".join(pair.target for pair in other.pairs["train"]))
    assert any(set(pair.target) - known for pair in learned.pairs["validation"])
    assert not counts_exactly(learned, learned.corpora(16, 0.0)[1])
    assert counts_exactly(material(), material().corpora(16, 0.0)[1])
    assert not counts_exactly(material(), material().corpora(2, 0.0)[1])
