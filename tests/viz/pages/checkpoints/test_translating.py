"""A file that is translated in a thread of its own: its scores, stopping within a batch, going on, memory, turns."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import sacrebleu

from model.checkpoints.load import open_checkpoint
from model.inference.decoding import Generation
from model.inference.text_model import TextModel
from model.runtime import cancellation, memory
from model.runtime.ledger import Ledger, NoRoomError
from model.training.translation_scores import ROWS
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.viz.small import small_model
from viz.pages.checkpoints import translating
from viz.pages.checkpoints.translating import FileTranslation

REFERENCES = {f"The teacher sees the cat {number}.": [f"老师看见猫{number}。", "猫。"] for number in range(3 * ROWS)}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> TextModel:
    return small_model(tmp_path_factory.mktemp("small") / "small")


@pytest.fixture
def ledger(monkeypatch) -> Ledger:
    """Of a process that has nothing yet and may take 8 GB."""
    made = Ledger(8 * 10**9, lambda: 0, lambda: None)
    monkeypatch.setattr(memory, "ledger", lambda: made)
    return made


def slow(model: TextModel, each: Callable[[int], None], monkeypatch) -> list[int]:
    """Let it call something before each batch; gives how large they were."""
    sizes: list[int] = []

    def generate_batch(texts, **_options):
        each(len(sizes))
        sizes.append(len(texts))
        return [Generation(f"猫{text[-3:]}", [], [], [], []) for text in texts]

    monkeypatch.setattr(model, "generate_batch", generate_batch)
    return sizes


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


def ended(job: FileTranslation) -> FileTranslation:
    assert job.wait(60)
    return job


@pytest.mark.parametrize("beam", [1, 2])
def test_what_it_writes_is_the_models_and_its_scores_are_sacrebleus(small, beam):
    references = dict(list(REFERENCES.items())[:20])
    job = ended(FileTranslation(small, references, beam, "zh"))
    assert not job.errors
    assert not job.cancelled
    expected = [made.text for made in small.generate_batch(list(references), beam=beam)]
    assert [job.written[source] for source in references] == expected
    streams = [[texts[at] for texts in references.values()] for at in range(2)]
    for tokenizer in ("zh", "char"):
        scores = job.scores(tokenizer)
        assert scores is not None
        assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(expected, streams, tokenize=tokenizer).score)
        assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(expected, streams).score)
    chrf = {source: sacrebleu.sentence_chrf(job.written[source], texts).score for source, texts in references.items()}
    assert job.chrf == pytest.approx(chrf)


@pytest.mark.parametrize("kind", ["pegasus", "t5"])
def test_a_model_of_others_translates_too(kind, tmp_path, ledger):
    shutil.copytree(theirs(kind)[1], tmp_path / kind)
    write_tokenizer(tmp_path / kind)
    model = open_checkpoint(tmp_path / kind)
    references = {"the cat sees a dog .": ["die Katze sieht"], "i am a teacher .": ["ich bin Lehrer"]}
    for beam in (1, 2):
        job = ended(FileTranslation(model, references, beam, "13a"))
        assert not job.errors
        expected = [made.text for made in model.generate_batch(list(references), beam=beam)]
        assert [job.written[source] for source in references] == expected


def test_it_is_scored_meanwhile_over_what_is_there_so_far(small, monkeypatch):
    go = threading.Event()
    slow(small, lambda number: number and go.wait(20), monkeypatch)
    job = FileTranslation(small, REFERENCES, 1, "char")
    until(lambda: job.scored)
    scores = job.scores("char")
    assert scores is not None
    assert not job.ended
    written = dict(job.written)
    assert scores.sentences == len(written) == ROWS
    streams = [[REFERENCES[source][at] for source in written] for at in range(2)]
    expected = sacrebleu.corpus_bleu(list(written.values()), streams, tokenize="char").score
    assert scores.bleu == pytest.approx(expected)
    assert job.sentence == f"translated {ROWS} of {3 * ROWS} sentences"
    go.set()
    assert ended(job).scores("char").sentences == 3 * ROWS


def test_stopping_ends_it_within_a_batch_and_going_on_translates_only_the_rest(small, ledger, monkeypatch):
    begun = threading.Event()

    def endless(number: int) -> None:
        while number == 1 and not begun.is_set():  # as decoding does between two steps
            cancellation.check()
            time.sleep(0.01)

    sizes = slow(small, endless, monkeypatch)
    job = FileTranslation(small, REFERENCES, 1, "zh")
    until(lambda: len(job.written) == ROWS)
    assert len(ledger.promises) == 1
    job.cancel()
    ended(job)
    assert job.cancelled
    assert not job.errors
    assert len(job.written) == ROWS
    assert job.scores("zh").sentences == ROWS
    assert ledger.promises == ()
    before = dict(job.written)
    begun.set()
    job.resume(small)
    ended(job)
    assert len(job.written) == 3 * ROWS
    assert before.items() <= job.written.items()
    assert sizes == [ROWS, ROWS, ROWS]
    assert ledger.promises == ()
    job.resume(small)
    assert sum(sizes) == 3 * ROWS, "it had ended by itself: there is nothing to go on with"


def test_the_real_decoding_is_stopped_between_two_tokens(small):
    job = FileTranslation(
        small, {f"{source} {number}": texts for number in range(20) for source, texts in REFERENCES.items()}, 4, "zh"
    )
    until(lambda: job.written)
    job.cancel()
    began = time.monotonic()
    ended(job)
    assert time.monotonic() - began < 10
    assert 0 < len(job.written) < 20 * len(REFERENCES)


def test_a_batch_that_fails_is_told_and_does_not_count(small, monkeypatch):
    def broken(number: int) -> None:
        if number == 0 and not failed:
            failed.append(number)
            raise ValueError("no such token")

    failed: list[int] = []
    slow(small, broken, monkeypatch)
    job = ended(FileTranslation(small, REFERENCES, 1, "zh"))
    assert list(job.errors.values()) == ["no such token"]
    assert job.scores("zh").sentences == len(job.written) == 2 * ROWS


def test_memory_is_promised_before_it_begins_and_refused_where_there_is_none(small, monkeypatch):
    full = Ledger(1000, lambda: 0, lambda: None)
    monkeypatch.setattr(memory, "ledger", lambda: full)
    with pytest.raises(NoRoomError, match="translating a file needs about"):
        FileTranslation(small, REFERENCES, 1, "zh")
    assert full.promises == ()


def test_a_wider_beam_and_longer_sentences_need_more(small):
    short, long = ["a cat"] * 8, ["a cat " * 20] * 8
    needed = [translating.batch_bytes(small, batch, beam) for batch, beam in ((short, 1), (short, 4), (long, 1))]
    assert 0 < needed[0] < needed[1]
    assert needed[0] < needed[2]


def test_the_model_is_let_go_of_at_the_end(small):
    job = ended(FileTranslation(small, dict(list(REFERENCES.items())[:3]), 1, "zh"))
    assert job._model is None


def test_two_files_are_translated_in_turns(small, monkeypatch):
    order: list[str] = []
    first_begun = threading.Event()

    def named(name: str) -> SimpleNamespace:
        def generate_batch(texts, **_options):
            order.append(name)
            if name == "a":
                first_begun.wait(20)
            return [Generation("猫", [], [], [], []) for _ in texts]

        config, tokens, device = small.config, small.source_tokens, small.device
        return SimpleNamespace(generate_batch=generate_batch, config=config, source_tokens=tokens, device=device)

    jobs = [FileTranslation(named("a"), REFERENCES, 1, "char")]
    until(lambda: order)
    jobs.append(FileTranslation(named("b"), REFERENCES, 1, "char"))
    until(lambda: len(translating.TURNS) == 2)
    first_begun.set()
    for job in jobs:
        ended(job)
    assert order[:2] == ["a", "b"]  # who waited comes before the second batch of the first
    assert sorted(order) == ["a"] * 3 + ["b"] * 3
