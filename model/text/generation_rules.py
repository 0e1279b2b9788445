"""Rules of generation in a model's files: bad words, suppressed tokens, a forced end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class GenerationRules:
    """Rules of a generation_config.json of transformers (`suppress_tokens`, `begin_suppress_tokens`, `bad_words_ids`,
    `forced_eos_token_id`), as ids.

    never: tokens that are not generated. first: tokens that are not generated first. runs: the last token of a run is
    not generated after the others. last: the token that ends a text at its limit.
    """

    never: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    runs: tuple[tuple[int, ...], ...] = ()
    last: int | None = None

    @property
    def ids(self) -> list[int]:
        """All ids in the rules."""
        return [*self.never, *self.first, *chain(*self.runs), *([] if self.last is None else [self.last])]

    def __bool__(self) -> bool:
        return bool(self.never or self.first or self.runs) or self.last is not None

    def allowed(
        self,
        log_probabilities: Float[Tensor, "batch step vocabulary"],
        limits: Sequence[int],
        written: int,
        rows: Sequence[Sequence[int]],
        guess: Sequence[int] = (),
    ) -> Float[Tensor, "batch step vocabulary"]:
        """Log-probabilities (nats) with −∞ for forbidden tokens, and 0 for a forced one. Others are unchanged, as in
        transformers, and so are all of a step where every token would be forbidden.

        limits: largest number of tokens of each text. written: number of tokens before the first step. rows: all ids of
        each text before the first step, the prompt's too; needed where there are `runs`. guess: ids of the steps after
        the first, of a single text.
        """
        if not self:
            return log_probabilities
        left = log_probabilities.clone()
        left[:, :, list(self.never)] = -torch.inf
        if written == 0:
            left[:, 0, list(self.first)] = -torch.inf
        for row, before in enumerate(rows if self.runs else ()):
            for step in range(left.shape[1]):
                left[row, step, self._after([*before, *guess[:step]])] = -torch.inf
        left = torch.where(left.isneginf().all(dim=-1, keepdim=True), log_probabilities, left)
        for row, limit in enumerate(limits if self.last is not None else ()):
            if written <= limit - 1 < written + left.shape[1]:
                left[row, limit - 1 - written] = -torch.inf
                left[row, limit - 1 - written, self.last] = 0.0
        return left

    def _after(self, ids: Sequence[int]) -> list[int]:
        """Tokens that would end a run after these ids."""
        lengths = [length for length in self._ends if length <= len(ids)]
        return [token for length in lengths for token in self._ends[length].get(tuple(ids[-length:]), ())]

    @cached_property
    def _ends(self) -> dict[int, dict[tuple[int, ...], list[int]]]:
        """Last tokens of the runs, by the number of tokens before, and by these tokens."""
        ends: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for *before, token in self.runs:
            ends.setdefault(len(before), {}).setdefault(tuple(before), []).append(token)
        return ends


NO_RULES = GenerationRules()


def tokens_in(value: object, size: int) -> tuple[int, ...]:
    """Ids in a setting, one or a list of them, without those that a model of `size` tokens does not have."""
    values = value if isinstance(value, list) else [value]
    return tuple(token for token in values if type(token) is int and 0 <= token < size)


def rules_in(settings: Mapping[str, Any], size: int, stops: Collection[int]) -> GenerationRules:
    """Rules in a generation_config.json, or in a config.json where there is none, for a model of `size` tokens.

    Ids that the model does not have are left out. stops: ids that are no bad words alone, as in transformers.
    """
    listed = settings.get("bad_words_ids")
    words = [word for word in listed if isinstance(word, list)] if isinstance(listed, list) else []
    whole = [tuple(word) for word in words if word and len(tokens_in(word, size)) == len(word)]
    single = {word[0] for word in whole if len(word) == 1 and word[0] not in stops}
    return GenerationRules(
        never=tuple(sorted({*single, *tokens_in(settings.get("suppress_tokens"), size)})),
        first=tokens_in(settings.get("begin_suppress_tokens"), size),
        runs=tuple(word for word in whole if len(word) > 1),
        last=min(tokens_in(settings.get("forced_eos_token_id"), size), default=None),
    )
