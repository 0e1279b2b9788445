"""The networks: stacks of layers, and encoder-decoder (figure 1), decoder-only and encoder-only made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from model.network.config import Kind, TransformerConfig
from model.network.decoding_state import DecodingState
from model.network.kernels import decoding_steps
from model.network.kv_cache import DecoderCache
from model.network.layers import DecoderLayer, Embedding, EncoderLayer
from model.network.lm_head import Output, output
from model.network.masks import Mask, real_tokens
from model.network.norms import norm
from model.network.positions import share_bias


def final_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm and sandwich stacks end in a norm; post-norm stacks have had theirs in the last layer, and may have one
    more.
    """
    return norm(config) if config.ends_in_norm else nn.Identity()


class Encoder(nn.Module):
    """Embedding and layers of self-attention. On its own, with an output on top, an encoder-only model."""

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
    """Embedding and layers that see earlier target tokens and the whole source."""

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
        for layer in decoding_steps(self.layers, cache, ids.numel()) if cache else self.layers:
            x = layer(x, mask, memory, memory_mask)
        if cache:
            cache.length += ids.shape[1]
        return self.norm(x)


class LanguageDecoder(nn.Module):
    """Embedding and layers that see earlier tokens, without an encoder (Radford et al., 2018)."""

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
        for layer in decoding_steps(self.layers, cache, ids.numel()) if cache else self.layers:
            x = layer(x, mask)
        if cache:
            cache.length += ids.shape[1]
        return self.norm(x)


class Network(nn.Module):
    """A Transformer of any kind. `states` computes all but the logits, `output` these, unless the model has none.

    ours: its modules are our code, which can be put together otherwise, copied and trained. code: else the classes that
    run.
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
        return next(self.parameters()).device

    def states(self, *inputs: Tensor | None) -> Float[Tensor, "batch length d_model"]:
        """The stack's last states, from the same inputs as `forward`'s."""
        raise NotImplementedError

    def read(
        self, ids: Int[Tensor, "batch length"], *, padding: int, start: int, can_cache: bool = True
    ) -> DecodingState:
        """What there is before the first token is written: an encoded source after `start`, or a prompt.

        can_cache: False where what is computed for a token changes with those after it.

        Raises:
            ValueError: the model does not write.
        """
        raise ValueError(f"{self.kind} models do not write from left to right: fill in masked tokens instead")

    def embeddings(self) -> list[nn.Embedding]:
        """The matrices that may be one and the same, the one nearest to the output last."""
        raise NotImplementedError

    def require_logits(self) -> None:
        """
        Raises:
            ValueError: the model has no output head.
        """
        if self.config.output_head == "none":
            raise ValueError(
                "this model has no output head (output_head 'none'): it gives states and no logits, so it neither "
                "writes nor guesses nor learns to; take a model with a head for that"
            )

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

    def begin(self) -> None:
        """Initial weights, then the ties between matrices."""
        self._initialise()
        *others, nearest = self.embeddings()
        if self.config.tied_embeddings in ("output", "all"):
            self.output.logits.weight = nearest.weight
        if self.config.tied_embeddings in ("inputs", "all"):
            for embedding in others:
                embedding.weight = nearest.weight

    def _initialise(self) -> None:
        """Xavier for matrices, zero for biases; embeddings so that times √d_model they have variance 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)


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
        can_cache: bool = True,
    ) -> DecodingState:
        """Ready to write the targets of padded sources. memory: the encoder's output, where it is known already."""
        self.require_logits()
        real = real_tokens(ids, padding)
        memory = self.encode(ids, real) if memory is None else memory
        first = torch.full((len(ids), 1), start, device=ids.device)

        def decode(tokens: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask) -> Tensor:
            states: Tensor = self.decoder(tokens, self._causal(), memory, memory_mask, cache)
            return states

        return DecodingState(first, decode, self.output, self.config.n_decoder_layers, memory, real, can_cache)

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

    def read(
        self, ids: Int[Tensor, "batch length"], *, padding: int, start: int, can_cache: bool = True
    ) -> DecodingState:
        """Ready to go on with prompts of one length; nothing of them is padding."""
        self.require_logits()
        mask = Mask(causal=True, window=self.config.window)

        def decode(tokens: Tensor, cache: DecoderCache, memory: Tensor | None, memory_mask: Mask) -> Tensor:
            states: Tensor = self.decoder(tokens, mask, cache)
            return states

        return DecodingState(ids, decode, self.output, self.config.n_decoder_layers, can_cache=can_cache)

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


class NothingDrawn(TorchFunctionMode):
    """Within it `normal_` does nothing: without values there is nothing to draw, and torch would take seconds to load
    what it does that with.
    """

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
    """The network of this config on the device "meta"; tables that are computed are there, on the CPU in float32."""
    with torch.device("meta"), NothingDrawn():
        return build(config)
