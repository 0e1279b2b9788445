"""Weights of other programs by our names: a table from our modules to those of a file, applied to a config.

A table is literal: `{}` stands for the number of a layer, a name of a module for its weight and its bias. The
parameters of the config's network decide which of its rows are needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.network.config import TransformerConfig
from model.network.transformer import skeleton

SHORTEST = 3  # tokens, the least `max_length` of a config


@dataclass(frozen=True)
class Layout:
    """Place of one of our tensors in a tensor of a file: the identity. Called on the file's tensor, it gives ours."""

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor

    def joined(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensor of a file that holds these of ours, all of one shape: the inverse of the call."""
        (tensor,) = tensors
        return tensor


@dataclass(frozen=True)
class Rows(Layout):
    """Part number `part` of several with as many rows each, one after the other, as queries, keys and values."""

    part: int
    parts: int = 3

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor.chunk(self.parts)[self.part]

    def joined(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat([*tensors])


@dataclass(frozen=True)
class Columns(Rows):
    """`Rows` of a matrix (input, output), as GPT-2's: ours are (output, input)."""

    part: int = 0
    parts: int = 1

    def __call__(self, tensor: Tensor) -> Tensor:
        return super().__call__(_transposed(tensor))

    def joined(self, tensors: Sequence[Tensor]) -> Tensor:
        return _transposed(super().joined(tensors))


@dataclass(frozen=True)
class HeadRows(Layout):
    """Queries (part 0), keys (1) or values (2) of a tensor whose rows are (head, 3, channel), as GPT-NeoX's."""

    part: int
    heads: int

    def __call__(self, tensor: Tensor) -> Tensor:
        parts: Tensor = tensor.unflatten(0, (self.heads, 3, -1))
        return parts[:, self.part].flatten(0, 1)

    def joined(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.stack([tensor.unflatten(0, (self.heads, -1)) for tensor in tensors], 1).flatten(0, 2)


def _transposed(tensor: Tensor) -> Tensor:
    """A matrix transposed, a bias as it is."""
    return tensor.mT if tensor.ndim > 1 else tensor


@dataclass(frozen=True)
class WeightSource:
    """Names of the file's tensors that one parameter of ours is made from, by the function `make`.

    copies: other names of the first one, under which a file may hold it as well or instead.
    """

    names: tuple[str, ...]
    make: Callable[..., Tensor] = Layout()
    copies: tuple[str, ...] = ()

    def renamed(self, rename: Callable[[str], str]) -> WeightSource:
        """This source with every name mapped by `rename`."""
        return WeightSource(tuple(map(rename, self.names)), self.make, tuple(map(rename, self.copies)))

    def of_layer(self, layer: int) -> WeightSource:
        """This source with the number of a layer in the place of {}."""
        return self.renamed(lambda name: name.replace("{}", str(layer)))


Table = Mapping[str, str | WeightSource]  # by our name of a module or of a parameter
WeightMap = dict[str, WeightSource]  # by our name of a parameter


def source(row: str | WeightSource) -> WeightSource:
    """Source that a row of a table names."""
    return WeightSource((row,)) if isinstance(row, str) else row


def below(path: str, source_path: str, table: Table) -> WeightMap:
    """Rows of a table with `path` before our names and `source_path` before the file's."""
    return {f"{path}{name}": source(row).renamed(lambda other: f"{source_path}{other}") for name, row in table.items()}


def packed(path: str, module: str, layout: Callable[[int], Layout] = Rows) -> WeightMap:
    """Queries, keys and values of the attention at `path` whose projections are one module of the file."""
    projections = enumerate(("query", "key", "value"))
    return {f"{path}.{name}": WeightSource((module,), layout(part)) for part, name in projections}


def weight_map(config: TransformerConfig, table: Table, names: Collection[str]) -> WeightMap:
    """Source of every parameter of the network of a config, by our names; tied ones appear once.

    names: of the tensors in the file. Of several copies the first that the file has is the source, and the others that
    it has are `copies`.
    """
    layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    plan: WeightMap = {}
    for tied in _parameters(config):
        stack, numbered = tied[0].partition(".")[0], "{}" in tied[0]
        for layer in range(layers[stack] if numbered else 1):
            rows = [_row(table, name).of_layer(layer) for name in tied]
            copies = list(dict.fromkeys(name for row in rows for name in (row.names[0], *row.copies)))
            first, *others = [name for name in copies if name in names] or copies[:1]
            names_of_first = (first, *rows[0].names[1:])
            plan[tied[0].replace("{}", str(layer))] = WeightSource(names_of_first, rows[0].make, tuple(others))
    return plan


def _parameters(config: TransformerConfig) -> list[list[str]]:
    """Names of the parameters of a config's network with {} for the number of a layer, tied ones together."""
    counts = {name: min(1, getattr(config, name)) for name in ("n_encoder_layers", "n_decoder_layers")}
    network = skeleton(dataclasses.replace(config, max_length=SHORTEST, **counts))  # names depend on no size
    tied: dict[int, list[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        tied.setdefault(id(parameter), []).append(name.replace(".layers.0.", ".layers.{}."))
    return list(tied.values())


def _row(table: Table, parameter: str) -> WeightSource:
    if parameter in table:
        return source(table[parameter])
    module, _, part = parameter.rpartition(".")
    return source(table[module]).renamed(lambda name: f"{name}.{part}")


# Other functions from tensors of a file to a parameter of ours.


def without_first(rows: int) -> Callable[[Tensor], Tensor]:
    """Function that leaves out the first rows of a table of positions (position, d_model), which no token ever gets."""
    return lambda table: table[rows:]


def one_more(weight: Tensor) -> Tensor:
    """γ (d_model) of a norm that multiplies by 1 + weight, as Gemma's; in float64."""
    return 1 + weight.double()


def flat(bias: Tensor) -> Tensor:
    """Bias (vocabulary) of a file that keeps it as (1, vocabulary)."""
    return bias.flatten()


def with_type(positions: Tensor, types: Tensor, rows: int) -> Tensor:
    """Positions (position, d_model) without the first `rows`, plus the vector of token type 0, which every token of one
    text has; in float64. types: (type, d_model).
    """
    return positions[rows:].double() + types[0].double()


def type_difference(types: Tensor) -> Tensor:
    """Embedding of type 1 less that of type 0, in float64. types: (type, d_model)."""
    return types[1].double() - types[0].double()
