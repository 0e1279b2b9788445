"""Effect of 1/√d_k: entropy and gradients of attention with the factor and without it, against d_k."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis import head_metrics
from model.analysis.attention_maps import Maps
from model.analysis.head_metrics import entropy
from model.analysis.predictions import derivative_norm
from model.capture.hooks import no_recording
from model.experiments.engines.timing import first_of_tail
from model.experiments.runner import Report
from model.network.attention import Scaled, Scores, Weights, for_each_head
from model.network.config import TransformerConfig
from model.network.positions import PositionBias
from model.runtime.device import exact

WIDTHS = tuple(2**power for power in range(1, 11))
DRAWS, QUERIES = 8, 64  # of keys and values, and queries of each


@dataclass(frozen=True)
class Against:
    """Numbers of each query (way, width, query): way 0 without the factor, 1 with it.

    entropy: of the weights, in nats. derivative: ‖∂weights/∂scores‖. gradient: ‖∂loss/∂query‖. widths: d_k.
    """

    widths: Sequence[int]
    keys: int
    entropy: Float[Tensor, "2 width query"]
    derivative: Float[Tensor, "2 width query"]
    gradient: Float[Tensor, "2 width query"]


def against_width(keys: int, seed: int, widths: Sequence[int] = WIDTHS) -> Iterator[Report[Against]]:
    """Measure queries, keys, values and wished outputs whose channels are all drawn from N(0, 1), for each d_k.

    The loss is ½ ‖weights · V − wish‖² / d_k.
    """
    generator = torch.Generator().manual_seed(seed)
    numbers = []
    for done, width in enumerate(widths, start=1):
        numbers.append(_at_width(width, keys, generator))
        yield Report(sum(widths[:done]) / sum(widths), Against(widths[:done], keys, *torch.stack(numbers, dim=2)))


def _at_width(width: int, keys: int, generator: torch.Generator) -> Float[Tensor, "3 2 query"]:
    def drawn(rows: int) -> Tensor:
        return torch.randn(DRAWS, rows, width, generator=generator, dtype=torch.float64)

    query, key, value, wish = drawn(QUERIES), drawn(keys), drawn(keys), drawn(QUERIES)
    return torch.stack([attend(query, key, value, wish, scaled_by(width, on)) for on in (False, True)], dim=1)


def scaled_by(width: int, on: bool) -> Scaled:
    """The network's own module for heads of this width, with its factor or without it."""
    config = TransformerConfig.one_stack(
        "encoder-only", 2, 1, d_model=width, n_heads=1, position="none", scale_attention=on
    )
    return Scaled(config)


def attend(query: Tensor, key: Tensor, value: Tensor, wish: Tensor, scaled: Scaled) -> Float[Tensor, "3 query"]:
    """Entropy of each query's weights, norm of the softmax's derivative, and norm of ∂loss/∂query.

    query, wish: (draw, query, channel). key, value: (draw, key, channel). Draws are joined in the result.
    """
    query = query.clone().requires_grad_()
    with torch.enable_grad():
        scores = scaled(Scores()(query, key))
        weights = Weights()(scores, torch.ones_like(scores, dtype=torch.bool))
        loss = (weights @ value - wish).square().sum(dim=-1) / (2 * query.shape[-1])
        (gradient,) = torch.autograd.grad(loss.sum(), query)
    weights = weights.detach()
    numbers = (head_metrics.entropies(weights), derivative_norm(weights), gradient.norm(dim=-1))
    return torch.stack([number.flatten() for number in numbers])


def first_below(widths: Sequence[int], ratios: Float[Tensor, " width"], share: float) -> int | None:
    """The d_k from which on the ratio stays below `share`; None if it is not at the largest d_k."""
    by_width = dict(zip(widths, ratios.tolist(), strict=True))
    return first_of_tail(widths, lambda width: by_width[width] < share)


def last_alike(widths: Sequence[int], ratios: Float[Tensor, " width"], factor: float) -> int | None:
    """The d_k up to which two numbers, of this ratio, differ by less than `factor`; None: not even at the smallest."""
    by_width = dict(zip(widths, ratios.tolist(), strict=True))
    return first_of_tail(widths[::-1], lambda width: 1 / factor < by_width[width] < factor)


