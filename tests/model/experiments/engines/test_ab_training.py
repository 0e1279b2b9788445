"""Arms side by side: the same batches, the same course with a seed, gradients as autograd has them, divergence."""

import math
import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from model.data.datasets import IGNORED, PairDataset
from model.data.tasks import TASKS
from model.experiments.engines.ab_training import (
    Arm,
    Course,
    Side,
    frequencies_alone,
    learners,
    material,
    shares_of_fall,
    step_seconds,
    train,
)
from model.experiments.engines.training_comparisons import COMPARISONS, SGD_RATE, as_torch_begins, lengths_of, setup_of
from model.training.demonstration import fresh
from model.training.losses import summed_loss

pytestmark = pytest.mark.unchecked

SIZES = {"steps": 3, "d_model": 8, "depth": 1, "warmup": 1}


def setup(name: str = "norms", **chosen):
    return setup_of(name, "encoder-decoder", **(SIZES | chosen))


def last(reports):
    *_before, newest = reports
    return newest


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch):
    monkeypatch.setattr("model.experiments.engines.ab_training.PAIRS", 300)


def test_arms_see_the_same_batches_in_turn(monkeypatch) -> None:
    seen = []
    ordinary = PairDataset.batch

    def watched(corpus, indices, chance):
        if chance:
            seen.append(tuple(indices))
        return ordinary(corpus, indices, chance)

    monkeypatch.setattr(PairDataset, "batch", watched)
    reports = list(train(COMPARISONS["norms"].arms(setup()), setup()))
    assert [report.share for report in reports] == [pytest.approx(step / 3) for step in (1, 2, 3)]
    assert [len(each.losses) for each in reports[0].result.courses] == [1, 1, 1]
    assert len(seen) == 9
    assert [seen[at] for at in (0, 3, 6)] == [seen[at] for at in (1, 4, 7)] == [seen[at] for at in (2, 5, 8)]
    assert seen[0] != seen[3]


def test_the_same_seed_gives_the_same_curves() -> None:
    arms = [Arm("pre"), Arm("post", {"norm_placement": "post"})]
    first, again = (last(train(arms, setup(seeds=(1, 2)))).result for _ in range(2))
    assert [each.losses for each in first.courses] == [each.losses for each in again.courses]
    assert len({each.losses for each in first.courses}) == 4
    assert [(each.arm, each.seed) for each in first.courses] == [("pre", 1), ("post", 1), ("pre", 2), ("post", 2)]
    assert first.done
    assert [each.seed for each in first.of("post")] == [1, 2]


def test_gradients_of_the_first_step_are_those_of_autograd() -> None:
    chosen = setup(steps=1, depth=2)
    side = last(train([Arm("pre")], chosen)).result
    learnt = material(chosen, 300)
    (made,), _chance = learners([Arm("pre")], chosen, 300)
    model = fresh("again", made.model.config, learnt, 1).network
    corpus = learnt.corpora(chosen.max_length, 0.0)[0]
    indices = corpus.order(chosen.batch_tokens, random.Random("1 epoch 0"))[0]
    batch = corpus.batch(indices, None)
    model.train()
    loss = summed_loss(model, batch, 0.0) / batch.predicted
    parameters = dict(model.named_parameters())
    gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    assert side.courses[0].losses[0] == pytest.approx(float(loss.detach()), rel=1e-5)
    for part in ("encoder.layers.0", "encoder.layers.1", "decoder.layers.0", "decoder.layers.1"):
        squares = [float(g.double().square().sum()) for name, g in gradients.items() if name.startswith(f"{part}.")]
        assert side.courses[0].first[part] == pytest.approx(math.sqrt(sum(squares)), rel=1e-4)


def test_what_diverges_is_a_result_and_the_others_go_on() -> None:
    def broken(model):
        with torch.no_grad():
            model.output.logits.weight.fill_(math.inf)

    side = last(train([Arm("pre", change=broken), Arm("post")], setup())).result
    lost, well = side.courses
    assert (lost.diverged, lost.losses) == (1, ())
    assert math.isnan(lost.final)
    assert (well.diverged, len(well.losses)) == (None, 3)
    assert side.done


