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
from model.experiments.engines.ab_training import (
    Arm,
    Course,
    Setup,
    Side,
    ends,
    growth,
    growths,
    perplexities,
    perplexity,
    rightly,
    shares_of_fall,
    shares_of_right,
    stacks,
    step_seconds,
    train,
)
from model.experiments.engines.training_comparisons import (
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
from model.experiments.engines.training_rules import (
    CLEAR,
    FACTOR,
    NEEDED,
    SHARE,
    answered,
    arm_name,
    beats_chance,
    carries_over,
    cold_text,
    contrast,
    differences,
    knows,
    loss,
    losses_of,
    needed,
    open_learning_words,
    slope,
    without_residuals,
)
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
    over_seeds,
)
from model.experiments.rule import (
    Condition,
    Quantity,
    Rule,
    Verdict,
    clearly_below,
    compared,
    each_of,
    exceeds,
    greater,
    joined,
    less,
    spread,
)
from model.experiments.runner import Report
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
OF_STATEMENT = ("sinusoidal", "learned")  # positions that row 9 is about
NORMS = ("post", "pre")  # placements that row 28 is about
STACKS = {"encoder": say("encoder"), "decoder": say("decoder")}

Arms = Callable[[Setup], Sequence[Arm]]
RuleAndReason = tuple[Rule | None, Message]


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
    if not set(OF_STATEMENT) <= set(names) <= set(known):
        others = ", ".join(name for name in known if name not in OF_STATEMENT)
        required = ", ".join(OF_STATEMENT)
        raise InputError(
            "positions are {text!r}: write {said}, and beside them any of {others}",
            text=text,
            said=required,
            others=others,
        )
    return [arm for arm in arms if arm.name in names]


def with_as_many(setup: Setup) -> Sequence[Arm]:
    """Narrow heads, wide heads, and narrow ones whose feed-forward net has the parameters that wide heads add: four
    matrices (h - 1) d_model² larger in a layer, eight in one with cross-attention, against two of it.
    """
    more = (3 if setup.kind == "encoder-decoder" else 2) * (setup.n_heads - 1) * setup.d_model
    narrow, wide = COMPARISONS["heads"].arms(setup)
    return narrow, wide, Arm("as many", {"d_ff": 4 * setup.d_model + more})


# Rules, each with the sentence that has its numbers.


def judge_positions(side: Side) -> RuleAndReason:
    """Row 9: longer texts, with sinusoidal and with learned positions."""
    pairs_by_arm = {arm: answered(side, arm) for arm in dict.fromkeys(each.arm for each in side.tests)}
    sines, table = (carries_over(pairs_by_arm.get(arm, []), arm) for arm in OF_STATEMENT)
    known = [knows(pairs_by_arm.get(arm, []), arm) for arm in OF_STATEMENT]
    rule = Rule([sines], wants=[~table], given=known)
    end = {
        Verdict.WRONG: say("the sinusoidal codes do not carry over"),
        Verdict.OPEN: say("the seeds do not decide what carries over"),
        Verdict.IN_PART: say("at these lengths both carry over"),
        Verdict.HOLDS: say("only the sinusoidal codes carry over"),
    }[rule.verdict]
    if False in [each.met for each in known]:
        end = say("an arm has not learnt the task with every seed")
    elif None in [each.met for each in known]:
        end = say("the seeds do not decide whether both arms have learnt the task")
    share = {arm: [100 * fmean(each) for each in zip(*pairs, strict=True)] for arm, pairs in pairs_by_arm.items()}
    none = [math.nan, math.nan]
    within, beyond = zip(share.get("sinusoidal") or none, share.get("learned") or none, strict=True)
    return rule, say(
        "right to the character up to length {trained} and beyond it: sinusoidal {sines} % and {longer} %, learned "
        "{table} % and {further} %; {end}",
        trained=side.trained,
        sines=within[0],
        longer=beyond[0],
        table=within[1],
        further=beyond[1],
        end=end,
    )


