"""What is wrong with the weights of a file, each finding with its tensor and its number."""

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

# float16 ends at 65,504 and products of weights with activations come before sums: two bits are left for these.
NEAR_HALF = 65504 / 4
# float32 keeps 7 digits: of a matrix worse than this the weakest directions are rounding errors of the strongest.
WORST_CONDITION = 1e6
# A copy that was trained on its own, or rounded to another type, is nearer than this; two layers are not.
NEARLY_EQUAL = 0.01
PROBED = 1024  # elements of two tensors that are compared before all of them are


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a tensor.

    kind: one of `KINDS`, which says what `number` is. rows: the rows, units or features concerned; none where it is
    the whole tensor. other: the tensor that this one is a copy of, or the checkpoint in which it did not move.
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
    """What is wrong, in the order of the file; copies last. One tensor is read at a time, to compare copies two.

    statistics: by place of the file; tensors without are left out. spectra: singular values by
    place, where they were computed. What needs a role is looked for where the name tells it (`roles.PATTERNS`).
    """
    places = [info for info in telling(infos) if info.place in statistics]
    found: list[Finding] = []
    copies = list(_copies(places, statistics))
    copied = {each.tensor for each in copies if each.kind == "copy"}  # its rows are told of the other
    for info in places:
        measured = statistics[info.place]
        found += _of_values(info, measured)
        if not _varies(measured):
            continue
        if info.name not in copied:
            found += [Finding(*each) for each in findings(info, infos)]
        values = (spectra or {}).get(info.place)
        if values is not None and len(values) and condition(values) > WORST_CONDITION:
            found.append(Finding("condition", info.name, condition(values)))
    return found + copies


def unmoved_tokens(infos: Sequence[TensorInfo], other: Sequence[TensorInfo], name: str) -> list[Finding]:
    """Tokens whose rows are those of another checkpoint of the same run, where other rows have moved: no gradient ever
    reached them in between. name: of that checkpoint.
    """
    theirs = {info.name: info for info in other if readable(info) and info.elements}
    found = []
    for info in telling([info for info in infos if readable(info)]):
        before = theirs.get(info.name)
        if (
            role(info.name) not in ("embedding", "words")
            or before is None
            or before.shape != info.shape
            or len(info.shape) != 2
        ):
            continue
        same = unmoved(before.load(), info.load())
        if bool(same.any()) and not bool(same.all()):
            found.append(Finding("unmoved_tokens", info.name, float(same.float().mean()), places(same), name))
    return found


def _varies(measured: Statistics) -> bool:
    """Whether there are values, all of them finite, and not all the same."""
    return measured.minimum < measured.maximum and not measured.nan and not measured.infinite


def _of_values(info: TensorInfo, measured: Statistics) -> Iterator[Finding]:
    """What the statistics alone tell."""
    if measured.nan:
        yield Finding("nan", info.name, float(measured.nan))
    if measured.infinite:
        yield Finding("infinite", info.name, float(measured.infinite))
    if measured.sampled and measured.minimum == measured.maximum and info.elements > 1:
        if measured.maximum == 0:
            yield Finding("zero", info.name, float(info.elements))
        else:
            yield Finding("constant", info.name, measured.maximum)
    largest = max(abs(measured.minimum), abs(measured.maximum))
    if getattr(torch, info.values).is_floating_point and largest > NEAR_HALF:
        yield Finding("half", info.name, largest)


def _copies(places: Sequence[TensorInfo], statistics: Mapping[str, Statistics]) -> Iterator[Finding]:
    """Tensors of one shape, not constant, whose values are equal or nearly so; each beside the first such."""
    shapes: dict[tuple[int, ...], list[TensorInfo]] = {}
    for info in places:
        measured = statistics[info.place]
        if not _varies(measured):
            continue
        alike = shapes.setdefault(info.shape, [])
        for other in alike:
            if _may_be_copies(measured, statistics[other.place]) and (found := _copy(info, other)):
                yield found
                break
        else:
            alike.append(info)


def _may_be_copies(one: Statistics, other: Statistics) -> bool:
    """A relative distance of ε moves mean and deviation by at most ε·√(mean² + deviation²) (triangle inequality)."""
    most = NEARLY_EQUAL * (other.mean**2 + other.deviation**2) ** 0.5
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


# What a tensor is in a Transformer, from its name alone: ours, Hugging Face's families, nanoGPT's, torch.nn's.

