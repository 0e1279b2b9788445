"""Which published family of Hugging Face computes exactly what a network of ours computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.convert.bart import BART_SETTINGS, STACKS, stack_weights
from model.checkpoints.convert.bert import BERT_HEAD, BERT_SETTINGS, BERT_WEIGHTS
from model.checkpoints.convert.bert import POSITIONS as BERT_POSITIONS
from model.checkpoints.convert.family import SettingsTable
from model.checkpoints.convert.gpt import GPT2_SETTINGS, GPT2_WEIGHTS, NEOX_SETTINGS, neox_weights
from model.checkpoints.convert.llama import LLAMA_SETTINGS, LLAMA_WEIGHTS
from model.checkpoints.convert.weight_map import Layout, Table, source
from model.network.attention import for_each_head
from model.network.config import Kind, TransformerConfig
from model.network.positions import POSITIONS
from model.network.transformer import Network
from model.runtime.errors import CheckpointError

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

    def __contains__(self, name: str) -> bool:
        return name in self._weights

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

    def module(self, name: str, share: bool = False) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of a module, zeros where it has none, and no bias of tokens.

        Heads that share keys and values have them repeated, unless `share`. Queries are times √d_k where our network
        does not divide scores by it.
        """
        config, (*path, part) = self.config, name.split(".")
        if part == "tokens":
            return self.embedding(path[0]), None
        weight = self.output() if part == "logits" else self[f"{name}.weight"]
        bias = self._weights.get(f"{name}.bias", weight.new_zeros(weight.shape[0]))
        if part in ("key", "value") and not share and config.kv_heads != config.n_heads:
            heads = (config.kv_heads, config.d_head)
            weight = for_each_head(weight.unflatten(0, heads), config.n_heads).flatten(0, 1)
            bias = for_each_head(bias.unflatten(0, heads)[..., None], config.n_heads).flatten()
        if part == "query" and not config.scale_attention:
            weight, bias = weight * config.d_head**0.5, bias * config.d_head**0.5
        return weight, bias

    def with_sines_first(self) -> Parameters:
        """The same network with the channels of its stream in another order: what was even first, then what was odd."""
        order = torch.cat([torch.arange(0, self.config.d_model, 2), torch.arange(1, self.config.d_model, 2)])
        made = object.__new__(Parameters)
        made.config = self.config
        made._weights = {name: _moved(name, tensor, order.to(tensor.device)) for name, tensor in self._weights.items()}
        return made


def _moved(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    *_above, module, part = name.split(".")
    if module in ("norm", *WRITERS):
        return tensor[order]
    if module == "tokens" or (module in READERS and part == "weight"):
        return tensor[:, order]
    return tensor


# Tensors and settings of a family, by the tables that read them.


def tensors(
    parameters: Parameters,
    table: Table,
    prefix: str = "",
    biased: Callable[[str], bool] = lambda _name: True,
    share: bool = False,
) -> Named:
    """Tensors of the modules that the network has, by the names of a table.

    prefix: before their names. biased: whether their module of a name has biases, which are zeros where ours has none.
    share: whether heads can share keys and values.
    """
    modules: dict[str, tuple[Layout, list[tuple[Tensor, Tensor | None]]]] = {}
    for ours, row in table.items():
        for layer in range(parameters.layers(ours.partition(".")[0]) if "{}" in ours else 1):
            name, weights = ours.replace("{}", str(layer)), source(row).of_layer(layer)
            if f"{name}.weight" in parameters:
                assert isinstance(weights.make, Layout)
                _layout, parts = modules.setdefault(f"{prefix}{weights.names[0]}", (weights.make, []))
                parts.append(parameters.module(name, share))
    named: Named = {}
    for name, (layout, parts) in modules.items():
        named[f"{name}.weight"] = layout.joined([weight for weight, _bias in parts])
        biases = [bias for _weight, bias in parts if bias is not None]
        if biases and biased(name):
            named[f"{name}.bias"] = layout.joined(biases)
    return named


def settings(config: TransformerConfig, table: SettingsTable, stack: str = "decoder") -> dict[str, Any]:
    """Values of a config.json by the names of a table; `vocabulary` and `n_layers` are those of the stack."""
    vocabulary = config.source_vocabulary if stack == "encoder" else config.target_vocabulary
    values = dataclasses.asdict(config) | {"vocabulary": vocabulary, "n_layers": getattr(config, f"n_{stack}_layers")}
    values["activation"] = ACTIVATIONS.get(config.activation)
    return {theirs: values[ours] for ours, (theirs, _usual) in table.items()}


# Decoder-only networks as GPT-2, Llama or GPT-NeoX of Hugging Face.


def gpt2_tensors(parameters: Parameters, prefix: str) -> Named:
    """Radford et al., 2019: matrices are transposed there, and query, key and value are one."""
    return {
        f"{prefix}transformer.wpe.weight": parameters.positions("decoder"),
        **tensors(parameters, GPT2_WEIGHTS, f"{prefix}transformer."),
        **head(parameters, f"{prefix}lm_head.weight"),
    }


def head(parameters: Parameters, name: str) -> Named:
    """The matrix of the logits, where it is not the embedding's."""
    return {} if parameters.tied else {name: parameters.output()}


def gpt2_config(parameters: Parameters) -> dict[str, Any]:
    config = parameters.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **settings(config, GPT2_SETTINGS),
        "n_inner": config.d_ff,
        "embd_pdrop": config.dropout,
        "tie_word_embeddings": parameters.tied,
    }


def gpt2(parameters: Parameters) -> Made:
    return gpt2_config(parameters), gpt2_tensors(parameters, "")


