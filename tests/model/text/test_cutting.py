"""Texts are cut here by known patterns, and elsewhere, with a limit on time, by any other."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from model.runtime.cancellation import SupersededError, watch
from model.runtime.errors import CheckpointError
from model.text import cutting, tokenizer_training
from model.text.cutting import KNOWN, CutterElsewhere, Worker, cutter
from model.text.huggingface.special_tokens import SpecialTokens
from model.text.huggingface.tokenizer import HuggingFaceTokenizer
from model.text.tokenizer import SPECIAL, Tokenizer
from tests.two_threads import elsewhere

SLOW = "(?:a|aa)+c"
LONG = ("a" * 30 + "b") * 106  # each word below the limit of the library itself
TEXTS = ["", "The dog  sees 123 cats.", "的 狗\n\n 7", "a" * 30]


def byte_level(expression: str, kind: str = "split") -> tokenizers.Tokenizer:
    """A tokenizer of bytes that cuts a text by this expression first, or replaces what it fits."""
    names = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = tokenizers.Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    words, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), decoders.ByteLevel()
    if kind == "split":
        inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), words])
    else:
        inner.pre_tokenizer = words
    if kind == "normalizer":
        inner.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(expression), " ")])
    if kind == "decoder":
        inner.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace(Regex(expression), " ")])
    return inner


def published() -> HuggingFaceTokenizer:
    special = SpecialTokens(None, None, None, None, None, frozenset(), ())
    return HuggingFaceTokenizer(byte_level(SLOW), special, len(SPECIAL) + 256)


@pytest.fixture(autouse=True)
def no_other_worker(monkeypatch):
    """No process but those of this test, which have a tenth of the time and end with it."""
    monkeypatch.setattr(Worker, "_alive", alive := set())
    monkeypatch.setattr(cutting, "SECONDS", 0.2)
    monkeypatch.setattr(cutting, "STEP", 0.01)
    yield
    for worker in list(alive):
        worker.stop()


@pytest.mark.parametrize("kind", ["split", "normalizer", "decoder"])
def test_an_unknown_expression_cuts_elsewhere_as_the_library_does_here(kind):
    inner = byte_level("[ab]+c|\\s+$", kind)
    elsewhere = cutter(inner)
    assert isinstance(elsewhere, CutterElsewhere)
    for text in TEXTS:
        (here,) = inner.encode_batch([text])
        found = elsewhere.encode(text)
        assert (found.ids, found.tokens, found.offsets) == (here.ids, here.tokens, here.offsets)
        assert (found.special_tokens_mask, found.type_ids) == (here.special_tokens_mask, here.type_ids)
        assert elsewhere.decode(here.ids) == inner.decode(here.ids)
    pair = elsewhere.encode("a b", "c", frame=True)
    assert pair.ids == inner.encode("a b", "c").ids


def test_known_expressions_are_cut_here_in_time_that_grows_with_the_text():
    letters = random.Random(0)
    text = (
        "".join(letters.choice("ab 1'.\n的") for _ in range(2000)) + " " * 2000 + "a" * 2000 + "1" * 2000 + "'" * 2000
    )
    for expression in KNOWN:
        made = cutter(byte_level(expression))
        assert not isinstance(made, CutterElsewhere)
        assert made.encode(text).ids
    assert not isinstance(cutter(byte_level("abc")), CutterElsewhere)


def test_a_text_that_takes_too_long_is_refused_and_the_next_one_is_cut():
    foreign = published()
    sentence = r"^the regular expressions of this tokenizer take longer than 0\.2 s for this text: "
    worker = foreign._cutter._worker
    with pytest.raises(ValueError, match=sentence):
        foreign.encode(LONG)
    assert worker._process is None
    assert foreign.decode(foreign.encode("a dog").ids) == "a dog"
    process = worker._process
    for refused in (foreign.encode, foreign.ends):
        with pytest.raises(ValueError, match=sentence):
            refused("a" * 2700)  # it is not tried
    assert worker._process is process
    assert foreign.encode("b" * 1600).ids  # as short as before the others were refused
    assert foreign.decode([5] * 5000)  # tokens have a limit of their own
    assert foreign.ends("a dog") == [1, 2, 3, 4, 5]


def test_a_tokenizer_of_ours_that_a_stranger_wrote_is_no_exception():
    ours = Tokenizer(byte_level(SLOW))
    for doing in (ours.encode, ours.ends):
        with pytest.raises(ValueError, match="take longer than"):
            doing(LONG)
    assert ours.decode(ours.encode("a dog").ids) == "a dog"


def test_other_threads_go_on_while_a_long_text_is_decoded_or_cut():
    ours, turns, over = Tokenizer(byte_level("abc")), [0], threading.Event()

    def work():
        while not over.is_set():
            turns[0] += 1

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ids = list(range(4, 100)) * 3000
    for doing in (lambda: ours.decode(ids), lambda: ours.ends("a b " * 30_000)):
        before = turns[0]
        doing()
        assert turns[0] > before + 1000  # a lock that is held leaves it none, or the few of one switch
    over.set()
    thread.join()


def test_a_panic_elsewhere_says_so(monkeypatch):
    made = cutter(byte_level(SLOW))
    monkeypatch.setattr(made._worker, "ask", lambda _wish: {"error": "index out of bounds", "panic": True})
    with pytest.raises(CheckpointError, match="the tokenizer fails at this text: index out of bounds; give another"):
        made.encode("a")


def test_a_worker_that_ends_for_another_reason_begins_again_and_refuses_nothing_later():
    made = cutter(byte_level(SLOW))
    found = made.encode("a dog")
    made._worker._process.kill()
    assert made.encode("a dog") == found
    begun, made._worker._tokenizer = made._worker._tokenizer, "{}\n"
    made._worker.stop()
    with pytest.raises(ValueError, match="has ended twice at this text, as where memory is short"):
        made.encode("a dog")
    made._worker._tokenizer = begun
    assert made.encode("a dog") == found


def test_who_is_superseded_waits_neither_for_others_nor_for_an_answer_nor_for_a_place(monkeypatch):
    monkeypatch.setattr(cutting, "SECONDS", 60)
    monkeypatch.setattr(cutting, "MOST", 1)
    other, made, stale = published(), cutter(byte_level(SLOW)), threading.Event()
    stale.set()
    assert made.encode("a dog").ids
    with watch(threading.Event(), waits=stale), pytest.raises(SupersededError):  # whose computation is finished
        made.encode(LONG)
    assert made._worker._process is None
    assert made.encode("a dog").ids
    with elsewhere(made._worker._lock), watch(stale):  # another thread's wish
        for waiting in (made, other):
            with pytest.raises(SupersededError):
                waiting.encode("a dog")
    assert made._worker._process is not None


def test_tokenizers_have_workers_of_their_own_of_which_the_one_idle_longest_ends(monkeypatch):
    monkeypatch.setattr(cutting, "MOST", 2)
    first, second, third = made = [cutter(byte_level(SLOW)) for _ in range(3)]
    for each in (first, second, first, third):
        assert each.encode("a dog").ids == first.inner.encode("a dog").ids
    assert [each._worker._process is not None for each in made] == [True, False, True]
    with elsewhere(first._worker._lock):  # a slow text of another tokenizer
        assert second.encode("a dog").ids
    assert [each._worker._process is not None for each in made] == [True, True, False]


def test_our_own_tokenizers_cut_here():
    files = sorted((Path(__file__).parents[3] / "checkpoints").glob("*/*tokenizer.json"))
    assert len(files) > 5
    trained = [Tokenizer.read(file) for file in files]
    texts = ["The dog sees\n the cat."] * 2
    trainers = {name: train for name, train in vars(tokenizer_training).items() if name.startswith("train_")}
    assert len(trainers) > 5
    trained += [train(texts) if name.endswith("characters") else train(texts, 50) for name, train in trainers.items()]
    assert not [each for each in trained if isinstance(each._cutter, CutterElsewhere)]
