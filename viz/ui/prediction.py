"""The predictions of one trace, beside those of the pinned one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.predictions import UNKNOWN, actual_tokens, losses, ranks
from model.message import Message
from model.network.config import TWO_STACKS
from viz.figures.axis import Axis, Scale
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.state.inputs import Inputs
from viz.ui.plots import word

BITS = float(np.log2(np.e))  # in a nat
SIGNS = str.maketrans({"▁": "·", "\n": "⏎", "\t": "⇥"})


class Subject:
    """Logits of a trace, the tokens that they are asked for, and the chosen position; the pinned trace's at the same
    tokens. differing: differences from these are wanted.
    """

    def __init__(self, inputs: Inputs, differing: bool = False) -> None:
        self.inputs, self.comparison = inputs, inputs.comparison
        self.model, self.trace = model, trace = inputs.model, inputs.trace
        written = inputs.target or inputs.source
        tokenizer = model.target_tokenizer
        end = tokenizer.end if inputs.ended else None
        self.ids = actual_tokens(model.kind, written.ids, end, tokenizer.mask)
        self.tokens = trace.tokens_of("output.logits")
        self.side = "target" if trace.target_tokens else "source"
        self.shift = 0 if model.kind == "encoder-only" else 1
        self.chosen = min(inputs.selection.query, len(self.tokens) - 1)
        self.logits = trace["output.logits"].float()
        self.actual = torch.tensor(self.ids, device=self.logits.device)
        self.pinned = inputs.before("output.logits")
        self.differing = differing and self.pinned is not None

    @cached_property
    def log_probabilities(self) -> Tensor:
        return self.logits.log_softmax(dim=-1)

    @cached_property
    def pinned_log_probabilities(self) -> Tensor | None:
        return None if self.pinned is None else self.pinned.float().to(self.logits.device).log_softmax(dim=-1)

    @cached_property
    def losses(self) -> Tensor:
        return losses(self.logits, self.actual)

    @cached_property
    def pinned_losses(self) -> Tensor | None:
        return None if self.pinned is None else losses(self.pinned.to(self.logits.device), self.actual)

    @cached_property
    def ranks(self) -> Tensor:
        return ranks(self.logits, self.actual)

    @property
    def places(self) -> list[str]:
        """The tokens that are predicted, on an axis where each stands at its own number."""
        after = self.shift and self.ids[-1] != UNKNOWN
        return [*self.tokens, self.label(self.ids[-1])] if after else self.tokens

    def at_places(self, values: Tensor) -> NDArray[np.float32]:
        """A value per position at the token that it predicts; NaN where nothing predicts one."""
        moved = np.concatenate([np.full(self.shift, np.nan, np.float32), values.float().cpu().numpy()])
        return moved[: len(self.places)]

    def label(self, token: int) -> str:
        return self.model.target_tokenizer.label(token)

    def question(self, position: int) -> str:
        """A position and what is asked of it, as "⟨token⟩ → ⟨next token⟩"."""
        token = visible(self.tokens[position])
        actual = "?" if self.ids[position] == UNKNOWN else visible(self.label(self.ids[position]))
        return f"{token} → {actual}" if self.shift or actual == "?" else token

    def axis(self, title: str) -> Axis:
        """The positions."""
        return Axis(title, [self.question(position) for position in range(len(self.tokens))], self.side)

    def best(self, position: int, count: int) -> list[int]:
        """The most probable tokens, and the actual one behind them if it is not among them; none where they are NaN."""
        if bool(self.logits[position].isnan().any()):
            return []
        tokens: list[int] = self.logits[position].topk(min(count, self.logits.shape[-1])).indices.tolist()
        actual = self.ids[position]
        return tokens if actual == UNKNOWN or actual in tokens else [*tokens, actual]

    def row(self, position: int, token: int, rank: int) -> dict[str, object]:
        """Line of a list of alternatives, for a token."""
        return {
            "token": token,
            "label": self.label(token),
            "special": token in self.model.target_tokenizer.special,
            "actual": token == self.ids[position],
            "open": self.can_take(position, token),
            "rank": f"{rank:,}",
        }

    def can_take(self, position: int, token: int) -> bool:
        """True if the text can go on with this token after this position, or be filled in with it there."""
        tokenizer = self.model.target_tokenizer
        if self.model.kind == "encoder-only":
            return self.tokens[position] == tokenizer.mask_label and token not in tokenizer.special
        ends = self.model.kind in TWO_STACKS and token in tokenizer.stops and position > 0
        return ends or token not in tokenizer.special

    def rank_of(self, position: int, token: int) -> int:
        return 1 + int((self.logits[position] > self.logits[position, token]).sum())

    def pinned_at(self, position: int) -> Tensor | None:
        """The pinned log-probabilities at this position, where the pinned text has it."""
        values = self.pinned_log_probabilities
        return None if values is None or bool(values[position].isnan().any()) else values[position]

    @property
    def pinned_logits(self) -> Tensor | None:
        """The pinned logits at the chosen position, where the pinned text has it."""
        if self.pinned is None or self.pinned_at(self.chosen) is None:
            return None
        return self.pinned[self.chosen].float().to(self.logits.device)

    def with_pin(self, sentence: str) -> str:
        """Sentence on the chosen position; and, where the pinned text does not have it, that."""
        if self.pinned is None or self.pinned_at(self.chosen) is not None:
            return sentence
        return joined(" · ", sentence, Message("this token is not in the pinned text"))

    def pinned_top(self, position: int) -> str | None:
        """The pinned trace's most probable token and its probability, where it has this position."""
        values = self.pinned_at(position)
        if values is None:
            return None
        probability, token = values.exp().max(dim=-1)
        return f"{visible(self.label(int(token)))} {float(probability):.3g}"


def visible(label: str) -> str:
    """A token as it is written on the screen: a space is a dot, and what would be invisible gets a sign."""
    return "·" if label == " " else label.translate(SIGNS)


def expectation(token: str, top: str, share: float, hidden: bool) -> str:
    """The most probable token after this one, or in its place where it is hidden, as a title."""
    values = {"token": word(visible(token)), "top": word(visible(top)), "share": significant(share)}
    if hidden:
        return Message("In the place of {token}: {top}, {share}", **values)
    return Message("After {token} comes {top}: {share}", **values)


def choice_words() -> dict[str, str]:
    """Words of a list of tokens that can be chosen."""
    return {"token": Message("token"), "continue": Message("Press to continue from it")}


def difference_scale(values: NDArray[np.float32], title: str) -> Scale:
    """Scale of differences from the pinned values; NaN where the pinned text has no such token."""
    most = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    return Scale(-most, most, title, True)


def gathered(values: Tensor, tokens: Sequence[int]) -> list[float]:
    """Some of a row's values."""
    numbers: list[float] = values[list(tokens)].tolist()
    return numbers
