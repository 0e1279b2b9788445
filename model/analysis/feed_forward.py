"""Feed-forward units: on, off or never on, the tokens each reads and writes; and that positions are apart."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.analysis.residual import blocks
from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.attention import HeadProjection
from model.network.config import TransformerConfig
from model.network.layers import FeedForward
from model.network.masks import Mask
from model.network.transformer import Network
from model.runtime.errors import require
from model.text.tokenizer import Tokenizer

SMALL = 0.01  # activations no larger than this count as off, where the activation function is never exactly 0
REMEMBERED = 2000  # texts, of which a repeated one is not counted again


def path_of(stack: str, layer: int) -> str:
    """Module path of a layer's feed-forward network."""
    return f"{stack}.layers.{layer}.feed_forward"


def quantities(config: TransformerConfig) -> list[str]:
    """Names of the quantities of each unit, first the one that the output weights multiply; a gated unit has a gate and
    a linear part.
    """
    return ["gated", "activation", "linear", "hidden"] if config.gated else ["activation", "hidden"]


def threshold(config: TransformerConfig) -> float:
    """Largest size of an activation with which a unit is off: 0 for ReLU, which gives exact zeros."""
    return 0.0 if config.activation == "relu" else SMALL


def off(units: Float[Tensor, "*batch unit"], largest: float) -> Bool[Tensor, "*batch unit"]:
    """Whether each unit is off: its activation is at most `largest` in size, and not NaN."""
    return units.abs() <= largest


def shares_off(units: Float[Tensor, "position unit"], largest: float) -> Float[Tensor, " position"]:
    """Share of units that are off at each position, NaN where the units are."""
    share = off(units, largest).float().mean(dim=-1)
    return share.masked_fill(units.isnan().any(dim=-1), torch.nan)


def strengths(units: Float[Tensor, "position unit"]) -> Float[Tensor, " unit"]:
    """Largest size of each unit's activation over the positions."""
    return units.abs().nan_to_num(nan=0.0).amax(dim=0)


def order_of(units: Float[Tensor, "position unit"], by: str) -> list[int]:
    """Numbers of all units: in order by "number", or strongest first by "strength"."""
    if by == "number":
        return list(range(units.shape[-1]))
    order: list[int] = strengths(units).argsort(descending=True, stable=True).tolist()
    return order


