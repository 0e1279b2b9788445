"""State of decoding: the source or prompt, the tokens written until now, and the cache of both."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.kernels import kernels
from model.network.kv_cache import DecoderCache
from model.network.masks import Mask

# From new tokens (batch, new), the cache of earlier ones, the encoder's output and its mask to the new tokens' states.
Decode = Callable[[Tensor, DecoderCache, "Tensor | None", Mask], Tensor]


class DecodingState:
    """Batch of texts that are being written, after encoded sources or prompts.

    first: tokens that are fed first: `<s>`, or the prompt. decode, output: from new tokens to states, and to logits.
    memory: the encoder's output (batch, source, d_model). real: (batch, source), False on padding.
    can_cache: False where the states of a token depend on later tokens: then every step feeds all tokens again, and
    only the prediction after the last one is that of a text which ends there.
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
        self._fed: Tensor | None = None  # all tokens until now, without a cache
        self._decode, self._output = decode, output
        self._memory, self._mask = memory, Mask(keys=real)

    def log_probabilities(
        self, tokens: Int[Tensor, "batch new"], wanted: int = 1
    ) -> Float[Tensor, "batch wanted vocabulary"]:
        """Feed tokens. Log-probabilities (nats, at least float32) of the token after each of the last `wanted` ones."""
        if not self.can_cache:
            tokens = self._fed = tokens if self._fed is None else torch.cat([self._fed, tokens], dim=1)
            self.cache = DecoderCache(len(self.cache.layers))
        states = self._decode(tokens, self.cache, self._memory, self._mask)
        last = states[:, -wanted:]
        logits: Tensor = kernels().step(self._output, self.cache, last.shape[:2].numel())(last)
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def keys_and_values(self) -> tuple[list[Tensor], list[Tensor]]:
        """Keys and values in the cache, each (batch, head, position, channel): of the tokens until now, and of the
        encoder's output.
        """
        layers = self.cache.layers
        own = [room[:, :, : self.cache.length] for layer in layers for room in layer.self_attention.room or ()]
        return own, [tensor for layer in layers for tensor in layer.cross_attention.keys_and_values or ()]

    def cut(self, written: int) -> None:
        """Forget all tokens but `first` and the first `written` − 1 after it."""
        length = self.first.shape[1] - 1 + written
        self.cache.cut(length)
        self._fed = None if self._fed is None else self._fed[:, :length]

    def repeat(self, times: int) -> None:
        """Repeat each text `times` times, before any token is fed."""
        self.first = self.first.repeat_interleave(times, dim=0)
        if self._memory is not None:
            self._memory = self._memory.repeat_interleave(times, dim=0)
        if self._mask.keys is not None:
            self._mask = Mask(keys=self._mask.keys.repeat_interleave(times, dim=0))

    def select(self, rows: Int[Tensor, row]) -> None:
        """Keep the texts at these rows of the batch, each with its own source."""
        self.cache.select(rows)
        self._fed = None if self._fed is None else self._fed[rows]

    def select_sources(self, rows: Int[Tensor, row]) -> None:
        """Keep the sources at these rows of the batch."""
        if self._memory is None:
            return
        self._memory = self._memory[rows]
        if self._mask.keys is not None:
            self._mask = Mask(keys=self._mask.keys[rows])
        self.cache.select_sources(rows)
