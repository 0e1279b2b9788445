"""A file of pairs, translated batch by batch in a thread of its own, and scored as far as it has come."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from model.runtime import superseded
from model.runtime.locks import condition
from viz.i18n.catalogue import _
from viz.i18n.format import clock
from viz.ui.background import Filling

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.runtime.ledger import Reservation
    from model.training.translation_scores import Scores

SCORED = 3.0  # seconds between two scores of what is translated so far
SHARE = 10  # of the time, one part is for scores
POLLED = 0.2  # seconds between two looks whether who waits for its turn still wants it


class Turns:
    """One at a time, in the order in which they came: several files that are translated have a batch each in turn."""

    def __init__(self) -> None:
        self._waiting: deque[object] = deque()
        self._changed = condition("file turns")

    @contextmanager
    def taken(self, stopped: threading.Event) -> Iterator[None]:
        """A block that nobody else computes beside.

        Raises:
            SupersededError: it is not wanted any more before it is its turn.
        """
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
        try:
            with self._changed:
                while self._waiting[0] is not ticket:
                    if stopped.is_set():
                        raise superseded.SupersededError
                    self._changed.wait(POLLED)
            yield
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()


TURNS = Turns()


class FileTranslation(Filling):
    """Translations of the sources of a file, as far as they are there.

    model: is let go of at the end. of: what it was begun with, which tells it from another. tokenizer: of BLEU, in the
    scores that are made meanwhile. written: text by its source. cut: number of sources that are longer than the model
    reads. unended: number of texts that did not end before the most tokens. chrf: of each text alone. scored: the
    newest scores, and the tokenizer that they were made with.

    Raises:
        NoRoomError: memory has no room for a batch.
    """

    def __init__(
        self, model: TextModel, references: Mapping[str, Sequence[str]], beam: int, tokenizer: str, of: Hashable = None
    ) -> None:
        from model.training.translation_scores import batches_of

        self.references, self.beam, self.tokenizer, self.of = references, beam, tokenizer, of
        self.written: dict[str, str] = {}
        self.cut = self.unended = 0
        self.longest = model.config.max_length
        self.chrf: dict[str, float] = {}
        self.scored: tuple[str, Scores] | None = None
        self._model: TextModel | None = model
        self._score_again = 0.0
        batches = batches_of(list(references), beam)
        self._bytes = max(batch_bytes(model, batch, beam) for batch in batches)
        self._reservation = self._reserve(model)
        super().__init__([(batch[0], len(batch), partial(self._translate, batch)) for batch in batches])

    def resume(self, model: TextModel) -> None:
        """Go on with what is left. model: the one that it was begun with.

        Raises:
            NoRoomError: memory has no room for a batch.
        """
        if self.stopped and self.finished:
            self._model, self._reservation = model, self._reserve(model)
            self.go_on()

    def words(self, left: float | None) -> str:
        done, count = f"{self._done:,}", f"{self._total:,}"
        if left is None:
            return _("translated {done} of {all} sentences").format(done=done, all=count)
        sentence = _("translated {done} of {all} sentences · {time} left")
        return sentence.format(done=done, all=count, time=clock(max(1, left)))

    def scores(self, tokenizer: str) -> Scores | None:
        """Of all that is translated; while it goes on, the newest that there are. None where nothing is."""
        written, scored = self.written, self.scored
        if scored and scored[0] == tokenizer and (not self.finished or scored[1].sentences == len(written)):
            return scored[1]
        if not written:
            return None
        from model.training.translation_scores import score

        made: Scores = self.remember(
            (tokenizer, len(written) if self.finished else 0), lambda: score(written, self.references, tokenizer)
        )
        return made

    def _reserve(self, model: TextModel) -> Reservation | None:
        """What a batch takes of main memory, promised until the end."""
        from model.runtime.memory import ledger

        return ledger().reserve("translating a file", self._bytes) if model.device.type == "cpu" else None

    def _work(self) -> None:
        from model.runtime.device import compute_alone, give_back_memory

        compute_alone()
        try:
            super()._work()
            if self.written:
                self._score()
        finally:
            self._model = None
            if self._reservation is not None:
                self._reservation.release()
            give_back_memory()

    def _translate(self, batch: Sequence[str]) -> None:
        from model.training.translation_scores import sentence_chrf

        model = self._model
        assert model is not None
        with TURNS.taken(self._stopped):
            generations = model.generate_batch(batch, beam=self.beam)
        self.cut += sum(bool(model.source_tokens(source).left_out) for source in batch)
        stops = model.target_tokenizer.stops
        self.unended += sum(stops.isdisjoint(generation.ids[-1:]) for generation in generations)
        made = {source: generation.text for source, generation in zip(batch, generations, strict=True)}
        self.chrf = self.chrf | sentence_chrf(made, self.references)
        self.written = self.written | made  # another thread may read what was there before
        if time.monotonic() >= self._score_again:
            self._score()

    def _score(self) -> None:
        from model.training.translation_scores import score

        began, tokenizer = time.monotonic(), self.tokenizer
        self.scored = tokenizer, score(self.written, self.references, tokenizer)
        now = time.monotonic()
        self._score_again = now + max(SCORED, SHARE * (now - began))


def batch_bytes(model: TextModel, batch: Sequence[str], beam: int) -> int:
    """Bytes of main memory that a batch takes, about: keys and values, logits, and the tensors of a layer."""
    from model.network.costs import costs

    config, rows = model.config, len(batch)
    source = len(model.source_tokens(max(batch, key=len)).ids)
    target = min(config.max_length, 2 * source + 16)
    read = costs(config, rows, source, 1, rows).memory["activations"] // max(1, config.n_encoder_layers)
    cache = 2 * costs(config, rows * beam, source, target, rows * beam).memory["cache"]  # it grows by doubling
    return read + cache + 4 * 3 * rows * beam * config.vocabulary
