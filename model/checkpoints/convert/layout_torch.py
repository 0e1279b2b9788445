"""State dicts of models around torch.nn.Transformer and torch.nn.TransformerEncoder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.convert.state_dict import Layout, State, config_of
from model.checkpoints.convert.weight_map import Rows, Table, WeightSource, below, weight_map
from model.network.config import TransformerConfig
from model.network.positions import sinusoidal
from model.runtime.errors import CheckpointError

FIRST_LAYER = "layers.0.self_attn.in_proj_weight"
STACK = rf"(.*?){re.escape(FIRST_LAYER)}$"
OUTPUTS = r"generator|logit|head|fc_out|output|proj|linear|classifier|unembed|(^|\.)(fc|out|decoder)\.weight$"
SOURCES, TARGETS = r"src|source|enc|input", r"tgt|trg|target|dec|output"
BUFFERS = r"(^|[._])(pe|pos\w*|position\w*|mask)(\.|$)"  # and tables of positions, which `_around` has found
LENGTH = 512  # positions where no table says how many
RAN_TO = 4096  # of a longer table of sines only so many are kept ready


@dataclass(frozen=True)
class _Found:
    """The names around the stacks: of embeddings, output and tables of positions; decoder: "" where there is none."""

    encoder: str
    decoder: str
    source: str
    target: str
    output: str
    tables: tuple[str, ...]
    sines: bool
    length: int


def torch_transformer(state: State) -> Layout | None:
    """Its layers are torch's. Everything around them is found by shapes and names: embeddings as wide as the layers, an
    output to as many tokens, a table of positions. What no tensor says is taken as torch has it unless the file or a
    config.json beside it says norm_first, activation, scale_embedding.
    """
    stacks = sorted({match[1] for name in state.tensors if (match := re.match(STACK, name))})
    decoders = [stack for stack in stacks if f"{stack}layers.0.multihead_attn.in_proj_weight" in state.tensors]
    encoders = [stack for stack in stacks if stack not in decoders]
    if len(encoders) != 1 or len(decoders) > 1:
        return None
    found = _around(state, encoders[0], decoders[0] if decoders else "")
    first, choices = f"{found.encoder}layers.0.", _Choices(state, [])
    hidden, width = state.shape(f"{first}linear1.weight")
    bias, last = f"{first}self_attn.in_proj_bias" in state.tensors, f"{found.encoder}norm.weight" in state.tensors
    pre = choices.of(("norm_first", "pre_norm"), (False, True), "norms behind each block")
    if pre and not last:
        raise CheckpointError(
            f"{state.name} has its norms before each block and none at the end of a stack, which ours cannot be"
        )
    scaling = (True, False) if found.sines else (False, True)
    how = "embeddings times √d_model" if found.sines else "embeddings as they are"
    if not found.decoder:
        choices.assumed.append("every token sees every other (a causal mask is in no tensor)")
    positions, assumed = state.positions() if not found.tables else ("sinusoidal" if found.sines else "learned", ())
    choices.assumed.extend(assumed)
    config = _config(
        state,
        found,
        d_model=width,
        n_heads=state.n_heads(width),
        d_ff=hidden,
        dropout=0.0,
        max_length=found.length,
        position=positions,
        norm_placement="pre" if pre else "post",
        last_norm=last and not pre,
        activation=choices.of(("activation", "act"), ("relu", "gelu"), "relu in the feed-forward networks"),
        scale_embedding=choices.of(("scale_embedding",), scaling, how),
        bias=bias,
        output_head="linear" if found.output else "none",
        output_bias=_bias(found.output) in state.tensors,
    )
    plan = weight_map(config, _table(found), state.tensors)
    state.require_all_used(plan, "a model around torch.nn.Transformer", BUFFERS)
    asked = state.open_heads | ({} if found.tables else {"positions": positions})
    return Layout("torch.nn.Transformer", config, state.weights(plan), tuple(choices.assumed), asked)


@dataclass(frozen=True)
class _Choices:
    """What no tensor says: by a name in the file or beside it, else as torch has it, which is then `assumed`."""

    state: State
    assumed: list[str]

    def of(self, names: tuple[str, ...], possible: tuple[Any, ...], usual: str) -> Any:
        """One of the possible values, the first unless another is said. usual: what the first one means."""
        value = self.state.said(*names)
        if value in possible:
            return value
        self.assumed.append(f"{usual} ({names[0]} is not said)")
        return possible[0]


def _config(state: State, found: _Found, **options: Any) -> TransformerConfig:
    counts = {stack: state.layers(re.escape(path) + r"layers\.(\d+)\.") for stack, path in _stacks(found).items()}
    source, tied = state.shape(found.source)[0], state.tied(found.source, found.target, found.output)
    if not found.decoder:
        one = {"kind": "encoder-only", "vocabulary": source, "n_layers": counts["encoder"]}
        return config_of(state.name, **one, tied_embeddings="output" if tied == "all" else "none", **options)
    sizes = {"source_vocabulary": source, "target_vocabulary": state.shape(found.target)[0]}
    layers = {"n_encoder_layers": counts["encoder"], "n_decoder_layers": counts["decoder"]}
    return config_of(state.name, **sizes, **layers, tied_embeddings=tied, **options)


def _stacks(found: _Found) -> dict[str, str]:
    return {"encoder": found.encoder} | ({"decoder": found.decoder} if found.decoder else {})


def _table(found: _Found) -> Table:
    """Tables of positions are the stacks' own, or one for both."""
    table: dict[str, str | WeightSource] = {"output.logits.weight": found.output}
    table["output.logits.bias"] = _bias(found.output)
    attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
    blocks = {"encoder": ("self_attention", "feed_forward"), "decoder": (*attentions, "feed_forward")}
    embeddings = {"encoder": found.source, "decoder": found.target}
    positions = {"encoder": found.tables[:1], "decoder": found.tables[-1:]}
    for stack, path in _stacks(found).items():
        layer: dict[str, str | WeightSource] = {"feed_forward.hidden": "linear1", "feed_forward.output": "linear2"}
        for number, block in enumerate(blocks[stack], start=1):
            layer[f"{block}_block.norm"] = f"norm{number}"
        for ours, theirs in attentions.items():
            for part, name in enumerate(("query", "key", "value")):
                for kind in ("weight", "bias"):
                    layer[f"{ours}.{name}.{kind}"] = WeightSource((f"{theirs}.in_proj_{kind}",), Rows(part))
            layer[f"{ours}.output"] = f"{theirs}.out_proj"
        table |= {
            f"{stack}.embedding.tokens.weight": embeddings[stack],
            f"{stack}.embedding.positions.table": WeightSource(positions[stack], _flat),
            **below(f"{stack}.layers.{{}}.", f"{path}layers.{{}}.", layer),
            f"{stack}.norm": f"{path}norm",
        }
    return table


