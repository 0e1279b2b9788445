"""The paper's base and big sizes: what they need by arithmetic, and measured where they fit (row 38)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from model.data.datasets import Batch
from model.experiments.engines.attention_cost import (
    Sizes,
    lengths_up_to,
    new_attention,
    require_room,
    standard_normal,
    step_by_step,
    upper_fit,
)
from model.experiments.engines.tensor_bytes import TensorBytes, peak_bytes
from model.experiments.engines.timing import Fit, clock_of, exponent_of, settle, summary
from model.experiments.experiment import Curve, Curves, Experiment, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Condition, Quantity, clearly_above, each_of
from model.experiments.runner import Report
from model.message import Message, say
from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.costs import FLOAT, Costs, costs
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from model.network.transformer import Network, build
from model.runtime.device import choose_device, give_back_memory
from model.runtime.memory import SPARE, available
from model.training.cost import table_memory
from model.training.gradients import Gradients
from model.training.losses import summed_loss
from model.training.optimizer import FlatAdamW, RunningAverage

VOCABULARY = 37_000  # tokens, shared by source and target (section 5.1)
PUBLISHED = {"paper-base": 65e6, "paper-big": 213e6}  # presets, and their parameters (table 3)
RUNS = 3  # of a timed pass
STEP = 4  # forward passes that take as long as a training step, about
SHARES = (0.1, 0.3, 1.0)  # of the time, that pass before base, before big, and in all
BETWEEN = 1.5  # exponent half-way between linear and quadratic


@dataclass(frozen=True)
class SizeMeasurements:
    """Measurements of a size, by torch's own counters. None: it was not measured. forward, step: seconds.

    parameters: of the network that was built. flops: of a forward pass. inference: peak bytes of one, weights included.
    training: peak bytes of a training step.
    """

    parameters: int | None = None
    flops: int | None = None
    forward: float | None = None
    inference: int | None = None
    step: float | None = None
    training: int | None = None


@dataclass(frozen=True)
class Size:
    """Size of a Transformer for a batch: predicted and measured. refusal: why something was not measured."""

    name: str
    config: TransformerConfig
    predicted: Costs
    measured: SizeMeasurements = SizeMeasurements()
    refusal: Message | None = None


def size_of(name: str, batch: int, length: int, vocabulary: int = VOCABULARY) -> Size:
    """Size of a preset, predicted for a batch of `batch` pairs of `length` tokens on each side."""
    config = TransformerConfig.preset(name, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    return Size(name, config, costs(config, batch, length, length))


def measure(size: Size, batch: int, length: int, free: int) -> Iterator[Size]:
    """Measure a forward pass and a training step, where they fit into `free` bytes; yield each time."""
    weights = size.predicted.memory["weights"] + table_memory(size.config)
    activations = size.predicted.memory["activations"]
    shared = FLOAT * size.config.vocabulary * size.config.d_model  # bytes of the matrix of embeddings and output
    needed = int(SPARE * (weights + activations + 2 * shared))  # three, until the network is built
    if needed > free:
        yield replace(size, refusal=too_large(needed, free))
        return
    device = choose_device()
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(size.config.target_vocabulary, (3, batch, length), generator=draw).to(device)
    with TensorBytes() as tensors:
        network = build(size.config).to(device).eval()
        tensors.peak = tensors.now
        with torch.inference_mode():
            network(ids[0], ids[1])
    measurements = SizeMeasurements(network.parameter_count(), flops_of(network, ids), inference=tensors.peak)
    seconds = []
    for _run in range(RUNS):
        with torch.inference_mode():
            seconds.append(timed(lambda: network(ids[0], ids[1]), device))
        measurements = replace(measurements, forward=summary(seconds).median)
        yield replace(size, measured=measurements)
    needed = int(SPARE * (training_memory(size) + 3 * shared))  # a gradient of each use, until they are added up
    if needed > free:
        yield replace(size, measured=measurements, refusal=too_large(needed, free))
    else:
        yield from measure_training(replace(size, measured=measurements), network, ids, tensors)
    del network
    give_back_memory()


def measure_training(size: Size, network: Network, ids: Tensor, tensors: TensorBytes) -> Iterator[Size]:
    """Time training steps. tensors: those that were counted when the network was built."""
    rows = Batch((ids[0], ids[1], None, None), ids[2], whole=True)
    with tensors:
        tensors.peak = 0
        step = training_step(network.train(), rows)
        give_back_memory()  # of the weights that are in a row now
        step()
    measurements = replace(size.measured, training=tensors.peak)
    seconds = []
    for _run in range(RUNS):
        seconds.append(timed(step, network.device))
        yield replace(size, measured=replace(measurements, step=summary(seconds).median))


def training_step(network: Network, rows: Batch) -> Callable[[], None]:
    """Function that makes one step as the trainer does: loss, gradients, AdamW, average of the weights."""
    gradients = Gradients(network)
    average = RunningAverage(network, 0.999, gradients.weights)
    optimizer = FlatAdamW(gradients, 1e-4)

    def step() -> None:
        gradients.clear()
        (summed_loss(network, rows, 0.1) / rows.labels.numel()).backward()
        optimizer.step()
        average.after_step(1)

    return step


def flops_of(network: Network, ids: Tensor) -> int:
    """Operations of a forward pass, counted by torch."""
    with torch.no_grad(), plain_kernels(), FlopCounterMode(display=False) as counter:
        network(ids[0], ids[1])
    return int(counter.get_total_flops())


def passes_done(count: int) -> float:
    """Share of a size's time that has passed with so many reports of `measure`: first forward passes, then steps.
    Before those that are timed, the network is built and counted, and one of each is made.
    """
    steps = max(0, count - RUNS)
    done = 3 + min(count, RUNS) + STEP * (steps + (steps > 0))
    return min(1.0, done / (3 + RUNS + STEP * (RUNS + 1)))


def timed(run: Callable[[], object], device: torch.device) -> float:
    """Seconds of a pass."""
    clock = clock_of(device)
    began = clock()
    run()
    settle(device)
    return clock() - began


def too_large(needed: int, free: int) -> Message:
    return say("it needs {needed} GB and {free} GB are free", needed=needed / 1e9, free=free / 1e9)


# Growth of memory with the length, of one attention of the base size.


def explicit(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """Attention that writes its maps into memory."""
    return step_by_step(attention, x)


def fused(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """Attention by the fused kernel."""
    output: Tensor = attention(x, x, Mask())
    return output


Way = Callable[[MultiHeadAttention, Tensor], Tensor]


@dataclass(frozen=True)
class Memory:
    """Peak bytes of each way at each length, and those of a single map of all heads by arithmetic."""

    lengths: Sequence[int]
    peaks: Mapping[str, Sequence[int]]
    maps: Sequence[int]

    def growing(self, way: str) -> Fit | None:
        """Growth of a way's peak with the length."""
        return upper_fit(self.lengths, self.peaks[way])

    def quadratic(self, way: str) -> Condition:
        """A way's peak grows more like n² than like n."""
        return clearly_above(exponent_of(WAY_NAMES[way], self.growing(way)), BETWEEN)


