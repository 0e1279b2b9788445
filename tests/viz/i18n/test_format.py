"""Numbers and names on the screen."""

import math
import re
from pathlib import Path
from typing import get_args

import pytest
import torch

from model.analysis.checks import checks
from model.capture.interventions import ChangedMask
from model.capture.trace import AttentionKind, record
from model.network.masks import Mask
from tests.model.examples import network
from viz.i18n import format
from viz.i18n.catalogue import use
from viz.i18n.format import (
    attention_name,
    bytes_text,
    check_explanation,
    check_name,
    clauses,
    clock,
    count_text,
    formula_in_language,
    grouped,
    in_turn,
    literal,
    percent,
    significant,
    significant_alike,
)
from viz.i18n.messages import in_language
from viz.i18n.names import attention_reading


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
        (-1234.5, "−1,234"),
        (999.9, "1,000"),
        (1_234_567.0, "1.23×10⁶"),
        (4.7683716e-07, "4.77×10⁻⁷"),
        (1.5e10, "1.5×10¹⁰"),
        (-math.inf, "−inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_have_three_significant_digits_and_a_true_minus(value, text):
    assert significant(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((0.93, 0.4123), ["0.930", "0.412"]),
        ((0.00076, 0.00116), ["0.00076", "0.00116"]),
        ((12.34, -0.5), ["12.3", "−0.5"]),
        ((0.999, 3e-7, 0.0), ["0.999", "3×10⁻⁷", "0"]),
        ((0.9996, 0.1), ["1.00", "0.10"]),
        ((2e-7, 4e-5), ["2×10⁻⁷", "4×10⁻⁵"]),
    ],
)
def test_numbers_of_one_comparison_have_as_many_decimals(values, texts):
    assert significant_alike(*values) == texts


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [(0.63, 1, "63.0 %"), (0.1077, 1, "10.8 %"), (0.0003, 1, "< 0.1 %"), (0, 2, "0 %"), (-0.021, 0, "−2 %")],
)
def test_a_share_has_one_form_and_is_never_torn_from_its_sign(share, decimals, text):
    assert percent(share, decimals) == text.replace(" %", "\u00a0%")


def test_no_share_is_written_in_another_form():
    written = re.compile(r":\.\d%\}")
    assert not [
        path for path in Path(format.__file__).parents[1].rglob("*.py") if written.search(path.read_text("utf-8"))
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0:00"),
        (75, "1:15"),
        (3599, "59:59"),
        (11_850, "3 h 17 min"),
        (172_799, "47 h 59 min"),
        (1.5e9, "17,361 days"),
    ],
)
def test_a_long_time_is_said_in_hours_or_days(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (65_536, "65.5 kB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (999_950_000, "1 GB"),
        (1_999_900_000_000, "2,000 GB"),
    ],
)
def test_a_size_has_no_exponent(count, text):
    assert bytes_text(count) == text


class Masked(dict[str, torch.Tensor]):
    """Of a trace what the sentence asks for, under this mask."""

    def __init__(self, mask: Mask, length: int = 3, one_stack: bool = True) -> None:
        super().__init__({"path.visible": mask.visible(length, length, torch.device("cpu"))[0].any(dim=0)})
        self.target_tokens = [] if one_stack else ["a"] * length

    def attention_paths(self, kind: str) -> list[str]:
        return ["path"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_of_attention_has_a_name_and_a_sentence_of_its_own(language):
    use(language)
    kinds = get_args(AttentionKind)

    def said(kind: str, causal: bool, one_stack: bool = False) -> str:
        return in_language(attention_reading(Masked(Mask(causal=causal), one_stack=one_stack), kind, 0))

    sentences = [said(kind, kind == "decoder") for kind in kinds] + [said("decoder", False)]
    sentences += [said("decoder", True, True), said("encoder", False, True)]
    assert sentences[-1] == said("decoder", False, True)
    names = [attention_name(kind) for kind in kinds] + sentences
    assert len(set(names)) == 2 * len(kinds) + 3 == 9
    assert all(names)


CAUSAL = Mask(causal=True)
BACK, ALL = "each token looks at earlier ones", "each token looks at all of them"


@pytest.mark.parametrize(
    ("kind", "mask", "length", "sentence"),
    [
        ("encoder", CAUSAL, 1, ALL),  # transformers' mask of one token is read as either
        ("decoder", Mask(), 1, BACK),
        ("decoder", Mask(pattern=lambda query, key: (key <= query) & (key != 1)), 3, BACK),
        ("decoder", ChangedMask(original=CAUSAL, causal=True, edits=((None, 0, 2, True),)), 3, ALL),
        ("decoder", ChangedMask(original=CAUSAL, causal=True, edits=((None, 2, 0, False),)), 3, BACK),
    ],
)
def test_the_sentence_says_what_is_to_be_seen_whatever_the_rule_is_called(kind, mask, length, sentence):
    assert attention_reading(Masked(mask, length), kind, 0) == sentence


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_check_has_a_name_and_an_explanation_of_its_own(language):
    use(language)
    with torch.inference_mode(), record(network()) as trace:
        trace.network(torch.tensor([[5, 6]]), torch.tensor([[1, 4]]))
    made = [check.name for check in checks(trace)]
    texts = [check_name(name) for name in made] + [check_explanation(name) for name in made]
    assert len(set(texts)) == 2 * len(made) == 12
    english = all(text.isascii() for text in texts)
    assert english == (language == "en")


@pytest.mark.parametrize("name", [attention_name, check_name, check_explanation])
def test_a_name_that_is_unknown_is_an_error(name):
    with pytest.raises(KeyError):
        name("no such thing")


def test_a_name_does_not_turn_the_sentence_round():
    assert literal("a\u202etp.b was\u2067 not") == "a\\<U+202E>tp.b was\\<U+2067> not"


@pytest.mark.parametrize(("language", "expected"), [("en", "One. Two.; a; b"), ("zh", "One.Two.；a；b")])
def test_sentences_and_their_parts_are_joined_as_the_language_does(language, expected):
    use(language)
    assert clauses([in_turn("One.", "", "Two."), "a", "b"]) == expected


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1 k"),
        (47_712, "47.7 k"),
        (999_499, "999 k"),
        (999_600, "1 M"),
        (5_700_000, "5.7 M"),
        (124_439_808, "124 M"),
        (1_500_000_000, "1.5 G"),
        (1_234_000_000_000, "1,234 G"),
    ],
)
def test_parameters_are_counted_in_three_digits(count, text):
    assert count_text(count) == text


def test_words_of_a_formula_are_translated_and_names_are_not():
    formula = r"M_{ij} = 0 \text{ (filled)}, \quad d_\text{model}, \quad \text{logits}"
    assert formula_in_language(formula) == formula
    use("zh")
    assert formula_in_language(formula) == r"M_{ij} = 0 \text{（实心格）}, \quad d_\text{model}, \quad \text{logits}"


@pytest.mark.parametrize(
    ("value", "written"),
    [(10_000, "10,000"), (1_000_100, "1,000,100"), (1_000_000, "1,000,000"), (0.5, "0.5"), (1e20, "10²⁰")],
)
def test_large_numbers_are_written_whole_with_their_thousands_apart(value, written):
    assert grouped(value) == written
