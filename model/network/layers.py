"""Parts of a stack: residual connections, feed-forward networks, embeddings, encoder and decoder layers (section 3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.dropout import dropout
from model.network.experts import MixtureOfExperts
from model.network.kv_cache import LayerCache
from model.network.masks import Mask
from model.network.norms import norm
from model.network.positions import POSITIONS

States = TypeVar("States")  # of tokens: a tensor, or an array in a step of decoding

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu-tanh": partial(nn.GELU, approximate="tanh"),  # as in GPT-2
    "silu": nn.SiLU,  # as in Marian's published models
    "swiglu": nn.SiLU,
    "geglu": nn.GELU,
    "geglu-tanh": partial(nn.GELU, approximate="tanh"),  # as in Gemma and T5 v1.1
}


class Residual(nn.Module):
    """x + dropout(y): the residual stream x after a sublayer has written y to it (sections 3.1 and 5.4)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dropout = config.dropout

    def forward(
        self, x: Float[Tensor, "batch length d_model"], y: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        return x + dropout(y, self.dropout, self.training)


class NoResidual(Residual):
    """dropout(y): the output of the sublayer alone, without the residual connection."""

    def forward(
        self, x: Float[Tensor, "batch length d_model"], y: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        return dropout(y, self.dropout, self.training)


def residual(config: TransformerConfig) -> Residual:
    """Residual connection, unless the configuration has none."""
    return Residual(config) if config.residual else NoResidual(config)


class PostNorm(nn.Module):
    """LayerNorm(x + Sublayer(x)), as in the paper (section 3.1).

    read: input of the sublayer (batch, length, d_model); None: x.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.residual = residual(config)
        self.norm = norm(config)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], read: Tensor | None = None) -> Tensor:
        return self.norm(self.residual(x, sublayer(x if read is None else read)))


class PreNorm(nn.Module):
    """x + Sublayer(LayerNorm(x)) (Xiong et al., 2020); a norm follows the last layer.

    read: input of the norm (batch, length, d_model); None: x.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config)
        self.residual = residual(config)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], read: Tensor | None = None) -> Tensor:
        return self.residual(x, sublayer(self.norm(x if read is None else read)))


class SandwichNorm(nn.Module):
    """x + LayerNorm(Sublayer(LayerNorm(x))) (Ding et al., 2021, section 2.4); a norm follows the last layer.

    read: input of the first norm (batch, length, d_model); None: x.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config)
        self.output_norm = norm(config)
        self.residual = residual(config)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], read: Tensor | None = None) -> Tensor:
        return self.residual(x, self.output_norm(sublayer(self.norm(x if read is None else read))))


BLOCKS = {"post": PostNorm, "pre": PreNorm, "sandwich": SandwichNorm}


def in_turn(entered: States, written: States) -> States:
    """Input of a later block of a layer: the stream after the block before it (section 3.1)."""
    return written


def in_parallel(entered: States, written: States) -> States:
    """Input of a later block of a layer: the layer's own input (GPT-J, 2021; Black et al., 2022, section 2.1)."""
    return entered


class FeedForward(nn.Module):
    """activation(x W₁ + b₁) W₂ + b₂, the same at every position (section 3.3, equation 2)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.dropout = config.activation_dropout
        self.hidden = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]()
        self.output = nn.Linear(config.d_ff, config.d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        units = self.activation(self.hidden(x))
        return self.output(dropout(units, self.dropout, self.training))

    def units(self, x: Float[Tensor, "*batch d_model"]) -> dict[str, Tensor]:
        """Quantities of the units (…, unit) by name, first the one that W₂ multiplies."""
        hidden = self.hidden(x)
        return {"activation": self.activation(hidden), "hidden": hidden}


class GatedFeedForward(FeedForward):
    """(activation(x W) ⊗ x V) W₂: half of the units gate the other half (SwiGLU, GEGLU; Shazeer, 2020, equation 6)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.linear = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.gated = nn.Identity()

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        units = self.gated(self.activation(self.hidden(x)) * self.linear(x))
        return self.output(dropout(units, self.dropout, self.training))

    def units(self, x: Float[Tensor, "*batch d_model"]) -> dict[str, Tensor]:
        hidden, linear = self.hidden(x), self.linear(x)
        activation = self.activation(hidden)
        return {"gated": activation * linear, "activation": activation, "linear": linear, "hidden": hidden}


