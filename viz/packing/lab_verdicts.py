"""What trainings side by side have found, in sentences made of the numbers just measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from model.experiments.side_by_side import Side, clearly_below, ends, growth, learnt, perplexity, rightly, share_of_fall
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.lab_arms import arm_name

EARLY = 10  # steps before which nothing is said
HOLDS = 0.5  # of the answers at the lengths trained on: with fewer right of longer texts, codes do not carry over
FACTOR = 2.0  # between gradients: less is about the same
ALMOST_NOTHING = 0.25  # of the fall of the loss that residuals give
AS_MUCH = 0.9  # of it, and more
SHARE = 0.01  # of tokens predicted rightly, or of a perplexity: less is no difference
LOSSLESS = ("positions", "smoothing")  # whose verdict is not on the loss of the training


def verdicts(name: str, side: Side) -> list[str]:
    """Sentences, one a line; the first says that this is not the end, where it is not."""
    if side.step < EARLY and not side.done:
        return [_("No verdict before step {step}.").format(step=EARLY)]
    head = [] if side.done else [_("So far, at step {step} of {steps}:").format(step=side.step, steps=side.steps)]
    found = [*head, *diverged(side), *SAYS[name](side)]
    if name not in LOSSLESS and len({course.seed for course in side.courses}) == 1:
        found.append(_("This is one seed: with several, a loss counts as lower only if it is lower with all of them."))
    return found


def diverged(side: Side) -> list[str]:
    sentence = _("{arm} diverged at step {step}: its loss or a gradient was no finite number.")
    lost = [course for course in side.courses if course.diverged]
    return [sentence.format(arm=arm_name(course.arm), step=course.diverged) for course in lost]


def mean(values: Sequence[float]) -> str:
    middle = fmean(values)
    return _("none") if math.isnan(middle) or math.isinf(middle) else significant(middle)


def compared(side: Side, one: str, other: str) -> str:
    """Two losses, and whether the first is the lower one."""
    first, second = ends(side.of(one)), ends(side.of(other))
    if clearly_below(first, second):
        verdict = _("the first is clearly lower")
    elif clearly_below(second, first):
        verdict = _("the first is clearly higher")
    else:
        verdict = _("no clear difference")
    return _("Loss of {one}: {first}; of {other}: {second}; {verdict}.").format(
        one=arm_name(one), first=mean(first), other=arm_name(other), second=mean(second), verdict=verdict
    )


def gradients(side: Side, one: str, other: str) -> str:
    """How the gradients of the first step are spread over the layers."""
    first, second = growth(side, one), growth(side, other)
    if math.isnan(first) or math.isnan(second):
        return _("The gradients of the first and the last layer cannot be compared: there is one layer, or one is 0.")
    if max(first, second) <= FACTOR * min(first, second):
        verdict = _("no clear difference at this depth")
    else:
        verdict = _("nearer to the output: {arm}").format(arm=arm_name(one if first < second else other))
    sentence = _(
        "Gradient at the first step, first layer over last layer of the last stack: {one} {first}, {other} {second}; "
        "{verdict}."
    )
    numbers = {"first": significant(first), "second": significant(second), "verdict": verdict}
    return sentence.format(one=arm_name(one), other=arm_name(other), **numbers)


def norms(side: Side) -> list[str]:
    """The wrong formula is given as pre-norm, and so it is judged by pre-norm; post-norm's loss is told beside."""
    wrong, pre = ends(side.of("wrong")), ends(side.of("pre"))
    if clearly_below(pre, wrong):
        verdict = _("Here the wrong formula learns worse than pre-norm.")
    elif clearly_below(wrong, pre):
        verdict = _("Here the wrong formula learns better than pre-norm; it is still another network.")
    else:
        verdict = _(
            "On this task and depth, the wrong formula is not clearly worse than pre-norm: more layers may tell them "
            "apart."
        )
    return [verdict, compared(side, "wrong", "pre"), compared(side, "wrong", "post")]


def depth(side: Side) -> list[str]:
    needs = {
        arm: clearly_below(ends(side.of(arm)), ends(side.of(f"{arm} cold"))) for arm in ("post", "pre")
    }  # a loss that warm-up makes clearly lower
    if needs["post"] and not needs["pre"]:
        said = _("As said, warm-up helps post-norm clearly and pre-norm not.")
    elif needs["post"] and needs["pre"]:
        said = _("Warm-up helps both clearly here.")
    elif needs["pre"]:
        said = _("Against what is said, warm-up helps pre-norm clearly here and post-norm not.")
    else:
        said = _("Warm-up helps neither clearly here: a higher rate or more layers may.")
    pairs = (("post", "pre"), ("post", "post cold"), ("pre", "pre cold"))
    return [gradients(side, "post", "pre"), said, *(compared(side, *pair) for pair in pairs)]


