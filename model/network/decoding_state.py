"""What a model has read before and while it writes, so that each step computes only the newest tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.kernels import kernels
from model.network.kv_cache import DecoderCache
from model.network.masks import Mask

# The states of tokens, from the tokens, the cache of earlier ones, the encoder's output and its mask.
Decode = Callable[[Tensor, DecoderCache, "Tensor | None", Mask], Tensor]


class DecodingState:
    """A batch of texts being written: the encoded sources, if there are any, and the cache of what was fed.

    first: (batch, length), the tokens to feed first: `<s>`, or the prompt.
    can_cache: False where what was computed for a token changes with those after it: then all are fed again at each
    step, and only the last token's prediction is that of a text which ends there.
    """

    def __init__(
        self,
        first: Int[Tensor, "batch length"],
        decode: Decode,
        output: nn.Module,
        n_layers: int,
        memory: Tensor | None = None,
        real: Tensor | None = None,
        can_cache: bool = True,
    ) -> None:
        self.first, self.can_cache = first, can_cache
        self.cache = DecoderCache(n_layers)
        self._fed: Tensor | None = None  # all tokens, where nothing is kept
        self._decode, self._output = decode, output
        self._memory, self._mask = memory, Mask(keys=real)

    def log_probabilities(
        self, tokens: Int[Tensor, "batch new"], wanted: int = 1
    ) -> Float[Tensor, "batch wanted vocabulary"]:
        """Feed tokens; what may follow each of the last `wanted` of them, in float32 at least."""
        if not self.can_cache:
            tokens = self._fed = tokens if self._fed is None else torch.cat([self._fed, tokens], dim=1)
            self.cache = DecoderCache(len(self.cache.layers))
        states = self._decode(tokens, self.cache, self._memory, self._mask)
        asked = states[:, -wanted:]
        logits: Tensor = kernels().step(self._output, self.cache, asked.shape[:2].numel())(asked)
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def cut(self, written: int) -> None:
        """Forget all that was fed but `first` and the tokens written since, without the newest."""
        length = self.first.shape[1] - 1 + written
        self.cache.cut(length)
        self._fed = None if self._fed is None else self._fed[:, :length]

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
        self._fed = None if self._fed is None else self._fed[rows]

    def select_sources(self, rows: Int[Tensor, rows]) -> None:
        """Go on with the sources at these rows."""
        if self._memory is None:
            return
        self._memory = self._memory[rows]
        if self._mask.keys is not None:
            self._mask = Mask(keys=self._mask.keys[rows])
        self.cache.select_sources(rows)