def judge_heads(side: Side) -> RuleAndReason:
    """Row 24: narrow and wide heads, and narrow ones with as many parameters."""
    wide, narrow, equal = (loss(side, arm) for arm in ("full", "split", "as many"))
    courses = [side.of(arm) for arm in ("split", "full")]
    parameters, seconds = zip(
        *((each[0].parameters, fmean(course.seconds for course in each)) for each in courses), strict=True
    )
    return Rule([less(wide, narrow, CLEAR)], wants=[less(wide, equal, CLEAR)]), say(
        "with {more} times the parameters and {times} times the time of a step, {first}; beside as many parameters, "
        "{second}",
        more=parameters[1] / parameters[0],
        times=seconds[1] / seconds[0],
        first=losses_words(side, "full", "split"),
        second=losses_words(side, "full", "as many"),
    )


def judge_norms(side: Side) -> RuleAndReason:
    """Row 27: the formula as it is said, beside pre-norm, by which it is judged, and beside post-norm."""
    first, beside = (losses_words(side, "wrong", arm) for arm in ("pre", "post"))
    rule = Rule([~greater(loss(side, "wrong"), loss(side, "pre"), CLEAR)])
    return rule, say("{first}, and {rest}", first=first, rest=beside)


def judge_depth(side: Side) -> RuleAndReason:
    """Row 28: who needs warm-up, and who ends at a higher loss with more layers; each half is judged by itself."""
    depths = list(dict.fromkeys(int(course.arm.split("@")[1].split()[0]) for course in side.courses))
    cold = {arm: [needed(side, f"{arm}@{each} cold", f"{arm}@{each}") for each in depths] for arm in NORMS}
    harder = {arm: greater(loss(side, f"{arm}@{depths[-1]}"), loss(side, f"{arm}@{depths[0]}"), CLEAR) for arm in NORMS}
    if len(depths) == 1:
        harder = {arm: replace(each, met=None) for arm, each in harder.items()}
    halves = (contrast(cold["post"], cold["pre"], [*map(cold_text, NORMS)]), Rule([harder["post"], ~harder["pre"]]))
    deepest = depths[-1]
    slopes = [slope(side, f"{arm}@{deepest}", "decoder") for arm in NORMS]
    return Rule(halves=halves), say(
        "{post}, and {pre}; {deeper}, and {too}; with {layers} layers post-norm ends at a loss of {loss}, without "
        "warm-up at {cold}; pre-norm at {other} and {bare}; gradient of the decoder's first layer over that of its "
        "last, at the first step: post-norm {slope}, pre-norm {flat}: {nearer}",
        post=warm_up_words(side, "post", depths, cold["post"]),
        pre=warm_up_words(side, "pre", depths, cold["pre"]),
        deeper=harder_words("post", harder["post"].met),
        too=harder_words("pre", harder["pre"].met),
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
        }[compared(slopes[0], slopes[1], FACTOR)]
        if all(each.values for each in slopes)
        else say("they cannot be compared"),
    )


def warm_up_words(side: Side, arm: str, depths: Sequence[int], cold: Sequence[Condition]) -> Message:
    """Sentence on the need for warm-up, the depth from which on, and where else it helps. cold: conditions by depth."""
    name, met = arm_name(arm), [each.met for each in cold]
    if set(met) == {True}:
        return say("{arm} needs warm-up", arm=name)
    if True in met:
        return say("{arm} needs warm-up with {layers} layers", arm=name, layers=depths[met.index(True)])
    if None in met:
        return say("whether {arm} needs warm-up is open", arm=name)
    if any(losses_of(side, f"{arm}@{each}", f"{arm}@{each} cold") == "lower" for each in depths):
        return say("{arm} is helped by warm-up and does not need it", arm=name)
    return say("{arm} does not need warm-up", arm=name)


