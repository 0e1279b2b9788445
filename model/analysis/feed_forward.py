"""Feed-forward units: which are on, which never were, what each reads and writes; and that positions are apart."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.attention import HeadProjection
from model.network.config import TransformerConfig
from model.network.layers import DecoderLayer, EncoderLayer, FeedForward
from model.network.masks import Mask
from model.network.transformer import Network
from model.runtime.errors import require
from model.text.tokenizer import Tokenizer

SMALL = 0.01  # activations no larger than this count as off, where the activation function is never exactly 0
REMEMBERED = 2000  # texts, of which a repeated one is not counted again


def path_of(stack: str, layer: int) -> str:
    return f"{stack}.layers.{layer}.feed_forward"


def quantities(config: TransformerConfig) -> list[str]:
    """What there is of each unit, first what the output weights multiply; a gated unit has a gate and a linear part."""
    return ["gated", "activation", "linear", "hidden"] if config.gated else ["activation", "hidden"]


def threshold(config: TransformerConfig) -> float:
    """A unit is off where its activation is at most this large: 0 for ReLU, which gives exact zeros."""
    return 0.0 if config.activation == "relu" else SMALL


def off(units: Float[Tensor, "*batch unit"], largest: float) -> Bool[Tensor, "*batch unit"]:
    """True where a unit is off; NaN is not."""
    return units.abs() <= largest


def shares_off(units: Float[Tensor, "position unit"], largest: float) -> Float[Tensor, " position"]:
    """For each position the share of units that are off, NaN where the units are."""
    share = off(units, largest).float().mean(dim=-1)
    return share.masked_fill(units.isnan().any(dim=-1), torch.nan)


def strengths(units: Float[Tensor, "position unit"]) -> Float[Tensor, " unit"]:
    """The largest size of each unit's activation over the positions."""
    return units.abs().nan_to_num(nan=0.0).amax(dim=0)


def order_of(units: Float[Tensor, "position unit"], by: str) -> list[int]:
    """All units: by "number", or by "strength", strongest first."""
    if by == "number":
        return list(range(units.shape[-1]))
    found: list[int] = strengths(units).argsort(descending=True, stable=True).tolist()
    return found


class Seen:
    """Which units have ever been on over the texts of a session, for each model and layer; memory is bounded: a flag a
    unit, and the hashes of the last REMEMBERED texts.
    """

    def __init__(self) -> None:
        self._on: WeakKeyDictionary[nn.Module, dict[str, Tensor]] = WeakKeyDictionary()
        self._texts: WeakKeyDictionary[nn.Module, OrderedDict[int, None]] = WeakKeyDictionary()
        self._counts: WeakKeyDictionary[nn.Module, dict[str, int]] = WeakKeyDictionary()

    def add(self, trace: Trace, config: TransformerConfig) -> None:
        """Count a trace's units in; the same tokens again change nothing."""
        network, limit = trace.network, threshold(config)
        texts = self._texts.setdefault(network, OrderedDict())
        text = hash((tuple(trace.source_tokens), tuple(trace.target_tokens)))
        if text in texts:
            return
        texts[text] = None
        if len(texts) > REMEMBERED:
            texts.popitem(last=False)
        known, counts = self._on.setdefault(network, {}), self._counts.setdefault(network, {})
        unit = quantities(config)[0]
        for stack, layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
            for layer in range(layers):
                path = path_of(stack, layer)
                units = trace[f"{path}.{unit}"]
                on = (~off(units, limit)).any(dim=0)
                known[path] = known[path] | on if path in known else on
                counts[path] = counts.get(path, 0) + len(units)

    def on(self, network: nn.Module, path: str) -> Bool[Tensor, " unit"]:
        """Which units of this layer have been on."""
        return self._on[network][path]

    def positions(self, network: nn.Module, path: str) -> int:
        """Over how many positions that is known."""
        return self._counts[network][path]


@dataclass(frozen=True)
class Direction:
    """Tokens of a vocabulary that a vector points to most, and away from most, each with its value; their ids."""

    towards: list[tuple[str, float]]
    away: list[tuple[str, float]]
    ids: tuple[list[int], list[int]]


def layer_of(network: Network, stack: str, layer: int) -> FeedForward:
    """The feed-forward network of a layer."""
    found = network.get_submodule(path_of(stack, layer))
    assert isinstance(found, FeedForward)
    return found


def reads(network: Network, stack: str, layer: int, unit: int, tokenizer: Tokenizer, keep: int = 8) -> Direction:
    """The tokens whose embeddings have the largest and least cosine with a unit's input weights, a row of W₁."""
    return _direction(read_scores(network, stack, layer, unit), tokenizer, keep)


