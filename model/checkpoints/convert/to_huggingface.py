"""Which published family of Hugging Face computes exactly what a network of ours computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.network.attention import for_each_head
from model.network.config import Kind, TransformerConfig
from model.network.positions import POSITIONS
from model.network.transformer import Network
from model.runtime.errors import CheckpointError

# Decoder-only networks as GPT-2, Llama or GPT-NeoX of Hugging Face.


def gpt2_layers(own: Parameters, stack: str, prefix: str, cross: bool) -> Named:
    """Radford et al., 2019: matrices are transposed there, and query, key and value are one."""
    named: Named = {f"{prefix}.wte.weight": own.embedding(stack), f"{prefix}.wpe.weight": own.positions(stack)}
    put(named, own, [(f"{prefix}.ln_f", f"{stack}.norm")])
    for index in range(own.layers(stack)):
        ours, theirs = f"{stack}.layers.{index}", f"{prefix}.h.{index}"
        matrices = [
            (f"{theirs}.attn.c_attn", own.joined(ours, "self_attention", ("query", "key", "value"))),
            (f"{theirs}.attn.c_proj", own.module(f"{ours}.self_attention.output")),
            (f"{theirs}.mlp.c_fc", own.module(f"{ours}.feed_forward.hidden")),
            (f"{theirs}.mlp.c_proj", own.module(f"{ours}.feed_forward.output")),
        ]
        norms = [("ln_1", "self_attention_block.norm"), ("ln_2", "feed_forward_block.norm")]
        if cross:
            matrices += [
                (f"{theirs}.crossattention.q_attn", own.module(f"{ours}.cross_attention.query")),
                (f"{theirs}.crossattention.c_attn", own.joined(ours, "cross_attention", ("key", "value"))),
                (f"{theirs}.crossattention.c_proj", own.module(f"{ours}.cross_attention.output")),
            ]
            norms.append(("ln_cross_attn", "cross_attention_block.norm"))
        for name, (weight, bias) in matrices:
            linear(named, name, weight.T, bias)
        put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in norms])
    return named


def gpt2_config(own: Parameters) -> dict[str, Any]:
    config = own.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.target_vocabulary,
        "n_embd": config.d_model,
        "n_head": config.n_heads,
        "n_layer": config.n_decoder_layers,
        "n_inner": config.d_ff,
        "n_positions": config.max_length,
        "layer_norm_epsilon": config.norm_epsilon,
        "activation_function": ACTIVATIONS[config.activation],
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "tie_word_embeddings": own.tied,
    }


def gpt2(own: Parameters) -> Made:
    named = gpt2_layers(own, "decoder", "transformer", cross=False)
    return gpt2_config(own), named | ({} if own.tied else {"lm_head.weight": own.output()})


def llama(own: Parameters) -> Made:
    """Touvron et al., 2023."""
    config = own.config
    attention_bias, bias = any(config.attention_biases), config.bias
    named: Named = {"model.embed_tokens.weight": own.embedding("decoder")}
    named |= {"model.norm.weight": own["decoder.norm.weight"]}
    named |= {} if own.tied else {"lm_head.weight": own.output()}
    for index in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{index}", f"model.layers.{index}"
        for name, part in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            weight, zero = own.module(f"{ours}.self_attention.{part}", share=False)
            linear(named, f"{theirs}.self_attn.{name}_proj", weight, zero if attention_bias else None)
        for name, part in (("gate", "hidden"), ("up", "linear"), ("down", "output")):
            weight, zero = own.module(f"{ours}.feed_forward.{part}")
            linear(named, f"{theirs}.mlp.{name}_proj", weight, zero if bias else None)
        named[f"{theirs}.input_layernorm.weight"] = own[f"{ours}.self_attention_block.norm.weight"]
        named[f"{theirs}.post_attention_layernorm.weight"] = own[f"{ours}.feed_forward_block.norm.weight"]
    options = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.target_vocabulary,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_head,
        "num_hidden_layers": config.n_decoder_layers,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.position_base},
        "rope_theta": config.position_base,  # of transformers before version 5
        "hidden_act": "silu",
        "attention_bias": attention_bias,
        "mlp_bias": bias,
        "attention_dropout": config.attention_dropout,
        "tie_word_embeddings": own.tied,
    }
    return options, named


def gpt_neox(own: Parameters) -> Made:
    """Black et al., 2022: query, key and value of a head stand together, head by head."""
    config = own.config
    named: Named = {"gpt_neox.embed_in.weight": own.embedding("decoder")}
    put(named, own, [("gpt_neox.final_layer_norm", "decoder.norm")])
    named |= {} if own.tied else {"embed_out.weight": own.output()}
    for index in range(config.n_decoder_layers):
        ours, theirs = f"decoder.layers.{index}", f"gpt_neox.layers.{index}"
        parts = [own.module(f"{ours}.self_attention.{part}") for part in ("query", "key", "value")]
        joined = [
            torch.stack([each[place].unflatten(0, (config.n_heads, -1)) for each in parts], 1) for place in (0, 1)
        ]
        linear(named, f"{theirs}.attention.query_key_value", joined[0].flatten(0, 2), joined[1].flatten())
        names = [("attention.dense", "self_attention.output"), ("mlp.dense_h_to_4h", "feed_forward.hidden")]
        names += [("mlp.dense_4h_to_h", "feed_forward.output"), ("input_layernorm", "self_attention_block.norm")]
        names += [("post_attention_layernorm", "feed_forward_block.norm")]
        put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in names])
    share = (config.rotary_channels or config.d_head) / config.d_head
    options = {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "vocab_size": config.target_vocabulary,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.n_decoder_layers,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.max_length,
        "layer_norm_eps": config.norm_epsilon,
        "rotary_pct": share,
        "rotary_emb_base": config.position_base,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": config.position_base,
            "partial_rotary_factor": share,
        },
        "hidden_act": ACTIVATIONS[config.activation],
        "use_parallel_residual": config.parallel,
        "attention_bias": True,
        "attention_dropout": config.attention_dropout,
        "hidden_dropout": config.dropout,
        "tie_word_embeddings": own.tied,
    }
    return options, named


# Encoder-only networks as BERT of Hugging Face; pre-norm ones as Megatron's.


def bert_layers(own: Parameters, prefix: str) -> Named:
    """Devlin et al., 2019: the norms stand behind the blocks, and one on the embeddings."""
    named = _bert_embeddings(own, f"{prefix}embeddings")
    if own.config.embedding_norm:
        put(named, own, [(f"{prefix}embeddings.LayerNorm", "encoder.embedding.output.norm")])
    post = own.config.norm_placement == "post"
    for index in range(own.config.n_encoder_layers):
        ours, theirs = f"encoder.layers.{index}", f"{prefix}encoder.layer.{index}"
        norms = ("attention.output.LayerNorm", "output.LayerNorm") if post else ("attention.ln", "ln")
        names = [(f"attention.self.{part}", f"self_attention.{part}") for part in ("query", "key", "value")]
        names += [("attention.output.dense", "self_attention.output"), ("intermediate.dense", "feed_forward.hidden")]
        names += [("output.dense", "feed_forward.output"), (norms[0], "self_attention_block.norm")]
        names += [(norms[1], "feed_forward_block.norm")]
        put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in names])
    if not post:
        put(named, own, [(f"{prefix}encoder.ln", "encoder.norm")])
    return named


def _bert_embeddings(own: Parameters, prefix: str) -> Named:
    table = own.positions("encoder")
    return {
        f"{prefix}.word_embeddings.weight": own.embedding("encoder"),
        f"{prefix}.position_embeddings.weight": table,
        f"{prefix}.token_type_embeddings.weight": table.new_zeros(1, table.shape[1]),
    }


def pooler(own: Parameters) -> Named:
    """What theirs makes of the first token and ours does not: zeros, so that nothing of the model is by chance."""
    nothing = own["encoder.embedding.tokens.weight"].new_zeros(own.config.d_model, own.config.d_model)
    return {"pooler.dense.weight": nothing, "pooler.dense.bias": nothing[0]}


def bert_config(own: Parameters, name: str, model_type: str) -> dict[str, Any]:
    config = own.config
    return {
        "architectures": [name],
        "model_type": model_type,
        "vocab_size": config.source_vocabulary,
        "hidden_size": config.d_model,
        "num_attention_heads": config.n_heads,
        "num_hidden_layers": config.n_encoder_layers,
        "intermediate_size": config.d_ff,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": 1,
        "layer_norm_eps": config.norm_epsilon,
        "hidden_act": ACTIVATIONS[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "tie_word_embeddings": own.tied,
    }


def bert(own: Parameters) -> Made:
    pre = own.config.norm_placement == "pre"
    name, model_type = ("MegatronBert", "megatron-bert") if pre else ("Bert", "bert")
    if own.config.output_head != "transform":
        return bert_config(own, f"{name}Model", model_type), bert_layers(own, "") | pooler(own)
    named = bert_layers(own, "bert.")
    put(named, own, [("cls.predictions.transform.dense", "output.transform")])
    put(named, own, [("cls.predictions.transform.LayerNorm", "output.norm")])
    bias = own.module("output.logits")[1]
    named |= {"cls.predictions.bias": bias, "cls.predictions.decoder.bias": bias}
    named |= {} if own.tied else {"cls.predictions.decoder.weight": own.output()}
    return bert_config(own, f"{name}ForMaskedLM", model_type), named


# Encoder-decoder networks as Marian of Hugging Face; pre-norm ones as Megatron's BERT, at which a GPT-2 looks.


def marian(own: Parameters) -> Made:
    """Junczys-Dowmunt et al., 2018. Its curves have the sines first: ours, where they are mixed, change places."""
    config = own.config
    own = own.with_sines_first() if config.position == "sinusoidal" else own
    named: Named = {"lm_head.weight": own.output()}
    named["final_logits_bias"] = own.module("output.logits")[1][None]
    for stack in ("encoder", "decoder"):
        named[f"model.{stack}.embed_tokens.weight"] = own.embedding(stack, scaled=False)
        for index in range(own.layers(stack)):
            ours, theirs = f"{stack}.layers.{index}", f"model.{stack}.layers.{index}"
            attentions = {"self_attention": "self_attn"}
            attentions |= {"cross_attention": "encoder_attn"} if stack == "decoder" else {}
            names = [("fc1", "feed_forward.hidden"), ("fc2", "feed_forward.output")]
            names.append(("final_layer_norm", "feed_forward_block.norm"))
            for attention, name in attentions.items():
                names.append((f"{name}_layer_norm", f"{attention}_block.norm"))
                for letter, part in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
                    names.append((f"{name}.{letter}_proj", f"{attention}.{part}"))
            put(named, own, [(f"{theirs}.{name}", f"{ours}.{part}") for name, part in names])
    options = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocabulary,
        "decoder_vocab_size": config.target_vocabulary,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_length,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": config.scale_embedding,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "forced_eos_token_id": None,
    }
    return options, named


def bert_to_gpt2(own: Parameters) -> Made:
    """Two families side by side (Rothe et al., 2020): an encoder with its norms before the blocks, and a GPT-2."""
    named = {f"encoder.{name}": tensor for name, tensor in (bert_layers(own, "") | pooler(own)).items()}
    named |= gpt2_layers(own, "decoder", "decoder.transformer", cross=True)
    named |= {} if own.tied else {"decoder.lm_head.weight": own.output()}
    encoder = bert_config(own, "MegatronBertModel", "megatron-bert") | {"tie_word_embeddings": False}
    decoder = gpt2_config(own) | {"is_decoder": True, "add_cross_attention": True}
    options = {
        "architectures": ["EncoderDecoderModel"],
        "model_type": "encoder-decoder",
        "is_encoder_decoder": True,
        "encoder": encoder,
        "decoder": decoder,
        "tie_word_embeddings": False,
    }
    return options, named


# A network's weights as families of Hugging Face want them: a bias everywhere, factors in the weights.

Named = dict[str, Tensor]
Made = tuple[dict[str, Any], Named]  # a config, and tensors
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu"}
READERS, WRITERS = ("query", "key", "value", "hidden", "linear", "logits", "transform"), ("output",)


class Parameters:
    """The weights of a network by our names, tied ones under each of theirs."""

    def __init__(self, network: Network) -> None:
        self.config: TransformerConfig = network.config
        self._weights = {name: tensor.detach() for name, tensor in network.named_parameters(remove_duplicate=False)}

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[name]

    @property
    def tied(self) -> bool:
        """Whether the logits' matrix is the embedding's there too: not where a factor tells them apart."""
        config = self.config
        factors = config.scale_embedding or config.scale_output
        return config.tied_embeddings in ("output", "all") and not factors

    def layers(self, stack: str) -> int:
        return self.config.n_encoder_layers if stack == "encoder" else self.config.n_decoder_layers

    def embedding(self, stack: str, scaled: bool = True) -> Tensor:
        """Rows of tokens, times √d_model where our network multiplies them. scaled: False where theirs does too."""
        rows = self[f"{stack}.embedding.tokens.weight"]
        return rows * self.config.d_model**0.5 if self.config.scale_embedding and scaled else rows

    def output(self) -> Tensor:
        """The logits' matrix."""
        matrix = self["output.logits.weight"]
        return matrix * self.config.d_model**-0.5 if self.config.scale_output else matrix

    def positions(self, stack: str) -> Tensor:
        """A row for each position: learned, computed, or zeros."""
        learned = self._weights.get(f"{stack}.embedding.positions.table")
        if learned is not None:
            return learned
        rows = self[f"{stack}.embedding.tokens.weight"]
        nothing = rows.new_zeros(1, self.config.max_length, self.config.d_model)
        table = POSITIONS[self.config.position](self.config).to(rows)(nothing)
        return table.expand_as(nothing)[0].clone()

    def module(self, name: str, share: bool = True) -> tuple[Tensor, Tensor]:
        """Weight and bias of a module, zeros where it has none; of keys and values, those of shared heads repeated.

        share: False leaves shared heads as they are. Queries are times √d_k where our network does not divide by it.
        """
        weight, bias = self[f"{name}.weight"], self._weights.get(f"{name}.bias")
        bias = weight.new_zeros(weight.shape[0]) if bias is None else bias
        config, part = self.config, name.rpartition(".")[2]
        if part in ("key", "value") and share and config.kv_heads != config.n_heads:
            heads = (config.kv_heads, config.d_head)
            weight = for_each_head(weight.unflatten(0, heads), config.n_heads).flatten(0, 1)
            bias = for_each_head(bias.unflatten(0, heads)[..., None], config.n_heads).flatten()
        if part == "query" and not config.scale_attention:
            weight, bias = weight * config.d_head**0.5, bias * config.d_head**0.5
        return weight, bias

    def joined(self, layer: str, attention: str, parts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Several projections as one."""
        found = [self.module(f"{layer}.{attention}.{part}") for part in parts]
        return torch.cat([weight for weight, _bias in found]), torch.cat([bias for _weight, bias in found])

    def with_sines_first(self) -> Parameters:
        """The same network with the channels of its stream in another order: what was even first, then what was odd."""
        order = torch.cat([torch.arange(0, self.config.d_model, 2), torch.arange(1, self.config.d_model, 2)])
        made = object.__new__(Parameters)
        made.config = self.config
        made._weights = {name: _moved(name, tensor, order.to(tensor.device)) for name, tensor in self._weights.items()}
        return made


def _moved(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    *_above, module, part = name.split(".")
    if module == "norm" or (module in WRITERS and part == "bias") or (module in WRITERS and part == "weight"):
        return tensor[order]
    if module == "tokens" or (module in READERS and part == "weight"):
        return tensor[:, order]
    return tensor


def linear(named: Named, theirs: str, weight: Tensor, bias: Tensor | None) -> None:
    """A module of theirs."""
    named[f"{theirs}.weight"] = weight
    if bias is not None:
        named[f"{theirs}.bias"] = bias


def put(named: Named, own: Parameters, names: Iterable[tuple[str, str]]) -> None:
    """Modules of theirs, each with the weight and bias of one of ours."""
    for theirs, ours in names:
        linear(named, theirs, *own.module(ours))


TABLES = ("learned", "sinusoidal", "sinusoidal-halves", "none")  # what a table of positions can hold
PLAIN = tuple(ACTIVATIONS)
# What every family takes as it is, or what its weights can take over.
FREE = {
    *("source_vocabulary", "target_vocabulary", "d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff"),
    *("max_length", "dropout", "attention_dropout", "activation_dropout", "bias", "attention_bias", "tied_embeddings"),
    *("n_key_value_heads", "scale_embedding", "scale_attention", "scale_output", "position_base", "norm_epsilon"),
}


@dataclass(frozen=True)
class Family:
    """allowed: the values of options that it has, None: all; others must be as `TransformerConfig` has them by default.

    make: its config and its tensors. lacks: what else it has not.
    """

    title: str
    kind: Kind
    make: Callable[[Parameters], Made]
    allowed: dict[str, tuple[Any, ...] | None]
    lacks: Callable[[TransformerConfig], dict[str, Any]] = lambda _config: {}

    def missing(self, config: TransformerConfig) -> dict[str, Any]:
        """The options of a config that the family does not have, with their values."""
        found = self.lacks(config)
        for field in dataclasses.fields(config):
            name, value = field.name, getattr(config, field.name)
            known = self.allowed.get(name, None if name in FREE else (field.default,))
            if known is not None and value not in known:
                found[name] = value
        return found


def headless(config: TransformerConfig) -> dict[str, Any]:
    """BERT's head has a layer more than a plain one, which is left out: the embedding's matrix must do its work."""
    tied = config.tied_embeddings in ("output", "all") and not config.output_bias
    return {"output_head": "linear"} if config.output_head == "linear" and not tied else {}


Options = dict[str, tuple[Any, ...] | None]
DECODER: Options = {"norm": ("layer",), "norm_placement": ("pre",), "activation": PLAIN}
TURNED: Options = {"position": ("rotary",), "rotary_channels": None, "parallel": None}
GATED: Options = {"norm": ("rms",), "norm_placement": ("pre",), "activation": ("swiglu",), "position": ("rotary",)}
WIDE: Options = {"heads": None, "head_width": None}
ENCODER: Options = {"norm": ("layer",), "position": TABLES, "activation": PLAIN, "output_head": None}
POST: Options = {"norm": ("layer",), "norm_placement": ("post",), "activation": PLAIN, "norm_epsilon": (1e-5,)}
CURVES: Options = {"position": ("sinusoidal", "sinusoidal-halves"), "position_base": (10000.0,), "output_bias": None}
BERT: Options = {"norm_placement": ("post",), "embedding_norm": (True,), "output_bias": None}
MEGATRON: Options = {"norm_placement": ("pre",), "output_bias": None}
FAMILIES = (
    Family("GPT-2", "decoder-only", gpt2, DECODER | {"position": TABLES}),
    Family("GPT-NeoX", "decoder-only", gpt_neox, DECODER | TURNED),
    Family("Llama", "decoder-only", llama, GATED | WIDE),
    Family("BERT", "encoder-only", bert, ENCODER | BERT, headless),
    Family("Megatron-BERT", "encoder-only", bert, ENCODER | MEGATRON, headless),
    Family("Marian", "encoder-decoder", marian, POST | CURVES),
    Family("Megatron-BERT with GPT-2", "encoder-decoder", bert_to_gpt2, DECODER | {"position": TABLES}),
)


def counterpart(config: TransformerConfig) -> Family:
    """The family that has every option of the config.

    Raises:
        CheckpointError: there is none; the sentence names the options that the nearest one has not.
    """
    nearest = min((each for each in FAMILIES if each.kind == config.kind), key=lambda each: len(each.missing(config)))
    options = nearest.missing(config)
    if options:
        named = " and no ".join(f"{name} {value!r}" for name, value in options.items())
        raise CheckpointError(
            f"no family of Hugging Face computes what this model computes: the nearest, {nearest.title}, has no "
            f"{named}; keep it as a .zip of Vitrine's own folder instead"
        )
    return nearest
