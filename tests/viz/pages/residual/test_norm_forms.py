"""The numbers of LayerNorm's forms as they are written."""

from __future__ import annotations

from tests.viz.small import looking
from viz.i18n import catalogue
from viz.pages.residual.norm_forms import digits, form_table

PATH = "encoder.layers.0.self_attention_block.norm"


def test_only_divisors_have_nine_digits_in_every_language(small):
    inputs = looking(small, "The cat", pinned=(small, "The dog", "")).inputs
    for language, divisors in (("en", ["divides by", "divides by, pinned"]), ("zh", ["除数", "除数（已固定）"])):
        with catalogue.speaking(language):
            written = digits(form_table(inputs, PATH, 0, 1e-5))
        assert len(written) == 6
        assert [name for name, form in written.items() if form == "{:.9g}"] == divisors
