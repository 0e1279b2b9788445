"""State dicts of the Annotated Transformer (Rush, 2018; Huang et al., 2022) and of those who wrote theirs after it."""

from __future__ import annotations

from model.foreign.pieces import Plan, modules, tensor
from model.foreign.state import Layout, State, config_of

ANCHOR = "encoder.layers.0.self_attn.linears.0.weight"
SOURCE, TARGET, OUTPUT = "src_embed.0.lut.weight", "tgt_embed.0.lut.weight", "generator.proj.weight"
LENGTH = 5000  # positions of its table, which older files hold
LINEARS = ("query", "key", "value", "output")


def annotated(given: State) -> Layout | None:
    """Pre-norm with the textbook's norm (the sample deviation, to which ε = 1e-6 is added), sinusoidal positions."""
    state = given.below(ANCHOR)
    if state is None:
        return None
    (source, width), (target, _) = state.shape(SOURCE), state.shape(TARGET)
    layers = {stack: state.layers(rf"{stack}\.layers\.(\d+)\.") for stack in ("encoder", "decoder")}
    heads, hidden = state.n_heads(width), state.shape("encoder.layers.0.feed_forward.w_1.weight")[0]
    table = "src_embed.1.pe" in state.tensors
    length = state.shape("src_embed.1.pe", 3)[1] if table else LENGTH
    positions, assumed = state.positions() if not table else ("sinusoidal", ())
    plan = _plan(layers["encoder"], layers["decoder"])
    state.require_all_used(plan, "an Annotated Transformer", r"_embed\.1\.pe$")
    config = config_of(
        state.name,
        source_vocabulary=source,
        target_vocabulary=target,
        d_model=width,
        n_heads=heads,
        n_encoder_layers=layers["encoder"],
        n_decoder_layers=layers["decoder"],
        d_ff=hidden,
        dropout=0.0,
        position=positions,
        max_length=min(length, LENGTH),
        norm="textbook-sample",
        norm_placement="pre",
        norm_epsilon=1e-6,
        tied_embeddings=state.tied(SOURCE, TARGET, OUTPUT),
        output_bias=True,
    )
    choices = state.open_heads | ({} if table else {"positions": positions})
    return Layout("Annotated Transformer", config, state.taken(plan), assumed, choices)


def _plan(encoder: int, decoder: int) -> Plan:
    plan = tensor("encoder.embedding.tokens.weight", SOURCE) | tensor("decoder.embedding.tokens.weight", TARGET)
    plan |= modules("output.", "generator.", {"logits": "proj"}, bias=True)
    blocks = {
        "encoder": (encoder, {"self_attention": "self_attn"}),
        "decoder": (decoder, {"self_attention": "self_attn", "cross_attention": "src_attn"}),
    }
    for stack, (layers, attentions) in blocks.items():
        plan |= _norm(f"{stack}.norm", f"{stack}.norm")
        for layer in range(layers):
            path = f"{stack}.layers.{layer}."
            for place, (ours, theirs) in enumerate(attentions.items()):
                parts = {f"{ours}.{name}": f"{theirs}.linears.{number}" for number, name in enumerate(LINEARS)}
                plan |= modules(path, path, parts, bias=True)
                plan |= _norm(f"{path}{ours}_block.norm", f"{path}sublayer.{place}.norm")
            parts = {"feed_forward.hidden": "feed_forward.w_1", "feed_forward.output": "feed_forward.w_2"}
            plan |= modules(path, path, parts, bias=True)
            plan |= _norm(f"{path}feed_forward_block.norm", f"{path}sublayer.{len(attentions)}.norm")
    return plan


def _norm(ours: str, theirs: str) -> Plan:
    return tensor(f"{ours}.weight", f"{theirs}.a_2") | tensor(f"{ours}.bias", f"{theirs}.b_2")
