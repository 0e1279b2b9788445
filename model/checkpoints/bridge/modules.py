"""The attention of a bridged model by our own small modules, at our paths: maps on demand and what-if changes work as
in a network of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.capture.hooks import no_recording
from model.capture.interventions import ChangedMask
from model.checkpoints.bridge.missing import Reason
from model.network.attention import Masked, MultiHeadAttention, Scores, Weights, for_each_head
from model.network.config import TransformerConfig
from model.network.kernels import are_plain, kernels
from model.network.layers import DecoderLayer, EncoderLayer, FeedForward, GatedFeedForward
from model.network.masks import Mask
from model.network.norms import Norm
from model.network.positions import Unbiased


class Passthrough(nn.Module):
    """A quantity that was computed elsewhere, as it comes; n_heads: how many heads it has."""

    def __init__(self, n_heads: int = 0) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, x: Tensor) -> Tensor:
        return x


class GivenFactor(nn.Module):
    """Scores times a factor, 1/√d_k or what the model says instead."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return scores * self.factor


class Capped(nn.Module):
    """c · tanh(scores / c): no score beyond ±c (Gemma Team, 2024, section 2)."""

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, scaled: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return torch.tanh(scaled / self.cap) * self.cap


class AddedBias(nn.Module):
    """Scores plus what the model adds for the positions (Raffel et al., 2020, section 2.1)."""

    def forward(
        self, scaled: Float[Tensor, "*batch head query key"], bias: Float[Tensor, "*#batch #head query key"]
    ) -> Float[Tensor, "*batch head query key"]:
        return scaled + bias


@dataclass(frozen=True)
class HeadPart:
    """What of a bridged module's matrix is each head's: rows (head, channel), of W_O columns."""

    module: nn.Module
    places: Int[Tensor, "head channel"]
    columns: bool

    @property
    def weight(self) -> Float[Tensor, "head channel d_model"]:
        """W_Q, W_K or W_V of every head, or W_O transposed."""
        found = held(self.module)
        assert found is not None
        weight = found.detach()
        rows = isinstance(self.module, nn.Linear)  # GPT-2's Conv1D has the other order
        return (weight if rows != self.columns else weight.T)[self.places.to(weight.device)]


