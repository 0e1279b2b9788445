"""GGUF files of folders of Hugging Face, written with the package's own writer by the rules of llama.cpp's converter.

The rules are those of `convert_hf_to_gguf.py`, put down here anew: for Llama the rows of queries and keys of a head are
taken by turns from its two halves; 1 is added to γ of Gemma's norms; GPT-2's matrices are transposed; vectors are F32.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from model.checkpoints.tensors import read_tensors

Kind = gguf.GGMLQuantizationType
FILE_TYPES = {Kind.F32: 0, Kind.F16: 1, Kind.Q4_0: 2, Kind.Q8_0: 7}
ARCHITECTURES = {"mistral": "llama"}  # others have their family's name
RMS = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GEMMA2 = RMS | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
GPT2 = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "lm_head": "output",
}


def write_gguf(
    folder: Path,
    file: Path,
    kind: Any = Kind.F32,
    vocabulary: dict[str, Any] | None = None,
    given: dict[str, np.ndarray] | None = None,
    **more: Any,
) -> Path:
    """File of a folder's model. kind: type of the matrices. vocabulary: records of tokens. given: values of matrices in
    the place of the folder's, packed where the type is. more: other records, by key, None for one that is left out.
    """
    settings = json.loads((folder / "config.json").read_text())
    family = settings["model_type"]
    writer = gguf.GGUFWriter(file, ARCHITECTURES.get(family, family))
    records = of_config(settings) | {"general.file_type": FILE_TYPES.get(kind)} | (vocabulary or {}) | more
    for key, value in records.items():
        add(writer, key, value)
    for name, values in renamed(settings, read_tensors(folder)).items():
        matrix = values.ndim > 1 and values.shape[-1] % 32 == 0
        if given and name in given:
            writer.add_tensor(name, given[name], raw_dtype=None if kind == Kind.F32 else kind)
        elif kind == Kind.F32 or not matrix:
            writer.add_tensor(name, values)
        elif kind == Kind.F16:
            writer.add_tensor(name, values.astype(np.float16))
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def add(writer: Any, key: str, value: Any) -> None:
    """Record of the type that the converter gives a value of this type."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif value is not None:
        writer.add_array(key, value)


