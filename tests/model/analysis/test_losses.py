"""The loss of each token against torch's cross-entropy and against passes made one by one."""

import math

import pytest
import torch
from torch.testing import assert_close

from model.analysis.predictions import perplexity, text_losses, token_losses
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.text.tokenizer import MASK
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.small import small_model


def one(kind, folder):
    made = TOKENIZERS[kind]
    save_checkpoint(folder, one_stack(kind, vocabulary=len(made)), (made, made))
    return open_checkpoint(folder)


def test_token_losses_are_cross_entropies():
    logits, labels = torch.randn(5, 9), [3, 0, -1, 8, 8]
    losses = token_losses(logits, labels)
    expected = torch.nn.functional.cross_entropy(logits.double(), torch.tensor(labels).clamp(min=0), reduction="none")
    assert losses[2].isnan()
    kept = [0, 1, 3, 4]
    assert_close(losses[kept], expected[kept])
    assert perplexity(losses) == pytest.approx(math.exp(float(expected[kept].mean())))
    assert math.isnan(perplexity(token_losses(logits[:1], [-1])))
    assert perplexity(token_losses(torch.tensor([[1e4, 0.0]]), [1])) == math.inf


def test_a_translator_is_measured_on_the_target_and_its_end(tmp_path):
    model = small_model(tmp_path / "a")
    source, target = (
        model.source_tokens("The cat sees the dog."),
        model.target_tokens(model.target_tokenizer.label(6) * 3),
    )
    trace = model.trace_tokens(source, target)
    labels = torch.tensor([*target.ids[1:], model.target_tokenizer.end])
    expected = torch.nn.functional.cross_entropy(trace["output.logits"], labels, reduction="none")
    assert_close(text_losses(model, trace, source, target), expected.double(), atol=1e-5, rtol=0)


def test_a_language_model_is_measured_on_the_next_token(tmp_path):
    model = one("decoder-only", tmp_path / "a")
    source = model.source_tokens("The cat")
    trace = model.trace("The cat")
    losses = text_losses(model, trace, source)
    expected = torch.nn.functional.cross_entropy(
        trace["output.logits"][:-1], torch.tensor(source.ids[1:]), reduction="none"
    )
    assert_close(losses[:-1], expected.double(), atol=1e-5, rtol=0)
    assert losses[-1].isnan()


def test_a_masked_model_is_measured_on_each_token_hidden_alone(tmp_path):
    model = one("encoder-only", tmp_path / "a")
    text = f"The cat {MASK} the dog."
    source = model.source_tokens(text)
    losses = text_losses(model, model.trace(text), source)
    tokenizer = model.source_tokenizer
    for place, token in enumerate(source.ids):
        if token in tokenizer.special:
            assert losses[place].isnan()
            continue
        hidden = torch.tensor([[*source.ids[:place], tokenizer.mask, *source.ids[place + 1 :]]])
        with torch.inference_mode():
            expected = torch.nn.functional.cross_entropy(model.network(hidden)[0, place][None], torch.tensor([token]))
        assert float(losses[place]) == pytest.approx(float(expected), abs=1e-5)


def test_a_text_of_nothing_has_no_loss(tmp_path):
    model = one("encoder-only", tmp_path / "a")
    assert text_losses(model, model.trace(""), model.source_tokens("")).isnan().all()
