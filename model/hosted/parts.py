"""Our modules at our paths for what a hosted model computes: they pass it on, or compute it by the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.network.layers import DecoderLayer, EncoderLayer, FeedForward, GatedFeedForward
from model.network.norms import Norm


class HostedConfig(TransformerConfig):
    """A hosted model as far as our options describe it.

    Its values come from the model that runs, so nothing is checked that only a network of ours would need.
    """

    def __post_init__(self) -> None:
        pass


class HostedNorm(Norm):
    """A norm of a hosted model: what it gave, or on other inputs its formula.

    weight: γ, where the model keeps γ − 1 that plus 1; None: ones, which are no parameter. centred: LayerNorm, else
    RMSNorm.
    """

    def __init__(self, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool, width: int) -> None:
        nn.Module.__init__(self)
        self.eps, self.centred = eps, centred
        if weight is None:
            self.register_buffer("weight", torch.ones(width))
        else:
            self.weight = frozen(weight)
        self.bias = None if bias is None else frozen(bias)

    @property
    def rule(self) -> tuple[object, ...]:
        return *super().rule, self.centred

    def forward(
        self, x: Float[Tensor, "*batch d_model"], given: Float[Tensor, "*batch d_model"] | None = None
    ) -> Float[Tensor, "*batch d_model"]:
        if given is not None:
            return given
        if self.centred:
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def _normal(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        if self.centred:
            return (x - mean) / (std**2 + self.eps).sqrt()
        return x / (std**2 + mean**2 + self.eps).sqrt()


class HostedLinear(nn.Linear):
    """A matrix of a hosted model, whose memory it shares, where accelerate keeps it; in a pass, what it gave."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = frozen(weight)
        self.register_parameter("bias", None if bias is None else frozen(bias))

    def forward(
        self, x: Float[Tensor, "*batch given"], given: Float[Tensor, "*batch made"] | None = None
    ) -> Float[Tensor, "*batch made"]:
        if given is not None:
            return given
        return F.linear(x, self.weight.to(x.device), None if self.bias is None else self.bias.to(x.device))


class HostedActivation(nn.Module):
    """What stands between W₁ and W₂; in a pass, what it gave."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.__dict__["_function"] = function  # perhaps a module of the hosted model, which is none of ours

    @property
    def function(self) -> Callable[[Tensor], Tensor]:
        made: Callable[[Tensor], Tensor] = self.__dict__["_function"]
        return made

    def forward(self, x: Tensor, given: Tensor | None = None) -> Tensor:
        return self.function(x) if given is None else given


class HostedFeedForward(FeedForward):
    """activation(x W₁ + b₁) W₂ + b₂ by a hosted model's weights."""

    def __init__(self, hidden: HostedLinear, activation: HostedActivation, output: HostedLinear) -> None:
        nn.Module.__init__(self)
        self.dropout = 0.0
        self.hidden, self.activation, self.output = hidden, activation, output


class HostedGatedFeedForward(HostedFeedForward, GatedFeedForward):
    """(activation(x W) ⊗ x V) W₂ by a hosted model's weights."""

    def __init__(
        self, hidden: HostedLinear, activation: HostedActivation, output: HostedLinear, linear: HostedLinear
    ) -> None:
        HostedFeedForward.__init__(self, hidden, activation, output)
        self.linear, self.gated = linear, nn.Identity()

    forward = GatedFeedForward.forward


class HostedTokens(nn.Embedding):
    """The rows of the tokens, times a factor; in a pass, those that the model looked up."""

    def __init__(self, weight: Tensor, factor: float) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = weight.shape
        self.padding_idx = self.max_norm = None
        self.norm_type, self.scale_grad_by_freq, self.sparse = 2.0, False, False
        self.weight, self.factor = frozen(weight), factor

    def forward(
        self, ids: Int[Tensor, "batch length"], given: Float[Tensor, "batch length d_model"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        return super().forward(ids.to(self.weight.device)).to(ids.device) * self.factor if given is None else given


class HostedBlock(nn.Module):
    """What stands around a sublayer: the sum with the stream, and norms, as far as they were found."""


class HostedLayer(EncoderLayer):
    """A layer of self-attention and feed-forward."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        nn.Module.__init__(self)
        for name, part in parts.items():
            self.add_module(name, part)

    forward = nn.Module.forward


class HostedDecoderLayer(HostedLayer, DecoderLayer):
    """The same with cross-attention between."""


class HostedStack(nn.Module):
    """An encoder or a decoder: embedding, layers, and the last norm, none where the last layer ends in one."""

    def __init__(self, embedding: nn.Module, layers: list[nn.Module], norm: nn.Module | None) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        if norm is not None:
            self.norm = norm


def frozen(tensor: Tensor) -> nn.Parameter:
    """The same memory as a parameter that is not trained."""
    return nn.Parameter(tensor.detach(), requires_grad=False)