def of_config(settings: dict[str, Any]) -> dict[str, Any]:
    """Records of a config.json."""
    family = settings["model_type"]
    if family == "gpt2":
        records = {
            "block_count": settings["n_layer"],
            "context_length": settings["n_positions"],
            "embedding_length": settings["n_embd"],
            "feed_forward_length": settings["n_inner"] or 4 * settings["n_embd"],
            "attention.head_count": settings["n_head"],
            "attention.layer_norm_epsilon": settings["layer_norm_epsilon"],
        }
        return {f"gpt2.{key}": value for key, value in records.items()}
    rope = settings["rope_parameters"]
    width = settings.get("head_dim") or settings["hidden_size"] // settings["num_attention_heads"]
    records = {
        "block_count": settings["num_hidden_layers"],
        "context_length": settings["max_position_embeddings"],
        "embedding_length": settings["hidden_size"],
        "feed_forward_length": settings["intermediate_size"],
        "attention.head_count": settings["num_attention_heads"],
        "attention.head_count_kv": settings["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": settings["rms_norm_eps"],
        "rope.freq_base": None if family.startswith("gemma") else float(rope["rope_theta"]),
    }
    if settings.get("head_dim"):
        records |= {"attention.key_length": width, "attention.value_length": width}
    if family in ("llama", "mistral"):
        records |= {"vocab_size": settings["vocab_size"], "rope.dimension_count": width}
    if rope["rope_type"] in ("linear", "yarn"):
        records |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": float(rope["factor"])}
        records |= {"rope.scaling.original_context_length": rope.get("original_max_position_embeddings")}
    if family in ("mistral", "gemma2"):
        records["attention.sliding_window"] = settings["sliding_window"]
    if family == "gemma2":
        for name in ("attn_logit_softcapping", "final_logit_softcapping"):
            records[name] = settings[name]
    architecture = ARCHITECTURES.get(family, family)
    return {f"{architecture}.{key}": value for key, value in records.items()}


def renamed(settings: dict[str, Any], weights: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Tensors as the file has them, by its names."""
    family = settings["model_type"]
    table = {"gpt2": GPT2, "gemma2": GEMMA2}.get(family, RMS)
    made = {}
    for name, tensor in weights.items():
        parts = name.removeprefix("model.").removeprefix("transformer.").split(".")
        block = f"blk.{parts.pop(1)}." if parts[0] in ("layers", "h") else ""
        module, part = ".".join(parts[1:-1] if block else parts[:-1]), parts[-1]
        values = tensor.float().numpy()
        if family in ("llama", "mistral") and module in ("self_attn.q_proj", "self_attn.k_proj"):
            queries = module == "self_attn.q_proj"
            values = by_turns(values, settings["num_attention_heads" if queries else "num_key_value_heads"])
        if family.startswith("gemma") and module.endswith("norm"):
            values = values + np.float32(1)
        if family == "gpt2" and part == "weight" and module in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            values = np.ascontiguousarray(values.T)
        made[f"{block}{table[module]}.{part}"] = values
    if family != "gpt2" and settings["rope_parameters"]["rope_type"] == "llama3":
        made["rope_freqs.weight"] = factors(settings)
    return made


def by_turns(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head in the order 0, w/2, 1, w/2 + 1 ..."""
    width = len(rows) // heads
    order = [head * width + half * (width // 2) + pair for head in range(heads) for pair in range(width // 2)
             for half in (0, 1)]  # fmt: skip
    return rows[order]


def factors(settings: dict[str, Any]) -> np.ndarray:
    """Llama 3's factors of wavelengths, as its authors' code scales frequencies."""
    rope, made = settings["rope_parameters"], []
    width = settings.get("head_dim") or settings["hidden_size"] // settings["num_attention_heads"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    for place in range(0, width, 2):
        length = 2 * math.pi * rope["rope_theta"] ** (place / width)
        share = (rope["original_max_position_embeddings"] / length - low) / (high - low)
        share = min(1.0, max(0.0, share))
        made.append(1 / ((1 - share) / rope["factor"] + share))
    return np.array(made, np.float32)


# Records of tokens, as the converter writes them.

NORMAL, UNKNOWN, CONTROL, DEFINED, UNUSED, BYTE = range(1, 7)


def byte_level_records(tokenizer: Any, pre: str, size: int) -> dict[str, Any]:
    """Of a tokenizer of transformers whose model is a byte-level BPE. size: of the model's vocabulary."""
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    names = {row: name for name, row in tokenizer.get_vocab().items()}
    added = {token["content"]: token["special"] for token in inner["added_tokens"]}
    types = {row: (CONTROL if added[name] else DEFINED) if name in added else NORMAL for row, name in names.items()}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre or None,
        "tokenizer.ggml.tokens": [names.get(row, f"[PAD{row}]") for row in range(size)],
        "tokenizer.ggml.token_type": [types.get(row, UNUSED) for row in range(size)],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in inner["model"]["merges"]],
    }


def piece_records(model: Any, size: int) -> dict[str, Any]:
    """Of a sentencepiece model. size: of the model's vocabulary."""
    tokens, scores, types = [f"[PAD{row}]" for row in range(size)], [-10000.0] * size, [UNUSED] * size
    for row in range(model.get_piece_size()):
        tokens[row], scores[row], types[row] = model.id_to_piece(row), model.get_score(row), NORMAL
        kinds = {UNKNOWN: model.is_unknown, CONTROL: model.is_control, UNUSED: model.is_unused, BYTE: model.is_byte}
        types[row] = next((kind for kind, holds in kinds.items() if holds(row)), NORMAL)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": model.bos_id(),
        "tokenizer.ggml.eos_token_id": model.eos_id(),
        "tokenizer.ggml.unknown_token_id": model.unk_id(),
    }
