"""A model with its tokenizers, ready to be looked into, wherever it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from model.capture.trace import Trace, record
from model.fast import install
from model.inference.decoding import Alternative, Generation, Guess, Sampling
from model.network.config import Kind, TransformerConfig
from model.network.transformer import Network
from model.text.tokenizer import Tokenizer, Tokens

install()


class TextModel:
    """A model and its tokenizers, the same one twice where it has one stack. Read-only: sessions share it."""

    def __init__(
        self,
        name: str,
        network: Network,
        tokenizers: tuple[Tokenizer, Tokenizer],
        training: Mapping[str, Any],
    ) -> None:
        self.name, self.network, self.training = name, network, training
        self.source_tokenizer, self.target_tokenizer = tokenizers

    @property
    def config(self) -> TransformerConfig:
        return self.network.config

    @property
    def kind(self) -> Kind:
        return self.network.kind

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    @property
    def example(self) -> str:
        """A text to begin with, from its training; empty if that recorded none."""
        return str(self.training.get("example", ""))

    @property
    def predicts(self) -> bool:
        """Whether it has logits; a bare encoder gives states alone."""
        return self.config.output_head != "none"

    @property
    def fills(self) -> bool:
        """Whether it can be asked for a hidden token."""
        return self.kind == "encoder-only" and self.predicts and self.source_tokenizer.mask is not None

    @property
    def special_labels(self) -> frozenset[str]:
        """The names of the special tokens of both texts."""
        return self.source_tokenizer.special_labels | self.target_tokenizer.special_labels

    def source_tokens(self, text: str) -> Tokens:
        """`text` as the model gets it, with the special tokens around it, cut at max_length."""
        raise NotImplementedError

    def trace(self, source: str, target: str | None = None) -> Trace:
        """One forward pass, everything kept.

        target: for encoder-decoder models; without it, the one that the model writes.

        Raises:
            ValueError: a target for a model of one stack.
        """
        if target is not None:
            raise ValueError(f"{self.name} is {self.kind}: it reads one text and has no target; leave the target out")
        return self.trace_tokens(self.source_tokens(source))

    def trace_tokens(self, source: Tokens, target: Tokens | None = None, times: int = 1) -> Trace:
        """One forward pass on tokens as the stacks get them, everything kept.

        times: examples of a batch that are all alike; the trace is of the last one.
        """
        texts = [source] if target is None else [source, target]
        with torch.inference_mode(), record(self.network) as trace:
            self.network(*(self._ids(tokens).expand(times, -1) for tokens in texts))
        return self._named(trace.example(times - 1) if times > 1 else trace, source, target)

    def _named(self, trace: Trace, source: Tokens, target: Tokens | None) -> Trace:
        """A trace that knows what its tokens are called, and which of them are special."""
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
        """What the model writes for `text`: greedily, by beam search, or drawn by `sampling`."""
        options: dict[str, Any] = {"beam": beam, "length_penalty": length_penalty, "sampling": sampling}
        return self.generate_batch([text], length=length, **options)[0]

    def generate_batch(
        self,
        texts: Sequence[str],
        *,
        beam: int = 1,
        length_penalty: float = 0.6,
        sampling: Sampling | None = None,
        length: int | None = None,
    ) -> list[Generation]:
        """What the model writes for several texts, computed together.

        beam: hypotheses kept in a beam search; 1 is greedy decoding. length_penalty: see `SearchTree`.
        length: the most tokens to write.

        Raises:
            ValueError: an option is out of its range, or this kind of model does not have it.
        """
        raise NotImplementedError

    def guesses(self, trace: Trace, keep: int = 5) -> list[Guess]:
        """What may be put into a text: after its end, or in the place of each hidden token; none with two stacks."""
        return []

    def take(self, text: str, number: int, token: int) -> str:
        """`text` with a token of the guess of that number put into it.

        Raises:
            ValueError: this kind of model does not guess.
        """
        raise ValueError(f"{self.name} is {self.kind}: it translates, and guesses nothing of its source")

    def continue_from(self, source: str, target: str, kept: int, tokens: Sequence[int]) -> str:
        """What is written when `tokens` come after the first `kept` tokens of it: of the target, which the model then
        ends, or of a language model's text, which ends there.

        Raises:
            ValueError: this kind of model does not write.
        """
        raise ValueError(f"{self.name} is {self.kind}: it does not write from left to right; fill in masks instead")

    def _guess(self, trace: Trace, place: int, keep: int) -> Guess:
        return Guess(place, self._choices(trace["output.logits"][place], keep))

    def _choices(self, logits: Tensor, keep: int) -> list[Alternative]:
        """The most probable tokens that can stand in a text; special ones cannot."""
        tokenizer = self.target_tokenizer
        log_probabilities = logits.float().log_softmax(dim=-1)
        log_probabilities[tokenizer.special] = -torch.inf
        values, tokens = log_probabilities.topk(min(keep, len(log_probabilities) - len(tokenizer.special)))
        best = zip(tokens.tolist(), values.tolist(), strict=True)
        return [Alternative(token, tokenizer.label(token), value) for token, value in best]

    def _ids(self, tokens: Tokens) -> Tensor:
        return torch.tensor([tokens.ids], device=self.device)
