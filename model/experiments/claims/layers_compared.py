"""Recurrence, convolution and attention of the same width (Vaswani et al., 2017, table 1), counted and timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.experiments.engines.attention_cost import (
    Sizes,
    new_attention,
    operations,
    room,
    standard_normal,
    step_by_step,
    upper_fit,
)
from model.experiments.engines.convolution import ConvolutionStack, layers_needed
from model.experiments.engines.ratios import ratio
from model.experiments.engines.timing import SECONDS, Fit, Task, Times, first_of_tail, peak_memory, rounds
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    over_seeds,
)
from model.experiments.rule import Condition, Quantity, Rule, clearly_below
from model.experiments.runner import Report
from model.message import Message, say
from model.network.masks import Mask
from model.network.recurrent import GRU
from model.runtime.device import choose_device, give_back_memory
from model.runtime.random import seeded

SHORTEST = 16
ROUNDS = 3  # of each layer at each length, at least
SAMPLES = 16  # inputs over which a gradient's norm is taken
KINDS = ("recurrent", "convolutional", "attention")
FORMS = ("recurrent", "recurrent kernel", "convolutional", "attention", "attention kernel")
QUICK = {"recurrent": "recurrent kernel", "convolutional": "convolutional", "attention": "attention kernel"}
NAMES: Mapping[str, str] = {
    "recurrent": say("recurrent (GRU), step by step"),
    "recurrent kernel": say("recurrent, torch's own kernel"),
    "convolutional": say("stack of dilated convolutions"),
    "attention": say("attention, step by step"),
    "attention kernel": say("attention, fused kernel"),
}
# Table 1 of the paper: operations, steps that wait for one another, and longest path of a layer.
PAPER = {
    "recurrent": ("O(n d²)", "O(n)", "O(n)"),
    "convolutional": ("O(k n d²)", "O(1)", "O(logₖ n)"),
    "attention": ("O(n² d)", "O(1)", "O(1)"),
}


@dataclass(frozen=True)
class Layer:
    """A layer to measure.

    run: output of x (batch, length, width). steps: after each step that waits for the one before, how many positions
    are known and the output of the last of them (batch, width). operations: floating-point ones of matrix products.
    """

    run: Callable[[Tensor], Tensor]
    steps: Callable[[Tensor], Iterator[tuple[int, Tensor]]]
    operations: int


def layers(sizes: Sizes, kernel: int, length: int) -> dict[str, Layer]:
    """Every form of `FORMS`, of one width, for texts of a length."""
    width, device = sizes.width, sizes.device
    with seeded(0, device):
        gru, theirs = GRU(width, width), nn.GRU(width, width, batch_first=True)
        stack = ConvolutionStack(width, kernel, layers_needed(length, kernel))
    for module in (gru, theirs, stack):
        module.to(device, sizes.dtype)
    attention = new_attention(sizes)
    products = 2 * length * width**2  # operations of n products with a matrix d × d
    counted = operations(sizes, length)
    of_attention = counted["projections"] + counted["scores"] + counted["values"]

    def recurrence(x: Tensor) -> Iterator[tuple[int, Tensor]]:
        return ((number, gates.state[:, 0]) for number, gates in enumerate(gru.steps(x), start=1))

    def convolutions(x: Tensor) -> Iterator[tuple[int, Tensor]]:
        for number, layer in enumerate(stack.layers):
            x = layer(x if number == 0 else x.relu())
            yield x.shape[1], x[:, -1]

    def at_once(x: Tensor) -> Iterator[tuple[int, Tensor]]:
        yield x.shape[1], step_by_step(attention, x)[:, -1]

    return {
        "recurrent": Layer(lambda x: one_by_one(gru, x), recurrence, 6 * products),
        "recurrent kernel": Layer(lambda x: theirs(x)[0], recurrence, 6 * products),
        "convolutional": Layer(stack, convolutions, len(stack.layers) * kernel * products),
        "attention": Layer(lambda x: step_by_step(attention, x), at_once, of_attention),
        "attention kernel": Layer(lambda x: attention(x, x, Mask()), at_once, of_attention),
    }


def one_by_one(gru: GRU, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
    """Outputs of the recurrent layer, each written to its place, so that only one state is kept beside them."""
    outputs = torch.empty_like(x)
    for position, gates in enumerate(gru.steps(x)):
        outputs[:, position] = gates.state[:, 0]
    return outputs


def count_steps(layer: Layer, x: Float[Tensor, "batch length width"]) -> tuple[int, int]:
    """Number of steps that wait for one another, and of those until the last output depends on the first input.

    That dependence is seen by a NaN in the first input, which no arithmetic removes; 0 where it never arrives.
    """
    x, steps, path = x.clone(), 0, 0
    x[:, 0] = math.nan
    for known, output in layer.steps(x):
        steps += 1
        if not path and known == x.shape[1] and bool(output.isnan().any()):
            path = steps
    return steps, path


@dataclass(frozen=True)
class Point:
    """Numbers of each form at one length. memory: peak bytes of the tensors that it makes."""

    length: int
    times: Mapping[str, Times]
    memory: Mapping[str, int]
    steps: Mapping[str, int]
    path: Mapping[str, int]
    operations: Mapping[str, int]


@dataclass(frozen=True)
class LayerMeasurements:
    """All that is measured so far, shortest length first.

    gradients: of each kind, for each seed, ‖∂ last output / ∂ input‖ at each of `distances` positions before it.
    left_out: lengths that do not fit into memory.
    """

    width: int
    kernel: int
    points: tuple[Point, ...] = ()
    distances: Sequence[int] = ()
    gradients: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()

    @property
    def lengths(self) -> list[int]:
        return [point.length for point in self.points]

    def column(self, quantity: str, form: str) -> list[float]:
        """Values of a form at each length: "steps", "path", "operations", "memory", or "times", the medians."""
        values = [getattr(point, quantity)[form] for point in self.points]
        return [value.median if isinstance(value, Times) else float(value) for value in values]

    def growth(self, quantity: str, form: str) -> Fit | None:
        """Growth of a quantity with the length, from an eighth of the longest on."""
        return upper_fit(self.lengths, self.column(quantity, form))


def gradients(width: int, kernel: int, distance: int, seed: int) -> dict[str, list[float]]:
    """‖∂ last output / ∂ input‖ of each kind, from the last input to the one `distance` before it, in float64.

    Weights are as at the start of a training. Of the output a random direction of length 1 is taken, and of the norm
    the root mean square over `SAMPLES` texts.
    """
    sizes = Sizes(batch=SAMPLES, heads=1, width=width, device=torch.device("cpu"), dtype=torch.float64)
    with seeded(seed, sizes.device):
        gru = GRU(width, width).double()
        stack = ConvolutionStack(width, kernel, layers_needed(distance + 1, kernel)).double()
    attention = new_attention(sizes, seed)
    x = standard_normal(sizes, SAMPLES, distance + 1, width, seed=seed).requires_grad_()
    direction = nn.functional.normalize(standard_normal(sizes, SAMPLES, width, seed=seed + 1), dim=-1)
    outputs = {"recurrent": gru(x), "convolutional": stack(x), "attention": attention(x, x, Mask())}
    norms = {}
    for kind, output in outputs.items():
        (gradient,) = torch.autograd.grad(output[:, -1], x, direction)
        norms[kind] = (gradient.norm(dim=(0, 2)) / SAMPLES**0.5).flip(0).tolist()
    return norms


def measure(
    request: Request, make: Callable[[Sizes, int, int], Mapping[str, Layer]] = layers
) -> Iterator[Report[LayerMeasurements]]:
    """Compare layers at ever longer lengths, as far as memory reaches. make: the layers for a length."""
    width, kernel, longest = (request.values[name] for name in ("width", "kernel", "longest"))
    sizes = Sizes(batch=1, heads=1, width=width, device=choose_device(), dtype=torch.float32)
    distances = list(range(request.values["distance"] + 1))
    by_seed = [gradients(width, kernel, distances[-1], seed) for seed in request.seeds]
    results = LayerMeasurements(
        width, kernel, (), distances, {kind: [each[kind] for each in by_seed] for kind in KINDS}
    )
    lengths = doubled(longest)
    for number, length in enumerate(lengths):
        give_back_memory()
        if not room(sizes, length).enough:
            yield Report(1.0, replace(results, left_out=tuple(lengths[number:])))
            return
        for newest, share in at_length(make(sizes, kernel, length), standard_normal(sizes, 1, length, width)):
            done = sum(work(each) for each in lengths[:number]) + share * work(length)
            progress = done / sum(map(work, lengths))
            yield Report(progress, replace(results, points=(*results.points, newest)))
        results = replace(results, points=(*results.points, newest))
    yield Report(1.0, results)


def doubled(longest: int) -> list[int]:
    """Lengths by doubling from `SHORTEST` to the longest."""
    lengths = [longest]
    while lengths[-1] >= 2 * SHORTEST:
        lengths.append(lengths[-1] // 2)
    return lengths[::-1]


def work(length: int) -> float:
    """Part of the whole time that a length takes, about: a minimum, and the rest by attention's n²."""
    return 1 + (length / 1500) ** 2


