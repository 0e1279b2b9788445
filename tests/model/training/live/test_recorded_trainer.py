"""A watched run can be gone back in and branched, and is the plain trainer's run step for step; where a step is not
finite, it goes back by itself to where all was well.
"""

import math
from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_array_equal

from model.training.live.frame_recorder import KINDS
from model.training.live.recorded_trainer import RUNS, RecordedTrainer
from model.training.live.runs import Mark
from model.training.schedule import learning_rate
from model.training.trainer import Trainer
from tests.model.training.live.live_examples import KEY_EVERY, SETTINGS, material, probe, start, watched
from tests.model.training.training_examples import assert_equal, batches_taken, unchanged

pytestmark = pytest.mark.unchecked


def losses(given: RecordedTrainer, count: int) -> list[float]:
    return [given.step().loss for _ in range(count)]


def weights(given: RecordedTrainer) -> dict[str, torch.Tensor]:
    """As they are now."""
    return {name: parameter.detach().clone() for name, parameter in given.trainer.network.named_parameters()}


def assert_same(one: RecordedTrainer, other: RecordedTrainer) -> None:
    """Weights, film and curves."""
    assert_equal(weights(one), weights(other))
    assert_array_equal(one.run.film.steps, other.run.film.steps)
    for kind in KINDS:
        assert_array_equal(one.run.film.attention(kind), other.run.film.attention(kind))
    assert one.run.curves.names == other.run.curves.names
    for name in one.run.curves.names:
        assert_array_equal(one.run.curves.get(name), other.run.curves.get(name), name)
    assert one.trainer.progress == other.trainer.progress


def test_watching_changes_no_step():
    learned = material()
    model = start(learned)
    network = start(learned).network.train().requires_grad_()
    plain = Trainer(network, *learned.corpora(16, 0.0), SETTINGS)
    with unchanged(model.network):
        given = RecordedTrainer(model, learned, SETTINGS, probe(model), key_every=KEY_EVERY)
        assert losses(given, 6) == [report.loss for report in plain.steps(6)]
    assert_equal(weights(given), dict(network.named_parameters()))
    assert given.trainer.progress == plain.progress


@pytest.mark.parametrize("options", [{}, {"average": 0.9}, {"precision": "bfloat16", "accumulation": 2}], ids=str)
def test_a_run_that_went_back_is_the_uninterrupted_one(options):
    settings = replace(SETTINGS, **options)
    whole, given = watched(settings), watched(settings)
    expected = losses(whole, 10)
    assert losses(given, 9) == expected[:9]
    given.rewind(given.run.film.key_frames[1])
    assert given.steps_done == 4
    assert given.run.curves.get("loss")[0][-1] == given.run.film.steps[-1] == 4
    assert losses(given, 6) == expected[4:]
    assert_same(given, whole)
    given.rewind(given.run.film.key_frames[0])
    assert losses(given, 2) == expected[:2]


def test_two_futures_have_the_same_batches_and_both_go_on():
    whole, given = watched(), watched()
    expected = losses(whole, 9)
    batches = batches_taken(given.trainer)
    losses(given, 6)
    given.branch(given.run.film.key_frames[1], {"rate": 0.02, "attention_dropout": 0.3})
    other = losses(given, 3)
    assert batches[6:8] == batches[4:6]
    assert other[0] != expected[4]  # dropout on the same weights
    first, second = given.runs
    assert (second.parent, second.begins, second.number) == (1, 4, 2)
    assert second.turns == (Mark(4, {"rate": (5e-3, 0.02), "attention_dropout": (0.0, 0.3)}),)
    assert second.film.steps.tolist() == list(range(8))
    assert first.film.steps.tolist() == list(range(7))
    assert_array_equal(first.film.attention("cross")[:5], second.film.attention("cross")[:5])
    assert_array_equal(first.curves.get("loss")[1][:4], second.curves.get("loss")[1][:4])
    given.rewind(first.film.key_frames[-1])  # kept when it was left
    assert (given.steps_done, given.run, given.settings) == (6, first, first.settings)
    assert losses(given, 3) == expected[6:]
    assert_equal(weights(given), weights(whole))
    given.rewind(second.film.key_frames[1])  # with the settings of the branch
    assert losses(given, 3) == other


