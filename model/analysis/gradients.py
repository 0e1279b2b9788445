"""Gradients of the loss on one text: of each block's weights, of each head's, and of the residual stream."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model.analysis.predictions import UNKNOWN
from model.analysis.residual import blocks, stacks, states
from model.analysis.weights.heads import PROJECTIONS
from model.capture.interventions import intervening
from model.capture.trace import ATTENTION_PATHS, AttentionKind, Trace, record
from model.inference.copies import differentiable
from model.network.config import TWO_STACKS, TransformerConfig
from model.network.costs import Costs, costs
from model.network.transformer import Network
from model.runtime.device import exact
from model.runtime.errors import CheckpointError
from model.runtime.memory import available, needed

BLOCKS = ("embedding", "self_attention", "cross_attention", "feed_forward", "norm", "output")
Tensors = Mapping[str, Tensor]  # by the names of the weights
PIECE = 1 << 22  # numbers that are squared in float64 at a time


@dataclass(frozen=True)
class Size:
    """Euclidean norms of a gradient and of the weights that it is of."""

    gradient: float
    weights: float

    @property
    def relative(self) -> float:
        """‖g‖ / ‖W‖; NaN where all weights are 0."""
        return self.gradient / self.weights if self.weights else math.nan


Part = tuple[str, int, str]  # stack, layer and one of BLOCKS; −1: before the first layer, n_layers: after the last


@dataclass(frozen=True)
class LossGradients:
    """Gradients of the mean loss L of a text, in nats. tokens: number of tokens that L is the mean of.

    parts: norms of ∂L/∂W over all weights of a block. A matrix that several blocks share, as embeddings tied to the
    output, counts in the first of them, with the sum of its gradients.
    heads: norms of each head's part of W_Q, W_K, W_V and W_O, and of its gradient; heads that share keys and values
    have the same ones. stream: ‖∂L/∂x‖ at each position, by the name of the state x of a stack's residual stream.
    """

    loss: float
    tokens: int
    parts: dict[Part, Size]
    heads: dict[AttentionKind, Float[Tensor, "number projection layer head"]]
    stream: dict[str, Float[Tensor, " position"]]


@torch.inference_mode(False)
@torch.enable_grad()
def loss_gradients(trace: Trace, texts: Sequence[Sequence[int]], actual: Sequence[int]) -> LossGradients:
    """Gradients of L = −1/n Σ ln p(actual token), by one more forward pass, with the trace's changes, and one backward.

    They are taken of a copy that shares the weights: the network keeps its mode, and no weight of it gets a gradient.
    texts: ids of the source and, with two stacks, of the target. actual: token that the logits of each position are
    asked for, or UNKNOWN.

    Raises:
        CheckpointError: the gradients do not fit into memory.
        ValueError: the network is run by transformers' own code, or no actual token is known.
    """
    network = differentiable(trace.network)
    if all(token == UNKNOWN for token in actual):
        raise ValueError("no actual token is known, so that there is no loss: give a text of at least two tokens")
    require_room(network, [len(ids) for ids in texts])
    inputs = [torch.tensor([list(ids)], device=network.device) for ids in texts]
    with intervening(network, trace.changes), record(network) as pass_:
        logits = network(*inputs)[0]
    labels = torch.tensor(list(actual), device=network.device)
    loss = F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels, ignore_index=UNKNOWN)
    names = [name for stack in stacks(network.config) for name in states(blocks(network.config, stack))]
    weights = dict(network.named_parameters())
    wanted = [*weights.values(), *(pass_.examples(name) for name in names)]
    values = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    gradients = dict(zip(weights, values, strict=False))
    stream = {name: exact(x[0]).norm(dim=-1) for name, x in zip(names, values[len(weights) :], strict=True)}
    tokens = sum(token != UNKNOWN for token in actual)
    parts, heads = _parts(network.config, weights, gradients), _heads(network.config, weights, gradients)
    return LossGradients(float(loss.detach()), tokens, parts, heads, stream)


def _parts(config: TransformerConfig, weights: Tensors, gradients: Tensors) -> dict[Part, Size]:
    squares: dict[Part, list[float]] = {}
    for name, weight in weights.items():
        sums = squares.setdefault(_part(config, name), [0.0, 0.0])
        for number, tensor in enumerate((gradients[name], weight)):
            sums[number] += _square(tensor)
    return {part: Size(math.sqrt(gradient), math.sqrt(weight)) for part, (gradient, weight) in squares.items()}


def _part(config: TransformerConfig, name: str) -> Part:
    """Part that a weight of this name belongs to; the output's stands after the last layer of its stack."""
    path = name.split(".")
    stack = path[0] if path[0] != "output" else "decoder" if config.n_decoder_layers else "encoder"
    after = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    if path[0] == "output":
        return stack, after, "output"
    if path[1] == "layers":
        return stack, int(path[2]), "norm" if path[3].endswith("_block") else path[3]
    if path[1] == "embedding":
        return stack, -1, "norm" if path[2] == "output" else "embedding"
    return stack, after, "norm"


