"""Models that fill in hidden tokens from both sides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model.decoding import Alternative, Generation, Guess
from model.inspectable import Inspectable
from model.sampling import Sampling
from model.text import MASK, SPACE, Tokens
from model.trace import Trace

KEPT = 5  # alternatives for each hidden token


class MaskFiller(Inspectable):
    """An encoder-only model: `<mask>` in a text stands for a hidden token."""

    def source_tokens(self, text: str) -> Tokens:
        """`text` between `<s>` and `</s>`, cut at max_length; `<mask>` in it becomes the mask token."""
        tokenizer = self.source_tokenizer
        tokens = tokenizer.encode(text, masks=True).cut(self.config.max_length - 2)
        return tokens.between(tokenizer.tokens([tokenizer.start]), tokenizer.tokens([tokenizer.end]))

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
        if beam != 1 or sampling or length is not None:
            raise ValueError(f"{self.name} fills in {MASK} and does not write: leave out beam, sampling and length")
        return [self._fill(self.source_tokens(text)) for text in texts]

    def guesses(self, trace: Trace, keep: int = KEPT) -> list[Guess]:
        places = [place for place, label in enumerate(trace.source_tokens) if label == MASK]
        return [self._guess(trace, place, keep) for place in places]

    def take(self, text: str, number: int, token: int) -> str:
        pieces, label = text.split(MASK), self.source_tokenizer.label(token)
        before, after = MASK.join(pieces[: number + 1]), MASK.join(pieces[number + 1 :])
        if label.startswith(SPACE):
            return before + label.removeprefix(SPACE) + after
        return before.rstrip() + label + after  # the rest of the word before it

    def _fill(self, tokens: Tokens) -> Generation:
        tokenizer, ids = self.source_tokenizer, list(tokens.ids)
        places = [place for place, token in enumerate(ids) if token == tokenizer.mask]
        with torch.inference_mode():
            log_probabilities = self.model(self._ids(tokens))[0, places].float().log_softmax(dim=-1)
        values, best = log_probabilities.topk(min(KEPT, log_probabilities.shape[-1]), dim=-1)
        for place, choices in zip(places, best.tolist(), strict=True):
            ids[place] = choices[0]
        filled = [ids[place] for place in places]
        steps = zip(best.tolist(), values.tolist(), strict=True)
        return Generation(
            text=tokenizer.decode(ids),
            ids=filled,
            tokens=[tokenizer.label(token) for token in filled],
            log_probabilities=values[:, 0].tolist(),
            alternatives=[
                [Alternative(token, tokenizer.label(token), value) for token, value in zip(*step, strict=True)]
                for step in steps
            ],
        )
