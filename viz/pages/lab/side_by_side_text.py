"""What trainings side by side are for: claims of tutorials, and sentences on them made of the numbers just measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from model.experiments.side_by_side import (
    Course,
    Side,
    ends,
    frequencies_alone,
    growth,
    perplexity,
    rightly,
    share_of_fall,
)
from model.experiments.training_claims import NormOnTheShortCut, answered_at, as_torch_begins, plain_descent
from model.experiments.training_verdicts import (
    answered,
    carries_over,
    helped,
    losses_of,
    slopes_of,
    smoothed_accuracy,
    smoothed_perplexity,
    without_residuals,
)
from model.network.attention import MultiHeadAttention
from model.network.layers import NoResidual, PostNorm, PreNorm, Residual
from model.network.positions import LearnedPositions, SinusoidalPositions
from model.network.transformer import Network
from model.training.gradients import Gradients
from model.training.losses import summed_loss
from model.training.schedule import learning_rate
from viz.i18n.catalogue import _
from viz.i18n.format import significant


@dataclass(frozen=True)
class Claim:
    """What one comparison of trainings is to judge. source: of the formula. verdicts: what it has found so far."""

    name: str
    claim: str
    truth: str
    formula: str
    source: str
    code: Sequence[Any]
    verdicts: Callable[[Side], list[str]]


def claims() -> dict[str, Claim]:
    """By the names of the comparisons."""
    return {
        "norms": Claim(
            name=_("A wrong pre-norm"),
            claim=_("Pre-norm is Sublayer(x) + LayerNorm(x)."),
            truth=_(
                "Pre-norm is x + Sublayer(LayerNorm(x)): the stream passes bare, and the sublayer reads it normalised. "
                "The formula that is said does both the other way round. The paper has LayerNorm(x + Sublayer(x)), "
                "post-norm."
            ),
            formula=r"\text{post: } \mathrm{LN}(x + S(x)) \qquad \text{pre: } x + S(\mathrm{LN}(x)) \qquad "
            r"\text{wrong: } S(x) + \mathrm{LN}(x)",
            source=_("Vaswani et al., 2017, section 3.1; Xiong et al., 2020, figure 1."),
            code=(PostNorm, PreNorm, NormOnTheShortCut),
            verdicts=norms,
        ),
        "depth": Claim(
            name=_("Post-norm or pre-norm"),
            claim=_("Post-norm needs warm-up and gets harder to train with depth; pre-norm does not."),
            truth=_(
                "With post-norm each block's norm stands on the stream, and gradients of the first step differ "
                "strongly from layer to layer; pre-norm, with a final norm, leaves a bare path. How much it matters "
                "depends on depth, rate and warm-up: choose them."
            ),
            formula=r"\left\lVert \frac{\partial L}{\partial \theta_\ell} \right\rVert \ \text{of each layer}\ \ell",
            source=_("Xiong et al., 2020, sections 3.3 and 4: the gradients of post-norm near the output are large."),
            code=(PostNorm, PreNorm, Gradients.norms, learning_rate),
            verdicts=depth,
        ),
        "residual": Claim(
            name=_("Residuals"),
            claim=_("The residual path gives the gradient a short cut; without it almost nothing trains."),
            truth=_(
                "x + Sublayer(x) has the derivative 1 + Sublayer′(x): the 1 reaches every layer. Without it the "
                "gradient is a product of all the layers in between."
            ),
            formula=r"\frac{\partial x_L}{\partial x_\ell} = "
            r"\prod_{i=\ell}^{L-1}\left(1 + \frac{\partial S_i}{\partial x_i}\right)"
            r"\qquad \text{without: } \prod_{i=\ell}^{L-1}\frac{\partial S_i}{\partial x_i}",
            source=_("He et al., 2016, “Identity mappings”, equation 5; Vaswani et al., 2017, section 3.1."),
            code=(Residual, NoResidual, Gradients.norms, frequencies_alone),
            verdicts=residual,
        ),
        "tying": Claim(
            name=_("Tied matrices"),
            claim=_("One matrix for embeddings and output saves parameters, at no cost."),
            truth=_(
                "It saves vocabulary × d_model weights for each matrix that is shared. Whether the loss is as low is "
                "to be measured; here the vocabulary is small, and so is what is saved."
            ),
            formula=r"\text{logits} = x W^\top, \quad W = E",
            source=_("Press and Wolf, 2017; Vaswani et al., 2017, section 3.4."),
            code=(Network.tie,),
            verdicts=tying,
        ),
        "heads": Claim(
            name=_("Width of heads"),
            claim=_("Heads may be narrow, d_model / h wide each, or as wide as the model each."),
            truth=_(
                "In the paper (section 3.2.2) each of h heads is d_model / h wide, which makes them together as dear "
                "as one wide head. Heads of full width have h times the attention parameters: more than speed differs."
            ),
            formula=r"W^Q_i, W^K_i, W^V_i \in \mathbb{R}^{d_\text{model} \times d_k}, \quad d_k = d_\text{model}/h",
            source=_("Vaswani et al., 2017, section 3.2.2."),
            code=(MultiHeadAttention,),
            verdicts=heads,
        ),
        "positions": Claim(
            name=_("Longer texts"),
            claim=_("Sinusoidal codes extend to lengths never trained on; learned positions do not."),
            truth=_(
                "The code of any position can be computed, but the network has never learnt to read it; a learned "
                "table has rows up to max_length, and those beyond the trained lengths are still as they were drawn."
            ),
            formula=r"x_p = E_{t_p}\sqrt{d_\text{model}} + \mathrm{PE}_p",
            source=_(
                "Vaswani et al., 2017, section 3.5, which supposes it without measuring; Press et al., 2022, measure "
                "it."
            ),
            code=(SinusoidalPositions, LearnedPositions, answered_at),
            verdicts=positions,
        ),
        "smoothing": Claim(
            name=_("Label smoothing"),
            claim=_("Label smoothing 0.1 makes perplexity worse and accuracy better."),
            truth=_(
                "That is what the paper says (section 5.4) of translation, where several words can be right. In a task "
                "with one right answer, smoothing may change accuracy little."
            ),
            formula=r"q_k = (1 - \varepsilon)\,[k = y] + \varepsilon / V",
            source=_("Vaswani et al., 2017, section 5.4; Szegedy et al., 2016, section 7."),
            code=(summed_loss,),
            verdicts=smoothing,
        ),
        "recipe": Claim(
            name=_("The recipe"),
            claim=_("A Transformer needs warm-up, Xavier initialisation, gradient clipping and Adam."),
            truth=_(
                "Each is said to matter; each is switched off here alone. In their places: the full rate from the "
                "first step, torch's own initial weights, gradients as they are, descent with momentum 0.9 at 25 times "
                "the rate."
            ),
            formula=r"\eta_t = \eta\,\tfrac{t}{w} \qquad "
            r"W \sim U\!\left(\pm\sqrt{6 / (n_\text{in}+n_\text{out})}\right)"
            r"\qquad g \leftarrow g \min(1, c / \lVert g \rVert)",
            source=_("Vaswani et al., 2017, section 5.3; Glorot and Bengio, 2010; Pascanu et al., 2013."),
            code=(learning_rate, Network.initialise, as_torch_begins, Gradients.clip, plain_descent),
            verdicts=recipe,
        ),
    }


def method() -> str:
    return _(
        "All arms begin with the same seed, learn from the same batches of a built-in task, one step of each in turn, "
        "by AdamW and a cosine schedule unless that is what differs, without dropout. The curves are smoothed with "
        "weight 0.9 of the past; the loss at the end is the mean of the last tenth of the steps. Clearly lower means "
        "by a tenth at least, and with every seed. Loss, validation and gradients are those that our own trainer "
        "reports. This is the code that runs:"
    )


# What trainings side by side are called, and their colours.

# Okabe and Ito's, in an order in which neighbours differ most; an arm keeps its own.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def arm_name(arm: str) -> str:
    return {
        "post": _("post-norm"),
        "post cold": _("post-norm, no warm-up"),
        "pre": _("pre-norm"),
        "pre cold": _("pre-norm, no warm-up"),
        "wrong": _("wrong pre-norm"),
        "on": _("with residuals"),
        "off": _("without residuals"),
        "untied": _("not tied"),
        "output": _("output tied to the decoder's embedding"),
        "all": _("all three tied"),
        "split": _("narrow heads"),
        "full": _("wide heads"),
        "sinusoidal": _("sinusoidal"),
        "learned": _("learned"),
        "rotary": _("rotary"),
        "alibi": "ALiBi",
        "none": _("no positions"),
        "sharp": _("no smoothing"),
        "smooth": _("label smoothing 0.1"),
        "whole": _("all of it"),
        "no warm-up": _("no warm-up"),
        "no Xavier": _("no Xavier"),
        "no clipping": _("no clipping"),
        "no Adam": _("no Adam"),
    }[arm]


def colours(courses: Iterable[Course]) -> dict[str, str]:
    """By arm, in the order in which they are trained."""
    arms = dict.fromkeys(course.arm for course in courses)
    return dict(zip(arms, COLOURS, strict=False))


# What has been found.

EARLY = 10  # steps before which nothing is said
LOSSLESS = ("positions", "smoothing")  # whose verdict is not on the loss of the training


def verdicts(name: str, side: Side) -> list[str]:
    """Sentences, one a line; the first says that this is not the end, where it is not."""
    if side.step < EARLY and not side.done:
        return [_("No verdict before step {step}.").format(step=EARLY)]
    head = [] if side.done else [_("So far, at step {step} of {steps}:").format(step=side.step, steps=side.steps)]
    found = [*head, *diverged(side), *claims()[name].verdicts(side)]
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
    verdict = {
        "lower": _("the first is clearly lower"),
        "higher": _("the first is clearly higher"),
        "same": _("no clear difference"),
    }[losses_of(side, one, other)]
    return _("Loss of {one}: {first}; of {other}: {second}; {verdict}.").format(
        one=arm_name(one), first=mean(first), other=arm_name(other), second=mean(second), verdict=verdict
    )


def gradients(side: Side, one: str, other: str) -> str:
    """How the gradients of the first step are spread over the layers."""
    first, second = growth(side, one), growth(side, other)
    found = slopes_of(side, one, other)
    if found is None:
        return _("The gradients of the first and the last layer cannot be compared: there is one layer, or one is 0.")
    if found == "same":
        verdict = _("no clear difference at this depth")
    else:
        verdict = _("nearer to the output: {arm}").format(arm=arm_name(one if found == "lower" else other))
    sentence = _(
        "Gradient at the first step, first layer over last layer of the last stack: {one} {first}, {other} {second}; "
        "{verdict}."
    )
    numbers = {"first": significant(first), "second": significant(second), "verdict": verdict}
    return sentence.format(one=arm_name(one), other=arm_name(other), **numbers)


def norms(side: Side) -> list[str]:
    """The wrong formula is given as pre-norm, and so it is judged by pre-norm; post-norm's loss is told beside."""
    verdict = {
        "higher": _("Here the wrong formula learns worse than pre-norm."),
        "lower": _("Here the wrong formula learns better than pre-norm; it is still another network."),
        "same": _(
            "On this task and depth, the wrong formula is not clearly worse than pre-norm: more layers may tell them "
            "apart."
        ),
    }[losses_of(side, "wrong", "pre")]
    return [verdict, compared(side, "wrong", "pre"), compared(side, "wrong", "post")]