def _square(tensor: Tensor) -> float:
    """Sum of squares in float64."""
    return sum(float(exact(piece).square().sum()) for piece in tensor.detach().flatten().split(PIECE))


def _heads(config: TransformerConfig, weights: Tensors, gradients: Tensors) -> dict[AttentionKind, Tensor]:
    by_kind: dict[AttentionKind, Tensor] = {}
    for kind, paths in _attentions(config):
        rows = [[_of_heads(config, of, path) for path in paths] for of in (gradients, weights)]
        by_kind[kind] = torch.stack([torch.stack(layers, dim=1) for layers in rows])
    return by_kind


def _attentions(config: TransformerConfig) -> Iterator[tuple[AttentionKind, list[str]]]:
    """Paths of the attentions of each kind, first layer first."""
    kinds: list[AttentionKind] = ["encoder"] if config.n_encoder_layers else []
    kinds += ["decoder"] if config.n_decoder_layers else []
    kinds += ["cross"] if config.kind in TWO_STACKS else []
    for kind in kinds:
        layers = config.n_encoder_layers if kind == "encoder" else config.n_decoder_layers
        yield kind, [ATTENTION_PATHS[kind].format(layer) for layer in range(layers)]


def _of_heads(config: TransformerConfig, of: Tensors, path: str) -> Float[Tensor, "projection head"]:
    """Frobenius norms of each head's rows of W_Q, W_K and W_V, and of its columns of W_O."""
    norms = []
    for projection in PROJECTIONS:
        matrix = exact(of[f"{path}.{projection}.weight"].detach())
        rows = matrix.T if projection == "output" else matrix
        heads = config.kv_heads if projection in ("key", "value") else config.n_heads
        norms.append(rows.unflatten(0, (heads, -1)).norm(dim=(1, 2)).repeat_interleave(config.n_heads // heads))
    return torch.stack(norms)


# What it takes.


def pass_costs(config: TransformerConfig, lengths: Sequence[int]) -> Costs:
    """Costs of a pass over one text of these lengths: of source and target, or of the one that the model reads."""
    both = lengths if config.kind in TWO_STACKS else (0, *lengths) if config.n_decoder_layers else (*lengths, 0)
    return costs(config, 1, *both)


def memory_needed(network: Network, lengths: Sequence[int]) -> int:
    """Bytes of the gradients of all weights, and of what the forward pass keeps for the backward pass."""
    gradients = needed(network.parameter_count(), next(network.parameters()).dtype)
    return gradients + pass_costs(network.config, lengths).memory["activations"]


def require_room(network: Network, lengths: Sequence[int]) -> None:
    """Refuse gradients that do not fit into memory.

    Raises:
        CheckpointError: they do not fit.
    """
    size, free = memory_needed(network, lengths), available(network.device)
    if size > free:
        raise CheckpointError(
            "the gradients need about {size:.1f} GB, and {free:.1f} GB are free: type a shorter text, or open a "
            "smaller model",
            size=size / 1000000000.0,
            free=free / 1000000000.0,
        )