def harder_words(arm: str, harder: bool | None) -> Message:
    """Sentence on the arms that learn less with more layers."""
    name = arm_name(arm)
    if harder is None:
        return say("whether {arm} learns less with more layers is open", arm=name)
    if harder:
        return say("{arm} learns clearly less with more layers", arm=name)
    return say("{arm} does not learn less with more layers", arm=name)


def judge_gradient(side: Side) -> RuleAndReason:
    """Row 29: gradient of the first layer over that of the last one, in the first stack: without residuals, a decoder
    that reads an encoder passes nothing on but by the queries of cross-attention, which float32 soon has as 0.
    """
    stack = stacks(side)[0]
    off, on = (slope(side, arm, stack) for arm in ("off", "on"))
    if not (off.values and on.values):
        return None, say(
            "the gradients of the first and the last layer cannot be compared: there is one layer, or float32 has them "
            "as 0"
        )
    return Rule([less(off, on, FACTOR)]), say(
        "gradient of the first layer over that of the last ({stack}), at the first step: {on} with residuals, {off} "
        "without: {found}",
        stack=STACKS[stack],
        on=on.mean,
        off=off.mean,
        found={
            "lower": say("without them it is clearly smaller, by twice at least"),
            "higher": say("without them it is clearly larger, by twice at least"),
            "alike": say("they are less than twice apart"),
            "open": say("the seeds do not decide"),
        }[compared(off, on, FACTOR)],
    )


def judge_residual(side: Side) -> RuleAndReason:
    """Row 30: how far the loss falls without residuals."""
    rule, effect = without_residuals(side)
    known, shares = beats_chance(side, "on").met, shares_of_fall(side, "off", "on")
    if known is None:
        return rule, open_learning_words(arm_name("on"))
    if not known:
        return rule, say("with residuals too, no more is learnt than how frequent each token is: train longer")
    return rule, say(
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
        }[effect],
        losses=losses_words(side, "off", "on"),
    )


def judge_tying(side: Side) -> RuleAndReason:
    """Row 32: parameters that tying saves, and the loss with it."""
    arms = [arm for arm in ("output", "all") if side.of(arm)]
    full = side.of("untied")[0].parameters
    saved = [full - side.of(arm)[0].parameters for arm in arms]
    saving = exceeds(Quantity(say("parameters saved"), tuple(map(float, saved))), 0.0)
    as_low = [~greater(loss(side, arm), loss(side, "untied"), CLEAR) for arm in arms]
    rule = each_of(as_low, (~greater(loss(side, "untied", say("tied")), loss(side, "untied"), CLEAR)).text)
    return replace(rule, needs=[saving, *rule.needs]), say(
        "of {full} parameters tying saves up to {saved}, {share} %; {losses}",
        full=full,
        saved=max(saved),
        share=100 * max(saved) / full,
        losses=joined([losses_words(side, arm, "untied") for arm in arms]),
    )


def judge_smoothing(side: Side) -> RuleAndReason:
    """Row 34: perplexity and accuracy on validation pairs; each half of the sentence is judged by itself."""
    worse = differences(side, perplexities, say("perplexity with smoothing, in shares of that without, less 1"), True)
    better = differences(side, shares_of_right, say("share of right tokens with smoothing less that without"), False)
    if worse is None or better is None:
        return None, say("nothing has been validated")
    nothing = Quantity("0", (0.0,) * len(worse.values))
    neither = {"alike": say("no difference worth a hundredth"), "open": say("the seeds do not decide")}
    return Rule(halves=[Rule([greater(each, nothing, SHARE)]) for each in (worse, better)]), say(
        "with smoothing the perplexity is {smooth}, without {sharp}: {worse}; tokens right: {after} % and {before} %: "
        "{better}",
        smooth=perplexity(side, "smooth"),
        sharp=perplexity(side, "sharp"),
        worse={"higher": say("worse, as said"), "lower": say("better, against what is said"), **neither}[
            compared(worse, nothing, SHARE)
        ],
        after=100 * rightly(side, "smooth"),
        before=100 * rightly(side, "sharp"),
        better={"higher": say("better, as said"), "lower": say("worse, against what is said"), **neither}[
            compared(better, nothing, SHARE)
        ],
    )


