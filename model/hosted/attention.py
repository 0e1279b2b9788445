"""The attention of a hosted model by our own small modules, at our paths: maps on demand and what-if changes work as in
a network of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.capture.hooks import ordinary
from model.capture.interventions import ChangedMask
from model.hosted.offloaded import held
from model.hosted.reasons import Reason
from model.network.attention import Masked, MultiHeadAttention, Scores, Weights, explicit_attention, for_each_head
from model.network.masks import Mask
from model.network.positions import Unbiased


class Given(nn.Module):
    """A quantity that was computed elsewhere, as it comes; n_heads: how many heads it has."""

    def __init__(self, n_heads: int = 0) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, x: Tensor) -> Tensor:
        return x


class GivenFactor(nn.Module):
    """Scores times a factor, 1/√d_k or what the model says instead."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return scores * self.factor


class Capped(nn.Module):
    """c · tanh(scores / c): no score beyond ±c (Gemma Team, 2024, section 2)."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, scaled: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return torch.tanh(scaled / self.cap) * self.cap


class GivenBias(nn.Module):
    """Scores plus what the model adds for the positions (Raffel et al., 2020, section 2.1)."""

    def forward(
        self, scaled: Float[Tensor, "*batch head query key"], bias: Float[Tensor, "*#batch #head query key"]
    ) -> Float[Tensor, "*batch head query key"]:
        return scaled + bias


@dataclass(frozen=True)
class HeadPart:
    """What of a hosted module's matrix is each head's: rows (head, channel), of W_O columns."""

    module: nn.Module
    places: Int[Tensor, "head channel"]
    columns: bool

    @property
    def weight(self) -> Float[Tensor, "head channel d_model"]:
        """W_Q, W_K or W_V of every head, or W_O transposed."""
        found = held(self.module)
        assert found is not None
        weight = found.detach()
        rows = isinstance(self.module, nn.Linear)  # GPT-2's Conv1D has the other order
        return (weight if rows != self.columns else weight.T)[self.places.to(weight.device)]


class HostedAttention(MultiHeadAttention):
    """The part of a hosted attention between its projections, step by step.

    output: its W^O, where that was found. own: whether these modules compute it; else the model's own function does,
    and gives its weights; outside: not even that is called, and the weights are all that is seen, at a `place` of what
    the module returns. recombines: whether its heads are the weights times the values, and nothing is done to them.
    parts: the four matrices cut into heads; empty where they could not be told apart, which `unclear` then explains.
    """

    unclear: Reason | None = None

    def __init__(
        self,
        heads: int,
        key_heads: int,
        factor: float,
        *,
        cap: float | None = None,
        biased: bool = False,
        own: bool = True,
        outside: bool = False,
        cross: bool = False,
        place: int = 0,
        recombines: bool = True,
        output: nn.Module | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.own, self.outside, self.cross, self.place = own, outside, cross, place
        self.dropout, self.cap, self.recombines = 0.0, cap, recombines
        self.parts: dict[str, HeadPart] = {}
        self.weights = Weights() if own else Given(heads)  # type: ignore[assignment]
        if outside:
            return
        self.query, self.key, self.value = Given(heads), Given(key_heads), Given(key_heads)  # type: ignore[assignment]
        if own:
            self.scores, self.scaled = Scores(), GivenFactor(factor)  # type: ignore[assignment]
            if cap is not None:
                self.capped = Capped(cap)
            if biased:
                self.bias = Given(heads)
            self.biased = GivenBias() if biased else Unbiased()  # type: ignore[assignment]
            self.masked = Masked()
        self.heads = nn.Identity()
        if output is not None:
            self.output = output  # type: ignore[assignment]

    @property
    def counts(self) -> tuple[int, int | None]:
        """How many heads there are, and how many of keys and values, as far as that can be seen."""
        if self.outside:
            return int(self.weights.n_heads), None  # type: ignore[arg-type]
        return int(self.query.n_heads), int(self.key.n_heads)

    @property
    def sums_to_one(self) -> bool:
        """Whether a query gives its keys all of its weight: a step that is not known here may keep some of it."""
        return self.own or self.outside

    def forward(  # type: ignore[override]
        self, call: Any, key: Any, mask: Mask, cache: None = None
    ) -> Tensor:
        """The heads (batch, query, head, channel) of a call; of one whose weights are all that is seen, these."""
        if self.outside:
            self.refuse(mask)
            return self.weights(call)
        query, key, value = self.query(call.query), self.key(key), self.value(call.value)
        return self.heads(self._attend(call, query, key, value, mask)).transpose(1, 2)

    def _attend(self, call: Any, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if not self.own:
            self.refuse(mask)
            heads, weights = call.by_itself(query, key, value)
            self.weights(weights)
            return heads.transpose(1, 2)
        bias = () if call.bias is None else (self.bias(call.bias),)
        if explicit_attention.get():
            return self._explicit(query, key, value, mask, bias)
        if self.cap is None and not bias:
            return self.fused(query, key, value, mask)
        # A kernel that adds a bias rounds otherwise, and mT5's logits are large enough to show it; nothing is kept.
        with ordinary():
            return self._explicit(query, key, value, mask, bias)

    def refuse(self, mask: Mask) -> None:
        """Only the model's own steps know its masks.

        Raises:
            ValueError: the mask was changed.
        """
        if isinstance(mask, ChangedMask):
            raise ValueError("the masks of this model cannot be changed: it computes its attention by code of its own")

    def _explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: tuple[Tensor, ...]) -> Tensor:
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        scores = self.scaled(self.scores(query, key))
        scores = self.biased(scores if self.cap is None else self.capped(scores), *bias)
        return self.weights(self.masked(scores, visible), visible) @ for_each_head(value, query.shape[1])
