"""The line "What am I looking at?" of the position laboratory: of each experiment its formula and what computes it."""

from __future__ import annotations

from typing import Any

from model.analysis import positions as analysis
from model.network.positions import alibi_slopes, sinusoidal
from viz.i18n.catalogue import _
from viz.ui.parts import explanation

ENCODING = r"PE_{(p,\,2i)} = \sin\!\left(p / b^{2i/d}\right) \qquad PE_{(p,\,2i+1)} = \cos\!\left(p / b^{2i/d}\right)"
MOVED = (
    r"PE_{p+k} = R_k\,PE_p,\quad R_k = \mathrm{diag}\begin{pmatrix}\cos\omega_i k & \sin\omega_i k\\"
    r"-\sin\omega_i k & \cos\omega_i k\end{pmatrix},\quad \omega_i = b^{-2i/d}"
)
WAVES = r"\lambda_i = 2\pi\,b^{2i/d}"
WRONG = r"PE^{\mathrm{wrong}}_{(p,\,c)} = \sin\text{ or }\cos\!\left(p / b^{2c/d}\right), \quad c = 0, 1, \ldots, d - 1"
ROTARY = r"(R_m q)^\top R_n k = q^\top R_{n-m}\,k, \quad \theta_i = b^{-2i/d_k}"
ALIBI = r"q_i^\top k_j / \sqrt{d_k} - m_h\,|i - j|, \quad m_h = 2^{-8h/n}"
EXPLANATIONS: dict[str, tuple[list[str], list[Any]]] = {
    "curves": ([ENCODING], [sinusoidal]),
    "wavelengths": ([ENCODING, WAVES], [sinusoidal, analysis.wavelengths]),
    "shift": ([ENCODING, MOVED], [sinusoidal, analysis.rotation, analysis.shift_residual, analysis.likeness]),
    "any_length": ([ENCODING], [sinusoidal, analysis.length_difference]),
    "misread": ([ENCODING, WRONG], [sinusoidal, analysis.misread, analysis.misread_wavelengths, analysis.best_shift]),
    "learned": ([ENCODING], [sinusoidal, analysis.best_shift, analysis.shift_residual, analysis.likeness]),
    "relative": ([ROTARY, ALIBI], [analysis.rotary_angles, analysis.rotary_scores, alibi_slopes]),
}


def explain(key: str, experiment: str) -> None:
    formulas, ran = EXPLANATIONS[experiment]
    explanation(
        key,
        formulas,
        _(
            "Vaswani et al., *Attention Is All You Need*, section 3.5, with base b = 10000. Rotary positions: Su et "
            "al., 2021, equation 34; ALiBi: Press et al., 2022, section 3. Every number is computed now in float64 by "
            "this code:"
        ),
        *ran,
    )
