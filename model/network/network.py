"""Network: what all networks have in common, and those with an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.network.config import Kind, TransformerConfig
from model.network.decoding_state import DecodingState
from model.network.experts import missing_units
from model.network.kv_cache import DecoderCache
from model.network.lm_head import Output
from model.network.masks import Mask, real_tokens
from model.runtime.errors import MissingQuantityError


class Network(nn.Module):
    """Transformer of any kind: `states` computes the last states, `output` the logits of them.

    ours: whether its modules are those of this package. code: classes that compute it, where they are not. missing:
    reasons, by quantity that others have and it has not.
    """

    kind: Kind
    output: Output
    ours = True
    missing: Mapping[str, str] = {}
    code: tuple[type[nn.Module], ...] = ()

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.kind != self.kind:
            raise ValueError(f"{type(self).__name__} is {self.kind}, the config {config.kind}: use build(config)")
        self.config = config
        if config.n_experts is not None:
            self.missing = missing_units(config)

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

    def get_submodule(self, target: str) -> nn.Module:
        """Module of ours at a path.

        Raises:
            MissingQuantityError: the model has no such part, or none that was recognised.
        """
        try:
            return super().get_submodule(target)
        except AttributeError:
            for name, reason in self.missing.items():
                if f"{name}.".startswith(f"{target}."):
                    raise MissingQuantityError(target, reason) from None
            raise

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


class TwoStacks(Network):
    """Network with an encoder, which reads a source, and a decoder, which reads its output and a target.

    encoder: from ids and a mask to its output. decoder: from ids, their mask, the encoder's output and its mask, and a
    cache of earlier tokens, to its output.
    """

    encoder: nn.Module
    decoder: nn.Module

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
        memory: Tensor = self.encoder(source, Mask(keys=source_real, window=self.config.window))
        return memory

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_real: Bool[Tensor, "batch source"] | None = None,
        target_real: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Output of the decoder, which reads the encoder's output `memory`."""
        states: Tensor = self.decoder(target, self.causal_mask(target_real), memory, Mask(keys=source_real))
        return states

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
        modules = [self.get_submodule(f"{stack}.embedding.tokens") for stack in ("encoder", "decoder")]
        return [embedding for embedding in modules if isinstance(embedding, nn.Embedding)]
