"""What a hosted model has read before and while it writes, in the cache of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.decoding_state import Context

if TYPE_CHECKING:
    from model.hosted.runner import Runner


def new_cache(memory: Tensor | None) -> Any:
    """An empty cache; memory: the encoder's output, where there is one.

    Without the model's config: every layer keeps all positions, so that some of them can be forgotten.
    """
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    return DynamicCache() if memory is None else EncoderDecoderCache(DynamicCache(), DynamicCache())


class HostedContext(Context):
    """A batch of texts being written; the interface of `Context` over a cache that the hosted model fills."""

    keeps = True  # no change reaches into the code of others

    def __init__(
        self,
        first: Int[Tensor, "batch length"],
        runner: Runner,
        output: nn.Module,
        memory: Tensor | None = None,
        real: Tensor | None = None,
    ) -> None:
        self.first, self._runner, self._output = first, runner, output
        self._memory, self._real = memory, real
        self._kept = new_cache(memory)
        self._length = 0

    def log_probabilities(
        self, tokens: Int[Tensor, "batch new"], wanted: int = 1
    ) -> Float[Tensor, "batch wanted vocabulary"]:
        logits: Tensor = self._output(self._states(tokens)[:, -wanted:])
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def _states(self, tokens: Tensor) -> Tensor:
        """What the decoder gives for the new tokens, perhaps behind that of earlier ones."""
        states = self._runner.decode(tokens, None, self._memory, self._real, self._kept)
        self._length += tokens.shape[1]
        return states

    def cut(self, written: int) -> None:
        length = self.first.shape[1] - 1 + written
        if length < self._length:
            self._kept.crop(length - self._length)
            self._length = length

    def repeat(self, times: int) -> None:
        self.first = self.first.repeat_interleave(times, dim=0)
        if self._memory is not None:
            self._memory = self._memory.repeat_interleave(times, dim=0)
        if self._real is not None:
            self._real = self._real.repeat_interleave(times, dim=0)

    def select(self, rows: Int[Tensor, rows]) -> None:
        own = self._kept if self._memory is None else self._kept.self_attention_cache
        own.batch_select_indices(rows)

    def select_sources(self, rows: Int[Tensor, rows]) -> None:
        if self._memory is None:
            return
        self._memory = self._memory[rows]
        self._real = None if self._real is None else self._real[rows]
        self._kept.cross_attention_cache.batch_select_indices(rows)


class WholeContext(HostedContext):
    """The same of a model whose own cache is none of transformers' usual ones: each step reads all tokens again.

    Its cache stays empty.
    """

    _fed: Tensor | None = None

    def _states(self, tokens: Tensor) -> Tensor:
        self._fed = tokens if self._fed is None else torch.cat([self._fed, tokens], dim=1)
        return self._runner.decode(self._fed, None, self._memory, self._real)

    def cut(self, written: int) -> None:
        assert self._fed is not None
        self._fed = self._fed[:, : self.first.shape[1] - 1 + written]

    def select(self, rows: Int[Tensor, rows]) -> None:
        assert self._fed is not None
        self._fed = self._fed[rows]
