"""Tokenizers that transformers runs in Python, as Marian's, whose two languages have a model each."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, Literal

import tokenizers
from tokenizers import models
from tokenizers.processors import TemplateProcessing

from model.runtime.errors import CheckpointError
from model.runtime.transformers_import import import_transformers, quietly
from model.runtime.untrusted_json import LARGEST, parse_json, read_bytes
from model.text.huggingface.special_tokens import ForeignTokenizer, SpecialTokens, languages_in, name_of, saved_json
from model.text.tokenizer import SPACE, Role, Tokenizer, Tokens, clean
from model.text.untrusted import read_pieces, require_pieces

Side = Literal["source", "target"]
OPTIONS = {"local_files_only": True, "trust_remote_code": False}


class SlowTokenizer(ForeignTokenizer):
    """One side of a `PreTrainedTokenizer` of transformers, which is switched to that side where the two differ."""

    _inner: Any

    def __init__(self, inner: Any, files: Files, special: SpecialTokens, size: int, side: Side) -> None:
        """inner: the tokenizer that transformers makes of the files."""
        super().__init__(special, size)
        self._inner, self.files, self.side, self.words, self.reads_special = inner, files, side, True, True
        added = {token.content for token in inner.added_tokens_decoder.values() if token.special}
        self.markers = sorted({*map(str, inner.all_special_tokens), *added})
        named = {*self.markers, *getattr(inner, "lang_token_to_id", {})}  # of M2M-100, which does not list them
        self.languages = languages_in(named, inner.convert_tokens_to_ids, size)
        others = (token for token in inner.all_special_ids if token is not None)
        self.special = sorted({*self.special, *others, *self.languages.values()})
        chosen = getattr(inner, "tgt_lang", "") is not None  # M2M-100's cannot write a language that no file names
        if side == "target" and chosen and hasattr(inner, "_switch_to_target_mode"):
            inner._switch_to_target_mode()
        framed = inner.build_inputs_with_special_tokens([-1])
        place = framed.index(-1)
        self._around = framed[:place], framed[place + 1 :]

    def reading(self, special: bool) -> Tokenizer:
        if special == self.reads_special or not self.markers:
            return self
        if self._other is None:
            self._other = copy(self)
            self._other.reads_special, self._other._other = special, self
        reading: Tokenizer = self._other
        return reading

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        before, after = self._around
        if role == "target":
            return list(self._target) or [self.need("padding")], []
        return before, [] if role == "prompt" else after

    def _encode_text(self, text: str) -> Tokens:
        return self.tokens(self._inner.convert_tokens_to_ids(self._pieces(clean(text))))

    def ends(self, text: str) -> list[int]:
        """Ends as of `Tokenizer.ends`, found by looking for the pieces' characters in the text, one after another."""
        text, place, ends = clean(text), 0, []
        for piece in self._pieces(text):
            for character in piece.replace(SPACE, ""):
                index = text.find(character, place)
                place = index + 1 if index >= 0 else min(place + 1, len(text))
            ends.append(place)
        return [*ends[:-1], len(text)] if ends else []

    def decode(self, ids: Sequence[int]) -> str:
        text_ids = [token for token in ids if token not in self.special]
        return str(self._inner.convert_tokens_to_string(self._inner.convert_ids_to_tokens(text_ids))).strip()

    def _token_text(self, token: int) -> str:
        return str(self._inner.convert_ids_to_tokens(token) or f"<{token}>")

    def to_json(self) -> str:
        """Content of the tokenizer's file in a checkpoint of ours, with its files, which `read_saved` reads."""
        return self._json

    @cached_property
    def _json(self) -> str:
        more = {"side": self.side, "files": in_json(self.files)}
        return saved_json(self._special_tokens, self.size, self._around, more=more)

    def _pieces(self, text: str) -> list[str]:
        return list(self._inner.tokenize(text, split_special_tokens=not self.reads_special))


def slow_tokenizer(files: Files, special: SpecialTokens, size: int, side: Side) -> SlowTokenizer:
    """Tokenizer of checked files, which name its class.

    Raises:
        CheckpointError: transformers is not installed, or the class is none that runs in Python.
        Exception: any of transformers, for files that it cannot read.
    """
    with made_by_transformers(files) as (tokenizer, _folder):
        if hasattr(tokenizer, "backend_tokenizer"):
            raise CheckpointError(
                "its tokenizer is of the class {kind}: give a tokenizer.json", kind=type(tokenizer).__name__
            )
        return SlowTokenizer(tokenizer, files, special, size, side)


