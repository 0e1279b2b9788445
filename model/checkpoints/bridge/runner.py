"""A model of `transformers` and how its parts are run: its stacks one by one, and its head on given states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.checkpoints.bridge.hooks import Pass, current
from model.network.config import Kind
from model.network.decoding_state import DecodingState

given_states: ContextVar[Tensor | None] = ContextVar("given_states", default=None)


class Runner:
    """A model of transformers and how its parts are run: stacks one by one, and the head on given states.

    bare: it has no head.
    """

    def __init__(self, model: Any, kind: Kind) -> None:
        from transformers.utils.generic import ModelOutput

        self.model: Any = model
        self.kind = kind
        two = kind == "encoder-decoder"
        self.encoder: Any = model.get_encoder() if two else None
        # That of an EncoderDecoderModel has a head of its own.
        self.decoder: Any = _base(model.get_decoder()) if two else _trunk(model)
        self.bare = self.decoder is model or (two and model.get_output_embeddings() is None)
        self.outside = False  # whether weights are seen only where the model returns them
        self.windows: tuple[int | None, ...] = (None,)
        self.caches = True  # whether it goes on with a cache as it would from the start

        @dataclass
        class States(ModelOutput):
            """Given states as what a trunk returns; whatever else a head asks for is None."""

            last_hidden_state: Any = None  # or a dictionary of it, from which accelerate makes another of these

            def __getattr__(self, name: str) -> None:
                if name.startswith("_") or name == "to":  # by which accelerate knows what it moves, and how
                    raise AttributeError(name)

        # Some heads call the decoder past the model that holds it.
        beside = model.base_model if kind == "encoder-only" else model.get_decoder()
        beside = self.decoder if isinstance(beside, nn.Linear) else beside  # a matrix may be called decoder
        self.made = States
        for trunk in {model.base_model, self.decoder, _base(beside)} - {model}:
            trunk.forward = _or_given(trunk.forward, States)

    @contextmanager
    def running(self, stack: str, batch: int, real: Tensor | None, memory_real: Tensor | None = None) -> Iterator[None]:
        """A block in which one stack runs; inside a probe the probe's own pass stays."""
        now = current.get()
        made = Pass(stack, batch, real, memory_real, stack == "decoder", self.windows)
        token = current.set(now if now is not None and now.probe is not None else made)
        try:
            yield
        finally:
            current.reset(token)

    def encode(self, ids: Tensor, real: Tensor | None) -> Tensor:
        stack = self.encoder if self.encoder is not None else self.decoder
        with self.running("encoder", len(ids), real):
            return self._states(stack(input_ids=ids, attention_mask=_whole(real, ids), **self._asked()))

    def decode(
        self,
        ids: Tensor,
        real: Tensor | None,
        memory: Tensor | None = None,
        memory_real: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """The decoder's states; the cache, where one is given, grows by these tokens."""
        named: dict[str, Any] = {"attention_mask": _whole(real, ids), "use_cache": cache is not None}
        if cache is not None:
            named |= {"past_key_values": cache, "attention_mask": None}
        if memory is not None:
            shape = memory.shape[:2]
            whole = memory_real if memory_real is not None else torch.ones(shape, dtype=torch.long, device=ids.device)
            named |= {"encoder_hidden_states": memory, "encoder_attention_mask": whole.long()}
        with self.running("decoder", len(ids), real, memory_real):
            return self._states(self.decoder(input_ids=ids, **named, **self._asked()))

    def logits(self, states: Tensor) -> Tensor:
        """What the model's head makes of these states (batch, length, d_model): all that follows the trunk."""
        ids = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
        named: dict[str, Any] = {"input_ids": ids}
        if self.encoder is not None:
            encoded = self.made(last_hidden_state=states[:, :1])
            named |= {"decoder_input_ids": ids, "encoder_outputs": encoded}
        token = given_states.set(states)
        try:
            made: Tensor = self.model(**named).logits
        finally:
            given_states.reset(token)
        return made

    def _asked(self) -> dict[str, Any]:
        return {"output_attentions": True} if self.outside else {}

    def _states(self, output: Any) -> Tensor:
        states: Tensor = output.last_hidden_state
        return states


def _base(module: Any) -> Any:
    return getattr(module, "base_model", module)


def _trunk(model: Any) -> Any:
    """All but the head; a class may say that it has another name than it has."""
    if model.base_model is not model or model.get_output_embeddings() is None:
        return model.base_model
    return next((child for child in model.children() if hasattr(child, "base_model")), model)


def _or_given(run: Callable[..., Any], states: type) -> Callable[..., Any]:
    """The forward of a trunk; where states are given, these."""

    def forward(*inputs: Any, **named: Any) -> Any:
        given = given_states.get()
        return run(*inputs, **named) if given is None else states(last_hidden_state=given)

    return forward


def _whole(real: Tensor | None, ids: Tensor) -> Tensor:
    return torch.ones_like(ids) if real is None else real.long()


# What a bridged model has read before and while it writes, in the cache of transformers.


def new_cache(memory: Tensor | None) -> Any:
    """An empty cache; memory: the encoder's output, where there is one.

    Without the model's config: every layer keeps all positions, so that some of them can be forgotten.
    """
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    return DynamicCache() if memory is None else EncoderDecoderCache(DynamicCache(), DynamicCache())


class BridgedDecodingState(DecodingState):
    """A batch of texts being written; the interface of `DecodingState` over a cache that the bridged model fills."""

    can_cache = True  # no change reaches into the code of others

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


class UncachedDecodingState(BridgedDecodingState):
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
