"""Numbers and names on the screen."""

import math
from types import SimpleNamespace
from typing import get_args

import pytest
import torch

from model.masks import Mask
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

    def said(kind: str, causal: bool, target: tuple[str, ...] = ("a",)) -> str:
        given = {"target_tokens": target, "attention_paths": lambda _kind: ["path"]}
        return attention_sentence(SimpleNamespace(mask=lambda _path: Mask(causal=causal), **given), kind, 0)

    sentences = [said(kind, kind == "decoder") for kind in kinds] + [said("decoder", False)]
    sentences += [said("decoder", True, ()), said("encoder", False, ())]
    assert sentences[-1] == said("decoder", False, ())
    names = [attention_name(kind) for kind in kinds] + sentences
    assert len(set(names)) == 2 * len(kinds) + 3 == 9
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


@pytest.mark.parametrize("name", [attention_name, check_name, check_explanation])
def test_a_name_that_is_unknown_is_an_error(name):
    with pytest.raises(KeyError):
        name("no such thing")
