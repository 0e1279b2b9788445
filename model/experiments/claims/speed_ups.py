"""Speed-ups of tutorials, each switched on and off on the loaded model: time, memory, and what changes (row 37)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from model.capture.hooks import looks_ahead
from model.data.pairs import Example, batch_order
from model.experiments.engines.ratios import Ratio, ratio
from model.experiments.engines.tensor_bytes import peak_bytes
from model.experiments.engines.timing import Task, Times, rounds
from model.experiments.experiment import Experiment, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Condition, clearly_above, each_of
from model.experiments.runner import Report
from model.inference.beam_search import beam_search, require_room
from model.inference.decoding import greedy
from model.inference.text_model import TextModel
from model.message import Message, say
from model.network.decoding_state import DecodingState
from model.network.kernels import plain_kernels
from model.network.positions import RelativeBias
from model.runtime.device import DTYPES

RUNS, SECONDS = 7, 1.0  # of each speed-up, on and off together
ROWS = 4  # of a batch, where texts differ in length


@dataclass(frozen=True)
class Output:
    """Numbers of any shape that were computed, and the tokens that they choose."""

    numbers: Tensor
    tokens: Sequence[Any]


@dataclass(frozen=True)
class SpeedUp:
    """The same work with a speed-up and without it. read: output of what either returns.

    refusal: why this model cannot be run both ways; then there is no work.
    """

    name: Message
    on: Callable[[], Any] = lambda: None
    off: Callable[[], Any] = lambda: None
    read: Callable[[Any], Output] = lambda output: output
    refusal: Message | None = None


@dataclass(frozen=True)
class SpeedUpMeasurement:
    """Measurements of a speed-up. gain: time without it in units of the time with it.

    difference: largest absolute one of the numbers. same: share of tokens that are the same.
    """

    name: Message
    off: Times
    on: Times
    memory_off: int
    memory_on: int
    difference: float
    same: float

    @property
    def gain(self) -> Ratio:
        return ratio(self.off, self.on)

    @property
    def quicker(self) -> Condition:
        """Condition that the speed-up is faster than the way without it."""
        return clearly_above(self.gain.quantity(say("{name}, times as fast", name=self.name)), 1.0)


def measure(speed_ups: Sequence[SpeedUp], device: torch.device, runs: int = RUNS) -> Iterator[Report[Outcome]]:
    """Run each speed-up on and off in turn; a report after each few runs. runs: of each, at least."""
    refused = [each for each in speed_ups if each.refusal]
    work = [each for each in speed_ups if not each.refusal]
    done: list[SpeedUpMeasurement] = []
    for each in work:
        off, on = each.read(each.off()), each.read(each.on())
        difference = float((off.numbers.double() - on.numbers.double()).abs().max())
        alike = [one == other for one, other in zip(off.tokens, on.tokens, strict=True)]
        memory = peak_bytes(each.off), peak_bytes(each.on)
        tasks = {"off": task(each.off), "on": task(each.on)}
        for times in rounds(tasks, device, runs, SECONDS):
            share = (len(done) + min(1.0, times["on"].runs / runs)) / len(work)
            newest = SpeedUpMeasurement(
                each.name, times["off"], times["on"], *memory, difference, sum(alike) / max(1, len(alike))
            )
            yield Report(min(share, 1.0), outcome([*done, newest], refused, len(work)))
        done.append(newest)
    if not work:
        yield Report(1.0, outcome([], refused, 0))


def outcome(compared: Sequence[SpeedUpMeasurement], refused: Sequence[SpeedUp], due: int) -> Outcome:
    """Verdict on "each makes it faster". due: number of speed-ups that will have been measured in the end."""
    faster, slower, unsure = ([each for each in compared if each.quicker.met is kind] for kind in (True, False, None))
    rule = each_of(
        [each.quicker for each in compared],
        say("with it the model is quicker, even at the lower end of the interval"),
    )
    if len(compared) < due:
        rule = replace(rule, wants=[Condition(say("all are measured"), None)])
    reason = say(
        "faster here: {faster}; slower here: {slower}; within the noise: {unsure}; not to be switched on this model: "
        "{refused}",
        faster=listed(faster),
        slower=listed(slower),
        unsure=listed(unsure),
        refused=listed(refused),
    )
    gains = [each.gain.quantity(say("{name}, times as fast", name=each.name)) for each in compared]
    return Outcome(rule if compared else None, reason, gains, [table(compared, refused)])


def task(run: Callable[[], object]) -> Task:
    return Task(lambda _nothing: run())


def listed(items: Sequence[SpeedUpMeasurement | SpeedUp]) -> Message:
    """Names joined by “and”."""
    names = say("none")
    for number, each in enumerate(items):
        names = say("{before} and {name}", before=names, name=each.name) if number else each.name
    return names


def table(compared: Sequence[SpeedUpMeasurement], refused: Sequence[SpeedUp]) -> Table:
    """Table of the speed-ups, one a row."""
    columns = (
        say("speed-up"),
        say("seconds without"),
        say("seconds with"),
        say("times as fast"),
        say("MB without"),
        say("MB with"),
        say("largest difference of the numbers"),
        say("same tokens, %"),
    )
    rows: list[list[str | float]] = [
        [
            each.name,
            each.off.median,
            each.on.median,
            say("{value} ({low} to {high})", value=each.gain.value, low=each.gain.low, high=each.gain.high),
            each.memory_off / 1e6,
            each.memory_on / 1e6,
            each.difference,
            100.0 * each.same,
        ]
        for each in compared
    ]
    rows += [[each.name, each.refusal or "", *[""] * (len(columns) - 2)] for each in refused]
    return Table(say("Each on and off, median of interleaved runs"), columns, rows)


# The five speed-ups of the tutorials, on the loaded model and its text.


@dataclass(frozen=True)
class Work:
    """Work of a measurement. length: tokens of a text. texts: in a batch. written: tokens of each. beam: hypotheses."""

    length: int
    texts: int
    written: int
    beam: int
    precision: str


def speed_ups(model: TextModel, text: str, work: Work) -> list[SpeedUp]:
    """Every speed-up with its work, or with the reason why it cannot be switched on this model.

    Raises:
        ValueError: the text has no tokens.
    """
    ids = model.source_tokens(text).ids
    if not ids:
        raise ValueError("the text has no tokens: type one, of which longer ones are made")
    return [
        mixed_precision(model, text, work),
        fused_attention(model, text, work),
        dynamic_padding(model, text, work),
        kv_cache(model, text, work),
        batched_beam(model, text, work),
    ]


def mixed_precision(model: TextModel, text: str, work: Work) -> SpeedUp:
    """Matrix products in 16 bits, the rest in float32, as trainings have them (Micikevicius et al., 2018)."""
    name = say("mixed precision, {precision}", precision=work.precision)
    if model.dtype != torch.float32:
        return SpeedUp(name, refusal=say("its weights are in {dtype} anyhow", dtype=str(model.dtype)[6:]))
    inputs = batch(model, text, [work.length] * work.texts, work.length)
    narrow = torch.autocast(model.device.type, DTYPES[work.precision])
    return SpeedUp(name, forward(model, inputs, narrow), forward(model, inputs), of_logits)


def fused_attention(model: TextModel, text: str, work: Work) -> SpeedUp:
    """One kernel for all steps of attention, which writes no map into memory, beside the steps one by one."""
    name = say("fused attention")
    if not model.network.ours:
        return SpeedUp(name, refusal=say("transformers' own code runs it, which attends in one way"))
    if any(isinstance(module, RelativeBias) for module in model.network.modules()):
        return SpeedUp(name, refusal=say("relative positions are always computed step by step"))
    inputs = batch(model, text, [work.length] * work.texts, work.length)
    return SpeedUp(name, forward(model, inputs), forward(model, inputs, plain=True), of_logits)


def dynamic_padding(model: TextModel, text: str, work: Work) -> SpeedUp:
    """Batches of texts of similar length, each padded to its longest, beside batches padded to the longest of all."""
    lengths = spread(work.length, work.texts)
    fixed = [range(first, min(first + ROWS, work.texts)) for first in range(0, work.texts, ROWS)]
    close = batch_order([Example([], [0] * length) for length in lengths], ROWS * work.length, None)
    ways = []
    for groups in (close, fixed):
        own = groups is close
        batches = []
        for group in groups:
            of_group = [lengths[row] for row in group]
            batches.append(batch(model, text, of_group, max(of_group) if own else work.length))
        ways.append((groups, [forward(model, inputs) for inputs in batches]))

    def run(way: int) -> Callable[[], tuple[int, list[Tensor]]]:
        return lambda: (way, [passed() for passed in ways[way][1]])

    def read(result: tuple[int, list[Tensor]]) -> Output:
        rows = [row for group in ways[result[0]][0] for row in group]
        by_row = dict(zip(rows, (logits for each in result[1] for logits in each), strict=True))
        return of_logits(torch.cat([by_row[row][: lengths[row]] for row in sorted(by_row)]))

    return SpeedUp(say("dynamic padding"), run(0), run(1), read)


def kv_cache(model: TextModel, text: str, work: Work) -> SpeedUp:
    """Keys and values of earlier tokens kept, beside all tokens computed again at each step; both by plain kernels."""
    name = say("KV cache")
    if refusal := writes_not(model):
        return SpeedUp(name, refusal=refusal)
    if not model.network.ours:
        return SpeedUp(name, refusal=say("transformers' own code runs it, with its own cache"))
    if looks_ahead(model.network):
        return SpeedUp(name, refusal=say("a change lets its tokens see later ones, which no cache can know"))
    row = model.source_tokens(text).ids
    row = row if model.kind == "encoder-decoder" else row[: max(1, model.config.max_length // 2)]
    limit = min(work.written, model.config.max_length - (1 if model.kind == "encoder-decoder" else len(row)))

    def run(cached: bool) -> Callable[[], tuple[list[list[int]], Tensor]]:
        def write() -> tuple[list[list[int]], Tensor]:
            with plain_kernels():
                ids, values, _tokens = greedy(decoding_state(model, [row], cached), ends=(), limits=[max(1, limit)])
            return ids, values

        return write

    return SpeedUp(name, run(True), run(False), lambda result: Output(result[1], result[0][0]))


def batched_beam(model: TextModel, text: str, work: Work) -> SpeedUp:
    """Beam searches of several texts in one batch, beside one text after the other."""
    name = say("batched beam search")
    if refusal := writes_not(model):
        return SpeedUp(name, refusal=refusal)
    source = model.source_tokens(text)
    end = len(source.ids) - source.after
    before, body, after = source.ids[: source.before], source.ids[source.before : end], source.ids[end:]
    body = body[: max(1, model.config.max_length // 2)]
    count = max(1, work.texts // ROWS)
    rows = [[*before, *body[first:], *body[:first], *after] for first in (n % max(1, len(body)) for n in range(count))]
    first = 1 if model.kind == "encoder-decoder" else len(rows[0])
    limit = max(1, min(work.written, model.config.max_length - first))
    require_room(model.config, model.device, work.beam, rows, limit)

    def run(groups: Sequence[Sequence[list[int]]]) -> Callable[[], list[Any]]:
        options: dict[str, Any] = {"ends": model.target_tokenizer.stops, "rules": model.target_tokenizer.rules}

        def search() -> list[Any]:
            return [
                tree
                for group in groups
                for tree in beam_search(
                    decoding_state(model, group), limits=[limit] * len(group), beam=work.beam, **options
                )
            ]

        return search

    def read(trees: list[Any]) -> Output:
        best = [tree.ranked()[0] for tree in trees]
        scores = torch.tensor([tree.score(node) for tree, node in zip(trees, best, strict=True)])
        return Output(
            scores, [[tree.nodes[n].token for n in tree.path(node)] for tree, node in zip(trees, best, strict=True)]
        )

    return SpeedUp(name, run([rows]), run([[row] for row in rows]), read)


def forward(model: TextModel, inputs: Sequence[Tensor | None], narrow: Any = None, plain: bool = False) -> Any:
    """Function that computes the logits, or the states of a model without any."""

    def run() -> Tensor:
        with torch.inference_mode(), narrow or nullcontext(), plain_kernels(plain):
            logits: Tensor = model.network(*inputs)
        return logits

    return run


def of_logits(logits: Tensor) -> Output:
    return Output(logits, logits.argmax(dim=-1).flatten().tolist())


def batch(model: TextModel, text: str, lengths: Sequence[int], longest: int) -> list[Tensor | None]:
    """Inputs of the network: the text's tokens repeated to each length, padded to `longest`, with masks of the real
    ones where there is padding.
    """
    real = torch.arange(longest) < torch.tensor(lengths)[:, None]
    mask = None if bool(real.all()) else real.to(model.device)
    ids = [model.source_tokens(text).ids]
    if model.kind == "encoder-decoder":
        written = model.generate(text).ids if model.predicts else []
        ids.append([*model.target_tokenizer.margins("target")[0], *written])
    repeated = [torch.tensor([row[place % len(row)] for place in range(longest)]) for row in ids]
    padded = [(row.expand(len(lengths), -1) * real).to(model.device) for row in repeated]
    return [*padded, *[mask] * len(padded)]


def spread(longest: int, texts: int) -> list[int]:
    """Lengths from short to `longest`, evenly spaced, in an order in which neighbours differ."""
    lengths = [max(1, round(longest * number / texts)) for number in range(1, texts + 1)]
    stride = max(1, texts // ROWS)
    return [length for first in range(stride) for length in lengths[first::stride]]


def writes_not(model: TextModel) -> Message | None:
    """Reason why a model does not write; None of one that does."""
    if model.kind == "encoder-only":
        return say("it fills in, and does not write")
    return None if model.predicts else say("it has no output head")


@torch.inference_mode()
def decoding_state(model: TextModel, rows: Sequence[list[int]], cached: bool = True) -> DecodingState:
    """State of decoding after sources or prompts of one length."""
    first = model.target_tokenizer.margins("target")[0] if model.kind == "encoder-decoder" else [-1]
    ids = torch.tensor([list(row) for row in rows], device=model.device)
    state = model.network.read(ids, padding=-1, start=first[0], can_cache=cached and not looks_ahead(model.network))
    if model.kind == "encoder-decoder":
        state.first = torch.tensor([first] * len(rows), device=model.device)
    return state


def run(request: Request) -> Iterator[Report[Outcome]]:
    """Measure the loaded model with the parameters' sizes."""
    work = Work(**request.values)
    length = min(work.length, request.model.config.max_length)
    work = Work(length, work.texts, work.written, work.beam, work.precision)
    yield from measure(speed_ups(request.model, request.text, work), request.model.device)


EXPERIMENTS = (
    Experiment(
        name="speed-ups",
        row=37,
        group=Group.COST,
        statement=say(
            "Mixed precision, fused (Flash) attention, dynamic padding, a KV cache and batched beam search each make a "
            "Transformer faster."
        ),
        truth=say(
            "Each saves something else: bytes of a product, maps in memory, computing on padding, computing again, "
            "calls for small products. What that is worth depends on processor and size, and only mixed precision "
            "changes the numbers by more than rounding."
        ),
        run=run,
        parameters=(
            Parameter("length", say("tokens of a text"), 64, 2, 2048),
            Parameter("texts", say("texts of a batch"), 8, 1, 256),
            Parameter("written", say("tokens to write"), 32, 1, 512),
            Parameter("beam", say("hypotheses of a beam"), 4, 1, 16),
            Parameter("precision", say("narrow precision"), "bfloat16", choices=("bfloat16", "float16")),
        ),
        of_model=True,
        seconds=20.0,
        code=(mixed_precision, fused_attention, dynamic_padding, kv_cache, batched_beam),
        source="Micikevicius et al., 2018; Dao et al., 2022",
    ),
)
