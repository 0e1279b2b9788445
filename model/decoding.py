"""Choosing a target, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.beam import SearchTree
from model.cache import DecoderCache
from model.masks import real_tokens
from model.transformer import Transformer

GUESSED = 5  # tokens at a time: more cost more than they save


@dataclass(frozen=True)
class Alternative:
    """A token the model could have chosen at a step."""

    token: int
    label: str
    log_probability: float  # nats


@dataclass(frozen=True)
class Generation:
    """What a model wrote: ids without `<s>`, with `</s>` when it came to an end by itself.

    log_probabilities: of each token under the model, in nats.
    alternatives: for each token, the most probable choices at its step, best first.
    tree: all that a beam search tried.
    """

    text: str
    ids: list[int]
    tokens: list[str]
    log_probabilities: list[float]
    alternatives: list[list[Alternative]]
    tree: SearchTree | None = None

    @property
    def log_probability(self) -> float:
        """Of the whole sequence, in nats."""
        return sum(self.log_probabilities)


@torch.inference_mode()
def greedy(
    model: Transformer,
    source: Tensor,
    *,
    padding: int,
    start: int,
    end: int,
    max_length: int,
    keep: int = 5,
    draft: Sequence[int] = (),
    memory: Tensor | None = None,
) -> tuple[list[list[int]], Tensor, Tensor]:
    """The most probable token at each step, for each source of a padded (batch, source) tensor of ids.

    draft: a guess at the target of a single source, without `start`. All its steps are computed in one pass,
    and those up to the first that the model would have written otherwise are kept (Leviathan et al., 2023).
    After that, what followed the newest token in the draft is the next guess (Saxena, 2023).

    memory: the encoder's output, where it is known already.

    Returns the ids of each target, without `start`, with `end` if it was reached; and the `keep` largest
    log-probabilities at each step with their tokens, both (step, batch, keep).
    """
    source_real = real_tokens(source, padding)
    memory = model.encode(source, source_real) if memory is None else memory
    cache = DecoderCache(model.config.n_decoder_layers)
    draft = list(draft[: max_length - 1]) if len(source) == 1 else []
    guess, newest = draft, torch.full((len(source), 1), start, device=source.device)
    done = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    best: list[tuple[Tensor, Tensor]] = []
    while len(best) + 1 < max_length and not bool(done.all()):
        asked = [newest, torch.tensor([guess], device=source.device)] if guess else [newest]
        states = model.decode_next(torch.cat(asked, dim=1), memory, cache, source_real)
        log_probabilities = model.output(states).float().log_softmax(dim=-1)
        values, tokens = log_probabilities.topk(min(keep, log_probabilities.shape[-1]), dim=-1)
        right = _agreeing(tokens[0, :, 0].tolist(), guess)  # so many of the guess, and one more step, are right
        best += [(values[:, step], tokens[:, step]) for step in range(right + 1)]
        best = best[: max_length - 1]
        cache.cut(len(best))
        newest = best[-1][1][:, :1]
        if draft:
            guess = _continuation(draft, int(newest), len(best))[: max_length - 1 - len(best)]
        done |= torch.stack([tokens[:, 0] for _, tokens in best[-right - 1 :]]).eq(end).any(dim=0)
    if not best:
        none = torch.empty(0, len(source), keep)
        return [[] for _ in source], none, none.long()
    written = torch.stack([tokens for _, tokens in best])
    ids = [_until(row, end) for row in written[:, :, 0].T.tolist()]
    return ids, torch.stack([values for values, _ in best]), written


def _agreeing(written: list[int], guess: list[int]) -> int:
    """How many leading tokens of `guess` are those written at their steps."""
    for step, (token, guessed) in enumerate(zip(written, guess, strict=False)):
        if token != guessed:
            return step
    return len(guess)


def _continuation(draft: list[int], token: int, position: int) -> list[int]:
    """What follows `token` in the draft, where it stands nearest to `position`; without it, the draft from there."""
    places = [place for place, drafted in enumerate(draft, start=1) if drafted == token]
    place = min(places, key=lambda place: abs(place - position), default=position)
    return draft[place : place + GUESSED]


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end) + 1] if end in ids else ids
