"""Weights that are no model by themselves: adapters (LoRA), single shards, files that lack their config.json.

They are recognised by the names of files and of tensors, and refused with what to open instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NoReturn

from model.checkpoints.formats.weight_files import is_part
from model.checkpoints.native import CONFIG, is_hugging_face
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record

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
OURS = ("encoder.embedding.tokens.weight", "decoder.embedding.tokens.weight")
ADAPTER = (".lora_A.", ".lora_embedding_A")
# Names of tensors by which a model is known to be of another kind.
KINDS = {
    r"(^|\.)(visual|vision_model|vision_tower|image_encoder|patch_embed|conv_proj)\.": "a model of images",
    r"(^|\.)(down_blocks|up_blocks|input_blocks|time_embed|time_embedding)\.": "a diffusion model",
    r"\.(A_log|dt_proj\.weight|dt_bias|time_mix_\w+|time_decay)$": "a recurrent model",
    r"(^|\.)(weight_[ih]h_l0|lstm\.|gru\.)": "a recurrent model",
}
MOST_NAMED = 3


def refuse_incomplete(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse weights of which no network can be built. shapes: of the file's tensors by name.

    Raises:
        CheckpointError: the file holds an adapter or a model of another kind, is a part of a model, or needs a
            config.json; the sentence says what to open instead.
    """
    for pattern, kind in KINDS.items():
        if tensor_name := next((name for name in shapes if re.search(pattern, name)), None):
            raise CheckpointError(
                "{file} holds {found}, which {kind} has, so that it is no model of texts alone whose layers "
                "attend: its tensors can be looked at under Checkpoints → Read",
                file=file.name,
                found=tensor_name[:80],
                kind=kind,
            )
    if any(part in name for name in shapes for part in ADAPTER):
        raise CheckpointError(
            "{file} holds a LoRA adapter without the adapter_config.json that says what it changes and how: open "
            "the whole folder that peft has saved, or a .zip of it; its tensors can be looked at under "
            "Checkpoints → Read",
            file=file.name,
        )
    if is_part(file):
        raise CheckpointError(
            "{file} is by its name one of several files of a model: open their whole folder, or a .zip of it; "
            "its tensors can be looked at under Checkpoints → Read",
            file=file.name,
        )
    if any(_is_hugging_face(name, shape) for name, shape in shapes.items()):
        if (whole := _folder_of(file)) is not None:
            raise CheckpointError(
                "{file} holds the weights of the Hugging Face model {name}: open that folder, whose config.json "
                "says how to compute with them",
                file=file.name,
                name=whole.name,
            )
        raise CheckpointError(
            "{file} has weights named as Hugging Face (some also as fairseq or torchtune) names them, without "
            "the config.json that says how to compute with them: open the whole folder of the Hugging Face "
            "model, or a .zip of it; the tensors alone can be looked at under Checkpoints → Read",
            file=file.name,
        )


def refuse_unknown(file: Path, names: Collection[str], known: str) -> NoReturn:
    """Refuse a file of which no layout was recognised. names: of its tensors. known: the layouts, in words.

    Raises:
        CheckpointError: always; the sentence says what the file is, as far as its names tell.
    """
    if not names:
        raise CheckpointError("{file} holds no tensors of a model: save a model's state_dict", file=file.name)
    if any(name in names for name in OURS):
        raise CheckpointError(
            "{file} has the weights of a model of Vitrine without the config.json that says how to compute with "
            "them: open the whole folder in which it was saved",
            file=file.name,
        )
    first = ", ".join([*list(names)[:MOST_NAMED], *["…"] * (len(names) > MOST_NAMED)])
    raise CheckpointError(
        "{file} holds tensors by whose names ({first}; {count:,} in all) it is none of {known}: they can be looked at "
        "under Checkpoints → Read; a language model of transformers opens from the folder of its save_pretrained",
        file=file.name,
        count=len(names),
        first=first,
        known=known,
    )


def _folder_of(file: Path) -> Path | None:
    """Folder of a file that has a config.json of transformers; None: it has none."""
    return file.resolve().parent if is_hugging_face(read_record(file.parent / CONFIG)) else None


def _is_hugging_face(name: str, shape: tuple[int, ...]) -> bool:
    return name.endswith(QUERIES) or (name.endswith(GPT2) and len(shape) == 2 and shape[1] == 3 * shape[0])