def test_what_was_changed_at_a_key_frame_s_step_before_it_was_taken_stays():
    given = watched()
    losses(given, 3)
    given.change({"rate": 1e-3})
    given.branch(given.run.film.key_frames[0], {})  # the state that is left is kept, changed as it is
    first = given.runs[0]
    key = first.film.key_frames[-1]
    assert (key.step, key.settings.rate) == (3, 1e-3)
    given.branch(key, {"clip": 0.5})
    assert [mark.changes for mark in given.run.changes] == [{"rate": (5e-3, 1e-3)}, {"clip": (1.0, 0.5)}]
    given.rewind(key)
    assert given.run.marks == (Mark(3, {"rate": (5e-3, 1e-3)}),)
    given.change({"rate": 2e-3})
    given.change({"rate": 1e-3})
    given.rewind(key)  # these came after it was taken
    assert given.run.marks == (Mark(3, {"rate": (5e-3, 1e-3)}),)


def test_of_two_changes_at_a_key_frame_s_step_those_before_it_was_taken_stay():
    given = watched()
    losses(given, 3)
    for rate in (1e-3, 2e-3):
        given.change({"rate": rate})
    given.branch(given.run.film.key_frames[0], {})
    first = given.runs[0]
    given.rewind(first.film.key_frames[-1])
    assert [mark.changes for mark in first.marks] == [{"rate": (5e-3, 1e-3)}, {"rate": (1e-3, 2e-3)}]


def test_a_new_beginning_keeps_the_settings_and_the_old_run():
    given = watched()
    losses(given, 3)
    given.change({"rate": 1e-3, "dropout": 0.0})
    losses(given, 2)
    given.restart()
    assert (given.steps_done, len(given.runs), given.settings.rate) == (0, 2, 1e-3)
    assert given.runs[0].film.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert losses(given, 3) == losses(watched(replace(SETTINGS, rate=1e-3), dropout=0.0), 3)
    for _ in range(RUNS):
        given.restart()
    assert len(given.runs) == RUNS
    with pytest.raises(ValueError, match="run 1 is not kept any more: choose a key frame of a newer one"):
        given.rewind(replace(given.run.film.keys[0], run=1))


def test_changes_hold_from_the_next_step_and_are_marked():
    given = watched()
    losses(given, 2)
    changes = {"rate": 0.01, "schedule": "constant", "clip": 1e-4, "dropout": 0.0, "warmup": 0, "label_smoothing": 0.1}
    given.change(changes)
    report = given.step()
    assert report.rate == 0.01 == learning_rate(3, 40, given.settings)
    (mark,) = given.run.marks
    assert (mark.step, mark.changes["rate"]) == (2, (5e-3, 0.01))
    assert set(mark.changes) == set(changes)
    assert given.model.config.dropout == given.trainer.network.config.dropout == 0.0
    assert report.gradient_norm > 1e-4
    gradients = [parameter.grad for parameter in given.trainer.network.parameters()]
    assert torch.nn.utils.get_total_norm(gradients).item() == pytest.approx(1e-4, rel=1e-2)
    given.change({"rate": 0.01})  # nothing is changed, nothing marked
    assert given.run.marks == (mark,)
    given.rewind(given.run.film.keys[0])
    assert given.run.marks == ()
    assert losses(given, 2) == losses(watched(), 2)
    for name, value in {"average": 0.5, "d_model": 4}.items():
        with pytest.raises(ValueError, match=f"{name} cannot be changed in a run; these can: epochs, "):
            given.change({name: value})
    with pytest.raises(ValueError, match=r"dropout \(1.5\) must be at least 0 and below 1"):
        given.change({"dropout": 1.5})


def test_a_changed_batch_is_that_of_a_run_that_had_it_from_the_beginning():
    given, other = watched(), watched(replace(SETTINGS, batch_tokens=30))
    losses(given, 3)
    given.change({"batch_tokens": 30})
    after, all_of_other = batches_taken(given.trainer), batches_taken(other.trainer)
    losses(given, 2)
    losses(other, 5)
    assert after == all_of_other[3:]


