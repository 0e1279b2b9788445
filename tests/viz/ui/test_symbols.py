"""Symbols of formulas are named where they occur, and only there."""

import re

import pytest

from viz.pages.positions.laboratory import EXPERIMENTS
from viz.pages.residual.norms import FORMULAS
from viz.ui import symbols
from viz.ui.symbols import named_symbols


def latex(*formulas: str) -> list[str]:
    return [each for each, _meaning in named_symbols(formulas)]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (FORMULAS["layer"] + r" + \beta", [r"\mu", r"\sigma", r"\varepsilon", r"\gamma", r"\beta"]),
        (FORMULAS["rms"], [r"\overline{x^2}", r"\varepsilon", r"\gamma"]),
        (r"\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V", ["Q, K", "V", "d_k", "M"]),
        (r"p_i = \frac{e^{z_i/T}}{\sum_j e^{z_j/T}}", ["z", "T"]),
        (r"\mu_{b,p} = \tfrac{1}{d}\sum_c x_{b,p,c}", [r"\mu_{b,p}"]),
    ],
)
def test_the_symbols_of_a_formula_are_named_and_no_others(formula, expected):
    assert latex(formula) == expected


def test_every_pattern_is_one_and_each_experiment_of_positions_has_a_symbol():
    for pattern, *_ in symbols._symbols():
        re.compile(pattern)
    assert all(latex(*experiment.formulas) for experiment in EXPERIMENTS.values())
