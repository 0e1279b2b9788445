"""A model of `transformers` run in parts: its stacks one by one, and its head on any states."""

from __future__ import annotations

import inspect
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
from model.network.layers import types_of

injected_states: ContextVar[Tensor | None] = ContextVar("injected_states", default=None)


class Runner:
    """A model of transformers run in parts: its stacks one by one, and its head on any states.

    encoder: None of a model with one stack, which is `decoder`. bare: whether there is no head. outside: whether
    attention weights are seen only where the model returns them. windows: widths of windows of its masks, in tokens.
    caches: whether the model goes on with a cache as it would from the start.
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
        # Of an EncoderDecoderModel whose stacks differ in width: what makes the memory as wide as the decoder.
        self.between: nn.Linear | None = getattr(model, "enc_to_dec_proj", None) if two else None
        self.separator: int | None = None
        self.outside, self.caches = False, True
        self.windows: tuple[int | None, ...] = (None,)

        @dataclass
        class States(ModelOutput):
            """States as the output of a trunk; whatever else a head asks for is None."""

            last_hidden_state: Any = None  # or a dictionary of it, from which accelerate makes another of these

            def __getattr__(self, name: str) -> None:
                if name.startswith("_") or name == "to":  # by which accelerate tells how to move values
                    raise AttributeError(name)

        # Some heads call the decoder past the model that holds it.
        beside = model.base_model if kind == "encoder-only" else model.get_decoder()
        beside = self.decoder if isinstance(beside, nn.Linear) else beside  # a matrix may be called decoder
        self.output_class = States
        for trunk in {model.base_model, self.decoder, _base(beside)} - {model}:
            trunk.forward = _or_given(trunk.forward, States)

    def read_types(self, separator: int | None) -> None:
        """Give an encoder-only model the types of its tokens, if it has any: 1 for those behind a separator."""
        known = inspect.signature(type(self.decoder).forward).parameters
        counts = getattr(self.model.config, "type_vocab_size", 0)
        if self.kind == "encoder-only" and "token_type_ids" in known and isinstance(counts, int) and counts > 1:
            self.separator = separator

    @contextmanager
    def running(self, stack: str, batch: int, real: Tensor | None, memory_real: Tensor | None = None) -> Iterator[None]:
        """Block in which one stack runs as a pass, or in a probe as the probe's pass.

        real, memory_real: (batch, length), False on padding of its input and of the encoder's output.
        """
        now = current.get()
        started = Pass(stack, batch, real, memory_real, stack == "decoder", self.windows)
        token = current.set(now if now is not None and now.probe is not None else started)
        try:
            yield
        finally:
            current.reset(token)

    def encode(self, ids: Tensor, real: Tensor | None) -> Tensor:
        """States (batch, length, d_model) of an encoder. ids, real: (batch, length); real: False on padding."""
        stack = self.encoder if self.encoder is not None else self.decoder
        named = {} if self.separator is None else {"token_type_ids": types_of(ids, self.separator)}
        with self.running("encoder", len(ids), real):
            return self._states(stack, input_ids=ids, attention_mask=_whole(real, ids), **named)

    def decode(
        self,
        ids: Tensor,
        real: Tensor | None,
        memory: Tensor | None = None,
        memory_real: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """States (batch, length, d_model) of a decoder; a cache grows by these tokens.

        ids, real: (batch, length). memory: the encoder's output (batch, source, d_model), memory_real: (batch, source).
        real, memory_real: False on padding.
        """
        named: dict[str, Any] = {"attention_mask": _whole(real, ids), "use_cache": cache is not None}
        if cache is not None:
            named |= {"past_key_values": cache, "attention_mask": None}
        if memory is not None:
            shape = memory.shape[:2]
            whole = memory_real if memory_real is not None else torch.ones(shape, dtype=torch.long, device=ids.device)
            read = memory if self.between is None else self.between(memory)
            named |= {"encoder_hidden_states": read, "encoder_attention_mask": whole.long()}
        with self.running("decoder", len(ids), real, memory_real):
            return self._states(self.decoder, input_ids=ids, **named)

    def logits(self, states: Tensor) -> Tensor:
        """Logits (batch, length, vocabulary) of the model's head, all that follows the trunk, on states (batch, length,
        d_model).
        """
        ids = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)
        named: dict[str, Any] = {"input_ids": ids}
        if self.encoder is not None:
            width = states.shape[-1] if self.between is None else self.between.in_features
            encoded = self.output_class(last_hidden_state=states.new_zeros(len(states), 1, width))
            named |= {"decoder_input_ids": ids, "encoder_outputs": encoded}
        token = injected_states.set(states)
        try:
            logits: Tensor = self.model(**named).logits
        finally:
            injected_states.reset(token)
        return logits

    def _states(self, stack: Any, **named: Any) -> Tensor:
        more = {"output_attentions": True} if self.outside else {}
        states: Tensor = stack(**named, **more).last_hidden_state
        return states


def _base(module: Any) -> Any:
    return getattr(module, "base_model", module)


def _trunk(model: Any) -> Any:
    """The model without its head; the `base_model_prefix` of a class may be wrong."""
    if model.base_model is not model or model.get_output_embeddings() is None:
        return model.base_model
    return next((child for child in model.children() if hasattr(child, "base_model")), model)


def _or_given(run: Callable[..., Any], output_class: type) -> Callable[..., Any]:
    """Forward of a trunk that returns the injected states instead, where there are some."""

    def forward(*inputs: Any, **named: Any) -> Any:
        states = injected_states.get()
        return run(*inputs, **named) if states is None else output_class(last_hidden_state=states)

    return forward


def _whole(real: Tensor | None, ids: Tensor) -> Tensor:
    return torch.ones_like(ids) if real is None else real.long()


# Decoding with a bridged model, by the cache of transformers.


def new_cache(memory: Tensor | None) -> Any:
    """Empty cache. memory: the encoder's output (batch, source, d_model); None of a model with one stack.

    It is made without the model's config: every layer keeps all positions, so that the last ones can be cut off.
    """
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    return DynamicCache() if memory is None else EncoderDecoderCache(DynamicCache(), DynamicCache())


class BridgedDecodingState(DecodingState):
    """A batch of texts being written; the interface of `DecodingState` over a cache that the bridged model fills."""

    can_cache = True  # interventions do not reach into the model's own code

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
        self._cache = new_cache(memory)
        self._length = 0

    def log_probabilities(
        self, tokens: Int[Tensor, "batch new"], wanted: int = 1
    ) -> Float[Tensor, "batch wanted vocabulary"]:
        logits: Tensor = self._output(self._states(tokens)[:, -wanted:])
        return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def _states(self, tokens: Tensor) -> Tensor:
        """States of the new tokens, perhaps behind those of earlier ones."""
        states = self._runner.decode(tokens, None, self._memory, self._real, self._cache)
        self._length += tokens.shape[1]
        return states

    def keys_and_values(self) -> tuple[list[Tensor], list[Tensor]]:
        caches: tuple[Any, ...] = (self._cache,)
        if self._memory is not None:
            caches = self._cache.self_attention_cache, self._cache.cross_attention_cache
        own, *cross = ([each for layer in cache.layers for each in (layer.keys, layer.values)] for cache in caches)
        return own, cross[0] if cross else []

    def cut(self, written: int) -> None:
        length = self.first.shape[1] - 1 + written
        if length < self._length:
            self._cache.crop(length - self._length)
            self._length = length

    def repeat(self, times: int) -> None:
        self.first = self.first.repeat_interleave(times, dim=0)
        if self._memory is not None:
            self._memory = self._memory.repeat_interleave(times, dim=0)
        if self._real is not None:
            self._real = self._real.repeat_interleave(times, dim=0)

    def select(self, rows: Int[Tensor, rows]) -> None:
        cache = self._cache if self._memory is None else self._cache.self_attention_cache
        cache.batch_select_indices(rows)

    def select_sources(self, rows: Int[Tensor, rows]) -> None:
        if self._memory is None:
            return
        self._memory = self._memory[rows]
        self._real = None if self._real is None else self._real[rows]
        self._cache.cross_attention_cache.batch_select_indices(rows)


class UncachedDecodingState(BridgedDecodingState):
    """Decoding state of a model whose cache is none of transformers' usual ones: each step reads all tokens again."""

    _read: Tensor | None = None  # all tokens, (batch, length)

    def _states(self, tokens: Tensor) -> Tensor:
        self._read = tokens if self._read is None else torch.cat([self._read, tokens], dim=1)
        return self._runner.decode(self._read, None, self._memory, self._real)

    def keys_and_values(self) -> tuple[list[Tensor], list[Tensor]]:
        """
        Raises:
            ValueError: always; there is no cache.
        """
        raise ValueError(
            "this model goes on without a cache, for it keeps none that transformers' usual ones are: each step reads "
            "all tokens again"
        )

    def cut(self, written: int) -> None:
        assert self._read is not None
        self._read = self._read[:, : self.first.shape[1] - 1 + written]

    def select(self, rows: Int[Tensor, rows]) -> None:
        assert self._read is not None
        self._read = self._read[rows]
