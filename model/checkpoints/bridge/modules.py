"""Modules of ours for a bridged model, at our paths: they pass on what it computes, or compute it by the same weights.

Attention is computed by our own small modules, so that maps and interventions work as in a network of ours.
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
from model.checkpoints.bridge.probe import close
from model.network.attention import Masked, MultiHeadAttention, Scores, Weights, for_each_head
from model.network.kernels import are_plain, kernels
from model.network.layers import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, GatedFeedForward
from model.network.masks import Mask
from model.network.norms import Norm
from model.network.positions import Unbiased


class Passthrough(nn.Module):
    """Identity on a quantity that was computed elsewhere. n_heads: number of its heads."""

    def __init__(self, n_heads: int = 0) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, x: Tensor) -> Tensor:
        return x


class ScaleFactor(nn.Module):
    """Scores times a factor, 1/√d_k or the model's own."""

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
    """Scores plus the model's bias for positions (Raffel et al., 2020, section 2.1)."""

    def forward(
        self, scaled: Float[Tensor, "*batch head query key"], bias: Float[Tensor, "*#batch #head query key"]
    ) -> Float[Tensor, "*batch head query key"]:
        return scaled + bias


@dataclass(frozen=True)
class HeadPart:
    """Part of every head in a bridged module's matrix. places: its rows, of W_O its columns (columns)."""

    module: nn.Module
    places: Int[Tensor, "head channel"]
    columns: bool

    @property
    def weight(self) -> Float[Tensor, "head channel d_model"]:
        """W_Q, W_K or W_V of every head, or W_O transposed."""
        weight = module_tensor(self.module)
        assert weight is not None
        rows = isinstance(self.module, nn.Linear)  # GPT-2's Conv1D has the other order
        return (weight if rows != self.columns else weight.T).detach()[self.places.to(weight.device)]


class MirrorAttention(MultiHeadAttention):
    """A bridged attention between its projections, step by step.

    heads, key_heads: numbers of heads of queries, and of keys and values. factor, cap, biased: of the scores. computes:
    whether these modules compute the attention; else the model's eager function does. outside: whether the model
    computes it without calling us, so that only its weights are seen, at index `place` of what the module returns.
    cross: whether it is cross-attention. recombines: whether its heads are the weights times the values. output: its
    W^O, if known. sinks: whether each head keeps some weight for no key. parts: the four matrices cut into heads; empty
    where heads could not be told apart, for the reason `unclear`.
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
        computes: bool = True,
        outside: bool = False,
        cross: bool = False,
        place: int = 0,
        recombines: bool = True,
        sinks: bool = False,
        output: nn.Module | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.computes, self.outside, self.cross, self.place = computes, outside, cross, place
        self.window: int | None = None  # of one that shows only its weights
        self.dropout, self.cap, self.recombines = 0.0, cap, recombines
        self.parts: dict[str, HeadPart] = {}
        self.weights = Weights() if computes else Passthrough(heads)  # type: ignore[assignment]
        if outside:
            return
        self.query, self.key, self.value = Passthrough(heads), Passthrough(key_heads), Passthrough(key_heads)  # type: ignore[assignment]
        if computes:
            self.scores, self.scaled = Scores(), ScaleFactor(factor)  # type: ignore[assignment]
            if cap is not None:
                self.capped = Capped(cap)
            if biased:
                self.bias = Passthrough(heads)
            self.biased = AddedBias() if biased else Unbiased()  # type: ignore[assignment]
            self.masked = Masked()
        if sinks:
            self.sink = Passthrough(heads)
        self.heads = nn.Identity()
        if output is not None:
            self.output = output  # type: ignore[assignment]

    @property
    def counts(self) -> tuple[int, int | None]:
        """Numbers of heads, and of heads of keys and values; None: unknown."""
        if self.outside:
            return int(self.weights.n_heads), None  # type: ignore[arg-type]
        return int(self.query.n_heads), int(self.key.n_heads)

    @property
    def sums_to_one(self) -> bool:
        """True if the weights of a query and its sink sum to 1: an unknown step of the model may keep some of it."""
        return self.computes or self.outside or hasattr(self, "sink")

    def forward(  # type: ignore[override]
        self, call: Any, key: Any, mask: Mask, cache: None = None
    ) -> Tensor:
        """Heads (batch, query, head, channel) of a call; of an attention whose weights alone are seen, its weights."""
        if self.outside:
            self.refuse(mask)
            weights: Tensor = self.weights(call)
            return weights
        query, key, value = self.query(call.query), self.key(key), self.value(call.value)
        heads: Tensor = self.heads(self._attend(call, query, key, value, mask))
        return heads.transpose(1, 2)

    def _attend(self, call: Any, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        if not self.computes:
            self.refuse(mask)
            heads: Tensor
            heads, weights = call.by_itself(query, key, value)
            self.weights(weights)
            if hasattr(self, "sink"):
                self.sink(call.sink_weights(query, key))
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
        """Refuse a changed mask where the model's own code applies the mask.

        Raises:
            ValueError: the mask was changed.
        """
        if isinstance(mask, ChangedMask):
            raise ValueError("the masks of this model cannot be changed: it computes its attention by code of its own")

    def _explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: tuple[Tensor, ...]) -> Tensor:
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        scores = self.scaled(self.scores(query, key))
        scores = self.biased(scores if self.cap is None else self.capped(scores), *bias)
        weights: Tensor = self.weights(self.masked(scores, visible), visible)
        return weights @ for_each_head(value, query.shape[1])


# Weights that accelerate has offloaded to the CPU or to disk, and loads only while their module computes.


def module_tensor(module: nn.Module, name: str = "weight") -> Tensor | None:
    """Tensor of a bridged module, in its own shape, from where it is offloaded if it is; None: it has none.

    A tensor offloaded to a .safetensors file of the same precision stays there, and its pages are read when used.
    """
    tensor: Any = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        return None
    offloaded = getattr(getattr(module, "_hf_hook", None), "weights_map", None)
    if not tensor.is_meta or offloaded is None:
        return tensor
    stored: Tensor = offloaded[name]
    return stored.to(tensor.dtype)


def device_of(model: nn.Module) -> torch.device:
    """Device on which a bridged model expects its tokens."""
    loaded = (parameter.device for parameter in model.parameters() if not parameter.is_meta)
    hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
    offloaded = (getattr(hook, "execution_device", None) for hook in hooks)
    return torch.device(next(loaded, None) or next((device for device in offloaded if device is not None), "cpu"))


# Our modules for the rest of a bridged model. In a pass they are called with its outputs, else with inputs alone.


class MirrorNorm(Norm):
    """A norm of a bridged model: in a pass its output (observed), else its formula.

    weight: γ (d_model), also of a model that keeps γ − 1; None: ones, which are no parameter. centred: whether it is
    LayerNorm, else RMSNorm.
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
        self, x: Float[Tensor, "*batch d_model"], observed: Float[Tensor, "*batch d_model"] | None = None
    ) -> Float[Tensor, "*batch d_model"]:
        if observed is not None:
            return observed
        if self.centred:
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)

    def divisor(self, mean: Tensor, std: Tensor) -> Tensor:
        return (std**2 + (0 if self.centred else mean**2) + self.eps).sqrt()