def _around(state: State, encoder: str, decoder: str) -> _Found:
    """
    Raises:
        CheckpointError: there are no embeddings, or it cannot be told whose they are.
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
            f"{state.name} holds the layers of torch.nn.Transformer without embeddings: save the state_dict of the "
            "whole model to compute with it; its tensors can be looked at under Checkpoints → Read"
        )
    source, target = _sides(state, embeddings, decoder)
    outputs = [name for name in outputs if state.shape(name)[0] == state.shape(target)[0]]
    if len(outputs) > 1 or (decoder and not outputs):
        listed = ", ".join(outputs[:3]) or "0"
        raise CheckpointError(
            f"{state.name} holds torch.nn.Transformer without a single output to the target's tokens ({listed}): name "
            "one generator.weight"
        )
    shapes = [tuple(_flat(state.tensors[name]).shape) for name in tables]
    sines = not tables or all(_is_sinusoidal(state, name) for name in tables)
    length = min([shape[0] for shape in shapes], default=LENGTH)
    output = outputs[0] if outputs else ""
    return _Found(
        encoder, decoder, source, target, output, tuple(tables), sines, min(length, RAN_TO) if sines else length
    )


def _sides(state: State, embeddings: list[str], decoder: str) -> tuple[str, str]:
    if len(embeddings) == 1:
        return embeddings[0], embeddings[0]
    sources = [name for name in embeddings if re.search(SOURCES, name) and not re.search(r"tgt|trg|target", name)]
    targets = [name for name in embeddings if name not in sources and re.search(TARGETS, name)]
    if not decoder or len(embeddings) > 2 or len(sources) != 1 or len(targets) != 1:
        raise CheckpointError(
            f"{state.name} holds several matrices that may be embeddings ({', '.join(embeddings[:4])}): name them "
            "src_embedding.weight and tgt_embedding.weight"
        )
    return sources[0], targets[0]


def _bias(weight: str) -> str:
    return f"{weight.removesuffix('weight')}bias" if weight.endswith("weight") else f"{weight}.bias"


def _is_matrix(state: State, name: str, width: int) -> bool:
    shape = tuple(state.tensors[name].shape)
    return len(shape) == 2 and shape[1] == width and shape[0] > 0


def _is_table(state: State, name: str, width: int) -> bool:
    """Of positions: by its name, and as wide as the model."""
    shape = tuple(size for size in state.tensors[name].shape if size != 1)
    return bool(re.search(r"(^|[._])(pos|pe$|pe\.|position)", name.lower())) and len(shape) == 2 and shape[1] == width


def _flat(table: Tensor) -> Tensor:
    """Without the dimensions of a batch."""
    return table.reshape(-1, table.shape[-1])


def _is_sinusoidal(state: State, name: str) -> bool:
    table = _flat(state.tensors[name])
    length = min(len(table), RAN_TO)
    if table.shape[1] % 2:
        return False
    return bool(torch.allclose(table[:length].double(), sinusoidal(length, table.shape[1]), atol=1e-3))