def judge_recipe(side: Side) -> RuleAndReason:
    """Row 35: which ingredient is needed, and which one only helps."""
    known = beats_chance(side, "whole")
    arms = [arm for arm in dict.fromkeys(course.arm for course in side.courses) if arm != "whole"]
    needs = {arm: needed(side, arm, "whole") for arm in arms}
    text = clearly_below(Quantity(say("share that is learnt, without one of them"), ()), NEEDED).text
    rule = replace(each_of(needs.values(), text), given=[known])
    if known.met is None:
        return rule, open_learning_words(arm_name("whole"))
    if not known.met:
        return rule, say("all together, no more is learnt than how frequent each token is: train longer")
    effects = {arm: losses_of(side, arm, "whole") for arm in arms}
    necessary = [arm for arm in arms if needs[arm].met]
    helping = [arm for arm in arms if arm not in necessary and effects[arm] == "higher"]
    rest = [arm for arm in arms if arm not in necessary and effects[arm] in ("alike", "lower")]
    unknown = [arm for arm in arms if arm not in (*necessary, *helping, *rest)]
    return rule, say(
        "left out, these leave less than half of what is learnt: {needed}; these a clearly higher loss: {helping}; "
        "these no higher one: {rest}; the seeds do not decide on: {unknown} ({losses})",
        needed=names_of(necessary),
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


def losses_words(side: Side, one: str, other: str) -> Message:
    """Final losses of two arms, and whether the first is the lower one."""
    words = {
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
        found=words,
    )


def loss_words(side: Side, arm: str) -> float | str:
    """Mean final loss of an arm with its spread over the seeds, or that it has none."""
    by_seed = ends(side.of(arm))
    if not all(map(math.isfinite, by_seed)):
        return say("none, it diverged")
    if len(by_seed) == 1:
        return by_seed[0]
    return f"{fmean(by_seed):.3g} ± {spread(by_seed):.2g}"


# Figures: mean over the seeds, with their range.


def losses(side: Side) -> Curves:
    """Smoothed training loss of each arm over the steps, and the loss of frequencies alone."""
    curves = []
    for arm in arms_of(side):
        smooth = [smoothed(np.array(course.losses), KEEP) for course in side.of(arm) if course.losses]
        curves += of_courses(arm, [(range(1, len(ys) + 1), ys) for ys in smooth])
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
    names = dict.fromkeys(part for course in side.courses for part in course.first if ".layers." in part)
    stacks = list(dict.fromkeys(layer.split(".")[0] for layer in names))
    layers = sorted(names, key=lambda layer: (stacks.index(layer.split(".")[0]), int(layer.split(".")[2])))
    curves = []
    for arm in arms_of(side):
        norms = [
            ([place for place, layer in enumerate(layers) if layer in read(course)], read(course))
            for course in side.of(arm)
        ]
        curves += of_courses(arm, [(places, [of[layers[place]] for place in places]) for places, of in norms])
    paths = [layer.split(".") for layer in layers]
    ticks = [say("{stack} {layer}", stack=STACKS[stack], layer=int(number) + 1) for stack, _layers, number in paths]
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
        for curve in of_courses(arm, [(range(1, len(each.rates) + 1), each.rates) for each in side.of(arm)[:1]])
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
        curves += of_courses(arm, [([each.length for each in of], [each.exact for each in of]) for of in tests])
        of_tokens = of_courses(arm, [([each.length for each in of], [each.tokens for each in of]) for of in tests])
        name = say("{arm}, tokens", arm=arm_name(arm))
        curves += [Curve(name, each.xs, each.ys, dash=True, beside=True) for each in of_tokens]
    edge = float(side.trained)
    curves.append(Curve(say("longest trained on"), (edge, edge), (0.0, 1.0), dash=True))
    titles = say("Right answers against length"), say("length of the source"), say("share")
    return Curves(*titles, curves, dashed=say("right tokens"))


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
        for curve in of_courses(
            arm,
            [([each[0] for each in of.validations], [read(each) for each in of.validations]) for of in side.of(arm)],
        )
    ]