def grown(sizes: Sizes, longest: int, ways: Mapping[str, Way]) -> Iterator[Memory]:
    """Measure ever longer texts.

    Raises:
        ValueError: the longest does not fit into memory.
    """
    require_room(sizes, longest)
    attention = new_attention(sizes)
    lengths: list[int] = []
    peaks: dict[str, list[int]] = {way: [] for way in ways}
    for length in lengths_up_to(longest):
        x = standard_normal(sizes, 1, length, sizes.config.d_model)
        for way, attend in ways.items():
            with torch.inference_mode():
                peaks[way].append(peak_bytes(lambda: attend(attention, x)))  # noqa: B023 (called at once)
        lengths.append(length)
        maps = [sizes.heads * n * n * sizes.dtype.itemsize for n in lengths]
        yield Memory(tuple(lengths), {way: tuple(values) for way, values in peaks.items()}, maps)


WAYS: dict[str, Way] = {"explicit": explicit, "fused": fused}
WAY_NAMES = {"explicit": say("maps written into memory"), "fused": say("fused kernel")}


def outcome(sizes: Sequence[Size], memory: Memory | None) -> Outcome:
    """Verdict on the growth of memory, beside what each size needs."""
    exponents = say(
        "the exponent of n in the memory is above {between}, even at the lower end of its interval", between=BETWEEN
    )
    rule = each_of([memory.quadratic(way) for way in WAYS], exponents) if memory else None
    base = sizes[0]
    reason = say(
        "base has {base} million parameters (the paper's table: {published}); memory grows with n to the power of "
        "{explicit} where maps are written into memory, and to the power of {fused} in the fused kernel",
        base=base.predicted.parameter_count / 1e6,
        published=PUBLISHED[base.name] / 1e6,
        **{way: exponent(memory, way) for way in WAYS},
    )
    quantities = []
    for size in sizes:
        for name, measured, predicted in (
            (say("operations of {size}, counted / predicted", size=size.name), size.measured.flops, flops(size)),
            (
                say("memory of a training step of {size}, measured / predicted", size=size.name),
                size.measured.training,
                training_memory(size),
            ),
        ):
            if measured is not None:
                quantities.append(Quantity(name, (measured / predicted,)))
    figures: list[Any] = [table(sizes)]
    if memory:
        lengths = [float(length) for length in memory.lengths]
        curves = [Curve(WAY_NAMES[way], lengths, [float(size) for size in memory.peaks[way]]) for way in WAYS]
        maps = say("one map of all heads, by arithmetic")
        curves.append(Curve(maps, lengths, [float(size) for size in memory.maps], dash=True))
        title = say("Peak memory of one attention of the base size")
        figures.append(Curves(title, say("tokens n"), say("bytes"), curves, log_x=True, log_y=True))
    return Outcome(rule, reason, quantities, figures)


