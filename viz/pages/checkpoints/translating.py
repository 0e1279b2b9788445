"""A file of pairs, translated batch by batch as a job, and scored as far as it has come."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from model.message import Message
from viz.jobs import TableJob, TableTask, Turns

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.runtime.ledger import Reservation
    from model.training.translation_scores import Scores

SCORED = 3.0  # seconds between two scores of what is translated so far
SHARE = 10  # of the time, one part is for scores
TURNS = Turns()  # several files have a batch each in turn


class FileTranslation(TableJob):
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
        size = max(batch_bytes(model, batch, beam) for batch in batches)
        tasks = [TableTask(batch[0], len(batch), partial(self._translate, batch)) for batch in batches]
        super().__init__(tasks, promise=partial(promise, size) if model.device.type == "cpu" else lambda: None)

    def resume(self, model: TextModel) -> None:
        """Go on with what is left. model: the one that it was begun with.

        Raises:
            NoRoomError: memory has no room for a batch.
        """
        if self.status == "cancelled":
            self._model = model
            try:
                self.start()
            except ValueError:
                self._model = None
                raise

    @property
    def sentence(self) -> Message:
        return Message(
            "translated {done:,} of {count:,} sentence",
            plural="translated {done:,} of {count:,} sentences",
            done=self.done,
            count=self.total,
        )

    def scores(self, tokenizer: str) -> Scores | None:
        """Scores of all that is translated; while it goes on, the newest that there are. None where nothing is."""
        written, scored = self.written, self.scored
        if scored and scored[0] == tokenizer and (not self.ended or scored[1].sentences == len(written)):
            return scored[1]
        if not written:
            return None
        from model.training.translation_scores import score

        value: Scores = self.remember(
            (tokenizer, len(written) if self.ended else 0), lambda: score(written, self.references, tokenizer)
        )
        return value

    def compute(self) -> None:
        from model.runtime.device import compute_alone

        compute_alone()
        super().compute()

    def release(self) -> None:
        from model.runtime.device import give_back_memory

        self._model = None
        give_back_memory()
        if self.written:
            self._score()

    def _translate(self, batch: Sequence[str]) -> None:
        from model.training.translation_scores import sentence_chrf

        model = self._model
        assert model is not None
        with TURNS.turn(self):
            generations = model.generate_batch(batch, beam=self.beam)
        self.cut += sum(bool(model.source_tokens(source).left_out) for source in batch)
        stops = model.target_tokenizer.stops
        self.unended += sum(stops.isdisjoint(generation.ids[-1:]) for generation in generations)
        translations = {source: generation.text for source, generation in zip(batch, generations, strict=True)}
        self.chrf = self.chrf | sentence_chrf(translations, self.references)
        self.written = self.written | translations  # another thread may read what was there before
        if time.monotonic() >= self._score_again:
            self._score()

    def _score(self) -> None:
        from model.training.translation_scores import score

        began, tokenizer = time.monotonic(), self.tokenizer
        self.scored = tokenizer, score(self.written, self.references, tokenizer)
        now = time.monotonic()
        self._score_again = now + max(SCORED, SHARE * (now - began))


def promise(size: int) -> Reservation:
    """Reservation of a batch's main memory, until the end."""
    from model.runtime.memory import ledger

    return ledger().reserve("translating a file", size)


def batch_bytes(model: TextModel, batch: Sequence[str], beam: int) -> int:
    """Bytes of main memory that a batch takes, about: keys and values, logits, and the tensors of a layer."""
    from model.network.costs import costs

    config, rows = model.config, len(batch)
    source = len(model.source_tokens(max(batch, key=len)).ids)
    target = min(config.max_length, 2 * source + 16)
    read = costs(config, rows, source, 1, rows).memory["activations"] // max(1, config.n_encoder_layers)
    cache = 2 * costs(config, rows * beam, source, target, rows * beam).memory["cache"]  # it grows by doubling
    return read + cache + 4 * 3 * rows * beam * config.vocabulary
