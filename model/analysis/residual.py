"""The residual stream: its states between blocks, what each block adds to them, and where the norms stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.norms import Get
from model.capture.hooks import no_recording
from model.capture.trace import Trace
from model.network.config import TransformerConfig
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.transformer import Network
from model.runtime.errors import require

SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")


@dataclass(frozen=True)
class Block:
    """A sublayer with its short cut and norms; names of recorded quantities.

    before: the stream that it adds to. added: what it writes to it. after: the stream that the next block adds to.
    read: the stream that it reads: `before`, or what enters the layer where its blocks are parallel.
    """

    layer: int
    sublayer: str
    before: str
    added: str
    after: str
    read: str


def stacks(config: TransformerConfig) -> list[str]:
    """The stacks that a model has: "encoder", "decoder"."""
    sizes = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
    return [name for name, layers in sizes.items() if layers]


def blocks(config: TransformerConfig, stack: str) -> list[Block]:
    """The blocks of a stack in order. With post-norm the stream after a block is the norm's output (section 3.1)."""
    layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    crosses = stack == "decoder" and config.kind == "encoder-decoder"
    found: list[Block] = []
    state = f"{stack}.embedding.output"
    for layer in range(layers):
        entering = state
        for sublayer in SUBLAYERS:
            if sublayer == "cross_attention" and not crosses:
                continue
            path = f"{stack}.layers.{layer}.{sublayer}"
            normed = config.norm != "none"
            written = f"{path}_block.output_norm" if normed and config.norm_placement == "sandwich" else path
            after = f"{path}_block.norm.output" if normed and config.norm_placement == "post" else None
            read = entering if config.parallel else state
            found.append(Block(layer, sublayer, state, f"{written}.output", after or f"{path}_block.residual", read))
            state = found[-1].after
    return found


def states(parts: Sequence[Block]) -> list[str]:
    """The names of the stream's states: what enters the first block, then what each leaves."""
    return [parts[0].before, *(part.after for part in parts)]


def stream(get: Get, names: Sequence[str]) -> Float[Tensor, "state position d_model"] | None:
    """The states side by side; None where one of them does not exist."""
    found = [get(name) for name in names]
    return None if any(each is None for each in found) else torch.stack([x.float() for x in found if x is not None])


def contributions(
    get: Get, parts: Sequence[Block]
) -> tuple[Float[Tensor, "block position"], Float[Tensor, "block position"]] | None:
    """‖y‖ / ‖x‖ and the cosine of y with x, for what each block adds, y, to the stream that is there, x."""
    read, added = stream(get, [part.before for part in parts]), stream(get, [part.added for part in parts])
    if read is None or added is None:
        return None
    return added.norm(dim=-1) / read.norm(dim=-1), torch.cosine_similarity(read, added, dim=-1)


def cosines(states: Float[Tensor, "state position d_model"]) -> Float[Tensor, "state state"]:
    """The cosine of every state with every other, mean over the positions that have both."""
    unit = torch.nn.functional.normalize(states, dim=-1)
    return torch.einsum("spd,tpd->stp", unit, unit).nanmean(dim=-1)


@torch.inference_mode()
def placements(
    network: Network, block: Block, x: Float[Tensor, "position d_model"], read: Float[Tensor, "position d_model"]
) -> dict[str, Float[Tensor, "position d_model"]]:
    """What a feed-forward block would make of x, by its own sublayer and norm, placed in three ways.

    post: LayerNorm(x + F(x)) (Vaswani et al., section 3.1). pre: x + F(LayerNorm(x)) (Xiong et al., 2020). wrong:
    F(x) + LayerNorm(x), which tutorials give for pre-norm: the stream itself is normalised, and nothing passes by.
    Where the blocks of a layer are parallel, also parallel: the model's own placement, F reading what entered the
    layer, `read` (Wang and Komatsuzaki, 2021; Black et al., 2022, section 2.1); x is then the sum with the attention.
    """
    path = f"{block.before.partition('.')[0]}.layers.{block.layer}"
    layer = network.get_submodule(path)
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    require(network, f"{path}.feed_forward.hidden")
    norm, feed_forward = network.get_submodule(f"{path}.feed_forward_block.norm"), layer.feed_forward
    with no_recording():
        made = {
            "post": norm((x + feed_forward(x[None])[0])[None])[0],
            "pre": x + feed_forward(norm(x[None]))[0],
            "wrong": feed_forward(x[None])[0] + norm(x[None])[0],
        }
        if network.config.parallel:
            made["parallel"] = _in_parallel(network, path, x[None], read[None])[0]
    return {name: tensor.float() for name, tensor in made.items()}


def _in_parallel(network: Network, path: str, x: Tensor, read: Tensor) -> Tensor:
    """A parallel layer's feed-forward block, its norms where the model has them."""
    block, feed_forward = (network.get_submodule(f"{path}.{name}") for name in ("feed_forward_block", "feed_forward"))
    norm = block.get_submodule("norm")
    placement = network.config.norm_placement
    if placement == "post":
        made: Tensor = norm(x + feed_forward(read))
        return made
    written: Tensor = feed_forward(norm(read))
    if placement == "sandwich":
        written = block.get_submodule("output_norm")(written)
    return x + written


def relative(x: Float[Tensor, "*shape"], reference: Float[Tensor, "*shape"]) -> float:
    """‖x − reference‖ / ‖reference‖."""
    return float((x.float() - reference.float()).norm() / reference.float().norm())


def sum_error(trace: Trace, config: TransformerConfig, parts: Sequence[Block]) -> float:
    """The largest |x + y − residual| over the blocks, without residual |y − residual|: what was recorded adds up."""
    largest = 0.0
    for part in parts:
        path = f"{part.before.partition('.')[0]}.layers.{part.layer}.{part.sublayer}_block.residual"
        y = trace[part.added]
        made = trace[part.before] + y if config.residual else y
        largest = max(largest, float((made - trace[path]).abs().max())) if y.numel() else largest
    return largest
