"""What a model's files forbid it to write, or make it write: bad words, suppressed tokens, a forced end."""

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
    """Rules of a generation_config.json of transformers (`bad_words_ids`, `suppress_tokens`, `begin_suppress_tokens`,
    `forced_eos_token_id`), by the tokens that they are about.

    never: are not written. first: not as the first token. runs: the last token of each does not come after the others.
    last: ends what reaches its limit.
    """

    never: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    runs: tuple[tuple[int, ...], ...] = ()
    last: int | None = None

    @property
    def ids(self) -> list[int]:
        """All tokens that they are about."""
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
        """Log-probabilities with −∞ for what must not be written; 0 for what must. Others stay as they are, as in
        transformers, and so they do where nothing would be left.

        limits: the most tokens to write for each text. written: how many are, before the first step. rows: all tokens
        before it, those of the prompt too; needed where there are `runs`. guess: those of the steps after it, which is
        of a single text.
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
        """Which tokens would end a run."""
        lengths = [length for length in self._ends if length <= len(ids)]
        return [token for length in lengths for token in self._ends[length].get(tuple(ids[-length:]), ())]

    @cached_property
    def _ends(self) -> dict[int, dict[tuple[int, ...], list[int]]]:
        """The last tokens of the runs, by the length of what is before, and by that."""
        found: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for *before, token in self.runs:
            found.setdefault(len(before), {}).setdefault(tuple(before), []).append(token)
        return found


NO_RULES = GenerationRules()


def tokens_in(value: object, size: int) -> tuple[int, ...]:
    """The ids that a value of such a file is, one or a list of them; without what is no token of a model of `size`."""
    given = value if isinstance(value, list) else [value]
    return tuple(token for token in given if type(token) is int and 0 <= token < size)


def rules_in(said: Mapping[str, Any], size: int, stops: Collection[int]) -> GenerationRules:
    """The rules in a generation_config.json, or in a config.json where there is none, for a model of `size` tokens.

    Only what is about tokens of the model is taken. stops: an end alone is no bad word, as in transformers.
    """
    listed = said.get("bad_words_ids")
    words = [each for each in listed if isinstance(each, list)] if isinstance(listed, list) else []
    whole = [tuple(word) for word in words if word and len(tokens_in(word, size)) == len(word)]
    single = {word[0] for word in whole if len(word) == 1 and word[0] not in stops}
    return GenerationRules(
        never=tuple(sorted({*single, *tokens_in(said.get("suppress_tokens"), size)})),
        first=tokens_in(said.get("begin_suppress_tokens"), size),
        runs=tuple(word for word in whole if len(word) > 1),
        last=min(tokens_in(said.get("forced_eos_token_id"), size), default=None),
    )
