"""A tokenizer that transformers runs in Python, as Marian's, whose two languages have a model each."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from model.text.huggingface.special_tokens import OthersTokenizer, SpecialTokens, saved_json
from model.text.tokenizer import SPACE, Role, Tokens, clean
from model.text.untrusted import read_pieces, require_pieces

Side = Literal["source", "target"]
OPTIONS = {"local_files_only": True, "trust_remote_code": False}


class SlowTokenizer(OthersTokenizer):
    """One side of a `PreTrainedTokenizer`, which is the target's alone from then on where the two differ."""

    def __init__(self, made: Any, files: Files, special: SpecialTokens, size: int, side: Side) -> None:
        """made: by transformers, of the files."""
        super().__init__(special, size)
        self._made, self.files, self.side, self.words = made, files, side, True
        self.special = sorted({*self.special, *(token for token in made.all_special_ids if token is not None)})
        if side == "target" and hasattr(made, "_switch_to_target_mode"):
            made._switch_to_target_mode()
        framed, plain = made.build_inputs_with_special_tokens([-1]), [-1]
        place = framed.index(plain[0])
        self._around = framed[:place], framed[place + 1 :]

    def margins(self, role: Role) -> tuple[list[int], list[int]]:
        before, after = self._around
        if role == "target":
            return list(self._target) or [self.need("padding")], []
        return before, [] if role == "prompt" else after

    def encode(self, text: str, masks: bool = False) -> Tokens:
        """Piece by piece where the mask token's name stands in a text that may hide tokens."""
        if masks and self.mask is not None and self.mask_label in text:
            mask, tokens = self.tokens([self.mask]), Tokens([], [])
            for number, piece in enumerate(text.split(self.mask_label)):
                tokens = tokens.between(after=mask if number else None).between(after=self.encode(piece))
            return tokens
        return self.tokens(self._made.convert_tokens_to_ids(self._pieces(clean(text))))

    def ends(self, text: str) -> list[int]:
        """Where the pieces, read one after another, have used up the text's own characters."""
        text, place, ends = clean(text), 0, []
        for piece in self._pieces(text):
            for character in piece.replace(SPACE, ""):
                found = text.find(character, place)
                place = found + 1 if found >= 0 else min(place + 1, len(text))
            ends.append(place)
        return [*ends[:-1], len(text)] if ends else []

    def decode(self, ids: Sequence[int]) -> str:
        kept = [token for token in ids if token not in self.special]
        return str(self._made.convert_tokens_to_string(self._made.convert_ids_to_tokens(kept))).strip()

    def _shown(self, token: int) -> str:
        return str(self._made.convert_ids_to_tokens(token) or f"<{token}>")

    def to_json(self) -> str:
        """With the files, as `saved_tokenizer` reads it."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return saved_json(self._own, self.size, self._around, more={"side": self.side, "files": in_json(self.files)})

    def _pieces(self, text: str) -> list[str]:
        return list(self._made.tokenize(text, split_special_tokens=True))


def slow_tokenizer(files: Files, special: SpecialTokens, size: int, side: Side) -> SlowTokenizer:
    """One of checked files, which say its class.

    Raises:
        CheckpointError: transformers is not installed.
        Exception: whatever it raises for files that it cannot read.
    """
    with made_by_transformers(files) as (made, _folder):
        if hasattr(made, "backend_tokenizer"):
            raise CheckpointError(f"its tokenizer is of the class {type(made).__name__}: give a tokenizer.json")
        return SlowTokenizer(made, files, special, size, side)


@contextmanager
def made_by_transformers(files: Files, kind: str = "AutoTokenizer") -> Iterator[tuple[Any, Path]]:
    """A tokenizer of a class of transformers, and the folder that its files lie in for as long as the block lasts."""
    try:
        transformers = import_transformers()
    except ImportError as error:
        raise CheckpointError("its tokenizer is in files that transformers reads: pip install transformers") from error
    with quietly(), in_temporary_folder(files) as folder:
        yield getattr(transformers, kind).from_pretrained(str(folder), **OPTIONS), folder


# The files of a tokenizer without a tokenizer.json: read once, checked, and given to transformers in a folder of
# their own, so that it reads the bytes that were checked and nothing else.

Files = Mapping[str, bytes]  # by name
SENTENCEPIECE = (".spm", ".model")
TEXTS = ("vocab.txt", "vocab.json", "merges.txt")
CONFIG, NAMES = "config.json", "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
BESIDE = ("target_vocab.json", "added_tokens.json", SPECIAL, NAMES, CONFIG)
# Arguments that name files, or are handed on to what reads files, as sentencepiece's model_file in sp_model_kwargs is.
PATHS = ("source_spm", "target_spm", "vocab", "merges", "auto_map", "init_inputs")
PATHS_END = ("_file", "_files", "_kwargs")


def read_older(folder: Path) -> Files:
    """The files that transformers makes a tokenizer of; empty if there are none.

    Raises:
        CheckpointError: one of them must not be read, or cannot be here.
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
    """A folder with the files, for as long as the block lasts."""
    with TemporaryDirectory() as place:
        write_older(files, Path(place))
        yield Path(place)


