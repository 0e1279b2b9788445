"""What the last steps of a training left, waiting to be filmed: several at a time take half as long as one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from model.camera import TOKENS
from model.copies import alone
from model.film import Film
from model.gradients import Gains, Gradients, Updates
from model.inspectable import Inspectable
from model.rows import weights_in_a_row
from model.runs import Run

MANY = 16  # steps that wait: once the first is filmed, caches hold what the others need
LONGEST = 1.0  # seconds that one waits, or a step longer
HELD = 16 << 20  # bytes that they may take, about
WHILE_FILMED = 16  # bytes that a frame takes for each that is kept of it, and for each logit, about


@dataclass(frozen=True)
class Moment:
    """A step, its figures, and the weights before and after it where these are to be seen. at: when it was noted."""

    step: int
    figures: Mapping[str, float | None]
    weights: tuple[Float[Tensor, " all"], Float[Tensor, " all"]] | None
    at: float = field(default_factory=time.monotonic)


class Moments:
    """Steps of the model that `gradients` belongs to: noted at once, on film and curves as soon as `develop` is called.

    lens: a model of its own, in which the weights of each moment are looked at.
    """

    def __init__(self, lens: Inspectable, gradients: Gradients) -> None:
        self.lens = alone(lens)
        self._here = weights_in_a_row(tuple(self.lens.model.parameters())).whole
        self._trained = gradients.weights.whole
        self._updates, self._gains = Updates(gradients), Gains(self.lens.model)
        self._waiting: list[Moment] = []
        self._newest: tuple[int, Tensor] | None = None  # a copy of the weights, and the step it was made after

    @property
    def names(self) -> list[str]:
        """Of the figures that a moment has of its weights alone."""
        return [*self._updates.parts("update ratio/"), *self._gains.drifts()]

    def many(self, film: Film) -> bool:
        """Whether so many wait, or for so long, that it is time to develop them."""
        logits = film.shape(TOKENS)[0] * self.lens.config.vocabulary
        each = self._trained.nbytes + WHILE_FILMED * (film.frame_size + logits)
        late = bool(self._waiting) and time.monotonic() - self._waiting[0].at > LONGEST
        return late or len(self._waiting) >= max(1, min(MANY, HELD // each))

    @property
    def tensors(self) -> list[Tensor]:
        """All that is held here, but for the frames that are being made."""
        weights = [row for moment in self._waiting for row in moment.weights or ()]
        return [self._here, *weights, *(self._newest or ())[1:]]

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
        if before is None:
            self._waiting.append(Moment(step, figures, None))
        else:
            self._newest = step, self._trained.clone()
            self._waiting.append(Moment(step, figures, (before, self._newest[1])))

    def develop(self, run: Run) -> None:
        """Put all that wait onto the film and the curves of their run."""
        waiting, self._waiting = self._waiting, []
        seen: dict[int, dict[str, float]] = {}
        try:
            shown = run.film.record(self._loaded(waiting, seen))
            for mine, figures in zip(seen.values(), shown, strict=True):
                mine |= figures
        finally:
            for moment in waiting:
                run.curves.add(moment.step, {**moment.figures, **seen.get(moment.step, {})})

    def load(self) -> None:
        """Put the weights as they are now into the lens."""
        self._here.copy_(self._trained)

    def forget(self) -> None:
        """The weights have been set to others."""
        self._newest = None

    def _loaded(self, waiting: Sequence[Moment], seen: dict[int, dict[str, float]]) -> Iterator[int]:
        """The steps of those that are to be seen, each while its weights are in the lens; what these say goes into
        `seen`.
        """
        for moment in waiting:
            if moment.weights:
                self._here.copy_(moment.weights[1])
                seen[moment.step] = self._updates.ratios(*moment.weights) | self._gains.drifts()
                yield moment.step
