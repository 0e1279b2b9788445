"""Where the norms of each layer stand in a frame of the film."""

from __future__ import annotations

from typing import Any

from model.training.live.camera import LOSS, NORMS, PROBABILITIES, TOKENS
from model.training.live.film import Film
from viz.packing.curve_names import part_name

OTHERS = (NORMS, TOKENS, PROBABILITIES, LOSS)


def norm_groups(film: Film) -> list[dict[str, Any]]:
    """Of each quantity of each stack: the first of its values in a frame's norms, its rows, and whose tokens they have.

    quantity: "mean" and "std" of what each norm reads, "stream" for the Euclidean norm of the residual stream.
    """
    groups: list[dict[str, Any]] = []
    first = 0
    for name in film.names:
        if name in film.kinds or name in OTHERS:
            continue
        path, _dot, last = name.rpartition(".")
        (positions,) = film.shape(name)
        stack, quantity = name.partition(".")[0], last if last in ("mean", "std") else "stream"
        side = "target" if stack == "decoder" and film.probe.target else "source"
        if not groups or (groups[-1]["quantity"], groups[-1]["stack"]) != (quantity, stack):
            group = {"quantity": quantity, "stack": stack, "side": side, "first": first, "positions": positions}
            groups.append({**group, "rows": []})
        block = path.removesuffix(".norm")
        groups[-1]["rows"].append(part_name(path if block == stack else block))
        first += positions
    return groups
