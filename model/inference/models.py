"""Models that write from left to right: translators and language models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from model.capture.hooks import looks_ahead, no_recording
from model.capture.trace import Trace, record
from model.inference.beam_search import SearchTree, beam_search, require_room
from model.inference.decoding import Alternative, Generation, Guess, Sampling, Step, greedy, sample
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.network.decoding_state import DecodingState
from model.network.transformer import Network, Transformer
from model.text.tokenizer import SPACE, Tokenizer, Tokens, clean

CONTINUATION = 50  # tokens that a language model writes unless told


class Writer(TextModel):
    """A model with a decoder."""

    def generate_batch(
        self,
        texts: Sequence[str],
        *,
        beam: int = 1,
        length_penalty: float = 0.6,
        sampling: Sampling | None = None,
        length: int | None = None,
    ) -> list[Generation]:
        if sampling and beam != 1:
            raise ValueError(f"beam ({beam}) and sampling exclude each other: choose one")
        if length is not None and length < 1:
            raise ValueError(f"length ({length}) must be at least 1")
        rows = [self._prompt(text) for text in texts]
        written: dict[int, Generation] = {}
        for group in self._groups(rows):
            together = [rows[index] for index in group]
            limits = [self._limit(row, length) for row in together]
            if max(limits) < 1:
                made = [self._generation(row, []) for row in together]
            elif sampling:
                drawn = sample(self._context(together), sampling, **self._ending, limits=limits)
                made = [self._generation(row, steps) for row, steps in zip(together, drawn, strict=True)]
            elif beam == 1:
                made = self._write(together, self._context(together), limits)
            else:
                made = self._search(together, limits, beam, length_penalty)
            written |= dict(zip(group, made, strict=True))
        return [written[index] for index in range(len(texts))]

    @property
    def _ending(self) -> dict[str, Any]:
        """What ends a text, and the rules of what is written."""
        return {"ends": self.target_tokenizer.stops, "rules": self.target_tokenizer.rules}

    def _prompt(self, text: str) -> list[int]:
        return self.source_tokens(text).ids

    def _begun(self, text: str, kept: int) -> tuple[str, list[int]]:
        """At most the first `kept` tokens of a text that this model writes, as it was typed and as ids."""
        tokenizer = self.target_tokenizer
        ends = [0, *tokenizer.ends(text)][: kept + 1]
        return clean(text)[: ends[-1]], tokenizer.encode(text).ids[:kept]

    def _groups(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """The texts that can be computed as one batch, by their numbers."""
        raise NotImplementedError

    def _context(self, rows: Sequence[list[int]]) -> DecodingState:
        raise NotImplementedError

    def _limit(self, row: list[int], length: int | None) -> int:
        """The most tokens to write for a text."""
        raise NotImplementedError

    def _text(self, row: list[int], written: list[int]) -> str:
        return self.target_tokenizer.decode(written)

    def _write(
        self, rows: Sequence[list[int]], context: DecodingState, limits: Sequence[int], draft: Sequence[int] = ()
    ) -> list[Generation]:
        ids, values, tokens = greedy(context, **self._ending, limits=limits, draft=draft)
        generations = []
        for index, (row, chosen) in enumerate(zip(rows, ids, strict=True)):
            columns = tokens[: len(chosen), index].tolist(), values[: len(chosen), index].tolist()
            choices = [list(zip(*step, strict=True)) for step in zip(*columns, strict=True)]
            generations.append(self._generation(row, [(*step[0], step) for step in choices]))
        return generations

    def _search(
        self, rows: Sequence[list[int]], limits: Sequence[int], beam: int, length_penalty: float
    ) -> list[Generation]:
        require_room(self.config, self.device, beam, rows, max(limits))
        options: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "limits": limits}
        trees = beam_search(self._context(rows), **self._ending, **options)
        generations = []
        for row, tree in zip(rows, trees, strict=True):
            path = [tree.nodes[index] for index in tree.path(tree.ranked()[0])]
            choices = [tree.nodes[node.parent].choices for node in path]
            steps = [(node.token, node.log_probability, each) for node, each in zip(path, choices, strict=True)]
            generations.append(self._generation(row, steps, tree))
        return generations

    def _generation(self, row: list[int], steps: Sequence[Step], tree: SearchTree | None = None) -> Generation:
        tokenizer = self.target_tokenizer
        ids = [token for token, _, _ in steps]
        return Generation(
            text=self._text(row, ids),
            ids=ids,
            tokens=[tokenizer.label(token) for token in ids],
            log_probabilities=[value for _, value, _ in steps],
            alternatives=[
                [Alternative(token, tokenizer.label(token), value) for token, value in choices if value > -math.inf]
                for _, _, choices in steps
            ],
            tree=tree,
        )


class Translator(Writer):
    """An encoder-decoder model: it reads a source and writes a target."""

    network: Transformer

    def source_tokens(self, text: str) -> Tokens:
        """`text` as the encoder gets it, with `</s>`, cut at max_length."""
        return self.source_tokenizer.framed(text, "source", self.config.max_length)

    def target_tokens(self, text: str) -> Tokens:
        """`text` as the decoder gets it, after `<s>`, cut at max_length."""
        return self.target_tokenizer.framed(text, "target", self.config.max_length)

    def trace(self, source: str, target: str | None = None) -> Trace:
        if target is None:
            return self.trace_generated(self.source_tokens(source))[0]
        return self.trace_tokens(self.source_tokens(source), self.target_tokens(target))

    def trace_generated(self, source: Tokens, draft: Generation | None = None) -> tuple[Trace, Tokens, Generation]:
        """The trace on what the model writes for `source`, its tokens after `<s>`, and how it wrote them.

        draft: what it wrote for a similar source; the less has changed, the faster this is.
        """
        tokenizer = self.target_tokenizer
        if not self.predicts:  # it writes nothing
            target = tokenizer.written([])
            return self.trace_tokens(source, target), target, self._generation(source.ids, [])
        with torch.inference_mode(), record(self.network) as trace:
            memory = self.network.encode(self._ids(source))
            with no_recording():
                limits, context = [self._limit(source.ids, None)], self._context_of([source.ids], memory)
                generation = self._write([source.ids], context, limits, draft.ids if draft else ())[0]
            target = tokenizer.written(generation.ids)
            self.network.output(self.network.decode(self._ids(target), memory))
        return self._named(trace, source, target), target, generation

    def continue_from(self, source: str, target: str, kept: int, tokens: Sequence[int]) -> str:
        tokenizer, row = self.target_tokenizer, self.source_tokens(source).ids
        text, before = self._begun(target, kept)
        added = list(tokens)
        room = self._limit(row, None) - len(before) - len(added)
        if tokenizer.stops.isdisjoint(added) and room > 0:
            context = self._context([row])
            context.first = torch.tensor([[*context.first[0].tolist(), *before, *added]], device=self.device)
            with torch.inference_mode():
                added += greedy(context, **self._ending, limits=[room])[0][0]
        return text + tokenizer.decode([*before, *added])[len(tokenizer.decode(before)) :]

    def _groups(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """All together; without a padding token, sources of one length each."""
        return _of_one_length(rows) if self.source_tokenizer.padding is None else [list(range(len(rows)))]

    def _limit(self, row: list[int], length: int | None) -> int:
        """A model that repeats itself ends there; what a target begins with has places of its own."""
        first, longest = len(self.target_tokenizer.margins("target")[0]), self.config.max_length
        return (min(longest, 2 * len(row) + 16) if length is None else min(length + first, longest)) - first

    def _context(self, rows: Sequence[list[int]]) -> DecodingState:
        return self._context_of(rows, None)

    def _context_of(self, rows: Sequence[list[int]], memory: Tensor | None) -> DecodingState:
        padding, (first, _) = self.source_tokenizer.padding, self.target_tokenizer.margins("target")
        nothing = -1 if padding is None else padding
        context = self.network.read(
            self._padded(rows), padding=nothing, start=first[0], memory=memory, can_cache=not looks_ahead(self.network)
        )
        context.first = torch.tensor([first] * len(rows), device=self.device)
        return context

    def _padded(self, rows: Sequence[list[int]]) -> Tensor:
        longest = max(len(row) for row in rows)
        missing = [longest - len(row) for row in rows]
        padding = [self.source_tokenizer.need("padding")] if any(missing) else []
        return torch.tensor([row + padding * count for row, count in zip(rows, missing, strict=True)]).to(self.device)


class LanguageModel(Writer):
    """A decoder-only model: it goes on with a text."""

    def source_tokens(self, text: str) -> Tokens:
        """The end of `text`, as far as max_length reaches, after `<s>`."""
        return self.source_tokenizer.framed(text, "prompt", self.config.max_length)

    def _prompt(self, text: str) -> list[int]:
        """The same; of a longer text only half as much, so that there is room to write."""
        row = self.source_tokens(text)
        first, rest = row.ids[: row.before], row.ids[row.before :]
        return [*first, *rest[-(self.config.max_length // 2) :]] if row.left_out else row.ids

    def guesses(self, trace: Trace, keep: int = 5) -> list[Guess]:
        return [self._guess(trace, len(trace.source_tokens) - 1, keep)] if self.predicts else []

    def take(self, text: str, number: int, token: int) -> str:
        return text + self._text(self.source_tokenizer.encode(text).ids, [token])

    def continue_from(self, source: str, target: str, kept: int, tokens: Sequence[int]) -> str:
        text, before = self._begun(source, kept)
        return text + self._text(before, list(tokens))

    def _groups(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """Prompts of one length each: no padding stands between a prompt and what follows it."""
        return _of_one_length(rows)

    def _limit(self, row: list[int], length: int | None) -> int:
        return min(length or CONTINUATION, self.config.max_length - len(row) + 1)  # the last one is not read again

    def _context(self, rows: Sequence[list[int]]) -> DecodingState:
        return self.network.read(
            torch.tensor(list(rows), device=self.device), padding=-1, start=-1, can_cache=not looks_ahead(self.network)
        )

    def _text(self, row: list[int], written: list[int]) -> str:
        """What follows the prompt: a first space is seen only behind it."""
        before = self.target_tokenizer.decode(row)
        return self.target_tokenizer.decode([*row, *written])[len(before) :]


def _of_one_length(rows: Sequence[list[int]]) -> list[list[int]]:
    lengths = sorted({len(row) for row in rows})
    return [[index for index, row in enumerate(rows) if len(row) == length] for length in lengths]


# Models that fill in hidden tokens from both sides.

KEPT = 5  # alternatives for each hidden token


class MaskedLanguageModel(TextModel):
    """An encoder-only model: `<mask>`, or what its tokenizer calls it, stands for a hidden token."""

    def source_tokens(self, text: str) -> Tokens:
        """`text` between `<s>` and `</s>`, cut at max_length; `<mask>` in it becomes the mask token."""
        return self.source_tokenizer.framed(text, "whole", self.config.max_length)

    def generate_batch(
        self,
        texts: Sequence[str],
        *,
        beam: int = 1,
        length_penalty: float = 0.6,
        sampling: Sampling | None = None,
        length: int | None = None,
    ) -> list[Generation]:
        """Each text with its masks filled in by their most probable tokens; these alone are the ids reported."""
        if not self.fills:
            raise ValueError(f"{self.name} only reads: it has no output that predicts tokens, or no mask token")
        if beam != 1 or sampling or length is not None:
            mask = self.source_tokenizer.mask_label
            raise ValueError(f"{self.name} fills in {mask} and does not write: leave out beam, sampling and length")
        return [self._fill(text) for text in texts]

    def guesses(self, trace: Trace, keep: int = KEPT) -> list[Guess]:
        mask = self.source_tokenizer.mask_label
        places = [place for place, label in enumerate(trace.source_tokens) if mask and label == mask]
        return [self._guess(trace, place, keep) for place in places] if self.fills else []

    def take(self, text: str, number: int, token: int) -> str:
        mask, label = self.source_tokenizer.mask_label, self.source_tokenizer.label(token)
        pieces = text.split(mask)
        before, after = mask.join(pieces[: number + 1]), mask.join(pieces[number + 1 :])
        if self.source_tokenizer.continues:
            return _between_words(before, label, after, self.source_tokenizer.continues)
        if not self.source_tokenizer.words:
            return before + label + after
        begins = " " if label.startswith(SPACE) and before.strip() else ""  # else the rest of the word before it
        return before.rstrip() + begins + label.removeprefix(SPACE) + self._gap(pieces[number + 1]) + after

    def _gap(self, piece: str) -> str:
        """A space where the model reads a new word after a mask though the text has none."""
        reads = self.source_tokenizer.encode(piece).labels[:1]
        return " " if reads and reads != [SPACE] and reads[0].startswith(SPACE) and not piece[0].isspace() else ""

    def _fill(self, text: str) -> Generation:
        tokens = self.source_tokens(text)
        with torch.inference_mode():
            logits = self.network(self._ids(tokens))[0]
        places = [place for place, token in enumerate(tokens.ids) if token == self.source_tokenizer.mask]
        choices = [self._choices(logits[place], KEPT) for place in places]
        for best in choices:
            text = self.take(text, 0, best[0].token)
        return Generation(
            text=text,
            ids=[best[0].token for best in choices],
            tokens=[best[0].label for best in choices],
            log_probabilities=[best[0].log_probability for best in choices],
            alternatives=choices,
        )


def _between_words(before: str, label: str, after: str, continues: str) -> str:
    """A token in its place: the rest of a word, or a word, which stands apart from letters beside it."""
    if label.startswith(continues):
        before, label = before.rstrip(), label.removeprefix(continues)
    elif before[-1:].isalnum() and label[:1].isalnum():
        before += " "
    return before + label + (" " if label[-1:].isalnum() and after[:1].isalnum() else "") + after


MODEL_CLASSES: dict[str, type[TextModel]] = {
    "encoder-decoder": Translator,
    "decoder-only": LanguageModel,
    "encoder-only": MaskedLanguageModel,
}


def _first_text(config: TransformerConfig, tokenizer: Tokenizer) -> str:
    """A text to begin with, where the usual one would not do: of bare ids, or with something to fill in."""
    if tokenizer.reason:
        return " ".join(str(token) for token in range(min(len(tokenizer), 8)))
    fills = config.kind == "encoder-only" and config.output_head != "none" and tokenizer.mask_label
    return f"She bought a red {tokenizer.mask_label} yesterday." if fills else ""


def text_model(
    name: str,
    network: Network,
    tokenizers: tuple[Tokenizer, Tokenizer],
    record: Mapping[str, Any],
) -> TextModel:
    """record: what training.json of ours would say."""
    said = {**record, "example": _first_text(network.config, tokenizers[0])}
    return MODEL_CLASSES[network.kind](name, network, tokenizers, said)