def at_length(by_form: Mapping[str, Layer], x: Float[Tensor, "1 length width"]) -> Iterator[tuple[Point, float]]:
    """Numbers of the layers on one input so far, and the share of the measurement that is done."""
    with torch.inference_mode():
        counts = {form: count_steps(layer, x) for form, layer in by_form.items()}
        tasks = {form: Task(layer.run, lambda: x) for form, layer in by_form.items()}
        memory = {form: peak_memory(task) for form, task in tasks.items()}
        for times in rounds(tasks, x.device, ROUNDS, SECONDS):
            runs = next(iter(times.values())).runs
            spent = runs * sum(each.median for each in times.values())
            point = Point(
                x.shape[1],
                times,
                memory,
                {form: steps for form, (steps, _path) in counts.items()},
                {form: path for form, (_steps, path) in counts.items()},
                {form: layer.operations for form, layer in by_form.items()},
            )
            yield point, min(1.0, runs / ROUNDS, spent / SECONDS)


def judge(results: LayerMeasurements) -> tuple[Rule, Message]:
    """Rule of paths and speed. Speed: of the quickest form of each kind; within the noise nothing is decided."""
    last, attention, recurrent = results.points[-1], QUICK["attention"], QUICK["recurrent"]
    counts = say(
        "from the first input to the last output of {length} tokens attention takes {attention} step, the convolutions "
        "{convolutional}, the recurrent layer {recurrent}",
        length=last.length,
        **{kind: last.path[kind] for kind in KINDS},
    )
    table = all(
        point.path["attention"] == 1
        and point.path["recurrent"] == point.length
        and 1 < point.path["convolutional"] < point.length
        for point in results.points
    )

    def quicker(point: Point) -> bool | None:
        """True where attention is; None: within the noise."""
        name = say("time of attention, in times of the recurrent layer's")
        return clearly_below(ratio(point.times[attention], point.times[recurrent]).quantity(name), 1.0).met

    faster = [point.length for point in results.points if quicker(point)]
    turn = first_of_tail(results.points, lambda point: quicker(point) is False)
    always = True if len(faster) == len(results.points) else False if turn else None
    rule = Rule(
        [
            Condition(say("steps and paths are those of the table"), table),
            Condition(
                say("attention is quicker at some length, or not slower on the longest texts"), bool(faster) or not turn
            ),
        ],
        wants=[
            Condition(say("attention is quicker at every length, and not slower on the longest texts"), always, True)
        ],
    )
    if not table:
        return rule, say("{counts}: not as the table has it", counts=counts)
    if not turn:
        return rule, {
            True: say("{counts}, and attention is quicker at every length measured", counts=counts),
            None: say("{counts}; which is quicker, the times do not decide at every length", counts=counts),
        }[always or None]
    if not faster:
        return rule, say("{counts}; but attention is quicker at no length measured", counts=counts)
    return rule, say(
        "{counts}; but attention is quicker only on short texts: up to {last} tokens it is, from {turn} on the "
        "recurrent layer is",
        counts=counts,
        last=max(faster),
        turn=turn.length,
    )


