"""Statements that only a training can judge: arms that differ in one thing learn from the same batches (rows 9, 24, 27,
28, 29, 30, 32, 34, 35)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from model.analysis.downsample import smoothed
from model.data.tasks import TASKS
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    TrainedModel,
)
from model.experiments.rule import Quantity, Verdict, few, spread
from model.experiments.runner import Report
from model.experiments.side_by_side import (
    Arm,
    Course,
    Setup,
    Side,
    ends,
    growth,
    growths,
    learnt,
    perplexities,
    perplexity,
    rightly,
    shares_of_fall,
    shares_of_right,
    stacks,
    step_seconds,
    train,
)
from model.experiments.training_claims import (
    COMPARISONS,
    TRAINING,
    NormOnTheShortCut,
    answered_at,
    as_torch_begins,
    lengths_of,
    plain_descent,
    require_longer,
    setup_of,
    train_short_test_long,
)
from model.experiments.training_verdicts import (
    Holds,
    answered,
    at_depths,
    both,
    carries_over,
    contrast,
    knows,
    losses_of,
    needs,
    of_halves,
    slopes_of,
    smoothed_accuracy,
    smoothed_perplexity,
    whether_learnt,
    without_residuals,
)
from model.message import InputError, Message, say
from model.network.attention import MultiHeadAttention
from model.network.layers import NoResidual, PostNorm, PreNorm, Residual
from model.network.positions import LearnedPositions, SinusoidalPositions
from model.network.transformer import Network
from model.training.gradients import Gradients
from model.training.losses import summed_loss
from model.training.schedule import learning_rate

KEEP = 0.9  # weight of the past in a smoothed curve
POINTS = 200  # of a curve
SHALLOW = 2  # layers of each stack beside which a deeper one stands
DRAWN = 0.02  # share of the work between two new figures
SAID = ("sinusoidal", "learned")  # positions that row 9 is about
NORMS = ("post", "pre")  # placements that row 28 is about
STACKS = {"encoder": say("encoder"), "decoder": say("decoder")}

Arms = Callable[[Setup], Sequence[Arm]]
Found = tuple[Verdict, Message]

ARMS: dict[str, str] = {
    "post": say("post-norm"),
    "post cold": say("post-norm, no warm-up"),
    "pre": say("pre-norm"),
    "pre cold": say("pre-norm, no warm-up"),
    "wrong": say("wrong pre-norm"),
    "on": say("with residuals"),
    "off": say("without residuals"),
    "untied": say("not tied"),
    "output": say("output tied to the decoder's embedding"),
    "all": say("all three tied"),
    "split": say("narrow heads"),
    "as many": say("narrow heads, as many parameters"),
    "full": say("wide heads"),
    "sinusoidal": say("sinusoidal"),
    "learned": say("learned"),
    "rotary": say("rotary"),
    "alibi": "ALiBi",
    "none": say("no positions"),
    "sharp": say("no smoothing"),
    "smooth": say("label smoothing 0.1"),
    "whole": say("all of it"),
    "no warm-up": say("no warm-up"),
    "no Xavier": say("no Xavier"),
    "no clipping": say("no clipping"),
    "no Adam": say("no Adam"),
}


def arm_name(arm: str) -> str:
    """Name of an arm, with its layers where the arms differ in them."""
    bare, _at, depth = arm.partition("@")
    if not depth:
        return ARMS[bare]
    layers, _space, cold = depth.partition(" ")
    return say("{arm}, {layers} layers", arm=ARMS[f"{bare} {cold}".strip()], layers=int(layers))


# Arms that the comparisons do not have.


def with_depths(setup: Setup) -> Sequence[Arm]:
    """Post-norm and pre-norm, with and without warm-up, each with few layers and with those of the setup."""
    depths = dict.fromkeys((min(SHALLOW, setup.depth), setup.depth))
    return [
        replace(
            arm,
            name=f"{bare}@{depth}{space}{cold}",
            options={**arm.options, "n_encoder_layers": depth, "n_decoder_layers": depth},
        )
        for depth in depths
        for arm in COMPARISONS["depth"].arms(setup)
        for bare, space, cold in [arm.name.partition(" ")]
    ]


def chosen_positions(arms: Sequence[Arm], text: str) -> Sequence[Arm]:
    """Arms of the positions that a text names: those of the statement, and others beside them.

    Raises:
        ValueError: it leaves one of the statement's out, or names another.
    """
    names, known = text.replace(",", " ").split(), [arm.name for arm in arms]
    if not set(SAID) <= set(names) <= set(known):
        others = ", ".join(name for name in known if name not in SAID)
        said = ", ".join(SAID)
        raise InputError(
            "positions are {text!r}: write {said}, and beside them any of {others}", text=text, said=said, others=others
        )
    return [arm for arm in arms if arm.name in names]


def with_as_many(setup: Setup) -> Sequence[Arm]:
    """Narrow heads, wide heads, and narrow ones whose feed-forward net has the parameters that wide heads add: four
    matrices (h - 1) d_model² larger in a layer, eight in one with cross-attention, against two of it.
    """
    more = (3 if setup.kind == "encoder-decoder" else 2) * (setup.n_heads - 1) * setup.d_model
    narrow, wide = COMPARISONS["heads"].arms(setup)
    return narrow, wide, Arm("as many", {"d_ff": 4 * setup.d_model + more})


# Verdicts, each with the sentence that has its numbers.


def judge_positions(side: Side) -> Found:
    """Row 9: longer texts, with sinusoidal and with learned positions."""
    found = {arm: answered(side, arm) for arm in dict.fromkeys(each.arm for each in side.tests)}
    sines, table = (carries_over(found.get(arm, [])) for arm in SAID)
    known = [knows(found.get(arm, [])) for arm in SAID]
    if False in known:
        verdict, end = Verdict.OPEN, say("an arm has not learnt the task with every seed")
    elif None in known:
        verdict, end = Verdict.OPEN, say("the seeds do not decide whether both arms have learnt the task")
    elif sines is False:
        verdict, end = Verdict.WRONG, say("the sinusoidal codes do not carry over")
    elif sines is None or table is None:
        verdict, end = Verdict.OPEN, say("the seeds do not decide what carries over")
    elif table:
        verdict, end = Verdict.ONLY_IF, say("at these lengths both carry over")
    else:
        verdict, end = Verdict.HOLDS, say("only the sinusoidal codes carry over")
    share = {arm: [100 * fmean(each) for each in zip(*pairs, strict=True)] for arm, pairs in found.items()}
    none = [math.nan, math.nan]
    within, beyond = zip(share.get("sinusoidal") or none, share.get("learned") or none, strict=True)
    return verdict, say(
        "right to the character up to length {trained} and beyond it: sinusoidal {sines} % and {longer} %, learned "
        "{table} % and {further} %; {end}",
        trained=side.trained,
        sines=within[0],
        longer=beyond[0],
        table=within[1],
        further=beyond[1],
        end=end,
    )


def judge_heads(side: Side) -> Found:
    """Row 24: narrow and wide heads, and narrow ones with as many parameters."""
    wide, equal = losses_of(side, "full", "split"), losses_of(side, "full", "as many")
    if wide == "open":
        verdict = Verdict.OPEN
    elif wide != "lower":
        verdict = Verdict.WRONG
    else:
        verdict = {"lower": Verdict.HOLDS, "open": Verdict.OPEN}.get(equal, Verdict.ONLY_IF)
    narrow, full = side.of("split"), side.of("full")
    return verdict, say(
        "with {more} times the parameters and {times} times the time of a step, {first}; beside as many parameters, "
        "{second}",
        more=full[0].parameters / narrow[0].parameters,
        times=fmean(each.seconds for each in full) / fmean(each.seconds for each in narrow),
        first=compared(side, "full", "split"),
        second=compared(side, "full", "as many"),
    )


def judge_norms(side: Side) -> Found:
    """Row 27: the formula as it is said, beside pre-norm, by which it is judged, and beside post-norm."""
    verdicts = {"lower": Verdict.HOLDS, "alike": Verdict.HOLDS, "higher": Verdict.WRONG, "open": Verdict.OPEN}
    found, beside = (compared(side, "wrong", arm) for arm in ("pre", "post"))
    return verdicts[losses_of(side, "wrong", "pre")], say("{first}, and {rest}", first=found, rest=beside)


def judge_depth(side: Side) -> Found:
    """Row 28: who needs warm-up, and who ends at a higher loss with more layers; each half is judged by itself."""
    depths = list(dict.fromkeys(int(course.arm.split("@")[1].split()[0]) for course in side.courses))
    post, pre = (at_depths([needs(side, f"{arm}@{each} cold", f"{arm}@{each}") for each in depths]) for arm in NORMS)
    deeper, too = (harder(side, arm, depths) for arm in NORMS)
    deepest = depths[-1]
    return both(contrast(post, pre), contrast(deeper, too)), say(
        "{post}, and {pre}; {deeper}, and {too}; with {layers} layers post-norm ends at a loss of {loss}, without "
        "warm-up at {cold}; pre-norm at {other} and {bare}; gradient of the decoder's first layer over that of its "
        "last, at the first step: post-norm {slope}, pre-norm {flat}: {nearer}",
        post=warm_up_words(side, "post", depths, post),
        pre=warm_up_words(side, "pre", depths, pre),
        deeper=harder_words("post", deeper),
        too=harder_words("pre", too),
        layers=deepest,
        loss=loss_words(side, f"post@{deepest}"),
        cold=loss_words(side, f"post@{deepest} cold"),
        other=loss_words(side, f"pre@{deepest}"),
        bare=loss_words(side, f"pre@{deepest} cold"),
        slope=growth(side, f"post@{deepest}", "decoder"),
        flat=growth(side, f"pre@{deepest}", "decoder"),
        nearer={
            "lower": say("post-norm's are nearer to the output"),
            "higher": say("pre-norm's are nearer to the output"),
            "alike": say("no clear difference at this depth"),
            "open": say("the seeds do not decide"),
            None: say("they cannot be compared"),
        }[slopes_of(side, f"post@{deepest}", f"pre@{deepest}", "decoder")],
    )


def harder(side: Side, arm: str, depths: Sequence[int]) -> bool | None:
    """Whether an arm ends at a clearly higher loss with the most layers than with the fewest; None: that is open."""
    if len(depths) == 1:
        return None
    found = losses_of(side, f"{arm}@{depths[-1]}", f"{arm}@{depths[0]}")
    return None if found == "open" else found == "higher"


def warm_up_words(side: Side, arm: str, depths: Sequence[int], found: Holds) -> Message:
    """Who needs warm-up, and at which depth; what it helps where it is not needed."""
    name = arm_name(arm)
    if found is None:
        return say("whether {arm} needs warm-up is open", arm=name)
    if found in ("some", "some at least"):
        layers = next(each for each in depths if needs(side, f"{arm}@{each} cold", f"{arm}@{each}"))
        return say("{arm} needs warm-up with {layers} layers", arm=name, layers=layers)
    if found:
        return say("{arm} needs warm-up", arm=name)
    if any(losses_of(side, f"{arm}@{each}", f"{arm}@{each} cold") == "lower" for each in depths):
        return say("{arm} is helped by warm-up and does not need it", arm=name)
    return say("{arm} does not need warm-up", arm=name)


def harder_words(arm: str, found: bool | None) -> Message:
    """Who learns less with more layers."""
    name = arm_name(arm)
    if found is None:
        return say("whether {arm} learns less with more layers is open", arm=name)
    if found:
        return say("{arm} learns clearly less with more layers", arm=name)
    return say("{arm} does not learn less with more layers", arm=name)


def judge_gradient(side: Side) -> Found:
    """Row 29: gradient of the first layer over that of the last one, in the first stack: without residuals, a decoder
    that reads an encoder passes nothing on but by the queries of cross-attention, which float32 soon has as 0.
    """
    stack = stacks(side)[0]
    found = slopes_of(side, "off", "on", stack)
    if found is None:
        return Verdict.OPEN, say(
            "the gradients of the first and the last layer cannot be compared: there is one layer, or float32 has them "
            "as 0"
        )
    verdicts = {"lower": Verdict.HOLDS, "higher": Verdict.WRONG, "alike": Verdict.WRONG, "open": Verdict.OPEN}
    return verdicts[found], say(
        "gradient of the first layer over that of the last ({stack}), at the first step: {on} with residuals, {off} "
        "without: {found}",
        stack=STACKS[stack],
        on=growth(side, "on", stack),
        off=growth(side, "off", stack),
        found={
            "lower": say("without them it is clearly smaller, by twice at least"),
            "higher": say("without them it is clearly larger, by twice at least"),
            "alike": say("they are less than twice apart"),
            "open": say("the seeds do not decide"),
        }[found],
    )


def judge_residual(side: Side) -> Found:
    """Row 30: how far the loss falls without residuals."""
    found = without_residuals(side)
    verdict = {
        "undecided": Verdict.OPEN,
        "unlearnt": Verdict.OPEN,
        "almost nothing": Verdict.HOLDS,
        "clearly less": Verdict.ONLY_IF,
        "open": Verdict.OPEN,
        "as much": Verdict.WRONG,
        "clearly more": Verdict.WRONG,
    }[found]
    shares = shares_of_fall(side, "off", "on")
    if found == "undecided":
        return verdict, whether_learnt(arm_name("on"))
    if found == "unlearnt":
        return verdict, say("with residuals too, no more is learnt than how frequent each token is: train longer")
    return verdict, say(
        "without residuals the loss falls {share} % as far below that of token frequencies as with them, ± {spread}: "
        "{found}; {losses}",
        share=100 * fmean(shares),
        spread=100 * spread(shares),
        found={
            "almost nothing": say("less than a quarter, almost nothing"),
            "clearly less": say("more than a quarter, and clearly less"),
            "clearly more": say("clearly further"),
            "as much": say("nine tenths at least"),
            "open": say("the seeds do not decide"),
        }[found],
        losses=compared(side, "off", "on"),
    )


def judge_tying(side: Side) -> Found:
    """Row 32: parameters that tying saves, and the loss with it."""
    arms = [arm for arm in ("output", "all") if side.of(arm)]
    full = side.of("untied")[0].parameters
    saved = [full - side.of(arm)[0].parameters for arm in arms]
    found = {losses_of(side, arm, "untied") for arm in arms}
    if min(saved) <= 0 or found == {"higher"}:
        verdict = Verdict.WRONG
    elif "open" in found:
        verdict = Verdict.OPEN
    else:
        verdict = Verdict.ONLY_IF if "higher" in found else Verdict.HOLDS
    return verdict, say(
        "of {full} parameters tying saves up to {saved}, {share} %; {losses}",
        full=full,
        saved=max(saved),
        share=100 * max(saved) / full,
        losses=joined([compared(side, arm, "untied") for arm in arms]),
    )


def judge_smoothing(side: Side) -> Found:
    """Row 34: perplexity and accuracy on validation pairs."""
    worse, better = smoothed_perplexity(side), smoothed_accuracy(side)
    if worse is None or better is None:
        return Verdict.OPEN, say("nothing has been validated")
    halves = [None if found == "open" else found == "higher" for found in (worse, better)]
    neither = {"alike": say("no difference worth a hundredth"), "open": say("the seeds do not decide")}
    return of_halves(*halves), say(
        "with smoothing the perplexity is {smooth}, without {sharp}: {worse}; tokens right: {after} % and {before} %: "
        "{better}",
        smooth=perplexity(side, "smooth"),
        sharp=perplexity(side, "sharp"),
        worse={
            "higher": say("worse, as said"),
            "lower": say("better, against what is said"),
            **neither,
        }[worse],
        after=100 * rightly(side, "smooth"),
        before=100 * rightly(side, "sharp"),
        better={
            "higher": say("better, as said"),
            "lower": say("worse, against what is said"),
            **neither,
        }[better],
    )


def judge_recipe(side: Side) -> Found:
    """Row 35: which ingredient is needed, and which one only helps."""
    known = learnt(side, "whole")
    if known is None:
        return Verdict.OPEN, whether_learnt(arm_name("whole"))
    if not known:
        return Verdict.OPEN, say("all together, no more is learnt than how frequent each token is: train longer")
    arms = [arm for arm in dict.fromkeys(course.arm for course in side.courses) if arm != "whole"]
    found = {arm: needs(side, arm, "whole") for arm in arms}
    effects = {arm: losses_of(side, arm, "whole") for arm in arms}
    if set(found.values()) == {True}:
        verdict = Verdict.HOLDS
    elif set(found.values()) == {False}:
        verdict = Verdict.WRONG
    else:
        verdict = Verdict.ONLY_IF if {True, False} <= set(found.values()) else Verdict.OPEN
    needed = [arm for arm in arms if found[arm]]
    helping = [arm for arm in arms if arm not in needed and effects[arm] == "higher"]
    rest = [arm for arm in arms if arm not in needed and effects[arm] in ("alike", "lower")]
    unknown = [arm for arm in arms if arm not in (*needed, *helping, *rest)]
    return verdict, say(
        "left out, these leave less than half of what is learnt: {needed}; these a clearly higher loss: {helping}; "
        "these no higher one: {rest}; the seeds do not decide on: {unknown} ({losses})",
        needed=names_of(needed),
        helping=names_of(helping),
        rest=names_of(rest),
        unknown=names_of(unknown),
        losses=joined(
            [say("{arm} at {loss}", arm=arm_name(arm), loss=loss_words(side, arm)) for arm in ("whole", *arms)]
        ),
    )


def names_of(arms: Sequence[str]) -> str:
    """Names of arms, or that there are none."""
    return joined([arm_name(arm) for arm in arms]) if arms else say("none")


def compared(side: Side, one: str, other: str) -> Message:
    """Final losses of two arms, and whether the first is the lower one."""
    found = {
        "lower": say("clearly lower"),
        "higher": say("clearly higher"),
        "alike": say("alike, to a tenth"),
        "open": say("the seeds do not decide"),
    }[losses_of(side, one, other)]
    return say(
        "{one} ends at a loss of {first}, {other} at {second}: {found}",
        one=arm_name(one),
        first=loss_words(side, one),
        other=arm_name(other),
        second=loss_words(side, other),
        found=found,
    )


def loss_words(side: Side, arm: str) -> float | str:
    """Mean final loss of an arm with its spread over the seeds, or that it has none."""
    found = ends(side.of(arm))
    if not all(map(math.isfinite, found)):
        return say("none, it diverged")
    if len(found) == 1:
        return found[0]
    return f"{fmean(found):.3g} ± {spread(found):.2g}"


def joined(parts: Sequence[str]) -> str:
    """Parts of a sentence, one after another."""
    first, *rest = parts
    if len(rest) > 1:
        return say("{first}, {rest}", first=first, rest=joined(rest))
    return say("{first}, and {rest}", first=first, rest=rest[0]) if rest else first


# Figures: mean over the seeds, with their range.


def losses(side: Side) -> Curves:
    """Smoothed training loss of each arm over the steps, and the loss of frequencies alone."""
    curves = []
    for arm in arms_of(side):
        smooth = [smoothed(np.array(course.losses), KEEP) for course in side.of(arm) if course.losses]
        curves += over_seeds(arm, [(range(1, len(ys) + 1), ys) for ys in smooth])
    ends = (1.0, float(side.steps))
    chance = Curve(say("frequency of tokens alone"), ends, (side.chance, side.chance), dash=True)
    return Curves(say("Training loss"), say("step"), say("nats per token"), [*curves, chance])


def gradients(side: Side) -> Curves:
    """Gradient norm of each layer at the first step."""
    return by_layer(side, say("Gradient norm by layer, at the first step"), lambda course: course.first)


def newest_gradients(side: Side) -> Curves:
    """Gradient norm of each layer at the newest step."""
    return by_layer(side, say("Gradient norm by layer, at the newest step"), lambda course: course.latest)


def by_layer(side: Side, title: Message, read: Callable[[Course], Mapping[str, float]]) -> Curves:
    """Gradient norms of each layer, by the names of the parts of the network."""
    found = dict.fromkeys(part for course in side.courses for part in course.first if ".layers." in part)
    stacks = list(dict.fromkeys(layer.split(".")[0] for layer in found))
    layers = sorted(found, key=lambda layer: (stacks.index(layer.split(".")[0]), int(layer.split(".")[2])))
    curves = []
    for arm in arms_of(side):
        norms = [
            ([place for place, layer in enumerate(layers) if layer in read(course)], read(course))
            for course in side.of(arm)
        ]
        curves += over_seeds(arm, [(places, [of[layers[place]] for place in places]) for places, of in norms])
    ticks = [f"{stack} {int(number) + 1}" for stack, _layers, number in (layer.split(".") for layer in layers)]
    return Curves(title, say("layer"), "‖g‖", curves, log_y=True, ticks=ticks)


def accuracy(side: Side) -> Curves:
    """Share of right tokens of validation pairs, over the steps."""
    return Curves(say("Tokens predicted rightly"), say("step"), say("share"), validated(side, lambda each: each[2]))


def perplexity_curves(side: Side) -> Curves:
    """Perplexity of validation pairs, without smoothing, over the steps."""
    curves = validated(side, lambda each: math.exp(min(each[1], 700)))
    return Curves(say("Perplexity on validation pairs"), say("step"), say("perplexity"), curves, log_y=True)


def rates(side: Side) -> Curves:
    """Learning rate of each arm over the steps."""
    curves = [
        curve
        for arm in arms_of(side)
        for curve in over_seeds(arm, [(range(1, len(each.rates) + 1), each.rates) for each in side.of(arm)[:1]])
    ]
    return Curves(say("Learning rate"), say("step"), say("rate"), curves, log_y=True)


def lengths(side: Side) -> Curves:
    """Share of answers that are right to the character, and dashed, of tokens after the right ones, over the length."""
    curves = []
    for arm in arms_of(side):
        tests = [
            [each for each in side.tests if (each.arm, each.seed) == (arm, course.seed) and math.isfinite(each.exact)]
            for course in side.of(arm)
        ]
        curves += over_seeds(arm, [([each.length for each in of], [each.exact for each in of]) for of in tests])
        of_tokens = over_seeds(arm, [([each.length for each in of], [each.tokens for each in of]) for of in tests])
        name = say("{arm}, tokens", arm=arm_name(arm))
        curves += [Curve(name, each.xs, each.ys, dash=True, beside=True) for each in of_tokens]
    edge = float(side.trained)
    curves.append(Curve(say("longest trained on"), (edge, edge), (0.0, 1.0), dash=True))
    return Curves(say("Right answers against length"), say("length of the source"), say("share"), curves)


def table(side: Side) -> Table:
    """An arm a row, of several seeds the mean."""
    rows: list[list[str | float | int]] = []
    for arm in arms_of(side):
        courses = side.of(arm)
        validation = (perplexity(side, arm), 100 * rightly(side, arm)) if perplexities(side, arm) else ("–", "–")
        seconds = fmean(course.seconds for course in courses)
        pace = 1 / seconds if seconds > 0 else "–"  # not of one that diverged at once
        rows.append([arm_name(arm), courses[0].parameters, pace, end_words(courses), *validation])
    loss = say("loss at the end") if side.done else say("loss so far")
    columns = (say("arm"), say("parameters"), say("steps a second"), loss, say("perplexity"), say("tokens right, %"))
    return Table(say("The arms"), columns, rows)


def end_words(courses: Sequence[Course]) -> str | float:
    """Mean final loss, or the step at which the first seed diverged."""
    for course in courses:
        if course.diverged:
            return say("diverged at step {step}", step=course.diverged)
    finals = [course.final for course in courses]
    return fmean(finals) if all(map(math.isfinite, finals)) else "–"


def arms_of(side: Side) -> list[str]:
    """Arms in the order in which they are trained."""
    return list(dict.fromkeys(course.arm for course in side.courses))


def validated(side: Side, read: Callable[[tuple[int, float, float]], float]) -> list[Curve]:
    """Curves of a number of each validation."""
    return [
        curve
        for arm in arms_of(side)
        for curve in over_seeds(
            arm,
            [([each[0] for each in of.validations], [read(each) for each in of.validations]) for of in side.of(arm)],
        )
    ]


def over_seeds(arm: str, series: Sequence[tuple[Sequence[int], Sequence[float] | np.ndarray]]) -> list[Curve]:
    """Mean curve of an arm with the range of its seeds, at each place of those that come so far; none without any."""
    at: dict[int, list[float]] = {}
    for xs, ys in series:
        for x, y in zip(xs, ys, strict=True):
            at.setdefault(x, []).append(float(y))
    if not at:
        return []
    places = np.array(sorted(at), dtype=float)
    kept = np.linspace(0, len(places) - 1, min(POINTS, len(places))).round().astype(int)
    xs = places[kept]
    mean, low, high = ([rule(at[int(x)]) for x in xs] for rule in (fmean, min, max))
    several = len(series) > 1
    return [Curve(arm_name(arm), xs.tolist(), mean, low if several else None, high if several else None)]


# Experiments.


def outcome(
    side: Side,
    judge: Callable[[Side], Found],
    draw: Sequence[Callable[[Side], Figure]],
    numbers: Callable[[Side], list[Quantity]],
    remarks: Callable[[Side], list[Message]] = lambda _side: [],
) -> Outcome:
    """What the trainings have found: no verdict before their end."""
    if not side.done:
        reason = say("so far, at step {step} of {steps}", step=side.step, steps=side.steps)
        return Outcome(Verdict.OPEN, reason, final_losses(side), [figure(side) for figure in (*draw, table)])
    verdict, reason = judge(side)
    figures = [figure(side) for figure in (*draw, table)]
    seeds = len({course.seed for course in side.courses})
    return Outcome(verdict, reason, numbers(side), figures, models_of(side), [*few(seeds), *remarks(side)])


def final_losses(side: Side) -> list[Quantity]:
    """Loss at the end, or so far, of each arm whose seeds all have one."""

    def name(arm: str) -> Message:
        of = arm_name(arm)
        return say("loss at the end, {arm}", arm=of) if side.done else say("loss so far, {arm}", arm=of)

    return [
        Quantity(name(arm), tuple(values), "nats")
        for arm in arms_of(side)
        if all(map(math.isfinite, values := ends(side.of(arm))))
    ]


def slopes(side: Side) -> list[Quantity]:
    """Gradient of the first layer over that of the last one, of each arm and stack."""
    return [
        Quantity(
            say(
                "gradient of the first layer over that of the last ({stack}), {arm}",
                stack=STACKS[stack],
                arm=arm_name(arm),
            ),
            tuple(found),
        )
        for stack in stacks(side)
        for arm in arms_of(side)
        if (found := growths(side, arm, stack))
    ]


def validation_numbers(side: Side) -> list[Quantity]:
    """Perplexity and share of right tokens of each arm."""
    found = []
    for arm in arms_of(side):
        if values := perplexities(side, arm):
            right = tuple(100 * share for share in shares_of_right(side, arm))
            found.append(Quantity(say("perplexity, {arm}", arm=arm_name(arm)), tuple(values)))
            found.append(Quantity(say("tokens right, {arm}", arm=arm_name(arm)), right, "%"))
    return found


def answers(side: Side) -> list[Quantity]:
    """Share of right answers of each arm, at the lengths trained on and beyond them."""
    found = []
    for arm in arms_of(side):
        if pairs := answered(side, arm):
            within, beyond = (tuple(100 * share for share in shares) for shares in zip(*pairs, strict=True))
            found.append(Quantity(say("right up to the longest trained on, {arm}", arm=arm_name(arm)), within, "%"))
            found.append(Quantity(say("right beyond it, {arm}", arm=arm_name(arm)), beyond, "%"))
    return found


def carried(side: Side) -> list[Message]:
    """Whether each arm carries over to longer texts."""
    said = []
    for arm in arms_of(side):
        if pairs := answered(side, arm):
            name = arm_name(arm)
            remark = {
                None: say("{arm}: the seeds do not decide whether it carries over to longer texts", arm=name),
                True: say("{arm}: it carries over to longer texts", arm=name),
                False: say("{arm}: it does not carry over to longer texts", arm=name),
            }[carries_over(pairs)]
            unlearnt = {
                None: say("{arm}: the seeds do not decide whether it has learnt the task", arm=name),
                False: say("{arm}: it has not learnt the task with every seed", arm=name),
            }
            said.append(unlearnt.get(knows(pairs), remark))
    return said


def models_of(side: Side) -> list[TrainedModel]:
    """Models of the arms, once the trainings and tests have ended; with their seeds where there are several."""
    several = len({course.seed for course in side.courses}) > 1
    return [
        TrainedModel(
            say("{arm}, seed {seed}", arm=arm_name(model.name), seed=model.training["seed"])
            if several
            else arm_name(model.name),
            model,
        )
        for model in side.models
        if side.done
    ]


def run_of(
    comparison: str,
    judge: Callable[[Side], Found],
    *draw: Callable[[Side], Figure],
    arms: Arms | None = None,
    numbers: Callable[[Side], list[Quantity]] = final_losses,
    remarks: Callable[[Side], list[Message]] = lambda _side: [],
) -> Callable[[Request], Iterator[Report[Outcome]]]:
    """Run of a comparison. arms: in place of its own. numbers, remarks: that stand above the figures."""

    def run(request: Request) -> Iterator[Report[Outcome]]:
        chosen, setup, longest = asked_for(request, comparison, arms)
        reports = train_short_test_long(chosen, setup, longest) if longest else train(chosen, setup)
        found, drawn = None, -math.inf
        for report in reports:
            if found is None or report.result.done or report.share - drawn > DRAWN:
                found, drawn = outcome(report.result, judge, draw, numbers, remarks), report.share
            yield Report(report.share, found)

    return run


def asked_for(request: Request, comparison: str, arms: Arms | None) -> tuple[Sequence[Arm], Setup, int]:
    """Arms of a comparison, or others in their place, their setup, and the longest text of the test, 0 without one.

    Raises:
        ValueError: the positions are none that are known.
    """
    chosen = dict(request.values)
    longest, trained, positions = chosen.pop("longest", 0), chosen.pop("trained", 0), chosen.pop("positions", "")
    if trained:
        chosen["lengths"] = lengths_of(chosen["task"], trained)
    setup = setup_of(comparison, chosen.pop("kind"), seeds=tuple(request.seeds), **chosen)
    found = (arms or COMPARISONS[comparison].arms)(setup)
    return chosen_positions(found, positions) if longest else found, setup, longest


def forecast_of(comparison: str, arms: Arms | None = None) -> Callable[[Request], float]:
    """Forecast of a comparison's seconds, from a step of the first arm and of the last. arms: in place of its own.

    Raises:
        ValueError: see `asked_for`, `require_longer` and `learners`.
    """

    def forecast(request: Request) -> float:
        chosen, setup, longest = asked_for(request, comparison, arms)
        if longest:
            require_longer(setup, longest)
        step = fmean(step_seconds(arm, setup) for arm in (chosen[0], chosen[-1]))
        return len(chosen) * len(setup.seeds) * setup.steps * step / (TRAINING if longest else 1.0)

    return forecast


def parameters(comparison: str, kind: str = "encoder-decoder", **changed: int) -> tuple[Parameter, ...]:
    """Parameters of a comparison with its defaults. kind: default of the network's. changed: other defaults."""
    usual = COMPARISONS[comparison]
    numbers = {
        name: changed.get(name, getattr(usual, name)) for name in ("steps", "d_model", "depth", "rate", "warmup")
    }
    tasks = tuple(name for name, task in TASKS.items() if task.any_length or not usual.longest)
    found = (
        Parameter("task", say("task"), usual.task, choices=tasks),
        Parameter("kind", say("kind of the network"), kind, choices=("encoder-decoder", "decoder-only")),
        Parameter("steps", say("steps"), numbers["steps"], 1, 5000),
        Parameter("d_model", "d_model", numbers["d_model"], 8, 256),
        Parameter("depth", say("layers of each stack"), numbers["depth"], 1, 12),
        Parameter("rate", say("rate"), numbers["rate"], 1e-5, 10.0),
        Parameter("warmup", say("warm-up, steps"), numbers["warmup"], 0, 1000),
    )
    if not usual.longest:
        return found
    lengths = (
        Parameter("trained", say("trained up to length"), 8, 4, 16),
        Parameter("longest", say("tested up to length"), usual.longest, 5, 64),
        Parameter("positions", say("positions"), ", ".join(SAID)),
    )
    return (*found, *lengths)


