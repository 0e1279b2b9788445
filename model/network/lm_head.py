"""The projection of the last states to the vocabulary (section 3.4)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.network.layers import ACTIVATIONS
from model.network.norms import norm


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


OUTPUTS = {"linear": Output, "transform": TransformedOutput, "none": NoOutput}


def output(config: TransformerConfig) -> Output:
    """What the config asks for between the last states and the logits."""
    made: Output = ScaledOutput(config) if config.scale_output else OUTPUTS[config.output_head](config)
    return made