def outcome(results: LayerMeasurements) -> Outcome:
    """Verdict, exponents and figures of what is measured so far."""
    if not results.points:
        return Outcome(None, say("not even the shortest text fits into memory"), (), (gradient_figure(results),))
    rule, reason = judge(results)
    if results.left_out:
        reason = say(
            "{reason} (from {length} tokens on memory is too small)", reason=reason, length=results.left_out[0]
        )
    quantities = [
        Quantity(say("time of the longest text: {layer}", layer=NAMES[form]), (results.column("times", form)[-1],), "s")
        for form in FORMS
    ]
    figures = (
        table(results),
        growth_figure(results, "times", say("Time over the length"), say("seconds")),
        growth_figure(results, "memory", say("Memory over the length"), say("bytes")),
        growth_figure(results, "operations", say("Operations over the length"), say("operations")),
        growth_figure(results, "steps", say("Steps that wait for one another"), say("steps")),
        gradient_figure(results),
    )
    return Outcome(rule, reason, quantities, figures)


def table(results: LayerMeasurements) -> Table:
    """Table 1 of the paper beside what was counted and measured."""
    last = results.points[-1]
    rows: list[list[str | float | int]] = []
    for form in FORMS:
        complexity, sequential, path = PAPER[form.partition(" ")[0]]
        growths = [exponent(results.growth(quantity, form)) for quantity in ("operations", "times", "memory")]
        rows.append([NAMES[form], complexity, *growths, sequential, last.steps[form], path, last.path[form]])
    columns = (
        say("layer"),
        say("paper: operations of a layer"),
        say("exponent of n: operations counted"),
        say("exponent of n: time"),
        say("exponent of n: memory"),
        say("paper: steps in sequence"),
        say("steps counted at {length} tokens", length=last.length),
        say("paper: longest path"),
        say("path seen at {length} tokens", length=last.length),
    )
    return Table(say("Table 1 of the paper, and what was measured (d = {width})", width=results.width), columns, rows)


