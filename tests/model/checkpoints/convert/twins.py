"""Tiny models of Hugging Face's with random weights, saved, and what becomes of the folder in our network."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import modeling_rope_utils

from model.capture.trace import Trace, record
from model.checkpoints.assembled import assembled
from model.checkpoints.convert.from_huggingface import rebuilt_config, rebuilt_weights
from model.checkpoints.tensors import read_tensors
from model.network.config import TransformerConfig
from model.network.transformer import Network
from model.runtime.untrusted_json import read_record
from tests.model.checkpoints.bridge.models import random_model

VOCABULARY, WIDTH, LAYERS, LENGTH = 50, 32, 2, 24
SOURCE, TARGET = torch.tensor([[5, 9, 30, 7, 21, 8, 2]]), torch.tensor([[2, 11, 6, 40, 13]])
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
ENCODER_DECODER = {
    **{f"{stack}_{name}": value for stack in ("encoder", "decoder")
       for name, value in (("layers", LAYERS), ("attention_heads", 4), ("ffn_dim", 48))},
    "d_model": WIDTH, "max_position_embeddings": LENGTH, "decoder_start_token_id": 2,
}  # fmt: skip
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "intermediate_size": 48}
SIZES |= {"max_position_embeddings": LENGTH}
SHARED = SIZES | {"num_key_value_heads": 2}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 500.0}
LLAMA3 |= {"original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}
PARTIAL = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}
WINDOW = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}
DISTILBERT = {"dim": WIDTH, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": LENGTH}
OPT = {name: size for name, size in SIZES.items() if name != "intermediate_size"}
OPT |= {"ffn_dim": 48, "word_embed_proj_dim": WIDTH}
T5 = {"d_model": WIDTH, "d_kv": 6, "d_ff": 48, "num_layers": LAYERS, "num_decoder_layers": 3, "num_heads": 4}
T5 |= {"relative_attention_num_buckets": 6, "relative_attention_max_distance": 5}
# By name: the class of the model, and what differs from its config's defaults.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4, "n_positions": LENGTH}),
    "gpt2-bare": ("GPT2Model", {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4, "n_inner": 48}),
    "llama": ("LlamaForCausalLM", SHARED | {"head_dim": 12}),
    "llama-biased": ("LlamaForCausalLM", SIZES | {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"}),
    "llama-3": ("LlamaForCausalLM", SHARED | {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-linear": ("LlamaForCausalLM", SIZES | {"rope_parameters": LINEAR}),
    "mistral": ("MistralForCausalLM", SHARED | {"sliding_window": 3}),
    "qwen2": ("Qwen2ForCausalLM", SHARED | {"tie_word_embeddings": True}),
    "qwen2-window": ("Qwen2ForCausalLM", SHARED | WINDOW),
    "qwen3": ("Qwen3ForCausalLM", SHARED | {"head_dim": 12}),
    "bert": ("BertForMaskedLM", SIZES),
    "bert-untied": ("BertForMaskedLM", SIZES | {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
    "bert-bare": ("BertModel", SIZES),
    "bart-bare": ("BartModel", ENCODER_DECODER),
    "roberta": ("RobertaForMaskedLM", SIZES | {"type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaForMaskedLM", SIZES | {"type_vocab_size": 1}),
    "camembert": ("CamembertForMaskedLM", SIZES | {"type_vocab_size": 1}),
    "distilbert": ("DistilBertForMaskedLM", DISTILBERT),
    "bart": ("BartForConditionalGeneration", ENCODER_DECODER | {"scale_embedding": True}),
    "mbart": ("MBartForConditionalGeneration", ENCODER_DECODER),
    "marian": ("MarianMTModel", ENCODER_DECODER | {"activation_function": "swish", "scale_embedding": True}),
    "marian-untied": (
        "MarianMTModel",
        ENCODER_DECODER | {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 41},
    ),
    "gpt-neox": ("GPTNeoXForCausalLM", SIZES),
    "gpt-neox-serial": (
        "GPTNeoXForCausalLM",
        SIZES | {"use_parallel_residual": False, "attention_bias": False, "rope_parameters": PARTIAL},
    ),
    "gemma": ("GemmaForCausalLM", SHARED | {"head_dim": 12}),
    "gemma-gelu": ("GemmaForCausalLM", SHARED | {"head_dim": 8, "hidden_act": "gelu"}),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5-gated": ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("MT5ForConditionalGeneration", T5),
    "opt": ("OPTForCausalLM", OPT),
}
MODULES = "gemma gpt_neox llama mistral mt5 opt qwen2 qwen3 t5".split()
ONCE_IN_FLOAT32 = [modeling_rope_utils, *(import_module(f"transformers.models.{n}.modeling_{n}") for n in MODULES)]


def saved(kind: str, folder: Path) -> Any:
    """A model of theirs in evaluation mode, every weight random, biases and norms too; and its folder."""
    return saved_as(*KINDS[kind], folder, own_head=kind == "t5-gated")


def saved_as(name: str, options: dict[str, Any], folder: Path, own_head: bool = False) -> Any:
    """A model of a class of theirs. own_head: whether its head is its own, which today's class does not make."""
    theirs = random_model(name, vocab_size=VOCABULARY, **SPECIAL, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:  # Marian's positions are fixed
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if hasattr(theirs, "final_logits_bias"):
            theirs.final_logits_bias.copy_(torch.randn_like(theirs.final_logits_bias))
        if own_head:
            theirs.lm_head.weight = torch.nn.Parameter(torch.randn_like(theirs.lm_head.weight) * 0.2)
    theirs.save_pretrained(folder)
    return theirs


def rebuilt(folder: Path, dtype: torch.dtype = torch.float32) -> Network:
    """Ours with the weights of a folder of theirs."""
    settings, weights = read_settings(folder), read_tensors(folder)
    config = rebuilt_config(settings, weights)
    assert isinstance(config, TransformerConfig)
    return assembled(config, rebuilt_weights(settings, config, weights), dtype=dtype)


@dataclass
class Compared:
    """The largest differences between theirs and ours, relative to the largest number where that is above 1; and what
    ours left.
    """

    attentions: float
    hidden: float
    logits: float
    trace: Trace


def texts(ours: Network) -> tuple[Tensor, ...]:
    return (SOURCE, TARGET) if ours.kind == "encoder-decoder" else (SOURCE,)


@torch.inference_mode()
def compared(theirs: Any, ours: Network) -> Compared:
    """Every attention of every kind and layer, every hidden state, and the logits, of one pass of each."""
    wanted = {"output_attentions": True, "output_hidden_states": True}
    two = ours.kind == "encoder-decoder"
    given = {"input_ids": SOURCE} | ({"decoder_input_ids": TARGET} if two else {})
    output = theirs(**given, **wanted)
    with record(ours) as trace:
        last = ours(*texts(ours))
    if "logits" in output:
        logits = difference(output.logits, last)
    else:
        logits = difference(output.last_hidden_state, last)
        assert "output.logits" not in trace
    stacks = {"encoder": "encoder_", "decoder": "decoder_"} if two else {ours.kind.split("-")[0]: ""}
    attentions, hidden = [], []
    for stack, prefix in stacks.items():
        attentions.append(difference(torch.cat(output[f"{prefix}attentions"]), trace.attention(stack)))
        hidden += _states(output[f"{prefix}hidden_states"], ours, trace, stack)
    if two:
        attentions.append(difference(torch.cat(output.cross_attentions), trace.attention("cross")))
    return Compared(max(attentions), max(hidden), logits, trace)


def _states(theirs: tuple[Tensor, ...], ours: Network, trace: Trace, stack: str) -> list[float]:
    """Before, between and after the layers; they give the last states after the last norm."""
    pre = ours.config.norm_placement == "pre"
    end = "residual" if pre else "norm.output"
    layers = len(trace.attention_paths(stack))
    names = [f"{stack}.embedding.output", *(f"{stack}.layers.{n}.feed_forward_block.{end}" for n in range(layers))]
    if pre:
        names[-1] = f"{stack}.norm.output"
    return [difference(one, trace[name]) for one, name in zip(theirs, names, strict=True)]


def difference(theirs: Tensor, ours: Tensor) -> float:
    assert theirs.numel() == ours.numel()
    return float((theirs.reshape(ours.shape) - ours).abs().max() / max(1.0, float(theirs.abs().max())))


class Doubled:
    """torch, with float64 where a module asks for float32.

    Some norms, softmaxes and rotary angles are computed in float32 whatever the model's precision. With this in place
    of `torch` the module's own code runs unchanged, in float64 throughout.
    """

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def read_settings(folder: Path) -> dict[str, Any]:
    return read_record(folder / "config.json")
