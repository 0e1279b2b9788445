"""Special tokens of a model of Hugging Face, from the files of its tokenizer and its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers

from model.message import InputError, written
from model.runtime.untrusted_json import read_record, read_text
from model.text.generation_rules import NO_RULES, GenerationRules, rules_in, tokens_in
from model.text.tokenizer import Tokenizer, Tokens, visible

NAMES = {
    "padding": ("pad_token",),
    "unknown": ("unk_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "mask": ("mask_token",),
}
TEMPLATE, TEMPLATE_FILE = "chat_template", "chat_template.jinja"
TOOL_FILE = "additional_chat_templates/tool_use.jinja"
DEFAULT, TOOLS = "default", "tool_use"  # of several templates: the usual one, and that of conversations with tools
LARGEST_TEMPLATE = 1 << 20  # letters
# Names of languages as tokens: fr_XX (mBART), fra_Latn (NLLB), __fr__ (M2M-100, PLBart), __fra__ and __cmn_Hant__
# (SeamlessM4T).
LANGUAGE = re.compile(r"[a-z]{2,3}_[A-Z]{2}|[a-z]{3}_[A-Z][a-z]{3}|__[a-z]+(_[A-Z][A-Za-z]{1,3})?__")
# Families in which a target begins with its language, where no file says with what: others put a token before it.
LANGUAGE_FIRST = ("mbart", "plbart")


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of special tokens; None: the model has no such token. stops: ids that end generated text.

    target: ids that a target begins with; empty if no file has them. rules: of generation. language_first: whether a
    target begins with the token of its language, where none is among `target`.
    """

    padding: int | None
    unknown: int | None
    start: int | None
    end: int | None
    mask: int | None
    stops: frozenset[int]
    target: tuple[int, ...]
    rules: GenerationRules = NO_RULES
    language_first: bool = False

    @property
    def ids(self) -> list[int]:
        """All ids, some of them more than once."""
        single = (self.padding, self.unknown, self.start, self.end, self.mask)
        return [*(token for token in single if token is not None), *self.stops, *self.target]


class ForeignTokenizer(Tokenizer):
    """A tokenizer with the special tokens of a published model. size: of the model's vocabulary."""

    _other: Any = None  # the same that reads special tokens in a text, or does not

    def __init__(self, special: SpecialTokens, size: int) -> None:
        self._special_tokens, self.size = special, size
        self.padding, self.unknown, self.start = special.padding, special.unknown, special.start
        self.end, self.mask, self.stops, self._target = special.end, special.mask, special.stops, special.target
        self.rules, self.special = special.rules, sorted(set(special.ids))

    def into(self, language: str) -> Tokenizer:
        if language not in self.languages:
            return super().into(language)
        start, chosen = self._target[:1], self.languages[language]
        alone = self._special_tokens.language_first or not start or start[0] in self.languages.values()
        other = copy(self)
        other._other = None
        other._target = (chosen,) if alone else (*start, chosen)
        return other

    def __len__(self) -> int:
        return self.size

    def label(self, token: int) -> str:
        """Text to show for a token id.

        Raises:
            ValueError: the model has no such token.
        """
        if not 0 <= token < self.size:
            raise InputError("token {token} is not in the vocabulary of {count} tokens", token=token, count=len(self))
        return visible(self._token_text(token))

    def _token_text(self, token: int) -> str:
        raise NotImplementedError

    def _encode_piece(self, piece: str, first: bool, last: bool) -> Tokens:
        return self._encode_text(piece)

    def parents(self) -> dict[int, tuple[int, int]]:
        return {}


def names_of(folder: Path) -> dict[str, Any]:
    """Settings of tokenizer_config.json and special_tokens_map.json, the first before the second; the template of
    conversations also from a file of its own.

    Raises:
        CheckpointError: a file is damaged.
    """
    names = read_record(folder / "special_tokens_map.json") | read_record(folder / "tokenizer_config.json")
    if (folder / TEMPLATE_FILE).is_file():
        names[TEMPLATE] = read_text(folder / TEMPLATE_FILE, LARGEST_TEMPLATE)
    if (folder / TOOL_FILE).is_file():
        named = {DEFAULT: template_in(names), TOOLS: read_text(folder / TOOL_FILE, LARGEST_TEMPLATE)}
        names[TEMPLATE] = [{"name": name, "template": template} for name, template in named.items()]
    return names