def depth(side: Side) -> list[str]:
    needs = {arm: helped(side, arm) for arm in ("post", "pre")}
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
    losses, found = compared(side, "on", "off"), without_residuals(side)
    if found == "unlearnt":
        verdict = _("With residuals too, no more is learnt yet than how frequent each token is: train longer.")
    else:
        said = {
            "almost nothing": _("almost nothing is learnt, as said"),
            "clearly less": _("clearly less is learnt, but not nothing: more layers may make it so"),
            "clearly more": _("clearly more is learnt, against what is said"),
            "less": _("less is learnt, but not clearly: longer training or more layers may tell them apart"),
            "as much": _("as much is learnt, against what is said: more layers may tell them apart"),
        }[found]
        sentence = _(
            "Without residuals the loss falls {share} % as far below that of token frequencies as with them: {said}."
        )
        verdict = sentence.format(share=significant(100 * share_of_fall(side, "off", "on")), said=said)
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
    perplexities, tokens_right = smoothed_perplexity(side), smoothed_accuracy(side)
    if perplexities is None or tokens_right is None:
        return [_("Nothing has been validated yet.")]
    sharp, smooth = perplexity(side, "sharp"), perplexity(side, "smooth")
    before, after = rightly(side, "sharp"), rightly(side, "smooth")
    verdict = {
        "higher": _("better, as said"),
        "lower": _("worse, against what is said"),
        "same": _("no clear difference"),
    }[tokens_right]
    worse = {
        "higher": _("worse, as said"),
        "lower": _("better, against what is said"),
        "same": _("no clear difference"),
    }[perplexities]
    sentence = _("With smoothing the perplexity is {smooth} (without {sharp}): {verdict}.")
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
        pairs = answered(side, arm)
        if len(pairs) < len(side.of(arm)):  # a seed diverged, or has not been tested on longer texts yet
            continue
        within, longer = (fmean(shares) for shares in zip(*pairs, strict=True))
        verdict = {
            None: _("it has not learnt the task"),
            True: _("it carries over"),
            False: _("it does not carry over"),
        }[carries_over(within, longer)]
        numbers = {"within": significant(100 * within), "longer": significant(100 * longer), "verdict": verdict}
        sentence = _("{arm}, right to the character: up to length {trained} {within} %, beyond {longer} %; {verdict}.")
        said.append(sentence.format(arm=arm_name(arm), trained=side.trained, **numbers))
    return said
