"""What a model has read before and while it writes, so that each step computes only the newest tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.cache import DecoderCache
from model.masks import Mask

# The states of tokens, from the tokens, the cache of earlier ones, the encoder's output and its mask.
Decode = Callable[[Tensor, DecoderCache, "Tensor | None", Mask], Tensor]


class Context:
    """A batch of texts being written: the encoded sources, if there are any, and the cache of what was fed.

    first: (batch, length), the tokens to feed first: `<s>`, or the prompt.
    """

    def __init__(
        self,
        first: Int[Tensor, "batch length"],
        decode: Decode,
        logits: Callable[[Tensor], Tensor],
        n_layers: int,
        memory: Tensor | None = None,
        real: Tensor | None = None,
    ) -> None:
        self.first = first
        self.cache = DecoderCache(n_layers)
        self._decode, self._logits = decode, logits
        self._memory, self._mask = memory, Mask(keys=real)

    def log_probabilities(
        self, tokens: Int[Tensor, "batch new"], wanted: int = 1
    ) -> Float[Tensor, "batch wanted vocabulary"]:
        """Feed tokens; what may follow each of the last `wanted` of them, in float32 at least."""
        states = self._decode(tokens, self.cache, self._memory, self._mask)
        logits = self._logits(states[:, -wanted:])
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def cut(self, written: int) -> None:
        """Forget all that was fed but `first` and the tokens written since, without the newest."""
        self.cache.cut(self.first.shape[1] - 1 + written)

    def repeat(self, times: int) -> None:
        """Each text `times` times, before anything is fed."""
        self.first = self.first.repeat_interleave(times, dim=0)
        if self._memory is not None:
            self._memory = self._memory.repeat_interleave(times, dim=0)
        if self._mask.keys is not None:
            self._mask = Mask(keys=self._mask.keys.repeat_interleave(times, dim=0))

    def select(self, rows: Int[Tensor, rows]) -> None:
        """Go on with the texts at these rows, each still of the same source."""
        self.cache.select(rows)

    def select_sources(self, rows: Int[Tensor, rows]) -> None:
        """Go on with the sources at these rows."""
        if self._memory is None:
            return
        self._memory = self._memory[rows]
        if self._mask.keys is not None:
            self._mask = Mask(keys=self._mask.keys[rows])
        self.cache.select_sources(rows)
