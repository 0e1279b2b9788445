"""The residual stream: its states between blocks, each block's part of them, and the placements of norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.config import TransformerConfig
from model.network.transformer import Network
from model.runtime.errors import require

SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")
# Gives the quantity of a name: of a trace, or its pinned counterpart, which may not exist.
Get = Callable[[str], "Tensor | None"]


@dataclass(frozen=True)
class Block:
    """Names of the recorded quantities of a sublayer with its short cut and norms.

    before: stream that it adds to. added: its output, which is added. after: stream that the next block adds to.
    read: stream that it reads: `before`, or, where blocks are parallel, the one that enters the layer.
    """

    layer: int
    sublayer: str
    before: str
    added: str
    after: str
    read: str


def stacks(config: TransformerConfig) -> list[str]:
    """Names of the stacks of a model: "encoder", "decoder"."""
    sizes = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    return [name for name, layers in sizes.items() if layers]


def blocks(config: TransformerConfig, stack: str) -> list[Block]:
    """Blocks of a stack in order. With post-norm the stream after a block is the norm's output (section 3.1)."""
    layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    crosses = stack == "decoder" and config.kind == "encoder-decoder"
    parts: list[Block] = []
    state = f"{stack}.embedding.output"
    for layer in range(layers):
        entering = state
        for sublayer in SUBLAYERS:
            if sublayer == "cross_attention" and not crosses:
                continue
            path = f"{stack}.layers.{layer}.{sublayer}"
            normed = config.norm != "none"
            written = f"{path}_block.output_norm" if normed and config.norm_placement == "sandwich" else path
            post = normed and config.norm_placement == "post"
            after = f"{path}_block.norm.output" if post else f"{path}_block.residual"
            read = entering if config.parallel else state
            parts.append(Block(layer, sublayer, state, f"{written}.output", after, read))
            state = after
    return parts


def states(parts: Sequence[Block]) -> list[str]:
    """Names of the states of the stream: before the first block, then after each."""
    return [parts[0].before, *(part.after for part in parts)]


def stream(get: Get, names: Sequence[str]) -> Float[Tensor, "state position d_model"] | None:
    """States side by side, in float32; None where there is none, or one of them does not exist."""
    return stacked(get, names)


def stacked(get: Get, names: Sequence[str]) -> Float[Tensor, "quantity ..."] | None:
    """Quantities of one shape side by side, in float32; None where there is none, or one of them does not exist."""
    quantities = [quantity.float() for name in names if (quantity := get(name)) is not None]
    return torch.stack(quantities) if quantities and len(quantities) == len(names) else None


def contributions(
    get: Get, parts: Sequence[Block]
) -> tuple[Float[Tensor, "block position"], Float[Tensor, "block position"]] | None:
    """‖y‖ / ‖x‖ and the cosine of y with x, for the output y of each block and the stream x that it is added to; None
    where one of them does not exist.
    """
    read, added = stream(get, [part.before for part in parts]), stream(get, [part.added for part in parts])
    if read is None or added is None:
        return None
    return added.norm(dim=-1) / read.norm(dim=-1), torch.cosine_similarity(read, added, dim=-1)


def cosines(states: Float[Tensor, "state position d_model"]) -> Float[Tensor, "state state"]:
    """Cosine of every state with every other, mean over the positions that have both."""
    unit = torch.nn.functional.normalize(states, dim=-1)
    return torch.einsum("spd,tpd->stp", unit, unit).nanmean(dim=-1)


@torch.inference_mode()
def placements(
    network: Network, block: Block, x: Float[Tensor, "position d_model"], read: Float[Tensor, "position d_model"]
) -> dict[str, Float[Tensor, "position d_model"]]:
    """Outputs of a feed-forward block for x, by its own sublayer and norm, with the norm placed in three ways.

    post: LayerNorm(x + F(x)) (Vaswani et al., section 3.1). pre: x + F(LayerNorm(x)) (Xiong et al., 2020). wrong:
    F(x) + LayerNorm(x), which tutorials give for pre-norm: the stream itself is normalised, and nothing passes by.
    Where the blocks of a layer are parallel, also parallel: the model's own placement, F reading what entered the
    layer, `read` (Wang and Komatsuzaki, 2021; Black et al., 2022, section 2.1); x is then the sum with the attention.

    Raises:
        MissingQuantityError: the model does not show its feed-forward network.
    """
    path = f"{block.before.partition('.')[0]}.layers.{block.layer}"
    if network.config.n_experts is None:
        require(network, f"{path}.feed_forward.hidden")
    feed_forward = network.get_submodule(f"{path}.feed_forward")
    norm = network.get_submodule(f"{path}.feed_forward_block.norm")
    x, read = x[None], read[None]
    with no_recording():
        outputs = {
            "post": norm(x + feed_forward(x)),
            "pre": x + feed_forward(norm(x)),
            "wrong": feed_forward(x) + norm(x),
        }
        if network.config.parallel and network.config.norm_placement == "post":
            outputs["parallel"] = norm(x + feed_forward(read))
        elif network.config.parallel:
            written = feed_forward(norm(read))
            if network.config.norm_placement == "sandwich":
                written = network.get_submodule(f"{path}.feed_forward_block.output_norm")(written)
            outputs["parallel"] = x + written
    return {name: tensor[0].float() for name, tensor in outputs.items()}


def relative(x: Float[Tensor, "*shape"], reference: Float[Tensor, "*shape"]) -> float:
    """‖x − reference‖ / ‖reference‖."""
    return float((x.float() - reference.float()).norm() / reference.float().norm())


def sum_error(trace: Trace, config: TransformerConfig, parts: Sequence[Block]) -> float:
    """Largest |x + y − residual| over the blocks, without residual |y − residual|: 0 where the stream adds up."""
    largest = 0.0
    for part in parts:
        path = f"{part.before.partition('.')[0]}.layers.{part.layer}.{part.sublayer}_block.residual"
        y = trace[part.added]
        expected = trace[part.before] + y if config.residual else y
        largest = max(largest, float((expected - trace[path]).abs().max())) if y.numel() else largest
    return largest
