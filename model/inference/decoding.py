"""Decoding token by token: greedy, or by sampling."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.inference.beam_search import SearchTree
from model.message import InputError
from model.network.decoding_state import DecodingState
from model.runtime import cancellation
from model.text.generation_rules import NO_RULES, GenerationRules

GUESSED = 5  # most tokens of a guess: more cost more than they save


@dataclass(frozen=True)
class Alternative:
    """Token that a model could have chosen at a step."""

    token: int
    label: str
    log_probability: float  # nats

    @property
    def probability(self) -> float:
        """Probability of the token, between 0 and 1."""
        return math.exp(self.log_probability)


@dataclass(frozen=True)
class Guess:
    """Most probable tokens after the token at `place` of a trace, or for it where it is masked; best first."""

    place: int
    choices: list[Alternative]


@dataclass(frozen=True)
class Generation:
    """Text that a model wrote.

    ids: of the tokens written, with the one that ended the text, if one did. tokens: their labels.
    log_probabilities: of each token under the model, in nats.
    alternatives: most probable choices at the step of each token, best first.
    tree: all tokens that a beam search tried.
    """

    text: str
    ids: list[int]
    tokens: list[str]
    log_probabilities: list[float]
    alternatives: list[list[Alternative]]
    tree: SearchTree | None = None

    @property
    def log_probability(self) -> float:
        """Log-probability of the whole text, in nats."""
        return sum(self.log_probabilities)


@torch.inference_mode()
def greedy(
    context: DecodingState,
    *,
    ends: Collection[int],
    limits: Sequence[int],
    keep: int = 5,
    draft: Sequence[int] = (),
    others: Sequence[Sequence[int]] = (),
    rules: GenerationRules = NO_RULES,
) -> tuple[list[list[int]], Tensor, Tensor]:
    """Greedy decoding: the most probable token at each step, for each text of a batch.

    ends: tokens that end a text. limits: most tokens to write for each text.
    draft: text that is likely to be written, for a batch of one. Its steps are computed in one pass, and those before
    the first one at which the model chooses another token are kept (Leviathan et al., 2023). After that, the tokens
    after the newest token in the draft, or in one of the others, are the next guess (Saxena, 2023).
    others: texts that may be written in part, the likeliest first.
    rules: tokens that must or must not be written; forbidden tokens have a log-probability of −∞.

    Returns the ids of each text, with the one of `ends` that was reached, if one was; and the `keep` largest
    log-probabilities (nats) at each step, and their tokens, both (step, batch, keep).
    """
    newest, longest, ends = context.first, max(limits), frozenset(ends)
    draft = list(draft[:longest]) if len(limits) == 1 and context.can_cache else []
    guess = draft
    done = [limit < 1 for limit in limits]
    best: list[tuple[Tensor, Tensor]] = []
    while len(best) < longest and not all(done):
        cancellation.check()
        fed = torch.cat([newest, torch.tensor([guess], device=newest.device)], dim=1) if guess else newest
        log_probabilities = context.log_probabilities(fed, wanted=1 + len(guess))
        before = _so_far(context.first, best) if rules.runs else []
        log_probabilities = rules.allowed(log_probabilities, limits, len(best), before, guess)
        values, tokens = log_probabilities.topk(min(keep, log_probabilities.shape[-1]), dim=-1)
        chosen = tokens[..., 0].tolist()
        right = _agreeing(chosen[0], guess)  # tokens of the guess; the step after them is right, too
        best += [(values[:, step], tokens[:, step]) for step in range(right + 1)]
        best = best[:longest]
        context.cut(len(best))
        newest = best[-1][1][:, :1]
        if draft:
            guess = _continuation([draft, *others], int(newest), len(best))[: longest - len(best)]
        done = [was or not ends.isdisjoint(row[: right + 1]) for was, row in zip(done, chosen, strict=True)]
    if not best:
        none = torch.empty(0, len(limits), keep)
        return [[] for _ in limits], none, none.long()
    written = torch.stack([tokens for _, tokens in best])
    rows = zip(written[:, :, 0].T.tolist(), limits, strict=True)
    return [_until(row[:limit], ends) for row, limit in rows], torch.stack([values for values, _ in best]), written


def _so_far(first: Tensor, best: Sequence[tuple[Tensor, Tensor]]) -> list[list[int]]:
    """Tokens of each text until now."""
    written = [tokens[:, :1].to(first.device) for _, tokens in best]
    rows: list[list[int]] = torch.cat([first, *written], dim=1).tolist()
    return rows


def _agreeing(written: list[int], guess: list[int]) -> int:
    """Number of leading tokens of `guess` that were written at their steps."""
    for step, (token, guessed) in enumerate(zip(written, guess, strict=False)):
        if token != guessed:
            return step
    return len(guess)


def _continuation(drafts: Sequence[Sequence[int]], token: int, position: int) -> list[int]:
    """Tokens after `token` in one of the drafts, where it is nearest to `position`, or half a place farther for each
    draft before that one; without it, tokens from `position` of the first.
    """
    places = (
        (abs(place - position) + age / 2, age, place)
        for age, draft in enumerate(drafts)
        for place, drafted in enumerate(draft, start=1)
        if drafted == token
    )
    _distance, age, place = min(places, default=(0, 0, position))
    return list(drafts[age][place : place + GUESSED])


def _until(ids: list[int], ends: Collection[int]) -> list[int]:
    """Ids up to the first of `ends`."""
    last = next((place for place, token in enumerate(ids) if token in ends), len(ids))
    return ids[: last + 1]


# Sampling with temperature, top-k and top-p.

# A token that was written, its log-probability, and the most probable tokens at its step with their log-probabilities.
Step = tuple[int, float, list[tuple[int, float]]]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Options of sampling. The same seed draws the same tokens.

    temperature: divisor of the logits; below 1, probable tokens become more probable (Ackley et al., 1985).
    top_k: number of the most probable tokens to draw from (Fan et al., 2018); None: all.
    top_p: least total probability of the tokens to draw from, the most probable ones (Holtzman et al., 2020).

    Raises:
        ValueError: an option is out of its range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise InputError(
                "temperature ({temperature}) must be above 0: leave it out for greedy decoding",
                temperature=self.temperature,
            )
        if self.top_k is not None and self.top_k < 1:
            raise InputError("top_k ({top_k}) must be at least 1", top_k=self.top_k)
        if not 0 < self.top_p <= 1:
            raise InputError("top_p ({top_p}) must be above 0 and at most 1", top_p=self.top_p)
        low, high = -(2**63), 2**64 - 1  # range of torch
        if not low <= self.seed <= high:
            raise InputError("seed ({seed}) must be between {low} and {high}", seed=self.seed, low=low, high=high)

    def __call__(self, logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
        """Probabilities to draw from: first the temperature, then top-k, then top-p among the tokens that are left."""
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
    context: DecodingState,
    sampling: Sampling,
    *,
    ends: Collection[int],
    limits: Sequence[int],
    keep: int = 5,
    rules: GenerationRules = NO_RULES,
) -> list[list[Step]]:
    """Steps of a continuation that is drawn for each text of a batch; a text draws the same alone as in a batch.

    ends: tokens that end a text. limits: most tokens to write for each text. keep: number of choices of each step.
    rules: tokens that must or must not be written. Log-probabilities are those before `sampling`.
    """
    generators = [torch.Generator().manual_seed(sampling.seed) for _ in limits]
    newest = context.first
    prefixes, written = newest.tolist(), list[list[Step]]([] for _ in limits)
    for step in range(max(limits)):
        cancellation.check()
        texts = zip(prefixes, written, strict=True) if rules.runs else ()
        before = [[*first, *(token for token, _, _ in row)] for first, row in texts]
        log_probabilities = rules.allowed(context.log_probabilities(newest), limits, step, before)[:, 0]
        probabilities = sampling(log_probabilities).cpu()
        pairs = zip(probabilities, generators, strict=True)
        drawn = [int(row.multinomial(1, generator=generator)) for row, generator in pairs]
        newest = torch.tensor(drawn, device=newest.device)[:, None]
        drawn_values = log_probabilities.gather(1, newest)[:, 0].tolist()
        values, tokens = (best.tolist() for best in log_probabilities.topk(min(keep, log_probabilities.shape[-1])))
        for row, target in enumerate(written):
            if step < limits[row] and not (target and target[-1][0] in ends):
                target.append((drawn[row], drawn_values[row], list(zip(tokens[row], values[row], strict=True))))
        if all(target[-1][0] in ends for target in written if target):
            break
    return written
