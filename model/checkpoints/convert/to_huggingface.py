"""The published family of Hugging Face that computes exactly what a network of ours computes, and its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
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

# A network's weights as families of Hugging Face need them: a bias everywhere, factors in the weights.

Tensors = dict[str, Tensor]  # by Hugging Face's names
Export = tuple[dict[str, Any], Tensors]  # the values of a config.json, and the tensors
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu"}
READERS, WRITERS = ("query", "key", "value", "hidden", "linear", "logits", "transform"), ("output",)


class Parameters:
    """Weights of a network by our names, tied ones under each of their names."""

    def __init__(self, network: Network) -> None:
        self.config: TransformerConfig = network.config
        self._weights = {name: tensor.detach() for name, tensor in network.named_parameters(remove_duplicate=False)}

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[name]

    def __contains__(self, name: str) -> bool:
        return name in self._weights

    @property
    def tied(self) -> bool:
        """True if the logits' matrix is the embedding's in the export too: not where a factor tells them apart."""
        config = self.config
        factors = config.scale_embedding or config.scale_output
        return config.tied_embeddings in ("output", "all") and not factors

    def layers(self, stack: str) -> int:
        """Number of layers of the encoder or decoder."""
        return self.config.n_encoder_layers if stack == "encoder" else self.config.n_decoder_layers

    def embedding(self, stack: str, scaled: bool = True) -> Float[Tensor, "vocabulary d_model"]:
        """Rows of tokens, times √d_model where our network multiplies them. scaled: False where the family does so."""
        rows = self[f"{stack}.embedding.tokens.weight"]
        return rows * self.config.d_model**0.5 if self.config.scale_embedding and scaled else rows

    def output(self) -> Float[Tensor, "vocabulary d_model"]:
        """Matrix of the logits, divided by √d_model where our network divides the states."""
        matrix = self["output.logits.weight"]
        return matrix * self.config.d_model**-0.5 if self.config.scale_output else matrix

    def positions(self, stack: str) -> Float[Tensor, "position d_model"]:
        """Rows of positions: learned, computed, or zeros."""
        learned = self._weights.get(f"{stack}.embedding.positions.table")
        if learned is not None:
            return learned
        rows = self[f"{stack}.embedding.tokens.weight"]
        zeros = rows.new_zeros(1, self.config.max_length, self.config.d_model)
        table: Tensor = POSITIONS[self.config.position](self.config).to(rows)(zeros)
        return table.expand_as(zeros)[0].clone()

    def module(self, name: str, share: bool = False) -> tuple[Tensor, Tensor | None]:
        """Weight (output, input) and bias (output) of a module: zeros where it has no bias, None of an embedding.

        Keys and values that heads share are repeated for each head, unless `share`. Queries are multiplied by √d_k
        where our network does not divide scores by it.
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
        """Weights of an equal network whose stream has its even channels first, then its odd ones."""
        order = torch.cat([torch.arange(0, self.config.d_model, 2), torch.arange(1, self.config.d_model, 2)])
        ordered = copy(self)
        ordered._weights = {
            name: _moved(name, tensor, order.to(tensor.device)) for name, tensor in self._weights.items()
        }
        return ordered


