"""How often a training is looked into: so seldom that it costs a small share of the time."""

from __future__ import annotations

from collections import deque
from statistics import median

RECENT = 20  # steps and frames that are measured
SLACK = 0.8  # of the share: what it must fall below before frames come more often again


class Pace:
    """Every how manieth step leaves a frame: 1, 2, 4 …, the fewest steps at which frames take at most `share` of the
    time that the steps take; without a share each one does.
    """

    def __init__(self, share: float | None = None) -> None:
        self.share, self.every = share, 1
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._frames: deque[float] = deque(maxlen=RECENT)

    def due(self, step: int) -> bool:
        return step % self.every == 0

    def note(self, step: float, frame: float | None) -> None:
        """Seconds that a step took, and a frame after it, if there was one."""
        self._steps.append(step)
        if frame is not None:
            self._frames.append(frame)
        if self.share is None or not self._frames:
            return
        cost = median(self._frames) / median(self._steps)
        while cost > self.share * self.every:
            self.every *= 2
        while self.every > 1 and cost < SLACK * self.share * self.every / 2:
            self.every //= 2