def exponent(fit: Fit | None) -> str:
    """Exponent with its 95 % interval; "?" from fewer than two lengths."""
    if fit is None:
        return "?"
    if math.isnan(fit.error):
        return f"{fit.exponent:.2f}"
    return f"{fit.exponent:.2f} ± {fit.error:.2f}"


def growth_figure(results: LayerMeasurements, quantity: str, title: str, unit: str) -> Curves:
    """Figure of a quantity over the length; forms that cannot differ in it are drawn once."""
    curves = []
    for form in FORMS if quantity in ("times", "memory") else KINDS:
        low = high = None
        if quantity == "times":
            low, high = ([getattr(point.times[form], end) for point in results.points] for end in ("low", "high"))
        values, kernel = results.column(quantity, form), form.endswith("kernel")
        curves.append(Curve(NAMES[form], results.lengths, values, low, high, dash=kernel))
    return Curves(title, say("length in tokens"), unit, curves, log_x=True, log_y=True)


def gradient_figure(results: LayerMeasurements) -> Curves:
    """Gradient over the distance, mean of its logarithm and range over the seeds."""

    def geometric(values: Sequence[float]) -> float:
        return math.exp(fmean(math.log(max(value, 1e-300)) for value in values))

    curves = [
        over_seeds(NAMES[kind], results.distances, zip(*results.gradients[kind], strict=True), mean=geometric)
        for kind in KINDS
    ]
    title = say("Gradient from the last output to an earlier input, before any training")
    return Curves(title, say("distance in tokens"), say("‖∂ output / ∂ input‖"), curves, log_y=True)


def run(request: Request) -> Iterator[Report[Outcome]]:
    for report in measure(request):
        yield Report(report.share, outcome(report.result))


EXPERIMENTS = (
    Experiment(
        name="layers-compared",
        row=39,
        group=Group.ARCHITECTURES,
        statement=say(
            "Self-attention joins any two positions in one step, where a recurrent layer takes n steps one after the "
            "other and convolutions a stack of layers, about logₖ n where they are dilated and n/k where not; so "
            "attention is the quicker layer."
        ),
        truth=say(
            "Of steps and paths it holds; the convolutions here are dilated. But attention has n² d operations, "
            "recurrence n d²: with texts much longer than d it has more to compute, and from which length on that "
            "makes it slower depends on the machine."
        ),
        run=run,
        parameters=(
            Parameter("width", say("width d of every layer"), 64, 8, 512),
            Parameter("kernel", say("kernel k of convolutions"), 3, 2, 9),
            Parameter("longest", say("longest text in tokens"), 8192, 64, 16384),
            Parameter("distance", say("gradient up to distance"), 128, 8, 1024),
        ),
        seeded=True,
        seconds=1.0,
        once=40.0,
        formulas=(
            r"h_t = (1 - z_t) \odot \tanh(W x_t + r_t \odot U h_{t-1}) + z_t \odot h_{t-1}",
            r"y_t = b + \sum_{j=0}^{k-1} W_j\, x_{t - j k^i}",
            r"Y = \mathrm{softmax}\left(Q K^\top / \sqrt{d}\right) V",
        ),
        code=(GRU, ConvolutionStack, count_steps),
        source="Vaswani et al., 2017, section 4, table 1",
    ),
)
