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


def whole(model, changes, count: int) -> tuple[list[int], list[float]]:
    """Greedy writing by nothing but whole passes: the most probable token after the last, again and again."""
    source, ids, values = model.source_tokens(PAIRS[0].target if model.kind == "decoder-only" else TEXT).ids, [], []
    two = model.kind == "encoder-decoder"
    begun = model.target_tokenizer.margins("target")[0] if two else source
    for _step in range(count):
        target = torch.tensor([[*begun, *ids]])
        with torch.inference_mode(), intervening(model.network, changes):
            logits = model.network(torch.tensor([source]), target) if two else model.network(target)
        value, token = logits[0, -1].float().log_softmax(dim=-1).max(dim=-1)
        ids.append(int(token))
        values.append(float(value))
    return ids, values


def check(model, change) -> list[int]:
    text = PAIRS[0].target if model.kind == "decoder-only" else TEXT
    with intervening(model.network, [change]):
        made = model.generate(text, length=8)
    ids, values = whole(model, [change], len(made.ids))
    assert made.ids == ids
    assert_close(torch.tensor(made.log_probabilities), torch.tensor(values), rtol=0, atol=1e-5)
    return ids


@pytest.mark.parametrize(("change", "ahead"), [*DECODER, *OTHERS])
def test_a_translation_is_that_of_whole_changed_passes(change, ahead):
    model = translator()
    check(model, change)
    with intervening(model.network, [change]):
        assert looks_ahead(model.network) is ahead
    assert not looks_ahead(model.network)


@pytest.mark.parametrize("options", [{}, {"position": "rotary", "n_key_value_heads": 1}, {"position": "alibi"}])
@pytest.mark.parametrize("change", [change for change, _ahead in DECODER])
def test_a_continuation_is_that_of_whole_changed_passes(change, options):
    check(language_model(**options), change)


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
    begun = [*model.target_tokenizer.margins("target")[0]]
    source = torch.tensor([model.source_tokens(TEXT).ids])
    for index in path:
        node = tree.nodes[index]
        with torch.inference_mode(), intervening(model.network, [change]):
            logits = model.network(source, torch.tensor([begun]))[0, -1]
        assert node.log_probability == pytest.approx(float(logits.float().log_softmax(dim=-1)[node.token]), abs=1e-5)
        begun.append(node.token)


def test_drawing_and_a_draft_follow_the_changed_model():
    model, change = language_model(), Causal("decoder", False)
    with intervening(model.network, [change]):
        made = model.generate(PAIRS[0].target, sampling=Sampling(seed=1), length=6)
        begun = list(model.source_tokens(PAIRS[0].target).ids)
        for token, value in zip(made.ids, made.log_probabilities, strict=True):
            with torch.inference_mode():
                logits = model.network(torch.tensor([begun]))[0, -1]
            assert value == pytest.approx(float(logits.float().log_softmax(dim=-1)[token]), abs=1e-5)
            begun.append(token)
    other = translator()
    with intervening(other.network, [change]):
        source = other.source_tokens(TEXT)
        written = other.trace_generated(source)[2]
        assert other.trace_generated(source, written)[2].ids == written.ids