def _moved(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    *_above, module, part = name.split(".")
    if module in ("norm", *WRITERS):
        return tensor[order]
    if module == "tokens" or (module in READERS and part == "weight"):
        return tensor[:, order]
    return tensor


# Tensors and settings of a family, by the tables that also read them.


def tensors(
    parameters: Parameters,
    table: Table,
    prefix: str = "",
    biased: Callable[[str], bool] = lambda _name: True,
    share: bool = False,
) -> Tensors:
    """Tensors of the modules that the network has, by the names of a table.

    prefix: before these names. biased: whether the family's module of a name has a bias, zeros where ours has none.
    share: whether the family's heads can share keys and values.
    """
    modules: dict[str, tuple[Layout, list[tuple[Tensor, Tensor | None]]]] = {}
    for template, row in table.items():
        for layer in range(parameters.layers(template.partition(".")[0]) if "{}" in template else 1):
            name, weights = template.replace("{}", str(layer)), source(row).of_layer(layer)
            if f"{name}.weight" in parameters:
                assert isinstance(weights.make, Layout)
                _layout, parts = modules.setdefault(f"{prefix}{weights.names[0]}", (weights.make, []))
                parts.append(parameters.module(name, share))
    exported: Tensors = {}
    for name, (layout, parts) in modules.items():
        exported[f"{name}.weight"] = layout.joined([weight for weight, _bias in parts])
        biases = [bias for _weight, bias in parts if bias is not None]
        if biases and biased(name):
            exported[f"{name}.bias"] = layout.joined(biases)
    return exported


def settings(config: TransformerConfig, table: SettingsTable, stack: str = "decoder") -> dict[str, Any]:
    """Values of a config.json by the names of a table; `vocabulary` and `n_layers` are the stack's."""
    vocabulary = config.source_vocabulary if stack == "encoder" else config.target_vocabulary
    values = dataclasses.asdict(config) | {"vocabulary": vocabulary, "n_layers": getattr(config, f"n_{stack}_layers")}
    values["activation"] = ACTIVATIONS.get(config.activation)
    return {name: values[option] for option, (name, _default) in table.items()}


# Decoder-only networks as GPT-2, Llama or GPT-NeoX of Hugging Face.


def gpt2_tensors(parameters: Parameters, prefix: str) -> Tensors:
    """Tensors of a GPT-2 (Radford et al., 2019): matrices are transposed, and query, key and value are one."""
    return {
        f"{prefix}transformer.wpe.weight": parameters.positions("decoder"),
        **tensors(parameters, GPT2_WEIGHTS, f"{prefix}transformer."),
        **head(parameters, f"{prefix}lm_head.weight"),
    }


def head(parameters: Parameters, name: str) -> Tensors:
    """Matrix (vocabulary, d_model) of the logits under this name; none where it is the embedding's."""
    return {} if parameters.tied else {name: parameters.output()}


def gpt2_config(parameters: Parameters) -> dict[str, Any]:
    """config.json of a GPT-2."""
    config = parameters.config
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **settings(config, GPT2_SETTINGS),
        "n_inner": config.d_ff,
        "embd_pdrop": config.dropout,
        "tie_word_embeddings": parameters.tied,
    }


def gpt2(parameters: Parameters) -> Export:
    """Export as a GPT-2 (Radford et al., 2019)."""
    return gpt2_config(parameters), gpt2_tensors(parameters, "")


def llama(parameters: Parameters) -> Export:
    """Export as a Llama (Touvron et al., 2023)."""
    config = parameters.config
    attention_bias = any(config.attention_biases)

    def biased(name: str) -> bool:
        return attention_bias if ".self_attn." in name else config.bias and ".mlp." in name

    weights = tensors(parameters, LLAMA_WEIGHTS, "model.", biased, share=True) | head(parameters, "lm_head.weight")
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
    return options, weights


def gpt_neox(parameters: Parameters) -> Export:
    """Export as a GPT-NeoX (Black et al., 2022): query, key and value of a head stand together, head by head."""
    config = parameters.config
    weights = tensors(parameters, neox_weights(config), "gpt_neox.") | head(parameters, "embed_out.weight")
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
    return options, weights


# Encoder-only networks as BERT of Hugging Face; pre-norm ones as Megatron's.

MEGATRON_WEIGHTS: Table = {
    **BERT_WEIGHTS,
    "encoder.layers.{}.self_attention_block.norm": "encoder.layer.{}.attention.ln",
    "encoder.layers.{}.feed_forward_block.norm": "encoder.layer.{}.ln",
    "encoder.norm": "encoder.ln",
}


def bert_tensors(parameters: Parameters, prefix: str) -> Tensors:
    """Tensors of a BERT (Devlin et al., 2019) or Megatron-BERT without its head. The first token type is zeros."""
    positions, types = BERT_POSITIONS
    rows = parameters.positions("encoder")
    second = [] if parameters.config.separator is None else [parameters["encoder.embedding.types.weight"]]
    table = MEGATRON_WEIGHTS if parameters.config.norm_placement == "pre" else BERT_WEIGHTS
    return {
        f"{prefix}{positions}": rows,
        f"{prefix}{types}": torch.stack([torch.zeros_like(rows[0]), *second]),
        **tensors(parameters, table, prefix),
    }


def pooler(parameters: Parameters) -> Tensors:
    """BERT's layer on the first token, weight (d_model, d_model) and bias (d_model), which our network has not: zeros,
    so that transformers draws no random one.
    """
    width = parameters.config.d_model
    zeros = parameters["encoder.embedding.tokens.weight"].new_zeros(width, width)
    return {"pooler.dense.weight": zeros, "pooler.dense.bias": zeros[0]}


def bert_config(parameters: Parameters, name: str, model_type: str) -> dict[str, Any]:
    """config.json of a BERT. name: of its architecture."""
    return {
        "architectures": [name],
        "model_type": model_type,
        **settings(parameters.config, BERT_SETTINGS, "encoder"),
        "type_vocab_size": 1 if parameters.config.separator is None else 2,
        "tie_word_embeddings": parameters.tied,
    }


