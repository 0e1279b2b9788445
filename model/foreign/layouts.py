"""State dicts without a config, recognised by their tensors' names and shapes and put together as our network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from model.foreign.incomplete import require_whole
from model.foreign.layouts_annotated import ANCHOR, annotated
from model.foreign.layouts_gpt import FIRST_KEYS, PACKED, first_min_gpt, gpt
from model.foreign.layouts_torch import FIRST_LAYER, torch_transformer
from model.foreign.state import Layout, State
from model.foreign.told import Told
from model.network.config import TransformerConfig
from model.pickled import Plain, read_state
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record
from model.safe_folder import require_weights
from model.tensors import is_of_training, read_tensors
from model.text.huggingface.load import TOKENIZER, open_tokenizers
from model.text.huggingface.tokenizer import NO_TOKENS, BareIds
from model.text.tokenizer import Tokenizer

ANCHORS = (PACKED, FIRST_KEYS, ANCHOR, FIRST_LAYER)  # how a name ends that each of them needs
LAYOUTS = (gpt, first_min_gpt, annotated, torch_transformer)
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")
KNOWN = "nanoGPT, minGPT, the Annotated Transformer, torch.nn.Transformer"
META = "meta.pkl"  # nanoGPT's characters


def open_state(file: Path, told: Told) -> tuple[Layout, tuple[Tokenizer, Tokenizer]]:
    """What a file of weights alone holds, its weights still in the file, and what lies beside it as tokenizer.

    told: what somebody says of it, where nothing else does.

    Raises:
        CheckpointError: the file is damaged, its layout is not known, or it says too little; `HeadsNeededError` where
            only the number of heads is missing.
    """
    layout = find_layout(file, told)
    tokenizers = _tokenizers(file, layout.config, told)
    if layout.config.kind != "encoder-decoder" or not isinstance(tokenizers[1], BareIds):
        return layout, tokenizers
    assumed = () if told.start is not None else ("targets begin with token 0 (there is no tokenizer)",)
    layout = replace(layout, assumed=layout.assumed + assumed, open={**layout.open, "start": told.start or 0})
    return layout, tokenizers


def find_layout(file: Path, told: Told) -> Layout:
    """As whose it was recognised, with its weights.

    Raises:
        CheckpointError: as of `open_state`.
    """
    tensors, records = _read(file)
    require_whole(file, {name: tuple(each.shape) for name, each in tensors.items()})
    state = State(file.name, tensors, records | _beside(file), told)
    layout = next((found for make in LAYOUTS if (found := make(state)) is not None), None)
    if layout is None:
        raise CheckpointError(
            f"{file.name} holds {len(tensors):,} tensors, and is none of {KNOWN}: its tensors can be looked at under "
            "Checkpoints → Read, and to compute with it, a config.json of transformers must lie beside it"
        )
    require_weights(layout.config, {name: tuple(each.shape) for name, each in layout.weights.items()}, file.name)
    return layout


def is_known(names: Iterable[str]) -> bool:
    """Whether a file with these tensors may be of one of the layouts, as far as names alone tell it."""
    return any(name.endswith(ANCHORS) for name in names)


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Plain]]:
    """What belongs to a training and not to the model is left out."""
    tensors, records = (read_tensors(file), {}) if file.suffix.lower() == ".safetensors" else read_state(file)
    return {name: each for name, each in tensors.items() if not is_of_training(name)}, records


def _beside(file: Path) -> dict[str, Plain]:
    """The plain values of a config.json in the same folder, by name: minGPT writes one."""
    found: dict[str, Plain] = {}
    waiting: list[tuple[str, Any]] = [("config", read_record(file.parent / "config.json"))]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{key}", each) for key, each in value.items()]
        elif isinstance(value, int | float | str | bool):
            found[name] = value
    return found


def _tokenizers(file: Path, config: TransformerConfig, told: Told) -> tuple[Tokenizer, Tokenizer]:
    """A tokenizer.json beside the file, if the model knows all of its tokens; else bare ids."""
    sizes = config.vocabularies
    reason = f"there is no {TOKENIZER} beside the weights"
    if (file.parent / META).is_file():
        reason = f"{META} beside the weights is a pickle, which could run code and is never read"
    if not (file.parent / TOKENIZER).is_file():
        if told.start is not None and told.start >= sizes[1]:
            raise CheckpointError(f"{file.name}: start ({told.start}) must be the id of one of its {sizes[1]} tokens")
        return BareIds(sizes[0], reason), BareIds(sizes[1], reason, replace(NO_TOKENS, start=told.start))
    return open_tokenizers(file.parent, {}, sizes)