def feed_forward(config: TransformerConfig) -> FeedForward | MixtureOfExperts:
    """Feed-forward network, gated where the activation is, or as many as there are experts."""
    network = GatedFeedForward if config.gated else FeedForward
    return network(config) if config.n_experts is None else MixtureOfExperts(config, network)


class TokenEmbedding(nn.Embedding):
    """Trained vector of each token, times √d_model unless the scale is off (section 3.4)."""

    def __init__(self, vocabulary: int, config: TransformerConfig) -> None:
        super().__init__(vocabulary, config.d_model)
        self.factor = config.d_model**0.5 if config.scale_embedding else 1.0

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        rows = super().forward(ids)
        return rows if self.factor == 1.0 else rows * self.factor


class TokenTypes(nn.Module):
    """Trained vector that each token of a second text gets, which begins behind a separator (Devlin et al., 2019,
    section 3, input/output representations: segment embeddings, as the difference from the first text's, which the
    positions hold).
    """

    def __init__(self, separator: int, config: TransformerConfig) -> None:
        super().__init__()
        self.separator = separator
        self.weight = nn.Parameter(torch.empty(config.d_model))
        nn.init.normal_(self.weight, std=config.d_model**-0.5)

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        return types_of(ids, self.separator)[..., None] * self.weight


def types_of(ids: Int[Tensor, "batch length"], separator: int) -> Int[Tensor, "batch length"]:
    """Type of each token: 1 behind the first separator, else 0."""
    ends = (ids == separator).long()
    return (ends.cumsum(-1) > ends).long()


class EmbeddingSum(nn.Module):
    """dropout(tokens + positions) (section 5.4).

    With embedding_norm the sum is normalised first (Devlin et al., 2019, their code).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = config.dropout

    def forward(
        self, tokens: Float[Tensor, "batch length d_model"], positions: Float[Tensor, "#batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        return dropout(self.norm(tokens + positions), self.dropout, self.training)


class Embedding(nn.Module):
    """Input of a stack: token embeddings plus position encodings (sections 3.4 and 3.5).

    `first` is the position of the first token.
    """

    def __init__(self, vocabulary: int, config: TransformerConfig) -> None:
        super().__init__()
        self.tokens = TokenEmbedding(vocabulary, config)
        self.positions = POSITIONS[config.position](config)
        self.types = None if config.separator is None else TokenTypes(config.separator, config)
        self.output = EmbeddingSum(config)

    def forward(self, ids: Int[Tensor, "batch length"], first: int = 0) -> Float[Tensor, "batch length d_model"]:
        tokens = self.tokens(ids)
        positions = self.positions(tokens, first)
        return self.output(tokens, positions if self.types is None else positions + self.types(ids))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (figure 1, left).

    causal: whether queries see no later keys, as in a decoder-only model.
    """

    def __init__(self, config: TransformerConfig, causal: bool = False) -> None:
        super().__init__()
        block = BLOCKS[config.norm_placement]
        self.reads = in_parallel if config.parallel else in_turn
        self.self_attention = MultiHeadAttention(config, causal=causal)
        self.self_attention_block = block(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_block = block(config)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], mask: Mask, cache: LayerCache | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        self_cache = cache.self_attention if cache else None
        written = self.self_attention_block(x, lambda y: self.self_attention(y, y, mask, self_cache))
        return self.feed_forward_block(written, self.feed_forward, self.reads(x, written))


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention over the encoder's output, then feed-forward (figure 1, right)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        block = BLOCKS[config.norm_placement]
        self.reads = in_parallel if config.parallel else in_turn
        self.self_attention = MultiHeadAttention(config, causal=True)
        self.self_attention_block = block(config)
        self.cross_attention = MultiHeadAttention(config, cross=True)
        self.cross_attention_block = block(config)
        self.feed_forward = feed_forward(config)
        self.feed_forward_block = block(config)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        mask: Mask,
        memory: Float[Tensor, "batch source d_model"],
        memory_mask: Mask,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        self_cache, cross_cache = (cache.self_attention, cache.cross_attention) if cache else (None, None)
        written = self.self_attention_block(x, lambda y: self.self_attention(y, y, mask, self_cache))
        written = self.cross_attention_block(
            written, lambda y: self.cross_attention(y, memory, memory_mask, cross_cache), self.reads(x, written)
        )
        return self.feed_forward_block(written, self.feed_forward, self.reads(x, written))
