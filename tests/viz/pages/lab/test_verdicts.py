"""Verdicts on made numbers: each can come out either way, and says when it is not the end."""

from __future__ import annotations

import math

import pytest

from model.experiments.side_by_side import Answered, Course, Side
from model.experiments.training_claims import COMPARISONS
from viz.pages.lab.side_by_side import every_number, results
from viz.pages.lab.side_by_side_text import verdicts

STEPS = 20


def course(arm: str, loss: float, seed: int = 1, parameters: int = 1000, seconds: float = 0.01, **more) -> Course:
    norms = more.pop("first", {"encoder.layers.0": 1.0, "decoder.layers.0": 1.0, "decoder.layers.1": 1.0})
    return Course(arm, seed, parameters, (loss,) * STEPS, (1e-3,) * STEPS, first=norms, seconds=seconds, **more)


def side(*courses: Course, chance: float = 3.0, **more) -> Side:
    return Side(courses, STEPS, chance, **more)


def said(name: str, shown: Side) -> str:
    return " ".join(verdicts(name, shown))


def test_the_wrong_norm_may_be_worse_better_or_as_good() -> None:
    made = {loss: side(course("post", 1.0), course("pre", 1.0), course("wrong", loss)) for loss in (2.0, 1.05, 0.5)}
    assert "the wrong formula learns worse" in said("norms", made[2.0])
    assert "is not clearly worse" in said("norms", made[1.05])
    assert "the wrong formula learns better" in said("norms", made[0.5])


@pytest.mark.parametrize(
    ("post", "pre", "words", "beside"),
    [
        (1.0, 2.0, "learns better than pre-norm", "of post-norm: 1; the first is clearly higher."),
        (2.0, 1.0, "learns worse than pre-norm", "of post-norm: 2; the first is clearly lower."),
        (1.0, 1.5, "is not clearly worse than pre-norm", "of post-norm: 1; the first is clearly higher."),
    ],
)
def test_the_wrong_norm_is_judged_by_pre_norm_and_not_by_post_norm(post, pre, words, beside) -> None:
    found = said("norms", side(course("post", post), course("pre", pre), course("wrong", 1.5)))
    assert words in found
    assert beside in found


def test_several_seeds_must_agree() -> None:
    pair = [course("post", 1.0), course("pre", 1.0), course("wrong", 2.0)]
    agreed = side(*pair, *(course(each.arm, each.losses[0] + 0.1, 2) for each in pair))
    assert "learns worse" in said("norms", agreed)
    assert "one seed" not in said("norms", agreed)
    apart = side(*pair, course("post", 1.0, 2), course("pre", 1.0, 2), course("wrong", 0.9, 2))
    assert "is not clearly worse" in said("norms", apart)
    assert "one seed" in said("norms", side(*pair))


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ((1.0, 2.0, 1.0, 1.0), "helps post-norm clearly and pre-norm not"),
        ((1.0, 2.0, 1.0, 2.0), "helps both"),
        ((1.0, 1.0, 1.0, 2.0), "Against what is said"),
        ((1.0, 1.0, 1.0, 1.0), "helps neither"),
    ],
)
def test_warm_up_may_help_one_both_or_none(losses, words) -> None:
    arms = ("post", "post cold", "pre", "pre cold")
    found = said("depth", side(*(course(arm, loss) for arm, loss in zip(arms, losses, strict=True))))
    assert words in found
    assert "no clear difference at this depth" in found


@pytest.mark.parametrize(("last", "words"), [(10.0, "post-norm"), (0.1, "pre-norm")])
def test_gradients_may_grow_with_either(last, words) -> None:
    norms = {"encoder.layers.0": 99.0, "decoder.layers.0": 1.0, "decoder.layers.1": last}
    arms = [course(arm, 1.0, first=norms) for arm in ("post", "post cold")]
    found = said("depth", side(*arms, course("pre", 1.0), course("pre cold", 1.0)))
    assert f"nearer to the output: {words}." in found
    assert f"post-norm {1 / last:g}, pre-norm 1;" in found


def test_one_layer_has_no_spread_of_gradients() -> None:
    arms = [course(arm, 1.0, first={"decoder.layers.0": 1.0}) for arm in ("on", "off")]
    found = said("residual", side(*arms))
    assert "cannot be compared: there is one layer" in found
    assert "nan" not in found


def test_residuals_that_diverge_with_one_seed_have_not_learnt() -> None:
    lost = Course("on", 2, 1000, (9.0,), (1e-3,), diverged=2)
    found = said("residual", side(course("on", 1.0), course("off", 2.9), lost, course("off", 2.9, 2)))
    assert "train longer" in found
    assert "as said" not in found


