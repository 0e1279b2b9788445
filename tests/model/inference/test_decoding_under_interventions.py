"""Writing under changed masks: token by token from a cache it is what whole passes say, each of the text so far."""

from functools import cache

import pytest
import torch
from torch.testing import assert_close

from model.capture.hooks import looks_ahead
from model.capture.interventions import Causal, Cells, PaddingSeen, RemovedHead, Window, intervening
from model.inference.decoding import Sampling
from model.inference.models import LanguageModel, Translator
from tests.model.examples import network, one_stack, sentences, tokenizers

pytestmark = pytest.mark.unchecked

PAIRS = sentences(20)
TOKENIZERS = tokenizers(PAIRS)
TEXT = PAIRS[0].source
DECODER = [
    (Window("decoder", 2), False),
    (Cells("decoder", False, None, 1), False),
    (Cells("decoder", False, 3, 2, layer=1, head=0), False),
    (Causal("decoder", False), True),
    (Cells("decoder", True, 2, 4), True),
    (Cells("decoder", True, None, 5, layer=0), True),
    (RemovedHead("decoder", 1, 0), False),
]
OTHERS = [
    (Causal("encoder", True), False),
    (Window("encoder", 2), False),
    (Cells("encoder", False, 1, 2), False),
    (PaddingSeen("cross"), False),
    (Cells("cross", False, 2, 1), False),
    (Cells("cross", False, 3, head=1, layer=0), False),
    (Cells("cross", False, None, 2), False),
    (Window("cross", 2), True),
    (Causal("cross", True), True),
    (RemovedHead("encoder", 0, 1), False),
    (RemovedHead("cross", 1, 1), False),
]


@cache
def translator(**options) -> Translator:
    source, target = TOKENIZERS
    transformer = network(source_vocabulary=len(source), target_vocabulary=len(target), max_length=24, **options)
    return Translator("translator", transformer.double().eval(), (source, target), {})


@cache
def language_model(**options) -> LanguageModel:
    target = TOKENIZERS[1]
    transformer = one_stack("decoder-only", target_vocabulary=len(target), max_length=40, **options)
    return LanguageModel("story", transformer.double().eval(), (target, target), {})


def text_of(model) -> str:
    return PAIRS[0].target if model.kind == "decoder-only" else TEXT


def log_probabilities(model, change, ids: list[int]) -> torch.Tensor:
    """Of what may follow `ids`, by a changed pass over all of the text."""
    source, two = model.source_tokens(text_of(model)).ids, model.kind == "encoder-decoder"
    target = torch.tensor([[*(model.target_tokenizer.margins("target")[0] if two else source), *ids]])
    with torch.inference_mode(), intervening(model.network, [change]):
        logits = model.network(torch.tensor([source]), target) if two else model.network(target)
    return logits[0, -1].float().log_softmax(dim=-1)


def check(model, change, greedy: bool = True, **options) -> None:
    """What is written token by token, and how probable each is."""
    with intervening(model.network, [change]):
        made = model.generate(text_of(model), **options)
    for place, (token, value) in enumerate(zip(made.ids, made.log_probabilities, strict=True)):
        expected = log_probabilities(model, change, made.ids[:place])
        assert token == int(expected.argmax()) or not greedy
        assert value == pytest.approx(float(expected[token]), abs=1e-5)


@pytest.mark.parametrize(("change", "ahead"), [*DECODER, *OTHERS])
def test_a_translation_is_that_of_whole_changed_passes(change, ahead):
    model = translator()
    check(model, change, length=8)
    with intervening(model.network, [change]):
        assert looks_ahead(model.network) is ahead
    assert not looks_ahead(model.network)


@pytest.mark.parametrize("options", [{}, {"position": "rotary", "n_key_value_heads": 1}, {"position": "alibi"}])
@pytest.mark.parametrize("change", [change for change, _ahead in DECODER])
def test_a_continuation_is_that_of_whole_changed_passes(change, options):
    check(language_model(**options), change, length=8)


def test_a_written_target_is_changed_as_a_traced_one():
    transformer = one_stack("decoder-only")
    ids = torch.tensor([[5, 6, 7, 3, 9, 2]])
    changes = [Window("decoder", 3), Cells("decoder", False, 5, 4), Cells("decoder", False, 4, 2)]
    with torch.inference_mode(), intervening(transformer, changes):
        context = transformer.read(ids[:, :4], padding=0, start=1)
        steps = [context.log_probabilities(fed)[0, -1] for fed in (ids[:, :4], ids[:, 4:5], ids[:, 5:])]
        whole = transformer(ids)[0].log_softmax(dim=-1)
    assert_close(torch.stack(steps), whole[3:])


def test_the_changes_are_seen_in_what_is_written():
    model = translator()
    plain = model.generate(TEXT, length=8)
    for change in (Cells("cross", False, 2), Causal("decoder", False), Causal("encoder", True)):
        with intervening(model.network, [change]):
            made = model.generate(TEXT, length=8)
        assert made.log_probabilities != plain.log_probabilities
    assert model.generate(TEXT, length=8).ids == plain.ids


@pytest.mark.parametrize("change", [Causal("decoder", False), Cells("cross", False, 1, 0), Window("decoder", 2)])
def test_a_beam_search_keeps_or_reads_again_what_it_must(change):
    model = translator()
    with intervening(model.network, [change]):
        tree = model.generate(TEXT, beam=3, length=6).tree
    path = tree.path(tree.ranked()[1])  # not the greedy one: rows of the beam have changed places
    ids = [tree.nodes[index].token for index in path]
    for place, index in enumerate(path):
        expected = log_probabilities(model, change, ids[:place])[ids[place]]
        assert tree.nodes[index].log_probability == pytest.approx(float(expected), abs=1e-5)


def test_drawing_and_a_draft_follow_the_changed_model():
    change = Causal("decoder", False)
    check(language_model(), change, greedy=False, sampling=Sampling(seed=1), length=6)
    model = translator()
    with intervening(model.network, [change]):
        source = model.source_tokens(TEXT)
        written = model.trace_generated(source)[2]
        assert model.trace_generated(source, [written])[2].ids == written.ids
