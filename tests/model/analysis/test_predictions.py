"""Losses, ranks, entropies and saturation against torch's own functions, sums by hand and passes made one by one."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis import predictions
from model.analysis.predictions import UNKNOWN
from model.inference.decoding import Sampling
from model.text.tokenizer import MASK
from tests.model.elsewhere import model_of

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 3.0, 3.0, 1.0], [1.0, 1.0, 1.0, 1.0]])


def test_which_token_each_position_is_asked_for():
    assert predictions.actual_tokens("encoder-decoder", [1, 7, 8], 3, None) == [7, 8, 3]
    assert predictions.actual_tokens("encoder-decoder", [1, 7, 8], None, None) == [7, 8, UNKNOWN]  # the text was cut
    assert predictions.actual_tokens("decoder-only", [1, 7, 8], 3, None) == [7, 8, UNKNOWN]
    assert predictions.actual_tokens("encoder-only", [1, 7, 4, 3], 3, 4) == [1, 7, UNKNOWN, 3]


def test_losses_are_the_cross_entropy_and_an_unknown_token_has_none():
    logits, actual = 5 * torch.randn(9, 31), torch.randint(31, (9,))
    assert_close(predictions.losses(logits, actual), F.cross_entropy(logits, actual, reduction="none"))
    actual[[2, 5]] = UNKNOWN
    known = actual != UNKNOWN
    expected = F.cross_entropy(logits[known].double(), actual[known], reduction="none")
    for values in (predictions.losses(logits, actual), predictions.token_losses(logits, actual.tolist())):
        assert torch.equal(values.isnan(), ~known)
        assert_close(values[known].double(), expected, rtol=1e-5, atol=1e-6)
        assert predictions.perplexity(values) == pytest.approx(float(expected.mean().exp()), rel=1e-5)
        assert math.isnan(predictions.perplexity(values[~known]))
    assert predictions.perplexity(predictions.token_losses(torch.tensor([[1e4, 0.0]]), [1])) == math.inf
    missing = torch.full((1, 4), torch.nan)
    assert predictions.losses(missing, torch.tensor([2])).isnan().all()
    assert predictions.ranks(missing, torch.tensor([2])).isnan().all()


def test_a_rank_is_the_place_in_the_order_and_ties_share_it():
    assert predictions.ranks(LOGITS, torch.tensor([1, 2, 3])).tolist() == [2, 1, 1]
    assert predictions.ranks(LOGITS, torch.tensor([3, 3, UNKNOWN]))[:2].tolist() == [4, 3]
    order = LOGITS[0].argsort(descending=True).tolist()
    assert [int(predictions.ranks(LOGITS[:1], torch.tensor([token]))) for token in order] == [1, 2, 3, 4]


def test_entropy_is_that_of_torchs_distribution():
    assert_close(predictions.entropies(LOGITS), torch.distributions.Categorical(logits=LOGITS).entropy())
    assert float(predictions.entropies(LOGITS[2])) == pytest.approx(math.log(4))


def test_sampling_is_applied_to_the_logits_that_are_there():
    after = predictions.sampled(LOGITS[0].flip(0), Sampling(temperature=0.5, top_k=2))
    assert after.tokens.tolist() == [3, 2, 1, 0]
    assert_close(after.before, LOGITS[0].softmax(dim=-1))
    first = 1 / (1 + math.exp(-2))  # two tokens whose logits, 1 apart, are divided by 0.5
    assert after.after.tolist() == pytest.approx([first, 1 - first, 0, 0])
    assert after.left == 2
    assert after.mass == pytest.approx(float(LOGITS[0].softmax(dim=-1)[:2].sum()))
    everything = predictions.sampled(LOGITS[0], Sampling())
    assert (everything.left, everything.mass) == (4, pytest.approx(1))
    assert_close(everything.after, everything.before)


def test_top_p_leaves_the_fewest_tokens_that_reach_it():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    shares = (0.4, 0.5, 0.6, 0.9, 1.0)
    left = [predictions.sampled(probabilities.log(), Sampling(top_p=share)).left for share in shares]
    assert left == [1, 1, 2, 3, 4]


def test_saturation_is_that_of_the_softmaxs_jacobian():
    temperatures = [0.05, 0.5, 1.0, 4.0]
    curve = predictions.saturation(LOGITS[0], temperatures)
    for index, temperature in enumerate(temperatures):
        z = LOGITS[0].double() / temperature
        jacobian = torch.autograd.functional.jacobian(lambda each: each.softmax(dim=-1), z)
        assert float(curve.derivative[index]) == pytest.approx(float(jacobian.norm()), abs=1e-7)
        assert float(curve.largest[index]) == pytest.approx(float(z.softmax(dim=-1).max()))
        entropy = torch.distributions.Categorical(logits=z).entropy()
        assert float(curve.entropy[index]) == pytest.approx(float(entropy) / math.log(4))


def test_a_translator_is_measured_on_the_target_and_its_end(model):
    source = model.source_tokens("The cat sees the dog.")
    target = model.target_tokens(model.target_tokenizer.label(6) * 3)
    trace = model.trace_tokens(source, target)
    labels = torch.tensor([*target.ids[1:], model.target_tokenizer.end])
    expected = F.cross_entropy(trace["output.logits"], labels, reduction="none")
    assert_close(predictions.text_losses(model, trace, source, target), expected.double(), atol=1e-5, rtol=0)


def test_a_language_model_is_measured_on_the_next_token():
    model = model_of("decoder-only")
    source, trace = model.source_tokens("The cat"), model.trace("The cat")
    values = predictions.text_losses(model, trace, source)
    expected = F.cross_entropy(trace["output.logits"][:-1], torch.tensor(source.ids[1:]), reduction="none")
    assert_close(values[:-1], expected.double(), atol=1e-5, rtol=0)
    assert values[-1].isnan()


def test_a_masked_model_is_measured_on_each_token_hidden_alone():
    model = model_of("encoder-only")
    text, tokenizer = f"The cat {MASK} the dog.", model.source_tokenizer
    source = model.source_tokens(text)
    values = predictions.text_losses(model, model.trace(text), source)
    for place, token in enumerate(source.ids):
        if token in tokenizer.special:
            assert values[place].isnan()
            continue
        hidden = torch.tensor([[*source.ids[:place], tokenizer.mask, *source.ids[place + 1 :]]])
        with torch.inference_mode():
            expected = F.cross_entropy(model.network(hidden)[0, place][None], torch.tensor([token]))
        assert float(values[place]) == pytest.approx(float(expected), abs=1e-5)
    assert predictions.text_losses(model, model.trace(""), model.source_tokens("")).isnan().all()
