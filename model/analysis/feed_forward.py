"""Feed-forward units: on, off or never on, the tokens each reads and writes; and that positions are apart."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.analysis.residual import blocks
from model.capture.hooks import no_recording
from model.capture.trace import EXPERT, Trace
from model.network.attention import HeadProjection
from model.network.config import TransformerConfig
from model.network.layers import FeedForward
from model.network.masks import Mask
from model.network.transformer import Network
from model.runtime.errors import MissingQuantityError, require
from model.text.tokenizer import Tokenizer

SMALL = 0.01  # activations no larger than this count as off, where the activation function is never exactly 0
REMEMBERED = 2000  # texts, of which a repeated one is not counted again


def path_of(stack: str, layer: int) -> str:
    """Module path of a layer's feed-forward network."""
    return f"{stack}.layers.{layer}.feed_forward"


def quantities(network: nn.Module, path: str) -> list[str]:
    """Names of the quantities of each unit of the feed-forward network at `path`, first the one that the output weights
    multiply; a gated unit has a gate and a linear part. None where the units are not known.
    """
    of_all, mark, number = path.rpartition(EXPERT)
    try:
        module = network.get_submodule(of_all if mark else path)
    except (AttributeError, MissingQuantityError):
        return []
    if mark:
        experts: Any = getattr(module, "experts", ())
        return list(experts.quantities) if number.isdecimal() and int(number) < len(experts) else []
    return [name for name in ("gated", "activation", "linear", "hidden") if hasattr(module, name)]


def threshold(activation: str) -> float:
    """Largest size of an activation with which a unit is off: 0 for ReLU, which gives exact zeros."""
    return 0.0 if activation == "relu" else SMALL


def off(units: Float[Tensor, "*batch unit"], largest: float) -> Bool[Tensor, "*batch unit"]:
    """True where a unit is off: its activation is at most `largest` in size, and not NaN."""
    return units.abs() <= largest


def shares_off(units: Float[Tensor, "position unit"], largest: float) -> Float[Tensor, " position"]:
    """Share of units that are off at each position, NaN where the units are."""
    share = off(units, largest).float().mean(dim=-1)
    return share.masked_fill(units.isnan().any(dim=-1), torch.nan)


def strengths(units: Float[Tensor, "position unit"]) -> Float[Tensor, " unit"]:
    """Largest size of each unit's activation over the positions that have units; NaN of a unit that is NaN at one."""
    there = present(units).abs()
    return there.amax(dim=0) if len(there) else units.new_zeros(units.shape[-1])


def order_of(units: Float[Tensor, "position unit"], by: str) -> list[int]:
    """Numbers of all units: in order by "number", strongest first by "strength", before them those that are NaN, or
    weakest first by "weakness", where dead ones begin.
    """
    if by == "number":
        return list(range(units.shape[-1]))
    sizes = strengths(units).nan_to_num(nan=torch.inf)
    order: list[int] = sizes.argsort(descending=by == "strength", stable=True).tolist()
    return order


@dataclass
class _Record:
    """on: units that have ever been on. positions: number of positions counted. texts: their hashes."""

    on: Bool[Tensor, " unit"]
    positions: int = 0
    texts: OrderedDict[int, None] = field(default_factory=OrderedDict)


class Seen:
    """Units that have ever been on over the texts of a session, for each model and feed-forward network; memory is
    bounded: a flag a unit, and the hashes of the last REMEMBERED texts.
    """

    def __init__(self) -> None:
        self._records: WeakKeyDictionary[nn.Module, dict[str, _Record]] = WeakKeyDictionary()

    def add(self, trace: Trace, config: TransformerConfig, expert: str = "") -> None:
        """Count the units of all feed-forward networks of a trace, and of the expert at the path `expert`; the same
        tokens again change nothing.
        """
        for stack, layers in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
            for layer in range(layers):
                limit = threshold(config.units_of(stack, layer).activation)
                own = path_of(stack, layer)
                for path in (own, f"{own}.shared", *([expert] if expert.startswith(f"{own}.") else [])):
                    if names := quantities(trace.network, path):
                        self._add(trace, path, names[0], limit)

    def _add(self, trace: Trace, path: str, quantity: str, limit: float) -> None:
        records = self._records.setdefault(trace.network, {})
        text = hash((tuple(trace.source_tokens), tuple(trace.target_tokens)))
        if path in records and text in records[path].texts:
            return
        units = present(trace[f"{path}.{quantity}"])
        none = torch.zeros(units.shape[-1], dtype=torch.bool, device=units.device)
        record = records.setdefault(path, _Record(none))
        record.texts[text] = None
        if len(record.texts) > REMEMBERED:
            record.texts.popitem(last=False)
        record.on = record.on | (~off(units, limit)).any(dim=0)
        record.positions += len(units)

    def on(self, network: nn.Module, path: str) -> Bool[Tensor, " unit"]:
        """True where a unit of the feed-forward network at `path` has ever been on."""
        return self._records[network][path].on

    def positions(self, network: nn.Module, path: str) -> int:
        """Number of positions that `on` covers."""
        return self._records[network][path].positions


