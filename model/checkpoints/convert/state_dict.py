"""A state dict without a config: what its names and shapes say, and what lies beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.convert.weight_map import WeightMap
from model.checkpoints.formats.pickle import Plain
from model.checkpoints.load_hints import LoadHints, Positions
from model.network.config import TiedEmbeddings, TransformerConfig
from model.runtime.errors import CheckpointError

MOST_LAYERS = 512
HEADS = ("n_head", "n_heads", "num_heads", "nhead", "heads", "h", "num_attention_heads", "n_attn_heads")


class HeadsNeededError(CheckpointError):
    """Weights do not say how many heads share them. possible: the numbers that d_model can be divided by."""

    def __init__(self, name: str, d_model: int) -> None:
        self.possible = [heads for heads in range(1, d_model + 1) if d_model % heads == 0]
        numbers = ", ".join(map(str, self.possible))
        super().__init__(
            f"{name} does not say how many heads it has: open it with heads=N (on the command line --heads N), for "
            f"d_model {d_model} one of {numbers}"
        )


@dataclass(frozen=True)
class Layout:
    """A state dict that was recognised: as whose, with which config and weights of ours.

    assumed: what its weights cannot say, and what is taken instead. open: of that what one may choose otherwise on
    opening, with what was taken: "heads", "positions", "start".
    """

    name: str
    config: TransformerConfig
    weights: dict[str, Tensor]
    assumed: tuple[str, ...] = ()
    open: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The tensors below `root` by the rest of their names. records: plain values of the file and of a config beside it.

    told: what the one who opens it says of it.
    """

    name: str
    tensors: Mapping[str, Tensor]
    records: Mapping[str, Plain] = field(default_factory=dict)
    told: LoadHints = field(default_factory=LoadHints)

    def below(self, anchor: str) -> State | None:
        """The part of the tensors that a name ending in `anchor` belongs to, whatever wraps the model."""
        roots = [name[: -len(anchor)] for name in self.tensors if name.endswith(anchor)]
        roots = [root for root in roots if not root or root.endswith(".")]
        if not roots:
            return None
        root = min(roots, key=len)
        own = {name.removeprefix(root): each for name, each in self.tensors.items() if name.startswith(root)}
        return State(self.name, own, self.records, self.told)

    def said(self, *names: str) -> Plain | None:
        """A plain value by the last part of its name, the first of `names` that there is."""
        found = {name.rpartition(".")[2].lower(): value for name, value in self.records.items()}
        return next((found[name] for name in names if name in found), None)

    def switch(self, default: bool, *names: str) -> bool:
        value = self.said(*names)
        return value if isinstance(value, bool) else default

    def shape(self, name: str, dimensions: int = 2) -> tuple[int, ...]:
        """Shape of a tensor that must be there.

        Raises:
            CheckpointError: it is not, or has other dimensions.
        """
        if name not in self.tensors:
            raise CheckpointError(f"{self.name} lacks {name}, without which its model cannot be put together")
        shape = tuple(self.tensors[name].shape)
        if len(shape) != dimensions or not all(shape):
            raise CheckpointError(f"{self.name}: {name} has shape {shape}, not {dimensions} dimensions above 0")
        return shape

    def layers(self, pattern: str) -> int:
        """How many layers there are, by a pattern that finds their numbers in names.

        Raises:
            CheckpointError: one is missing among them, or there are too many.
        """
        found = {int(match[1]) for name in self.tensors if (match := re.match(pattern, name)) and len(match[1]) < 6}
        if found != set(range(len(found))) or len(found) > MOST_LAYERS:
            raise CheckpointError(f"{self.name}: its layers are not numbered from 0 to at most {MOST_LAYERS - 1}")
        return len(found)

    def n_heads(self, d_model: int) -> int:
        """Number of heads as it was said on opening, else in the file or beside it.

        Raises:
            HeadsNeededError: nobody said.
            CheckpointError: d_model cannot be divided by it.
        """
        heads = self.told.heads if self.told.heads is not None else self.said(*HEADS)
        if heads is None:
            raise HeadsNeededError(self.name, d_model)
        if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1 or d_model % heads:
            raise CheckpointError(f"{self.name}: d_model ({d_model}) cannot be divided among heads ({heads!r})")
        return heads

    @property
    def open_heads(self) -> dict[str, int | str]:
        """The number of heads, if nothing but the one who opens it says it."""
        return {} if self.told.heads is None or self.said(*HEADS) is not None else {"heads": self.told.heads}

    def positions(self) -> tuple[Positions, tuple[str, ...]]:
        """Of a model without a table of them: those that were told, else sines; and what was assumed, in words."""
        if self.told.positions:
            return self.told.positions, ()
        return "sinusoidal", ("sinusoidal positions (there is no table of them)",)

    def same(self, one: str, other: str) -> bool:
        """Whether two names are of one matrix, or of two that are alike."""
        if one not in self.tensors or other not in self.tensors:
            return False
        first, second = self.tensors[one], self.tensors[other]
        return first.shape == second.shape and (first.data_ptr() == second.data_ptr() or torch.equal(first, second))

    def tied(self, source: str, target: str, output: str) -> TiedEmbeddings:
        """Which of the three matrices are one."""
        inputs, outputs = self.same(source, target), self.same(target, output)
        return "all" if inputs and outputs else "inputs" if inputs else "output" if outputs else "none"

    def weights(self, plan: WeightMap) -> dict[str, Tensor]:
        """Weights by our names.

        Raises:
            CheckpointError: one is missing or of another shape.
        """
        weights: dict[str, Tensor] = {}
        for ours, source in plan.items():
            if missing := [name for name in source.names if name not in self.tensors]:
                raise CheckpointError(f"{self.name} lacks {missing[0]}, without which its model cannot be put together")
            try:
                weights[ours] = source.make(*(self.tensors[name] for name in source.names))
            except (RuntimeError, IndexError) as error:
                raise CheckpointError(f"{self.name}: {ours} cannot be made from {source.names[0]}: {error}") from error
        return weights

    def require_all_used(self, plan: WeightMap, kind: str, buffers: str) -> None:
        """Refuse a model that has more than the layout knows. buffers: a pattern of names that hold no weights.

        Raises:
            CheckpointError: it has.
        """
        used = {name for source in plan.values() for name in (*source.names, *source.copies)}
        more = [name for name in self.tensors if name not in used and not re.search(buffers, name)]
        if more:
            raise CheckpointError(
                f"{self.name} looks like {kind}, which has no {more[0]} ({len(more)} such): its tensors can be looked "
                "at under Checkpoints → Read, and to compute with it, a config.json of transformers is needed"
            )


def config_of(name: str, **options: Any) -> TransformerConfig:
    """The config that shapes ask for. options: of TransformerConfig, or with a kind of `one_stack`.

    Raises:
        CheckpointError: there can be none such.
    """
    make: Callable[..., TransformerConfig] = TransformerConfig.one_stack if "kind" in options else TransformerConfig
    try:
        return make(**options)
    except ValueError as error:
        raise CheckpointError(f"{name} does not describe a model that can be built: {error}") from error