def write_older(files: Files, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def of_class(files: Files, name: str) -> Files:
    """The files without the model's config, for a tokenizer of a class of transformers."""
    said = json.dumps(_record(files, NAMES) | {"tokenizer_class": name}, ensure_ascii=False)
    kept = {each: content for each, content in files.items() if each != CONFIG}
    return {**kept, NAMES: said.encode()}


def in_json(files: Files) -> dict[str, str]:
    return {name: b64encode(content).decode() for name, content in files.items()}


def from_json(record: Mapping[str, str]) -> Files:
    """What `in_json` made.

    Raises:
        CheckpointError: there is no tokenizer in it, or one that must not be read.
        ValueError: it is damaged.
    """
    for name in record:
        known = name in (*TEXTS, *BESIDE) or name.endswith(SENTENCEPIECE)
        if not known or PurePath(name).name != name or {"\\", "\0"} & set(name):
            raise CheckpointError(f"{name!r} is no file of a tokenizer: copy the model again from its own folder")
    files = {name: b64decode(content, validate=True) for name, content in record.items()}
    for name in pieces_of(files):
        require_pieces(files[name], name)
    _require_sound(files)
    return _harmless(files)


def pieces_of(files: Files) -> list[str]:
    """Which of them are sentencepiece models."""
    return [name for name in files if name.endswith(SENTENCEPIECE)]


def _require_sound(files: Files) -> None:
    for name in files:
        if name.endswith(".json"):
            _record(files, name)


def _harmless(files: Files) -> Files:
    """Without what would make transformers read other files: the map of special tokens sets any argument, too."""
    made = dict(files)
    for file in {NAMES, SPECIAL} & files.keys():
        said = _record(files, file)
        kept = {name: value for name, value in said.items() if name not in PATHS and not name.endswith(PATHS_END)}
        made[file] = json.dumps(kept).encode()
    return made


def _record(files: Files, name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    if len(files[name]) > LARGEST:
        raise CheckpointError(f"{name} has more than {LARGEST:,} bytes, the most that such a file may have")
    said = parse_json(files[name], name, nan=True)
    if not isinstance(said, dict):
        raise CheckpointError(f"{name} must hold a JSON object, not {type(said).__name__}")
    return said


# A tokenizer that transformers makes of a sentencepiece model alone, so that it cuts texts as that model does.

FRAMES = {"rembert": ("[CLS]", "[SEP]")}  # around a text, where transformers' class loses them
CLASSES = {
    "xlm-roberta-xl": "XLMRobertaTokenizer",
    "bigbird_pegasus": "PegasusTokenizer",
}  # that transformers does not name
COMMAS = ("albert", "xlnet")  # they cut a number's comma off, as their authors' code does
COST = 100.0  # of a piece that such a comma ends: transformers' own figure
MOST_PROBES, LONGEST_PROBE = 32, 12


def like_its_model(inner: tokenizers.Tokenizer, family: str, unknown: str | None) -> tokenizers.Tokenizer:
    """Without what transformers' conversion changes: a symbol that its trainer defined, such as ALBERT's `.`, would cut
    a text before it is normalized, and what follows would begin a word. unknown: the unknown token's name.
    """
    if not isinstance(inner.model, models.Unigram):
        return inner
    record = json.loads(inner.to_str())
    model = record["model"]
    rows = {piece: row for row, (piece, _score) in enumerate(model["vocab"])}
    record["added_tokens"] = [each for each in record["added_tokens"] if each["special"] or each["content"] not in rows]
    model["unk_id"] = rows.get(unknown, model["unk_id"])
    if family in COMMAS:
        model["vocab"] = [[piece, score - COST * _ends_number(piece)] for piece, score in model["vocab"]]
    made = tokenizers.Tokenizer.from_str(json.dumps(record))
    if family in FRAMES and all(name in rows for name in FRAMES[family]):
        before, after = FRAMES[family]
        special = [(name, rows[name]) for name in (before, after)]
        made.post_processor = TemplateProcessing(single=[before, "$A", after], special_tokens=special)
    return made


def cuts_as(made: Any, file: Path) -> bool:
    """Whether a tokenizer of transformers cuts words into the pieces that sentencepiece cuts them into: most of them,
    because ties may be settled otherwise.
    """
    from sentencepiece import SentencePieceProcessor

    own = SentencePieceProcessor(model_file=str(file))
    probes = list(_probes(own))
    same = sum(made.tokenize(probe) == own.encode(probe, out_type=str) for probe in probes)
    return 2 * same >= len(probes)


def require_same_cuts(made: Any, file: Path) -> None:
    """
    Raises:
        CheckpointError: it cuts them otherwise.
    """
    if not cuts_as(made, file):
        raise CheckpointError(f"transformers cuts texts otherwise than {file.name} does: give a tokenizer.json instead")


def _ends_number(piece: str) -> bool:
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def _probes(own: Any) -> Iterator[str]:
    """Words of two of the model's own pieces each, which no family's lower case and accents change."""
    size = own.get_piece_size()
    plain = (number for number in range(size) if not own.is_control(number) and not own.is_unknown(number))
    names = (str(own.id_to_piece(number)).replace(SPACE, "") for number in plain)
    words = [name for name in names if name.isalnum() and name.isascii() and name.islower()][: 8 * MOST_PROBES]
    for first, second in list(pairwise(words))[::8][:MOST_PROBES]:
        yield f"{first[:LONGEST_PROBE]} {second[:LONGEST_PROBE]}"
