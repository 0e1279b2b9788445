"""Our checkpoint: a folder of config.json, model.safetensors, tokenizers, training.json and a model card."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.foreign.told import Positions, Told
from model.inference.model import Inspectable
from model.inference.models import INSPECTABLES
from model.network.config import TransformerConfig
from model.network.transformer import Network, build
from model.runtime.device import choose_device, choose_dtype
from model.runtime.errors import CheckpointError, first_line
from model.runtime.files import begin_folder, finish_replacing, replace_folder, write_tensors
from model.runtime.memory import require_room
from model.runtime.untrusted_json import read_record
from model.safe_folder import read_config, require_weights
from model.tensors import tensor_table
from model.text.tokenizer import MASK, Tokenizer

CONFIG, WEIGHTS, TRAINING, CARD = "config.json", "model.safetensors", "training.json", "README.md"
SOURCE_TOKENIZER, TARGET_TOKENIZER = "source_tokenizer.json", "target_tokenizer.json"
TOKENIZER = "tokenizer.json"  # of models with one stack


def save_checkpoint(
    folder: Path | str,
    model: Network,
    tokenizers: tuple[Tokenizer, Tokenizer],
    training: Mapping[str, Any] | None = None,
    card: str = "",
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a checkpoint folder, or replace it whole: a kill at any moment leaves the old one or the new one.

    tokenizers: of source and target; of a model with one stack, the same one twice.
    training: what training.json records (data, steps, figures, seed). dtype: the precision on disk.
    """
    folder = Path(folder)
    written = begin_folder(folder)
    try:
        write_tensors(written / WEIGHTS, _stored_weights(model, dtype), {"format": "pt"})
        texts = {
            CONFIG: model.config.to_json(),
            **{name: made.to_json() for name, made in zip(_tokenizer_files(model.config), tokenizers, strict=True)},
            TRAINING: json.dumps(training or {}, indent=2, ensure_ascii=False) + "\n",
            CARD: card,
        }
        for name, text in texts.items():
            (written / name).write_text(text, encoding="utf-8")
        replace_folder(folder, written)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def open_checkpoint(
    path: Path | str,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
    heads: int | None = None,
    positions: Positions | None = None,
    start: int | None = None,
) -> Inspectable:
    """A trained model, ready to be looked into: our checkpoint folder, one of Hugging Face, or a file of weights alone
    whose layout is known (`model.foreign.layouts`).

    device, dtype: where and in which precision to compute; by default what `model.device` chooses. heads: how many
    attention heads there are, positions: of which kind, where there is no table of them, start: with which id a target
    begins, for a file that does not say it.

    Raises:
        CheckpointError: it is missing, incomplete, damaged or of another kind; the message says which file and why.
    """
    path, place, precision = Path(path), device or choose_device(), dtype or choose_dtype()
    finish_replacing(path)
    if not path.exists():
        raise CheckpointError(f"{path} is not a checkpoint: no folder or file of that name")
    try:
        if is_ours(path):
            lens = _open_ours(path, place, precision)
        else:
            from model.foreign.opening import open_foreign

            lens = open_foreign(path, place, precision, Told(heads, positions, start))
    except CheckpointError:
        raise
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{path.name} cannot be opened: {error}") from error
    if heads not in (None, lens.config.n_heads):
        raise CheckpointError(
            f"{path.name} says itself that it has {lens.config.n_heads} heads: leave heads={heads} out"
        )
    return lens


def is_ours(folder: Path, said: Mapping[str, Any] | None = None) -> bool:
    """Whether a folder has a config.json that is neither Hugging Face's nor lies beside another's weights.

    said: what it says, where that was read before.
    """
    if not (folder / CONFIG).exists():
        return False
    said = read_record(folder / CONFIG) if said is None else said
    return not is_hugging_face(said) and ("source_vocabulary" in said or (folder / WEIGHTS).exists())


def is_hugging_face(settings: Mapping[str, Any]) -> bool:
    """Whether a config.json is one of transformers."""
    return "model_type" in settings or "architectures" in settings


def _open_ours(folder: Path, device: torch.device, dtype: torch.dtype) -> Inspectable:
    config = read_config(folder / CONFIG)
    tokenizers = _read_tokenizers(folder, config)
    table = tensor_table(folder / WEIGHTS)
    require_weights(config, {info.name: info.shape for info in table}, folder.name)
    require_room(sum(math.prod(info.shape) for info in table), dtype, device)
    weights = {info.name: info.load() for info in table}  # still in the file, which may be replaced from now on
    try:
        model = build(config)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:  # numbers that torch cannot hold
        raise CheckpointError(f"{folder.name}: no model of this {CONFIG} can be built: {first_line(error)}") from error
    try:
        model.load_weights(weights)
    except ValueError as error:
        raise CheckpointError(f"{folder.name}: {error}: {CONFIG} and {WEIGHTS} do not belong together") from error
    model.to(device=device, dtype=dtype).eval().requires_grad_(False)
    training = read_record(folder / TRAINING)
    return INSPECTABLES[config.kind](folder.resolve().name, model, tokenizers, training)


def _tokenizer_files(config: TransformerConfig) -> tuple[str, str]:
    return (SOURCE_TOKENIZER, TARGET_TOKENIZER) if config.kind == "encoder-decoder" else (TOKENIZER, TOKENIZER)


def _read_tokenizers(folder: Path, config: TransformerConfig) -> tuple[Tokenizer, Tokenizer]:
    files = _tokenizer_files(config)
    read = {name: _read_tokenizer(folder / name) for name in files}
    for name, size in zip(files, config.vocabularies, strict=True):
        if len(read[name]) != size:
            raise CheckpointError(f"{folder.name}: {name} has {len(read[name])} tokens, {CONFIG} says {size}")
    if config.kind == "encoder-only" and type(read[TOKENIZER]) is Tokenizer and read[TOKENIZER].mask is None:
        raise CheckpointError(f"{folder.name}: {TOKENIZER} has no {MASK} token, which an encoder-only model needs")
    return read[files[0]], read[files[1]]


def _read_tokenizer(path: Path) -> Tokenizer:
    from model.text.huggingface.load import is_saved, read_saved

    return read_saved(path) if is_saved(path) else Tokenizer.read(path)


def _stored_weights(model: Network, dtype: torch.dtype) -> dict[str, Tensor]:
    """Each parameter once, whatever is tied to it."""
    return {name: tensor.detach().to(dtype) for name, tensor in model.named_parameters()}
