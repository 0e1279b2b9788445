"""Model: a network with its tokenizers, ready to be traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.capture.trace import Trace
from model.fast import install
from model.inference.decoding import Alternative, Generation, Guess, Sampling
from model.inference.pass_memory import recorded_pass
from model.message import InputError
from model.network.config import TWO_STACKS, Kind, TransformerConfig
from model.network.transformer import Network
from model.text.tokenizer import Tokenizer, Tokens

install()


class TextModel:
    """Network with its tokenizers, the same one twice where it has one stack. Read-only, as sessions share it.

    training: fields of training.json, as far as they are known.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        tokenizers: tuple[Tokenizer, Tokenizer],
        training: Mapping[str, Any],
    ) -> None:
        self.name, self.network, self.training = name, network, training
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._other: TextModel | None = None  # that reads special tokens, or does not
        self._into: dict[str, TextModel] = {}

    def reading(self, special: bool) -> TextModel:
        """This model where texts have special tokens by their names, or where they have not; one object for each."""
        tokenizers = self.source_tokenizer.reading(special), self.target_tokenizer.reading(special)
        if tokenizers == (self.source_tokenizer, self.target_tokenizer):
            return self
        if self._other is None:
            self._other = copy(self)
            self._other.source_tokenizer, self._other.target_tokenizer = tokenizers
            self._other._other, self._other._into = self, {}
        return self._other

    @property
    def languages(self) -> tuple[str, ...]:
        """Names of the languages into which the model translates, where its tokenizer has a token for each."""
        return tuple(self.target_tokenizer.languages) if self.kind in TWO_STACKS else ()

    def into(self, language: str) -> TextModel:
        """This model where targets begin with the token of a language, as `forced_bos_token_id` of transformers or, in
        the families that begin with it, `decoder_start_token_id` has it; one object for each.

        Raises:
            ValueError: its tokenizer has no such language.
        """
        if language not in self._into:
            other = copy(self)
            other.target_tokenizer = self.target_tokenizer.into(language)
            other._other, other._into = None, self._into
            self._into[language] = other
        return self._into[language]

    @property
    def config(self) -> TransformerConfig:
        """Configuration of the network."""
        return self.network.config

    @property
    def kind(self) -> Kind:
        """Kind of the network, by its stacks."""
        return self.network.kind

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.network.parameters()).dtype

    @property
    def example(self) -> str:
        """First text to show, as recorded in training; empty if there is none."""
        return str(self.training.get("example", ""))

    @property
    def predicts(self) -> bool:
        """True if the model has logits; a bare encoder has states only."""
        return self.config.output_head != "none"

    @property
    def fills(self) -> bool:
        """True if the model can fill in masked tokens."""
        return self.kind == "encoder-only" and self.predicts and self.source_tokenizer.mask is not None

    @property
    def special_labels(self) -> frozenset[str]:
        """Labels of the special tokens of both tokenizers."""
        return self.source_tokenizer.special_labels | self.target_tokenizer.special_labels

    def source_tokens(self, text: str) -> Tokens:
        """Tokens of a text with the special tokens around it, cut at max_length."""
        raise NotImplementedError

    def trace(self, source: str, target: str | None = None) -> Trace:
        """Trace of one forward pass.

        target: of an encoder-decoder model; None: the one that the model writes.

        Raises:
            ValueError: a target for a model of one stack.
        """
        if target is not None:
            raise InputError(
                "{name} is {kind}: it reads one text and has no target; leave the target out",
                name=self.name,
                kind=self.kind,
            )
        return self.trace_tokens(self.source_tokens(source))

    def trace_tokens(self, source: Tokens, target: Tokens | None = None, times: int = 1) -> Trace:
        """Trace of one forward pass on tokens, with the special tokens around them.

        times: size of a batch of equal examples; the trace is that of the last one.

        Raises:
            NoRoomError: memory has no room for the trace.
        """
        texts = [source] if target is None else [source, target]
        lengths = len(source.ids), len(target.ids) if target else 0
        with torch.inference_mode(), recorded_pass(self.network, *lengths, times) as trace:
            self.network(*(self._ids(tokens).expand(times, -1) for tokens in texts))
        return self._named(trace.example(times - 1) if times > 1 else trace, source, target)

    def _named(self, trace: Trace, source: Tokens, target: Tokens | None) -> Trace:
        """Trace with the labels of its tokens and of the special tokens."""
        trace.source_tokens, trace.target_tokens = source.labels, target.labels if target else []
        trace.special_labels = self.special_labels
        return trace

    def generate(
        self,
        text: str,
        *,
        beam: int = 1,
        length_penalty: float = 0.6,
        sampling: Sampling | None = None,
        length: int | None = None,
    ) -> Generation:
        """Generation for one text; options and errors are those of `generate_batch`."""
        return self.generate_batch([text], beam=beam, length_penalty=length_penalty, sampling=sampling, length=length)[
            0
        ]

    def generate_batch(
        self,
        texts: Sequence[str],
        *,
        beam: int = 1,
        length_penalty: float = 0.6,
        sampling: Sampling | None = None,
        length: int | None = None,
    ) -> list[Generation]:
        """Generations for several texts, computed together: greedily, by beam search, or drawn by `sampling`.

        beam: number of hypotheses of a beam search; 1: greedy decoding. length_penalty: see `SearchTree.score`.
        length: most tokens to write; None: a length that suits the text.

        Raises:
            ValueError: an option is out of its range, or this kind of model does not have it.
        """
        raise NotImplementedError

    def guesses(self, trace: Trace, keep: int = 5) -> list[Guess]:
        """Guesses of the next token of a text, or of each masked token; none of a model with two stacks."""
        return []

    def take(self, text: str, number: int, token: int) -> str:
        """Text with a token of guess `number` put into it.

        Raises:
            ValueError: this kind of model does not guess.
        """
        raise InputError(
            "{name} is {kind}: it translates, and guesses nothing of its source", name=self.name, kind=self.kind
        )

    def continue_from(self, source: str, target: str, length: int, tokens: Sequence[int]) -> str:
        """Text of the first `length` tokens and then `tokens`: of the target, which the model completes, or of a
        language model's text, which ends there.

        Raises:
            ValueError: this kind of model does not write.
        """
        raise InputError(
            "{name} is {kind}: it does not write from left to right; fill in masks instead",
            name=self.name,
            kind=self.kind,
        )

    def _guess(self, trace: Trace, place: int, keep: int) -> Guess:
        return Guess(place, self._choices(trace["output.logits"][place], keep))

    def _choices(self, logits: Float[Tensor, vocabulary], keep: int) -> list[Alternative]:
        """Most probable tokens but for special ones, which cannot stand in a text; best first."""
        tokenizer = self.target_tokenizer
        log_probabilities = logits.float().log_softmax(dim=-1)
        log_probabilities[tokenizer.special] = -torch.inf
        values, tokens = log_probabilities.topk(min(keep, len(log_probabilities) - len(tokenizer.special)))
        best = zip(tokens.tolist(), values.tolist(), strict=True)
        return [Alternative(token, tokenizer.label(token), value) for token, value in best]

    def _ids(self, tokens: Tokens) -> Int[Tensor, "1 length"]:
        return torch.tensor([tokens.ids], device=self.device)
