"""Mixture of experts in the place of one feed-forward network: a router sends each token through few of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.network.config import TransformerConfig

NO_UNITS = "this layer's feed-forward network is a mixture of experts: units are those of one expert"


def missing_units(config: TransformerConfig) -> dict[str, str]:
    """Reason why a network of experts lacks units of a layer, by their names."""
    layers = [f"{stack}.layers.{layer}" for stack in config.stacks for layer in range(config.depth(stack))]
    return {f"{layer}.feed_forward.{name}": NO_UNITS for layer in layers for name in ("hidden", "activation")}


class Gates(nn.Module):
    """Weights of the experts that a token goes through, those with its largest logits; 0 of all others.

    Of several experts: Softmax(TopK(x W_g)), a softmax over the chosen alone (Jiang et al., 2024, Mixtral, section
    2.1). Of one expert that would be 1 whatever its logit, and the router would learn nothing from the task: its weight
    is its probability among all (Fedus et al., 2022, Switch Transformer, equations 1 and 2).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.chosen = config.experts_per_token

    def forward(self, logits: Float[Tensor, "*batch expert"]) -> Float[Tensor, "*batch expert"]:
        largest, experts = logits.topk(self.chosen, dim=-1)
        weights = largest.softmax(dim=-1) if self.chosen > 1 else logits.softmax(dim=-1).gather(-1, experts)
        return weights.new_zeros(logits.shape).scatter(-1, experts, weights)


class ExpertNetworks(nn.ModuleList):
    """Feed-forward networks of all experts of a layer."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the quantities of an expert's units, first the one that its W₂ multiplies."""
        gated = hasattr(self[0], "gated")
        return ("gated", "activation", "linear", "hidden") if gated else ("activation", "hidden")


class MixtureOfExperts(nn.Module):
    """y = Σ_e g_e(x) FFN_e(x) over the experts of a token (Shazeer et al., 2017, equation 1).

    routed: what router and experts read. router: a logit for each expert, x W_g. gates: see `Gates`.
    """

    def __init__(self, config: TransformerConfig, network: Callable[[TransformerConfig], nn.Module]) -> None:
        """network: makes the feed-forward network of one expert."""
        super().__init__()
        assert config.n_experts is not None
        self.routed = nn.Identity()
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gates = Gates(config)
        self.experts = ExpertNetworks(network(config) for _ in range(config.n_experts))
        self.output = nn.Identity()

    def forward(self, x: Float[Tensor, "batch length d_model"]) -> Float[Tensor, "batch length d_model"]:
        x = self.routed(x)
        logits = self.router(x)
        gates = self.gates(logits)
        _note(Routing(logits, gates))
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            taken = gates[..., number] != 0  # the other tokens cost this expert nothing
            y[taken] += (gates[taken][:, number, None] * expert(x[taken])).to(y.dtype)
        return self.output(y)

    def read_by(self, expert: int, routed: Tensor, gates: Tensor) -> Tensor:
        """Input of one expert (position, d_model), of that of all; gates multiply what experts give."""
        return routed


# Balance of the experts: without it a router soon sends all tokens to the few that were better by chance.


class Routing(NamedTuple):
    """Logits of a router, and gates, of one layer and pass."""

    logits: Float[Tensor, "batch length expert"]
    gates: Float[Tensor, "batch length expert"]


_noted: ContextVar[list[Routing] | None] = ContextVar("routings", default=None)


def _note(routing: Routing) -> None:
    if (wanted := _noted.get()) is not None:
        wanted.append(routing)


@contextmanager
def routings() -> Iterator[list[Routing]]:
    """Block in which every mixture adds its routing to the list, in order of computation."""
    wanted: list[Routing] = []
    before = _noted.set(wanted)
    try:
        yield wanted
    finally:
        _noted.reset(before)


def balance_loss(routing: Routing, real: Bool[Tensor, "batch length"] | None = None) -> Float[Tensor, ""]:
    """N Σ_e f_e P_e, 1 where the N experts are evenly loaded (Fedus et al., 2022, equations 4 to 6, without α).

    f_e: share of all choices that are expert e. P_e: mean of its probability among all experts. Gradients come from P_e
    alone. real: False on padding, which does not count.
    """
    logits, gates = (each.flatten(0, 1) if real is None else each[real] for each in routing)
    choices = (gates != 0).to(logits.dtype)
    shares = choices.sum(dim=0) / choices.sum()
    return logits.shape[-1] * (shares * logits.softmax(dim=-1).mean(dim=0)).sum()
