"""Encoder and decoder, and the networks made of them: encoder-decoder (figure 1), decoder-only, encoder-only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.network.config import Kind, TransformerConfig
from model.network.decoding_state import DecodingState
from model.network.kernels import with_cache
from model.network.kv_cache import DecoderCache
from model.network.layers import DecoderLayer, Embedding, EncoderLayer
from model.network.lm_head import output
from model.network.masks import Mask
from model.network.network import Network, TwoStacks
from model.network.norms import norm
from model.network.positions import share_bias
from model.network.recurrent import Recurrent


def final_norm(config: TransformerConfig) -> nn.Module:
    """Norm after the last layer of a stack; the layers of a post-norm stack already end in norms."""
    return norm(config) if config.ends_in_norm else nn.Identity()


class Encoder(nn.Module):
    """Embedding, then layers in which every token sees every other (section 3.1; figure 1, left)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.source_vocabulary, config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        share_bias(self.layers)
        self.norm = final_norm(config)

    def forward(self, ids: Int[Tensor, "batch source"], mask: Mask) -> Float[Tensor, "batch source d_model"]:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """Embedding, then layers in which a token sees earlier target tokens and the whole source (figure 1, right)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.target_vocabulary, config)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        share_bias(self.layers)
        self.norm = final_norm(config)

    def forward(
        self,
        ids: Int[Tensor, "batch target"],
        mask: Mask,
        memory: Float[Tensor, "batch source d_model"],
        memory_mask: Mask,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        x = self.embedding(ids, cache.length if cache else 0)
        for layer in with_cache(self.layers, cache, ids.numel()):
            x = layer(x, mask, memory, memory_mask)
        return self.norm(x)


class LanguageDecoder(nn.Module):
    """Embedding, then layers in which a token sees earlier tokens; there is no encoder (Radford et al., 2018)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.target_vocabulary, config)
        self.layers = nn.ModuleList(EncoderLayer(config, causal=True) for _ in range(config.n_decoder_layers))
        share_bias(self.layers)
        self.norm = final_norm(config)

    def forward(
        self, ids: Int[Tensor, "batch length"], mask: Mask, cache: DecoderCache | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        x = self.embedding(ids, cache.length if cache else 0)
        for layer in with_cache(self.layers, cache, ids.numel()):
            x = layer(x, mask)
        return self.norm(x)


class Transformer(TwoStacks):
    """Encoder-decoder Transformer (Vaswani et al., 2017, figure 1)."""

    kind: Kind = "encoder-decoder"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = output(config)
        self.initialise()
        self.tie()


class DecoderOnly(Network):
    """Language model: each token is predicted from those before it (Radford et al., 2018)."""

    kind: Kind = "decoder-only"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.decoder = LanguageDecoder(config)
        self.output = output(config)
        self.initialise()
        self.tie()

    def forward(
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits of the token after each position. `real`: False on padding; None: no padding."""
        return self.output(self.states(ids, real))

    def states(  # type: ignore[override]
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        return self.decoder(ids, self.causal_mask(real))

    def read(
        self, ids: Int[Tensor, "batch length"], *, padding: int, start: int, can_cache: bool = True
    ) -> DecodingState:
        """State of decoding after prompts of one length, without padding."""
        self.require_logits()

        def decode(tokens: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask) -> Tensor:
            states: Tensor = self.decoder(tokens, self.causal_mask(), cache)
            return states

        return DecodingState(ids, decode, self.output, self.config.n_decoder_layers, can_cache=can_cache)

    def embeddings(self) -> list[nn.Embedding]:
        return [self.decoder.embedding.tokens]


class EncoderOnly(Network):
    """Masked language model: masked tokens are predicted from both sides (Devlin et al., 2019)."""

    kind: Kind = "encoder-only"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.output = output(config)
        self.initialise()
        self.tie()

    def forward(
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits of the token at each position. `real`: False on padding; None: no padding."""
        return self.output(self.states(ids, real))

    def states(  # type: ignore[override]
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        return self.encoder(ids, Mask(keys=real, window=self.config.window))

    def embeddings(self) -> list[nn.Embedding]:
        return [self.encoder.embedding.tokens]


KINDS: dict[Kind, type[Network]] = {kind.kind: kind for kind in (Transformer, DecoderOnly, EncoderOnly, Recurrent)}


def build(config: TransformerConfig) -> Network:
    """Network that a configuration describes, with initial weights."""
    return KINDS[config.kind](config)


class NothingDrawn(TorchFunctionMode):
    """Mode in which `normal_` draws nothing: tensors on the device "meta" have no values."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def skeleton(config: TransformerConfig) -> Network:
    """Network of a configuration on the device "meta", without values; computed tables are on the CPU, in float32."""
    with torch.device("meta"), NothingDrawn():
        return build(config)


__all__ = ["Decoder", "DecoderOnly", "Encoder", "EncoderOnly", "Network", "Transformer", "build", "skeleton"]