class MirrorAttention(MultiHeadAttention):
    """The part of a bridged attention between its projections, step by step.

    output: its W^O, where that was found. own: whether these modules compute it; else the model's own function does,
    and gives its weights; outside: not even that is called, and the weights are all that is seen, at a `place` of what
    the module returns. recombines: whether its heads are the weights times the values, and nothing is done to them.
    parts: the four matrices cut into heads; empty where they could not be told apart, which `unclear` then explains.
    """

    unclear: Reason | None = None

    def __init__(
        self,
        heads: int,
        key_heads: int,
        factor: float,
        *,
        cap: float | None = None,
        biased: bool = False,
        own: bool = True,
        outside: bool = False,
        cross: bool = False,
        place: int = 0,
        recombines: bool = True,
        output: nn.Module | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.own, self.outside, self.cross, self.place = own, outside, cross, place
        self.dropout, self.cap, self.recombines = 0.0, cap, recombines
        self.parts: dict[str, HeadPart] = {}
        self.weights = Weights() if own else Passthrough(heads)  # type: ignore[assignment]
        if outside:
            return
        self.query, self.key, self.value = Passthrough(heads), Passthrough(key_heads), Passthrough(key_heads)  # type: ignore[assignment]
        if own:
            self.scores, self.scaled = Scores(), GivenFactor(factor)  # type: ignore[assignment]
            if cap is not None:
                self.capped = Capped(cap)
            if biased:
                self.bias = Passthrough(heads)
            self.biased = AddedBias() if biased else Unbiased()  # type: ignore[assignment]
            self.masked = Masked()
        self.heads = nn.Identity()
        if output is not None:
            self.output = output  # type: ignore[assignment]

    @property
    def counts(self) -> tuple[int, int | None]:
        """How many heads there are, and how many of keys and values, as far as that can be seen."""
        if self.outside:
            return int(self.weights.n_heads), None  # type: ignore[arg-type]
        return int(self.query.n_heads), int(self.key.n_heads)

    @property
    def sums_to_one(self) -> bool:
        """Whether a query gives its keys all of its weight: a step that is not known here may keep some of it."""
        return self.own or self.outside

    def forward(  # type: ignore[override]
        self, call: Any, key: Any, mask: Mask, cache: None = None
    ) -> Tensor:
        """The heads (batch, query, head, channel) of a call; of one whose weights are all that is seen, these."""
        if self.outside:
            self.refuse(mask)
            return self.weights(call)
        query, key, value = self.query(call.query), self.key(key), self.value(call.value)
        return self.heads(self._attend(call, query, key, value, mask)).transpose(1, 2)

    def _attend(self, call: Any, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if not self.own:
            self.refuse(mask)
            heads, weights = call.by_itself(query, key, value)
            self.weights(weights)
            return heads.transpose(1, 2)
        bias = () if call.bias is None else (self.bias(call.bias),)
        if are_plain():
            return self._explicit(query, key, value, mask, bias)
        if self.cap is None and not bias:
            return kernels().attend(self, query, key, value, mask)
        # A kernel that adds a bias rounds otherwise, and mT5's logits are large enough to show it; nothing is kept.
        with no_recording():
            return self._explicit(query, key, value, mask, bias)

    def refuse(self, mask: Mask) -> None:
        """Only the model's own steps know its masks.

        Raises:
            ValueError: the mask was changed.
        """
        if isinstance(mask, ChangedMask):
            raise ValueError("the masks of this model cannot be changed: it computes its attention by code of its own")

    def _explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: tuple[Tensor, ...]) -> Tensor:
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        scores = self.scaled(self.scores(query, key))
        scores = self.biased(scores if self.cap is None else self.capped(scores), *bias)
        return self.weights(self.masked(scores, visible), visible) @ for_each_head(value, query.shape[1])


# Weights that accelerate has put aside, on the CPU or on disk, and brings only while their module computes.


def held(module: nn.Module, name: str = "weight") -> Tensor | None:
    """A tensor of a bridged module: the one that it has, or the one that is put aside for it; None: it has none.

    What lies in a .safetensors file of the same precision stays there, and its pages are read when they are used.
    """
    own: Any = getattr(module, name, None)
    if not isinstance(own, Tensor):
        return None
    aside = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    if not own.is_meta or aside is None:
        return own
    found: Tensor = aside[name]
    return found.to(own.dtype)


def place(model: nn.Module) -> torch.device:
    """Where a bridged model expects its tokens."""
    here = (each.device for each in model.parameters() if not each.is_meta)
    hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
    there = (getattr(hook, "execution_device", None) for hook in hooks)
    return torch.device(next(here, None) or next((each for each in there if each is not None), "cpu"))


# Our modules at our paths for what a bridged model computes: they pass it on, or compute it by the same weights.


class BridgedConfig(TransformerConfig):
    """A bridged model as far as our options describe it.

    Its values come from the model that runs, so nothing is checked that only a network of ours would need.
    """

    def __post_init__(self) -> None:
        pass


class MirrorNorm(Norm):
    """A norm of a bridged model: what it gave, or on other inputs its formula.

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


class MirrorLinear(nn.Linear):
    """A matrix of a bridged model, whose memory it shares, where accelerate keeps it; in a pass, what it gave."""

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


class MirrorActivation(nn.Module):
    """What stands between W₁ and W₂; in a pass, what it gave."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.__dict__["_function"] = function  # perhaps a module of the bridged model, which is none of ours

    @property
    def function(self) -> Callable[[Tensor], Tensor]:
        made: Callable[[Tensor], Tensor] = self.__dict__["_function"]
        return made

    def forward(self, x: Tensor, given: Tensor | None = None) -> Tensor:
        return self.function(x) if given is None else given


class MirrorFeedForward(FeedForward):
    """activation(x W₁ + b₁) W₂ + b₂ by a bridged model's weights."""

    def __init__(self, hidden: MirrorLinear, activation: MirrorActivation, output: MirrorLinear) -> None:
        nn.Module.__init__(self)
        self.dropout = 0.0
        self.hidden, self.activation, self.output = hidden, activation, output


class MirrorGatedFeedForward(MirrorFeedForward, GatedFeedForward):
    """(activation(x W) ⊗ x V) W₂ by a bridged model's weights."""

    def __init__(
        self, hidden: MirrorLinear, activation: MirrorActivation, output: MirrorLinear, linear: MirrorLinear
    ) -> None:
        MirrorFeedForward.__init__(self, hidden, activation, output)
        self.linear, self.gated = linear, nn.Identity()

    forward = GatedFeedForward.forward


class MirrorTokens(nn.Embedding):
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


class MirrorBlock(nn.Module):
    """What stands around a sublayer: the sum with the stream, and norms, as far as they were found."""


class MirrorLayer(EncoderLayer):
    """A layer of self-attention and feed-forward."""

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        nn.Module.__init__(self)
        for name, part in parts.items():
            self.add_module(name, part)

    forward = nn.Module.forward


class MirrorDecoderLayer(MirrorLayer, DecoderLayer):
    """The same with cross-attention between."""


class MirrorStack(nn.Module):
    """An encoder or a decoder: embedding, layers, and the last norm, none where the last layer ends in one."""

    def __init__(self, embedding: nn.Module, layers: list[nn.Module], norm: nn.Module | None) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        if norm is not None:
            self.norm = norm


def frozen(tensor: Tensor) -> nn.Parameter:
    """The same memory as a parameter that is not trained."""
    return nn.Parameter(tensor.detach(), requires_grad=False)
