"""Findings about the weights of a file that are unusual, each with its tensor and a number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from model.analysis.weights.spectra import condition
from model.analysis.weights.statistics import Statistics, first_of_places, readable
from model.checkpoints.tensors import TensorInfo
from model.runtime.file_pages import in_turn

# float16 ends at 65,504 and products of weights with activations come before sums: two bits are left for these.
NEAR_HALF = 65504 / 4
# float32 keeps 7 digits: of a matrix worse than this the weakest directions are rounding errors of the strongest.
WORST_CONDITION = 1e6
# A copy that was trained on its own, or rounded to another type, is nearer than this; two layers are not.
NEARLY_EQUAL = 0.01
PROBED = 1024  # elements of two tensors that are compared before all of them are


@dataclass(frozen=True)
class Finding:
    """An unusual fact about a tensor.

    kind: one of `KINDS`, which says what `number` is. rows: rows, units or features concerned; none where it is the
    whole tensor. other: tensor of which this one is a copy, or checkpoint since which its rows did not move.
    """

    kind: str
    tensor: str
    number: float
    rows: tuple[int, ...] = ()
    other: str = ""


KINDS: dict[str, str] = {
    "nan": "values that are NaN: how many",
    "infinite": "values that are infinite: how many",
    "zero": "every value is 0: how many",
    "constant": "every value is the same: this one",
    "half": "values that float16 may not hold: the largest",
    "condition": "a matrix that rounding makes singular: its largest singular value over its least",
    "copy": "stored twice, value for value: bytes that could be saved",
    "near_copy": "nearly a copy: ‖A − B‖ / ‖B‖",
    "dead_units": "feed-forward units without weights into them or out of them: share of all units",
    "large_gain": "features that a norm makes very large: share of all features",
    "small_gain": "features that a norm takes away: share of all features",
    "long_rows": "rows much longer than the median: the longest over the median",
    "unmoved_tokens": "tokens whose row is that of another checkpoint of the run: share of the vocabulary",
    "zero_tokens": "tokens whose row is all zeros: share of the vocabulary",
    "short_tokens": "tokens with hardly an embedding: share of the vocabulary",
    "odd_tokens": "tokens whose row is much longer or shorter than the others: by which factor at most",
    "same_tokens": "tokens whose row another one has too: share of the vocabulary",
}


def health(
    infos: Sequence[TensorInfo],
    statistics: Mapping[str, Statistics],
    spectra: Mapping[str, Float[Tensor, " count"]] | None = None,
) -> list[Finding]:
    """Findings in the order of the file; copies last. At most two tensors are in memory at a time.

    statistics: by place of the file; tensors without are left out. spectra: singular values by place, where they were
    computed. Rules for a role apply to tensors whose name tells it (`PATTERNS`).
    """
    tensors = [info for info in telling(infos) if info.place in statistics]
    findings: list[Finding] = []
    copies = list(_copies(tensors, statistics))
    copied = {copy.tensor for copy in copies if copy.kind == "copy"}  # the original has the findings about its rows
    for info in tensors:
        measured = statistics[info.place]
        findings += _of_values(info, measured)
        if not _varies(measured):
            continue
        if info.name not in copied:
            findings += _of_rows(info, infos)
        values = (spectra or {}).get(info.place)
        if values is not None and len(values) and condition(values) > WORST_CONDITION:
            findings.append(Finding("condition", info.name, condition(values)))
    return findings + copies


def unmoved_tokens(infos: Sequence[TensorInfo], other: Sequence[TensorInfo], name: str) -> list[Finding]:
    """Tokens whose rows are those of another checkpoint of the same run, where other rows have moved: no gradient has
    reached them in between. name: of that checkpoint.
    """
    before = {(info.name, info.shape): info for info in other if readable(info) and info.elements}
    findings: list[Finding] = []
    for info in telling([info for info in infos if readable(info)]):
        old = before.get((info.name, info.shape))
        if old is not None and len(info.shape) == 2 and role(info.name) in TOKEN_ROLES:
            same = unmoved(old.load(), info.load())
            if not bool(same.all()):
                findings += _rows_finding("unmoved_tokens", info, same, other=name)
    return findings


def _varies(measured: Statistics) -> bool:
    """True if all values are finite, and not all the same."""
    return measured.minimum < measured.maximum and not measured.nan and not measured.infinite


def _of_values(info: TensorInfo, measured: Statistics) -> Iterator[Finding]:
    """Findings that follow from the statistics alone."""
    if measured.nan:
        yield Finding("nan", info.name, float(measured.nan))
    if measured.infinite:
        yield Finding("infinite", info.name, float(measured.infinite))
    if measured.sampled and measured.minimum == measured.maximum and info.elements > 1:
        zero = measured.maximum == 0
        yield Finding("zero" if zero else "constant", info.name, float(info.elements) if zero else measured.maximum)
    largest = max(abs(measured.minimum), abs(measured.maximum))
    if getattr(torch, info.values).is_floating_point and largest > NEAR_HALF:
        yield Finding("half", info.name, largest)


def _copies(tensors: Sequence[TensorInfo], statistics: Mapping[str, Statistics]) -> Iterator[Finding]:
    """Copies and near copies: of tensors of one shape, not constant, each beside the first that it is a copy of."""
    shapes: dict[tuple[int, ...], list[TensorInfo]] = {}
    for info in tensors:
        measured = statistics[info.place]
        if not _varies(measured):
            continue
        originals = shapes.setdefault(info.shape, [])
        candidates = (other for other in originals if _may_be_copies(measured, statistics[other.place]))
        copy = next((copy for other in candidates if (copy := _copy(info, other))), None)
        if copy:
            yield copy
        else:
            originals.append(info)


def _may_be_copies(one: Statistics, other: Statistics) -> bool:
    """True if two tensors may be near copies, by their statistics.

    A relative distance of ε moves mean and deviation by at most ε·√(mean² + deviation²) (triangle inequality).
    """
    most = NEARLY_EQUAL * math.hypot(other.mean, other.deviation)
    return abs(one.mean - other.mean) <= most and abs(one.deviation - other.deviation) <= most


def _copy(info: TensorInfo, other: TensorInfo) -> Finding | None:
    one, two = info.load().reshape(-1), other.load().reshape(-1)
    if distance(one[:PROBED], two[:PROBED]) > 10 * NEARLY_EQUAL:
        return None
    difference = distance(one, two)
    if difference == 0 and info.dtype == other.dtype:
        return Finding("copy", info.name, float(info.bytes), other=other.name)
    if difference < NEARLY_EQUAL and len(info.shape) > 1:  # vectors may all be near to 1
        return Finding("near_copy", info.name, difference, other=other.name)
    return None


# The role of a tensor in a Transformer, by its name alone.

Role = Literal["embedding", "norm", "hidden", "output", "words"]
TOKEN_ROLES: tuple[Role, ...] = ("embedding", "words")  # with a row for each token
# The ends of the names in our checkpoints, GPT-2 and nanoGPT, Llama and its kin, BERT, DistilBERT, BART and Marian, T5,
# GPT-NeoX, torch.nn.Transformer and the Annotated Transformer.
PATTERNS: dict[Role, str] = {
    "embedding": r"(embedding\.tokens|wte|embed_tokens|word_embeddings|shared|embed_in|tok_emb(eddings)?|lut)\.weight",
    "norm": r"(\w*norm\w*|\w*LayerNorm|ln_?\w+)\.(weight|gamma|a_2|scale)",
    "hidden": r"(feed_forward\.(experts\.\d+\.)?(hidden|linear|w_1)|mlp\.(c_fc|gate_proj|up_proj|dense_h_to_4h)"
    r"|intermediate\.dense|fc1|ffn\.lin1|DenseReluDense\.wi(_[01])?|linear1)\.weight",
    "output": r"(feed_forward\.(experts\.\d+\.)?(output|w_2)|mlp\.(c_proj|down_proj|dense_4h_to_h)"
    r"|(?<!attention\.)output\.dense|fc2|ffn\.lin2|DenseReluDense\.wo|linear2)\.weight",
    # The matrix over the vocabulary: ours, most families, GPT-NeoX, BERT, RoBERTa, DistilBERT, minGPT and the Annotated
    # Transformer.
    "words": r"(output\.logits|lm_head|embed_out|predictions\.decoder|lm_head\.decoder|vocab_projector|^head"
    r"|generator\.proj)\.weight",
}
# (in, out) in GPT-2's Conv1D and (out, in) in nanoGPT's Linear: the longer side is that of the units.
EITHER_WAY = re.compile(r"mlp\.c_(fc|proj)\.weight$")


def role(name: str) -> Role | None:
    """Role of the tensor of this name; None where the name does not tell it."""
    return next((role for role, pattern in PATTERNS.items() if re.search(rf"(^|\.){pattern}$", name)), None)


def telling(infos: Sequence[TensorInfo]) -> list[TensorInfo]:
    """One tensor for each place of the file: the first whose name tells a role, else the first; for a tied matrix that
    of the embedding.
    """
    named = {info.place: info for info in reversed(infos) if role(info.name) == "words"}
    named |= {info.place: info for info in reversed(infos) if role(info.name) not in (None, "words")}
    return [named.get(info.place, info) for info in first_of_places(infos)]


def unit_axis(info: TensorInfo) -> int:
    """Dimension, 0 or 1, along which a "hidden" or "output" matrix has the feed-forward units."""
    if EITHER_WAY.search(info.name) and info.shape[0] != info.shape[1]:
        return int(info.shape[1] > info.shape[0])
    return 0 if role(info.name) == "hidden" else 1


# Findings about single rows of a tensor: units, features, tokens.

# A unit that reads or writes a thousandth of what the median unit does changes no prediction that one could measure.
DEAD = 1e-3
# A norm begins at 1. Ten times its features saturate what follows; a thousandth of them is below bfloat16's rounding.
LARGE_GAIN, SMALL_GAIN = 10.0, 1e-3
MANY = 0.01  # share of a norm's features from which on they are a finding
# Rows of random weights differ in length by some per cent, of trained ones by a factor of up to about five.
LONG = 10.0
ROWS = 8  # number from which on a median says what is usual
# Weight decay shrinks the row of a token that is never read (Land and Bartolo, 2024, find them by their lengths).
SHORT = 0.1
# Rows of one history differ in ln ‖row‖ like a bell curve: none of 50,000 is 5 deviations away by chance alone. A row
# that is has another history: its token never came, or came in another role. A quarter, since some curves are narrow.
APART, LEAST_APART = 5.0, 1.25
ROBUST = 1.4826  # times the median distance from the median: the deviation, of a bell curve
TOGETHER = 1 << 20  # elements in float32 at a time


def _of_rows(info: TensorInfo, infos: Sequence[TensorInfo]) -> Iterator[Finding]:
    """Findings about rows. info: of finite values, not all the same. infos: all tensors, for biases."""
    kind = role(info.name)
    if kind == "norm" and len(info.shape) == 1:
        yield from _gains(info)
    if len(info.shape) != 2 or not getattr(torch, info.values).is_floating_point:
        return
    if kind in ("hidden", "output"):
        yield from _rows_finding("dead_units", info, _dead_units(info, infos))
    lengths = row_lengths(info.load())
    median = float(lengths.median())
    if len(lengths) < ROWS:
        return
    if median:
        yield from _rows_finding("long_rows", info, lengths > LONG * median, float(lengths.max()) / median)
    if kind in TOKEN_ROLES:
        yield from _tokens(info, lengths, median)


def _rows_finding(
    kind: str, info: TensorInfo, rows: Bool[Tensor, " rows"], number: float | None = None, other: str = ""
) -> Iterator[Finding]:
    """Finding about some rows, if there are any. number: their share of all rows unless it is another one."""
    if bool(rows.any()):
        share = float(rows.float().mean())
        numbers = tuple(rows.nonzero()[:, 0].tolist())
        yield Finding(kind, info.name, share if number is None else number, numbers, other)


def row_lengths(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, " rows"]:
    """Euclidean norm of every row, in float32."""
    parts = matrix.detach().split(max(1, TOGETHER // matrix.shape[1]))
    return torch.cat([part.float().norm(dim=1) for part in in_turn(parts)])


def distance(one: Shaped[Tensor, " element"], two: Shaped[Tensor, " element"]) -> float:
    """‖one − two‖ / ‖two‖, computed a piece at a time; infinite from a tensor of zeros, 0 between two such."""
    away = size = 0.0
    for a, b in zip(in_turn(one.split(1 << 20)), in_turn(two.split(1 << 20)), strict=True):
        b = b.double()
        away, size = away + float((a.double() - b).square().sum()), size + float(b.square().sum())
    return (away / size) ** 0.5 if size else float("inf") if away else 0.0


def _gains(info: TensorInfo) -> Iterator[Finding]:
    gains = info.load().float().abs()
    for kind, features in (("large_gain", gains > LARGE_GAIN), ("small_gain", gains < SMALL_GAIN)):
        if float(features.float().mean()) > MANY:
            yield from _rows_finding(kind, info, features)


def _dead_units(info: TensorInfo, infos: Sequence[TensorInfo]) -> Bool[Tensor, " units"]:
    """True if the weights into a unit and its bias, or the weights out of it, are next to nothing."""
    matrix = info.load()
    lengths = row_lengths(matrix if unit_axis(info) == 0 else matrix.T)
    least = DEAD * float(lengths.median())
    dead = lengths <= least
    if role(info.name) == "hidden":
        name = info.name.removesuffix("weight") + "bias"
        bias = next((other.load() for other in infos if other.name == name and other.shape == lengths.shape), None)
        dead = dead if bias is None else dead & (bias.float().abs() <= least)
    return dead


def _tokens(info: TensorInfo, lengths: Tensor, median: float) -> Iterator[Finding]:
    zero, short = lengths == 0, lengths < SHORT * median
    yield from _rows_finding("zero_tokens", info, zero)
    yield from _rows_finding("short_tokens", info, short & ~zero)
    yield from _rows_finding("same_tokens", info, _repeated(info.load()) & ~zero)
    odd = apart(lengths) & ~short
    if bool(odd.any()):
        yield from _rows_finding("odd_tokens", info, odd, math.exp(float(distances(lengths)[odd].max())))


def distances(lengths: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """Distance |ln ‖row‖ − median of ln ‖row‖| of every row; infinite for a row of zeros."""
    logarithms = lengths.double().log()
    return (logarithms - logarithms[lengths > 0].median()).abs()


def apart(lengths: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """True where the length of a row stands out: it is farther from the median than 5 robust deviations (Iglewicz and
    Hoaglin, 1993) and than a quarter of the median. Rows of zeros do not stand out.
    """
    if not bool((lengths > 0).any()):
        return torch.zeros(lengths.shape, dtype=torch.bool)
    away = distances(lengths)
    spread = ROBUST * float(away[lengths > 0].median())
    return (away > max(APART * spread, math.log(LEAST_APART))) & (lengths > 0)


def unmoved(before: Float[Tensor, "rows columns"], after: Float[Tensor, "rows columns"]) -> Bool[Tensor, " rows"]:
    """True where a row is equal in both, value for value: an optimizer's step moves every row with a gradient."""
    size = max(1, TOGETHER // before.shape[1])
    pairs = zip(in_turn(before.split(size)), in_turn(after.split(size)), strict=True)
    return torch.cat([(one.float() == two.float()).all(dim=1) for one, two in pairs])


def _repeated(matrix: Tensor) -> Tensor:
    """True where a row is equal to another one, byte for byte."""
    content = matrix.detach().contiguous().view(torch.uint8).numpy()
    seen: dict[int, int] = {}
    repeated = torch.zeros(len(matrix), dtype=torch.bool)
    for number, row in enumerate(content):
        first = seen.setdefault(hash(row.tobytes()), number)
        if first != number and bool((content[first] == row).all()):
            repeated[[first, number]] = True
    return repeated
