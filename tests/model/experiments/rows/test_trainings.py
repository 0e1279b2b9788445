"""Verdicts of trainings: as the statement says, and the opposite where the opposite is planted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from model.experiments.experiment import Curves, Outcome, Request, Table, Verdict
from model.experiments.index import experiments
from model.experiments.rows import trainings
from model.experiments.runner import Report
from model.experiments.side_by_side import Answered, Arm, Course, Side, learners
from model.experiments.training_claims import put_norm_on_the_short_cut, setup_of

STEPS = 20
SMALL = {"steps": 2, "d_model": 8, "depth": 1, "warmup": 1}


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.experiments.side_by_side.PAIRS", 300)
    monkeypatch.setattr("model.experiments.training_claims.SOURCES", 2)


def course(arm: str, loss: float, seed: int = 1, parameters: int = 1000, slope: float = 1.0, **more) -> Course:
    norms = {"encoder.layers.0": 9.0, "decoder.layers.0": slope, "decoder.layers.1": 1.0}
    return Course(arm, seed, parameters, (loss,) * STEPS, (1e-3,) * STEPS, first=norms, seconds=0.01, **more)


def side(*courses: Course, **more) -> Side:
    return Side(courses, STEPS, 3.0, **more)


def last(reports: Iterator[Report[Outcome]]) -> Outcome:
    *_before, newest = reports
    return newest.result


@pytest.mark.parametrize(
    ("wrong", "expected"), [((2.0, 2.1), Verdict.WRONG), ((0.5, 0.6), Verdict.HOLDS), ((2.0, 0.5), Verdict.OPEN)]
)
def test_the_wrong_norm_is_judged_by_all_seeds(wrong: tuple[float, ...], expected: Verdict) -> None:
    made = [course(arm, 1.0, seed) for arm in ("post", "pre") for seed in (1, 2)]
    made += [course("wrong", loss, seed) for seed, loss in enumerate(wrong, start=1)]
    verdict, reason = trainings.judge_norms(side(*made))
    assert verdict is expected
    assert str(reason).count("wrong pre-norm ends at a loss of") == 2
    assert ("post-norm at 1: clearly higher" in str(reason)) == (expected is Verdict.WRONG)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({"post@2 cold": 2.0, "post@6": 1.5, "post@6 cold": 2.0}, Verdict.HOLDS),
        ({"post@2 cold": 2.0, "post@6": 1.5, "post@6 cold": 2.0, "pre@6": 1.5, "pre@6 cold": 1.5}, Verdict.ONLY_IF),
        ({"post@2 cold": 2.0, "post@6 cold": 2.0}, Verdict.ONLY_IF),
        ({"post@6 cold": 2.0}, Verdict.ONLY_IF),
        ({"post@6 cold": 2.0, "pre@6 cold": 2.0}, Verdict.WRONG),
        ({"pre@6 cold": 2.0}, Verdict.WRONG),
        ({}, Verdict.OPEN),
    ],
)
def test_warm_up_may_help_at_each_depth(losses: dict[str, float], expected: Verdict) -> None:
    arms = [f"{arm}@{depth}{cold}" for depth in (2, 6) for arm in ("post", "pre") for cold in ("", " cold")]
    verdict, reason = trainings.judge_depth(side(*(course(arm, losses.get(arm, 1.0)) for arm in arms)))
    assert verdict is expected
    assert "with 6 layers post-norm ends at a loss of 1" in str(reason)
    harder = {arm for arm in ("post", "pre") if losses.get(f"{arm}@6", 1.0) > 1}
    who = {0: "neither learns", 1: "post-norm alone learns", 2: "both learn"}[len(harder)]
    assert f"with more layers {who} clearly less" in str(reason)


@pytest.mark.parametrize(
    ("slope", "words"),
    [
        (0.1, "post-norm's are nearer"),
        (10.0, "pre-norm's are nearer"),
        (1.1, "no clear difference"),
        (None, "cannot be"),
    ],
)
def test_gradients_may_be_nearer_to_the_output_with_either(slope: float | None, words: str) -> None:
    made = [course(f"{arm}@6{cold}", 1.0) for arm in ("post", "pre") for cold in ("", " cold")]
    first = {"decoder.layers.0": slope, "decoder.layers.1": 1.0} if slope else {"decoder.layers.0": 1.0}
    made[0] = replace(made[0], first=first)
    _verdict, reason = trainings.judge_depth(side(*made))
    assert words in str(reason)


@pytest.mark.parametrize(
    ("on", "off", "expected"), [(1.0, 0.1, Verdict.HOLDS), (1.0, 9.0, Verdict.WRONG), (1.0, 1.5, Verdict.OPEN)]
)
def test_the_gradient_may_grow_or_vanish(on: float, off: float, expected: Verdict) -> None:
    verdict, reason = trainings.judge_gradient(side(course("on", 1.0, slope=on), course("off", 1.0, slope=off)))
    assert verdict is expected
    assert f"{off:.3g} without" in str(reason)


@pytest.mark.parametrize(
    ("on", "off", "expected"),
    [
        (1.0, 2.9, Verdict.HOLDS),
        (1.0, 2.0, Verdict.ONLY_IF),
        (1.0, 1.0, Verdict.WRONG),
        (1.0, 0.5, Verdict.WRONG),
        (2.5, 2.7, Verdict.OPEN),  # less is learnt, but the losses are not clearly apart
        (2.9, 3.0, Verdict.OPEN),
    ],
)
def test_residuals_may_matter_or_not(on: float, off: float, expected: Verdict) -> None:
    verdict, _reason = trainings.judge_residual(side(course("on", on), course("off", off)))
    assert verdict is expected


def test_residuals_that_diverge_with_one_seed_have_not_learnt() -> None:
    lost = Course("on", 2, 1000, (9.0,), (1e-3,), diverged=2)
    made = side(course("on", 1.0), course("off", 2.9), lost, course("off", 2.9, 2))
    verdict, reason = trainings.judge_residual(made)
    assert verdict is Verdict.OPEN
    assert "train longer" in str(reason)


def test_one_layer_has_no_spread_of_gradients() -> None:
    arms = [replace(course(arm, 1.0), first={"decoder.layers.0": 1.0}) for arm in ("on", "off")]
    verdict, reason = trainings.judge_gradient(side(*arms))
    assert verdict is Verdict.OPEN
    assert "cannot be compared" in str(reason)


@pytest.mark.parametrize(("post", "pre", "expected"), [(1.0, 2.0, Verdict.HOLDS), (2.0, 1.0, Verdict.WRONG)])
def test_the_wrong_norm_is_judged_by_pre_norm_and_not_by_post_norm(post: float, pre: float, expected: Verdict) -> None:
    verdict, _reason = trainings.judge_norms(side(course("post", post), course("pre", pre), course("wrong", 1.5)))
    assert verdict is expected


@pytest.mark.parametrize(
    ("output", "every", "saved", "expected"),
    [
        (1.0, 1.0, 100, Verdict.HOLDS),
        (1.5, 1.0, 100, Verdict.ONLY_IF),
        (1.5, 1.5, 100, Verdict.WRONG),
        (1.0, 1.0, 0, Verdict.WRONG),
    ],
)
def test_tying_may_cost_or_save_nothing(output: float, every: float, saved: int, expected: Verdict) -> None:
    tied = [course("output", output, parameters=1000 - saved), course("all", every, parameters=1000 - 2 * saved)]
    verdict, reason = trainings.judge_tying(side(course("untied", 1.0), *tied))
    assert verdict is expected
    assert f"of 1,000 parameters tying saves up to {2 * saved}, {saved / 5:g} %" in str(reason)


@pytest.mark.parametrize(
    ("full", "equal", "expected"),
    [
        (0.5, 1.0, Verdict.HOLDS),
        (0.5, 0.5, Verdict.ONLY_IF),
        (2.0, 1.0, Verdict.WRONG),
        (1.0, 1.0, Verdict.OPEN),
    ],
)
def test_wide_heads_are_judged_beside_as_many_parameters(full: float, equal: float, expected: Verdict) -> None:
    arms = [course("split", 1.0), course("full", full, parameters=2000), course("as many", equal, parameters=2000)]
    verdict, reason = trainings.judge_heads(side(*arms))
    assert verdict is expected
    assert "with 2 times the parameters and 1 times the time" in str(reason)


@pytest.mark.parametrize(
    ("loss", "right", "expected"),
    [(1.0, 0.9, Verdict.HOLDS), (1.0, 0.7, Verdict.ONLY_IF), (0.1, 0.9, Verdict.ONLY_IF), (0.1, 0.5, Verdict.WRONG)],
)
def test_smoothing_may_help_or_not(loss: float, right: float, expected: Verdict) -> None:
    sharp = course("sharp", 1.0, validations=((STEPS, 0.5, 0.7),))
    verdict, reason = trainings.judge_smoothing(side(sharp, course("smooth", 1.0, validations=((STEPS, loss, right),))))
    assert verdict is expected
    assert f"perplexity is {math.exp(loss):.3g}, without {math.exp(0.5):.3g}" in str(reason)


def test_seeds_that_disagree_on_smoothing_show_no_difference() -> None:
    made = [course("sharp", 1.0, seed, validations=((STEPS, 0.5, 0.7),)) for seed in (1, 2)]
    made += [course("smooth", 1.0, seed, validations=((STEPS, 1.0, right),)) for seed, right in ((1, 0.9), (2, 0.6))]
    verdict, reason = trainings.judge_smoothing(side(*made))
    assert verdict is Verdict.ONLY_IF
    assert str(reason).endswith("75 % and 70 %: no clear difference")


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((2.0, 2.0, 2.0, 2.0), Verdict.HOLDS),
        ((1.0, 2.0, 1.0, 1.0), Verdict.ONLY_IF),
        ((1.0, 1.0, 1.0, 0.5), Verdict.WRONG),
    ],
)
def test_the_recipe_may_need_each_of_its_parts_or_none(losses: tuple[float, ...], expected: Verdict) -> None:
    names = ("no warm-up", "no Xavier", "no clipping", "no Adam")
    arms = [course(arm, loss) for arm, loss in zip(names, losses, strict=True)]
    verdict, reason = trainings.judge_recipe(side(course("whole", 1.0), *arms))
    assert verdict is expected
    assert ("no Xavier" in str(reason).split("(")[0]) == (losses[1] > 1)
    assert trainings.judge_recipe(side(course("whole", 2.9), *arms))[0] is Verdict.OPEN


def test_an_arm_that_diverged_is_said_to() -> None:
    lost = Course("no Adam", 1, 1000, (9.0,), (1e-3,), diverged=2)
    whole = replace(side(course("whole", 1.0), lost), steps=STEPS)
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
        ((1.0, 0.9), (1.0, 0.9), Verdict.ONLY_IF),
        ((0.2, 0.1), (1.0, 0.1), Verdict.OPEN),
    ],
)
def test_longer_texts_may_be_answered_or_not(sines, table, expected: Verdict) -> None:
    tests = tuple(
        Answered(arm, 1, length, exact, exact)
        for arm, pair in (("sinusoidal", sines), ("learned", table))
        for length, exact in zip((8, 16), pair, strict=True)
    )
    tested = side(course("sinusoidal", 1.0), course("learned", 1.0), tests=tests, due=4, trained=8)
    verdict, reason = trainings.judge_positions(tested)
    assert verdict is expected
    assert f"sinusoidal {100 * sines[0]:.3g} % and {100 * sines[1]:.3g} %" in str(reason)
    ends = {None: "it has not learnt the task", True: "it carries over", False: "it does not carry over"}
    carries = None if sines[0] < 0.5 else sines[1] > 0.5
    assert str(trainings.carried(tested)[0]).startswith(f"sinusoidal: {ends[carries]}")
    other = replace(tested, tests=(*tests, *(replace(each, seed=2, exact=1.0) for each in tests)), due=8)
    if expected is Verdict.HOLDS:  # with seed 2 the learned positions carry over
        assert trainings.judge_positions(other)[0] is Verdict.OPEN


@pytest.mark.parametrize("name", [each.name for each in trainings.EXPERIMENTS])
def test_every_one_runs_with_curves_over_the_seeds(name: str) -> None:
    experiment = experiments()[name]
    small = dict(SMALL, longest=5, trained=4) if name == "longer-texts" else SMALL
    reports = list(experiment.run(experiment.request(None, "", small, (1, 2))))  # type: ignore[arg-type]
    assert str(reports[0].result.reason) == "so far, at step 1 of 2"
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
    assert (list(curve.xs), list(curve.ys)) == ([0, 2], [2.0, 4.0])
    assert list(found.ticks or ()) == ["encoder 1", "decoder 1", "decoder 2"]


def test_layers_are_drawn_in_their_order_whatever_the_depths() -> None:
    deep = {f"{stack}.layers.{number}": float(number) for stack in ("encoder", "decoder") for number in range(11)}
    found = trainings.gradients(side(course("on", 1.0), replace(course("off", 1.0), first=deep)))
    expected = [f"{stack} {number}" for stack in ("encoder", "decoder") for number in range(1, 12)]
    assert list(found.ticks or ()) == expected
    shallow, whole = found.curves
    assert list(shallow.xs) == [0, 11, 12]
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
    made, _chance = learners(trainings.at_depths(setup), setup, 300)
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
    request = Request(None, "", values, (1,))  # type: ignore[arg-type]  # no model is looked at
    true = last(trainings.run_of("norms", trainings.judge_norms)(request))
    planted = last(trainings.run_of("norms", trainings.judge_norms, arms=exchanged)(request))
    assert (true.verdict, planted.verdict) == (Verdict.WRONG, Verdict.HOLDS)
