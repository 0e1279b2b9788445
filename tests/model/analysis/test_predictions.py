"""Losses, ranks, entropies and saturation against torch's own functions and against sums by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.predictions import UNKNOWN, actual_tokens, entropies, losses, perplexity, ranks, sampled, saturation
from model.inference.decoding import Sampling

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.0, 3.0, 3.0, 1.0], [1.0, 1.0, 1.0, 1.0]])


def test_which_token_each_position_is_asked_for():
    assert actual_tokens("encoder-decoder", [1, 7, 8], 3, None) == [7, 8, 3]
    assert actual_tokens("encoder-decoder", [1, 7, 8], None, None) == [7, 8, UNKNOWN]  # the text was cut
    assert actual_tokens("decoder-only", [1, 7, 8], 3, None) == [7, 8, UNKNOWN]
    assert actual_tokens("encoder-only", [1, 7, 4, 3], 3, 4) == [1, 7, UNKNOWN, 3]


def test_losses_are_the_cross_entropy():
    torch.manual_seed(1)
    logits, actual = 5 * torch.randn(9, 31), torch.randint(31, (9,))
    assert_close(losses(logits, actual), F.cross_entropy(logits, actual, reduction="none"))
    expected = F.cross_entropy(logits.double(), actual)
    assert perplexity(losses(logits, actual)) == pytest.approx(float(expected.exp()), rel=1e-5)
    by_hand = math.log(sum(map(math.exp, (2, 1, 0, -1)))) - 1
    assert float(losses(LOGITS[:1], torch.tensor([1]))) == pytest.approx(by_hand, abs=1e-6)


def test_an_unknown_token_has_no_loss_and_counts_in_no_mean():
    found = losses(LOGITS, torch.tensor([0, UNKNOWN, 2]))
    assert found.isnan().tolist() == [False, True, False]
    known = F.cross_entropy(LOGITS[[0, 2]], torch.tensor([0, 2]))
    assert perplexity(found) == pytest.approx(float(known.exp()))
    assert math.isnan(perplexity(losses(LOGITS[:1], torch.tensor([UNKNOWN]))))
    missing = torch.full((1, 4), torch.nan)
    assert losses(missing, torch.tensor([2])).isnan().all()
    assert ranks(missing, torch.tensor([2])).isnan().all()


def test_a_rank_is_the_place_in_the_order_and_ties_share_it():
    assert ranks(LOGITS, torch.tensor([1, 2, 3])).tolist() == [2, 1, 1]
    assert ranks(LOGITS, torch.tensor([3, 3, UNKNOWN]))[:2].tolist() == [4, 3]
    order = LOGITS[0].argsort(descending=True).tolist()
    assert [int(ranks(LOGITS[:1], torch.tensor([token]))) for token in order] == [1, 2, 3, 4]


def test_entropy_is_that_of_torchs_distribution():
    assert_close(entropies(LOGITS), torch.distributions.Categorical(logits=LOGITS).entropy())
    assert float(entropies(LOGITS[2])) == pytest.approx(math.log(4))


def test_sampling_is_applied_to_the_logits_that_are_there():
    found = sampled(LOGITS[0].flip(0), Sampling(temperature=0.5, top_k=2))
    assert found.tokens.tolist() == [3, 2, 1, 0]
    assert_close(found.before, LOGITS[0].softmax(dim=-1))
    first = 1 / (1 + math.exp(-2))  # two tokens whose logits, 1 apart, are divided by 0.5
    assert found.after.tolist() == pytest.approx([first, 1 - first, 0, 0])
    assert found.left == 2
    assert found.kept == pytest.approx(float(LOGITS[0].softmax(dim=-1)[:2].sum()))
    everything = sampled(LOGITS[0], Sampling())
    assert (everything.left, everything.kept) == (4, pytest.approx(1))
    assert_close(everything.after, everything.before)


def test_top_p_leaves_the_fewest_tokens_that_reach_it():
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    assert [sampled(probabilities.log(), Sampling(top_p=p)).left for p in (0.4, 0.5, 0.6, 0.9, 1.0)] == [1, 1, 2, 3, 4]


def test_saturation_is_that_of_the_softmaxs_jacobian():
    temperatures = [0.05, 0.5, 1.0, 4.0]
    found = saturation(LOGITS[0], temperatures)
    for index, temperature in enumerate(temperatures):
        z = LOGITS[0].double() / temperature
        jacobian = torch.autograd.functional.jacobian(lambda each: each.softmax(dim=-1), z)
        assert float(found.derivative[index]) == pytest.approx(float(jacobian.norm()), abs=1e-7)
        assert float(found.largest[index]) == pytest.approx(float(z.softmax(dim=-1).max()))
        entropy = torch.distributions.Categorical(logits=z).entropy()
        assert float(found.entropy[index]) == pytest.approx(float(entropy) / math.log(4))
    assert found.largest[0] > 0.999
    assert found.derivative[0] < 1e-6
