"""What is wrong with single rows of a tensor: units, features, tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from model.analysis.roles import role, unit_axis
from model.checkpoints.tensors import TensorInfo

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
