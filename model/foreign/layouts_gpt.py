"""State dicts of nanoGPT and of both of minGPT's forms: GPT-2 in torch's own linear layers."""

from __future__ import annotations

from model.foreign.pieces import modules, tensor, third
from model.foreign.state import Layout, State, config_of
from model.network.config import TransformerConfig

PACKED, FIRST_KEYS = "transformer.h.0.attn.c_attn.weight", "blocks.0.attn.key.weight"
KEPT_MASKS = r"\.attn\.(bias|masked_bias|mask)$"


def gpt(given: State) -> Layout | None:
    """nanoGPT, or minGPT since 2022: their names are the same. The latter's output is a matrix of its own.

    nanoGPT computes the exact GELU, minGPT GPT-2's approximation.
    """
    state = given.below("transformer.wte.weight")
    if state is None or PACKED not in state.tensors:
        return None
    vocabulary, width = state.shape("transformer.wte.weight")
    length, _ = state.shape("transformer.wpe.weight")
    layers = state.layers(r"transformer\.h\.(\d+)\.")
    tied = "lm_head.weight" not in state.tensors or state.same("transformer.wte.weight", "lm_head.weight")
    bias = "transformer.h.0.attn.c_attn.bias" in state.tensors
    plan = tensor("decoder.embedding.tokens.weight", "transformer.wte.weight")
    plan |= tensor("decoder.embedding.positions.table", "transformer.wpe.weight")
    plan |= tensor("output.logits.weight", "transformer.wte.weight" if tied else "lm_head.weight")
    plan |= modules("decoder.", "transformer.", {"norm": "ln_f"}, bias)
    for layer in range(layers):
        ours, theirs = f"decoder.layers.{layer}.", f"transformer.h.{layer}."
        for part, name in enumerate(("query", "key", "value")):
            packed = {f"self_attention.{name}": "attn.c_attn"}
            plan |= modules(ours, theirs, packed, bias, third(part), third(part))
        plan |= modules(ours, theirs, {"self_attention.output": "attn.c_proj"} | FEED_FORWARD | NORMS, bias)
    state.require_all_used(plan, "nanoGPT or minGPT", KEPT_MASKS + r"|^lm_head\.weight$")
    hidden = state.shape("transformer.h.0.mlp.c_fc.weight")[0]
    sizes = (vocabulary, layers, width, hidden, length)
    config = _config(state, sizes, tied, bias, "gelu" if tied else "gelu-tanh")
    return Layout("nanoGPT" if tied else "minGPT", config, state.taken(plan), open=state.open_heads)


FEED_FORWARD = {"feed_forward.hidden": "mlp.c_fc", "feed_forward.output": "mlp.c_proj"}
NORMS = {"self_attention_block.norm": "ln_1", "feed_forward_block.norm": "ln_2"}


def first_min_gpt(given: State) -> Layout | None:
    """minGPT of 2020: query, key and value apart, the exact GELU."""
    state = given.below("tok_emb.weight")
    if state is None or FIRST_KEYS not in state.tensors:
        return None
    vocabulary, width = state.shape("tok_emb.weight")
    _, length, _ = state.shape("pos_emb", 3)
    layers = state.layers(r"blocks\.(\d+)\.")
    plan = tensor("decoder.embedding.tokens.weight", "tok_emb.weight")
    plan |= tensor("decoder.embedding.positions.table", "pos_emb", lambda table: table[0])
    plan |= tensor("output.logits.weight", "head.weight")
    plan |= modules("decoder.", "", {"norm": "ln_f"}, bias=True)
    parts = {f"self_attention.{name}": f"attn.{name}" for name in ("query", "key", "value")}
    parts |= {"self_attention.output": "attn.proj", "feed_forward.hidden": "mlp.0", "feed_forward.output": "mlp.2"}
    parts |= {"self_attention_block.norm": "ln1", "feed_forward_block.norm": "ln2"}
    for layer in range(layers):
        plan |= modules(f"decoder.layers.{layer}.", f"blocks.{layer}.", parts, bias=True)
    state.require_all_used(plan, "minGPT", KEPT_MASKS)
    sizes = (vocabulary, layers, width, state.shape("blocks.0.mlp.0.weight")[0], length)
    config = _config(state, sizes, tied=False, bias=True, activation="gelu")
    return Layout("minGPT", config, state.taken(plan), open=state.open_heads)


def _config(
    state: State, sizes: tuple[int, int, int, int, int], tied: bool, bias: bool, activation: str
) -> TransformerConfig:
    vocabulary, layers, width, hidden, length = sizes
    heads = state.n_heads(width)
    return config_of(
        state.name,
        kind="decoder-only",
        vocabulary=vocabulary,
        n_layers=layers,
        d_model=width,
        n_heads=heads,
        d_ff=hidden,
        dropout=0.0,
        max_length=length,
        position="learned",
        norm_placement="pre",
        scale_embedding=False,
        activation=activation,
        tied_embeddings="output" if tied else "none",
        bias=bias,
    )
