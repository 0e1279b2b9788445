"""What a training in the application begins with: the data that was chosen, and the config of a new model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.config import ONE_STACK, Kind, TransformerConfig
from model.data import HELD, Pair
from model.materials import TEXT_HELD, Answers, Material, RunningText, Sentences, Tokenizers, Translations, Units
from model.phrases import phrases
from model.reading import TASK_PAIRS, lines_of, read_pairs_from
from model.saving import Source
from model.tasks import MADE

PHRASES, BY_RULE = "sentences made by rule", "made by code, model/phrases.py"
VOCABULARY = 1000  # of a BPE, unless told
LAYERS = {layers for _vocabulary, layers in ONE_STACK.values()}
KIND_UNITS: dict[Kind, tuple[Units, ...]] = {
    "encoder-decoder": ("mixed", "bpe", "characters", "joint"),
    "decoder-only": ("bpe", "characters"),
    "encoder-only": ("bpe", "characters"),
}


@dataclass(frozen=True)
class Data:
    """Pairs, or a text. name, licence: for the model card. task: by whose rule they were made. held: percent for
    validation.
    """

    name: str
    pairs: tuple[Pair, ...] = ()
    text: str = ""
    task: str = ""
    held: int | None = None
    licence: str = ""

    @property
    def source(self) -> Source:
        return Source(self.name, self.licence)


def task_data(task: str, count: int = TASK_PAIRS) -> Data:
    """Pairs of a built-in task.

    Raises:
        ValueError: there is none of that name, or it has not so many pairs.
    """
    name = f"task:{task}:{count}"
    return Data(name, tuple(read_pairs_from(name)), task=task, licence=MADE)


def phrase_data(kind: Kind) -> Data:
    """Sentences made by rule: pairs, or, where there is one stack, their English ones."""
    pairs = tuple(phrases())
    if kind == "encoder-decoder":
        return Data(PHRASES, pairs, licence=BY_RULE)
    return Data(PHRASES, text="\n".join(pair.source for pair in pairs), licence=BY_RULE)


def material_of(
    kind: Kind, data: Data, units: Units, vocabulary: int, tokenizers: Tokenizers | None = None
) -> Material:
    """What a model of this kind learns from. tokenizers: of a model that is trained on; else new ones are made.

    Raises:
        ValueError: the data does not suit the kind, or holds nothing to train on.
    """
    held = HELD if data.held is None else data.held
    if kind == "encoder-decoder":
        if not data.pairs:
            raise ValueError("an encoder-decoder model needs pairs, and this is a text: choose two columns")
        return Translations(data.pairs, data.task, units, vocabulary, tokenizers, held)
    if kind == "decoder-only":
        if data.pairs:
            return Answers(data.pairs, data.task, units, vocabulary, tokenizers, held)
        return RunningText(data.text, units, vocabulary, tokenizers, TEXT_HELD if data.held is None else data.held)
    lines = [pair.source for pair in data.pairs] or lines_of(data.text)
    return Sentences(lines, units, vocabulary, tokenizers, held)


def usual_units(kind: Kind, data: Data, tied: bool = False) -> Units:
    """What a token is unless told: characters where a task counts them, else as on the command line. tied: both stacks
    share one matrix of embeddings, and so a vocabulary.
    """
    if data.task:
        return "characters"
    return "bpe" if kind != "encoder-decoder" else "joint" if tied else "mixed"


def without_stack(kind: Kind) -> dict[str, int]:
    """Options of the stack that a kind has not."""
    missing = [names for other, names in ONE_STACK.items() if kind not in ("encoder-decoder", other)]
    return {name: 0 for names in missing for name in names}


def preset_options(kind: Kind, preset: str) -> dict[str, Any]:
    """Every option of a preset for this kind of model, but for its vocabularies."""
    sizes = {"source_vocabulary": 1, "target_vocabulary": 1}
    config = TransformerConfig.preset(preset, **(sizes | without_stack(kind)))
    return {name: value for name, value in vars(config).items() if not name.endswith("_vocabulary")}


def new_config(kind: Kind, options: Mapping[str, Any], tokenizers: Tokenizers) -> TransformerConfig:
    """A config with the vocabularies of these tokenizers.

    Raises:
        ValueError: an option is out of its range, does not go with another, or leaves nothing to be trained.
    """
    sizes = {"source_vocabulary": len(tokenizers[0]), "target_vocabulary": len(tokenizers[1])}
    for name in LAYERS - without_stack(kind).keys():
        if options.get(name) == 0:
            raise ValueError(f"{name} (0) must be at least 1: a model without these layers is of another kind")
    config = TransformerConfig.from_dict(sizes | dict(options) | without_stack(kind))
    if config.output_head == "none":
        raise ValueError("output_head ('none') gives no logits to train with: choose linear or transform")
    return config