@pytest.mark.parametrize(
    ("on", "off", "words"),
    [
        (1.0, 2.8, "10 % as far below that of token frequencies as with them: almost nothing is learnt, as said"),
        (1.0, 2.0, "50 % as far below that of token frequencies as with them: clearly less"),
        (1.0, 1.0, "100 % as far below that of token frequencies as with them: as much is learnt, against what"),
        (1.0, 1.1, "95 % as far below that of token frequencies as with them: as much is learnt, against what"),
        (2.0, 1.0, "200 % as far below that of token frequencies as with them: clearly more is learnt, against what"),
        (2.9, 3.0, "train longer"),
    ],
)
def test_residuals_may_matter_or_not(on, off, words) -> None:
    assert words in said("residual", side(course("on", on), course("off", off)))


def test_a_loss_that_falls_less_without_residuals_is_not_as_much_even_where_losses_are_not_clearly_apart() -> None:
    found = said("residual", side(course("on", 1.75), course("off", 1.93), chance=2.0))
    assert "28 % as far below that of token frequencies as with them: less is learnt, but not clearly" in found
    assert "as much" not in found


def test_counts_and_times_are_those_measured() -> None:
    tied = side(course("untied", 1.0), course("output", 2.0, parameters=900), course("all", 0.5, parameters=800))
    found = said("tying", tied)
    assert "900 parameters, 100 fewer (10 %)" in found
    assert "800 parameters, 200 fewer (20 %)" in found
    assert found.index("clearly higher") < found.index("clearly lower")
    wide = side(course("split", 1.0), course("full", 1.0, parameters=2000, seconds=0.03))
    assert "2 times the parameters, and a step takes 3 times" in said("heads", wide)
    assert "no clear difference" in said("heads", wide)


@pytest.mark.parametrize(
    ("loss", "right", "words"),
    [
        (1.0, 0.9, ("worse, as said", "better, as said")),
        (0.1, 0.5, (": better, against", "; worse, against")),
        (0.5001, 0.5, (": no clear difference", "; worse, against")),
        (1.0, 0.701, ("worse, as said", "no clear difference")),
    ],
)
def test_smoothing_may_help_or_not(loss, right, words) -> None:
    sharp = course("sharp", 1.0, validations=((STEPS, 0.5, 0.7),))
    found = said("smoothing", side(sharp, course("smooth", 1.0, validations=((STEPS, loss, right),))))
    assert all(each in found for each in words)
    assert f"{math.exp(loss):.3g} (without {math.exp(0.5):.3g})" in found


def test_longer_texts_may_be_answered_or_not() -> None:
    tests = [("sinusoidal", 8, 1.0), ("sinusoidal", 16, 0.9), ("learned", 8, 1.0), ("learned", 16, 0.1)]
    tests += [("none", 8, 0.1), ("none", 16, 0.1)]
    found = verdicts(
        "positions",
        side(
            *(course(arm, 1.0) for arm in ("sinusoidal", "learned", "none")),
            tests=tuple(Answered(arm, 1, length, exact, exact) for arm, length, exact in tests),
            trained=8,
            due=6,
        ),
    )
    assert found[0].startswith("sinusoidal")
    assert found[0].endswith("100 %, beyond 90 %; it carries over.")
    assert found[1].endswith("10 %; it does not carry over.")
    assert found[2].endswith("it has not learnt the task.")
    waiting = side(course("sinusoidal", 1.0), due=6)
    assert verdicts("positions", waiting)[0].startswith("So far, at step 20 of 20")


def test_divergence_is_said_and_counts_as_no_end_of_the_loss() -> None:
    lost = Course("no Adam", 1, 1000, (9.0,), (1e-3,), diverged=2)
    shown = side(course("whole", 1.0), lost)
    found = said("recipe", shown)
    assert "no Adam diverged at step 2" in found
    assert "Loss of no Adam: none; of all of it: 1; the first is clearly higher." in found
    assert results(shown)["loss at the end"].tolist() == ["1", "–"]


def test_before_the_end_it_says_so_and_before_much_is_seen_nothing() -> None:
    for steps, words in ((3, "No verdict before step 10"), (12, "So far, at step 12 of 20")):
        courses = [Course(arm, 1, 1000, (1.0,) * steps) for arm in ("post", "pre", "wrong")]
        assert verdicts("norms", side(*courses))[0].startswith(words)
    done = side(*(course(arm, 1.0) for arm in ("post", "pre", "wrong")))
    assert not verdicts("norms", done)[0].startswith(("So far", "No verdict"))


def test_the_table_has_every_number() -> None:
    shown = side(course("post", 1.5, validations=((20, 0.5, 0.25),)), tests=(Answered("post", 1, 9, 0.5, 0.75),))
    frame = every_number(shown)
    assert len(frame) == 2 * STEPS + 2 + 3 + 2
    row = results(shown).iloc[0]
    assert (row["parameters"], row["steps a second"], row["loss at the end"]) == ("1,000", "100", "1.5")
    assert (row["perplexity"], row["tokens right, %"]) == ("1.65", "25")
    assert set(COMPARISONS) == {"norms", "depth", "residual", "tying", "heads", "positions", "smoothing", "recipe"}
