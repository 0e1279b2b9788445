"""The page of masks in words: formulas, papers, the code that ran."""

from __future__ import annotations

from model.attention import Masked, Weights
from model.masks import ChangedMask, Mask
from viz.i18n import _
from viz.parts import explanation


def explain(key: str) -> None:
    """The line "What am I looking at?"."""
    explanation(
        key,
        [
            r"\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right), \quad M_{ij} \in \{0, -\infty\}",
            r"\tfrac12 \sum_j |w_j - w'_j| \qquad \mathrm{KL}(p' \,\|\, p) = \sum p' \ln \frac{p'}{p}",
        ],
        _(
            "Vaswani et al., *Attention Is All You Need*, sections 3.2.3 and 3.1: padding masks in all attentions, "
            "and the causal mask in the decoder. A window is of Beltagy et al., 2020. Filled cells may be looked at, "
            "hatched ones not; framed ones were changed here. The model is changed from outside: every page then shows "
            "the changed model until it is restored. This is the code that has just run:"
        ),
        *(Mask, ChangedMask, Masked, Weights),
    )
