"""The networks: encoder-decoder (figure 1), decoder-only and encoder-only, from the same layers."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.cache import DecoderCache
from model.config import Kind, TransformerConfig
from model.context import Context
from model.masks import Mask, real_tokens
from model.network import Network
from model.observing import looks_ahead
from model.stacks import Decoder, Encoder, LanguageDecoder, output


class Transformer(Network):
    """Encoder-decoder Transformer (Vaswani et al., 2017)."""

    kind: Kind = "encoder-decoder"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = output(config)
        self.begin()

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits for the token after each target position. `*_real`: False on padding; None: no padding."""
        return self.output(self.states(source, target, source_real, target_real))

    def states(  # type: ignore[override]
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        return self.decode(target, self.encode(source, source_real), source_real, target_real)

    def encode(
        self, source: Int[Tensor, "batch source"], source_real: Bool[Tensor, "batch source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        return self.encoder(source, Mask(keys=source_real, window=self.config.window))

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        mask = Mask(keys=target_real, causal=True, window=self.config.window)
        return self.decoder(target, mask, memory, Mask(keys=source_real))

    def read(
        self,
        ids: Int[Tensor, "batch source"],
        *,
        padding: int,
        start: int,
        memory: Float[Tensor, "batch source d_model"] | None = None,
    ) -> Context:
        """Ready to write the targets of padded sources. memory: the encoder's output, where it is known already."""
        self.require_logits()
        real = real_tokens(ids, padding)
        memory = self.encode(ids, real) if memory is None else memory
        first = torch.full((len(ids), 1), start, device=ids.device)

        def decode(tokens: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask) -> Tensor:
            states: Tensor = self.decoder(tokens, self._causal(), memory, memory_mask, cache)
            return states

        return Context(
            first, decode, self.output, self.config.n_decoder_layers, memory, real, keeps=not looks_ahead(self)
        )

    def embeddings(self) -> list[nn.Embedding]:
        return [self.encoder.embedding.tokens, self.decoder.embedding.tokens]

    def _causal(self) -> Mask:
        return Mask(causal=True, window=self.config.window)


class DecoderOnly(Network):
    """A language model: each token is predicted from those before it (Radford et al., 2018)."""

    kind: Kind = "decoder-only"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.decoder = LanguageDecoder(config)
        self.output = output(config)
        self.begin()

    def forward(
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token after each position. `real`: False on padding; None: no padding."""
        return self.output(self.states(ids, real))

    def states(  # type: ignore[override]
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        return self.decoder(ids, Mask(keys=real, causal=True, window=self.config.window))

    def read(self, ids: Int[Tensor, "batch length"], *, padding: int, start: int) -> Context:
        """Ready to go on with prompts of one length; nothing of them is padding."""
        self.require_logits()
        mask = Mask(causal=True, window=self.config.window)

        def decode(tokens: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask) -> Tensor:
            states: Tensor = self.decoder(tokens, mask, cache)
            return states

        return Context(ids, decode, self.output, self.config.n_decoder_layers, keeps=not looks_ahead(self))

    def embeddings(self) -> list[nn.Embedding]:
        return [self.decoder.embedding.tokens]


class EncoderOnly(Network):
    """Every token sees every other; hidden ones are predicted from both sides (Devlin et al., 2019)."""

    kind: Kind = "encoder-only"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.output = output(config)
        self.begin()

    def forward(
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length vocabulary"]:
        """Logits for the token at each position. `real`: False on padding; None: no padding."""
        return self.output(self.states(ids, real))

    def states(  # type: ignore[override]
        self, ids: Int[Tensor, "batch length"], real: Bool[Tensor, "batch length"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        return self.encoder(ids, Mask(keys=real, window=self.config.window))

    def embeddings(self) -> list[nn.Embedding]:
        return [self.encoder.embedding.tokens]


KINDS: dict[Kind, type[Network]] = {kind.kind: kind for kind in (Transformer, DecoderOnly, EncoderOnly)}


def build(config: TransformerConfig) -> Network:
    """The network that a config describes, with new weights."""
    return KINDS[config.kind](config)
