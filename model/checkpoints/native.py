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

from model.checkpoints.assembled import assembled
from model.checkpoints.formats.weight_files import ADAPTERS, READ, weights_of
from model.checkpoints.quantized import require_no_codes
from model.checkpoints.tensors import tensor_table
from model.checkpoints.wrapped_names import unwrapped, wrapping
from model.inference.models import MODEL_CLASSES
from model.inference.text_model import TextModel
from model.message import read, written
from model.network.config import TWO_STACKS, TransformerConfig
from model.network.costs import parameters
from model.network.transformer import Network
from model.runtime.errors import CheckpointError, OtherWeightsError, first_line
from model.runtime.files import begin_folder, replace_folder, write_tensors, writing
from model.runtime.memory import require_room
from model.runtime.untrusted_json import parse_json, read_bytes, read_record
from model.text.tokenizer import Tokenizer

CONFIG, WEIGHTS, TRAINING, CARD = "config.json", "model.safetensors", "training.json", "README.md"
SOURCE_TOKENIZER, TARGET_TOKENIZER = "source_tokenizer.json", "target_tokenizer.json"
TOKENIZER = "tokenizer.json"  # of models with one stack


def save_checkpoint(
    folder: Path | str,
    network: Network,
    tokenizers: tuple[Tokenizer, Tokenizer],
    training: Mapping[str, Any] | None = None,
    card: str = "",
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a checkpoint folder, or replace it whole: a kill at any moment leaves the old one or the new one.

    tokenizers: of source and target; of a model with one stack, the same one twice. training: content of training.json
    (data, steps, figures, seed). card: text of the model card. dtype: precision of the weights on disk.

    Raises:
        CheckpointError: it cannot be written, as of `writing`; what was there before stays.
    """
    folder, files = Path(folder), _tokenizer_files(network.config)
    with writing(folder):
        written = begin_folder(folder)
        try:
            write_tensors(written / WEIGHTS, _stored_weights(network, dtype), {"format": "pt"})
            texts = {
                CONFIG: network.config.to_json(),
                **{file: tokenizer.to_json() for file, tokenizer in zip(files, tokenizers, strict=True)},
                TRAINING: json.dumps(_record(training or {}), indent=2, ensure_ascii=False) + "\n",
                CARD: card,
            }
            for name, text in texts.items():
                (written / name).write_text(text, encoding="utf-8")
            replace_folder(folder, written)
        finally:
            shutil.rmtree(written, ignore_errors=True)


def _record(training: Mapping[str, Any]) -> dict[str, Any]:
    """Content of training.json, in which what was assumed is messages."""
    assumed = training.get("assumed")
    return {**training, **({"assumed": [written(each) for each in assumed]} if assumed else {})}


def is_ours(folder: Path, options: Mapping[str, Any] | None = None) -> bool:
    """True if a folder has a config.json of ours, which is neither Hugging Face's nor beside weights of another layout.

    options: content of the config.json, if it was read before.
    """
    if not (folder / CONFIG).exists():
        return False
    options = read_record(folder / CONFIG) if options is None else options
    return not is_hugging_face(options) and ("source_vocabulary" in options or (folder / WEIGHTS).exists())


def is_hugging_face(settings: Mapping[str, Any]) -> bool:
    """True if a config.json of this content is one of transformers."""
    return "model_type" in settings or "architectures" in settings


def whole_of(path: Path) -> Path:
    """Folder of a model, ours or another's, where a path is its only file of weights, for the config beside it says how
    to compute with them; else the path.
    """
    folder = path.parent
    if path.suffix.lower() not in READ or not path.is_file():
        return path
    options = read_record(folder / CONFIG)
    adapted = path.name in ADAPTERS and (folder / "adapter_config.json").is_file()
    if not (adapted or is_hugging_face(options) or "source_vocabulary" in options):
        return path
    try:
        return folder if weights_of(folder).files == [folder / path.name] else path
    except CheckpointError:
        return path


def open_ours(folder: Path, device: torch.device, dtype: torch.dtype) -> TextModel:
    """Model of a checkpoint folder of ours, in evaluation mode and without gradients.

    Raises:
        CheckpointError: a file is missing, damaged or contradicts another, or the model does not fit into memory.
    """
    config = read_config(folder / CONFIG)
    tokenizers = _read_tokenizers(folder, config)
    table = tensor_table(folder / WEIGHTS)
    require_weights(config, {info.name: info.shape for info in table}, folder.name)
    require_no_codes(table, folder.name)
    require_room(sum(math.prod(info.shape) for info in table), dtype, device)
    around = wrapping([info.name for info in table], ("encoder.", "decoder.", "output."))
    weights = {unwrapped(info.name, around): info.load() for info in table}  # mapped
    try:
        network = assembled(config, weights, device, dtype)
    except OtherWeightsError as error:
        raise CheckpointError(
            "{file}: {error}: config.json and model.safetensors do not belong together", file=folder.name, error=error
        ) from error
    except CheckpointError:
        raise
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:  # numbers that torch cannot hold
        raise CheckpointError(
            "{file}: no model of this config.json can be built: {first_line}",
            file=folder.name,
            first_line=first_line(error),
        ) from error
    training = read_record(folder / TRAINING)
    if isinstance(assumed := training.get("assumed"), list):
        training["assumed"] = [read(each) for each in assumed]
    return MODEL_CLASSES[config.kind](folder.resolve().name, network, tokenizers, training)


def _tokenizer_files(config: TransformerConfig) -> tuple[str, str]:
    return (SOURCE_TOKENIZER, TARGET_TOKENIZER) if config.kind in TWO_STACKS else (TOKENIZER, TOKENIZER)


def _read_tokenizers(folder: Path, config: TransformerConfig) -> tuple[Tokenizer, Tokenizer]:
    files = _tokenizer_files(config)
    read = {name: _read_tokenizer(folder / name) for name in files}
    for name, size in zip(files, config.vocabularies, strict=True):
        if len(read[name]) != size:
            raise CheckpointError(
                "{file}: {name} has {count} tokens, config.json says {size}",
                file=folder.name,
                name=name,
                count=len(read[name]),
                size=size,
            )
    if config.kind == "encoder-only" and type(read[TOKENIZER]) is Tokenizer and read[TOKENIZER].mask is None:
        raise CheckpointError(
            "{file}: tokenizer.json has no <mask> token, which an encoder-only model needs", file=folder.name
        )
    return read[files[0]], read[files[1]]


def _read_tokenizer(path: Path) -> Tokenizer:
    from model.text.huggingface.load import is_saved, read_saved

    return read_saved(path) if is_saved(path) else Tokenizer.read(path)


def _stored_weights(network: Network, dtype: torch.dtype) -> dict[str, Tensor]:
    """Parameters by name in this precision, tied ones once."""
    return {name: tensor.detach().to(dtype) for name, tensor in network.named_parameters()}


# Folders in our format may be a stranger's: sizes in the config are compared with the header of the weights first.

LARGEST_CONFIG = 1 << 20  # bytes
MOST_LAYERS = 512
BUILT = 10_000_000  # weights that any config may ask for; missing ones are then named when weights are loaded
LARGEST_TABLE = 1 << 25  # numbers in a table of positions, which is in no file


def read_config(path: Path) -> TransformerConfig:
    """Config in a config.json of ours.

    Raises:
        CheckpointError: the file is not JSON, or an option is unknown or out of its range.
    """
    content = read_bytes(path, LARGEST_CONFIG)
    parse_json(content, path.name)
    try:
        return TransformerConfig.from_json(content.decode("utf-8"))
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            "{file} does not describe a model that can be built: {error}", file=path.name, error=error
        ) from error


def require_weights(config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]], name: str) -> None:
    """Refuse a config that asks for more weights than the file has, before memory is taken for them.

    shapes: of the tensors in the file by name. name: of the checkpoint, for the sentence.

    Raises:
        CheckpointError: the config asks for more; the sentence says where.
    """
    # Shapes are compared one by one when the weights are loaded; here only sizes that could be too large to build.
    widest = max((size for shape in shapes.values() if math.prod(shape) for size in shape), default=0)
    for option in ("d_model", "d_ff", "n_heads", "source_vocabulary", "target_vocabulary"):
        if (size := getattr(config, option)) > widest:
            raise CheckpointError(
                "{file}: the config says {option} {size:,}, and no tensor in the weights is wider than "
                "{widest:,}: the two files do not belong together",
                file=name,
                option=option,
                size=size,
                widest=widest,
            )
    layers = config.n_encoder_layers + config.n_decoder_layers
    if layers > MOST_LAYERS:
        raise CheckpointError(
            "{file}: the config says {layers:,} layers: at most {most_layers} are opened",
            file=name,
            layers=layers,
            most_layers=MOST_LAYERS,
        )
    width = config.d_model if config.position.startswith("sinusoidal") else config.d_head
    if config.max_length * width > LARGEST_TABLE:
        raise CheckpointError(
            "{file}: the config says max_length {max_length:,}, whose table of positions would take "
            "{max_length_2:,.1f} GB: lower it",
            file=name,
            max_length=config.max_length,
            max_length_2=4 * config.max_length * width / 1000000000.0,
        )
    needed, stored = sum(parameters(config).values()), sum(map(math.prod, shapes.values()))
    if needed > max(stored, BUILT):
        raise CheckpointError(
            "{file}: the config asks for {asked:,} weights, and the file holds {stored:,}: they do not belong together",
            file=name,
            asked=needed,
            stored=stored,
        )