METHOD = say(
    "All arms begin with the same seed, learn from the same batches of a built-in task, one step of each in turn, by "
    "AdamW and a cosine schedule unless that is what differs, without dropout. The curves are smoothed with weight 0.9 "
    "of the past; the loss at the end is the mean of the last tenth of the steps. Clearly lower means by a tenth at "
    "least, and by more than twice the spread of the seeds, √(s₁² + s₂²), of which there must be three; what is "
    "neither clear nor surely less than a tenth is open. Needed is what leaves, left out, less than half of the fall "
    "below the loss of token frequencies. Loss, validation and gradients are those that our own trainer reports."
)

EXPERIMENTS = (
    Experiment(
        name="longer-texts",
        row=9,
        group=Group.POSITIONS,
        statement=say("Sinusoidal codes extend to lengths never trained on; learned positions do not."),
        truth=say(
            "The code of any position can be computed, but the network has never learnt to read it; a learned table "
            "has rows up to max_length, and those beyond the trained lengths are still as they were drawn."
        ),
        run=run_of("positions", judge_positions, lengths, losses, numbers=answers, remarks=carried),
        forecast=forecast_of("positions"),
        parameters=parameters("positions", steps=500),
        seeded=True,
        seconds=60.0,
        formulas=(r"x_p = E_{t_p}\sqrt{d_\text{model}} + \mathrm{PE}_p",),
        method=METHOD,
        code=(SinusoidalPositions, LearnedPositions, answered_at, judge_positions),
        source="Vaswani et al., 2017, 3.5; Press et al., 2022",
    ),
    Experiment(
        name="wide-heads",
        row=24,
        group=Group.ATTENTION,
        statement=say(
            "Wide heads, each as wide as the model, learn more than narrow ones of d_model / h, for more parameters."
        ),
        truth=say(
            "In the paper each of h heads is d_model / h wide, which makes them together as dear as one wide head. "
            "Heads of full width have h times the attention parameters; only beside a narrow network with as many "
            "parameters does it show whether the width itself is what helps."
        ),
        run=run_of("heads", judge_heads, losses, accuracy, arms=with_as_many),
        forecast=forecast_of("heads", with_as_many),
        parameters=parameters("heads"),
        seeded=True,
        seconds=25.0,
        formulas=(r"W^Q_i, W^K_i, W^V_i \in \mathbb{R}^{d_\text{model} \times d_k}, \quad d_k = d_\text{model}/h",),
        method=METHOD,
        code=(MultiHeadAttention, with_as_many, judge_heads),
        source="Vaswani et al., 2017, 3.2.2",
    ),
    Experiment(
        name="wrong-pre-norm",
        row=27,
        group=Group.NORMS,
        statement=say("A network whose blocks are Sublayer(x) + LayerNorm(x) learns as one with pre-norm does."),
        truth=say(
            "Pre-norm is x + Sublayer(LayerNorm(x)): the stream passes bare, and the sublayer reads it normalised. "
            "The formula that is said does both the other way round. The paper has LayerNorm(x + Sublayer(x)), "
            "post-norm."
        ),
        run=run_of("norms", judge_norms, losses, accuracy, gradients, newest_gradients),
        forecast=forecast_of("norms"),
        parameters=parameters("norms"),
        seeded=True,
        seconds=30.0,
        formulas=(
            r"\text{post: } \mathrm{LN}(x + S(x)) \qquad \text{pre: } x + S(\mathrm{LN}(x)) \qquad "
            r"\text{wrong: } S(x) + \mathrm{LN}(x)",
        ),
        method=METHOD,
        code=(PostNorm, PreNorm, NormOnTheShortCut, judge_norms),
        source="Vaswani et al., 2017, 3.1; Xiong et al., 2020",
    ),
    Experiment(
        name="post-norm-depth",
        row=28,
        group=Group.NORMS,
        statement=say("Post-norm needs warm-up and gets harder to train with depth; pre-norm does not."),
        truth=say(
            "With post-norm each block's norm stands on the stream, and gradients of the first step differ "
            "strongly from layer to layer; pre-norm, with a final norm, leaves a bare path. How much it matters "
            "depends on depth, rate and warm-up: choose them."
        ),
        run=run_of("depth", judge_depth, losses, accuracy, gradients, newest_gradients, arms=with_depths),
        forecast=forecast_of("depth", with_depths),
        parameters=parameters("depth"),
        seeded=True,
        seconds=60.0,
        formulas=(r"\left\lVert \frac{\partial L}{\partial \theta_\ell} \right\rVert \ \text{of each layer}\ \ell",),
        method=METHOD,
        code=(PostNorm, PreNorm, Gradients.norms, learning_rate, judge_depth),
        source="Xiong et al., 2020, 3.3, 4",
    ),
    Experiment(
        name="residual-gradient",
        row=29,
        group=Group.NORMS,
        statement=say("The residual path gives the gradient a short cut."),
        truth=say(
            "x + Sublayer(x) has the Jacobian I + ∂Sublayer/∂x: the identity reaches every layer. Without it the "
            "gradient is the product of the Jacobians of all the layers in between, the last one first. It is measured "
            "in the encoder, or in a decoder alone: in a decoder that reads an encoder, all that is left without "
            "residuals passes through the queries of cross-attention, whose gradients float32 soon has as 0."
        ),
        run=run_of("residual", judge_gradient, gradients, newest_gradients, losses, accuracy, numbers=slopes),
        forecast=forecast_of("residual"),
        parameters=parameters("residual", steps=20, depth=6),
        seeded=True,
        seconds=5.0,
        formulas=(
            r"\frac{\partial x_L}{\partial x_\ell} = \left(I + \frac{\partial S_{L-1}}{\partial x_{L-1}}\right) "
            r"\cdots \left(I + \frac{\partial S_\ell}{\partial x_\ell}\right) \qquad \text{without: } "
            r"\frac{\partial S_{L-1}}{\partial x_{L-1}} \cdots \frac{\partial S_\ell}{\partial x_\ell}",
        ),
        method=METHOD,
        code=(Residual, NoResidual, Gradients.norms, judge_gradient),
        source="He et al., 2016, Identity Mappings in Deep Residual Networks, section 2, equation 5; "
        "Vaswani et al., 2017, 3.1",
    ),
    Experiment(
        name="without-residuals",
        row=30,
        group=Group.NORMS,
        statement=say("Without residuals almost nothing trains."),
        truth=say(
            "With few layers something may: how little is learnt without residuals depends on depth, norms and "
            "initial weights. Here the norms stay where they are and the residual alone is left out. In a decoder that "
            "reads an encoder less is left than in one alone: all passes through the queries of cross-attention."
        ),
        run=run_of("residual", judge_residual, losses, accuracy, gradients, newest_gradients),
        forecast=forecast_of("residual"),
        parameters=parameters("residual", "decoder-only"),
        seeded=True,
        seconds=25.0,
        formulas=(r"x \mapsto x + S(\mathrm{LN}(x)) \qquad \text{without: } x \mapsto S(\mathrm{LN}(x))",),
        method=METHOD,
        code=(Residual, NoResidual, judge_residual, without_residuals),
        source="He et al., 2016, Deep Residual Learning for Image Recognition, section 4.1; Vaswani et al., 2017, 3.1",
    ),
    Experiment(
        name="tied-matrices",
        row=32,
        group=Group.TRAINING,
        statement=say("One matrix for embeddings and output saves parameters, at no cost."),
        truth=say(
            "It saves vocabulary × d_model weights for each matrix that is shared. Whether the loss is as low is "
            "to be measured; here the vocabulary is small, and so is what is saved."
        ),
        run=run_of("tying", judge_tying, losses, accuracy),
        forecast=forecast_of("tying"),
        parameters=parameters("tying"),
        seeded=True,
        seconds=25.0,
        formulas=(r"\text{logits} = x W^\top, \quad W = E",),
        method=METHOD,
        code=(Network.tie, judge_tying),
        source="Press & Wolf, 2017; Vaswani et al., 2017, 3.4",
    ),
    Experiment(
        name="label-smoothing",
        row=34,
        group=Group.TRAINING,
        statement=say("Label smoothing 0.1 makes perplexity worse and accuracy better."),
        truth=say(
            "That is what the paper says (section 5.4) of translation, where several words can be right. In a task "
            "with one right answer, smoothing may change accuracy little."
        ),
        run=run_of("smoothing", judge_smoothing, perplexity_curves, accuracy, numbers=validation_numbers),
        forecast=forecast_of("smoothing"),
        parameters=parameters("smoothing"),
        seeded=True,
        seconds=15.0,
        formulas=(r"q_k = (1 - \varepsilon)\,[k = y] + \varepsilon / V",),
        method=METHOD,
        code=(summed_loss, judge_smoothing),
        source="Vaswani et al., 2017, 5.4; Szegedy et al., 2016, 7",
    ),
    Experiment(
        name="recipe",
        row=35,
        group=Group.TRAINING,
        statement=say("A Transformer needs warm-up, Xavier initialisation, gradient clipping and Adam."),
        truth=say(
            "Each is said to matter; each is switched off here alone. In their places: the full rate from the "
            "first step, torch's own initial weights, gradients as they are, descent with momentum 0.9 at 25 times "
            "the rate."
        ),
        run=run_of("recipe", judge_recipe, losses, rates),
        forecast=forecast_of("recipe"),
        parameters=parameters("recipe"),
        seeded=True,
        seconds=35.0,
        formulas=(
            r"\eta_t = \eta\,\tfrac{t}{w} \qquad W \sim U\!\left(\pm\sqrt{6 / (n_\text{in}+n_\text{out})}\right)"
            r"\qquad g \leftarrow g \min(1, c / \lVert g \rVert)",
        ),
        method=METHOD,
        code=(learning_rate, Network.initialise, as_torch_begins, Gradients.clip, plain_descent, judge_recipe),
        source="Vaswani et al., 2017, 5.3; Glorot & Bengio, 2010; Pascanu et al., 2013",
    ),
)