def present(units: Float[Tensor, "position unit"]) -> Float[Tensor, "some unit"]:
    """Units at the positions that have them: an expert has none at the others, which are NaN throughout."""
    return units[~units.isnan().all(dim=-1)]


@dataclass(frozen=True)
class Direction:
    """Labels of the tokens that a vector points to most, and away from most, each with its value, and their ids."""

    towards: list[tuple[str, float]]
    away: list[tuple[str, float]]
    ids: tuple[list[int], list[int]]


def network_at(network: Network, path: str) -> FeedForward:
    """Feed-forward network at `path`: of a layer, or of an expert."""
    feed_forward = network.get_submodule(path)
    assert isinstance(feed_forward, FeedForward)
    return feed_forward


def reads(network: Network, path: str, unit: int, tokenizer: Tokenizer, keep: int = 8) -> Direction:
    """Tokens whose embeddings have the largest and least cosine with a unit's row of W₁, `keep` each."""
    return _direction(read_scores(network, path, unit), tokenizer, keep)


@torch.inference_mode()
def read_scores(network: Network, path: str, unit: int) -> Float[Tensor, " token"]:
    """Cosine of every token's embedding with a unit's input weights, its row of W₁. The gain γ of the norm before
    it is left out.
    """
    weight = network_at(network, path).hidden.weight[unit].float()
    stack = path.partition(".")[0]
    embedding = network.get_submodule(f"{stack}.embedding.tokens")
    assert isinstance(embedding, nn.Embedding)
    return torch.cosine_similarity(embedding.weight.float(), weight[None], dim=-1)


def writes(network: Network, path: str, unit: int, tokenizer: Tokenizer, keep: int = 8) -> Direction:
    """Tokens to whose logits an activation of 1 of a unit adds most and least, `keep` each; see `write_scores`.

    Raises:
        ValueError: the model has no W_U.
        MissingQuantityError: its W_U does not read the stream.
    """
    return _direction(write_scores(network, path, unit), tokenizer, keep)


@torch.inference_mode()
def write_scores(network: Network, path: str, unit: int) -> Float[Tensor, " token"]:
    """W_U w₂ of every token, w₂ a unit's column of W₂: what its activation of 1 adds to the logits but for the final
    norm, the layers above and what transforms the states before W_U (Geva et al., 2022, section 3).

    Raises:
        ValueError: the model has no W_U.
        MissingQuantityError: its W_U does not read the stream.
    """
    network.require_logits()
    require(network, "output.logits.weight")
    weight = network_at(network, path).output.weight[:, unit]
    return (network.output.logits.weight @ weight).float()


def reaches_output(config: TransformerConfig, stack: str) -> bool:
    """True if the unembedding reads a stack's stream; that of an encoder below a decoder it does not."""
    return stack == "decoder" or config.kind == "encoder-only"


@dataclass(frozen=True)
class IsolatedPositions:
    """Largest absolute differences of a feed-forward network's outputs.

    permuted: of the permuted input from the permuted output. alone: of each position computed alone from the whole
    text. attention_alone: the same of self-attention; None where it cannot be run alone. recorded: from the trace; None
    of an expert, whose own output is not recorded.
    """

    permuted: float
    alone: float
    attention_alone: float | None
    recorded: float | None


@torch.inference_mode()
def positions_apart(trace: Trace, path: str, order: Sequence[int]) -> IsolatedPositions:
    """Differences of the feed-forward network at `path` on its recorded input in another order, and position by
    position (section 3.3: "applied to each position separately and identically"); an expert takes all positions here.

    Raises:
        MissingQuantityError: the model does not show its feed-forward network.
    """
    (stack, _layers, number, *_of), places = path.split("."), list(order)
    if not quantities(trace.network, path):
        require(trace.network, f"{path}.hidden")
    network, attention = trace.network.get_submodule(path), trace.module(f"{stack}.layers.{number}.self_attention")
    x, recorded = input_of(trace, stack, int(number)), f"{path}.output"
    with no_recording():
        y = network(x[None])[0]
        permuted = network(x[places][None])[0]
        alone = torch.cat([network(token)[0] for token in x[:, None, None]])
        attention_alone = None
        if isinstance(getattr(attention, "query", None), HeadProjection):  # a bridged model's runs in the model alone
            together = attention(x[None], x[None], Mask())[0]
            single = torch.cat([attention(token, token, Mask())[0] for token in x[:, None, None]])
            attention_alone = _largest(single - together)
    off_record = _largest(y - trace[recorded]) if recorded in trace else None
    return IsolatedPositions(_largest(permuted - y[places]), _largest(alone - y), attention_alone, off_record)


def input_of(trace: Trace, stack: str, layer: int) -> Float[Tensor, "position d_model"]:
    """Input of a layer's feed-forward network: the norm's output with pre-norm, else the stream; where blocks are
    parallel, the stream that entered the layer; of experts, what they were given.
    """
    if (routed := f"{path_of(stack, layer)}.routed") in trace:
        return trace[routed]
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