def test_the_loss_of_frequencies_is_the_entropy_of_the_labels() -> None:
    corpus = material(setup(), 100).corpora(64, 0.0)[0]
    labels = torch.cat([corpus.batch([index], None).labels[0] for index in range(len(corpus))])
    shares = labels[labels != IGNORED].bincount().double() / (labels != IGNORED).sum()
    expected = torch.distributions.Categorical(probs=shares).entropy()
    assert frequencies_alone(corpus) == pytest.approx(float(expected))


def test_the_loss_at_the_end_is_the_mean_of_the_last_tenth() -> None:
    losses = tuple(float(step) for step in range(40))
    assert Course("pre", 1, 1, losses=losses).final == pytest.approx((36 + 37 + 38 + 39) / 4)
    assert math.isnan(Course("pre", 1, 1).final)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("name", [name for name in COMPARISONS if name != "positions"])
def test_every_comparison_trains_on_every_kind(name: str, kind) -> None:
    chosen = setup_of(name, kind, **(SIZES | {"steps": 1}))
    side = last(train(COMPARISONS[name].arms(chosen), chosen)).result
    assert side.done
    assert all(math.isfinite(each.losses[0]) for each in side.courses)
    assert len({each.arm for each in side.courses}) == len(side.courses) >= 2
    assert all(each.validations for each in side.courses)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_material(task: str) -> None:
    chosen = setup(task=task, lengths=lengths_of(task))
    assert last(train([Arm("pre")], chosen)).result.done


def test_the_recipe_switches_off_one_thing_in_each_arm() -> None:
    chosen = setup("recipe", steps=2, warmup=2)
    made, _chance = learners(COMPARISONS["recipe"].arms(chosen), chosen, 300)
    arms = {each.arm.name: each for each in made}
    usual = arms["whole"].trainer.settings
    assert arms["no warm-up"].trainer.settings == replace(usual, warmup=0)
    assert arms["no clipping"].trainer.settings == replace(usual, clip=math.inf)
    assert arms["no Adam"].trainer.settings == replace(usual, rate=SGD_RATE * usual.rate)
    name = "encoder.layers.0.feed_forward.hidden.weight"
    xavier, torchs = (arms[arm].model.network.get_parameter(name).detach() for arm in ("whole", "no Xavier"))
    assert float(xavier.abs().max()) > 8**-0.5  # √(6 / (8 + 32)) = 0.387
    assert 8**-0.5 * 0.8 < float(torchs.abs().max()) <= 8**-0.5
    descent = arms["no Adam"]
    parameters = list(descent.model.network.parameters())
    before = nn.utils.parameters_to_vector(parameters).detach()
    descent.step()
    norm = math.hypot(*descent.trainer.gradients.norms().values())
    moved = float((nn.utils.parameters_to_vector(parameters).detach() - before).norm())
    assert moved == pytest.approx(norm * SGD_RATE * usual.rate / 2, rel=1e-3)


def test_an_arm_that_draws_anew_draws_from_its_seed() -> None:
    arm = Arm("no Xavier", change=as_torch_begins)

    def begun(*seeds: int) -> list[float]:
        made, _chance = learners([arm], setup(seeds=seeds), 300)
        return [float(sum(weight.detach().sum() for weight in each.model.network.parameters())) for each in made]

    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first, other = begun(1, 2)
    assert first != other
    assert begun(1) == [first]
    assert torch.equal(torch.rand(2), expected)  # nobody else's numbers are disturbed


def test_a_step_is_measured_without_a_validation() -> None:
    assert 0 < step_seconds(Arm("pre"), setup()) < math.inf


def test_a_model_that_only_reads_is_compared_as_two_stacks() -> None:
    assert setup_of("norms", "encoder-only").kind == "encoder-decoder"
    assert setup_of("norms", "decoder-only").kind == "decoder-only"


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="n_heads"):
        step_seconds(Arm("pre"), setup(d_model=10))


@pytest.mark.parametrize(("whole", "share"), [(2.0, 0.5), (4.0, None), (5.0, None), (math.inf, None)])
def test_a_fall_is_a_share_of_one_that_there_is(whole: float, share: float | None) -> None:
    courses = [Course("off", 1, 0, losses=(3.0,)), Course("on", 1, 0, losses=(whole,))]
    (found,) = shares_of_fall(Side(tuple(courses), 1, 4.0), "off", "on")
    assert found == share if share is not None else math.isnan(found)
