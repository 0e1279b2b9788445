"""Statistics of the norms: of each at each token, and of LayerNorm's three forms side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pandas
import torch
from jaxtyping import Float
from torch import Tensor

from model.network.norms import Norm
from model.runtime.device import exact

if TYPE_CHECKING:
    from model.capture.trace import Trace


COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]
QUANTITIES = ("mean", "std", "before", "after")
# Gives the quantity of a name: of a trace, or its pinned counterpart, which may not exist.
Get = Callable[[str], "Tensor | None"]


def norm_table(trace: Trace) -> pandas.DataFrame:
    """A row per norm and position: mean and population deviation of its input, Euclidean norms in and out."""
    rows: list[pandas.DataFrame] = []
    for path in trace.norm_paths():
        x, y = trace[f"{path}.input"].float(), trace[f"{path}.output"].float()
        columns = {
            "name": path,
            "position": range(len(x)),
            "token": trace.tokens_of(path) or [""] * len(x),
            "mean": Norm.mean(x).tolist(),
            "std": Norm.std(x).tolist(),
            "input norm": x.norm(dim=-1).tolist(),
            "output norm": y.norm(dim=-1).tolist(),
        }
        rows.append(pandas.DataFrame(columns))
    return pandas.concat(rows, ignore_index=True) if rows else pandas.DataFrame(columns=COLUMNS)


def stack_norms(trace: Trace, stack: str) -> list[str]:
    """The names of the norms over the features of one stack, "encoder" or "decoder", in order of computation."""
    return [path for path in trace.norm_paths() if path.startswith(f"{stack}.")]


def norm_levels(get: Get, paths: Sequence[str], quantity: str) -> Float[Tensor, "norm position"] | None:
    """For each norm and position: "mean" and population deviation "std" of what goes in, or the Euclidean norm "before"
    and "after". None where one of them does not exist.
    """
    name = {"mean": "mean", "std": "std", "before": "input", "after": "output"}[quantity]
    found = [get(f"{path}.{name}") for path in paths]
    if not found or any(each is None for each in found):
        return None
    rows = [each.float() for each in found if each is not None]
    return torch.stack(rows if name in ("mean", "std") else [row.norm(dim=-1) for row in rows])


def forms(x: Float[Tensor, "*batch d_model"], eps: float) -> dict[str, Float[Tensor, "*batch d_model"]]:
    """x normalised in three forms, in float64 and without γ and β.

    layer: (x − μ) / √(σ² + ε), torch's (Ba et al., 2016). textbook: (x − μ) / (σ + ε). textbook-sample:
    (x − μ) / (s + ε), with the sample deviation s, which divides by n − 1 (the Annotated Transformer).
    """
    x = exact(x)
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    n = x.shape[-1]
    return {
        "layer": centred / (variance + eps).sqrt(),
        "textbook": centred / (variance.sqrt() + eps),
        "textbook-sample": centred / ((variance * n / max(1, n - 1)).sqrt() + eps),
    }


def form_gap(x: Float[Tensor, "*batch d_model"], eps: float, form: str) -> float:
    """‖form(x) − torch(x)‖ / ‖torch(x)‖ over all positions: how far a form of LayerNorm is from torch's."""
    found = forms(x, eps)
    return float((found[form] - found["layer"]).norm() / found["layer"].norm())


def expected_gap(width: int) -> float:
    """1 − √((n − 1)/n): what n − 1 in place of n takes from every output over n features, about 1/2n."""
    return 1 - ((width - 1) / width) ** 0.5
