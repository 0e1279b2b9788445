"""The options of a bridged model, as far as ours describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal  # noqa: F401 - in the types of what is inherited, as the next ones

from model.network.config import (  # noqa: F401
    Activation,
    AttentionBias,
    Heads,
    Latent,
    Norm,
    NormPlacement,
    OutputHead,
    Position,
    StackShape,
    TiedEmbeddings,
    TransformerConfig,
    Units,
)


@dataclass(frozen=True, kw_only=True)
class BridgedConfig(TransformerConfig):
    """Options of a bridged model, as far as ours describe it; not validated, for the model runs itself.

    d_ff, activation: of the last layer's units, 0 and "unknown" where they are. windows: of the last stack's layers.
    units: of the layers by stack. gates: whether half of the units gate the others. latents, cached: of the last
    stack's layers; empty where they are unknown. shapes: by stack, where they may differ; d_model and n_heads are the
    last one's.
    """

    windows: tuple[int | None, ...] = ()
    units: Mapping[str, tuple[Units, ...]] = field(default_factory=dict)
    gates: bool = False
    latents: tuple[Latent | None, ...] = ()
    cached: tuple[int, ...] = ()
    shapes: Mapping[str, StackShape] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pass

    @property
    def gated(self) -> bool:
        return self.gates

    def shape_of(self, stack: str) -> StackShape:
        return self.shapes[stack]

    def window_of(self, layer: int) -> int | None:
        return self.windows[layer] if layer < len(self.windows) else None

    @property
    def windowed(self) -> bool:
        return any(window is not None for window in self.windows)

    def latent_of(self, layer: int) -> Latent | None:
        return self.latents[layer] if layer < len(self.latents) else None

    def cached_of(self, layer: int) -> int | None:
        return self.cached[layer] if layer < len(self.cached) else None

    def units_of(self, stack: str, layer: int) -> Units:
        return self.units[stack][layer]


def setting(config: Any, name: str) -> Any:
    """Value of a setting of transformers; None where a config has none, or another for each layer."""
    try:
        return getattr(config, name, None)
    except RuntimeError:  # of a config whose layers have settings of their own
        return None
