"""The first quantity of a pass that is not finite: NaN or an infinity, and where."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.capture.trace import Trace

HIDING = ("masked", "biased", "bias")  # which hold −∞ where a query may not look, or where positions forbid it
MAPS = ("scores", "scaled", "capped", "weights")  # of these the first is looked for where a head is not finite


@dataclass(frozen=True)
class NotFinite:
    """tensor: name of the quantity. token: number of the first token at which it is not finite. kind: "nan" or
    "infinite".
    """

    tensor: str
    token: int
    kind: str


def first_not_finite(trace: Trace) -> NotFinite | None:
    """The first quantity in the order of computation that is not finite; None: all are.

    Logits may be −∞: so an output bias forbids tokens.
    """
    for name in trace.recorded():
        path, _, quantity = name.rpartition(".")
        if quantity in HIDING or _is_finite(name, trace[name]):
            continue
        maps = [f"{path}.{part}" for part in MAPS if quantity == "heads" and f"{path}.{part}" in trace]
        first = next((each for each in maps if not _is_finite(each, trace[each])), name)
        return NotFinite(first, _token(trace[first]), "nan" if bool(trace[first].isnan().any()) else "infinite")
    return None


def _is_finite(name: str, tensor: Tensor) -> bool:
    if not name.endswith("logits"):
        return bool(torch.isfinite(tensor).all())
    return not bool((tensor.isnan() | (tensor == torch.inf)).any())


def _token(tensor: Tensor) -> int:
    """The first position with a number that is not finite: of (position, channel), or (head, position, channel)."""
    bad = ~torch.isfinite(tensor)
    rows = bad.flatten(1).any(dim=-1) if tensor.dim() == 2 else bad.transpose(0, -2).flatten(1).any(dim=-1)
    return int(rows.int().argmax())