def of_courses(arm: str, series: Sequence[tuple[Sequence[int], Sequence[float] | np.ndarray]]) -> list[Curve]:
    """Mean curve of an arm with the range of its seeds, at each place of those that come so far; none without any."""
    at: dict[int, list[float]] = {}
    for xs, ys in series:
        for x, y in zip(xs, ys, strict=True):
            at.setdefault(x, []).append(float(y))
    if not at:
        return []
    places = np.array(sorted(at), dtype=float)
    indices = np.linspace(0, len(places) - 1, min(POINTS, len(places))).round().astype(int)
    xs = places[indices].tolist()
    return [over_seeds(arm_name(arm), xs, [at[int(x)] for x in xs])]


# Experiments.


def outcome(
    side: Side,
    judge: Callable[[Side], RuleAndReason],
    draw: Sequence[Callable[[Side], Figure]],
    numbers: Callable[[Side], list[Quantity]],
    remarks: Callable[[Side], list[Message]] = lambda _side: [],
) -> Outcome:
    """Outcome of the trainings so far: no verdict before their end."""
    if not side.done:
        reason = say("step {step} of {steps}", step=side.step, steps=side.steps)
        return Outcome(None, reason, final_losses(side), [figure(side) for figure in (*draw, table)])
    rule, reason = judge(side)
    figures = [figure(side) for figure in (*draw, table)]
    return Outcome(rule, reason, numbers(side), figures, models_of(side), remarks(side))


def final_losses(side: Side) -> list[Quantity]:
    """Loss at the end, or so far, of each arm whose seeds all have one."""

    quantities = [loss(side, arm) for arm in arms_of(side) if all(map(math.isfinite, ends(side.of(arm))))]
    if side.done:
        return quantities
    names = [say("loss so far, {arm}", arm=arm_name(arm)) for arm in arms_of(side) if ends(side.of(arm))]
    return [replace(each, name=name) for each, name in zip(quantities, names, strict=True)]


def slopes(side: Side) -> list[Quantity]:
    """Gradient of the first layer over that of the last one, of each arm and stack."""
    return [
        Quantity(
            say(
                "gradient of the first layer over that of the last ({stack}), {arm}",
                stack=STACKS[stack],
                arm=arm_name(arm),
            ),
            tuple(ratios),
        )
        for stack in stacks(side)
        for arm in arms_of(side)
        if (ratios := growths(side, arm, stack))
    ]


def validation_numbers(side: Side) -> list[Quantity]:
    """Perplexity and share of right tokens of each arm."""
    quantities = []
    for arm in arms_of(side):
        if values := perplexities(side, arm):
            right = tuple(100 * share for share in shares_of_right(side, arm))
            quantities.append(Quantity(say("perplexity, {arm}", arm=arm_name(arm)), tuple(values)))
            quantities.append(Quantity(say("tokens right, {arm}", arm=arm_name(arm)), right, "%"))
    return quantities


def answers(side: Side) -> list[Quantity]:
    """Share of right answers of each arm, at the lengths trained on and beyond them."""
    quantities = []
    for arm in arms_of(side):
        if pairs := answered(side, arm):
            within, beyond = (tuple(100 * share for share in shares) for shares in zip(*pairs, strict=True))
            quantities.append(
                Quantity(say("right up to the longest trained on, {arm}", arm=arm_name(arm)), within, "%")
            )
            quantities.append(Quantity(say("right beyond it, {arm}", arm=arm_name(arm)), beyond, "%"))
    return quantities


