"""A model with its tokenizers, ready to be looked into, wherever it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from model.beam import SearchTree, beam_search
from model.config import TransformerConfig
from model.decoding import Alternative, Generation, greedy
from model.sampling import Sampling, Step, sample
from model.text import Tokenizer, Tokens
from model.trace import Trace, ordinary, record
from model.transformer import Transformer


class Inspectable:
    """An encoder-decoder model and its source and target tokenizers. Read-only: sessions share it."""

    def __init__(
        self,
        name: str,
        model: Transformer,
        tokenizers: tuple[Tokenizer, Tokenizer],
        training: Mapping[str, Any],
    ) -> None:
        self.name, self.model, self.training = name, model, training
        self.source_tokenizer, self.target_tokenizer = tokenizers

    @property
    def config(self) -> TransformerConfig:
        return self.model.config

    @property
    def kind(self) -> str:
        """ "encoder-decoder", "decoder-only" or "encoder-only"."""
        return self.model.kind

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def source_tokens(self, text: str) -> Tokens:
        """`text` as the encoder gets it, with `</s>`, cut at max_length."""
        tokenizer = self.source_tokenizer
        tokens = tokenizer.encode(text).cut(self.config.max_length - 1)
        return tokens.between(after=tokenizer.tokens([tokenizer.end]))

    def target_tokens(self, text: str) -> Tokens:
        """`text` as the decoder gets it, after `<s>`, cut at max_length."""
        tokenizer = self.target_tokenizer
        tokens = tokenizer.encode(text).cut(self.config.max_length - 1)
        return tokens.between(before=tokenizer.tokens([tokenizer.start]))

    def trace(self, source: str, target: str | None = None) -> Trace:
        """One forward pass on a pair, everything kept; without a target, on the one the model generates."""
        if target is None:
            return self.trace_generated(self.source_tokens(source))[0]
        return self.trace_tokens(self.source_tokens(source), self.target_tokens(target))

    def trace_tokens(self, source: Tokens, target: Tokens) -> Trace:
        """One forward pass on tokens as the two stacks get them, everything kept."""
        with torch.inference_mode(), record(self.model) as trace:
            self.model(self._ids(source), self._ids(target))
        trace.source_tokens, trace.target_tokens = source.labels, target.labels
        return trace

    def trace_generated(self, source: Tokens, draft: Generation | None = None) -> tuple[Trace, Tokens, Generation]:
        """The trace on what the model writes for `source`, its tokens after `<s>`, and how it wrote them.

        draft: what it wrote for a similar source; the less has changed, the faster this is.
        """
        tokenizer = self.target_tokenizer
        with torch.inference_mode(), record(self.model) as trace:
            memory = self.model.encode(self._ids(source))
            with ordinary():
                generation = self._write([source.ids], draft.ids if draft else (), memory)[0]
            written = [token for token in generation.ids if token != tokenizer.end]
            target = tokenizer.tokens([tokenizer.start, *written])
            self.model.output(self.model.decode(self._ids(target), memory))
        trace.source_tokens, trace.target_tokens = source.labels, target.labels
        return trace, target, generation

    def generate(
        self, text: str, *, beam: int = 1, length_penalty: float = 0.6, sampling: Sampling | None = None
    ) -> Generation:
        """The target that the model writes for `text`: greedily, by beam search, or drawn by `sampling`."""
        return self.generate_batch([text], beam=beam, length_penalty=length_penalty, sampling=sampling)[0]

    def generate_batch(
        self, texts: Sequence[str], *, beam: int = 1, length_penalty: float = 0.6, sampling: Sampling | None = None
    ) -> list[Generation]:
        """The targets for several texts, computed together.

        beam: hypotheses kept in a beam search; 1 is greedy decoding. length_penalty: see `SearchTree`.

        Raises:
            ValueError: an option is out of its range, or both a beam and sampling are asked for.
        """
        rows = [self.source_tokens(text).ids for text in texts]
        if sampling is None and beam == 1:
            return self._write(rows)
        if sampling and beam != 1:
            raise ValueError(f"beam ({beam}) and sampling exclude each other: choose one")
        tokenizer = self.target_tokenizer
        options: dict[str, Any] = {
            "padding": self.source_tokenizer.padding,
            "start": tokenizer.start,
            "end": tokenizer.end,
            "limits": [limit - 1 for limit in self._limits(rows)],
        }
        if sampling:
            return [self._generation(steps) for steps in sample(self.model, self._padded(rows), sampling, **options)]
        trees = beam_search(self.model, self._padded(rows), beam=beam, length_penalty=length_penalty, **options)
        generations = []
        for tree in trees:
            path = [tree.nodes[index] for index in tree.path(tree.ranked()[0])]
            choices = [tree.nodes[node.parent].choices for node in path]
            steps = [(node.token, node.log_probability, each) for node, each in zip(path, choices, strict=True)]
            generations.append(self._generation(steps, tree))
        return generations

    def _write(
        self, rows: Sequence[list[int]], draft: Sequence[int] = (), memory: Tensor | None = None
    ) -> list[Generation]:
        tokenizer = self.target_tokenizer
        limits = self._limits(rows)
        ids, values, tokens = greedy(
            self.model,
            self._padded(rows),
            padding=self.source_tokenizer.padding,
            start=tokenizer.start,
            end=tokenizer.end,
            max_length=max(limits),
            draft=draft,
            memory=memory,
        )
        generations = []
        for index, limit in enumerate(limits):
            chosen = ids[index][: limit - 1]  # <s> is one of the limit
            columns = tokens[: len(chosen), index].tolist(), values[: len(chosen), index].tolist()
            choices = [list(zip(*step, strict=True)) for step in zip(*columns, strict=True)]
            generations.append(self._generation([(*step[0], step) for step in choices]))
        return generations

    def _limits(self, rows: Sequence[list[int]]) -> list[int]:
        """The most tokens of each target, `<s>` counted: a model that repeats itself ends there."""
        return [min(self.config.max_length, 2 * len(row) + 16) for row in rows]

    def _generation(self, steps: Sequence[Step], tree: SearchTree | None = None) -> Generation:
        tokenizer = self.target_tokenizer
        ids = [token for token, _, _ in steps]
        return Generation(
            text=tokenizer.decode(ids),
            ids=ids,
            tokens=[tokenizer.label(token) for token in ids],
            log_probabilities=[value for _, value, _ in steps],
            alternatives=[
                [Alternative(token, tokenizer.label(token), value) for token, value in choices]
                for _, _, choices in steps
            ],
            tree=tree,
        )

    def _ids(self, tokens: Tokens) -> Tensor:
        return torch.tensor([tokens.ids], device=self.device)

    def _padded(self, rows: Sequence[list[int]]) -> Tensor:
        longest = max(len(row) for row in rows)
        padding = self.source_tokenizer.padding
        return torch.tensor([row + [padding] * (longest - len(row)) for row in rows], device=self.device)
