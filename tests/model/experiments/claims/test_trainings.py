"""Verdicts of trainings: as the statement says, and the opposite where the opposite is planted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from model.experiments.claims import trainings
from model.experiments.engines.ab_training import Arm, Course, ExactMatch, Side, learners
from model.experiments.engines.training_comparisons import put_norm_on_the_short_cut, setup_of
from model.experiments.experiment import Curves, Outcome, Request, Table
from model.experiments.index import experiments
from model.experiments.rule import Verdict
from model.experiments.runner import Report
from tests.model.experiments.claims.judging import verdict_of

STEPS = 20
SMALL = {"steps": 2, "d_model": 8, "depth": 1, "warmup": 1}


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.experiments.engines.ab_training.PAIRS", 300)
    monkeypatch.setattr("model.experiments.engines.training_comparisons.SOURCES", 2)


def course(arm: str, loss: float, seed: int = 1, parameters: int = 1000, slope: float = 1.0, **more) -> Course:
    norms = {"encoder.layers.0": slope, "encoder.layers.1": 1.0, "decoder.layers.0": slope, "decoder.layers.1": 1.0}
    return Course(arm, seed, parameters, (loss,) * STEPS, (1e-3,) * STEPS, first=norms, seconds=0.01, **more)


def three(arm: str, loss: float, noise: float = 0.01, **more) -> list[Course]:
    """An arm with three seeds whose losses differ by `noise`, and gradients by the same share."""
    slope = more.pop("slope", 1.0)
    return [
        course(arm, loss + off * noise, seed, slope=slope * (1 + off * noise), **more)
        for seed, off in enumerate((-1, 0, 1), start=1)
    ]


def side(*courses: Course | list[Course], **more) -> Side:
    """Courses, and those of arms with three seeds."""
    every = [each for one in courses for each in (one if isinstance(one, list) else [one])]
    return Side(tuple(every), STEPS, 3.0, **more)


def fewer(judged: Side) -> list[Side]:
    """The same with one seed, and with two."""
    return [replace(judged, courses=tuple(each for each in judged.courses if each.seed <= most)) for most in (1, 2)]


def last(reports: Iterator[Report[Outcome]]) -> Outcome:
    *_before, newest = reports
    return newest.result


@pytest.mark.parametrize(
    ("wrong", "noise", "expected"),
    [
        (2.0, 0.01, Verdict.WRONG),
        (0.5, 0.01, Verdict.HOLDS),
        (1.0, 0.01, Verdict.HOLDS),  # alike
        (2.0, 0.6, Verdict.OPEN),  # every seed is higher, but by less than twice their spread
        (1.05, 0.05, Verdict.OPEN),  # it may be a tenth
    ],
)
def test_the_wrong_norm_is_judged_beside_the_spread_of_the_seeds(wrong: float, noise: float, expected: Verdict) -> None:
    made = side(three("post", 1.0), three("pre", 1.0), three("wrong", wrong, noise))
    rule, reason = trainings.judge_norms(made)
    assert verdict_of(rule) is expected
    assert str(reason).count(f"wrong pre-norm ends at a loss of {wrong:.3g} ± {noise:.2g}") == 2
    assert ("post-norm at 1 ± 0.01: clearly higher" in str(reason)) == (expected is Verdict.WRONG)
    assert [verdict_of(trainings.judge_norms(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


WARM = {"post@2": 1.0, "post@6": 1.0, "pre@2": 1.0, "pre@6": 1.0}
COLD = {f"{arm} cold": loss for arm, loss in WARM.items()}


@pytest.mark.parametrize(
    ("losses", "expected", "words"),
    [
        # of the fall from 3 to 1, a loss of 2.5 leaves a quarter, and 1.3 leaves most
        (
            {"post@2 cold": 2.5, "post@6": 1.5, "post@6 cold": 2.9},
            Verdict.HOLDS,
            "post-norm needs warm-up, and pre-norm does not need warm-up; post-norm learns clearly less with more",
        ),
        ({"post@6": 1.5, "post@6 cold": 2.9}, Verdict.IN_PART, "post-norm needs warm-up with 6 layers, and"),
        ({"post@2 cold": 2.5, "post@6 cold": 2.9}, Verdict.IN_PART, "post-norm does not learn less with more"),
        ({"post@6": 1.5, "post@6 cold": 1.5}, Verdict.IN_PART, "post-norm does not need warm-up, and"),
        (  # pre-norm is helped, and does not need it
            {"post@2 cold": 2.5, "post@6": 1.5, "post@6 cold": 2.9, "pre@2 cold": 1.3, "pre@6 cold": 1.3},
            Verdict.HOLDS,
            "pre-norm is helped by warm-up and does not need it",
        ),
        (
            {"post@2 cold": 2.5, "post@6": 1.5, "post@6 cold": 2.9, "pre@6": 1.5, "pre@6 cold": 2.9},
            Verdict.WRONG,
            "pre-norm needs warm-up with 6 layers; post-norm learns clearly less with more layers, and pre-norm learns",
        ),
        ({}, Verdict.WRONG, "post-norm does not need warm-up, and pre-norm does not need warm-up"),
        # with six layers nothing is learnt: whether post-norm needs it there too is open
        ({"post@2 cold": 2.5, "post@6": 2.95, "post@6 cold": 2.9}, Verdict.OPEN, "post-norm needs warm-up with 2"),
        (  # one depth is enough against pre-norm
            {"post@2 cold": 2.5, "post@6": 1.5, "post@6 cold": 2.9, "pre@2": 2.95, "pre@6": 1.5, "pre@6 cold": 2.9},
            Verdict.IN_PART,
            "pre-norm needs warm-up with 6 layers",
        ),
        ({"pre@2": 2.95, "post@6": 1.5, "post@6 cold": 2.9}, Verdict.OPEN, "whether pre-norm needs warm-up is open"),
    ],
)
def test_each_half_of_the_sentence_on_depth_is_judged_by_itself(losses, expected: Verdict, words: str) -> None:
    made = side(*(three(arm, loss) for arm, loss in (WARM | COLD | losses).items()))
    rule, reason = trainings.judge_depth(made)
    assert words in str(reason)
    assert verdict_of(rule) is expected
    assert "with 6 layers post-norm ends at a loss of" in str(reason)
    assert [verdict_of(trainings.judge_depth(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


def test_a_spread_may_leave_the_sentence_on_depth_open() -> None:
    losses = WARM | COLD | {"post@2 cold": 2.5, "post@6": 1.5, "post@6 cold": 2.9}
    loud = [three(arm, loss, 0.5 if arm == "post@6" else 0.01) for arm, loss in losses.items()]
    rule, reason = trainings.judge_depth(side(*loud))
    assert verdict_of(rule) is Verdict.OPEN
    assert "whether post-norm learns less with more layers is open" in str(reason)


@pytest.mark.parametrize(
    ("slope", "words"),
    [
        (0.1, "post-norm's are nearer"),
        (10.0, "pre-norm's are nearer"),
        (1.1, "no clear difference"),
        (0.0, "cannot be"),
    ],
)
def test_gradients_may_be_nearer_to_the_output_with_either(slope: float, words: str) -> None:
    made = [three(arm, 1.0, slope=slope if arm == "post@6" else 1.0) for arm in WARM | COLD]
    _rule, reason = trainings.judge_depth(side(*made))
    assert words in str(reason)


@pytest.mark.parametrize(
    ("on", "off", "noise", "expected"),
    [
        (1.0, 0.1, 0.01, Verdict.HOLDS),
        (1.0, 9.0, 0.01, Verdict.WRONG),
        (1.0, 1.2, 0.01, Verdict.WRONG),  # alike
        (1.0, 0.45, 0.5, Verdict.OPEN),
        (1.0, 0.5, 0.01, Verdict.OPEN),  # twice, give or take
    ],
)
def test_the_gradient_may_grow_or_vanish(on: float, off: float, noise: float, expected: Verdict) -> None:
    made = side(three("on", 1.0, slope=on), three("off", 1.0, noise, slope=off))
    rule, reason = trainings.judge_gradient(made)
    assert verdict_of(rule) is expected
    assert f"(encoder), at the first step: {on:.3g} with residuals, {off:.3g} without" in str(reason)
    assert [verdict_of(trainings.judge_gradient(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


def test_a_decoder_that_reads_an_encoder_is_not_what_the_gradient_is_judged_in() -> None:
    """There float32 loses what passes through the queries of cross-attention, residuals or not."""
    lost = {"encoder.layers.0": 1.0, "encoder.layers.1": 1.0, "decoder.layers.0": 0.0, "decoder.layers.1": 1.0}
    off = [replace(each, first=lost) for each in three("off", 1.0)]
    assert (
        verdict_of(trainings.judge_gradient(side(three("on", 1.0), off))[0]) is Verdict.WRONG
    )  # of the encoder: alike
    alone = [
        [
            replace(each, first={part: norm for part, norm in each.first.items() if part.startswith("decoder")})
            for each in arm
        ]
        for arm in (three("on", 1.0), off)
    ]
    rule, reason = trainings.judge_gradient(side(*alone))
    assert verdict_of(rule) is Verdict.OPEN
    assert "float32 has them as 0" in str(reason)
    assert [str(each.name) for each in trainings.slopes(side(*alone))] == [
        "gradient of the first layer over that of the last (decoder), with residuals"
    ]


@pytest.mark.parametrize(
    ("on", "off", "noise", "expected"),
    [
        (1.0, 2.9, 0.01, Verdict.HOLDS),
        (1.0, 2.0, 0.01, Verdict.IN_PART),
        (1.0, 1.0, 0.01, Verdict.WRONG),
        (1.0, 0.5, 0.01, Verdict.WRONG),
        (1.0, 2.0, 0.6, Verdict.OPEN),
        (2.5, 2.7, 0.01, Verdict.OPEN),  # less is learnt, but the losses are not clearly apart
        (2.9, 3.0, 0.01, Verdict.OPEN),
    ],
)
def test_residuals_may_matter_or_not(on: float, off: float, noise: float, expected: Verdict) -> None:
    made = side(three("on", on), three("off", off, noise))
    rule, _reason = trainings.judge_residual(made)
    assert verdict_of(rule) is expected
    assert [verdict_of(trainings.judge_residual(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


def test_that_nothing_is_learnt_is_said_where_the_seeds_decide_it_alone() -> None:
    residual, recipe = side(three("on", 2.9), three("off", 3.0)), side(three("whole", 2.9), three("no Adam", 3.0))
    for judge, made in ((trainings.judge_residual, residual), (trainings.judge_recipe, recipe)):
        rule, reason = judge(made)
        assert verdict_of(rule) is Verdict.OPEN
        assert str(reason).endswith("no more is learnt than how frequent each token is: train longer")
        for each in fewer(made):
            assert str(judge(each)[1]).startswith("the seeds do not decide whether more is learnt")
    near = side(three("on", 2.7), three("off", 3.0))  # nine tenths of the loss of frequencies
    assert str(trainings.judge_residual(near)[1]).endswith("how frequent each token is: with residuals")


def test_residuals_that_diverge_with_one_seed_leave_open_what_is_learnt() -> None:
    lost = Course("on", 2, 1000, (9.0,), (1e-3,), diverged=2)
    first, _second, third = three("on", 1.0)
    rule, reason = trainings.judge_residual(side(first, lost, third, three("off", 2.9)))
    assert verdict_of(rule) is Verdict.OPEN
    assert str(reason).startswith("the seeds do not decide whether more is learnt")


def test_one_layer_has_no_spread_of_gradients() -> None:
    arms = [replace(each, first={"decoder.layers.0": 1.0}) for arm in ("on", "off") for each in three(arm, 1.0)]
    rule, reason = trainings.judge_gradient(side(*arms))
    assert verdict_of(rule) is Verdict.OPEN
    assert "cannot be compared" in str(reason)


@pytest.mark.parametrize(("post", "pre", "expected"), [(1.0, 2.0, Verdict.HOLDS), (2.0, 1.0, Verdict.WRONG)])
def test_the_wrong_norm_is_judged_by_pre_norm_and_not_by_post_norm(post: float, pre: float, expected: Verdict) -> None:
    rule, _reason = trainings.judge_norms(side(three("post", post), three("pre", pre), three("wrong", 1.5)))
    assert verdict_of(rule) is expected


@pytest.mark.parametrize(
    ("output", "every", "noise", "saved", "expected"),
    [
        (1.0, 1.0, 0.01, 100, Verdict.HOLDS),
        (1.5, 1.0, 0.01, 100, Verdict.IN_PART),
        (1.5, 1.5, 0.01, 100, Verdict.WRONG),
        (1.5, 1.5, 0.4, 100, Verdict.OPEN),
        (1.0, 1.0, 0.1, 100, Verdict.OPEN),  # that nothing is lost must be clear, too
        (1.0, 1.0, 0.01, 0, Verdict.WRONG),
    ],
)
def test_tying_may_cost_or_save_nothing(output: float, every: float, noise: float, saved: int, expected) -> None:
    tied = [
        three("output", output, noise, parameters=1000 - saved),
        three("all", every, noise, parameters=1000 - 2 * saved),
    ]
    made = side(three("untied", 1.0), *tied)
    rule, reason = trainings.judge_tying(made)
    assert verdict_of(rule) is expected
    assert f"of 1,000 parameters tying saves up to {2 * saved}, {saved / 5:g} %" in str(reason)
    if saved:
        assert [verdict_of(trainings.judge_tying(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


@pytest.mark.parametrize(
    ("full", "equal", "noise", "expected"),
    [
        (0.5, 1.0, 0.01, Verdict.HOLDS),
        (0.5, 0.5, 0.01, Verdict.IN_PART),
        (0.5, 0.55, 0.01, Verdict.OPEN),  # whether it is the width that helps
        (2.0, 1.0, 0.01, Verdict.WRONG),
        (1.0, 1.0, 0.01, Verdict.WRONG),  # no more is learnt
        (0.5, 1.0, 0.3, Verdict.OPEN),
    ],
)
def test_wide_heads_are_judged_beside_as_many_parameters(full, equal, noise: float, expected: Verdict) -> None:
    arms = [three("full", full, noise, parameters=2000), three("as many", equal, parameters=2000)]
    made = side(three("split", 1.0), *arms)
    rule, reason = trainings.judge_heads(made)
    assert verdict_of(rule) is expected
    assert "with 2 times the parameters and 1 times the time" in str(reason)
    assert [verdict_of(trainings.judge_heads(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


def validated(arm: str, loss: float, right: float, noise: float) -> list[Course]:
    offs = enumerate((-1, 0, 1), start=1)
    return [course(arm, 1.0, each, validations=((STEPS, loss, right + off * noise),)) for each, off in offs]


@pytest.mark.parametrize(
    ("loss", "right", "noise", "expected"),
    [
        (1.0, 0.9, 0.01, Verdict.HOLDS),
        (1.0, 0.7, 0.001, Verdict.IN_PART),
        (0.1, 0.9, 0.01, Verdict.IN_PART),
        (0.1, 0.5, 0.01, Verdict.WRONG),
        (1.0, 0.8, 0.06, Verdict.OPEN),
    ],
)
def test_smoothing_may_help_or_not(loss: float, right: float, noise: float, expected: Verdict) -> None:
    made = side(validated("sharp", 0.5, 0.7, 0.0), validated("smooth", loss, right, noise))
    rule, reason = trainings.judge_smoothing(made)
    assert verdict_of(rule) is expected
    assert f"perplexity is {math.exp(loss):.3g}, without {math.exp(0.5):.3g}" in str(reason)
    assert [verdict_of(trainings.judge_smoothing(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((2.9, 2.9, 2.9, 2.9), Verdict.HOLDS),
        ((1.0, 2.9, 1.3, 1.0), Verdict.IN_PART),
        ((1.0, 1.0, 1.3, 0.5), Verdict.WRONG),  # what only helps is not needed
        ((1.0, 2.0, 1.0, 1.0), Verdict.OPEN),  # half is left
    ],
)
def test_the_recipe_may_need_each_of_its_parts_or_none(losses: tuple[float, ...], expected: Verdict) -> None:
    names = ("no warm-up", "no Xavier", "no clipping", "no Adam")
    arms = [three(arm, loss) for arm, loss in zip(names, losses, strict=True)]
    made = side(three("whole", 1.0), *arms)
    rule, reason = trainings.judge_recipe(made)
    assert verdict_of(rule) is expected
    needed, helping, *_ = str(reason).split(";")
    assert ("no Xavier" in needed) == (losses[1] == 2.9)
    assert ("no clipping" in helping) == (losses[2] == 1.3)
    assert [verdict_of(trainings.judge_recipe(each)[0]) for each in fewer(made)] == [Verdict.OPEN] * 2
    assert verdict_of(trainings.judge_recipe(side(three("whole", 2.9), *arms))[0]) is Verdict.OPEN


def test_an_arm_that_diverged_is_said_to() -> None:
    lost = [Course("no Adam", seed, 1000, (9.0,), (1e-3,), diverged=2) for seed in (1, 2, 3)]
    whole = replace(side(three("whole", 1.0), lost), steps=STEPS)
    found = trainings.outcome(
        whole, trainings.judge_recipe, (trainings.losses, trainings.rates), trainings.final_losses
    )
    assert found.verdict is Verdict.HOLDS
    assert "no Adam at none, it diverged" in str(found.reason)
    assert [str(each.name) for each in found.quantities] == ["loss at the end, all of it"]
    assert str(found.figures[-1].rows[1][3]) == "diverged at step 2"  # type: ignore[union-attr]
    assert found.figures[-1].rows[0][2] == pytest.approx(100)  # type: ignore[union-attr]  # steps a second
    assert found.figures[-1].rows[1][2] == "–"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sines", "table", "expected"),
    [
        ((1.0, 0.9), (1.0, 0.1), Verdict.HOLDS),
        ((1.0, 0.1), (1.0, 0.1), Verdict.WRONG),
        ((1.0, 0.9), (1.0, 0.9), Verdict.IN_PART),
        ((0.2, 0.1), (1.0, 0.1), Verdict.OPEN),
        ((1.0, 0.52), (1.0, 0.1), Verdict.OPEN),
    ],
)
def test_longer_texts_may_be_answered_or_not(sines, table, expected: Verdict) -> None:
    tests = tuple(
        ExactMatch(arm, seed, length, exact + off, exact + off)
        for seed, off in enumerate((-0.03, 0.0, 0.03), start=1)
        for arm, pair in (("sinusoidal", sines), ("learned", table))
        for length, exact in zip((8, 16), pair, strict=True)
    )
    tested = side(three("sinusoidal", 1.0), three("learned", 1.0), tests=tests, due=12, trained=8)
    rule, reason = trainings.judge_positions(tested)
    assert verdict_of(rule) is expected
    assert f"sinusoidal {100 * sines[0]:.3g} % and {100 * sines[1]:.3g} %" in str(reason)
    ends = {None: "the seeds do not decide", True: "it carries over", False: "it does not carry over"}
    carries = None if sines[1] == 0.52 else sines[1] > 0.5
    end = "it has not learnt the task" if sines[0] < 0.5 else ends[carries]
    assert str(trainings.carried(tested)[0]).startswith(f"sinusoidal: {end}")
    for most in (1, 2):
        few = replace(tested, tests=tuple(each for each in tests if each.seed <= most))
        rule, reason = trainings.judge_positions(few)
        assert verdict_of(rule) is Verdict.OPEN
        assert str(reason).endswith("the seeds do not decide whether both arms have learnt the task")
        decided = "the seeds do not decide whether it has learnt the task"
        assert [str(each) for each in trainings.carried(few)] == [f"{arm}: {decided}" for arm in trainings.OF_STATEMENT]
    loud = replace(tested, tests=tuple(replace(each, exact=1.0) if each.seed == 3 else each for each in tests))
    if expected is Verdict.HOLDS:  # with seed 3 the learned positions carry over
        assert verdict_of(trainings.judge_positions(loud)[0]) is Verdict.OPEN


def test_that_nothing_is_clear_with_few_seeds_is_said() -> None:
    whole = side(three("post", 1.0), three("pre", 1.0), three("wrong", 2.0))

    def remarks(judged: Side) -> list[str]:
        return [str(each) for each in trainings.outcome(judged, trainings.judge_norms, (), trainings.slopes).notes]

    assert remarks(whole) == []
    assert [remarks(each)[0][:20] for each in fewer(whole)] == ["with fewer than 3 se"] * 2


@pytest.mark.parametrize("name", [each.name for each in trainings.EXPERIMENTS])
def test_every_one_runs_with_curves_over_the_seeds(name: str) -> None:
    experiment = experiments()[name]
    small = dict(SMALL, longest=5, trained=4) if name == "longer-texts" else SMALL
    reports = list(experiment.run(experiment.request(None, "", small, (1, 2))))  # type: ignore[arg-type]
    assert str(reports[0].result.reason) == "step 1 of 2"
    assert all(str(each.name).startswith("loss so far, ") for each in reports[0].result.quantities)
    assert str(reports[0].result.figures[-1].columns[3]) == "loss so far"
    assert str(reports[-1].result.figures[-1].columns[3]) == "loss at the end"
    assert reports[-1].share == pytest.approx(1.0)
    found = reports[-1].result
    assert all(len(each.values) == 2 for each in found.quantities)
    curves = [each for figure in found.figures if isinstance(figure, Curves) for each in figure.curves]
    ranged = [each for each in curves if each.low is not None and each.high is not None]
    assert len(ranged) >= 2
    assert all(low <= y <= high for each in ranged for low, y, high in zip(each.low, each.ys, each.high, strict=True))
    assert isinstance(found.figures[-1], Table)


@pytest.mark.parametrize("name", [each.name for each in trainings.EXPERIMENTS])
def test_every_one_runs_as_a_decoder_only_network(name: str) -> None:
    experiment = experiments()[name]
    small = dict(SMALL, kind="decoder-only") | ({"longest": 5, "trained": 4} if name == "longer-texts" else {})
    found = last(experiment.run(experiment.request(None, "", small)))  # type: ignore[arg-type]
    assert all(model.model.kind == "decoder-only" for model in found.models)
    assert found.figures


def test_gradients_of_the_newest_step_are_drawn_too() -> None:
    courses = (
        replace(course("on", 1.0), latest={"encoder.layers.0": 2.0, "decoder.layers.1": 4.0}),
        course("off", 1.0),
    )
    found = trainings.newest_gradients(side(*courses))
    (curve,) = found.curves  # the other has no newest step yet
    assert (list(curve.xs), list(curve.ys)) == ([0, 3], [2.0, 4.0])
    assert list(found.ticks or ()) == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]


def test_layers_are_drawn_in_their_order_whatever_the_depths() -> None:
    deep = {f"{stack}.layers.{number}": float(number) for stack in ("encoder", "decoder") for number in range(11)}
    found = trainings.gradients(side(course("on", 1.0), replace(course("off", 1.0), first=deep)))
    expected = [f"{stack} {number}" for stack in ("encoder", "decoder") for number in range(1, 12)]
    assert list(found.ticks or ()) == expected
    shallow, whole = found.curves
    assert list(shallow.xs) == [0, 1, 11, 12]
    assert list(whole.ys) == [*range(11), *range(11)]


def test_positions_are_those_of_the_statement_and_others_beside_them() -> None:
    experiment = experiments()["longer-texts"]
    small = dict(SMALL, longest=5, trained=4)
    request = experiment.request(None, "", dict(small, positions="learned alibi,sinusoidal"))  # type: ignore[arg-type]
    found = last(experiment.run(request))
    assert [str(row[0]) for row in found.figures[-1].rows] == ["sinusoidal", "learned", "ALiBi"]  # type: ignore[union-attr]
    dashed = [str(curve.name) for curve in found.figures[0].curves if curve.beside]  # type: ignore[union-attr]
    assert dashed == ["sinusoidal, tokens", "learned, tokens", "ALiBi, tokens"]
    for wrong in ("sinusoidal", "sinusoidal, learned, circular", ""):
        with pytest.raises(ValueError, match="write sinusoidal, learned, and beside them any of rotary, alibi, none"):
            next(experiment.run(experiment.request(None, "", dict(small, positions=wrong))))  # type: ignore[arg-type]


def test_the_forecast_counts_arms_seeds_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(trainings, "step_seconds", lambda arm, _setup: seen.append(arm.name) or len(seen))
    experiment = experiments()["recipe"]
    assert experiment.forecast is not None
    seconds = experiment.forecast(experiment.request(None, "", {"steps": 7}, (1, 2)))  # type: ignore[arg-type]
    assert seen == ["whole", "no Adam"]
    assert seconds == pytest.approx(5 * 2 * 7 * 1.5)


@pytest.mark.parametrize(
    ("name", "values", "refusal"),
    [
        ("recipe", {"d_model": 10}, "must be divisible by n_heads"),
        ("longer-texts", {"longest": 6}, "must be above the longest trained on"),
        ("longer-texts", {"positions": "learned"}, "write sinusoidal"),
    ],
)
def test_what_cannot_be_is_refused_by_the_forecast(name: str, values: dict, refusal: str) -> None:
    experiment = experiments()[name]
    assert experiment.forecast is not None
    with pytest.raises(ValueError, match=refusal):
        experiment.forecast(experiment.request(None, "", values))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_wide_heads_stand_beside_a_narrow_network_of_their_size(kind) -> None:
    setup = setup_of("heads", kind, d_model=32)
    made, _chance = learners(trainings.with_as_many(setup), setup, 300)
    counts = {each.arm.name: each.course.parameters for each in made}
    assert counts["as many"] == pytest.approx(counts["full"], rel=0.02)
    assert counts["split"] < 0.7 * counts["full"]


def test_depths_are_those_of_the_networks() -> None:
    setup = setup_of("depth", "encoder-decoder", depth=3, d_model=8)
    made, _chance = learners(trainings.with_depths(setup), setup, 300)
    found = {each.arm.name: (each.model.config.n_encoder_layers, each.trainer.settings.warmup) for each in made}
    assert found["post@2"] == (2, 40)
    assert found["pre@3 cold"] == (3, 0)
    assert len(found) == 8
    assert str(trainings.arm_name("pre@3 cold")) == "pre-norm, no warm-up, 3 layers"


@pytest.mark.slow
@pytest.mark.unchecked
def test_the_verdict_flips_where_the_formulas_are_exchanged() -> None:
    def exchanged(_setup) -> tuple[Arm, ...]:
        return Arm("post", {"norm_placement": "post"}), Arm("pre", change=put_norm_on_the_short_cut), Arm("wrong")

    values = {parameter.name: parameter.default for parameter in experiments()["wrong-pre-norm"].parameters}
    request = Request(None, "", values)  # type: ignore[arg-type]  # no model is looked at
    true = last(trainings.run_of("norms", trainings.judge_norms)(request))
    planted = last(trainings.run_of("norms", trainings.judge_norms, arms=exchanged)(request))
    assert (true.verdict, planted.verdict) == (Verdict.WRONG, Verdict.HOLDS)
