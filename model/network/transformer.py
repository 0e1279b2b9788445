"""Encoder and decoder, and the networks made of them: encoder-decoder (figure 1), decoder-only, encoder-only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.network.config import Kind, TransformerConfig
from model.network.decoding_state import DecodingState
from model.network.kernels import with_cache
from model.network.kv_cache import DecoderCache
from model.network.layers import DecoderLayer, Embedding, EncoderLayer
from model.network.lm_head import Output, output
from model.network.masks import Mask, real_tokens
from model.network.norms import norm
from model.network.positions import share_bias


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


class Network(nn.Module):
    """Transformer of any kind: `states` computes the last states, `output` the logits of them.

    ours: whether its modules are those of this package. code: classes that compute it, where they are not.
    """

    kind: Kind
    output: Output
    ours = True
    code: tuple[type[nn.Module], ...] = ()

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.kind != self.kind:
            raise ValueError(f"{type(self).__name__} is {self.kind}, the config {config.kind}: use build(config)")
        self.config = config

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def states(self, *inputs: Tensor | None) -> Float[Tensor, "batch length d_model"]:
        """Last states, which `output` reads, of the inputs of `forward`."""
        raise NotImplementedError

    def read(
        self, ids: Int[Tensor, "batch length"], *, padding: int, start: int, can_cache: bool = True
    ) -> DecodingState:
        """State of decoding before the first token is written: after prompts, or after encoded sources and `start`.

        ids: prompts or sources. padding: id of the padding token.
        can_cache: False where the states of a token depend on later tokens.

        Raises:
            ValueError: the model does not write, or has no output head.
        """
        raise ValueError(f"{self.kind} models do not write from left to right: fill in masked tokens instead")

    def embeddings(self) -> list[nn.Embedding]:
        """Token embeddings, which may be tied (section 3.4); the last one is the stack's that writes."""
        raise NotImplementedError

    def require_logits(self) -> None:
        """Refuse a model without an output head.

        Raises:
            ValueError: the model has no output head.
        """
        if self.config.output_head == "none":
            raise ValueError(
                "this model has no output head (output_head 'none'): it gives states and no logits, so it neither "
                "writes nor guesses nor learns to; take a model with a head for that"
            )

    def causal_mask(self, real: Bool[Tensor, "batch length"] | None = None) -> Mask:
        """Mask of a decoder's self-attention (section 3.2.3). real: False on padding; None: no padding."""
        return Mask(keys=real, causal=True, window=self.config.window)

    def parameter_count(self) -> int:
        """Number of weights, a tied matrix counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def load_weights(self, weights: Mapping[str, Shaped[Tensor, "*_"]]) -> None:
        """Copy every parameter from `weights`, by name; a tied matrix may have any of its names.

        Raises:
            ValueError: a parameter is missing or has another shape, or a name is unknown.
        """
        names = dict(self.named_parameters(remove_duplicate=False))
        if unknown := sorted(set(weights) - set(names)):
            raise ValueError(f"the weights hold {unknown[0]} ({len(unknown)} such), which this config has not")
        values = {names[name]: tensor for name, tensor in weights.items()}
        for name, parameter in self.named_parameters():
            if parameter not in values:
                raise ValueError(f"the weights lack {name}")
            shape = tuple(values[parameter].shape)
            if shape != tuple(parameter.shape):
                raise ValueError(f"{name} has shape {shape}, the config asks for {tuple(parameter.shape)}")
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(values[parameter])

    def initialise(self) -> None:
        """Draw the initial weights: Xavier for matrices, zero for biases, variance 1 / d_model for embeddings."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def tie(self) -> None:
        """Let embeddings and output share one matrix, as far as the configuration says so (section 3.4)."""
        *others, nearest = self.embeddings()
        if self.config.tied_embeddings in ("output", "all"):
            self.output.logits.weight = nearest.weight
        if self.config.tied_embeddings in ("inputs", "all"):
            for embedding in others:
                embedding.weight = nearest.weight


class Transformer(Network):
    """Encoder-decoder Transformer (Vaswani et al., 2017, figure 1)."""

    kind: Kind = "encoder-decoder"

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = output(config)
        self.initialise()
        self.tie()

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of the token after each target position. `*_real`: False on padding; None: no padding."""
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
        """Output of the encoder."""
        return self.encoder(source, Mask(keys=source_real, window=self.config.window))

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Output of the decoder, which reads the encoder's output `memory`."""
        return self.decoder(target, self.causal_mask(target_real), memory, Mask(keys=source_real))

    def read(
        self,
        ids: Int[Tensor, "batch source"],
        *,
        padding: int,
        start: int,
        memory: Float[Tensor, "batch source d_model"] | None = None,
        can_cache: bool = True,
    ) -> DecodingState:
        """State of decoding after padded sources. memory: the encoder's output; None: it is computed."""
        self.require_logits()
        real = real_tokens(ids, padding)
        memory = self.encode(ids, real) if memory is None else memory
        first = torch.full((len(ids), 1), start, device=ids.device)

        def decode(tokens: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask) -> Tensor:
            states: Tensor = self.decoder(tokens, self.causal_mask(), memory, memory_mask, cache)
            return states

        return DecodingState(first, decode, self.output, self.config.n_decoder_layers, memory, real, can_cache)

    def embeddings(self) -> list[nn.Embedding]:
        return [self.encoder.embedding.tokens, self.decoder.embedding.tokens]


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


KINDS: dict[Kind, type[Network]] = {kind.kind: kind for kind in (Transformer, DecoderOnly, EncoderOnly)}


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
