"""Blocks of a model in the order in which they computed: the kind, shapes, weights and operations of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from model.analysis.logit_lens import last_stack
from model.capture.trace import Trace
from model.network.costs import attention_flops, feed_forward_flops, output_flops
from model.network.transformer import Network

BlockKind = Literal[
    "embedding",
    "norm",
    "self-attention",
    "cross-attention",
    "feed-forward",
    "residual",
    "recurrence",
    "readout",
    "output",
]
KINDS: dict[str, BlockKind] = {
    "embedding": "embedding",
    "norm": "norm",
    "output_norm": "norm",
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "residual": "residual",
    "forwards": "recurrence",
    "backwards": "recurrence",
    "unit": "recurrence",
    "readout": "readout",
    "output": "output",
}
RECURRENT = ("recurrence", "readout")  # kinds of a recurrent network alone
BLOCKS_WITHIN: dict[BlockKind, str] = {"embedding": "output.norm.", "output": "norm."}
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """Part of a model that is drawn as one.

    path: of its module. stack: "encoder" or "decoder"; the output belongs to the stack that it stands on.
    layer: counted from 0, None outside the layers. sublayer: "self_attention", "cross_attention"
    or "feed_forward", the part of the layer that a norm or a residual belongs to, too; of a recurrent network its part.
    inputs: shapes by name: "ids", "stream", or "queries" and "memory" (of an attention), or "stream" and "written" (of
    a residual). output: name of the quantity that it gives. shape: of that.
    weights: shapes by name in the module. parameters: count of its own. tied: count of those of a block before it.
    flops: of its matrix products on this input, 2 per multiply-add, counted in full whatever the mask; None where it
    multiplies in a way that is not known here.
    """

    path: str
    kind: BlockKind
    stack: str
    layer: int | None
    sublayer: str | None
    inputs: dict[str, Shape]
    output: str
    shape: Shape
    weights: dict[str, Shape]
    parameters: int
    tied: int
    flops: int | None


def blocks(trace: Trace) -> list[Block]:
    """Blocks of the traced model in the order in which they computed.

    Parameters that two blocks share count in the first of them; so all blocks of a model of ours together have as many
    as it has, and those of another as many as were recognised in it.
    """
    counted: set[tuple[int, ...]] = set()
    return [_block(trace, path, counted) for path in _paths(trace)]


def elsewhere(network: Network, blocks: list[Block]) -> int:
    """Number of the model's parameters in none of its blocks: no part that is known was seen to use them."""
    return network.parameter_count() - sum(block.parameters for block in blocks)


def total_flops(trace: Trace, blocks: Sequence[Block]) -> int | None:
    """Operations of all matrix products of the model on this input, in blocks or not; None: some are unknown."""
    flops = [block.flops for block in blocks] + [_flops_beside(trace, blocks)]
    return None if None in flops else sum(each for each in flops if each is not None)


def _flops_beside(trace: Trace, blocks: Sequence[Block]) -> int | None:
    """Operations of blocks of a bridged model that were not recognised; None: unknown."""
    total = 0
    for block in () if trace.network.ours else blocks:
        if block.kind != "embedding":
            continue
        for layer in trace.module(f"{block.stack}.layers").children():
            for products in getattr(layer, "beside", ()):
                if products is None:
                    return None
                total += products.flops(block.shape[0])
    return total


def rows(blocks: list[Block]) -> list[list[int]]:
    """Numbers of blocks that stand together: those of an embedding, of a sublayer, and those after the last layer."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, block in enumerate(blocks):
        begins = ".embedding" in block.path
        groups.setdefault((block.stack, block.layer, block.sublayer, begins), []).append(number)
    return list(groups.values())


def _paths(trace: Trace) -> list[str]:
    """Paths of the blocks whose output is recorded. The model's output comes last: its norm computes within it."""
    names = trace.names()
    alone = (".residual", ".readout")  # modules that give but one quantity
    paths = dict.fromkeys(name if name.endswith(alone) else name.rpartition(".")[0] for name in names)
    named = (path for path in paths if path.rpartition(".")[2] in KINDS)
    return sorted((path for path in named if _output(trace, path) in names), key=lambda path: path == "output")