@contextmanager
def made_by_transformers(files: Files, kind: str = "AutoTokenizer") -> Iterator[tuple[Any, Path]]:
    """Block with a tokenizer of a class of transformers, and the temporary folder of its files.

    Raises:
        CheckpointError: transformers is not installed.
    """
    try:
        transformers = import_transformers()
    except ImportError as error:
        raise CheckpointError("its tokenizer is in files that transformers reads: pip install transformers") from error
    with quietly(), in_temporary_folder(files) as folder:
        yield getattr(transformers, kind).from_pretrained(str(folder), **OPTIONS), folder


# The files of a tokenizer without a tokenizer.json: read once, checked, and copied to a temporary folder for
# transformers, so that it reads the bytes that were checked and nothing else.

Files = Mapping[str, bytes]  # by name
SENTENCEPIECE = (".spm", ".model")
TEXTS = ("vocab.txt", "vocab.json", "merges.txt")
CONFIG, NAMES = "config.json", "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
BESIDE = ("target_vocab.json", "added_tokens.json", SPECIAL, NAMES, CONFIG)
# Arguments that name files, or are passed to functions that read files, as model_file in sp_model_kwargs.
PATHS = ("source_spm", "target_spm", "vocab", "merges", "auto_map", "init_inputs")
PATHS_END = ("_file", "_files", "_kwargs")


def read_older(folder: Path) -> Files:
    """Files in a folder that transformers makes a tokenizer of; empty if there are none.

    Raises:
        CheckpointError: a file is damaged, too large, or needs a library that is not installed.
    """
    pieces = sorted(file for end in SENTENCEPIECE for file in folder.glob(f"*{end}") if file.is_file())
    texts = [folder / name for name in TEXTS if (folder / name).is_file()]
    if not pieces and not texts:
        return {}
    files = {file.name: read_pieces(file) for file in pieces}
    beside = [folder / name for name in BESIDE if (folder / name).is_file()]
    files |= {file.name: read_bytes(file) for file in (*texts, *beside)}
    _require_sound(files)
    return _harmless(files)


@contextmanager
def in_temporary_folder(files: Files) -> Iterator[Path]:
    """Block with a temporary folder of the files."""
    with TemporaryDirectory() as place:
        write_older(files, Path(place))
        yield Path(place)


def write_older(files: Files, folder: Path) -> None:
    """Write the files into a folder."""
    for name, content in files.items():
        (folder / name).write_bytes(content)


def of_class(files: Files, name: str) -> Files:
    """Files without the model's config, which name `name` as the tokenizer's class in transformers."""
    settings = json.dumps(_record(files, NAMES) | {"tokenizer_class": name}, ensure_ascii=False)
    others = {file: content for file, content in files.items() if file != CONFIG}
    return {**others, NAMES: settings.encode()}


def in_json(files: Files) -> dict[str, str]:
    """Files as values of JSON, in base 64."""
    return {name: b64encode(content).decode() for name, content in files.items()}


def from_json(record: Mapping[str, str]) -> Files:
    """Files of a record that `in_json` made.

    Raises:
        CheckpointError: a file is none of a tokenizer, damaged, or needs a library that is not installed.
        ValueError: a content is not in base 64.
    """
    for name in record:
        expected = name in (*TEXTS, *BESIDE) or name.endswith(SENTENCEPIECE)
        if not expected or PurePath(name).name != name or {"\\", "\0"} & set(name):
            raise CheckpointError(
                "{name!r} is no file of a tokenizer: copy the model again from its own folder", name=name
            )
    files = {name: b64decode(content, validate=True) for name, content in record.items()}
    for name in pieces_of(files):
        require_pieces(files[name], name)
    _require_sound(files)
    return _harmless(files)


def pieces_of(files: Files) -> list[str]:
    """Names of the sentencepiece models among the files."""
    return [name for name in files if name.endswith(SENTENCEPIECE)]


def _require_sound(files: Files) -> None:
    for name in files:
        if name.endswith(".json"):
            _record(files, name)


