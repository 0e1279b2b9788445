"""Texts are cut here by known patterns, and elsewhere, with a limit on time, by any other."""

from __future__ import annotations

import random
import threading

import pytest
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from model.runtime.errors import CheckpointError
from model.text import cutting
from model.text.cutting import KNOWN, CutterElsewhere, Worker, cutter
from model.text.huggingface.special_tokens import SpecialTokens
from model.text.huggingface.tokenizer import HuggingFaceTokenizer
from model.text.tokenizer import SPECIAL, Tokenizer

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


@pytest.fixture
def own_worker(monkeypatch):
    """A worker of this test, with a tenth of the time."""
    made = Worker()
    monkeypatch.setattr(cutting, "worker", lambda: made)
    monkeypatch.setattr(cutting, "SECONDS", 0.2)
    yield made
    made.stop()


@pytest.mark.parametrize("kind", ["split", "normalizer", "decoder"])
def test_an_unknown_expression_cuts_elsewhere_as_the_library_does_here(kind, own_worker):
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


def test_a_text_that_takes_too_long_is_refused_and_the_next_one_is_cut(own_worker):
    inner = byte_level(SLOW)
    foreign = HuggingFaceTokenizer(
        inner, SpecialTokens(None, None, None, None, None, frozenset(), ()), len(SPECIAL) + 256
    )
    sentence = (
        r"^the regular expressions of this tokenizer take longer than 0\.2 s, or too much memory, for this text: "
    )
    with pytest.raises(ValueError, match=sentence):
        foreign.encode(LONG)
    assert own_worker._process is None
    assert foreign.decode(foreign.encode("a dog").ids) == "a dog"
    process = own_worker._process
    for refused in (foreign.encode, foreign.ends):
        with pytest.raises(ValueError, match=sentence):
            refused("a" * 1700)  # it is not tried
    assert own_worker._process is process
    assert foreign.ends("a dog") == [1, 2, 3, 4, 5]


def test_a_tokenizer_of_ours_that_a_stranger_wrote_is_no_exception(own_worker):
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


def test_a_panic_elsewhere_says_so(own_worker, monkeypatch):
    made = cutter(byte_level(SLOW))
    monkeypatch.setattr(own_worker, "ask", lambda _wish, _load: {"error": "index out of bounds", "panic": True})
    with pytest.raises(CheckpointError, match="the tokenizer fails at this text: index out of bounds; give another"):
        made.encode("a")