def test_the_figures_of_a_step():
    """Ratio of update to weight, drift of γ, exact match and accuracy, by hand."""
    given = watched(replace(SETTINGS, validate_every=3))
    beginning = weights(given)
    losses(given, 2)
    before = weights(given)
    report, now = given.step(), weights(given)
    for part in ("encoder.layers.0", "decoder.embedding"):
        names = [name for name in now if name.startswith(f"{part}.")]
        moved = math.sqrt(sum(float((now[name] - before[name]).double().square().sum()) for name in names))
        norm = math.sqrt(sum(float(now[name].double().square().sum()) for name in names))
        assert given.run.curves.latest(f"update ratio/{part}") == pytest.approx(moved / norm, rel=1e-4)
        assert given.run.curves.latest(f"gradient norm/{part}") == report.gradient_norms[part]
    name = "decoder.layers.1.feed_forward_block.norm"
    drift = (now[f"{name}.weight"] - beginning[f"{name}.weight"]).square().mean().sqrt()
    assert given.run.curves.latest(f"γ drift/{name}") == pytest.approx(float(drift), rel=1e-5)
    pairs = given.material.pairs["validation"]
    right = [given.model.generate(pair.source).text == pair.target for pair in pairs]
    assert given.run.curves.latest("exact match") == sum(right) / len(right)
    hits = count = 0
    for source, target in given.trainer.validation.examples:
        logits = given.model.network(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        hits += sum(int(row.argmax()) == token for row, token in zip(logits, target[1:], strict=True))
        count += len(target) - 1
    assert given.run.curves.latest("accuracy") == hits / count
    assert given.run.curves.get("accuracy")[0].tolist() == [3]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("decoder-only", {}),
        ("encoder-only", {}),
        ("encoder-only", {"output_head": "transform"}),
    ],  # which has a norm too
)
def test_models_of_one_stack_are_watched_too(kind, options):
    given = watched(kind=kind, **options)
    losses(given, 5)
    assert (given.run.curves.latest("exact match") is None) == (kind == "encoder-only")
    assert given.run.film.attention(kind.split("-")[0]).shape[:3] == (6, 2, 2)


def test_what_changed_where_runs_left_each_other_is_kept_in_order():
    given = watched()
    losses(given, 2)
    given.change({"rate": 1e-3})
    losses(given, 3)
    given.branch(given.run.film.keys[1], {"rate": 5e-4})
    assert given.run.marks == (Mark(2, {"rate": (5e-3, 1e-3)}),)
    losses(given, 3)
    given.change({"clip": 0.5})
    losses(given, 2)
    expected = [
        Mark(2, {"rate": (5e-3, 1e-3)}),
        Mark(4, {"rate": (1e-3, 5e-4)}),
        Mark(7, {"clip": (1.0, 0.5)}),
    ]
    assert given.run.changes == expected
    assert given.run.settings == given.runs[0].settings
    given.rewind(next(key for key in given.run.film.key_frames if key.step == 4))
    assert given.run.changes == expected[:2]
    assert given.settings.rate == 5e-4
    given.rewind(given.run.film.keys[0])
    assert (given.run.changes, given.settings.rate) == ([], 5e-3)


def test_weights_that_broke_are_left_for_the_last_good_key_frame():
    given = watched()
    expected = losses(given, 6)
    with torch.no_grad():
        given.trainer.network.output.logits.weight[0, 0] = math.nan
    why = r"output.logits.weight of step 6 is not finite either, so that the run went back to step 4: lower the rate"
    sentence = rf"step 7: loss nan, .*; {why} \(.*\) before it goes on$"
    with pytest.raises(FloatingPointError, match=sentence):
        given.step()
    assert given.steps_done == 4
    assert losses(given, 2) == expected[4:]


def test_a_rate_that_is_too_large_is_lowered_and_the_run_goes_on():
    given = watched()
    expected = losses(given, 6)
    given.change({"rate": 1e30, "warmup": 0})
    with pytest.raises(FloatingPointError, match=r"^step 8: loss .*no finite predictions either, so .*step 4: lower"):
        losses(given, 2)
    assert given.settings.rate == 1e30  # what was asked for stays in force, and is marked
    assert [mark.step for mark in given.run.marks] == [4]
    given.change({"rate": SETTINGS.rate, "warmup": SETTINGS.warmup})
    assert losses(given, 2) == expected[4:]


def test_a_beginning_that_is_not_finite_says_so():
    given = watched()
    with torch.no_grad():
        given.trainer.network.output.logits.weight[0, 0] = math.nan
    with pytest.raises(FloatingPointError, match=r"^step 1: loss nan, .*; it has no earlier step to go back to: begin"):
        given.step()
    assert given.steps_done == 0
