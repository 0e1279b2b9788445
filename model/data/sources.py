"""Training data for each kind of model: texts, their splits, and tokenizers made from the training part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from model.data.datasets import AnswerDataset, Dataset, MaskedDataset, PairDataset, TextDataset
from model.data.pairs import VALIDATION_PERCENT, Pair, Split, parts_of, phrases
from model.data.readers import TASK_PAIRS, is_text, lines_of, read_pairs_from, read_text
from model.data.tasks import CODE_LICENCE, TASKS
from model.message import InputError, Message
from model.network.config import ONE_STACK, TWO_STACKS, Kind, TransformerConfig, config_class
from model.text.tokenizer import MASK, Tokenizer
from model.text.tokenizer_training import (
    train_bpe,
    train_characters,
    train_text_bpe,
    train_text_characters,
    train_text_words,
    train_words,
)

Units = Literal["mixed", "bpe", "words", "characters", "joint"]
Tokenizers = tuple[Tokenizer, Tokenizer]  # of source and target; for a model with one stack the same one twice
SPLITS: tuple[Split, Split] = ("train", "validation")
SEPARATOR = "="  # between question and answer, where one stack reads both
LONGEST_EXAMPLE = 200  # characters of the first probe
TEXT_VALIDATION_PERCENT = 10  # of a running text, its end, by default


@runtime_checkable
class TrainingData(Protocol):
    """Training data. example: a text for the first probe. tested: whether a part is kept for the test. data: what they
    were made of by `material_of`, else None. overlap: how many of the texts to validate on are trained on too, and how
    many there are; of a running text its lines.
    """

    data: Data | None
    overlap: tuple[int, int]
    tokenizers: Tokenizers
    example: str
    tested: bool

    def corpora(self, max_length: int, bpe_dropout: float) -> tuple[Dataset, Dataset]:
        """Datasets for training and for validation. bpe_dropout: share of merged source tokens that are cut in two."""
        ...

    def record(self) -> dict[str, Any]:
        """Fields of training.json about the data."""
        ...


def prepare(
    kind: Kind,
    spec: str,
    units: Units | None,
    vocabulary: int,
    tokenizers: Tokenizers | None = None,
    validation: str | None = None,
) -> TrainingData:
    """Training data that `spec` names (see `readers.SPEC_HELP`), for a model of this kind.

    units: what a token is; "mixed" is BPE in the source and characters in the target, "joint" one BPE for both; None:
    see `usual_units`. vocabulary: of a BPE or of words. tokenizers: of a model that is trained on, in place of new
    ones. validation: names other data to validate on; then all of `spec` is for training.

    Raises:
        ValueError: the data cannot be read or is empty, or the kind has no such units.
    """
    task = spec.partition(":")[2].partition(":")[0] if spec.startswith("task:") else ""
    units = units or usual_units(kind, task)
    if units not in KIND_UNITS[kind]:
        known = ", ".join(KIND_UNITS[kind])
        raise InputError(
            "units ({units!r}) must be one of {known}: a {kind} model has one tokenizer",
            units=units,
            known=known,
            kind=kind,
        )
    if kind == "decoder-only" and is_text(spec):
        return RunningText(_text(spec), units, vocabulary, tokenizers, others=validation and _text(validation))
    pairs, others = _pairs(kind, spec), _pairs(kind, validation) if validation else None
    if kind == "encoder-only":
        return Sentences([pair.source for pair in pairs], units, vocabulary, tokenizers, others=others)
    if kind == "decoder-only":
        return Answers(pairs, task, units, vocabulary, tokenizers, others=others)
    return Translations(pairs, task, units, vocabulary, tokenizers, others=others)


def digest_of_spec(kind: Kind, spec: str) -> str:
    """Digest of the data that `spec` names, as in the record of a model of this kind that was trained on them.

    Raises:
        ValueError: the data cannot be read or is empty.
    """
    if kind == "decoder-only" and is_text(spec):
        return digest_of_texts([_text(spec)])
    return digest_of_pairs(_pairs(kind, spec), kind == "encoder-only")


def digest_of_pairs(pairs: Iterable[Pair], sources: bool = False) -> str:
    """Digest of pairs, or of their sources alone."""
    return digest_of_texts(
        pair.source if sources else f"{pair.source.strip()}\t{pair.target.strip()}" for pair in pairs
    )


def digest_of_texts(texts: Iterable[str]) -> str:
    """Digest of the content of data: the same in any order, without white space around the texts, each counted once."""
    digest = sha256()
    for text in sorted({text.strip() for text in texts}):
        digest.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _overlap(train: Iterable[str], validation: Sequence[str]) -> tuple[int, int]:
    """Number of texts for validation that are among those for training, and number of all."""
    known = {text.strip() for text in train}
    return sum(text.strip() in known for text in validation), len(validation)


def _pairs(kind: Kind, spec: str) -> list[Pair]:
    if kind == "encoder-only" and is_text(spec):
        return [Pair(line, "") for line in lines_of(_text(spec))]
    return read_pairs_from(spec)


def _text(path: str) -> str:
    text = read_text(Path(path))
    if not text.strip():
        raise InputError("{path} is empty: give a file with text in it", path=path)
    return text


class _Pairs:
    """Pairs of each split."""

    separator = ""  # behind a source, where one stack reads source and target

    data: Data | None = None

    def __init__(
        self,
        pairs: Sequence[Pair],
        task: str,
        units: Units,
        vocabulary: int,
        tokenizers: Tokenizers | None = None,
        validation_percent: int = VALIDATION_PERCENT,
        others: Sequence[Pair] | None = None,
    ) -> None:
        """task: whose rule the pairs follow, or empty. vocabulary: of a BPE. tokenizers: of a model that is trained on.
        validation_percent, others: see `parts_of`.
        """
        self.pairs, self.task = parts_of(pairs, validation_percent, others), task
        self.percent = validation_percent if others is None else None
        self.tested = bool(test := self.pairs["test"])
        self.overlap = _overlap(*([pair.source for pair in self.pairs[split]] for split in SPLITS))
        self.digest = digest_of_pairs(pairs)
        self.tokenizers = tokenizers or self._new_tokenizers(units, vocabulary)
        self.example = _example(test, self.pairs["train"]) + self.separator

    def _new_tokenizers(self, units: Units, vocabulary: int) -> Tokenizers:
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "training_pairs": len(self.pairs["train"]),
            "validation_percent": self.percent,
            "data_digest": self.digest,
            **_overlap_record(self.overlap),
        }


class Translations(_Pairs):
    """Pairs for a model that reads a source and writes a target."""

    def _new_tokenizers(self, units: Units, vocabulary: int) -> Tokenizers:
        sources, targets = ([pair[side] for pair in self.pairs["train"]] for side in (0, 1))
        if units == "joint":
            return _twice(train_bpe([*sources, *targets], vocabulary))
        target_units: Units = units if units in ("bpe", "words") else "characters"
        return _tokenizer(sources, units, vocabulary), _tokenizer(targets, target_units, vocabulary)

    def corpora(self, max_length: int, bpe_dropout: float) -> tuple[Dataset, Dataset]:
        train = PairDataset(self.pairs["train"], self.tokenizers, max_length, bpe_dropout)
        return train, PairDataset(self.pairs["validation"], self.tokenizers, max_length)


class Answers(_Pairs):
    """Pairs for a decoder-only model, which reads the source and goes on with the target."""

    separator = SEPARATOR

    def _new_tokenizers(self, units: Units, vocabulary: int) -> Tokenizers:
        texts = [f"{pair.source}{SEPARATOR}{pair.target}" for pair in self.pairs["train"]]
        return _twice(_tokenizer(texts, units, vocabulary))

    def corpora(self, max_length: int, bpe_dropout: float) -> tuple[Dataset, Dataset]:
        train, validation = (
            AnswerDataset(self.pairs[split], self.tokenizers[0], max_length, SEPARATOR) for split in SPLITS
        )
        return train, validation

    def record(self) -> dict[str, Any]:
        return super().record() | {"separator": SEPARATOR}


class RunningText:
    """A text for a decoder-only model; `validation_percent` % at its end are for validation, or the text `others`.

    Raises:
        ValueError: the text is too short to keep a part of it for validation.
    """

    data: Data | None = None

    def __init__(
        self,
        text: str,
        units: Units,
        vocabulary: int,
        tokenizers: Tokenizers | None = None,
        validation_percent: int = TEXT_VALIDATION_PERCENT,
        others: str | None = None,
    ) -> None:
        if others is None and len(text) * validation_percent < 100:
            raise InputError(
                "the text has {count} characters: too few for validation to have {validation_percent} %",
                count=len(text),
                validation_percent=validation_percent,
            )
        self.parts = cut_text(text, validation_percent) if others is None else (text, others)
        self.percent = validation_percent if others is None else None
        self.tested = others is None
        self.overlap = _overlap(*map(lines_of, self.parts)) if others is not None else (0, 0)
        self.digest = digest_of_texts([text])
        train = [self.parts[0]]
        self.tokenizers = tokenizers or _twice(
            train_text_characters(train)
            if units == "characters"
            else train_text_words(train, vocabulary)
            if units == "words"
            else train_text_bpe(train, vocabulary)
        )
        lines = (line[:LONGEST_EXAMPLE] for line in self.parts[1].splitlines() if len(line) > 20)
        self.example = next(lines, self.parts[1][:40])

    def corpora(self, max_length: int, bpe_dropout: float) -> tuple[Dataset, Dataset]:
        train, validation = (TextDataset(part, self.tokenizers[0], max_length) for part in self.parts)
        return train, validation

    def record(self) -> dict[str, Any]:
        tokens = len(self.tokenizers[0].encode(self.parts[1]))
        return {
            "training_characters": len(self.parts[0]),
            "validation_percent": self.percent,
            "validation_characters_per_token": len(self.parts[1]) / max(1, tokens),
            "data_digest": self.digest,
            **_overlap_record(self.overlap),
        }


class Sentences:
    """Single sentences for an encoder-only model; repeated ones count once.

    Raises:
        ValueError: the tokenizer has no mask token.
    """

    data: Data | None = None

    def __init__(
        self,
        texts: Iterable[str],
        units: Units,
        vocabulary: int,
        tokenizers: Tokenizers | None = None,
        validation_percent: int = VALIDATION_PERCENT,
        others: Sequence[Pair] | None = None,
    ) -> None:
        pairs = [Pair(text, "") for text in dict.fromkeys(texts)]
        parts = parts_of(pairs, validation_percent, others)
        self.texts = {split: [pair.source for pair in part] for split, part in parts.items()}
        self.tested = bool(test := parts["test"])
        self.percent = validation_percent if others is None else None
        train = self.texts["train"]
        self.overlap = _overlap(train, self.texts["validation"])
        self.digest = digest_of_texts(pair.source for pair in pairs)
        if tokenizers and tokenizers[0].mask is None:
            raise ValueError(
                Message("the tokenizer has no <mask> token: choose a model that was trained to fill in masks")
            )
        self.tokenizers = tokenizers or _twice(_tokenizer(train, units, vocabulary, mask=True))
        self.example = _with_a_mask(_example(test, pairs))

    def corpora(self, max_length: int, bpe_dropout: float) -> tuple[Dataset, Dataset]:
        train, validation = (MaskedDataset(self.texts[split], self.tokenizers[0], max_length) for split in SPLITS)
        return train, validation

    def record(self) -> dict[str, Any]:
        return {
            "training_sentences": len(self.texts["train"]),
            "validation_percent": self.percent,
            "data_digest": self.digest,
            **_overlap_record(self.overlap),
        }


def _overlap_record(overlap: tuple[int, int]) -> dict[str, list[int]]:
    """Field of a training record on texts of the validation that are trained on too; none without such texts."""
    return {"validation_overlap": list(overlap)} if overlap[0] else {}


def cut_text(text: str, validation_percent: int = TEXT_VALIDATION_PERCENT) -> tuple[str, str]:
    """Parts of a running text for training and, at its end, for validation."""
    cut = len(text) - len(text) * validation_percent // 100
    return text[:cut], text[cut:]


def _twice(tokenizer: Tokenizer) -> Tokenizers:
    return tokenizer, tokenizer


def _tokenizer(texts: Sequence[str], units: Units, vocabulary: int, mask: bool = False) -> Tokenizer:
    if units == "characters":
        return train_characters(texts, mask)
    return (train_words if units == "words" else train_bpe)(texts, vocabulary, mask)


def _example(*places: Sequence[Pair]) -> str:
    """Source of middling length, of the first part that has any."""
    sources = next((sorted((pair.source for pair in pairs), key=len) for pairs in places if pairs), [""])
    return sources[len(sources) * 3 // 4][:LONGEST_EXAMPLE]


def _with_a_mask(text: str) -> str:
    words = text.split()
    if len(words) > 1:
        words[len(words) // 2] = MASK
        return " ".join(words)
    return text[: len(text) // 2] + MASK + text[len(text) // 2 + 1 :]


# The start of a training in the application: the chosen data, and the config of a new model.

PHRASES, BY_RULE = "sentences made by rule", "made by code, model/data/pairs.py"
VOCABULARY = 1000  # of a BPE, by default
LAYERS = {layers for _vocabulary, layers in ONE_STACK.values()}
KIND_UNITS: dict[Kind, tuple[Units, ...]] = {
    **dict.fromkeys(TWO_STACKS, ("mixed", "bpe", "words", "characters", "joint")),
    "decoder-only": ("bpe", "words", "characters"),
    "encoder-only": ("bpe", "words", "characters"),
}


@dataclass(frozen=True)
class Data:
    """Pairs, or a text. name, licence: for the model card. task: whose rule the pairs follow."""

    name: str
    pairs: tuple[Pair, ...] = ()
    text: str = ""
    task: str = ""
    validation_percent: int | None = None
    licence: str = ""

    @property
    def source(self) -> Source:
        """Name and licence, as in a training record."""
        return Source(self.name, self.licence)


def task_data(task: str, count: int = TASK_PAIRS) -> Data:
    """Pairs of a built-in task.

    Raises:
        ValueError: there is no task of that name, or it has fewer pairs.
    """
    name = f"task:{task}:{count}"
    return Data(name, tuple(read_pairs_from(name)), task=task, licence=CODE_LICENCE)


def phrase_data(kind: Kind) -> Data:
    """Sentences composed by rule: pairs, or, for a model with one stack, the English ones as a text."""
    pairs = tuple(phrases())
    if kind in TWO_STACKS:
        return Data(PHRASES, pairs, licence=BY_RULE)
    return Data(PHRASES, text="\n".join(pair.source for pair in pairs), licence=BY_RULE)


MOST_PAIRS = 1_000_000  # of a task: a file may name any number of them
MADE_HERE = "in Vitrine"  # in the note of what was trained in the application


def has_data_of(record: Mapping[str, Any]) -> bool:
    """True if the data of an earlier run are here with its split, by the name in its training record.

    The split of a run of the application whose record does not name it is unknown: its data do not count as here.
    """
    name, percent = str(record.get("data", "")), record.get("validation_percent")
    if record.get("validation_data") or (percent is None and MADE_HERE in str(record.get("note", ""))):
        return False
    if percent is not None and (not isinstance(percent, int) or not 1 <= percent <= 50):
        return False
    task, _colon, count = name.removeprefix("task:").partition(":")
    if not name.startswith("task:"):
        return name == PHRASES
    return task in TASKS and (not count or (count.isdecimal() and 0 < int(count) <= MOST_PAIRS))


def data_of_run(kind: Kind, record: Mapping[str, Any]) -> Data | None:
    """Data of an earlier run with its split, see `has_data_of`; None: they are not here."""
    if not has_data_of(record):
        return None
    name, percent = str(record["data"]), record.get("validation_percent")
    task, _colon, count = name.removeprefix("task:").partition(":")
    try:
        data = phrase_data(kind) if name == PHRASES else task_data(task, int(count or TASK_PAIRS))
    except ValueError:  # the task has fewer pairs
        return None
    return replace(data, validation_percent=percent)


def material_of(
    kind: Kind, data: Data, units: Units, vocabulary: int, tokenizers: Tokenizers | None = None
) -> TrainingData:
    """Training data for a model of this kind. tokenizers: of a model that is trained on, in place of new ones.

    Raises:
        ValueError: the data does not suit the kind, or is too little to train on.
    """
    material = _material(kind, data, units, vocabulary, tokenizers)
    material.data = data
    return material


def _material(
    kind: Kind, data: Data, units: Units, vocabulary: int, tokenizers: Tokenizers | None
) -> Translations | Answers | RunningText | Sentences:
    percent = usual_percent(data)
    if kind in TWO_STACKS:
        if not data.pairs:
            raise ValueError("an encoder-decoder model needs pairs, and this is a text: choose two columns")
        return Translations(data.pairs, data.task, units, vocabulary, tokenizers, percent)
    if kind == "decoder-only" and data.pairs:
        return Answers(data.pairs, data.task, units, vocabulary, tokenizers, percent)
    if kind == "decoder-only":
        return RunningText(data.text, units, vocabulary, tokenizers, usual_percent(data, running=True))
    lines = [pair.source for pair in data.pairs] or lines_of(data.text)
    return Sentences(lines, units, vocabulary, tokenizers, percent)


def usual_percent(data: Data, running: bool = False) -> int:
    """Percent of the data that are kept for validation. running: as one text."""
    usual = TEXT_VALIDATION_PERCENT if running else VALIDATION_PERCENT
    return usual if data.validation_percent is None else data.validation_percent


def usual_units(kind: Kind, task: str, tied: bool = False) -> Units:
    """Default units: characters in a built-in task, else mixed for two stacks and BPE for one. tied: both stacks share
    one matrix of embeddings, and so one vocabulary.
    """
    if task:
        return "characters"
    return "bpe" if kind not in TWO_STACKS else "joint" if tied else "mixed"


def without_stack(kind: Kind) -> dict[str, int]:
    """Options of the stack that a kind lacks, all 0; a recurrent model lacks none, see `options_without`."""
    missing = [names for other, names in ONE_STACK.items() if kind not in (*TWO_STACKS, other)]
    return {name: 0 for names in missing for name in names}


def options_without(kind: Kind) -> set[str]:
    """Names of the options of a Transformer that a kind does not have."""
    return {*TransformerConfig.option_names()} - {*config_class(kind).option_names()} | without_stack(kind).keys()


def preset_options(kind: Kind, preset: str) -> dict[str, Any]:
    """All options of a preset for this kind of model, without its vocabularies."""
    sizes = {"source_vocabulary": 1, "target_vocabulary": 1}
    config = config_class(kind).preset(preset, **(sizes | without_stack(kind)))
    return {name: value for name, value in vars(config).items() if not name.endswith("_vocabulary")}


def new_config(kind: Kind, options: Mapping[str, Any], tokenizers: Tokenizers) -> TransformerConfig:
    """Config of a new model with the vocabularies of its tokenizers.

    Raises:
        ValueError: an option is out of its range, does not go with another, or leaves nothing to train.
    """
    sizes = {"source_vocabulary": len(tokenizers[0]), "target_vocabulary": len(tokenizers[1])}
    if kind == "recurrent":
        return config_class(kind).from_dict(sizes | dict(options))
    for name in LAYERS - without_stack(kind).keys():
        if options.get(name) == 0:
            raise InputError(
                "{name} (0) must be at least 1: a model without these layers is of another kind", name=name
            )
    config = TransformerConfig.from_dict(sizes | dict(options) | without_stack(kind))
    if config.output_head == "none":
        raise InputError(
            "output_head ('none') gives no logits to train with: choose linear or transform", field="output_head"
        )
    return config


@dataclass(frozen=True)
class Source:
    """Name and licence of training data. validation: name of other data to validate on, if there are such."""

    data: str = "pairs of one's own"
    licence: str = ""
    validation: str | None = None
