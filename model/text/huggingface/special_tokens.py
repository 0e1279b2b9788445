"""Which tokens a model of Hugging Face sets apart: what its tokenizer's and its own files say of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.runtime.untrusted_json import read_record
from model.text.generation_rules import NO_RULES, GenerationRules, rules_in, tokens_in
from model.text.tokenizer import Tokenizer

NAMES = {
    "padding": ("pad_token",),
    "unknown": ("unk_token",),
    "start": ("bos_token", "cls_token"),
    "end": ("eos_token", "sep_token"),
    "mask": ("mask_token",),
}


@dataclass(frozen=True)
class SpecialTokens:
    """Ids, None where a model has no such token. stops: those that end what it writes.

    target: what a target begins with; empty if no file says so. rules: of what the model writes.
    """

    padding: int | None
    unknown: int | None
    start: int | None
    end: int | None
    mask: int | None
    stops: frozenset[int]
    target: tuple[int, ...]
    rules: GenerationRules = NO_RULES

    @property
    def ids(self) -> list[int]:
        """All that have a name, end a text or begin a target; some of them more than once."""
        single = (self.padding, self.unknown, self.start, self.end, self.mask)
        return [*(token for token in single if token is not None), *self.stops, *self.target]


class OthersTokenizer(Tokenizer):
    """A tokenizer with the special tokens that a model of others expects. size: how many tokens the model knows."""

    def __init__(self, special: SpecialTokens, size: int) -> None:
        self._own, self.size = special, size
        self.padding, self.unknown, self.start = special.padding, special.unknown, special.start
        self.end, self.mask, self.stops, self._target = special.end, special.mask, special.stops, special.target
        self.rules, self.special = special.rules, sorted(set(special.ids))

    def __len__(self) -> int:
        return self.size

    def label(self, token: int) -> str:
        """What to show for a token id.

        Raises:
            ValueError: the model has no such token.
        """
        if not 0 <= token < self.size:
            raise ValueError(f"token {token} is not in the vocabulary of {len(self)} tokens")
        return self._shown(token)

    def _shown(self, token: int) -> str:
        raise NotImplementedError

    def parents(self) -> dict[int, tuple[int, int]]:
        return {}


def names_of(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say, the first before the second.

    Raises:
        CheckpointError: one of them is damaged.
    """
    return read_record(folder / "special_tokens_map.json") | read_record(folder / "tokenizer_config.json")


def special_tokens(
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    id_of: Callable[[str], int | None],
    size: int,
    usual: Mapping[str, Any] | None = None,
) -> SpecialTokens:
    """The special tokens of a model that knows `size` tokens: by their names, else by the ids in its config, else by
    the names that are usual in its family.

    names: of tokenizer_config.json. settings: config.json. generation: generation_config.json, which goes before it.
    """

    def first(*found: int | None) -> int | None:
        return next((token for token in found if token is not None and 0 <= token < size), None)

    def asked(name: str) -> tuple[int, ...]:
        return tokens_in(generation.get(name, settings.get(name)), size)

    def written(role: str, said: Mapping[str, Any]) -> list[int | None]:
        return [id_of(name) for name in (name_of(said.get(each)) for each in NAMES[role]) if name]

    def named(role: str) -> int | None:
        ids = [f"{name.removesuffix('_token')}_token_id" for name in NAMES[role]]
        return first(
            *written(role, names), *(token for each in ids for token in asked(each)), *written(role, usual or {})
        )

    end = named("end")
    stops = asked("eos_token_id") or (() if end is None else (end,))
    said = generation or settings  # of writing, a config.json counts only without the other, as in transformers
    forced = said.get("forced_bos_token_id")  # one id: transformers takes no list here
    begun = asked("decoder_start_token_id")[:1] or asked("bos_token_id")[:1]
    return SpecialTokens(
        padding=named("padding"),
        unknown=named("unknown"),
        start=named("start"),
        end=end,
        mask=named("mask"),
        stops=frozenset(stops),
        target=(*begun, *(() if isinstance(forced, list) else tokens_in(forced, size))),
        rules=rules_in(said, size, stops),
    )


def name_of(value: object) -> str:
    """A token's name, which the files give as it is or among what else is said of the token."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def saved_json(
    special: SpecialTokens,
    size: int,
    around: tuple[list[int], list[int]],
    inner: str = "null",
    reason: str = "",
    more: Mapping[str, Any] | None = None,
) -> str:
    """A tokenizer of others as our own checkpoints keep it. inner: its tokenizer.json. reason: why it has none.

    more: what else it is made of.
    """
    ids = asdict(special) | {"stops": sorted(special.stops)}
    record = {"size": size, "special": ids, "around": around, "reason": reason, **(more or {})}
    said = json.dumps(record, ensure_ascii=False)
    return f'{{"foreign":{said},\n"tokenizer":{inner}}}\n'
