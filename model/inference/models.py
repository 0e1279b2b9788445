"""The three kinds of models with their tokenizers: translators, language models and masked language models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from model.capture.hooks import looks_ahead, no_recording
from model.capture.trace import Trace
from model.inference.beam_search import SearchTree, beam_search, require_room
from model.inference.decoding import Alternative, Generation, Guess, Sampling, Step, greedy, sample
from model.inference.pass_memory import recorded_pass
from model.inference.text_model import TextModel
from model.message import InputError
from model.network.config import TransformerConfig
from model.network.decoding_state import DecodingState
from model.network.network import TwoStacks
from model.network.transformer import Network
from model.text.tokenizer import SPACE, Tokenizer, Tokens, clean

CONTINUATION = 50  # tokens that a language model writes by default


class Writer(TextModel):
    """Model with a decoder, which writes from left to right."""

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
            raise InputError("beam ({beam}) and sampling exclude each other: choose one", beam=beam)
        if length is not None and length < 1:
            raise InputError("length ({length}) must be at least 1", length=length)
        rows = [self._prompt(text) for text in texts]
        written: dict[int, Generation] = {}
        for group in self._groups(rows):
            batch = [rows[index] for index in group]
            limits = [self._limit(row, length) for row in batch]
            if max(limits) < 1:
                generations = [self._generation(row, []) for row in batch]
            elif sampling:
                drawn = sample(self._context(batch), sampling, **self._ending, limits=limits)
                generations = [self._generation(row, steps) for row, steps in zip(batch, drawn, strict=True)]
            elif beam == 1:
                generations = self._write(batch, self._context(batch), limits)
            else:
                generations = self._search(batch, limits, beam, length_penalty)
            written |= dict(zip(group, generations, strict=True))
        return [written[index] for index in range(len(texts))]

    @property
    def _ending(self) -> dict[str, Any]:
        """Options of decoding: tokens that end a text, and rules of generation."""
        return {"ends": self.target_tokenizer.stops, "rules": self.target_tokenizer.rules}

    def _prompt(self, text: str) -> list[int]:
        """Ids to read before the first token is written."""
        return self.source_tokens(text).ids

    def _prefix(self, text: str, length: int) -> tuple[str, list[int]]:
        """At most the first `length` tokens of a text that this model wrote, as text and as ids."""
        tokenizer = self.target_tokenizer
        ends = [0, *tokenizer.ends(text)][: length + 1]
        return clean(text)[: ends[-1]], tokenizer.encode(text).ids[:length]

    def _groups(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """Indices of the rows of each batch: of rows that can be computed together."""
        raise NotImplementedError

    def _context(self, rows: Sequence[list[int]]) -> DecodingState:
        """State of decoding after these rows were read."""
        raise NotImplementedError

    def _limit(self, row: list[int], length: int | None) -> int:
        """Most tokens to write for a row; length: those asked for."""
        raise NotImplementedError

    def _text(self, row: list[int], written: list[int]) -> str:
        """Text of the ids `written` after `row`."""
        return self.target_tokenizer.decode(written)

    def _write(
        self,
        rows: Sequence[list[int]],
        context: DecodingState,
        limits: Sequence[int],
        drafts: Sequence[Sequence[int]] = (),
    ) -> list[Generation]:
        draft = drafts[0] if drafts else ()
        ids, values, tokens = greedy(context, **self._ending, limits=limits, draft=draft, others=drafts[1:])
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
        context, options = self._context(rows), self._ending
        trees = beam_search(context, **options, limits=limits, beam=beam, length_penalty=length_penalty)
        generations = []
        for row, tree in zip(rows, trees, strict=True):
            path = [tree.nodes[index] for index in tree.path(tree.ranked()[0])]
            steps = [(node.token, node.log_probability, tree.nodes[node.parent].choices) for node in path]
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
    """Model with an encoder and a decoder: it reads a source and writes a target."""

    network: TwoStacks

    def source_tokens(self, text: str) -> Tokens:
        """Tokens of a source, with `</s>` at the end, cut at max_length."""
        return self.source_tokenizer.framed(text, "source", self.config.max_length)

    def target_tokens(self, text: str) -> Tokens:
        """Tokens of a target, after `<s>`, cut at max_length."""
        return self.target_tokenizer.framed(text, "target", self.config.max_length)

    def trace(self, source: str, target: str | None = None) -> Trace:
        if target is None:
            return self.trace_generated(self.source_tokens(source))[0]
        return self.trace_tokens(self.source_tokens(source), self.target_tokens(target))

    def trace_generated(self, source: Tokens, drafts: Sequence[Generation] = ()) -> tuple[Trace, Tokens, Generation]:
        """Trace on `source` and the target that the model writes for it, that target after `<s>`, and its generation.

        drafts: generations for similar sources, the most similar first; the more alike the targets are, the faster
        this is.
        """
        tokenizer = self.target_tokenizer
        if not self.predicts:
            target = tokenizer.written([])
            return self.trace_tokens(source, target), target, self._generation(source.ids, [])
        longest = self._limit(source.ids, None)
        with torch.inference_mode(), recorded_pass(self.network, len(source.ids), longest + 1) as trace:
            memory = self.network.encode(self._ids(source))
            with no_recording():
                context = self._context([source.ids], memory)
                generation = self._write([source.ids], context, [longest], [draft.ids for draft in drafts])[0]
            target = tokenizer.written(generation.ids)
            self.network.output(self.network.decode(self._ids(target), memory))
        return self._named(trace, source, target), target, generation

    def continue_from(self, source: str, target: str, length: int, tokens: Sequence[int]) -> str:
        tokenizer, row = self.target_tokenizer, self.source_tokens(source).ids
        text, before = self._prefix(target, length)
        added = list(tokens)
        room = self._limit(row, None) - len(before) - len(added)
        if tokenizer.stops.isdisjoint(added) and room > 0:
            context = self._context([row])
            context.first = torch.tensor([[*context.first[0].tolist(), *before, *added]], device=self.device)
            with torch.inference_mode():
                added += greedy(context, **self._ending, limits=[room])[0][0]
        return text + tokenizer.decode([*before, *added])[len(tokenizer.decode(before)) :]

    def _groups(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """All rows together; without a padding token, rows of the same length."""
        return _of_one_length(rows) if self.source_tokenizer.padding is None else [list(range(len(rows)))]

    def _limit(self, row: list[int], length: int | None) -> int:
        """Most tokens, by default 2 × source + 16: a model may repeat itself for ever. First tokens count."""
        first, longest = len(self.target_tokenizer.margins("target")[0]), self.config.max_length
        return (min(longest, 2 * len(row) + 16) if length is None else min(length + first, longest)) - first

    def _context(self, rows: Sequence[list[int]], memory: Tensor | None = None) -> DecodingState:
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
    """Decoder-only model: it goes on with a text."""

    def source_tokens(self, text: str) -> Tokens:
        """Tokens of a prompt, after `<s>`; of a longer text the last ones up to max_length."""
        return self.source_tokenizer.framed(text, "prompt", self.config.max_length)

    def _prompt(self, text: str) -> list[int]:
        """Ids of the prompt; of a longer text half of max_length, so that there is room to write."""
        row = self.source_tokens(text)
        first, rest = row.ids[: row.before], row.ids[row.before :]
        return [*first, *rest[-(self.config.max_length // 2) :]] if row.left_out else row.ids

    def guesses(self, trace: Trace, keep: int = 5) -> list[Guess]:
        return [self._guess(trace, len(trace.source_tokens) - 1, keep)] if self.predicts else []

    def take(self, text: str, number: int, token: int) -> str:
        return text + self._text(self.source_tokenizer.encode(text).ids, [token])

    def continue_from(self, source: str, target: str, length: int, tokens: Sequence[int]) -> str:
        text, before = self._prefix(source, length)
        return text + self._text(before, list(tokens))

    def _groups(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """Rows of the same length: no padding may stand between a prompt and its continuation."""
        return _of_one_length(rows)

    def _limit(self, row: list[int], length: int | None) -> int:
        return min(length or CONTINUATION, self.config.max_length - len(row) + 1)  # the last one is not read

    def _context(self, rows: Sequence[list[int]]) -> DecodingState:
        return self.network.read(
            torch.tensor(list(rows), device=self.device), padding=-1, start=-1, can_cache=not looks_ahead(self.network)
        )

    def _text(self, row: list[int], written: list[int]) -> str:
        """Text of `written`, decoded after the prompt: alone it would lose its first space."""
        before = self.target_tokenizer.decode(row)
        return self.target_tokenizer.decode([*row, *written])[len(before) :]


def _of_one_length(rows: Sequence[list[int]]) -> list[list[int]]:
    """Indices of the rows of each length."""
    lengths = sorted({len(row) for row in rows})
    return [[index for index, row in enumerate(rows) if len(row) == length] for length in lengths]


# Models that fill in masked tokens from both sides.

ALTERNATIVES = 5  # alternatives for each masked token


class MaskedLanguageModel(TextModel):
    """Encoder-only model: it fills in the masked tokens of a text, `<mask>` or as its tokenizer writes them."""

    def source_tokens(self, text: str) -> Tokens:
        """Tokens of a text between `<s>` and `</s>`, cut at max_length; `<mask>` becomes the mask token."""
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
        """Texts with their masks filled in by the most probable tokens; a generation has the ids of these tokens only.

        Raises:
            ValueError: the model does not fill in, or an option of writing is set.
        """
        if not self.fills:
            raise InputError(
                "{name} only reads: it has no output that predicts tokens, or no mask token", name=self.name
            )
        if beam != 1 or sampling or length is not None:
            mask = self.source_tokenizer.mask_label
            raise InputError(
                "{name} fills in {mask} and does not write: leave out beam, sampling and length",
                name=self.name,
                mask=mask,
            )
        return [self._fill(text) for text in texts]

    def guesses(self, trace: Trace, keep: int = ALTERNATIVES) -> list[Guess]:
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
        space = " " if label.startswith(SPACE) and before.strip() else ""  # else the token goes on with a word
        return before.rstrip() + space + label.removeprefix(SPACE) + self._gap(pieces[number + 1]) + after

    def _gap(self, piece: str) -> str:
        """Space where the model reads a new word after a mask and the text has no space."""
        first = self.source_tokenizer.encode(piece).labels[:1]
        return " " if first and first != [SPACE] and first[0].startswith(SPACE) and not piece[0].isspace() else ""

    def _fill(self, text: str) -> Generation:
        tokens = self.source_tokens(text)
        with torch.inference_mode():
            logits = self.network(self._ids(tokens))[0]
        places = [place for place, token in enumerate(tokens.ids) if token == self.source_tokenizer.mask]
        choices = [self._choices(logits[place], ALTERNATIVES) for place in places]
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
    """Text with a token between `before` and `after`: the rest of a word, or a word apart from letters beside it."""
    if label.startswith(continues):
        before, label = before.rstrip(), label.removeprefix(continues)
    elif before[-1:].isalnum() and label[:1].isalnum():
        before += " "
    return before + label + (" " if label[-1:].isalnum() and after[:1].isalnum() else "") + after


MODEL_CLASSES: dict[str, type[TextModel]] = {
    "encoder-decoder": Translator,
    "recurrent": Translator,
    "decoder-only": LanguageModel,
    "encoder-only": MaskedLanguageModel,
}


def _first_text(config: TransformerConfig, tokenizer: Tokenizer) -> str:
    """First text to show, where any text would not do: ids, without a tokenizer, or a text with a mask; else empty."""
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
    """Model of the network's kind, of a checkpoint without an example. record: the fields of its training.json."""
    training = {**record, "example": _first_text(network.config, tokenizers[0])}
    return MODEL_CLASSES[network.kind](name, network, tokenizers, training)
