"""Inputs of every figure: a model, the trace of its pass over the texts, and the pinned trace beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from model.analysis.comparison import Comparison
    from model.capture.trace import Trace
    from model.inference.text_model import TextModel
    from model.network.config import TransformerConfig
    from model.text.tokenizer import Tokens
    from viz.state.pin import Pin


@dataclass
class Selection:
    """The chosen layer, head and query, counted from 0; `query` is a position of the `side` that the page asks for."""

    layer: int = 0
    head: int = 0
    query: int = 0
    side: str = field(default="target", init=False, compare=False)


@dataclass(frozen=True)
class Inputs:
    """Model, its trace of the texts, and what is chosen in them. comparison: with the pinned trace, if one is.

    source, target: tokens of the texts. ended: whether the written text ends where its tokens do, see `Session.ended`.
    pin: what the pinned trace was made of.
    """

    model: TextModel
    trace: Trace
    comparison: Comparison | None
    selection: Selection
    source: Tokens
    target: Tokens | None = None
    ended: bool = True
    pin: Pin | None = None

    @property
    def config(self) -> TransformerConfig:
        return self.model.config

    def now(self, name: str) -> Tensor:
        """Quantity of the trace."""
        return self.trace[name]

    def before(self, name: str) -> Tensor | None:
        """Its pinned counterpart on the same tokens; None where the pinned trace has none, or nothing is pinned."""
        return None if self.comparison is None else self.comparison.counterpart(name)