def llama(parameters: Parameters) -> Made:
    """Touvron et al., 2023."""
    config = parameters.config
    attention_bias = any(config.attention_biases)

    def biased(name: str) -> bool:
        return attention_bias if ".self_attn." in name else config.bias and ".mlp." in name

    named = tensors(parameters, LLAMA_WEIGHTS, "model.", biased, share=True) | head(parameters, "lm_head.weight")
    options = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **settings(config, LLAMA_SETTINGS),
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_head,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.position_base},
        "rope_theta": config.position_base,  # of transformers before version 5
        "hidden_act": "silu",
        "attention_bias": attention_bias,
        "mlp_bias": config.bias,
        "tie_word_embeddings": parameters.tied,
    }
    return options, named


def gpt_neox(parameters: Parameters) -> Made:
    """Black et al., 2022: query, key and value of a head stand together, head by head."""
    config = parameters.config
    named = tensors(parameters, neox_weights(config), "gpt_neox.") | head(parameters, "embed_out.weight")
    share = (config.rotary_channels or config.d_head) / config.d_head
    rotary = {"rope_theta": config.position_base, "partial_rotary_factor": share}
    options = {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        **settings(config, NEOX_SETTINGS),
        "rotary_pct": share,
        "rotary_emb_base": config.position_base,
        "rope_parameters": {"rope_type": "default", **rotary},
        "attention_bias": True,
        "tie_word_embeddings": parameters.tied,
    }
    return options, named


# Encoder-only networks as BERT of Hugging Face; pre-norm ones as Megatron's.

MEGATRON_WEIGHTS: Table = {
    **BERT_WEIGHTS,
    "encoder.layers.{}.self_attention_block.norm": "encoder.layer.{}.attention.ln",
    "encoder.layers.{}.feed_forward_block.norm": "encoder.layer.{}.ln",
    "encoder.norm": "encoder.ln",
}


def bert_tensors(parameters: Parameters, prefix: str) -> Named:
    """Devlin et al., 2019: the norms stand behind the blocks, and one on the embeddings. One token type, of zeros."""
    positions, types = BERT_POSITIONS
    rows = parameters.positions("encoder")
    table = MEGATRON_WEIGHTS if parameters.config.norm_placement == "pre" else BERT_WEIGHTS
    return {
        f"{prefix}{positions}": rows,
        f"{prefix}{types}": rows.new_zeros(1, rows.shape[1]),
        **tensors(parameters, table, prefix),
    }


def pooler(parameters: Parameters) -> Named:
    """What theirs makes of the first token and ours does not: zeros, so that nothing of the model is by chance."""
    width = parameters.config.d_model
    zeros = parameters["encoder.embedding.tokens.weight"].new_zeros(width, width)
    return {"pooler.dense.weight": zeros, "pooler.dense.bias": zeros[0]}


def bert_config(parameters: Parameters, name: str, model_type: str) -> dict[str, Any]:
    return {
        "architectures": [name],
        "model_type": model_type,
        **settings(parameters.config, BERT_SETTINGS, "encoder"),
        "type_vocab_size": 1,
        "tie_word_embeddings": parameters.tied,
    }


def bert(parameters: Parameters) -> Made:
    pre = parameters.config.norm_placement == "pre"
    name, model_type = ("MegatronBert", "megatron-bert") if pre else ("Bert", "bert")
    if parameters.config.output_head != "transform":
        return bert_config(parameters, f"{name}Model", model_type), bert_tensors(parameters, "") | pooler(parameters)
    named = bert_tensors(parameters, "bert.") | tensors(parameters, BERT_HEAD)
    named["cls.predictions.bias"] = named["cls.predictions.decoder.bias"]
    if parameters.tied:
        del named["cls.predictions.decoder.weight"]
    return bert_config(parameters, f"{name}ForMaskedLM", model_type), named


# Encoder-decoder networks as Marian of Hugging Face; pre-norm ones as Megatron's BERT, at which a GPT-2 looks.


def marian(parameters: Parameters) -> Made:
    """Junczys-Dowmunt et al., 2018. Its curves have the sines first: ours, where they are mixed, change places."""
    config = parameters.config
    if config.position == "sinusoidal":
        parameters = parameters.with_sines_first()
    output, bias = parameters.module("output.logits")
    assert bias is not None
    named: Named = {"lm_head.weight": output, "final_logits_bias": bias[None]}
    for stack in STACKS:
        named[f"model.{stack}.embed_tokens.weight"] = parameters.embedding(stack, scaled=False)
        named |= tensors(parameters, stack_weights(stack), "model.")
    options = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        **settings(config, BART_SETTINGS),
        "vocab_size": config.source_vocabulary,
        "decoder_vocab_size": config.target_vocabulary,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "forced_eos_token_id": None,
    }
    for stack in STACKS:
        options |= {f"{stack}_attention_heads": config.n_heads, f"{stack}_ffn_dim": config.d_ff}
    return options, named


def bert_to_gpt2(parameters: Parameters) -> Made:
    """Two families side by side (Rothe et al., 2020): an encoder with its norms before the blocks, and a GPT-2."""
    named = bert_tensors(parameters, "encoder.") | gpt2_tensors(parameters, "decoder.")
    named |= {f"encoder.{name}": tensor for name, tensor in pooler(parameters).items()}
    encoder = bert_config(parameters, "MegatronBertModel", "megatron-bert") | {"tie_word_embeddings": False}
    decoder = gpt2_config(parameters) | {"is_decoder": True, "add_cross_attention": True}
    options = {
        "architectures": ["EncoderDecoderModel"],
        "model_type": "encoder-decoder",
        "is_encoder_decoder": True,
        "encoder": encoder,
        "decoder": decoder,
        "tie_word_embeddings": False,
    }
    return options, named


# Which family has every option of a config.

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
