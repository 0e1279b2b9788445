"""Drawing the target by chance: temperature, top-k and top-p."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.context import Context
from model.text.generation_rules import NO_RULES, Rules

# A token that was written, its log-probability, and the most probable tokens at its step with theirs.
Step = tuple[int, float, list[tuple[int, float]]]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to draw a token. The same seed draws the same tokens.

    temperature: logits are divided by it; below 1 the likely become likelier (Ackley et al., 1985).
    top_k: only the k most probable tokens (Fan et al., 2018); None: all.
    top_p: only the fewest tokens that together have probability p (Holtzman et al., 2020).

    Raises:
        ValueError: an option is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature ({self.temperature}) must be above 0: leave it out for greedy decoding")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k ({self.top_k}) must be at least 1")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p ({self.top_p}) must be above 0 and at most 1")
        low, high = -(2**63), 2**64 - 1  # what torch takes
        if not low <= self.seed <= high:
            raise ValueError(f"seed ({self.seed}) must be between {low} and {high}")

    def __call__(self, logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
        """The probabilities to draw from; first the temperature, then top-k, then top-p among what is left."""
        scaled = logits.float() / self.temperature
        if self.top_k is not None and self.top_k < scaled.shape[-1]:
            least = scaled.topk(self.top_k, dim=-1).values[..., -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        if self.top_p < 1:
            ordered, order = scaled.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
            before = ordered.cumsum(dim=-1) - ordered
            outside = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= self.top_p)
            scaled = scaled.masked_fill(outside, -torch.inf)
        return scaled.softmax(dim=-1)


@torch.inference_mode()
def sample(
    context: Context,
    sampling: Sampling,
    *,
    ends: Collection[int],
    limits: Sequence[int],
    keep: int = 5,
    rules: Rules = NO_RULES,
) -> list[list[Step]]:
    """A continuation drawn for each text of a batch. limits: the most tokens to write for each.

    Log-probabilities are the model's own, not those after `sampling`; `keep` of them stay for each step. rules: what
    must not be written, and what must.
    A text draws the same alone as in a batch.
    """
    chance = [torch.Generator().manual_seed(sampling.seed) for _ in limits]
    newest = context.first
    begun, written = newest.tolist(), list[list[Step]]([] for _ in limits)
    for step in range(max(limits)):
        texts = zip(begun, written, strict=True) if rules.runs else ()
        before = [[*first, *(token for token, _, _ in row)] for first, row in texts]
        log_probabilities = rules.allowed(context.log_probabilities(newest), limits, step, before)[:, 0]
        probabilities = sampling(log_probabilities).cpu()
        drawn = [int(row.multinomial(1, generator=own)) for row, own in zip(probabilities, chance, strict=True)]
        newest = torch.tensor(drawn, device=newest.device)[:, None]
        own_values = log_probabilities.gather(1, newest)[:, 0].tolist()
        values, tokens = (
            each.tolist() for each in log_probabilities.topk(min(keep, log_probabilities.shape[-1]), dim=-1)
        )
        for row, target in enumerate(written):
            if step < limits[row] and not (target and target[-1][0] in ends):
                target.append((drawn[row], own_values[row], list(zip(tokens[row], values[row], strict=True))))
        if all(target[-1][0] in ends for target in written if target):
            break
    return written