def residual(side: Side) -> list[str]:
    losses = compared(side, "on", "off")
    if not learnt(side, "on"):
        verdict = _("With residuals too, no more is learnt yet than how frequent each token is: train longer.")
    else:
        share = share_of_fall(side, "off", "on")
        on, off = ends(side.of("on")), ends(side.of("off"))
        if share < ALMOST_NOTHING:
            said = _("almost nothing is learnt, as said")
        elif clearly_below(on, off):
            said = _("clearly less is learnt, but not nothing: more layers may make it so")
        elif clearly_below(off, on):
            said = _("clearly more is learnt, against what is said")
        elif share < AS_MUCH:
            said = _("less is learnt, but not clearly: longer training or more layers may tell them apart")
        else:
            said = _("as much is learnt, against what is said: more layers may tell them apart")
        sentence = _(
            "Without residuals the loss falls {share} % as far below that of token frequencies as with them: {said}."
        )
        verdict = sentence.format(share=significant(100 * share), said=said)
    return [verdict, losses, gradients(side, "on", "off")]


def tying(side: Side) -> list[str]:
    sentence = _("{arm}: {count} parameters, {saved} fewer ({share} %).")
    full = side.of("untied")[0].parameters
    said = []
    for arm in ("output", "all"):
        if tied := side.of(arm):
            saved = full - tied[0].parameters
            count, share = f"{tied[0].parameters:,}", significant(100 * saved / full)
            said.append(sentence.format(arm=arm_name(arm), count=count, saved=f"{saved:,}", share=share))
            said.append(compared(side, arm, "untied"))
    return said


def heads(side: Side) -> list[str]:
    narrow, wide = side.of("split"), side.of("full")
    times = fmean(each.seconds for each in wide) / fmean(each.seconds for each in narrow)
    sentence = _("Wide heads have {more} times the parameters, and a step takes {times} times as long.")
    more = wide[0].parameters / narrow[0].parameters
    return [
        sentence.format(more=significant(more), times=significant(times)),
        compared(side, "full", "split"),
    ]


def smoothing(side: Side) -> list[str]:
    sharp, smooth = perplexity(side, "sharp"), perplexity(side, "smooth")
    if math.isnan(sharp) or math.isnan(smooth):
        return [_("Nothing has been validated yet.")]
    before, after = rightly(side, "sharp"), rightly(side, "smooth")
    if abs(after - before) <= SHARE:
        verdict = _("no clear difference")
    else:
        verdict = _("better, as said") if after > before else _("worse, against what is said")
    sentence = _("With smoothing the perplexity is {smooth} (without {sharp}): {verdict}.")
    if abs(smooth / sharp - 1) <= SHARE:
        worse = _("no clear difference")
    else:
        worse = _("worse, as said") if smooth > sharp else _("better, against what is said")
    tokens = _("Tokens predicted rightly: with smoothing {smooth} %, without {sharp} %; {verdict}.")
    return [
        sentence.format(smooth=significant(smooth), sharp=significant(sharp), verdict=worse),
        tokens.format(smooth=significant(100 * after), sharp=significant(100 * before), verdict=verdict),
    ]


def recipe(side: Side) -> list[str]:
    arms = [course.arm for course in side.courses if course.arm != "whole"]
    return [compared(side, arm, "whole") for arm in dict.fromkeys(arms)]


def positions(side: Side) -> list[str]:
    if not side.tests:
        return [_("The longer texts are tested once the trainings have ended.")]
    said = []
    for arm in dict.fromkeys(each.arm for each in side.tests):
        inside = [each.exact for each in side.tests if each.arm == arm and each.length <= side.trained]
        beyond = [each.exact for each in side.tests if each.arm == arm and each.length > side.trained]
        if not inside or not beyond or any(map(math.isnan, (*inside, *beyond))):
            continue
        within, longer = fmean(inside), fmean(beyond)
        if within < HOLDS:
            verdict = _("it has not learnt the task")
        else:
            verdict = _("it carries over") if longer >= HOLDS * within else _("it does not carry over")
        numbers = {"within": significant(100 * within), "longer": significant(100 * longer), "verdict": verdict}
        sentence = _("{arm}, right to the character: up to length {trained} {within} %, beyond {longer} %; {verdict}.")
        said.append(sentence.format(arm=arm_name(arm), trained=side.trained, **numbers))
    return said


SAYS = {
    "norms": norms,
    "depth": depth,
    "residual": residual,
    "tying": tying,
    "heads": heads,
    "positions": positions,
    "smoothing": smoothing,
    "recipe": recipe,
}
