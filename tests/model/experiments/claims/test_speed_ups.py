"""Speed-ups: both ways compute the same, the verdict flips where the times do, and what cannot be switched is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.experiments.claims import speed_ups as rows
from model.experiments.claims.speed_ups import Output, SpeedUp, Work, measure, spread
from model.experiments.experiment import Outcome
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.inference.models import text_model
from model.inference.text_model import TextModel
from model.message import say
from tests.model.checkpoints.bridge.models import bridged

CHECKPOINTS = Path(__file__).resolve().parents[4] / "checkpoints"
SMALL = Work(12, 4, 6, 2, "bfloat16")


def sleeps(seconds: float, value: float = 1.0) -> Callable[[], Output]:
    def run() -> Output:
        time.sleep(seconds)
        return Output(torch.tensor([value]), [value])

    return run


def judged(*speed_ups: SpeedUp, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(rows, "SECONDS", 0.0)
    monkeypatch.setattr("model.experiments.engines.timing.clock_of", lambda _device: time.perf_counter)  # sleep counts
    *_before, last = measure(speed_ups, torch.device("cpu"), runs=5)
    assert last.share == 1
    return last.result


QUICK = SpeedUp(say("quick"), sleeps(0.001), sleeps(0.03))
SLOW = SpeedUp(say("slow"), sleeps(0.03), sleeps(0.001, 1.5))
REFUSED = SpeedUp(say("refused"), refusal=say("it cannot"))


@pytest.mark.parametrize(
    ("speed_ups", "expected"),
    [
        ([QUICK, REFUSED], Verdict.HOLDS),
        ([SLOW], Verdict.WRONG),
        ([QUICK, SLOW], Verdict.IN_PART),
        ([REFUSED], Verdict.OPEN),
    ],
)
def test_the_verdict_follows_the_times(
    speed_ups: list[SpeedUp], expected: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = judged(*speed_ups, monkeypatch=monkeypatch)
    assert outcome.verdict is expected
    assert ("slower here: slow" in str(outcome.reason)) == (SLOW in speed_ups)
    assert ("this model: refused" in str(outcome.reason)) == (REFUSED in speed_ups)


def test_the_difference_of_the_outputs_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    (table,) = judged(SLOW, monkeypatch=monkeypatch).figures
    assert table.rows[0][-2:] == [0.5, 0.0]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["reverse", "shakespeare", "fill-mask"])
def test_every_speed_up_computes_the_same_to_rounding(name: str) -> None:
    model = open_checkpoint(CHECKPOINTS / name)
    refused = set()
    for each in rows.speed_ups(model, model.example, SMALL):
        if each.refusal:
            refused.add(str(each.name))
            continue
        off, on = each.read(each.off()), each.read(each.on())
        narrow = "mixed" in str(each.name)
        assert float((off.numbers - on.numbers).abs().max()) < (1.0 if narrow else 1e-4), each.name
        assert narrow == bool((off.numbers != on.numbers).any()) or float((off.numbers - on.numbers).abs().max()) < 1e-4
        if not narrow:
            assert off.tokens == on.tokens, each.name
    assert refused == ({"KV cache", "batched beam search"} if name == "fill-mask" else set())


def test_logits_of_padded_batches_are_those_of_single_texts() -> None:
    model = open_checkpoint(CHECKPOINTS / "reverse")
    padding = rows.dynamic_padding(model, "hello", SMALL)
    alone = []
    for length in spread(SMALL.length, SMALL.texts):
        inputs = rows.batch(model, "hello", [length], length)
        alone.append(rows.forward(model, inputs)()[0])
    torch.testing.assert_close(padding.read(padding.on()).numbers, torch.cat(alone))
    torch.testing.assert_close(padding.read(padding.off()).numbers, torch.cat(alone))


@pytest.mark.parametrize("name", ["opt", "t5"])
def test_a_model_that_others_code_runs_says_what_it_cannot_switch(name: str) -> None:
    tokenizer = open_checkpoint(CHECKPOINTS / "reverse").source_tokenizer
    model = text_model(name, bridged(name), (tokenizer, tokenizer), {})
    model.generate = lambda _text: SimpleNamespace(ids=[5, 6])  # tokens that it knows
    assert not model.network.ours
    refused = []
    for each in rows.speed_ups(model, "hello", SMALL):
        if each.refusal:
            refused.append(str(each.name))
        elif "mixed" not in str(each.name):
            torch.testing.assert_close(each.read(each.off()).numbers, each.read(each.on()).numbers)
    assert refused == ["fused attention", "KV cache"]


def test_narrow_weights_are_not_mixed(reverse_in_bfloat16: TextModel) -> None:
    refusal = rows.mixed_precision(reverse_in_bfloat16, "hello", SMALL).refusal
    assert str(refusal) == "its weights are in bfloat16 anyhow"


@pytest.fixture
def reverse_in_bfloat16() -> TextModel:
    model = open_checkpoint(CHECKPOINTS / "reverse")
    model.network = model.network.bfloat16()
    return model


def test_it_runs_on_a_loaded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SECONDS", 0.0)
    monkeypatch.setattr(rows, "measure", partial(measure, runs=2))
    experiment = experiments()["speed-ups"]
    values = {"length": 200, "texts": 2, "written": 4, "beam": 2}  # cut at the 64 tokens that the model reads
    *_before, last = experiment.run(experiment.request(open_checkpoint(CHECKPOINTS / "reverse"), "hello", values))
    assert len(last.result.quantities) == 5
    assert last.share == 1
