"""What networks are built from: stacks of layers, and the projection to the vocabulary (figure 1)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from model.cache import DecoderCache
from model.config import TransformerConfig
from model.layers import ACTIVATIONS, DecoderLayer, Embedding, EncoderLayer
from model.masks import Mask
from model.norms import norm
from model.position_bias import share_bias
from model.stepping import Function, Use, binds, bound, steps


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
        for layer in steps(self.layers, cache, ids.numel()) if cache else self.layers:
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
        for layer in steps(self.layers, cache, ids.numel()) if cache else self.layers:
            x = layer(x, mask)
        if cache:
            cache.length += ids.shape[1]
        return self.norm(x)


class Output(nn.Module):
    """Logits over the vocabulary (section 3.4)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.logits = nn.Linear(config.d_model, config.vocabulary, bias=config.output_bias)

    def before(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """What the matrix reads."""
        return x

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        return self.logits(self.before(x))


class ScaledStates(nn.Module):
    """x / √d_model."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return x * x.shape[-1] ** -0.5


class ScaledOutput(Output):
    """The same of states times 1/√d_model: the tied matrix is the embedding's, and as large (Raffel et al., 2020)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.scaled = ScaledStates()

    def before(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.scaled(x)


class TransformedOutput(Output):
    """Norm(activation(x W + b)) first, as for BERT's hidden words (Devlin et al., 2019, their code)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.transform = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]()
        self.norm = norm(config)

    def before(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm(self.activation(self.transform(x)))


class NoOutput(Output):
    """The last states as they are: the model has no words for them, and `logits` is not there."""

    def __init__(self, config: TransformerConfig) -> None:
        nn.Module.__init__(self)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return x


@binds(Output, ScaledOutput, TransformedOutput)
def _output(module: Output, use: Use) -> Function:
    before, logits = module.before, bound(module.logits, use)
    return lambda x: logits(before(x))


OUTPUTS = {"linear": Output, "transform": TransformedOutput, "none": NoOutput}


def output(config: TransformerConfig) -> Output:
    """What the config asks for between the last states and the logits."""
    made: Output = ScaledOutput(config) if config.scale_output else OUTPUTS[config.output_head](config)
    return made
