"""State dicts of nanochat (Karpathy, 2025), whose networks transformers runs."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from model.checkpoints.convert.state_dict import Choices, Layout, State
from model.runtime.errors import CheckpointError

ANCHOR = "transformer.h.0.attn.c_q.weight"
# Parts that nanochat has had since January 2026, and transformers' class has not.
NEWER = re.compile(r"(.*\.)?(resid_lambdas|x0_lambdas|value_embeds|ve_gate|smear_gate|smear_lambda|backout_lambda)\b")
TABLE = {"model.embed_tokens.weight": "transformer.wte.weight", "lm_head.weight": "lm_head.weight"}
LAYER = {
    "self_attn.q_proj": "attn.c_q",
    "self_attn.k_proj": "attn.c_k",
    "self_attn.v_proj": "attn.c_v",
    "self_attn.o_proj": "attn.c_proj",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}


def nanochat(state_dict: State) -> Layout | None:
    """Layout of nanochat before January 2026; None: it is none. Norms have no weights, the embeddings one too; queries
    and keys are normalised, units are squares of a ReLU, and logits end at ±15.

    Raises:
        CheckpointError: tensors are missing, of other shapes or beyond the layout.
    """
    state = state_dict.below(ANCHOR)
    if state is None:
        return None
    if newer := [name for name in state.tensors if NEWER.match(name)]:
        raise CheckpointError(
            "{file} is a nanochat of 2026, whose {newer} ({count} such tensors) nothing here computes: its "
            "tensors can be looked at under Checkpoints → Read",
            file=state.name,
            newer=newer[0],
            count=len(newer),
        )
    layers = state.layers(r"transformer\.h\.(\d+)\.")
    names = dict(TABLE)
    for layer in range(layers):
        at = f"{layer}.{{}}.weight"
        names |= {f"model.layers.{at}".format(ours): f"transformer.h.{at}".format(own) for ours, own in LAYER.items()}
    state.require_names(names.values(), "nanochat")
    choices = Choices(state, [])
    rows, width = state.shape("transformer.wte.weight")
    state.require_words("lm_head.weight", "transformer.wte.weight")
    (queries, _), (keys, _) = state.shape(ANCHOR), state.shape("transformer.h.0.attn.c_k.weight")
    length = choices.count(("sequence_len",), 2048, "texts of at most 2,048 tokens")
    words = min(rows, choices.count(("vocab_size",), rows))  # more rows only fill the matrix up
    heads = state.n_heads(width)
    if queries != width or keys % (width // heads):
        raise CheckpointError(
            "{file}: queries of {queries} and keys of {keys} channels cannot have {heads} heads",
            file=state.name,
            queries=queries,
            keys=keys,
            heads=heads,
        )
    settings = {
        "model_type": "nanochat",
        "architectures": ["NanoChatForCausalLM"],
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": state.shape("transformer.h.0.mlp.c_fc.weight")[0],
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys // (width // heads),
        "max_position_embeddings": length,
        "rms_norm_eps": torch.finfo(torch.float32).eps,  # F.rms_norm's own
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": False,
    }
    weights: dict[str, Tensor] = {ours: state.tensors[own] for ours, own in names.items()}
    weights |= {name: weights[name][:words] for name in TABLE}
    return Layout("nanochat", None, weights, tuple(choices.assumed), state.open_heads, settings)
