"""What a family of published models has in common, and what one checkpoint folder of it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.foreign.pieces import Plan
from model.foreign.settings import Settings, UnknownError
from model.network.config import Activation, TransformerConfig
from model.runtime.errors import CheckpointError

# Names of functions in Hugging Face's configs, and ours of the same function.
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}
GATES: dict[Activation, Activation] = {
    "silu": "swiglu",
    "gelu": "geglu",
    "gelu-tanh": "geglu-tanh",
}  # the same as a gate
ROTARY = {"rope_theta", "rope_type", "type", "partial_rotary_factor"}
SCALED = {
    "default": set[str](),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
}


@dataclass(frozen=True)
class Family:
    """Models that differ in size only. options: of TransformerConfig. plan: where our weights come from.

    headed, bare: names of its architectures with and without an output head. prefix: before the names of all tensors
    but the head's, where there is a head. head: how the names of the head's own begin. unused: patterns of names of
    tensors that are not needed: kept masks, and heads for other tasks beside the one for words. renamed: names of
    settings that have two. known: settings that change nothing in this family.
    """

    options: Callable[[Given], TransformerConfig]
    plan: Callable[[Given, TransformerConfig], Plan]
    headed: Collection[str]
    bare: Collection[str]
    prefix: str
    head: str
    unused: str = r"(?!)"
    renamed: Mapping[str, str] = field(default_factory=dict)
    known: tuple[str, ...] = ()


class Given:
    """A checkpoint folder: its settings and the names of its tensors.

    prefix: of the family, where these names have it. head: whether there is an output head. copies: tensors that are
    the same as another, by name; filled as `one_of` is asked.
    """

    def __init__(self, family: Family, values: Mapping[str, Any], names: Collection[str]) -> None:
        self.family, self.settings = family, Settings(values, family.renamed)
        self.names = frozenset(map(modern, names))
        self.prefix = family.prefix if any(name.startswith(family.prefix) for name in self.names) else ""
        self.copies: dict[str, str] = {}
        self.head = self._head(self.settings.get("architectures"))

    def _head(self, architectures: Any) -> bool:
        if not architectures:  # a bare model is saved without a prefix
            return any(name.startswith(self.family.head) for name in self.names) or bool(self.prefix)
        if not isinstance(architectures, list) or len(architectures) != 1:
            raise UnknownError(f"architectures is {architectures!r}")
        if architectures[0] not in (*self.family.headed, *self.family.bare):
            raise UnknownError(f"the architecture is {architectures[0]!r}")
        return architectures[0] in self.family.headed

    def one_of(self, *names: str) -> str:
        """The first of these names that is there; the others are copies of it."""
        first, *others = [name for name in names if name in self.names] or names[:1]
        self.copies |= dict.fromkeys(others, first)
        return first

    def first_of(self, *names: str) -> str:
        """The first of these names that is there; the others are not needed, whatever they hold."""
        first, *others = [name for name in names if name in self.names] or names[:1]
        self.copies |= {name: name for name in others}
        return first

    def has(self, name: str) -> bool:
        return name in self.names

    def count_or(self, name: str, default: int | None, otherwise: int) -> int:
        """A whole number above 0; `otherwise` where it is null."""
        missing = self.settings.get(name, default) is None
        return otherwise if missing else self.settings.count(name, default)

    def function(self, name: str, default: str) -> Activation:
        """Our name of an activation function.

        Raises:
            UnknownError: we have no such function.
        """
        theirs = self.settings.get(name, default)
        if not isinstance(theirs, str) or theirs not in ACTIVATIONS:
            raise UnknownError(f"{name} is {theirs!r}")
        return ACTIVATIONS[theirs]

    def gate(self, name: str, default: str) -> Activation:
        """The same of a gated feed-forward network."""
        function = self.function(name, default)
        if function not in GATES:
            raise UnknownError(f"{name} is {function!r} and gates")
        return GATES[function]

    def tied(self, default: bool) -> bool:
        """Whether the output is the embedding."""
        return self.settings.switch("tie_word_embeddings", default)

    def rotary(self, longest: int, head_width: int, share: float | None = None) -> dict[str, Any]:
        """Options for rotary positions. share: of the channels turned unless told; None: all, whatever is told.

        Raises:
            UnknownError: their wavelengths are changed in a way that ours cannot be.
        """
        get = self.settings.get
        old = get("rope_scaling")
        given = old or get("rope_parameters") or {}
        if not isinstance(given, dict):
            raise UnknownError(f"rope_parameters is {given!r}")
        rope = Settings(given)
        kind = given.get("rope_type", given.get("type", "default"))
        if not isinstance(kind, str) or kind not in SCALED or not given.keys() <= ROTARY | SCALED[kind]:
            raise UnknownError(f"rotary positions are {given!r}")
        options: dict[str, Any] = {"position": "rotary"}
        options["position_base"] = rope.number("rope_theta", self.settings.number("rope_theta", 10_000.0))
        turned = rope.number("partial_rotary_factor", self.settings.number("partial_rotary_factor", share or 1.0))
        if share is None and turned != 1:
            raise UnknownError(f"partial_rotary_factor is {turned}")
        channels = int(head_width * turned)
        options["rotary_channels"] = None if channels == head_width else channels
        if kind == "default":
            return options
        options["rotary_stretch"] = rope.number("factor", 1.0)
        if kind == "llama3":
            trained = rope.number("original_max_position_embeddings", float(longest))
            slow, fast = rope.number("low_freq_factor", 1.0), rope.number("high_freq_factor", 4.0)
            if not 0 < slow < fast:
                raise CheckpointError(f"config.json: low_freq_factor ({slow}) must be between 0 and {fast}")
            options |= {"rotary_short": trained / fast, "rotary_long": trained / slow}
        return options

    def require_plausible(self, config: TransformerConfig) -> None:
        """
        Raises:
            CheckpointError: there cannot be so many layers in so few tensors.
        """
        layers = config.n_encoder_layers + config.n_decoder_layers
        if layers > len(self.names):
            tensors = len(self.names)
            raise CheckpointError(f"config.json says {layers:,} layers, and the weights hold {tensors:,} tensors")

    def require_names(self, plan: Plan) -> None:
        """Every tensor of the file has its place, and every place its tensor.

        Raises:
            UnknownError: there are tensors of something that we do not build.
            CheckpointError: a tensor is missing.
        """
        needed = {name for piece in plan.values() for name in piece.names}
        more = self.names - needed - self.copies.keys()
        if strange := sorted(name for name in more if not re.fullmatch(self.family.unused, name)):
            raise UnknownError(f"there is a tensor {strange[0]!r}")
        if missing := sorted(needed - self.names):
            raise CheckpointError(f"the weights lack {missing[0]} ({len(missing)} such), which config.json asks for")


def modern(name: str) -> str:
    """Names of norms as they are today; models from TensorFlow have the old ones."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
