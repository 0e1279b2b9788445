"""How weights of others become ours: each of ours from one or more of theirs, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor


def same(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class WeightSource:
    """One of our tensors: made from theirs of these names."""

    names: tuple[str, ...]
    make: Callable[..., Tensor] = same


WeightMap = dict[str, WeightSource]  # by our name
Parts = Mapping[str, str]  # our modules, and theirs
Make = Callable[[Tensor], Tensor]


def modules(ours: str, theirs: str, parts: Parts, bias: bool, make: Make = same, of_bias: Make = same) -> WeightMap:
    """Weights, and with `bias` biases, of modules below two paths; make: of the weights, of_bias: of the biases."""
    plan: WeightMap = {}
    for own, other in parts.items():
        plan[f"{ours}{own}.weight"] = WeightSource((f"{theirs}{other}.weight",), make)
        if bias:
            plan[f"{ours}{own}.bias"] = WeightSource((f"{theirs}{other}.bias",), of_bias)
    return plan


def tensor(ours: str, theirs: str, make: Make = same) -> WeightMap:
    return {ours: WeightSource((theirs,), make)}


def transposed(matrix: Tensor) -> Tensor:
    """Of a layer that keeps (input, output), as GPT-2's: ours keep (output, input)."""
    return matrix.mT


def third(part: int) -> Make:
    """Queries, keys or values of a tensor that has them one after the other."""
    return partial(_third, part=part)


def _third(packed: Tensor, part: int) -> Tensor:
    return packed.chunk(3)[part]


def third_of_columns(part: int) -> Make:
    """The same of a matrix (input, output)."""
    return partial(_third_of_columns, part=part)


def _third_of_columns(packed: Tensor, part: int) -> Tensor:
    return packed.mT.chunk(3)[part]


def third_of_heads(part: int, heads: int) -> Make:
    """Queries, keys or values of a tensor that has them head by head, as GPT-NeoX's."""
    return partial(_third_of_heads, part=part, heads=heads)


def _third_of_heads(packed: Tensor, part: int, heads: int) -> Tensor:
    return packed.unflatten(0, (heads, 3, -1))[:, part].flatten(0, 1)


def without_first(rows: int) -> Make:
    """A table of positions whose first rows no token ever gets."""
    return partial(_without_first, rows=rows)


def _without_first(table: Tensor, rows: int) -> Tensor:
    return table[rows:]


def one_more(weight: Tensor) -> Tensor:
    """γ of a norm that multiplies by 1 + weight, as Gemma's."""
    return 1 + weight.double()


def flat(bias: Tensor) -> Tensor:
    """Of shape (1, vocabulary)."""
    return bias.flatten()


def with_type(positions: Tensor, types: Tensor, rows: int) -> Tensor:
    """Positions, the first rows left out, plus the vector of token type 0, which every token of one text has."""
    return positions[rows:].double() + types[0].double()
