"""State dicts of models around torch.nn.Transformer and torch.nn.TransformerEncoder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from model.checkpoints.convert.state_dict import (
    FUNCTIONS,
    MOST_SINES,
    Choices,
    Layout,
    State,
    config_of,
    is_sinusoidal,
    unsaid,
)
from model.checkpoints.convert.weight_map import Table, WeightSource, below, packed, weight_map
from model.message import Message
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError

FIRST_LAYER = "layers.0.self_attn.in_proj_weight"
STACK = rf"(.*?){re.escape(FIRST_LAYER)}$"
OUTPUTS = r"generator|logit|head|fc_out|output|proj|linear|classifier|unembed|(^|\.)(fc|out|decoder)\.weight$"
SOURCES, TARGETS = r"src|source|enc|input", r"tgt|trg|target|dec|output"
EMBEDDED = r"emb|input|pre_?norm"  # of a norm on the embeddings
BUFFERS = r"(^|[._])(pe|pos\w*|\w*mask)(\.|$)"  # and tables of positions, which `_surroundings` finds
CAUSAL = ("causal", "is_causal", "is_decoder")
LENGTH = 512  # positions where there is no table of them


@dataclass(frozen=True)
class _Surroundings:
    """Paths of the stacks and names of the tensors around them: embeddings, output (its weight), tables of positions.

    decoder: "" where there is none; output: "" where there is none. sines: whether positions are sinusoidal. length:
    number of positions. norms: path of the last norm of each stack, which may lie outside of it; "" where there is
    none.
    """

    encoder: str
    decoder: str
    source: str
    target: str
    output: str
    tables: tuple[str, ...]
    sines: bool
    length: int
    norms: Mapping[str, str]


def torch_transformer(state: State) -> Layout | None:
    """Layout of a model with layers of torch.nn.Transformer; None: it has none.

    What surrounds the layers is found by shapes and names: embeddings as wide as the layers, an output to as many
    tokens, a table of positions. Options that no tensor tells (norm_first, activation, scale_embedding) are those of
    the file or of a config.json beside it, else torch's defaults.

    Raises:
        CheckpointError: tensors are missing, ambiguous or beyond the layout, or norms stand where ours cannot.
    """
    stacks = sorted({match[1] for name in state.tensors if (match := re.match(STACK, name))})
    decoders = [stack for stack in stacks if f"{stack}layers.0.multihead_attn.in_proj_weight" in state.tensors]
    encoders = [stack for stack in stacks if stack not in decoders]
    if not stacks:
        return None
    if len(encoders) != 1 or len(decoders) > 1:
        raise CheckpointError(
            "{file} holds {n_encoders} stacks of torch.nn.TransformerEncoder and {n_decoders} of "
            "torch.nn.TransformerDecoder: one encoder is opened, alone or with one decoder, for no tensor tells "
            "what others read; its tensors can be looked at under Checkpoints → Read",
            file=state.name,
            n_encoders=len(encoders),
            n_decoders=len(decoders),
        )
    around = _surroundings(state, encoders[0], decoders[0] if decoders else "")
    first, choices = f"{around.encoder}layers.0.", Choices(state, [])
    hidden, width = state.shape(f"{first}linear1.weight")
    bias, last = f"{first}self_attn.in_proj_bias" in state.tensors, all(around.norms.values())
    outer = [name for stack, name in around.norms.items() if name and name != f"{_stacks(around)[stack]}norm"]
    placements = {False: "post", True: "pre"}
    usual = unsaid("norms behind each block", "norm_first")
    if outer:  # of which a stack that already ends in a norm has no need
        placements, usual = {True: "pre", False: "post"}, unsaid("norms before each block", "norm_first")
    pre = choices.of("norm", ("norm_first", "pre_norm"), placements, usual)
    if pre and not last:
        raise CheckpointError(
            "{file} has its norms before each block and none behind the last layer, neither in the stack nor "
            "outside of it, which ours cannot be: its tensors can be looked at under Checkpoints → Read",
            file=state.name,
        )
    choices.assumed.extend(
        Message("{file} is the norm behind the last layer (no tensor says where it stands)", file=name)
        for name in outer
    )
    scaling = (True, False) if around.sines else (False, True)
    how = unsaid("embeddings times √d_model" if around.sines else "embeddings as they are", "scale_embedding")
    seen = "every token sees every other (a causal mask is in no tensor)"
    causal = not around.decoder and choices.of("causal", CAUSAL, {False: "no", True: "yes"}, seen)
    positions, assumed = state.positions() if not around.tables else ("sinusoidal" if around.sines else "learned", ())
    choices.assumed.extend(assumed)
    config = _config(
        state,
        around,
        bool(causal),
        d_model=width,
        n_heads=state.n_heads(width),
        d_ff=hidden,
        dropout=0.0,
        max_length=around.length,
        position=positions,
        norm_placement="pre" if pre else "post",
        last_norm=last and not pre,
        activation=choices.of(
            "activation",
            ("activation", "act"),
            FUNCTIONS,
            unsaid("relu in the feed-forward networks", "activation"),
        ),
        scale_embedding=choices.of("", ("scale_embedding",), dict.fromkeys(scaling, ""), how),
        bias=bias,
        output_head="linear" if around.output else "none",
        output_bias=_bias(around.output) in state.tensors,
    )
    plan = weight_map(config, _table(around, bool(causal)), state.tensors)
    state.require_all_used(plan, "a model around torch.nn.Transformer", BUFFERS)
    open_choices = state.open_heads | ({} if around.tables else {"positions": positions}) | choices.open
    return Layout("torch.nn.Transformer", config, state.weights(plan), tuple(choices.assumed), open_choices)


def _config(state: State, around: _Surroundings, causal: bool, **options: Any) -> TransformerConfig:
    counts = {stack: state.layers(re.escape(path) + r"layers\.(\d+)\.") for stack, path in _stacks(around).items()}
    source, tied = state.shape(around.source)[0], state.tied(around.source, around.target, around.output)
    if not around.decoder:
        kind = "decoder-only" if causal else "encoder-only"
        stack = {"kind": kind, "vocabulary": source, "n_layers": counts["encoder"]}
        return config_of(state.name, **stack, tied_embeddings="output" if tied == "all" else "none", **options)
    sizes = {"source_vocabulary": source, "target_vocabulary": state.shape(around.target)[0]}
    layers = {"n_encoder_layers": counts["encoder"], "n_decoder_layers": counts["decoder"]}
    return config_of(state.name, **sizes, **layers, tied_embeddings=tied, **options)


def _stacks(around: _Surroundings) -> dict[str, str]:
    return {"encoder": around.encoder} | ({"decoder": around.decoder} if around.decoder else {})


def _table(around: _Surroundings, causal: bool) -> Table:
    """Table of our names; each stack has a table of positions, or both share one. causal: a single stack is our
    decoder.
    """
    table: dict[str, str | WeightSource] = {"output.logits.weight": around.output}
    table["output.logits.bias"] = _bias(around.output)
    attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
    blocks = {"encoder": ("self_attention", "feed_forward"), "decoder": (*attentions, "feed_forward")}
    embeddings = {"encoder": around.source, "decoder": around.target}
    positions = {"encoder": around.tables[:1], "decoder": around.tables[-1:]}
    for stack, path in _stacks(around).items():
        layer: dict[str, str | WeightSource] = {"feed_forward.hidden": "linear1", "feed_forward.output": "linear2"}
        for number, block in enumerate(blocks[stack], start=1):
            layer[f"{block}_block.norm"] = f"norm{number}"
        for attention, module in attentions.items():
            for kind in ("weight", "bias"):
                layer |= {f"{name}.{kind}": row for name, row in packed(attention, f"{module}.in_proj_{kind}").items()}
            layer[f"{attention}.output"] = f"{module}.out_proj"
        ours = "decoder" if causal else stack
        table |= {
            f"{ours}.embedding.tokens.weight": embeddings[stack],
            f"{ours}.embedding.positions.table": WeightSource(positions[stack], flat_table),
            **below(f"{ours}.layers.{{}}.", f"{path}layers.{{}}.", layer),
            f"{ours}.norm": around.norms[stack],
        }
    return table


def _surroundings(state: State, encoder: str, decoder: str) -> _Surroundings:
    """Modules around the stacks at these paths.

    Raises:
        CheckpointError: there are no embeddings or, beside a decoder, no single output, or embeddings are ambiguous.
    """
    width = state.shape(f"{encoder}layers.0.linear1.weight")[1]
    stacks = (encoder, decoder) if decoder else (encoder,)
    outside = [name for name in state.tensors if not any(name.startswith(f"{path}layers.") for path in stacks)]
    tables = [name for name in outside if _is_table(state, name, width)]
    wide = [name for name in outside if name not in tables and _is_matrix(state, name, width)]
    outputs = [name for name in wide if _bias(name) in state.tensors or re.search(OUTPUTS, name)]
    embeddings = [name for name in wide if name not in outputs]
    if not embeddings:
        raise CheckpointError(
            "{file} holds the layers of torch.nn.Transformer without embeddings: save the state_dict of the "
            "whole model to compute with it; its tensors can be looked at under Checkpoints → Read",
            file=state.name,
        )
    source, target = _sides(state, embeddings, decoder)
    words = state.shape(target)[0]
    others = [name for name in outputs if state.shape(name)[0] != words]
    outputs = [name for name in outputs if name not in others]
    if others and not outputs:
        raise CheckpointError(
            "{file} is a classifier or the like: what stands behind its layers ({others}) gives no number for "
            "each of the {words:,} tokens in {target}; its tensors can be looked at under Checkpoints → Read",
            file=state.name,
            others=", ".join(others[:3]),
            words=words,
            target=target,
        )
    if len(outputs) > 1 or (decoder and not outputs):
        listed = ", ".join(outputs[:3]) or "0"
        raise CheckpointError(
            "{file} holds torch.nn.Transformer without a single output to the target's tokens ({listed}): name "
            "one generator.weight",
            file=state.name,
            listed=listed,
        )
    shapes = [tuple(flat_table(state.tensors[name]).shape) for name in tables]
    sines = not tables or all(is_sinusoidal(state.tensors[name]) for name in tables)
    length = min([shape[0] for shape in shapes], default=LENGTH)
    output = outputs[0] if outputs else ""
    length = min(length, MOST_SINES) if sines else length
    norms = _last_norms(state, {"encoder": encoder} | ({"decoder": decoder} if decoder else {}), outside, width)
    return _Surroundings(encoder, decoder, source, target, output, tuple(tables), sines, length, norms)


def _last_norms(state: State, stacks: Mapping[str, str], outside: list[str], width: int) -> dict[str, str]:
    """Path of the norm behind the last layer of each stack: in it, else outside; "" where there is none. A norm outside
    belongs to the only stack, or to the one that its name says, unless that is of a norm on the embeddings.

    Raises:
        CheckpointError: there are several outside that it may be.
    """
    paths = {}
    for stack, path in stacks.items():
        own = SOURCES if stack == "encoder" else TARGETS
        norms = [name.removesuffix(".weight") for name in outside if state.tensors[name].shape == (width,)]
        norms = [name for name in norms if not name.endswith("bias") and not re.search(EMBEDDED, name.lower())]
        norms = [name for name in norms if len(stacks) == 1 or re.search(own, name.removeprefix(path))]
        norms = [f"{path}norm"] if f"{path}norm.weight" in state.tensors else norms
        if len(norms) > 1:
            raise CheckpointError(
                "{file} holds several norms outside of its layers ({norms}): name the one behind the last layer "
                "norm.weight, in the stack",
                file=state.name,
                norms=", ".join(norms[:3]),
            )
        paths[stack] = norms[0] if norms else ""
    return paths


def _sides(state: State, embeddings: list[str], decoder: str) -> tuple[str, str]:
    """Names of the source's and the target's embedding.

    Raises:
        CheckpointError: they cannot be told apart.
    """
    if len(embeddings) == 1:
        return embeddings[0], embeddings[0]
    sources = [name for name in embeddings if re.search(SOURCES, name) and not re.search(r"tgt|trg|target", name)]
    targets = [name for name in embeddings if name not in sources and re.search(TARGETS, name)]
    if not decoder or len(embeddings) > 2 or len(sources) != 1 or len(targets) != 1:
        raise CheckpointError(
            "{file} holds several matrices that may be embeddings ({embeddings}): name them src_embedding.weight "
            "and tgt_embedding.weight",
            file=state.name,
            embeddings=", ".join(embeddings[:4]),
        )
    return sources[0], targets[0]


def _bias(weight: str) -> str:
    return f"{weight.removesuffix('weight')}bias" if weight.endswith("weight") else f"{weight}.bias"


def _is_matrix(state: State, name: str, width: int) -> bool:
    shape = tuple(state.tensors[name].shape)
    return len(shape) == 2 and shape[1] == width and shape[0] > 0


def _is_table(state: State, name: str, width: int) -> bool:
    """True if a tensor is a table of positions, by its name and its width."""
    shape = tuple(size for size in state.tensors[name].shape if size != 1)
    return bool(re.search(r"(^|[._])(pos|pe$|pe\.|position)", name.lower())) and len(shape) == 2 and shape[1] == width


def flat_table(table: Tensor) -> Tensor:
    """Table (position, d_model) without dimensions of a batch."""
    return table.reshape(-1, table.shape[-1])
