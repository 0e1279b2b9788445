"""Logit lens: predictions of a model if it ended after each layer (nostalgebraist, 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.predictions import entropies
from model.analysis.residual import blocks
from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.transformer import Network

TOGETHER = 256  # positions whose logits are in memory at a time


@dataclass(frozen=True)
class LayerReading:
    """Predictions from the stream that enters the stack and from that after each layer, by the model's own output.

    top, top_probability: the most probable token. entropy: of the distribution, in nats.
    probability, rank: of the wanted tokens; ranks count from 1.
    """

    top: Int[Tensor, "layer position"]
    top_probability: Float[Tensor, "layer position"]
    entropy: Float[Tensor, "layer position"]
    probability: Float[Tensor, "wanted layer position"]
    rank: Int[Tensor, "wanted layer position"]


def last_stack(network: Network) -> str:
    """Name of the stack whose states become logits: the decoder, or the encoder of a model without one."""
    return "decoder" if hasattr(network, "decoder") else "encoder"


def stream_names(trace: Trace) -> list[str]:
    """Names of the residual stream before the first layer of the last stack and after each.

    After a post-norm layer it is the layer's normalised output: the input of the next layer.
    """
    parts = blocks(trace.network.config, last_stack(trace.network))
    return [parts[0].before, *(part.after for part in parts if part.sublayer == "feed_forward")]


@torch.inference_mode()
def lens_logits(network: Network, stream: Float[Tensor, "position d_model"]) -> Float[Tensor, "position vocabulary"]:
    """Unembed(Norm(x)) in float32: the stack's final norm, where it has one, and the projection to the vocabulary.

    A post-norm stack has no final norm: its layers end in norms of their own. After the last layer these are the
    model's logits.
    """
    norm = network.get_submodule(f"{last_stack(network)}.norm")
    with no_recording():
        logits: Tensor = network.output(norm(stream))
        return logits.float()


def read_layers(
    network: Network, streams: Sequence[Float[Tensor, "position d_model"]], wanted: Int[Tensor, "wanted position"]
) -> LayerReading:
    """Readings of all streams. wanted: tokens to follow, several at each position.

    Where a stream is NaN, as at a token that a pinned text lacks, so is its reading, and tokens and ranks are -1.
    """
    layers: list[list[Tensor]] = []
    for stream in streams:
        chunks = zip(stream.split(TOGETHER), wanted.split(TOGETHER, dim=1), strict=True)
        readings = [_read(lens_logits(network, part), tokens) for part, tokens in chunks]
        layers.append([torch.cat(parts, dim=-1) for parts in zip(*readings, strict=True)])
    return LayerReading(*(torch.stack(parts, dim=-2) for parts in zip(*layers, strict=True)))


def _read(logits: Tensor, wanted: Tensor) -> list[Tensor]:
    """Fields of a `LayerReading` of one layer, without its dimension."""
    probabilities = logits.softmax(dim=-1)
    unknown = logits.isnan().any(dim=-1)
    largest, top = probabilities.max(dim=-1)
    wanted_logits = logits.gather(-1, wanted.T)  # (position, wanted)
    rank = 1 + (logits[:, None] > wanted_logits[..., None]).sum(dim=-1)
    return [
        top.masked_fill(unknown, -1),
        largest,
        entropies(logits),
        probabilities.gather(-1, wanted.T).T,
        rank.T.masked_fill(unknown, -1),
    ]
