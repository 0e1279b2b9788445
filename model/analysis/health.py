"""What is wrong with the weights of a file, each finding with its tensor and its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis import rows
from model.analysis.roles import role, telling
from model.analysis.spectra import condition
from model.analysis.weights import Statistics, readable
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
            found += [Finding(*each) for each in rows.findings(info, infos)]
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
        same = rows.unmoved(before.load(), info.load())
        if bool(same.any()) and not bool(same.all()):
            found.append(Finding("unmoved_tokens", info.name, float(same.float().mean()), rows.places(same), name))
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
    if rows.distance(one[:PROBED], two[:PROBED]) > 10 * NEARLY_EQUAL:
        return None
    difference = rows.distance(one, two)
    if difference == 0 and info.dtype == other.dtype:
        return Finding("copy", info.name, float(info.bytes), other=other.name)
    if difference < NEARLY_EQUAL and len(info.shape) > 1:  # vectors may all be near to 1
        return Finding("near_copy", info.name, difference, other=other.name)
    return None
