"""What the last steps of a training left, waiting to be filmed: several at a time take a third of one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from model.camera import TOKENS
from model.film import Film
from model.gradients import Gains, Gradients, Updates
from model.inference.copies import alone
from model.inference.model import Inspectable
from model.rows import weights_in_a_row
from model.runs import Run
from model.several import Several, can_be_several

MANY = 16  # steps that wait: most networks read all of them in one pass
LONGEST = 1.0  # seconds that one waits, or a step longer
HELD = 32 << 20  # bytes that they may take, about
WHILE_FILMED = 16  # bytes that a frame takes for each that is kept of it, and for each logit, about


@dataclass(frozen=True)
class Moment:
    """A step and its figures. seen: whether its weights are to be looked at. at: when it was noted."""

    step: int
    figures: Mapping[str, float | None]
    seen: bool
    at: float = field(default_factory=time.monotonic)


class Moments:
    """Steps of the model that `gradients` belongs to: noted at once, on film and curves as soon as `develop` is called.

    lens: a model of its own, in which the weights of each moment are looked at.
    """

    def __init__(self, lens: Inspectable, gradients: Gradients) -> None:
        self.lens = alone(lens)
        row = weights_in_a_row(tuple(self.lens.model.parameters()))
        self._here, self._trained = row.whole, gradients.weights.whole
        self._several = Several(self.lens, row) if can_be_several(self.lens.model) else None
        fitting = max(1, min(MANY, HELD // (2 * self._here.nbytes)))
        # Of those that wait and are to be seen: weights, and by how much their step has changed them.
        self._after, self._moved = self._here.new_empty(2, fitting, len(self._here))
        self._updates, self._gains = Updates(gradients), Gains(self.lens.model)
        self._waiting: list[Moment] = []
        self._newest: tuple[int, Tensor] | None = None  # a copy of the weights, and the step it was made after

    @property
    def names(self) -> list[str]:
        """Of the figures that a moment has of its weights alone."""
        return [*self._updates.parts("update ratio/"), *self._gains.names]

    def many(self, film: Film) -> bool:
        """Whether so many wait, or for so long, that it is time to develop them."""
        logits = film.shape(TOKENS)[0] * self.lens.config.vocabulary
        each = 2 * self._trained.nbytes + WHILE_FILMED * (film.frame_size + logits)
        late = bool(self._waiting) and time.monotonic() - self._waiting[0].at > LONGEST
        return late or len(self._waiting) >= max(1, min(len(self._after), HELD // each))

    @property
    def tensors(self) -> list[Tensor]:
        """All that is held here, but for the frames that are being made."""
        return [self._here, self._after, self._moved, *(self._newest or ())[1:]]

    def latest(self, name: str) -> float | None:
        """The newest of these figures among those that wait."""
        known = (moment.figures.get(name) for moment in reversed(self._waiting))
        return next((value for value in known if value is not None), None)

    def begin(self, stands: int) -> Tensor:
        """The weights before the step that follows `stands`, which is to be seen."""
        if self._newest is None or self._newest[0] != stands:
            self._newest = stands, self._trained.clone()
        return self._newest[1]

    def end(self, step: int, figures: Mapping[str, float | None], before: Tensor | None) -> None:
        """Note a step. before: what `begin` gave, if it is to be seen."""
        if before is not None:
            place = sum(moment.seen for moment in self._waiting)
            torch.sub(self._trained, before, out=self._moved[place])  # first: `before` may stand where `after` comes
            self._newest = step, self._after[place].copy_(self._trained)
        self._waiting.append(Moment(step, figures, before is not None))

    def develop(self, run: Run) -> None:
        """Put all that wait onto the film and the curves of their run."""
        waiting, self._waiting = self._waiting, []
        seen: dict[int, dict[str, float]] = {}
        try:
            seen |= self._filmed(run.film, [moment.step for moment in waiting if moment.seen])
        finally:
            for moment in waiting:
                run.curves.add(moment.step, {**moment.figures, **seen.get(moment.step, {})})

    def load(self) -> None:
        """Put the weights as they are now into the lens."""
        self._here.copy_(self._trained)

    def forget(self) -> None:
        """The weights have been set to others."""
        self._newest = None

    def _filmed(self, film: Film, steps: Sequence[int]) -> dict[int, dict[str, float]]:
        """Put these steps onto the film; gives what the weights of each say, and its frame."""
        after, moved = self._after[: len(steps)], self._moved[: len(steps)]
        drifts: list[dict[str, float]] = []
        if self._several and len(steps) > 1:
            self._several.load(after)
            drifts += self._gains.drifts(self._several.of(self._gains.weights))
            shown = film.record(steps, self._several.lens)
        else:
            shown = film.record(self._one_by_one(steps, drifts))
        figures = zip(self._updates.ratios(moved, after), drifts or [{}] * len(steps), shown, strict=True)
        return {step: ratio | drift | frame for step, (ratio, drift, frame) in zip(steps, figures, strict=True)}

    def _one_by_one(self, steps: Sequence[int], drifts: list[dict[str, float]]) -> Iterator[int]:
        """The steps, each while its weights are in the lens; how far γ has moved goes into `drifts`."""
        for step, weights in zip(steps, self._after, strict=False):
            self._here.copy_(weights)
            drifts += self._gains.drifts([gain[None] for gain in self._gains.weights])
            yield step