@dataclass
class _Record:
    """on: units that have ever been on, by path. positions: number of positions counted. texts: their hashes."""

    on: dict[str, Bool[Tensor, " unit"]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    texts: OrderedDict[int, None] = field(default_factory=OrderedDict)


class Seen:
    """Units that have ever been on over the texts of a session, for each model and layer; memory is bounded: a flag a
    unit, and the hashes of the last REMEMBERED texts.
    """

    def __init__(self) -> None:
        self._records: WeakKeyDictionary[nn.Module, _Record] = WeakKeyDictionary()

    def add(self, trace: Trace, config: TransformerConfig) -> None:
        """Count the units of a trace; the same tokens again change nothing."""
        record, limit = self._records.setdefault(trace.network, _Record()), threshold(config)
        text = hash((tuple(trace.source_tokens), tuple(trace.target_tokens)))
        if text in record.texts:
            return
        record.texts[text] = None
        if len(record.texts) > REMEMBERED:
            record.texts.popitem(last=False)
        unit = quantities(config)[0]
        for stack, layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
            for layer in range(layers):
                path = path_of(stack, layer)
                units = trace[f"{path}.{unit}"]
                on = (~off(units, limit)).any(dim=0)
                record.on[path] = record.on[path] | on if path in record.on else on
                record.positions[path] = record.positions.get(path, 0) + len(units)

    def on(self, network: nn.Module, path: str) -> Bool[Tensor, " unit"]:
        """Whether each unit of the feed-forward network at `path` has ever been on."""
        return self._records[network].on[path]

    def positions(self, network: nn.Module, path: str) -> int:
        """Number of positions that `on` covers."""
        return self._records[network].positions[path]


@dataclass(frozen=True)
class Direction:
    """Labels of the tokens that a vector points to most, and away from most, each with its value, and their ids."""

    towards: list[tuple[str, float]]
    away: list[tuple[str, float]]
    ids: tuple[list[int], list[int]]


def layer_of(network: Network, stack: str, layer: int) -> FeedForward:
    """Feed-forward network of a layer."""
    feed_forward = network.get_submodule(path_of(stack, layer))
    assert isinstance(feed_forward, FeedForward)
    return feed_forward


def reads(network: Network, stack: str, layer: int, unit: int, tokenizer: Tokenizer, keep: int = 8) -> Direction:
    """Tokens whose embeddings have the largest and least cosine with a unit's row of W₁, `keep` each."""
    return _direction(read_scores(network, stack, layer, unit), tokenizer, keep)


@torch.inference_mode()
def read_scores(network: Network, stack: str, layer: int, unit: int) -> Float[Tensor, " token"]:
    """Cosine of every token's embedding with a unit's input weights, its row of W₁."""
    weight = layer_of(network, stack, layer).hidden.weight[unit].float()
    embedding = network.get_submodule(f"{stack}.embedding.tokens")
    assert isinstance(embedding, nn.Embedding)
    return torch.cosine_similarity(embedding.weight.float(), weight[None], dim=-1)


def writes(network: Network, stack: str, layer: int, unit: int, tokenizer: Tokenizer, keep: int = 8) -> Direction:
    """Tokens to whose logits an activation of 1 of a unit adds most and least, `keep` each; see `write_scores`.

    Raises:
        ValueError: the model has no W_U.
        MissingQuantityError: its W_U does not read the stream.
    """
    return _direction(write_scores(network, stack, layer, unit), tokenizer, keep)


@torch.inference_mode()
def write_scores(network: Network, stack: str, layer: int, unit: int) -> Float[Tensor, " token"]:
    """W_U w₂ of every token, w₂ a unit's column of W₂: what its activation of 1 adds to the logits but for the final
    norm, the layers above and what transforms the states before W_U (Geva et al., 2022, section 3).

    Raises:
        ValueError: the model has no W_U.
        MissingQuantityError: its W_U does not read the stream.
    """
    network.require_logits()
    require(network, "output.logits.weight")
    weight = layer_of(network, stack, layer).output.weight[:, unit]
    return (network.output.logits.weight @ weight).float()


def reaches_output(config: TransformerConfig, stack: str) -> bool:
    """Whether the unembedding reads a stack's stream; that of an encoder below a decoder it does not."""
    return stack == "decoder" or config.kind == "encoder-only"


@dataclass(frozen=True)
class Apart:
    """Largest absolute differences of a feed-forward network's outputs.

    permuted: of the permuted input from the permuted output. alone: of each position computed alone from the whole
    text. attention_alone: the same of self-attention; None where it cannot be run alone. recorded: from the trace.
    """

    permuted: float
    alone: float
    attention_alone: float | None
    recorded: float


@torch.inference_mode()
def positions_apart(trace: Trace, stack: str, layer: int, order: Sequence[int]) -> Apart:
    """Differences of a layer's feed-forward network on its recorded input in another order, and position by position
    (section 3.3: "applied to each position separately and identically").

    Raises:
        MissingQuantityError: the model does not show its feed-forward network.
    """
    path, places = path_of(stack, layer), list(order)
    require(trace.network, f"{path}.hidden")
    network, attention = trace.module(path), trace.module(f"{stack}.layers.{layer}.self_attention")
    x, recorded = input_of(trace, stack, layer), trace[f"{path}.output"]
    with no_recording():
        y = network(x[None])[0]
        permuted = network(x[places][None])[0]
        alone = torch.cat([network(token)[0] for token in x[:, None, None]])
        attention_alone = None
        if isinstance(getattr(attention, "query", None), HeadProjection):  # a bridged model's runs in the model alone
            together = attention(x[None], x[None], Mask())[0]
            single = torch.cat([attention(token, token, Mask())[0] for token in x[:, None, None]])
            attention_alone = _largest(single - together)
    return Apart(_largest(permuted - y[places]), _largest(alone - y), attention_alone, _largest(y - recorded))


def input_of(trace: Trace, stack: str, layer: int) -> Float[Tensor, "position d_model"]:
    """Input of a layer's feed-forward network: the norm's output with pre-norm, else the stream; where blocks are
    parallel, the stream that entered the layer.
    """
    config = trace.network.config
    if config.norm != "none" and config.norm_placement != "post":
        return trace[f"{stack}.layers.{layer}.feed_forward_block.norm.output"]
    reads = {block.layer: block.read for block in blocks(config, stack) if block.sublayer == "feed_forward"}
    return trace[reads[layer]]


def _largest(difference: Tensor) -> float:
    return float(difference.abs().max()) if difference.numel() else 0.0


def _direction(scores: Float[Tensor, " token"], tokenizer: Tokenizer, keep: int) -> Direction:
    tops = [scores.topk(min(keep, len(scores)), largest=largest) for largest in (True, False)]
    towards, away = ([(tokenizer.label(int(t)), float(v)) for v, t in zip(*top, strict=True)] for top in tops)
    return Direction(towards, away, (tops[0].indices.tolist(), tops[1].indices.tolist()))
