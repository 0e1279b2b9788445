"""Published models rebuilt as our network: their families, their config, and the place of every weight.

A rebuilt model computes what Hugging Face's module computes, up to rounding; a model that is not known to do so is not
rebuilt. Left out, because they have no part in hidden states, attentions and logits: BERT's pooler and its head for
the next sentence. BERT's and RoBERTa's vector of token type 0 is added to their positions, since every token of one
text has it; γ of Gemma's norms is kept with the 1 that the norm adds to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
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
    """Config of the network of ours that computes what a published model does; None where the family, or a setting or
    tensor of the model, is not known to be computed alike.

    settings: config.json. names: of the tensors in the file.

    Raises:
        CheckpointError: settings and names contradict each other, or a setting is out of its range.
    """
    if (family := FAMILIES.get(settings["model_type"])) is None:
        return None
    try:
        checkpoint = SourceCheckpoint(family, settings, names)
        config = _config(checkpoint)
        checkpoint.require_plausible(config)
        checkpoint.require_names(checkpoint.weight_map(config))
    except UnsupportedError:
        return None
    return config


def rebuilt_weights(
    settings: Mapping[str, Any], config: TransformerConfig, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Weights by our names and in the shapes of our parameters, views of the file's tensors where that is possible.

    config: the `rebuilt_config` of these settings and names. weights: the file's tensors by name.

    Raises:
        CheckpointError: a tensor is missing or of another shape than the config asks for, or a copy of a tied matrix
            differs from it.
    """
    checkpoint = SourceCheckpoint(FAMILIES[settings["model_type"]], settings, weights)
    _config(checkpoint)
    plan = checkpoint.weight_map(config)
    tensors = {modern(name): tensor for name, tensor in weights.items()}
    _require_copies(plan, tensors)
    return _weights(plan, tensors, config)


def file_parameters(
    settings: Mapping[str, Any], config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]]
) -> int:
    """Count of numbers in those tensors of a file that the weights are made from; ours may be fewer, where some are
    added up. shapes: of the file's tensors by name.
    """
    plan = SourceCheckpoint(FAMILIES[settings["model_type"]], settings, shapes).weight_map(config)
    read = {name for source in plan.values() for name in source.names}
    return sum(math.prod(shape) for name, shape in shapes.items() if modern(name) in read)


def checked_weights(
    settings: Mapping[str, Any],
    config: TransformerConfig,
    shapes: Mapping[str, tuple[int, ...]],
    load: Callable[[str], Tensor],
) -> Mapping[str, Tensor]:
    """Weights as of `rebuilt_weights`, each loaded when it is asked for, so that memory holds one of them.

    shapes: of the file's tensors by name. load: gives the values of one.

    Raises:
        CheckpointError: as `rebuilt_weights`, by the shapes alone.
    """
    without_values = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    rebuilt_weights(settings, config, without_values)
    checkpoint = SourceCheckpoint(FAMILIES[settings["model_type"]], settings, shapes)
    original = {modern(name): name for name in shapes}
    plan = checkpoint.weight_map(config)
    for source in plan.values():  # whose values the shapes alone do not compare
        for copy in source.copies:
            _require_copy(copy, load(original[copy]), source.names[0], load(original[source.names[0]]))
    return _LoadedWeights(plan, lambda name: load(original[name]))


class _LoadedWeights(Mapping[str, Tensor]):
    def __init__(self, plan: WeightMap, load: Callable[[str], Tensor]) -> None:
        self._plan, self._load = plan, load

    def __getitem__(self, name: str) -> Tensor:
        source = self._plan[name]
        return source.make(*map(self._load, source.names))

    def __iter__(self) -> Iterator[str]:
        return iter(self._plan)

    def __len__(self) -> int:
        return len(self._plan)


def _config(checkpoint: SourceCheckpoint) -> TransformerConfig:
    try:
        config = checkpoint.family.options(checkpoint)
    except CheckpointError:
        raise
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(
            "config.json does not describe a model that can be built: {error}", error=error
        ) from error
    checkpoint.settings.require_all_known(*checkpoint.family.known)
    return config


def _weights(plan: WeightMap, tensors: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    parameters = dict(skeleton(config).named_parameters(remove_duplicate=False))
    weights = {}
    for name, source in plan.items():
        weights[name] = weight = _weight(name, source, tensors)
        if weight.shape != parameters[name].shape:
            raise CheckpointError(
                "{names} has shape {shape}, which does not fit config.json: {name} must be {shape_2}",
                names=source.names[0],
                shape=tuple(tensors[source.names[0]].shape),
                name=name,
                shape_2=tuple(parameters[name].shape),
            )
    return weights


def _weight(name: str, source: WeightSource, tensors: Mapping[str, Tensor]) -> Tensor:
    if missing := [other for other in source.names if other not in tensors]:
        raise CheckpointError("the weights lack {missing}, which config.json asks for", missing=missing[0])
    sources = [tensors[other] for other in source.names]
    try:
        if not all(tensor.ndim for tensor in sources):
            raise IndexError("a single number")
        return source.make(*sources)
    except (RuntimeError, IndexError) as error:
        shape = tuple(sources[0].shape)
        raise CheckpointError(
            "{names} has shape {shape}, from which {name} cannot be made", names=source.names[0], shape=shape, name=name
        ) from error


def _require_copies(plan: WeightMap, tensors: Mapping[str, Tensor]) -> None:
    for name, original in ((copy, source.names[0]) for source in plan.values() for copy in source.copies):
        _require_copy(name, tensors[name], original, tensors[original])


def _require_copy(name: str, copy: Tensor, original: str, matrix: Tensor) -> None:
    if copy.data_ptr() != matrix.data_ptr() and not torch.equal(copy.flatten(), matrix.flatten()):
        raise CheckpointError(
            "{file} differs from {original}, with which config.json ties it: set tie_word_embeddings to false",
            file=name,
            original=original,
        )
