"""The network: an encoder stack, a decoder stack, and the projection to the vocabulary (figure 1)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.cache import DecoderCache
from model.config import TransformerConfig
from model.layers import DecoderLayer, Embedding, EncoderLayer
from model.masks import Mask
from model.norms import norm


def final_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm and sandwich stacks end in a norm; post-norm stacks have had theirs in the last layer."""
    return nn.Identity() if config.norm_placement == "post" else norm(config)


class Encoder(nn.Module):
    """Embedding and layers of self-attention. On its own, with a head on top, an encoder-only model."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.source_vocabulary, config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.norm = final_norm(config)

    def forward(self, ids: Int[Tensor, "batch source"], mask: Mask) -> Float[Tensor, "batch source d_model"]:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """Embedding and layers that see earlier target tokens and the whole source."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config.target_vocabulary, config)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
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
        for index, layer in enumerate(self.layers):
            x = layer(x, mask, memory, memory_mask, cache.layers[index] if cache else None)
        if cache:
            cache.length += ids.shape[1]
        return self.norm(x)


class Output(nn.Module):
    """Logits over the target vocabulary (section 3.4)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.logits = nn.Linear(config.d_model, config.target_vocabulary, bias=False)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        return self.logits(x)


class Transformer(nn.Module):
    """Encoder-decoder Transformer (Vaswani et al., 2017). One-stack kinds get classes beside it."""

    kind = "encoder-decoder"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = Output(config)
        self._initialise()
        self._tie()

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits for the token after each target position. `*_real`: False on padding; None: no padding."""
        memory = self.encode(source, source_real)
        return self.output(self.decode(target, memory, source_real, target_real))

    def encode(
        self, source: Int[Tensor, "batch source"], source_real: Bool[Tensor, "batch source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        return self.encoder(source, Mask(keys=source_real))

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        return self.decoder(target, Mask(keys=target_real, causal=True), memory, Mask(keys=source_real))

    def decode_next(
        self,
        tokens: Int[Tensor, "batch new"],
        memory: Float[Tensor, "batch source d_model"],
        cache: DecoderCache,
        source_real: Bool[Tensor, "batch source"] | None = None,
    ) -> Float[Tensor, "batch new d_model"]:
        """`decode` for the next target tokens; the earlier ones are in `cache`, which takes these too."""
        return self.decoder(tokens, Mask(causal=True), memory, Mask(keys=source_real), cache)

    def parameter_count(self) -> int:
        """Weights, a tied matrix counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take every parameter from `weights`, a tied matrix from whichever of its names is there.

        Raises:
            ValueError: a parameter is missing or of another shape, or there is one too many.
        """
        own = dict(self.named_parameters())
        every = dict(self.named_parameters(remove_duplicate=False))
        if unknown := sorted(set(weights) - set(every)):
            raise ValueError(f"the weights hold {unknown[0]} ({len(unknown)} such), which this config has not")
        given = {id(every[name]): tensor for name, tensor in weights.items()}
        for name, parameter in own.items():
            if id(parameter) not in given:
                raise ValueError(f"the weights lack {name}")
            shape = tuple(given[id(parameter)].shape)
            if shape != tuple(parameter.shape):
                raise ValueError(f"{name} has shape {shape}, the config asks for {tuple(parameter.shape)}")
        with torch.no_grad():
            for parameter in own.values():
                parameter.copy_(given[id(parameter)])

    def _tie(self) -> None:
        if self.config.tied_embeddings != "none":
            self.output.logits.weight = self.decoder.embedding.tokens.weight
        if self.config.tied_embeddings == "all":
            self.encoder.embedding.tokens.weight = self.decoder.embedding.tokens.weight

    def _initialise(self) -> None:
        """Xavier for matrices, zero for biases; embeddings so that times √d_model they have variance 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