def _output(trace: Trace, path: str) -> str:
    """Name of the quantity that a block gives."""
    if f"{path}.context" in trace:  # of additive attention
        return f"{path}.context"
    names = {"residual": path, "readout": path, "output": f"{path}.logits", "recurrence": f"{path}.states"}
    return names.get(KINDS[path.rpartition(".")[2]], f"{path}.output")


def _block(trace: Trace, path: str, counted: set[tuple[int, ...]]) -> Block:
    parts = path.split(".")
    kind = KINDS[parts[-1]]
    in_layer = len(parts) > 1 and parts[1] == "layers"
    output = _output(trace, path)
    shape = tuple(trace[output].shape)
    stack = last_stack(trace.network) if parts[0] == "output" else parts[0]
    stream = (shape[0], trace.network.config.shape_of(stack).width)
    # The norm on an embedding's sum, and that before the logits, are blocks of their own.
    weights = [
        (name, weight)
        for name, weight in trace.module(path).named_parameters(remove_duplicate=False)
        if not name.startswith(BLOCKS_WITHIN.get(kind, "."))
    ]
    new = [weight for _name, weight in weights if _memory(weight) not in counted]
    counted |= {_memory(weight) for weight in new}
    parameters = sum(weight.numel() for weight in new)
    return Block(
        path=path,
        kind=kind,
        stack=stack,
        layer=int(parts[2]) if in_layer else None,
        sublayer=parts[3].removesuffix("_block") if in_layer else parts[1] if kind in RECURRENT else None,
        inputs=_inputs(trace, path, kind, stream),
        output=output,
        shape=shape,
        weights={name: tuple(weight.shape) for name, weight in weights},
        parameters=parameters,
        tied=sum(weight.numel() for _name, weight in weights) - parameters,
        flops=_flops(trace, path, kind, shape[0]),
    )


def _memory(weight: Tensor) -> tuple[int, ...]:
    """Identity of a parameter: where its numbers are, since ours and a bridged module's share them."""
    place = 0 if weight.is_meta else weight.data_ptr()
    return (place, weight.numel()) if place else (id(weight),)


def _keys(trace: Trace, path: str) -> int:
    """Number of keys of an attention."""
    return int(trace[f"{path}.visible"].shape[-1])


def _inputs(trace: Trace, path: str, kind: BlockKind, stream: Shape) -> dict[str, Shape]:
    if kind == "embedding":
        return {"ids": stream[:1]}
    if kind in ("self-attention", "cross-attention"):
        return {"queries": stream, "memory": (_keys(trace, path), stream[1])}
    return {"stream": stream} | ({"written": stream} if kind == "residual" else {})


def _flops(trace: Trace, path: str, kind: BlockKind, tokens: int) -> int | None:
    config = trace.network.config
    if not trace.network.ours:  # its blocks differ from layer to layer, and were seen to multiply
        keys = _keys(trace, path) if "attention" in kind else 0
        module = trace.module(path)
        if not hasattr(module, "products"):
            return 0
        products: Any = module.products
        return None if products is None else int(products.flops(tokens, keys))
    if config.kind == "recurrent" and kind != "output":
        return _recurrent_flops(trace, path, kind, tokens)
    if kind in ("self-attention", "cross-attention"):
        return sum(attention_flops(config, tokens, _keys(trace, path)).values())
    if kind == "feed-forward":
        return feed_forward_flops(config, tokens)
    return output_flops(config, tokens) if kind == "output" else 0


def _recurrent_flops(trace: Trace, path: str, kind: BlockKind, tokens: int) -> int:
    """Operations of a block of a recurrent network: each matrix for each token, but for what is done once a source."""
    if kind == "embedding":
        return 0
    sizes = {name: weight.numel() for name, weight in trace.module(path).named_parameters() if weight.dim() > 1}
    if kind != "cross-attention":
        once = sizes.pop("from_source.weight", 0)
        return 2 * (tokens * sum(sizes.values()) + once)
    keys = _keys(trace, path)
    pairs = 2 * 2 * tokens * keys * trace.network.config.d_model  # vᵀ tanh(…), and the sum of annotations
    return 2 * (tokens * sizes["from_state.weight"] + keys * sizes["from_annotation.weight"]) + pairs