@dataclass(frozen=True)
class BothWays:
    """Numbers of a model's heads (way, layer, head): way 0 without 1/√d_k, 1 with it, on the same queries and keys.

    entropy: mean over the queries, in nats. derivative: median of ‖∂weights/∂scores‖. factor: the model's own.
    """

    entropy: Float[Tensor, "2 layer head"]
    derivative: Float[Tensor, "2 layer head"]
    factor: float
    d_k: int


def both_ways(maps: Maps) -> BothWays:
    """Numbers of all heads of one kind; masks, position biases and all else are the model's own."""
    d_k = maps.trace[f"{maps.paths[0]}.query"].shape[-1]
    factor = maps.trace.module(maps.paths[0]).get_submodule("scaled").factor
    assert isinstance(factor, int | float)
    entropies, derivatives = torch.stack([_layer(maps, path) for path in maps.paths], dim=2)
    return BothWays(entropies, derivatives, float(factor), d_k)


def _layer(maps: Maps, path: str) -> Float[Tensor, "2 2 head"]:
    trace, attention = maps.trace, maps.trace.module(path)
    query = trace[f"{path}.query"]
    key = for_each_head(trace[f"{path}.key"], len(query))
    rows = slice(None, None, maps.every)
    visible = trace.visible(path)[:, rows]
    entropies, derivatives = [], []
    with torch.inference_mode(), no_recording():
        scores = attention.get_submodule("scores")(query[:, rows], key)
        for factor in (1.0, 1 / math.sqrt(query.shape[-1])):
            tensor = scores * factor
            if "capped" in dict(attention.named_children()):
                tensor = attention.get_submodule("capped")(tensor)
            biased = attention.get_submodule("biased")
            if isinstance(biased, PositionBias):
                tensor = tensor + biased.bias(maps.queries, maps.keys, tensor)[:, rows]
            elif f"{path}.bias" in trace:
                tensor = biased(tensor, trace[f"{path}.bias"][:, rows])
            weights = attention.get_submodule("weights")(attention.get_submodule("masked")(tensor, visible), visible)
            entropies.append(entropy(weights).cpu())
            derivatives.append(derivative_norm(exact(weights)).median(dim=-1).values.cpu())
    return torch.stack([torch.stack(entropies), torch.stack(derivatives)])


# Saturation of a softmax: the size of its inputs with which it is sure, and with which float32 has no gradient left.

SURE = 0.99
MOST = 1e9  # largest factor that is tried; the smallest one is its inverse


@dataclass(frozen=True)
class Thresholds:
    """Factors on the scores from which on the largest weight exceeds 0.99, its own float32 gradient is exactly 0, and
    all of the softmax's float32 Jacobian is 0. None: nowhere up to 10⁹.
    """

    sure: float | None
    own_gradient: float | None
    all_gradients: float | None


def jacobian(scores: Float[Tensor, " key"], weight: int | None = None) -> Float[Tensor, "weight key"]:
    """∂weights/∂scores by autograd through the network's own softmax, in the precision of `scores`.

    weight: number of a single row; None: all rows.
    """
    wanted = torch.eye(len(scores), dtype=scores.dtype)
    wanted = wanted if weight is None else wanted[weight : weight + 1]
    rows = scores.detach().expand(len(wanted), -1).clone().requires_grad_()
    with torch.enable_grad():
        Weights()(rows, torch.ones_like(rows, dtype=torch.bool)).backward(wanted)
    assert rows.grad is not None
    return rows.grad


def thresholds(scores: Float[Tensor, " key"]) -> Thresholds:
    """Thresholds of these scores, by halving intervals on a logarithmic axis; equal scores have none."""
    scores = exact(scores).cpu()
    if len(scores) < 2:
        return Thresholds(None, None, None)
    top = int(scores.argmax())

    def largest(factor: float) -> bool:
        return float((scores * factor).softmax(dim=-1).max()) > SURE

    return Thresholds(
        first_factor(largest),
        first_factor(lambda factor: not bool(jacobian((scores * factor).float(), top)[0, top])),
        first_factor(lambda factor: not bool(jacobian((scores * factor).float()).any())),
    )


def first_factor(holds: Callable[[float], bool]) -> float | None:
    """Smallest factor, to a part in 10⁴, with which a condition holds that holds for all larger ones; 10⁻⁹ if it holds
    there already, None if it does not hold at 10⁹.
    """
    low, high = 1 / MOST, MOST
    if not holds(high):
        return None
    if holds(low):
        return low
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