Role = Literal["embedding", "norm", "hidden", "output", "words"]
# The last parts of the names, as ours, GPT-2 and nanoGPT, Llama and its kin, BERT, DistilBERT, BART and Marian, T5,
# GPT-NeoX, torch.nn.Transformer and the Annotated Transformer have them.
PATTERNS: dict[Role, str] = {
    "embedding": r"(embedding\.tokens|wte|embed_tokens|word_embeddings|shared|embed_in|tok_emb(eddings)?|lut)\.weight",
    "norm": r"(\w*norm\w*|\w*LayerNorm|ln_?\w+)\.(weight|gamma|a_2|scale)",
    "hidden": r"(feed_forward\.(hidden|linear|w_1)|mlp\.(c_fc|gate_proj|up_proj|dense_h_to_4h)|intermediate\.dense|fc1"
    r"|ffn\.lin1|DenseReluDense\.wi(_[01])?|linear1)\.weight",
    "output": r"(feed_forward\.(output|w_2)|mlp\.(c_proj|down_proj|dense_4h_to_h)|(?<!attention\.)output\.dense|fc2"
    r"|ffn\.lin2|DenseReluDense\.wo|linear2)\.weight",
    # The matrix over the vocabulary, of ours, of most families, GPT-NeoX, BERT, RoBERTa, DistilBERT, minGPT and the
    # Annotated Transformer.
    "words": r"(output\.logits|lm_head|embed_out|predictions\.decoder|lm_head\.decoder|vocab_projector|^head"
    r"|generator\.proj)\.weight",
}
# Written (in, out) by GPT-2's Conv1D and (out, in) by nanoGPT's Linear: the longer side is that of the units.
EITHER_WAY = re.compile(r"mlp\.c_(fc|proj)\.weight$")


def role(name: str) -> Role | None:
    """What the tensor of this name is, None where the name does not say."""
    for each, pattern in PATTERNS.items():
        if re.search(rf"(^|\.){pattern}$", name):
            return each
    return None


def telling(infos: Sequence[TensorInfo]) -> list[TensorInfo]:
    """Each place of the file once, by the first of its names that says a role, else by the first; a tied matrix by that
    of the embedding.
    """
    named = {info.place: info for info in reversed(infos) if role(info.name) == "words"}
    named |= {info.place: info for info in reversed(infos) if role(info.name) not in (None, "words")}
    return [named.get(info.place, info) for info in first_of_places(infos)]


def unit_axis(info: TensorInfo) -> int:
    """Along which of its two dimensions a "hidden" or "output" matrix has the feed-forward units."""
    if EITHER_WAY.search(info.name) and info.shape[0] != info.shape[1]:
        return int(info.shape[1] > info.shape[0])
    return 0 if role(info.name) == "hidden" else 1


# What is wrong with single rows of a tensor: units, features, tokens.

# A unit that reads or writes a thousandth of what the median unit does changes no prediction that one could measure.
DEAD = 1e-3
# A norm begins at 1. Ten times its features saturate what follows; a thousandth of them is below bfloat16's rounding.
LARGE_GAIN, SMALL_GAIN = 10.0, 1e-3
MANY = 0.01  # the share of a norm's features from which on that is told
# Rows of random weights differ in length by some per cent, of trained ones by a factor of up to about five.
LONG = 10.0
ROWS = 8  # from which on a median says what is usual
# Weight decay shrinks the row of a token that is never read (Land and Bartolo, 2024, find them by their lengths).
SHORT = 0.1
# Rows of one history differ in ln ‖row‖ like a bell curve: none of 50,000 is 5 deviations away by chance alone. A row
# that is has another history: its token never came, or came in another role. A quarter, since some curves are narrow.
APART, LEAST_APART = 5.0, 1.25
ROBUST = 1.4826  # times the median distance from the median: the deviation, of a bell curve
TOGETHER = 1 << 20  # elements in float32 at a time
Found = tuple[str, str, float, tuple[int, ...]]


def findings(info: TensorInfo, infos: Sequence[TensorInfo]) -> Iterator[Found]:
    """Kind, tensor, number and rows of each. info: of finite values, not all the same. infos: all, for biases."""
    kind = role(info.name)
    if kind == "norm" and len(info.shape) == 1:
        yield from _gains(info)
    if len(info.shape) != 2 or not getattr(torch, info.values).is_floating_point:
        return
    if kind in ("hidden", "output"):
        yield from _units(info, infos)
    lengths = row_lengths(info.load())
    median = float(lengths.median())
    longer = lengths > LONG * median
    if median and len(lengths) >= ROWS and bool(longer.any()):
        yield "long_rows", info.name, float(lengths.max()) / median, places(longer)
    if kind in ("embedding", "words") and len(lengths) >= ROWS:
        yield from _tokens(info, lengths, median)


