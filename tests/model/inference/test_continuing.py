"""Going on from a chosen token: the beginning stays as it was typed, the rest is what the whole network would write."""

import pytest
import torch

from tests.model.network.test_kinds import TOKENIZERS, model
from tests.viz.small import small_model

SOURCE = "The cat sees the dog."


def greedily(network, source, ids, end, limit):
    """The target after `ids` by the whole network, without a cache."""
    while len(ids) < limit and (not ids or ids[-1] != end):
        logits = network(torch.tensor([source]), torch.tensor([[2, *ids]]))
        ids = [*ids, int(logits[0, -1].argmax())]
    return ids


@torch.inference_mode()
def test_a_translator_goes_on_from_the_chosen_token(tmp_path):
    translator = small_model(tmp_path / "small", seed=3)
    tokenizer = translator.target_tokenizer
    assert tokenizer.start == 2
    target = translator.generate(SOURCE).text
    ids = tokenizer.encode(target).ids
    other = next(token for token in range(5, 20) if token != ids[2])
    found = translator.continue_from(SOURCE, target, 2, [other])
    source = translator.source_tokens(SOURCE).ids
    limit = min(translator.config.max_length, 2 * len(source) + 16) - 1
    expected = greedily(translator.network, source, [*ids[:2], other], tokenizer.end, limit)
    assert found == tokenizer.decode(expected)
    assert tokenizer.encode(found).ids[:3] == [*ids[:2], other]
    assert translator.continue_from(SOURCE, target, 2, [ids[2]]) == target  # its own choice changes nothing


def test_the_end_ends_the_target_and_what_was_typed_stays(tmp_path):
    translator = small_model(tmp_path / "small")
    label, end = translator.target_tokenizer.label(7), translator.target_tokenizer.end
    assert translator.continue_from(SOURCE, f"🙂{label}🙂{label}", 3, [end]) == f"🙂{label}🙂"
    long = label * 100
    assert translator.continue_from(SOURCE, long, 60, [7]) == label * 61  # there is no room to write more


def test_a_language_models_text_ends_with_the_chosen_tokens(tmp_path):
    writer = model("decoder-only", tmp_path / "one")
    tokenizer = TOKENIZERS["decoder-only"]
    tokens = tokenizer.encode("dog").ids
    assert writer.continue_from("The ☂ cat sees", "", 5, tokens) == "The ☂dog"
    text = "The cat.\n"
    assert writer.continue_from(text, "", len(tokenizer.encode(text)), tokens) == "The cat.\ndog"


def test_a_model_that_fills_in_does_not_write(tmp_path):
    with pytest.raises(ValueError, match="encoder-only: it does not write from left to right"):
        model("encoder-only", tmp_path / "one").continue_from("The cat", "", 1, [5])
