"""Datasets that are kept: made once of the same data with the same tokenizers, for as long as there is room."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from model.data.datasets import Dataset
from model.data.sources import TrainingData
from model.runtime.ledger import Ledger, NoRoomError, Reservation
from model.runtime.locks import Lock
from model.runtime.memory import ledger
from model.runtime.once import once

BUDGET = 64 << 20  # bytes of all that is kept, about
PAIR, LETTER = 256, 4  # bytes of a pair, and of a letter of a text, about

Corpora = tuple[Dataset, Dataset]  # for training and for validation


@dataclass(eq=False)
class Entry:
    """Datasets and what they were made of: equal texts, the very tokenizers. size: bytes, 0 until they are there."""

    made_of: tuple[object, ...]
    corpora: Future[Corpora] = field(default_factory=Future)
    promise: Reservation | None = None
    size: int = 0


class PreparedData:
    """Datasets of the materials that were trained on last, for any thread; what does not fit is made and not kept.

    A material without `data` is not kept: what it was made of is unknown.
    """

    def __init__(self, budget: int = BUDGET, memory: Ledger | None = None) -> None:
        """budget: bytes, about. memory: ledger in which they are counted; None: the process's."""
        self.budget, self._memory = budget, memory
        self._entries: list[Entry] = []  # the latest used last
        self._lock = Lock("prepared data")

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Bytes of all datasets that are kept, about."""
        with self._lock:
            return sum(entry.size for entry in self._entries)

    def corpora(self, material: TrainingData, max_length: int, bpe_dropout: float) -> Corpora:
        """`material.corpora`, made once. Whoever asks meanwhile waits for the first.

        Raises:
            ValueError: see `material.corpora`.
        """
        if material.data is None:
            return material.corpora(max_length, bpe_dropout)
        made_of = (type(material), material.tokenizers, max_length, bpe_dropout, material.data)
        with self._lock:
            match = next((entry for entry in self._entries if entry.made_of == made_of), None)
            entry = match or Entry(made_of)
            if match:
                self._entries.remove(match)
            self._entries.append(entry)
        if not match:
            self._make(entry, material, max_length, bpe_dropout)
        return entry.corpora.result()

    def _make(self, entry: Entry, material: TrainingData, max_length: int, bpe_dropout: float) -> None:
        try:
            corpora = material.corpora(max_length, bpe_dropout)
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result raises it
            self._drop(entry)
            entry.corpora.set_exception(error)
            return
        entry.corpora.set_result(corpora)
        data = material.data
        texts = PAIR * len(data.pairs) + LETTER * len(data.text) if data else 0
        self._keep(entry, texts + sum(dataset.size for dataset in corpora))

    def _keep(self, entry: Entry, size: int) -> None:
        """Have an entry stay, in the place of those that were used longest ago; it goes where there is no room."""
        try:
            if size > self.budget:
                raise NoRoomError
            entry.promise = (self._memory or ledger()).reserve("the prepared data", size)
        except NoRoomError:
            self._drop(entry)
            return
        entry.promise.realised = lambda: size
        entry.size = size
        while (oldest := self._oldest_beyond_budget()) is not None:
            self._drop(oldest)

    def _oldest_beyond_budget(self) -> Entry | None:
        """Entry that was used longest ago, where all together are too large: seen in one step, for others drop too."""
        with self._lock:
            entries = [entry for entry in self._entries if entry.size]
            return entries[0] if sum(entry.size for entry in entries) > self.budget else None

    def _drop(self, entry: Entry) -> None:
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
        if entry.promise:
            entry.promise.release()


@once
def prepared() -> PreparedData:
    """Prepared datasets of this process."""
    return PreparedData()