class MirrorLinear(nn.Linear):
    """A matrix (output, input) of a bridged model, whose memory it shares: in a pass its output (observed)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = frozen(weight)
        self.register_parameter("bias", None if bias is None else frozen(bias))

    def forward(
        self, x: Float[Tensor, "*batch input"], observed: Float[Tensor, "*batch output"] | None = None
    ) -> Float[Tensor, "*batch output"]:
        if observed is not None:
            return observed
        return F.linear(x, self.weight.to(x.device), None if self.bias is None else self.bias.to(x.device))


class MirrorActivation(nn.Module):
    """The activation between W₁ and W₂: in a pass its output (observed)."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.__dict__["_function"] = function  # perhaps a module of the bridged model, which is none of ours

    @property
    def function(self) -> Callable[[Tensor], Tensor]:
        function: Callable[[Tensor], Tensor] = self.__dict__["_function"]
        return function

    def forward(self, x: Tensor, observed: Tensor | None = None) -> Tensor:
        return self.function(x) if observed is None else observed


GATES = {"silu": "swiglu", "gelu": "geglu", "gelu-tanh": "geglu-tanh"}


def activation_name(function: Callable[[Tensor], Tensor]) -> str:
    """Option that names this function, by its values; "": none does."""
    x = torch.linspace(-4, 4, 33)
    values = function(x).to(x.device)  # accelerate may run it elsewhere
    for name, make in ACTIVATIONS.items():
        if name not in GATES.values() and close(values, make()(x)):
            return name
    return ""


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
    """Rows of tokens times a factor: in a pass those that the model looked up (observed)."""

    def __init__(self, weight: Tensor, factor: float) -> None:
        nn.Module.__init__(self)
        self.num_embeddings, self.embedding_dim = weight.shape
        self.padding_idx = self.max_norm = None
        self.norm_type, self.scale_grad_by_freq, self.sparse = 2.0, False, False
        self.weight, self.factor = frozen(weight), factor

    def forward(
        self, ids: Int[Tensor, "batch length"], observed: Float[Tensor, "batch length d_model"] | None = None
    ) -> Float[Tensor, "batch length d_model"]:
        if observed is not None:
            return observed
        return super().forward(ids.to(self.weight.device)).to(ids.device) * self.factor


class MirrorBlock(nn.Module):
    """Block around a sublayer: the sum with the stream, and norms, as far as they are matched."""


class MirrorLayer(EncoderLayer):
    """A layer of self-attention and feed-forward.

    beside: products of blocks that were not recognised, None where they are unknown.
    """

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        nn.Module.__init__(self)
        self.beside: list[Any] = []
        for name, part in parts.items():
            self.add_module(name, part)

    forward = nn.Module.forward


class MirrorDecoderLayer(MirrorLayer, DecoderLayer):
    """A layer of self-attention, cross-attention and feed-forward."""


class MirrorStack(nn.Module):
    """An encoder or a decoder: embedding, layers, and the last norm, if it is known."""

    def __init__(self, embedding: nn.Module, layers: list[nn.Module], norm: nn.Module | None) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        if norm is not None:
            self.norm = norm


def frozen(tensor: Tensor) -> nn.Parameter:
    """Parameter without gradient that shares the memory of a tensor of any shape."""
    return nn.Parameter(tensor.detach(), requires_grad=False)