def row_lengths(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, " rows"]:
    """The Euclidean norm of every row."""
    parts = matrix.detach().split(max(1, TOGETHER // matrix.shape[1]))
    return torch.cat([part.float().norm(dim=1) for part in parts])


def places(chosen: Bool[Tensor, " rows"]) -> tuple[int, ...]:
    return tuple(chosen.nonzero()[:, 0].tolist())


def distance(one: Shaped[Tensor, " element"], two: Shaped[Tensor, " element"]) -> float:
    """‖one − two‖ / ‖two‖, a piece at a time; infinite from a tensor of zeros, 0 between two such."""
    away = size = 0.0
    for a, b in zip(one.split(1 << 20), two.split(1 << 20), strict=True):
        b = b.double()
        away, size = away + float((a.double() - b).square().sum()), size + float(b.square().sum())
    return (away / size) ** 0.5 if size else float("inf") if away else 0.0


def _gains(info: TensorInfo) -> Iterator[Found]:
    gains = info.load().float().abs()
    for kind, chosen in (("large_gain", gains > LARGE_GAIN), ("small_gain", gains < SMALL_GAIN)):
        share = float(chosen.float().mean())
        if share > MANY:
            yield kind, info.name, share, places(chosen)


def _units(info: TensorInfo, infos: Sequence[TensorInfo]) -> Iterator[Found]:
    """Units whose row into them is next to nothing and whose bias is too, or whose row out of them is."""
    matrix = info.load()
    lengths = row_lengths(matrix if unit_axis(info) == 0 else matrix.T)
    least = DEAD * float(lengths.median())
    dead = lengths <= least
    if role(info.name) == "hidden":
        name = info.name.removesuffix("weight") + "bias"
        bias = next((each.load() for each in infos if each.name == name and each.shape == lengths.shape), None)
        dead = dead if bias is None else dead & (bias.float().abs() <= least)
    if bool(dead.any()):
        yield "dead_units", info.name, float(dead.float().mean()), places(dead)


def _tokens(info: TensorInfo, lengths: Tensor, median: float) -> Iterator[Found]:
    zero, short = lengths == 0, lengths < SHORT * median
    same = _repeated(info.load()) & ~zero
    for kind, chosen in (("zero_tokens", zero), ("short_tokens", short & ~zero), ("same_tokens", same)):
        if bool(chosen.any()):
            yield kind, info.name, float(chosen.float().mean()), places(chosen)
    odd = apart(lengths) & ~short
    if bool(odd.any()):
        yield "odd_tokens", info.name, math.exp(float(distances(lengths)[odd].max())), places(odd)


def distances(lengths: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """|ln ‖row‖ − the median of it|; of a row of zeros infinite."""
    logarithms = lengths.double().log()
    return (logarithms - logarithms[lengths > 0].median()).abs()


def apart(lengths: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Rows whose length stands out: farther from the median than 5 robust deviations (Iglewicz and Hoaglin, 1993) and
    than a quarter of it. Rows of zeros do not.
    """
    if not bool((lengths > 0).any()):
        return torch.zeros(lengths.shape, dtype=torch.bool)
    away = distances(lengths)
    spread = ROBUST * float(away[lengths > 0].median())
    return (away > max(APART * spread, math.log(LEAST_APART))) & (lengths > 0)


def unmoved(before: Float[Tensor, "rows columns"], after: Float[Tensor, "rows columns"]) -> Bool[Tensor, " rows"]:
    """Rows that are equal in both, value for value: a step of an optimizer moves every row that had a gradient."""
    size = max(1, TOGETHER // before.shape[1])
    pairs = zip(before.split(size), after.split(size), strict=True)
    return torch.cat([(one.float() == two.float()).all(dim=1) for one, two in pairs])


def _repeated(matrix: Tensor) -> Tensor:
    """Rows that are equal to another one, byte for byte."""
    content = matrix.detach().contiguous().view(torch.uint8).numpy()
    seen: dict[int, int] = {}
    repeated = torch.zeros(len(matrix), dtype=torch.bool)
    for number, row in enumerate(content):
        first = seen.setdefault(hash(row.tobytes()), number)
        if first != number and bool((content[first] == row).all()):
            repeated[[first, number]] = True
    return repeated
