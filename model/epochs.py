"""Which batches each training step takes."""

from __future__ import annotations

import random
from bisect import bisect_right

from model.data.datasets import Corpus
from model.training_settings import TrainingSettings

StepBatches = list[list[int]]  # the examples of each batch of a step


class Epochs:
    """The steps of each epoch. An epoch is put in order when it is reached: what settings say of steps decides when.

    ends: the step after which each epoch ends, as far as that is known; the number of batches varies a little with
    the shuffle.
    """

    def __init__(self, corpus: Corpus, settings: TrainingSettings) -> None:
        self.corpus, self.settings = corpus, settings
        self.ends: list[int] = []
        self._ordered: tuple[int, list[StepBatches]] = (-1, [])
        for _ in range(settings.epochs if settings.steps is None else 1):
            self._reach_another()

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self.settings.steps or self.ends[-1]

    def after(self, step: int) -> tuple[int, int, StepBatches]:
        """The epoch that the next step belongs to, how many steps are left in it, and the next step's batches."""
        while self.ends[-1] <= step:
            self._reach_another()
        epoch = bisect_right(self.ends, step)
        left = self.ends[epoch] - step
        return epoch, left, self._steps_of(epoch)[-left]

    def _reach_another(self) -> None:
        end = self.ends[-1] if self.ends else 0
        self.ends.append(end + len(self._steps_of(len(self.ends))))

    def _steps_of(self, epoch: int) -> list[StepBatches]:
        if self._ordered[0] != epoch:
            shuffle = random.Random(f"{self.settings.seed} epoch {epoch}")
            order = self.corpus.order(self.settings.batch_tokens, shuffle)
            count = self.settings.accumulation
            self._ordered = epoch, [order[first : first + count] for first in range(0, len(order), count)]
        return self._ordered[1]