def bert(parameters: Parameters) -> Export:
    """Export as a BERT (Devlin et al., 2019), with norms before the blocks as a Megatron-BERT."""
    pre = parameters.config.norm_placement == "pre"
    name, model_type = ("MegatronBert", "megatron-bert") if pre else ("Bert", "bert")
    if parameters.config.output_head != "transform":
        return bert_config(parameters, f"{name}Model", model_type), bert_tensors(parameters, "") | pooler(parameters)
    weights = bert_tensors(parameters, "bert.") | tensors(parameters, BERT_HEAD)
    weights["cls.predictions.bias"] = weights["cls.predictions.decoder.bias"]
    if parameters.tied:
        del weights["cls.predictions.decoder.weight"]
    return bert_config(parameters, f"{name}ForMaskedLM", model_type), weights


# Encoder-decoder networks as Marian of Hugging Face; pre-norm ones as Megatron's BERT, read by a GPT-2.


def marian(parameters: Parameters) -> Export:
    """Export as a Marian (Junczys-Dowmunt et al., 2018), whose positions have all sines before all cosines."""
    config = parameters.config
    if config.position == "sinusoidal":
        parameters = parameters.with_sines_first()
    output, bias = parameters.module("output.logits")
    assert bias is not None  # only of embeddings
    weights: Tensors = {"lm_head.weight": output, "final_logits_bias": bias[None]}
    for stack in STACKS:
        weights[f"model.{stack}.embed_tokens.weight"] = parameters.embedding(stack, scaled=False)
        weights |= tensors(parameters, stack_weights(stack), "model.")
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
    return options, weights


def bert_to_gpt2(parameters: Parameters) -> Export:
    """Export as a Megatron-BERT that a GPT-2 with cross-attention reads (Rothe et al., 2020)."""
    weights = bert_tensors(parameters, "encoder.") | gpt2_tensors(parameters, "decoder.")
    weights |= {f"encoder.{name}": tensor for name, tensor in pooler(parameters).items()}
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
    return options, weights


# Families by the options of a config that they have.

TABLES = ("learned", "sinusoidal", "sinusoidal-halves", "none")  # positions that a table can hold
PLAIN = tuple(ACTIVATIONS)
# Options that every family has, or whose effect its weights can take over.
FREE = {
    *("source_vocabulary", "target_vocabulary", "d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff"),
    *("max_length", "dropout", "attention_dropout", "activation_dropout", "bias", "attention_bias", "tied_embeddings"),
    *("n_key_value_heads", "scale_embedding", "scale_attention", "scale_output", "position_base", "norm_epsilon"),
}


@dataclass(frozen=True)
class Family:
    """A family of Hugging Face's models.

    allowed: values of options that the family has, None: all; other options must have the defaults of
    `TransformerConfig`. make: the export of a network. lacks: options of a config that the family has not, for reasons
    that `allowed` cannot express.
    """

    title: str
    kind: Kind
    make: Callable[[Parameters], Export]
    allowed: dict[str, tuple[Any, ...] | None]
    lacks: Callable[[TransformerConfig], dict[str, Any]] = lambda _config: {}

    def missing(self, config: TransformerConfig) -> dict[str, Any]:
        """Options of a config that the family does not have, with their values."""
        options = self.lacks(config)
        for field in dataclasses.fields(config):
            name, value = field.name, getattr(config, field.name)
            allowed = self.allowed.get(name, None if name in FREE else (field.default,))
            if allowed is not None and value not in allowed:
                options[name] = value
        return options


def headless(config: TransformerConfig) -> dict[str, Any]:
    """Options of an output that cannot be left out: BERT's head has one layer more than a linear output, which is
    therefore computed from the states and the embedding's matrix.
    """
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
BERT: Options = {"norm_placement": ("post",), "embedding_norm": (True,), "output_bias": None, "separator": None}
MEGATRON: Options = {"norm_placement": ("pre",), "output_bias": None, "separator": None}
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
    """Family that has every option of the config.

    Raises:
        CheckpointError: there is none; the sentence names the options that the nearest one has not.
    """
    families = [family for family in FAMILIES if family.kind == config.kind]
    if not families:
        raise CheckpointError(
            "no family of Hugging Face is a {kind} network like this one: keep it as a .zip of Vitrine's own "
            "folder instead",
            kind=config.kind,
        )
    nearest = min(families, key=lambda family: len(family.missing(config)))
    options = nearest.missing(config)
    if options:
        lacking = " and no ".join(f"{name} {value!r}" for name, value in options.items())
        raise CheckpointError(
            "no family of Hugging Face computes what this model computes: the nearest, {title}, has no "
            "{lacking}; keep it as a .zip of Vitrine's own folder instead",
            title=nearest.title,
            lacking=lacking,
        )
    return nearest
