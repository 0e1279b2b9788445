"""Weights that are no model by themselves: adapters (LoRA), single shards, files that lack their config.json.

They are recognised by the names of files and of tensors, and refused with what to open instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from model.checkpoints.formats.weight_files import is_part
from model.runtime.errors import CheckpointError

# Ends of names of query matrices in Hugging Face's families, whose layouts only a config.json tells apart; fairseq and
# torchtune have some of these names too.
QUERIES = (
    "attention.self.query.weight",  # BERT, RoBERTa, ELECTRA
    "attention.q_lin.weight",  # DistilBERT
    "attention.attn.q.weight",  # MPNet
    "attn.q_proj.weight",  # Llama, Mistral, Qwen, Gemma, OPT, BART, Marian
    "attn.qkv_proj.weight",  # Phi-3
    "attention.query_key_value.weight",  # GPT-NeoX, BLOOM, Falcon
    "SelfAttention.q.weight",  # T5
)
GPT2 = "h.0.attn.c_attn.weight"  # also nanoGPT's, whose matrix is the transpose of this one
ADAPTER = (".lora_A.", ".lora_embedding_A")


def require_whole(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse weights of which no network can be built. shapes: of the file's tensors by name.

    Raises:
        CheckpointError: the file holds an adapter, is a part of a model, or needs a config.json; the sentence says what
            to open instead.
    """
    if any(part in name for name in shapes for part in ADAPTER):
        raise CheckpointError(
            f"{file.name} holds a LoRA adapter without the adapter_config.json that says what it changes and how: "
            "open the whole folder that peft has saved, or a .zip of it; its tensors can be looked at under "
            "Checkpoints → Read"
        )
    if is_part(file):
        raise CheckpointError(
            f"{file.name} is by its name one of several files of a model: open their whole folder, or a .zip of it; "
            "its tensors can be looked at under Checkpoints → Read"
        )
    if any(_is_hugging_face(name, shape) for name, shape in shapes.items()):
        raise CheckpointError(
            f"{file.name} has weights named as Hugging Face (some also as fairseq or torchtune) names them, without "
            "the config.json that says how to compute with them: open the whole folder of the Hugging Face model, or a "
            ".zip of it; the tensors alone can be looked at under Checkpoints → Read"
        )


def _is_hugging_face(name: str, shape: tuple[int, ...]) -> bool:
    return name.endswith(QUERIES) or (name.endswith(GPT2) and len(shape) == 2 and shape[1] == 3 * shape[0])
