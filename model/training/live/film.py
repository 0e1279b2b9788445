"""Film of a training: frames of one probe over the steps, and key frames to go back to."""

from __future__ import annotations

import dataclasses
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from jaxtyping import UInt8

from model.capture.trace import AttentionKind, Trace
from model.inference.copies import alone
from model.inference.text_model import TextModel
from model.runtime.locks import RLock
from model.training.live.frame_recorder import KINDS, Camera, Frame, Probe
from model.training.live.key_frames import KeyFrame

BUDGET, KEY_BUDGET = 64 << 20, 384 << 20  # bytes
KEYS = 50  # key frames at most
KEY_EVERY = 10  # steps between two key frames, as long as all fit
Array = npt.NDArray[Any]
_editions = itertools.count(1)


class Film:
    """Frames of a probe at the steps of a run: at each step while the budget lasts, then at every second, and so on.

    Any thread may read it while another records. Frames are numbered from 0; `steps` says which steps they show.
    edition: a number that no other edition, of any film, has; in one edition a step has one frame.
    """

    def __init__(
        self,
        model: TextModel,
        probe: Probe,
        budget: int = BUDGET,
        key_budget: int = KEY_BUDGET,
        key_every: int = KEY_EVERY,
    ) -> None:
        """model: has the weights of a step when a frame of that step is taken. Budgets in bytes; key_every in steps."""
        self.model = model
        self.keys: Thinned[KeyFrame] = Thinned(key_budget, key_every, KEYS)
        self._frames: Thinned[Frame] = Thinned(budget)
        self._camera = Camera(model, probe)
        self._lock = RLock("film")
        self.edition = next(_editions)

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def probe(self) -> Probe:
        """Probe of the frames."""
        return self._camera.probe

    @property
    def steps(self) -> Array:
        """Step (frame) of each frame."""
        with self._lock:
            return np.array([frame.step for frame in self._frames], dtype=np.int64)

    @property
    def latest(self) -> int:
        """Step of the newest frame."""
        return self._frames[-1].step

    @property
    def key_frames(self) -> list[KeyFrame]:
        """Key frames in order of their steps."""
        with self._lock:
            return list(self.keys)

    def keys_until(self, step: int) -> list[KeyFrame]:
        """Key frames up to a step: one at least, that of the beginning."""
        return [key for key in self.key_frames if key.step <= step]

    def still(self) -> AbstractContextManager[object]:
        """Context in which no frame comes or goes, so that what is read in it belongs together."""
        return self._lock

    @property
    def frames(self) -> list[Frame]:
        """All frames in order of their steps."""
        with self._lock:
            return list(self._frames)

    def put(self, frames: Iterable[Frame]) -> None:
        """Take over frames that another film of this probe has taken; others are left out."""
        known = self._frames[0]
        fitting = [each for each in frames if (each.weights.shape, each.values.shape) == _shapes(known)]
        with self._lock:
            self._frames.put(fitting)
            self.edition = next(_editions)

    @property
    def names(self) -> list[str]:
        """Quantities of each frame; see `Camera`."""
        return list(self._camera.slots)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a quantity in each frame."""
        return self._camera.slots[name].shape

    @property
    def size(self) -> int:
        """Bytes of all frames and key frames."""
        return self._frames.size + self.keys.size

    @property
    def frame_size(self) -> int:
        """Bytes of one frame."""
        return self._frames[0].size

    @property
    def every(self) -> int:
        """Distance in steps between two frames, thinned as they are."""
        return self._frames.every

    def wants(self, step: int) -> bool:
        """True if a frame of this step stays when later ones come."""
        return self._frames.wants(step)

    def record(self, steps: Iterable[int], several: TextModel | None = None) -> list[dict[str, float]]:
        """Take a frame of each step, see `Camera.take`; return the figures of each step for the curves."""
        camera = self._camera
        return self._record(camera, camera.take(steps, several))

    def look(self, step: int) -> tuple[Probe, Trace]:
        """Probe and trace of the newest frame, that of `step`, which is taken now if it is not there yet."""
        camera = self._camera
        if camera.latest is None or camera.latest[0] != step:
            self._record(camera, camera.take([step]))
        assert camera.latest
        return camera.probe, camera.latest[1]

    def forget_look(self) -> None:
        """Forget the trace of the newest frame: the run goes on from elsewhere."""
        self._camera.latest = None

    def _record(self, camera: Camera, taken: list[tuple[Frame, dict[str, float]]]) -> list[dict[str, float]]:
        with self._lock:
            if camera is self._camera:  # else another probe was chosen meanwhile
                self._frames.put(frame for frame, _ in taken)
        return [figures for _, figures in taken]

    def record_key(self, key: KeyFrame) -> None:
        """Add a key frame, later than all others."""
        with self._lock:
            self.keys.add(key)

    def show(self, probe: Probe, step: int) -> None:
        """Record another probe from `step`, the newest one, on; frames of the old probe are forgotten."""
        if probe == self.probe:
            self.record([step])
            return
        camera = Camera(self.model, probe)
        self._turn_to(camera, [frame for frame, _ in camera.take([step])])

    def rerender(self, probe: Probe) -> Iterator[float]:
        """Take a frame of a probe at each key frame and yield the share done; then the film shows that probe.

        Raises:
            ValueError: yet another probe was chosen meanwhile.
        """
        before = self.probe
        past = Camera(alone(self.model), probe)
        keys, frames = self.key_frames, []
        for number, key in enumerate(keys, start=1):
            key.load(past.model.network)
            frames += [frame for frame, _ in past.take([key.step])]
            yield number / len(keys)
        with self._lock:
            if self.probe not in (before, probe):
                raise ValueError("another probe was chosen while the film was rendered again: render it for that one")
            if self.probe == probe:
                self._frames.put(frames)
                self.edition = next(_editions)
            else:
                camera = Camera(self.model, probe)
                camera.slots = past.slots
                self._turn_to(camera, frames)

    def _turn_to(self, camera: Camera, frames: list[Frame]) -> None:
        """Change camera and frames at once, so that readers see either the old probe or the new one."""
        with self._lock:
            self._camera, self._frames = camera, Thinned(self._frames.budget)
            self._frames.put(frames)
            self.edition = next(_editions)

    def attention(self, kind: AttentionKind, after: int = -1) -> UInt8[Array, "frame layer head query key"]:
        """Attention weights, as 0 to 255, in all frames of steps later than `after`.

        Raises:
            ValueError: the model has no such attention.
        """
        if kind not in self._camera.slots:
            raise ValueError(f"{self.model.name} has no {kind} attention: it has {', '.join(self.kinds)}")
        return self.series(kind, after)

    @property
    def kinds(self) -> list[AttentionKind]:
        """Attention kinds that the film has."""
        return [kind for kind in KINDS if kind in self._camera.slots]

    def series(self, name: str, after: int = -1) -> Array:
        """Quantity (frame, …) in all frames of steps later than `after`, as it is kept."""
        with self._lock:
            slot = self._camera.slots[name]
            return slot.read(self._frames.since(after))

    def cut(self, step: int) -> None:
        """Forget frames and key frames later than `step`."""
        with self._lock:
            self._frames.cut(step)
            self.keys.cut(step)
            self.edition = next(_editions)

    def until(self, step: int, run: int, **budgets: int) -> Film:
        """Film of another run that begins like this one: the frames and key frames up to `step`."""
        film = Film(self.model, self.probe, **budgets)
        with self._lock:
            film._camera.slots = self._camera.slots
            film._frames.put(frame for frame in self._frames if frame.step <= step)
            film.keys.put(dataclasses.replace(key, run=run) for key in self.keys if key.step <= step)
        return film

    def shrink(self, share: float) -> None:
        """Reduce the budgets to a share of them."""
        with self._lock:
            self._frames.shrink(int(self._frames.budget * share))
            self.keys.shrink(int(self.keys.budget * share))


@runtime_checkable
class Sized(Protocol):
    """Something kept of a training step, and its size in bytes."""

    @property
    def step(self) -> int: ...

    @property
    def size(self) -> int: ...


def _shapes(frame: Frame) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return frame.weights.shape, frame.values.shape


Item = TypeVar("Item", bound=Sized)


class Thinned(Generic[Item]):
    """Items in order of their steps; the first and the latest are always kept, whatever the budget.

    When the others do not fit into `budget` bytes any more, every second one goes, and from then on only every second
    one comes in. Which ones stay depends on the steps alone.
    """

    def __init__(self, budget: int, every: int = 1, most: int | None = None) -> None:
        """budget: bytes. every: distance in steps between two items as long as all fit. most: number of items."""
        self.budget, self.every, self.most, self.size = budget, every, most, 0
        self._items: list[Item] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __getitem__(self, index: int) -> Item:
        return self._items[index]

    def since(self, step: int) -> list[Item]:
        """Items later than `step`."""
        return self._items[bisect_right(self._items, step, key=lambda item: item.step) :]

    def wants(self, step: int) -> bool:
        """True if an item of this step stays when later ones come."""
        return not self._items or (step % self.every == 0 and step > self._items[-1].step)

    def add(self, item: Item) -> None:
        """Add an item later than all others; the latest so far goes if it was kept only for being the latest."""
        assert not self._items or item.step > self._items[-1].step, (item.step, self._items[-1].step)
        if len(self._items) > 1 and self._items[-1].step % self.every:
            self.size -= self._items.pop().size
        self._items.append(item)
        self.size += item.size
        self._fit()

    def put(self, items: Iterable[Item]) -> None:
        """Add items of any steps; of two of one step the new one stays."""
        for item in items:
            if not self._items or item.step > self._items[-1].step:
                self.add(item)
            else:
                by_step = {other.step: other for other in (*self._items, item)}
                self._keep([by_step[step] for step in sorted(by_step)])
        self._fit()

    def cut(self, step: int) -> None:
        """Forget items later than `step`."""
        self._keep([item for item in self._items if item.step <= step])

    def shrink(self, budget: int) -> None:
        """Reduce the budget to `budget` bytes."""
        self.budget = budget
        self._fit()

    def _fit(self) -> None:
        while len(self._items) > 2 and (self.size > self.budget or (self.most and len(self._items) > self.most)):
            self.every *= 2
            first, *between, latest = self._items
            self._keep([first, *(item for item in between if item.step % self.every == 0), latest])

    def _keep(self, items: list[Item]) -> None:
        self._items, self.size = items, sum(item.size for item in items)