@torch.inference_mode()
def read_scores(network: Network, stack: str, layer: int, unit: int) -> Float[Tensor, " token"]:
    """That cosine, of every token."""
    weight = layer_of(network, stack, layer).hidden.weight[unit].float()
    embedding = network.get_submodule(f"{stack}.embedding.tokens")
    assert isinstance(embedding, nn.Embedding)
    return torch.cosine_similarity(embedding.weight.float(), weight[None], dim=-1)


def writes(network: Network, stack: str, layer: int, unit: int, tokenizer: Tokenizer, keep: int = 8) -> Direction:
    """What an activation of 1 of a unit adds to the logits, W_U w₂ with w₂ a column of W₂, without what lies between,
    the final norm, the layers above and what transforms the states before W_U (Geva et al., 2022, section 3).

    Raises:
        ValueError: the model has no W_U.
        AbsentError: it has one that does not read the stream.
    """
    return _direction(write_scores(network, stack, layer, unit), tokenizer, keep)


@torch.inference_mode()
def write_scores(network: Network, stack: str, layer: int, unit: int) -> Float[Tensor, " token"]:
    """The same of every token; raises the same."""
    network.require_logits()
    require(network, "output.logits.weight")
    weight = layer_of(network, stack, layer).output.weight[:, unit]
    return (network.output.logits.weight @ weight).float()


def reaches_output(config: TransformerConfig, stack: str) -> bool:
    """Whether a stack's stream goes to the unembedding itself; an encoder's below a decoder does not."""
    return stack == "decoder" or config.kind == "encoder-only"


@dataclass(frozen=True)
class Apart:
    """How far outputs differ, largest absolute: of the permuted input from the permuted output, and of each position
    computed alone from the same in the whole text; the latter for self-attention too, where that can be run alone.
    """

    permuted: float
    alone: float
    attention_alone: float | None
    recorded: float


@torch.inference_mode()
def positions_apart(trace: Trace, stack: str, layer: int, order: Sequence[int]) -> Apart:
    """A layer's own feed-forward network on its recorded input in another order, and position by position (section 3.3:
    "applied to each position separately and identically").
    """
    found = trace.module(f"{stack}.layers.{layer}")
    assert isinstance(found, EncoderLayer | DecoderLayer)
    require(trace.network, f"{path_of(stack, layer)}.hidden")
    x, y = input_of(trace, stack, layer), trace[f"{path_of(stack, layer)}.output"]
    network, attention = found.feed_forward, found.self_attention
    with no_recording():
        own = network(x[None])[0]
        permuted = network(x[list(order)][None])[0]
        alone = torch.cat([network(x[None, place : place + 1])[0] for place in range(len(x))])
        attended = None
        if isinstance(
            getattr(attention, "query", None), HeadProjection
        ):  # that of a bridged model is run by the model alone
            together = attention(x[None], x[None], Mask())[0]
            single = torch.cat([attention(each, each, Mask())[0] for each in x[:, None, None]])
            attended = _largest(single - together)
    return Apart(
        permuted=_largest(permuted - own[list(order)]),
        alone=_largest(alone - own),
        attention_alone=attended,
        recorded=_largest(own - y),
    )


def input_of(trace: Trace, stack: str, layer: int) -> Float[Tensor, "position d_model"]:
    """What a layer's feed-forward network read: the norm's output with pre-norm, else the stream; where blocks are
    parallel, the stream that entered the layer.
    """
    block = f"{stack}.layers.{layer}.feed_forward_block.norm"
    found = trace.module(f"{stack}.layers.{layer}")
    before = "cross_attention_block" if isinstance(found, DecoderLayer) else "self_attention_block"
    name = f"{stack}.layers.{layer}.{before}"
    config = trace.network.config
    assert isinstance(config, TransformerConfig)
    if config.norm != "none" and config.norm_placement != "post":
        return trace[f"{block}.output"]
    if config.parallel:
        name = f"{stack}.layers.{layer - 1}.feed_forward_block"
        if not layer:
            return trace[f"{stack}.embedding.output"]
    return trace[f"{name}.residual" if config.norm == "none" else f"{name}.norm.output"]


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0


def _direction(scores: Float[Tensor, " token"], tokenizer: Tokenizer, keep: int) -> Direction:
    keep = min(keep, len(scores))
    best, worst = scores.topk(keep), (-scores).topk(keep)
    return Direction(
        [(tokenizer.label(int(t)), float(v)) for v, t in zip(*best, strict=True)],
        [(tokenizer.label(int(t)), -float(v)) for v, t in zip(*worst, strict=True)],
        (best.indices.tolist(), worst.indices.tolist()),
    )
