"""Models that fill in hidden tokens from both sides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model.decoding import Generation, Guess
from model.inspectable import Inspectable
from model.sampling import Sampling
from model.text.tokenizer import SPACE, Tokens
from model.trace import Trace

KEPT = 5  # alternatives for each hidden token


class MaskFiller(Inspectable):
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
            logits = self.model(self._ids(tokens))[0]
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
