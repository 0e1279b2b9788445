"""The index of experiments: all fifty rows, and each of a model answers a recurrent one too, or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.checkpoints.load import open_checkpoint
from model.experiments.experiment import Outcome
from model.experiments.index import MODULES, experiments
from model.experiments.rule import Verdict
from model.runtime.errors import MissingQuantityError

BUNDLED = Path(__file__).resolve().parents[3] / "checkpoints"
LONG = ("speed-ups", "maps-and-effects", "bleu")  # they measure for a while
ABOUT_TRANSFORMERS = ("causal-mask", "cross-attention", "encoder-softmax", "attention-variants", "kv-cache")
LACKING = ("attention-formula", "several-heads", "batch-norm", "feed-forward")
JUDGED = [each.name for each in experiments().values() if each.of_model and each.name not in (*LONG, *LACKING)]


def test_every_row_has_an_experiment_of_its_own_name() -> None:
    known = experiments()
    assert {each.row for each in known.values()} == set(range(1, 51))
    assert len(known) == sum(len(module.EXPERIMENTS) for module in MODULES)


def of_recurrent(name: str) -> Outcome:
    model, experiment = open_checkpoint(BUNDLED / "eng-cmn-recurrent"), experiments()[name]
    *_others, last = experiment.run(experiment.request(model, model.example, {}))
    return last.result


@pytest.mark.parametrize("name", JUDGED)
def test_a_recurrent_network_is_judged_unless_the_statement_is_about_transformers(name: str) -> None:
    found = of_recurrent(name)
    assert name not in ABOUT_TRANSFORMERS or found.verdict is Verdict.OPEN


@pytest.mark.parametrize("name", LACKING)
def test_what_a_recurrent_network_lacks_is_said(name: str) -> None:
    with pytest.raises(MissingQuantityError, match="this network"):
        of_recurrent(name)
