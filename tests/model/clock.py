"""Time that a test moves, and timers that wait for it."""

from __future__ import annotations


class Clock:
    """Time that a test moves, and the timers that wait for it."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, []

    def __call__(self) -> float:
        return self.now

    def timer(self, seconds, act):
        made = Timer(self.now + seconds, act)
        self.timers.append(made)
        return made

    def go(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each in self.waiting if each.due <= self.now]:
            timer.running = False
            timer.act()

    @property
    def waiting(self) -> list[Timer]:
        return [timer for timer in self.timers if timer.running]


class Timer:
    def __init__(self, due, act) -> None:
        self.due, self.act, self.running, self.daemon = due, act, False, False

    def start(self) -> None:
        self.running = True

    def cancel(self) -> None:
        self.running = False
