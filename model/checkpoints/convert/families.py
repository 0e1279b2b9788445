"""Published models put together as ours: which they are, what config they have, and which weight goes where.

What is rebuilt computes what Hugging Face's module computes, up to rounding; whatever is not known to do so is not
rebuilt. Left out, because they have no part in hidden states, attentions and logits: BERT's pooler and its head for
the next sentence. BERT's and RoBERTa's vector of token type 0 is added to their positions, since every token of one
text has it; a γ of Gemma's norms is kept with the 1 that it is added to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.convert.bart import BART, MARIAN, MBART
from model.checkpoints.convert.bert import BERT, CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from model.checkpoints.convert.family import Family, SourceCheckpoint, UnsupportedError, modern
from model.checkpoints.convert.gpt import GPT2, GPT_NEOX, OPT
from model.checkpoints.convert.llama import GEMMA, LLAMA, MISTRAL, QWEN2, QWEN3
from model.checkpoints.convert.t5 import MT5, T5
from model.checkpoints.convert.weight_map import WeightMap, WeightSource
from model.network.config import TransformerConfig
from model.network.transformer import skeleton
from model.runtime.errors import CheckpointError

FAMILIES: dict[str, Family] = {
    "gpt2": GPT2,
    "gpt_neox": GPT_NEOX,
    "opt": OPT,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma": GEMMA,
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": XLM_ROBERTA,
    "camembert": CAMEMBERT,
    "distilbert": DISTILBERT,
    "bart": BART,
    "mbart": MBART,
    "marian": MARIAN,
    "t5": T5,
    "mt5": MT5,
}


def rebuilt_config(settings: Mapping[str, Any], names: Collection[str]) -> TransformerConfig | None:
    """The config of ours that computes the same; None where the model, or anything that its config.json asks for, is
    not known to be the same.

    settings: config.json. names: of the tensors in the file.

    Raises:
        CheckpointError: settings and names contradict each other, or a setting is out of its range.
    """
    if (family := FAMILIES.get(settings["model_type"])) is None:
        return None
    try:
        given = SourceCheckpoint(family, settings, names)
        config = _config(given)
        given.require_plausible(config)
        given.require_names(given.weight_map(config))
    except UnsupportedError:
        return None
    return config


def renamed(settings: Mapping[str, Any], config: TransformerConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights from theirs, by our names. config: what `rebuilt_config` gave for these settings and names.

    Raises:
        CheckpointError: a tensor is missing or of another shape than the config asks for, or one that should be the
            same as another differs from it.
    """
    given = SourceCheckpoint(FAMILIES[settings["model_type"]], settings, weights)
    _config(given)
    plan = given.weight_map(config)
    theirs = {modern(name): tensor for name, tensor in weights.items()}
    _require_copies(plan, theirs)
    return _made(plan, theirs, config)


def _config(given: SourceCheckpoint) -> TransformerConfig:
    try:
        config = given.family.options(given)
    except CheckpointError:
        raise
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(f"config.json does not describe a model that can be built: {error}") from error
    given.settings.require_all_known(*given.family.known)
    return config


def _made(plan: WeightMap, theirs: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    parameters = skeleton(config).named_parameters(remove_duplicate=False)
    shapes = {name: tuple(each.shape) for name, each in parameters}
    ours = {}
    for name, piece in plan.items():
        ours[name] = tensor = _one(name, piece, theirs)
        if tuple(tensor.shape) != shapes[name]:
            raise CheckpointError(
                f"{piece.names[0]} has shape {tuple(theirs[piece.names[0]].shape)}, which does not fit config.json: "
                f"{name} must be {shapes[name]}"
            )
    return ours


def _one(name: str, piece: WeightSource, theirs: Mapping[str, Tensor]) -> Tensor:
    if missing := [each for each in piece.names if each not in theirs]:
        raise CheckpointError(f"the weights lack {missing[0]}, which config.json asks for")
    given = [theirs[each] for each in piece.names]
    try:
        if not all(each.ndim for each in given):
            raise IndexError("a single number")
        return piece.make(*given)
    except (RuntimeError, IndexError) as error:
        shape = tuple(given[0].shape)
        raise CheckpointError(f"{piece.names[0]} has shape {shape}, from which {name} cannot be made") from error


def _require_copies(plan: WeightMap, theirs: Mapping[str, Tensor]) -> None:
    for copy, original in ((copy, weight.names[0]) for weight in plan.values() for copy in weight.copies):
        one, other = theirs[copy], theirs[original]
        if one.data_ptr() != other.data_ptr() and not torch.equal(one.flatten(), other.flatten()):
            raise CheckpointError(
                f"{copy} differs from {original}, with which config.json ties it: set tie_word_embeddings to false"
            )