def carried(side: Side) -> list[Message]:
    """Remarks on the arms: which of them carry over to longer texts."""
    sentences = []
    for arm in arms_of(side):
        if pairs := answered(side, arm):
            name = arm_name(arm)
            remark = {
                None: say("{arm}: the seeds do not decide whether it carries over to longer texts", arm=name),
                True: say("{arm}: it carries over to longer texts", arm=name),
                False: say("{arm}: it does not carry over to longer texts", arm=name),
            }[carries_over(pairs, arm).met]
            unlearnt = {
                None: say("{arm}: the seeds do not decide whether it has learnt the task", arm=name),
                False: say("{arm}: it has not learnt the task with every seed", arm=name),
            }
            sentences.append(unlearnt.get(knows(pairs, arm).met, remark))
    return sentences


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
    judge: Callable[[Side], RuleAndReason],
    *draw: Callable[[Side], Figure],
    arms: Arms | None = None,
    numbers: Callable[[Side], list[Quantity]] = final_losses,
    remarks: Callable[[Side], list[Message]] = lambda _side: [],
) -> Callable[[Request], Iterator[Report[Outcome]]]:
    """Run of a comparison. arms: in place of its own. numbers, remarks: that stand above the figures."""

    def run(request: Request) -> Iterator[Report[Outcome]]:
        chosen, setup, longest = arms_and_setup(request, comparison, arms)
        reports = train_short_test_long(chosen, setup, longest) if longest else train(chosen, setup)
        newest, drawn = None, -math.inf
        for report in reports:
            if newest is None or report.result.done or report.share - drawn > DRAWN:
                newest, drawn = outcome(report.result, judge, draw, numbers, remarks), report.share
            yield Report(report.share, newest)

    return run


def arms_and_setup(request: Request, comparison: str, arms: Arms | None) -> tuple[Sequence[Arm], Setup, int]:
    """Arms of a comparison, or others in their place, their setup, and the longest text of the test, 0 without one.

    Raises:
        ValueError: the positions are none that are known.
    """
    chosen = dict(request.values)
    longest, trained, positions = chosen.pop("longest", 0), chosen.pop("trained", 0), chosen.pop("positions", "")
    if trained:
        chosen["lengths"] = lengths_of(chosen["task"], trained)
    setup = setup_of(comparison, chosen.pop("kind"), seeds=tuple(request.seeds), **chosen)
    all_arms = (arms or COMPARISONS[comparison].arms)(setup)
    return chosen_positions(all_arms, positions) if longest else all_arms, setup, longest


def forecast_of(comparison: str, arms: Arms | None = None) -> Callable[[Request], float]:
    """Forecast of a comparison's seconds, from a step of the first arm and of the last. arms: in place of its own.

    Raises:
        ValueError: see `arms_and_setup`, `require_longer` and `learners`.
    """

    def forecast(request: Request) -> float:
        chosen, setup, longest = arms_and_setup(request, comparison, arms)
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
    common = (
        Parameter("task", say("task"), usual.task, choices=tasks),
        Parameter("kind", say("kind of the network"), kind, choices=("encoder-decoder", "decoder-only")),
        Parameter("steps", say("steps"), numbers["steps"], 1, 5000),
        Parameter("d_model", "d_model", numbers["d_model"], 8, 256),
        Parameter("depth", say("layers of each stack"), numbers["depth"], 1, 12),
        Parameter("rate", say("rate"), numbers["rate"], 1e-5, 10.0),
        Parameter("warmup", say("warm-up, steps"), numbers["warmup"], 0, 1000),
    )
    if not usual.longest:
        return common
    lengths = (
        Parameter("trained", say("trained up to length"), 8, 4, 16),
        Parameter("longest", say("tested up to length"), usual.longest, 5, 64),
        Parameter("positions", say("positions"), ", ".join(OF_STATEMENT)),
    )
    return (*common, *lengths)


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
