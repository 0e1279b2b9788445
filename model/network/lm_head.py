"""Projection of the last states to logits over the vocabulary (section 3.4)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.network.layers import ACTIVATIONS
from model.network.norms import norm


class Output(nn.Module):
    """Logits over the vocabulary: x W + b (section 3.4)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.logits = nn.Linear(config.d_model, config.vocabulary, bias=config.output_bias)

    def before(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Input of the matrix."""
        return x

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocabulary"]:
        return self.logits(self.before(x))


class ScaledStates(nn.Module):
    """x / √d_model."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return x * x.shape[-1] ** -0.5


class ScaledOutput(Output):
    """Logits of the states times 1/√d_model, as in T5, whose output is tied to the embedding (Raffel et al., 2020)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.scaled = ScaledStates()

    def before(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.scaled(x)


class TransformedOutput(Output):
    """Logits of norm(activation(x W + b)), as for the masked words of BERT (Devlin et al., 2019, their code)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.transform = nn.Linear(config.d_model, config.d_model, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]()
        self.norm = norm(config)

    def before(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.norm(self.activation(self.transform(x)))


class NoOutput(Output):
    """The last states themselves, of a model without an output head; it has no module `logits`."""

    def __init__(self, config: TransformerConfig) -> None:
        nn.Module.__init__(self)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return x


OUTPUTS: dict[str, type[Output]] = {"linear": Output, "transform": TransformedOutput, "none": NoOutput}


def output(config: TransformerConfig) -> Output:
    """Output head that the configuration asks for."""
    return ScaledOutput(config) if config.scale_output else OUTPUTS[config.output_head](config)
