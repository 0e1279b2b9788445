"""Attention variants trained in the place of full attention, on the same batches (row 45)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from torch import Tensor

from model.experiments.engines.ab_training import Arm, Setup, Side, ends, train
from model.experiments.engines.training_comparisons import lengths_of
from model.experiments.engines.training_rules import beats_chance, learning_share, open_learning_words
from model.experiments.experiment import Curve, Curves, Experiment, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Quantity, Rule, clearly_above, each_of
from model.experiments.runner import Report
from model.experiments.variants.full import full
from model.experiments.variants.index import variants
from model.experiments.variants.module import putting
from model.experiments.variants.variant import AttentionOutput, Sizes, Variant
from model.message import Message, say

AS_WELL = 0.95  # of the fall of full attention's loss below that of frequencies alone
NONE = "none"


def nothing(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
    """Heads of zeros: what self-attention adds is left out."""
    attended = full(query, key, value, visible)
    return AttentionOutput(attended.heads * 0, attended.weights * 0)


def compared_of(sizes: Sizes, kind: str) -> list[Variant]:
    """Full attention, the variants that a stack of this kind can have, and none at all.

    Linformer's rows mix later tokens in, so that only an encoder can have it. A decoder is causal anyway.
    """
    writes = kind == "decoder-only"
    candidates = [
        each for each in variants(sizes) if each.key != "causal" and not (writes and each.cache_tensors is None)
    ]
    return [*candidates, replace(candidates[0], key=NONE, name=say("no self-attention"), options=None, attend=nothing)]


def arm_of(variant: Variant) -> Arm:
    """Training of a network with this variant."""
    if variant.options is not None:
        return Arm(variant.key, variant.options)
    return Arm(variant.key, change=putting(variant))


def judge(compared: Sequence[Variant], side: Side) -> tuple[Rule | None, Message]:
    """Rule and reason, from the shares of full attention's learning that each variant reaches."""
    first = compared[0].key
    if not side.done:
        return None, say("the trainings go on: step {step} of {steps}", step=side.step, steps=side.steps)
    given = [beats_chance(side, first, compared[0].name)]
    if given[0].met is None:
        return Rule(given=given), open_learning_words(compared[0].name)
    if not given[0].met:
        return Rule(given=given), say("full attention has learnt next to nothing: give it more steps")
    reached = {each.key: learning_share(side, each.key, first, each.name) for each in compared}
    as_well = {key: clearly_above(share, AS_WELL) for key, share in reached.items()}
    shares = {key: share.mean for key, share in reached.items()}
    if NONE in as_well:
        given.append(~as_well[NONE])
    if not given[-1].met:
        return Rule(given=given), say(
            "this task may be learnt as well without self-attention, so that it tells nothing"
        )
    candidates = [each for each in compared[1:] if each.key != NONE]
    least, *_, most = sorted(candidates, key=lambda each: shares[each.key])
    met = [as_well[each.key].met for each in candidates]
    reason = say(
        "{good} of {count} variants learn as well as full attention, {bad} do not, and of {unsure} the seeds do not "
        "decide it; the loss of {most} falls {more} % as far, that of {least} {less} %, and without self-attention "
        "{none} %",
        good=met.count(True),
        bad=met.count(False),
        unsure=met.count(None),
        count=len(candidates),
        most=most.name,
        more=100 * shares[most.key],
        least=least.name,
        less=100 * shares[least.key],
        none=100 * shares.get(NONE, 0.0),
    )
    every_one = clearly_above(Quantity(say("share that is learnt, each variant"), ()), AS_WELL).text
    return replace(each_of([as_well[each.key] for each in candidates], every_one), given=given), reason


