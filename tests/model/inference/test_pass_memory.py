"""The memory of a trace is promised before its pass runs, about as much as it will have, until it is gone."""

from __future__ import annotations

import gc

import pytest
import torch

from model.inference import pass_memory
from model.inference.models import MODEL_CLASSES
from model.network.costs import recorded
from model.network.transformer import Network
from model.runtime import room
from model.runtime.ledger import Ledger, NoRoomError
from tests.model.examples import network, one_stack, recurrent, sentences, tokenizers, traced

WIDE = {"d_model": 64, "n_heads": 4, "d_ff": 256, "max_length": 512}
ONE_STACK = [
    {},
    {"activation": "swiglu", "norm": "rms", "position": "rotary", "n_key_value_heads": 2},
    {"position": "alibi"},
    {"position": "rotary", "qk_norm": True},
    {"norm_placement": "sandwich"},
    {"output_head": "transform"},
]
NETWORKS = [
    *(pytest.param(lambda options=options: one_stack("decoder-only", **WIDE, **options)) for options in ONE_STACK),
    pytest.param(lambda: one_stack("encoder-only", **WIDE)),
    pytest.param(lambda: network(**WIDE)),
    pytest.param(lambda: recurrent(d_model=64, max_length=512)),
]


@pytest.mark.parametrize("make", NETWORKS)
def test_a_trace_has_about_as_many_numbers_as_are_promised(make):
    made: Network = make()
    source, target = torch.randint(1, 10, (1, 120)), torch.randint(1, 10, (1, 90))
    two = made.config.n_encoder_layers and made.config.n_decoder_layers
    trace = traced(made, ids=(source, target) if two else (source,))
    storages = {each.untyped_storage().data_ptr(): each.nbytes for each in trace._tensors.values()}
    promised = pass_memory.pass_bytes(made, 120, 90 if two else 0)
    assert 0.95 < promised / sum(storages.values()) < 1.25
    assert promised == 4 * recorded(
        made.config, *((120, 90) if two else (120, 0) if made.kind == "encoder-only" else (0, 120))
    )


@pytest.fixture
def book(monkeypatch):
    """A ledger with 1 MB for this process, and passes that ask for little."""
    made = Ledger(1_000_000, lambda: 0, lambda: None)
    monkeypatch.setattr(pass_memory, "SMALL", 1)
    monkeypatch.setattr(pass_memory, "LARGE", 1)
    for module in (pass_memory, room):
        monkeypatch.setattr(module, "ledger", lambda: made)
    return made


def model(kind="encoder-decoder", **options):
    both = tokenizers(sentences(50))
    if kind == "encoder-decoder":
        sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
        return MODEL_CLASSES[kind]("m", network(**(sizes | WIDE | options)), both, {})
    made = one_stack(kind, vocabulary=len(both[0]), **(WIDE | options))
    return MODEL_CLASSES[kind]("m", made, (both[0], both[0]), {})


def test_a_text_that_does_not_fit_is_refused_before_it_is_computed(book, monkeypatch):
    made = model("decoder-only")
    monkeypatch.setattr(made.network, "forward", lambda *_ids: pytest.fail("it is computed"))
    with pytest.raises(NoRoomError, match=r"^the text needs about 0\.\d+ GB, and 0\.001 GB are free of the 0\.001 GB"):
        made.trace("dog " * 200)
    assert book.promises == ()


def test_the_promise_is_the_traces_until_its_last_copy_is_gone(book):
    trace = model("decoder-only").trace("The dog sees the cat.")
    (promise,) = book.promises
    assert promise.size == promise.realised() <= trace.size
    copied = trace.example(0)
    del trace
    gc.collect()
    assert book.promises == (promise,)
    del copied
    gc.collect()
    assert book.promises == ()


def test_what_a_model_writes_is_promised_too_before_it_is_traced(book):
    made = model()
    trace = made.trace("The dog sees the cat.")
    (promise,) = book.promises
    assert len(trace.target_tokens) > 10
    assert promise.size > pass_memory.pass_bytes(made.network, len(trace.source_tokens), 1)
    del trace
    gc.collect()
    book.limit = pass_memory.pass_bytes(made.network, 8, 1) * 3 // 2
    with pytest.raises(NoRoomError):
        made.trace("The dog sees the cat.")
