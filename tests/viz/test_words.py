"""Numbers and names on the screen."""

import math
from typing import get_args

import pytest
import torch

from model.trace import AttentionKind, record
from tests.model.examples import network
from viz.i18n import use
from viz.words import attention_name, attention_sentence, check_explanation, check_name, significant


@pytest.fixture(autouse=True)
def english_again():
    yield
    use("en")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.27649, "0.276"),
        (-0.5, "−0.5"),
        (12.345, "12.3"),
        (-1234.5, "−1.23e+3"),
        (4.7683716e-07, "4.77e−7"),
        (1.5e10, "1.5e+10"),
        (-math.inf, "−inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_have_three_significant_digits_and_a_true_minus(value, text):
    assert significant(value) == text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_of_attention_has_a_name_and_a_sentence_of_its_own(language):
    use(language)
    kinds = get_args(AttentionKind)
    names = [attention_name(kind) for kind in kinds] + [attention_sentence(kind) for kind in kinds]
    names += [attention_sentence(kind, two_stacks=False) for kind in ("encoder", "decoder")]
    assert len(set(names)) == 2 * len(kinds) + 2 == 8
    assert all(names)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_check_has_a_name_and_an_explanation_of_its_own(language):
    use(language)
    with torch.inference_mode(), record(network()) as trace:
        trace.model(torch.tensor([[5, 6]]), torch.tensor([[1, 4]]))
    checks = [check.name for check in trace.checks()]
    texts = [check_name(name) for name in checks] + [check_explanation(name) for name in checks]
    assert len(set(texts)) == 2 * len(checks) == 10
    english = all(text.isascii() for text in texts)
    assert english == (language == "en")


@pytest.mark.parametrize("name", [attention_name, attention_sentence, check_name, check_explanation])
def test_a_name_that_is_unknown_is_an_error(name):
    with pytest.raises(KeyError):
        name("no such thing")