def template_in(names: Mapping[str, Any], wanted: str = DEFAULT) -> str:
    """Template of conversations in the settings of a tokenizer, of several the `wanted` one; "": there is none."""
    template = names.get(TEMPLATE)
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get(wanted)
    elif wanted != DEFAULT:
        return ""
    return template if isinstance(template, str) and len(template) <= LARGEST_TEMPLATE else ""


def special_tokens(
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    id_of: Callable[[str], int | None],
    size: int,
    usual: Mapping[str, Any] | None = None,
) -> SpecialTokens:
    """Special tokens of a model of `size` tokens: by their names, else by ids in its config, else by the names that are
    usual in its family.

    names: settings of tokenizer_config.json. settings: of config.json. generation: of generation_config.json, which
    goes before config.json. id_of: id of a token by its name. usual: names of the family.
    """

    def ids_in(setting: str) -> tuple[int, ...]:
        return tokens_in(generation.get(setting, settings.get(setting)), size)

    def ids_by_name(role: str, values: Mapping[str, Any]) -> list[int | None]:
        return [id_of(name) for name in (name_of(values.get(setting)) for setting in NAMES[role]) if name]

    def id_for(role: str) -> int | None:
        configured = [token for setting in NAMES[role] for token in ids_in(f"{setting}_id")]
        candidates = [*ids_by_name(role, names), *configured, *ids_by_name(role, usual or {})]
        return next((token for token in candidates if token is not None and 0 <= token < size), None)

    end = id_for("end")
    stops = ids_in("eos_token_id") or (() if end is None else (end,))
    rules = generation or settings  # of generation, a config.json counts only without the other, as in transformers
    forced = rules.get("forced_bos_token_id")  # one id: transformers takes no list here
    start = ids_in("decoder_start_token_id")[:1] or ids_in("bos_token_id")[:1]
    return SpecialTokens(
        padding=id_for("padding"),
        unknown=id_for("unknown"),
        start=id_for("start"),
        end=end,
        mask=id_for("mask"),
        stops=frozenset(stops),
        target=(*start, *(() if isinstance(forced, list) else tokens_in(forced, size))),
        rules=rules_in(rules, size, stops),
        language_first=settings.get("model_type") in LANGUAGE_FIRST and not ids_in("decoder_start_token_id"),
    )


def languages_in(names: Iterable[str], id_of: Callable[[str], int | None], size: int) -> dict[str, int]:
    """Ids of the tokens that say a language, by their names, among those of special tokens; none where there is one
    alone.
    """
    ids = {name: id_of(name) for name in sorted(names) if LANGUAGE.fullmatch(name)}
    known = {name: token for name, token in ids.items() if token is not None and 0 <= token < size}
    return known if len(known) > 1 else {}


def name_of(value: object) -> str:
    """Name of a token in a setting, which is the name or a record with its `content`; empty: it is neither."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def named_tokens(names: Mapping[str, Any], inner: tokenizers.Tokenizer) -> list[tokenizers.AddedToken]:
    """Special tokens that are named in the settings of a tokenizer and are in its vocabulary, but that a text is not
    looked through for yet: transformers has them found, too.
    """
    listed = names.get("added_tokens_decoder")
    values = list(listed.values()) if isinstance(listed, Mapping) else []
    values += [value for name, value in names.items() if name.endswith("_token")]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = names.get(name)
        values += more.values() if isinstance(more, Mapping) else more if isinstance(more, list) else []
    known = {token.content for token in inner.get_added_tokens_decoder().values()}
    tokens: dict[str, tokenizers.AddedToken] = {}
    for value in values:
        content = name_of(value)
        if content and content not in known and inner.token_to_id(content) is not None:
            settings = value if isinstance(value, Mapping) else {}
            ways = {way: settings.get(way) is True for way in ("single_word", "lstrip", "rstrip", "normalized")}
            special = settings.get("special") is not False or value not in values[: len(listed or ())]
            tokens.setdefault(content, tokenizers.AddedToken(content, **ways, special=special))
    return list(tokens.values())


def saved_json(
    special: SpecialTokens,
    size: int,
    around: tuple[list[int], list[int]],
    inner: str = "null",
    reason: str = "",
    more: Mapping[str, Any] | None = None,
) -> str:
    """Content of the file in which our checkpoints keep a published model's tokenizer.

    around: ids before and after a text. inner: its tokenizer.json. reason: why it has none. more: other values.
    """
    ids = asdict(special) | {"stops": sorted(special.stops)}
    record = {"size": size, "special": ids, "around": around, "reason": written(reason), **(more or {})}
    return f'{{"foreign":{json.dumps(record, ensure_ascii=False)},\n"tokenizer":{inner}}}\n'
