"""A series of things within a budget of memory, thinned evenly as it grows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Sized(Protocol):
    """What was kept of a training step, and its size in bytes."""

    @property
    def step(self) -> int: ...

    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Sized)


class Thinned(Generic[Item]):
    """Items in order of their steps; the first and the latest are always kept, whatever the budget.

    When the others do not fit into `budget` bytes any more, every second one goes, and from then on only every second
    one comes in. Which ones stay depends on the steps alone.
    """

    def __init__(self, budget: int, every: int = 1, most: int | None = None) -> None:
        """every: the distance in steps between two items as long as all fit. most: how many there may be."""
        self.budget, self.every, self.most, self.size = budget, every, most, 0
        self._items: list[Item] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __getitem__(self, index: int) -> Item:
        return self._items[index]

    def since(self, step: int) -> list[Item]:
        """Those later than `step`."""
        return self._items[bisect_right(self._items, step, key=lambda item: item.step) :]

    def wants(self, step: int) -> bool:
        """Whether an item of this step stays when later ones come."""
        return not self._items or (step % self.every == 0 and step > self._items[-1].step)

    def add(self, item: Item) -> None:
        """One later than all others; the latest so far goes if only that kept it."""
        assert not self._items or item.step > self._items[-1].step, (item.step, self._items[-1].step)
        if len(self._items) > 1 and self._items[-1].step % self.every:
            self.size -= self._items.pop().size
        self._items.append(item)
        self.size += item.size
        self._fit()

    def put(self, items: Iterable[Item]) -> None:
        """Add items wherever they belong; of two of one step the new one stays."""
        for item in items:
            if not self._items or item.step > self._items[-1].step:
                self.add(item)
            else:
                together = {other.step: other for other in (*self._items, item)}
                self._keep([together[step] for step in sorted(together)])
        self._fit()

    def cut(self, step: int) -> None:
        """Forget what is later than `step`."""
        self._keep([item for item in self._items if item.step <= step])

    def shrink(self, budget: int) -> None:
        """Live within another budget from now on."""
        self.budget = budget
        self._fit()

    def _fit(self) -> None:
        while len(self._items) > 2 and (self.size > self.budget or (self.most and len(self._items) > self.most)):
            self.every *= 2
            first, *between, latest = self._items
            self._keep([first, *(item for item in between if item.step % self.every == 0), latest])

    def _keep(self, items: list[Item]) -> None:
        self._items, self.size = items, sum(item.size for item in items)
