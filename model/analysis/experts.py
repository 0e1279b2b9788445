"""Mixtures of experts: the load of each expert over a text, and over many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.feed_forward import path_of
from model.capture.trace import Trace
from model.inference.text_model import TextModel


def has_experts(trace: Trace, stack: str, layer: int) -> bool:
    """True if the trace has the gates of a layer's experts."""
    return f"{path_of(stack, layer)}.gates" in trace


def mixed_layers(trace: Trace, stack: str) -> list[int]:
    """Layers of a stack whose feed-forward network is a mixture of experts."""
    return [layer for layer in range(trace.network.config.depth(stack)) if has_experts(trace, stack, layer)]


def load(gates: Float[Tensor, "position expert"]) -> Float[Tensor, " expert"]:
    """Share of the positions that go through each expert (Shazeer et al., 2017, section 4)."""
    return (gates != 0).float().mean(dim=0)


@dataclass
class Loads:
    """Loads over many texts. tokens: through each expert, by the path of the mixture. positions: in all, by path. cut:
    number of texts that are longer than the model reads.
    """

    tokens: dict[str, Float[Tensor, " expert"]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    cut: int = 0

    def share(self, path: str) -> Float[Tensor, " expert"]:
        """Share of the positions that go through each expert of the mixture at `path`."""
        return self.tokens[path] / max(1, self.positions[path])

    def add(self, other: Loads) -> None:
        """Add the loads of other texts."""
        self.cut += other.cut
        for path, tokens in other.tokens.items():
            self.tokens[path] = self.tokens[path] + tokens if path in self.tokens else tokens
            self.positions[path] = self.positions.get(path, 0) + other.positions[path]


@torch.inference_mode()
def loads_of(model: TextModel, texts: Iterable[str]) -> Loads:
    """Loads of all mixtures of a model over texts, each read alone and cut off at the model's length; of an
    encoder-decoder model a text may be a source and a target with a tab between them.
    """
    loads = Loads()
    for text in texts:
        source, tab, target = text.partition("\t") if model.kind == "encoder-decoder" else (text, "", "")
        loads.cut += bool(model.source_tokens(source).left_out)
        trace = model.trace(source, target if tab else None)
        for stack in ("encoder", "decoder"):
            for layer in mixed_layers(trace, stack):
                path = path_of(stack, layer)
                gates = trace[f"{path}.gates"].cpu()
                loads.add(Loads({path: (gates != 0).float().sum(dim=0)}, {path: len(gates)}))
    return loads