def _harmless(files: Files) -> Files:
    """Files without settings by which transformers would read other files: any argument may be in the map of special
    tokens, too. And without empty names of special tokens, which transformers adds for ever: its class has usual ones.
    """
    harmless = dict(files)
    for file in {NAMES, SPECIAL} & files.keys():
        settings = [(name, value) for name, value in _record(files, file).items() if not _is_unnamed(name, value)]
        record = {name: value for name, value in settings if name not in PATHS and not name.endswith(PATHS_END)}
        harmless[file] = json.dumps(record).encode()
    return harmless


def _is_unnamed(name: str, value: object) -> bool:
    return name.endswith("_token") and isinstance(value, str | Mapping) and not name_of(value)


def _record(files: Files, name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    if len(files[name]) > LARGEST:
        raise CheckpointError(
            "{name} has more than {largest:,} bytes, the most that such a file may have", name=name, largest=LARGEST
        )
    settings = parse_json(files[name], name, nan=True)
    if not isinstance(settings, dict):
        raise CheckpointError("{name} must hold a JSON object, not {kind}", name=name, kind=type(settings).__name__)
    return settings


# A tokenizer that transformers makes of a sentencepiece model alone, changed to cut texts as that model does.

FRAMES = {"rembert": ("[CLS]", "[SEP]")}  # tokens around a text that transformers' class loses
# Classes of families for which transformers has none.
CLASSES = {"xlm-roberta-xl": "XLMRobertaTokenizer", "bigbird_pegasus": "PegasusTokenizer"}
COMMAS = ("albert", "xlnet")  # families that cut a number's comma off, as their authors' code does
COST = 100.0  # of a piece that ends in such a comma: transformers' own figure
MOST_PROBES, LONGEST_PROBE = 32, 12


def like_its_model(inner: tokenizers.Tokenizer, family: str, unknown: str | None) -> tokenizers.Tokenizer:
    """Tokenizer without changes by transformers' conversion: a symbol that its trainer defined, such as ALBERT's `.`,
    would cut a text before it is normalized, and the rest would begin a word. unknown: name of the unknown token.
    """
    if not isinstance(inner.model, models.Unigram):
        return inner
    record = json.loads(inner.to_str())
    model = record["model"]
    rows = {piece: row for row, (piece, _score) in enumerate(model["vocab"])}
    added = record["added_tokens"]
    record["added_tokens"] = [token for token in added if token["special"] or token["content"] not in rows]
    model["unk_id"] = rows.get(unknown, model["unk_id"])
    if family in COMMAS:
        model["vocab"] = [[piece, score - COST * _ends_number(piece)] for piece, score in model["vocab"]]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(record))
    if family in FRAMES and all(name in rows for name in FRAMES[family]):
        before, after = FRAMES[family]
        special = [(name, rows[name]) for name in (before, after)]
        tokenizer.post_processor = TemplateProcessing(single=[before, "$A", after], special_tokens=special)
    return tokenizer


def cuts_as(tokenizer: Any, file: Path) -> bool:
    """True if a tokenizer of transformers cuts most words into the pieces of a sentencepiece model; ties may be settled
    otherwise.
    """
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(file))
    probes = list(_probes(model))
    same = sum(tokenizer.tokenize(probe) == model.encode(probe, out_type=str) for probe in probes)
    return bool(2 * same >= len(probes))


def require_same_cuts(tokenizer: Any, file: Path) -> None:
    """Require that a tokenizer of transformers cuts texts as a sentencepiece model.

    Raises:
        CheckpointError: it cuts them otherwise.
    """
    if not cuts_as(tokenizer, file):
        raise CheckpointError(
            "transformers cuts texts otherwise than {name} does: give a tokenizer.json instead", name=file.name
        )


def _ends_number(piece: str) -> bool:
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def _probes(model: Any) -> Iterator[str]:
    """Texts of two of the model's pieces, which no family's lower case and accents change."""
    size = model.get_piece_size()
    plain = (number for number in range(size) if not model.is_control(number) and not model.is_unknown(number))
    names = (str(model.id_to_piece(number)).replace(SPACE, "") for number in plain)
    words = [name for name in names if name.isalnum() and name.isascii() and name.islower()][: 8 * MOST_PROBES]
    for first, second in list(pairwise(words))[::8][:MOST_PROBES]:
        yield f"{first[:LONGEST_PROBE]} {second[:LONGEST_PROBE]}"
