"""The logit lens: what a model would predict if it ended after each layer (nostalgebraist, 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.analysis.predictions import entropies
from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.transformer import Network

TOGETHER = 256  # positions whose logits are held at a time


@dataclass(frozen=True)
class LayerReading:
    """What each layer's stream says through the model's own output, first what entered the stack.

    top, top_probability: its most probable token. entropy: of its distribution, in nats.
    probability, rank: of the tokens asked for; ranks count from 1.
    """

    top: Int[Tensor, "layer position"]
    top_probability: Float[Tensor, "layer position"]
    entropy: Float[Tensor, "layer position"]
    probability: Float[Tensor, "wanted layer position"]
    rank: Int[Tensor, "wanted layer position"]


def last_stack(network: nn.Module) -> str:
    """The stack whose states become logits: the decoder, or the encoder of a model without one."""
    return "decoder" if hasattr(network, "decoder") else "encoder"


def stream_names(trace: Trace) -> list[str]:
    """The residual stream before the first layer of the last stack and after each, as names of the trace.

    After a post-norm layer it is the layer's normalised output: that is what the next layer gets.
    """
    network = trace.network
    assert isinstance(network, Network)
    stack, config = last_stack(network), network.config
    normed = config.norm_placement == "post" and config.norm != "none"
    part = "norm.output" if normed else "residual"
    layers = len(network.get_submodule(f"{stack}.layers"))  # type: ignore[arg-type]
    names = [f"{stack}.layers.{layer}.feed_forward_block.{part}" for layer in range(layers)]
    return [f"{stack}.embedding.output", *names]


@torch.inference_mode()
def lens_logits(network: nn.Module, stream: Float[Tensor, "position d_model"]) -> Float[Tensor, "position vocabulary"]:
    """Unembed(Norm(x)): the stack's final norm, where it has one, and the projection to the vocabulary.

    A post-norm stack has no final norm: its layers end in norms of their own. After the last layer these are the
    model's logits.
    """
    with no_recording():
        logits: Tensor = network.get_submodule("output")(network.get_submodule(f"{last_stack(network)}.norm")(stream))
    return logits.float()


def read_layers(
    network: nn.Module, streams: Sequence[Float[Tensor, "position d_model"]], wanted: Int[Tensor, "wanted position"]
) -> LayerReading:
    """The lens on every layer. wanted: tokens to follow, several at each position.

    Where a stream is not a number, as at a token that a pinned text lacks, no reading is one: -1 for tokens and ranks.
    """
    found: list[list[Tensor]] = []
    for stream in streams:
        chunks = zip(stream.split(TOGETHER), wanted.split(TOGETHER, dim=1), strict=True)
        parts = [_read(lens_logits(network, part), tokens) for part, tokens in chunks]
        found.append([torch.cat(each, dim=-1) for each in zip(*parts, strict=True)])
    top, top_probability, entropy = (torch.stack([each[part] for each in found]) for part in range(3))
    probability, rank = (torch.stack([each[part] for each in found], dim=1) for part in (3, 4))
    return LayerReading(top, top_probability, entropy, probability, rank)


def _read(logits: Tensor, wanted: Tensor) -> list[Tensor]:
    probabilities = logits.softmax(dim=-1)
    unknown = logits.isnan().any(dim=-1)
    largest, top = probabilities.max(dim=-1)
    own = logits.gather(-1, wanted.T)  # (position, wanted)
    rank = 1 + (logits[:, None] > own[..., None]).sum(dim=-1)
    return [
        top.masked_fill(unknown, -1),
        largest,
        entropies(logits),
        probabilities.gather(-1, wanted.T).T,
        rank.T.masked_fill(unknown, -1),
    ]
