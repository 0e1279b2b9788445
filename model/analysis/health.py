"""What is wrong with the weights of a file, each finding with its tensor and its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from model.analysis.weights import Statistics
from model.tensors import TensorInfo


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a tensor.

    kind: one of `KINDS`. number: what was found, in that kind's measure. rows: which rows, units or features it
    concerns; empty where it is the whole tensor.
    """

    kind: str
    tensor: str
    number: float
    rows: tuple[int, ...] = ()


KINDS: dict[str, str] = {
    "nan": "NaN values",
    "infinite": "infinite values",
}


def health(
    infos: Sequence[TensorInfo],
    statistics: Mapping[str, Statistics],
    spectra: Mapping[str, Float[Tensor, " count"]] | None = None,
) -> list[Finding]:
    """What is wrong, in the order of the file.

    statistics: by place of the file, of `all_statistics`. spectra: singular values by place, where they were computed.
    """
    found = []
    for info in infos:
        measured = statistics.get(info.place)
        if measured and measured.nan:
            found.append(Finding("nan", info.name, measured.nan))
        if measured and measured.infinite:
            found.append(Finding("infinite", info.name, measured.infinite))
    return found
