"""State dicts of litgpt (Lightning AI), whose one class is GPT-NeoX, Llama or Gemma by its model_config.yaml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from model.checkpoints.convert.courses import BIASES, rotary_options
from model.checkpoints.convert.family import GATES
from model.checkpoints.convert.state_dict import Choices, Layout, State, config_of
from model.checkpoints.convert.weight_map import Layout as Place
from model.checkpoints.convert.weight_map import Table, WeightSource, below, one_more, source, weight_map
from model.network.config import Activation
from model.runtime.errors import CheckpointError

ANCHOR, OLDER = "transformer.h.0.attn.qkv.weight", "transformer.h.0.attn.attn.weight"
CONFIG = "model_config.yaml"
# Settings whose other values change what is computed in a way that ours is not.
OFF = (
    *("sliding_window_size", "attention_logit_softcapping", "final_logit_softcapping", "attention_scores_scalar"),
    *("norm_qk", "post_attention_norm", "post_mlp_norm", "rope_interleave", "n_expert", "rope_local_base_freq"),
    *("q_lora_rank", "rope_condense_ratio"),
)
FORMS = ("GptNeoxMLP", "LLaMAMLP", "GemmaMLP")
NORMS = {"LayerNorm": "layer", "RMSNorm": "rms"}


@dataclass(frozen=True)
class Span(Place):
    """Rows of the queries (part 0), keys or values of a matrix that holds all. sizes: rows of each. groups: in which
    they alternate, one after the other, in older files.
    """

    part: int
    sizes: tuple[int, int, int]
    groups: int = 1

    def __call__(self, tensor: Tensor) -> Tensor:
        sizes = [size // self.groups for size in self.sizes]
        parts: tuple[Tensor, ...] = tensor.unflatten(0, (self.groups, -1)).split(sizes, 1)
        return parts[self.part].flatten(0, 1)


def litgpt(state_dict: State) -> Layout | None:
    """Layout of litgpt; None: it is none.

    Raises:
        CheckpointError: its model_config.yaml is missing, or asks for what ours does not compute, or tensors are
            missing, of other shapes or beyond the layout.
    """
    state = state_dict.below(ANCHOR) or state_dict.below(OLDER)
    if state is None:
        return None
    if state.record("mlp_class_name") is None:
        raise CheckpointError(
            "{file} is of litgpt, and what it computes is in no tensor: put the model_config.yaml that litgpt "
            "writes beside it",
            file=state.name,
        )
    for name in OFF:
        if (value := state.record(name)) and (name, value) != ("rope_condense_ratio", 1):
            raise CheckpointError(
                "{file}: model_config.yaml says {name} {value!r}, which ours does not compute: convert it to "
                "Hugging Face's format (litgpt convert_from_litgpt) and open that folder",
                file=state.name,
                name=name,
                value=value,
            )
    choices = Choices(state, [])
    words, width = state.shape("transformer.wte.weight")
    heads = state.n_heads(width)
    head = choices.count(("head_size",), width // heads)
    groups = choices.count(("n_query_groups",), heads)
    options, table = _options(state, choices), _table(state, heads * head, groups * head, groups)
    turned = int(choices.number(("rotary_percentage",), 0.25) * head)
    config = config_of(
        state.name,
        kind="decoder-only",
        vocabulary=words,
        n_layers=state.layers(r"transformer\.h\.(\d+)\."),
        d_model=width,
        n_heads=heads,
        n_key_value_heads=None if groups == heads else groups,
        head_width=None if head * heads == width else head,
        dropout=0.0,
        max_length=choices.count(("block_size",), 4096),
        position="rotary",
        rotary_channels=None if turned == head else turned,
        norm_placement="pre",
        tied_embeddings="output" if state.same("transformer.wte.weight", "lm_head.weight") else "none",
        output_bias="lm_head.bias" in state.tensors,
        **options,
        **rotary_options(state, choices, 10000.0),
    )
    plan = weight_map(config, table, state.tensors)
    state.require_all_used(plan, "litgpt", r"(?!)")
    return Layout("litgpt", config, state.weights(plan), tuple(choices.assumed), state.open_heads)


def _options(state: State, choices: Choices) -> dict[str, Any]:
    """Options by the names of classes in the config."""
    form, norm = str(state.record("mlp_class_name")), str(state.record("norm_class_name") or "LayerNorm")
    if form not in FORMS or norm not in NORMS:
        raise CheckpointError(
            "{file}: model_config.yaml names {form}, which ours does not compute: convert it to Hugging Face's "
            "format (litgpt convert_from_litgpt) and open that folder",
            file=state.name,
            form=form if norm in NORMS else norm,
        )
    gelu: Activation = "gelu-tanh" if state.record("gelu_approximate") == "tanh" else "gelu"
    hidden = "transformer.h.0.mlp.fc_1" if form != "GptNeoxMLP" else "transformer.h.0.mlp.fc"
    attention = "transformer.h.0.attn"
    fused = "qkv" if ANCHOR in state.tensors else "attn"
    return {
        "norm": NORMS[norm],
        "norm_epsilon": choices.number(("norm_eps",), 1e-5),
        "activation": {"GptNeoxMLP": gelu, "LLaMAMLP": GATES["silu"], "GemmaMLP": GATES[gelu]}[form],
        "d_ff": state.shape(f"{hidden}.weight")[0],
        "bias": f"{hidden}.bias" in state.tensors,
        "attention_bias": BIASES[
            f"{attention}.{fused}.bias" in state.tensors, f"{attention}.proj.bias" in state.tensors
        ],
        "parallel": state.record("parallel_residual") is not False,
        "scale_embedding": state.record("scale_embeddings") is True,
    }


def _table(state: State, queries: int, keys: int, groups: int) -> Table:
    """Table of our names. queries, keys: rows of each. groups: number of heads of keys."""
    newer = ANCHOR in state.tensors
    packed = "attn.qkv" if newer else "attn.attn"
    gated = "transformer.h.0.mlp.fc_1.weight" in state.tensors
    shared = "transformer.h.0.norm_2.weight" not in state.tensors
    layer: dict[str, str | WeightSource] = {
        "self_attention.output": "attn.proj",
        "self_attention_block.norm": "norm_1",
        "feed_forward.hidden": "mlp.fc_1" if gated else "mlp.fc",
        "feed_forward.linear": "mlp.fc_2",
        "feed_forward.output": "mlp.proj",
        "feed_forward_block.norm": "norm_1" if shared else "norm_2",
    }
    for part, name in enumerate(("query", "key", "value")):
        span = Span(part, (queries, keys, keys), 1 if newer else groups)
        layer[f"self_attention.{name}"] = WeightSource((packed,), span)
    table: dict[str, str | WeightSource] = {
        "decoder.embedding.tokens": "transformer.wte",
        **below("decoder.layers.{}.", "transformer.h.{}.", layer),
        "decoder.norm": "transformer.ln_f",
        "output.logits": "lm_head",
    }
    if "Gemma" not in str(state.records.get("model_config.name")):
        return table
    return {ours: replace(source(row), make=one_more) if ours.endswith("norm") else row for ours, row in table.items()}