def outcome(compared: Sequence[Variant], side: Side) -> Outcome:
    """Outcome of the trainings so far."""
    names: Mapping[str, Variant] = {each.key: each for each in compared}
    quantities, rows, curves = [], [], []
    for key, each in names.items():
        courses = side.of(key)
        final = ends(courses)
        quantities.append(Quantity(say("final loss: {variant}", variant=each.name), tuple(final), "nats"))
        seconds = fmean(course.seconds for course in courses)
        rows.append((each.name, fmean(final), 1e3 * seconds, courses[0].parameters, each.needs))
        steps = range(1, min(len(course.losses) for course in courses) + 1)
        means = [fmean(course.losses[step - 1] for course in courses) for step in steps]
        curves.append(Curve(each.name, [float(step) for step in steps], smooth(means)))
    columns = (say("variant"), say("final loss, nats"), say("ms a step"), say("parameters"), say("weights of its own"))
    figures = (
        Table(say("After the same training"), columns, rows),
        Curves(say("Loss while training, smoothed"), say("step"), say("nats for each token"), curves),
    )
    return Outcome(*judge(compared, side), quantities, figures)


def smooth(values: Sequence[float], width: int = 9) -> list[float]:
    """Mean of each value and the ones before it, `width` in all."""
    return [fmean(values[max(0, end - width) : end]) for end in range(1, len(values) + 1)]


def run(request: Request) -> Iterator[Report[Outcome]]:
    """Train every variant, a step of each in turn."""
    values = request.values
    sizes = Sizes(width=values["width"], rank=values["rank"], features=values["features"], rounds=2)
    compared = compared_of(sizes, values["kind"])
    yield from trained(compared, setup_of(values, tuple(request.seeds)))


def setup_of(values: Mapping[str, int | str], seeds: tuple[int, ...]) -> Setup:
    """Setup of a small network on a built-in task."""
    task = str(values["task"])
    return Setup(
        kind=values["kind"],  # type: ignore[arg-type]  # one of the parameter's choices
        task=task,
        lengths=lengths_of(task),
        steps=int(values["steps"]),
        d_model=int(values["d_model"]),
        depth=1,
        rate=4e-3,
        warmup=min(20, int(values["steps"]) // 5),
        seeds=seeds,
    )


def trained(compared: Sequence[Variant], setup: Setup) -> Iterator[Report[Outcome]]:
    """Train these variants; a report every few steps."""
    for report in train([arm_of(each) for each in compared], setup):
        step = report.result.step
        if step % 5 == 0 or step == setup.steps:
            yield Report(report.share, outcome(compared, report.result))


EXPERIMENTS = (
    Experiment(
        name="variants-trained",
        row=45,
        group=Group.TRAINING,
        statement=say("Trained in its place, every variant learns as well as full attention."),
        truth=say(
            "It depends on the task: a variant learns what it lets a token see. In sorting, an answer depends on the "
            "whole text; narrow windows and blocks cannot see it in one layer, while shared heads, a latent and "
            "differential attention see every token. Linformer mixes all tokens, later ones too, so that it is trained "
            "in encoders alone; Reformer's keys are its queries."
        ),
        run=run,
        parameters=(
            Parameter("task", say("task"), "sort", choices=("sort", "reverse", "copy")),
            Parameter("kind", say("kind of the network"), "decoder-only", choices=("decoder-only", "encoder-decoder")),
            Parameter("steps", say("steps of each training"), 90, 5.0, 2000.0),
            Parameter("d_model", "d_model", 32, 8.0, 256.0),
            Parameter("width", say("tokens of a window or block"), 4, 1.0, 64.0),
            Parameter("rank", say("rank (Linformer, latent)"), 8, 1.0, 128.0),
            Parameter("features", say("random features"), 32, 2.0, 512.0),
        ),
        seeded=True,
        seconds=40.0,
        formulas=(r"\frac{\ell_0 - \ell_{\mathrm{variant}}}{\ell_0 - \ell_{\mathrm{full}}} \ge 0.95",),
        code=(putting, judge),
        source="; ".join(dict.fromkeys(each.source for each in variants(Sizes()))),
    ),
)
