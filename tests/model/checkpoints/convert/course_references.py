"""What the programs of courses compute, written from their definitions as functions of a state dict by its names."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from tests.model.checkpoints.convert.layout_references import sines

D, HIDDEN, WORDS, LENGTH, HEADS, LAYERS = 16, 24, 19, 20, 4, 2


class Weights(dict):
    """State dict whose linear layers and norms are called by their names."""

    def linear(self, name, x):
        return F.linear(x, self[f"{name}.weight"], self.get(f"{name}.bias"))

    def norm(self, name, x, scale="weight", shift="bias", eps=1e-5):
        return F.layer_norm(x, (x.shape[-1],), self[f"{name}.{scale}"], self[f"{name}.{shift}"], eps)

    def rms(self, name, x, eps):
        return x * (x * x).mean(-1, keepdim=True).add(eps).rsqrt() * self[f"{name}.weight"]


def drawn(*shapes, seed=0):
    """Weights of these shapes by name, with a number around 1 for each scale of a norm; and masks."""
    chance, state = torch.Generator().manual_seed(seed), Weights()
    for name, shape in (pair for each in shapes for pair in each.items()):
        scale = len(shape) == 1 and name.endswith(("weight", "scale", "gamma"))
        state[name] = 0.3 * torch.randn(shape, generator=chance) + scale
        if name.endswith(("mask", "tril")):
            state[name] = torch.ones(shape).tril()
    return state


def linear(name, out, into, bias=True):
    return {f"{name}.weight": (out, into)} | ({f"{name}.bias": (out,)} if bias else {})


def norm(name, scale="weight", shift="bias"):
    return {f"{name}.{part}": (D,) for part in (scale, shift) if part}


def heads_of(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attend(query, key, value, causal, scale=None):
    """Of (batch, head, token, channel); keys and values of fewer heads are shared."""
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
    scores = query @ key.mT * (scale or query.shape[-1] ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


def rotated(x, base=10000.0, channels=None, neighbours=False, backwards=False):
    """Each pair of channels turned by its angle, as complex numbers; pairs stand half a head apart or side by side."""
    channels = channels or x.shape[-1]
    turned, rest = x[..., :channels], x[..., channels:]
    angle = torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(0, channels, 2) / channels)
    turn = torch.polar(torch.ones_like(angle), -angle if backwards else angle)
    pairs = turned.unflatten(-1, (-1, 2)) if neighbours else turned.unflatten(-1, (2, -1)).mT
    pairs = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    return torch.cat([(pairs if neighbours else pairs.mT).flatten(-2), rest], -1)


# LLMs-from-scratch.


def raschka_weights(qkv_bias=False, groups=HEADS, out_bias=True):
    shapes = {"tok_emb.weight": (WORDS, D), "pos_emb.weight": (LENGTH, D), "out_head.weight": (WORDS, D)}
    shapes |= norm("final_norm", "scale", "shift")
    for at in (f"trf_blocks.{layer}." for layer in range(LAYERS)):
        shapes |= linear(f"{at}att.W_query", D, D, qkv_bias) | linear(f"{at}att.out_proj", D, D, out_bias)
        shapes |= linear(f"{at}att.W_key", groups * D // HEADS, D, qkv_bias)
        shapes |= linear(f"{at}att.W_value", groups * D // HEADS, D, qkv_bias)
        shapes |= linear(f"{at}ff.layers.0", 4 * D, D) | linear(f"{at}ff.layers.2", D, 4 * D)
        shapes |= norm(f"{at}norm1", "scale", "shift") | norm(f"{at}norm2", "scale", "shift")
        shapes |= {f"{at}att.mask": (LENGTH, LENGTH)}
    return drawn(shapes)


def raschka(w, ids):
    x = w["tok_emb.weight"][ids] + w["pos_emb.weight"][: ids.shape[1]]
    for at in (f"trf_blocks.{layer}." for layer in range(LAYERS)):
        y = w.norm(f"{at}norm1", x, "scale", "shift")
        query, key, value = (w.linear(f"{at}att.W_{name}", y) for name in ("query", "key", "value"))
        width = D // HEADS
        parts = (each.unflatten(-1, (-1, width)).transpose(1, 2) for each in (query, key, value))
        x = x + w.linear(f"{at}att.out_proj", attend(*parts, causal=True))
        y = w.linear(f"{at}ff.layers.0", w.norm(f"{at}norm2", x, "scale", "shift"))
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + w.linear(f"{at}ff.layers.2", y)
    return w.linear("out_head", w.norm("final_norm", x, "scale", "shift"))


# The GPT of the lecture.


def lecture_weights():
    shapes = {"token_embedding_table.weight": (WORDS, D), "position_embedding_table.weight": (LENGTH, D)}
    shapes |= norm("ln_f") | linear("lm_head", WORDS, D)
    for at in (f"blocks.{layer}." for layer in range(LAYERS)):
        for head in range(HEADS):
            shapes |= {f"{at}sa.heads.{head}.tril": (LENGTH, LENGTH)}
            for name in ("key", "query", "value"):
                shapes |= linear(f"{at}sa.heads.{head}.{name}", D // HEADS, D, False)
        shapes |= linear(f"{at}sa.proj", D, D) | linear(f"{at}ffwd.net.0", 4 * D, D)
        shapes |= linear(f"{at}ffwd.net.2", D, 4 * D) | norm(f"{at}ln1") | norm(f"{at}ln2")
    return drawn(shapes)


def lecture(w, ids):
    x = w["token_embedding_table.weight"][ids] + w["position_embedding_table.weight"][: ids.shape[1]]
    for at in (f"blocks.{layer}." for layer in range(LAYERS)):
        y, found = w.norm(f"{at}ln1", x), []
        for head in range(HEADS):
            parts = (w.linear(f"{at}sa.heads.{head}.{name}", y)[:, None] for name in ("query", "key", "value"))
            found.append(attend(*parts, causal=True))
        x = x + w.linear(f"{at}sa.proj", torch.cat(found, -1))
        x = x + w.linear(f"{at}ffwd.net.2", w.linear(f"{at}ffwd.net.0", w.norm(f"{at}ln2", x)).relu())
    return w.linear("lm_head", w.norm("ln_f", x))


# hyunwoongko/transformer.

PAIRS = {"encoder": ("attention",), "decoder": ("self_attention", "enc_dec_attention")}


def hyunwoongko_weights(table):
    shapes = linear("decoder.linear", WORDS, D)
    for stack, attentions in PAIRS.items():
        shapes |= {f"{stack}.emb.tok_emb.weight": (WORDS, D)}
        for at in (f"{stack}.layers.{layer}." for layer in range(LAYERS)):
            for name in (
                f"{at}{attention}.{part}" for attention in attentions for part in "w_q w_k w_v w_concat".split()
            ):
                shapes |= linear(name, D, D)
            shapes |= linear(f"{at}ffn.linear1", HIDDEN, D) | linear(f"{at}ffn.linear2", D, HIDDEN)
            for number in range(len(attentions) + 1):
                shapes |= norm(f"{at}norm{number + 1}", "gamma", "beta")
    state = drawn(shapes)
    if table:
        state |= {f"{stack}.emb.pos_emb.encoding": sines(LENGTH, D) for stack in PAIRS}
    return state


def hyunwoongko(w, source, target):
    states = None
    for stack, attentions in PAIRS.items():
        ids = source if stack == "encoder" else target
        x = w[f"{stack}.emb.tok_emb.weight"][ids] + sines(LENGTH, D)[: ids.shape[1]]
        for at in (f"{stack}.layers.{layer}." for layer in range(LAYERS)):
            for number, attention in enumerate(attentions):
                read = states if number else x
                parts = zip("qkv", (x, read, read), strict=True)
                parts = [heads_of(w.linear(f"{at}{attention}.w_{name}", each), HEADS) for name, each in parts]
                y = w.linear(f"{at}{attention}.w_concat", attend(*parts, causal=attention == "self_attention"))
                x = w.norm(f"{at}norm{number + 1}", x + y, "gamma", "beta", 1e-12)
            y = w.linear(f"{at}ffn.linear2", w.linear(f"{at}ffn.linear1", x).relu())
            x = w.norm(f"{at}norm{len(attentions) + 1}", x + y, "gamma", "beta", 1e-12)
        states = x
    return w.linear("decoder.linear", states)


# jadore801120/attention-is-all-you-need-pytorch.

WORDS_OF = {"encoder": "src_word_emb", "decoder": "trg_word_emb"}
ATTENTIONS = {"encoder": ("slf_attn",), "decoder": ("slf_attn", "enc_attn")}


def jadore801120_weights(shared, width=D):
    """width: of all heads together."""
    shapes = {"trg_word_prj.weight": (WORDS, D)}
    for stack, attentions in ATTENTIONS.items():
        shapes |= {f"{stack}.{WORDS_OF[stack]}.weight": (WORDS, D)} | norm(f"{stack}.layer_norm")
        for at in (f"{stack}.layer_stack.{layer}." for layer in range(LAYERS)):
            for attention in attentions:
                for part in ("w_qs", "w_ks", "w_vs"):
                    shapes |= linear(f"{at}{attention}.{part}", width, D, False)
                shapes |= linear(f"{at}{attention}.fc", D, width, False) | norm(f"{at}{attention}.layer_norm")
            shapes |= linear(f"{at}pos_ffn.w_1", HIDDEN, D) | linear(f"{at}pos_ffn.w_2", D, HIDDEN)
            shapes |= norm(f"{at}pos_ffn.layer_norm")
    state = drawn(shapes) | {f"{stack}.position_enc.pos_table": sines(LENGTH, D)[None] for stack in ATTENTIONS}
    if shared:
        for name in ("decoder.trg_word_emb.weight", "encoder.src_word_emb.weight"):
            state[name] = state["trg_word_prj.weight"]
    return Weights(state)


def jadore801120(w, source, target, scaled="none"):
    states = None
    for stack, attentions in ATTENTIONS.items():
        ids = source if stack == "encoder" else target
        x = w[f"{stack}.{WORDS_OF[stack]}.weight"][ids] * (math.sqrt(D) if scaled == "emb" else 1)
        x = w.norm(f"{stack}.layer_norm", x + sines(LENGTH, D)[: ids.shape[1]], eps=1e-6)
        for at in (f"{stack}.layer_stack.{layer}." for layer in range(LAYERS)):
            for attention in attentions:
                read = states if attention == "enc_attn" else x
                parts = zip("qkv", (x, read, read), strict=True)
                parts = [heads_of(w.linear(f"{at}{attention}.w_{name}s", each), HEADS) for name, each in parts]
                y = w.linear(f"{at}{attention}.fc", attend(*parts, stack == "decoder" and attention == "slf_attn"))
                x = w.norm(f"{at}{attention}.layer_norm", x + y, eps=1e-6)
            y = w.linear(f"{at}pos_ffn.w_2", w.linear(f"{at}pos_ffn.w_1", x).relu())
            x = w.norm(f"{at}pos_ffn.layer_norm", x + y, eps=1e-6)
        states = x
    return w.linear("trg_word_prj", states) / (math.sqrt(D) if scaled == "prj" else 1)


# nanochat before January 2026.


def nanochat_weights(groups=HEADS):
    shapes = {"transformer.wte.weight": (WORDS, D), "lm_head.weight": (WORDS, D)}
    for at in (f"transformer.h.{layer}." for layer in range(LAYERS)):
        shapes |= {f"{at}attn.{name}.weight": (D, D) for name in ("c_q", "c_proj")}
        shapes |= {f"{at}attn.{name}.weight": (groups * D // HEADS, D) for name in ("c_k", "c_v")}
        shapes |= linear(f"{at}mlp.c_fc", 4 * D, D, False) | linear(f"{at}mlp.c_proj", D, 4 * D, False)
    return drawn(shapes)


def nanochat(w, ids):
    def unit(x):
        return x / (x.square().mean(-1, keepdim=True) + torch.finfo(torch.float32).eps).sqrt()

    x = unit(w["transformer.wte.weight"][ids])
    for at in (f"transformer.h.{layer}." for layer in range(LAYERS)):
        y = unit(x)
        parts = [w.linear(f"{at}attn.c_{name}", y).unflatten(-1, (-1, D // HEADS)).transpose(1, 2) for name in "qkv"]
        query, key = (unit(rotated(each, backwards=True)) for each in parts[:2])
        x = x + w.linear(f"{at}attn.c_proj", attend(query, key, parts[2], causal=True))
        x = x + w.linear(f"{at}mlp.c_proj", w.linear(f"{at}mlp.c_fc", unit(x)).relu().square())
    return 15 * torch.tanh(w.linear("lm_head", unit(x)) / 15)


# Llama in Meta's names.


def meta_weights(groups=2, tied=False):
    shapes = {"tok_embeddings.weight": (WORDS, D), "norm.weight": (D,), "output.weight": (WORDS, D)}
    for at in (f"layers.{layer}." for layer in range(LAYERS)):
        shapes |= {f"{at}attention.{name}.weight": (D, D) for name in ("wq", "wo")}
        shapes |= {f"{at}attention.{name}.weight": (groups * D // HEADS, D) for name in ("wk", "wv")}
        shapes |= linear(f"{at}feed_forward.w1", HIDDEN, D, False) | linear(f"{at}feed_forward.w3", HIDDEN, D, False)
        shapes |= linear(f"{at}feed_forward.w2", D, HIDDEN, False)
        shapes |= {f"{at}{name}_norm.weight": (D,) for name in ("attention", "ffn")}
    state = drawn(shapes)
    if tied:
        del state["output.weight"]
    return state


def meta(w, ids, base=10000.0, eps=1e-5):
    x = w["tok_embeddings.weight"][ids]
    for at in (f"layers.{layer}." for layer in range(LAYERS)):
        y = w.rms(f"{at}attention_norm", x, eps)
        parts = [
            w.linear(f"{at}attention.w{name}", y).unflatten(-1, (-1, D // HEADS)).transpose(1, 2) for name in "qkv"
        ]
        query, key = (rotated(each, base, neighbours=True) for each in parts[:2])
        x = x + w.linear(f"{at}attention.wo", attend(query, key, parts[2], causal=True))
        y = w.rms(f"{at}ffn_norm", x, eps)
        gate = F.silu(w.linear(f"{at}feed_forward.w1", y))
        x = x + w.linear(f"{at}feed_forward.w2", gate * w.linear(f"{at}feed_forward.w3", y))
    return F.linear(w.rms("norm", x, eps), w.get("output.weight", w["tok_embeddings.weight"]))


# litgpt, as its model_config.yaml says.


def litgpt_weights(config):
    bias, heads, groups = config["bias"], config["n_head"], config["n_query_groups"]
    head = D // heads
    shift = "bias" if config["norm_class_name"] == "LayerNorm" else ""
    shapes = {"transformer.wte.weight": (WORDS, D), "lm_head.weight": (WORDS, D)} | norm(
        "transformer.ln_f", shift=shift
    )
    for at in (f"transformer.h.{layer}." for layer in range(LAYERS)):
        shapes |= linear(f"{at}attn.qkv", (heads + 2 * groups) * head, D, bias) | linear(f"{at}attn.proj", D, D, bias)
        names = ["fc"] if config["mlp_class_name"] == "GptNeoxMLP" else ["fc_1", "fc_2"]
        for name in names:
            shapes |= linear(f"{at}mlp.{name}", HIDDEN, D, bias)
        shapes |= linear(f"{at}mlp.proj", D, HIDDEN, bias) | norm(f"{at}norm_1", shift=shift)
        shapes |= {} if config["shared_attention_norm"] else norm(f"{at}norm_2", shift=shift)
    return drawn(shapes)


def litgpt(w, ids, config):
    heads, groups = config["n_head"], config["n_query_groups"]
    head, eps = D // heads, config["norm_eps"]

    def normal(name, x):
        if config["norm_class_name"] == "LayerNorm":
            return w.norm(name, x, eps=eps)
        return Weights({f"{name}.weight": w[f"{name}.weight"] + ("Gemma" in config["name"])}).rms(name, x, eps)

    x = w["transformer.wte.weight"][ids] * (math.sqrt(D) if config["scale_embeddings"] else 1)
    for at in (f"transformer.h.{layer}." for layer in range(LAYERS)):
        y = normal(f"{at}norm_1", x)
        rows = w.linear(f"{at}attn.qkv", y).unflatten(-1, (-1, head)).transpose(1, 2)
        query, key, value = rows.split((heads, groups, groups), 1)
        channels = int(config["rotary_percentage"] * head)
        query, key = (rotated(each, config["rope_base"], channels) for each in (query, key))
        written = w.linear(f"{at}attn.proj", attend(query, key, value, causal=True))
        z = x if config["parallel_residual"] else x + written
        z = y if config["shared_attention_norm"] else normal(f"{at}norm_2", z)
        if config["mlp_class_name"] == "GptNeoxMLP":
            units = F.gelu(w.linear(f"{at}mlp.fc", z), approximate=config["gelu_approximate"])
        else:
            gate = F.silu if config["mlp_class_name"] == "LLaMAMLP" else F.gelu
            units = gate(w.linear(f"{at}mlp.fc_1", z)) * w.linear(f"{at}mlp.fc_2", z)
        x = x + written + w.linear(f"{at}mlp.proj", units)
    return w.linear("lm_head", normal("transformer.ln_f", x))