def flops(size: Size) -> int:
    return size.predicted.forward_flops


def training_memory(size: Size) -> int:
    return size.predicted.training_memory + table_memory(size.config)


def exponent(memory: Memory | None, way: str) -> float | str:
    growing = memory.growing(way) if memory else None
    return "?" if growing is None else growing.exponent


def table(sizes: Sequence[Size]) -> Table:
    """Predicted and measured numbers, a quantity a row, two columns a size."""
    columns: list[str] = [say("quantity")]
    rows: list[list[str | float | int]] = [
        [say("layers × d_model × heads")],
        [say("parameters, in millions")],
        [say("operations of a forward pass, in billions")],
        [say("memory of a forward pass with weights, in GB")],
        [say("seconds of a forward pass")],
        [say("operations of a training step, in billions")],
        [say("memory of a training step, in GB")],
        [say("seconds of a training step")],
        [say("not measured, as")],
    ]
    for size in sizes:
        columns += [say("{size}, predicted", size=size.name), say("{size}, measured", size=size.name)]
        config, measured = size.config, size.measured
        shape = f"{config.n_encoder_layers} + {config.n_decoder_layers} × {config.d_model} × {config.n_heads}"
        weights = (size.predicted.memory["weights"] + table_memory(config)) / 1e9
        pairs: list[tuple[str | float, str | float]] = [
            (shape, ""),
            (size.predicted.parameter_count / 1e6, scaled(measured.parameters, 1e6)),
            (flops(size) / 1e9, scaled(measured.flops, 1e9)),
            (say("weights alone {weights}", weights=weights), scaled(measured.inference, 1e9)),
            ("", scaled(measured.forward)),
            (size.predicted.training_flops / 1e9, ""),
            (training_memory(size) / 1e9, scaled(measured.training, 1e9)),
            ("", scaled(measured.step)),
            ("", size.refusal or ""),
        ]
        for row, pair in zip(rows, pairs, strict=True):
            row += pair
    visible_rows = rows if any(size.refusal for size in sizes) else rows[:-1]
    return Table(say("The paper's sizes, predicted and measured"), columns, visible_rows)


def scaled(value: float | None, unit: float = 1.0) -> float | str:
    """Number in a unit; empty where it was not measured."""
    return "" if value is None else value / unit


def run(request: Request) -> Iterator[Report[Outcome]]:
    """Memory over lengths first, then each size, as far as it fits."""
    batch, length, longest = (request.values[name] for name in ("batch", "length", "longest"))
    sizes = {name: size_of(name, batch, length) for name in PUBLISHED}
    memory: Memory | None = None
    yield Report(0.0, outcome(list(sizes.values()), memory))
    base = sizes["paper-base"].config
    one = Sizes(batch=1, heads=base.n_heads, width=base.d_head, device=choose_device(), dtype=torch.float32)
    due = len(lengths_up_to(longest))
    for memory in grown(one, longest, WAYS):
        yield Report(0.02 + 0.08 * len(memory.lengths) / due, outcome(list(sizes.values()), memory))
    for number, name in enumerate(PUBLISHED):
        give_back_memory()
        for count, size in enumerate(measure(sizes[name], batch, length, available(one.device)), start=1):
            sizes[name] = size
            share = SHARES[number] + (SHARES[number + 1] - SHARES[number]) * passes_done(count)
            yield Report(min(1.0, share), outcome(list(sizes.values()), memory))
    yield Report(1.0, outcome(list(sizes.values()), memory))


EXPERIMENTS = (
    Experiment(
        name="paper-sizes",
        row=38,
        group=Group.COST,
        statement=say(
            "The paper's base size has 6 layers, d_model 512 and 8 heads; long inputs need memory that grows with n²."
        ),
        truth=say(
            "Each of its two stacks has 6 layers, and big has d_model 1,024 and 16 heads. The maps grow with n²; a "
            "kernel that never writes them needs memory that grows with n."
        ),
        run=run,
        parameters=(
            Parameter("batch", say("pairs of a batch"), 2, 1, 64),
            Parameter("length", say("tokens of each side"), 32, 1, 512),
            Parameter("longest", say("longest text"), 2048, 64, 1 << 15),
        ),
        seconds=30.0,
        formulas=(r"\text{maps} = h\, n^2 \cdot 4\ \text{bytes}",),
        code=(costs, training_step, explicit, fused),
        source="sections 3.1 and 5.1; table 3",
    ),
)
