"""Symbols of formulas in words, for whoever meets them for the first time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from viz.i18n.catalogue import _


def named_symbols(formulas: Sequence[str]) -> list[tuple[str, str]]:
    """Symbols that occur in these formulas, in LaTeX, each with its meaning."""
    text = " ".join(formulas)
    return [(latex, meaning) for pattern, latex, meaning in _symbols() if re.search(pattern, text)]


def latex_of(symbol: str) -> str:
    """A symbol as sentences have it, in LaTeX: words upright, subscripts below."""
    for sign, latex in {"‖": r"\Vert ", "Ā": r"\bar A", "⁽ⁱ⁾": "^{(i)}", "′": "'", "−": "-"}.items():
        symbol = symbol.replace(sign, latex)
    symbol = re.sub(r"_([a-zA-Z]{2,})", r"_{\\textrm{\1}}", symbol)
    return re.sub(r"(?<![\\{a-zA-Z])([a-zA-Z]{2,}(?: [a-zA-Z]+)*|[、\u4e00-\u9fff]+)", r"\\textrm{\1}", symbol)


def _symbols() -> list[tuple[str, str, str]]:
    """Pattern by which a symbol is known in a formula, the symbol, its meaning."""
    return [
        (r"QK|Q_hK_h|Q_h K_h", "Q, K", _("queries and keys: what each token looks for, and what it can be found by")),
        (r"\)\s*V\b|V_h|OWV| WV$", "V", _("values: what a token gives to those that look at it")),
        (r"d_k", "d_k", _("the width of a head")),
        (r"\+ M\b", "M", _("the mask: 0 where a token may look, −∞ where it may not")),
        (r"\\alpha_\{ij\}", r"\alpha_{ij}", _("the weight that query i gives to key j")),
        (r"w_\{ij\}", "w_{ij}", _("the weight that query i gives to key j")),
        (r"M_\{(b,)?i,?j\}", "M_{ij}", _("the mask: 0 where a token may look, −∞ where it may not")),
        (r"w'_j", r"w_j, w'_j", _("the weight of key j now, and before")),
        (r"v_j(?! W\^O_h)", "v_j", _("the value of token j")),
        (r"W\^O", "W^O", _("the matrix that writes a head's result to the stream")),
        (r"\\tilde A", r"\tilde A_l", _("the weights of layer l, halved, with the residual as the other half")),
        (r"m_h", "m_h", _("how fast head h forgets with the distance")),
        (r"\\xi_h", r"\xi_h", _("1 with head h, 0 without it")),
        (r"\\mathcal\{L\}", r"\mathcal{L}", _("the mean loss of this text")),
        (r"\\mathrm\{KL\}", r"\mathrm{KL}", _("how far one distribution is from another; 0 is the same")),
        (r"\\mathrm\{JS\}", r"\mathrm{JS}", _("how far two distributions are apart, the same in both directions")),
        (r"\\mu(?!_)", r"\mu", _("the mean of the channels of one token")),
        (r"\\sigma(?!_|\(|\})", r"\sigma", _("their deviation, the root of the mean squared distance from μ")),
        (r"\bs\^2", "s", _("the sample's deviation, which divides by n − 1")),
        (r"\\mu_\{b,p\}", r"\mu_{b,p}", _("the mean at position p of text b")),
        (r"\\mu_c", r"\mu_c", _("the mean of channel c over all texts and positions")),
        (r"\\overline\{x\^2\}", r"\overline{x^2}", _("the mean square of the channels of one token")),
        (r"\\varepsilon", r"\varepsilon", _("a tiny number, so that nothing is divided by 0")),
        (r"\\gamma", r"\gamma", _("a learned factor for each channel")),
        (r"\+ \\beta", r"\beta", _("a learned shift of each channel")),
        (r"Sublayer", r"\mathrm{Sublayer}", _("an attention or a feed-forward network")),
        (r"F\(", "F", _("an attention or a feed-forward network")),
        (r"Block_l", r"x_l", _("the stream before block l")),
        (r"\bx_p\b", "x_p", _("the vector at position p")),
        (r"h_\{kv\}", "L, h_{kv}, n, b", _("layers, heads of keys and values, tokens, bytes of a number")),
        (r"\bh_j\b", "h_j", _("the annotation of source token j: both readings of it, side by side")),
        (r"\bs_\{i-1\}", "s_{i-1}", _("the decoder's state before token i")),
        (r"\\partial W", r"\partial L / \partial W", _("how the loss changes with a weight")),
        (r"\\partial x_\{l,t\}", r"\partial L / \partial x_{l,t}", _("how it changes with token t's vector, layer l")),
        (r"Bernoulli", "p, m_i", _("the rate of dropout; 0 for a dropped entry, else 1")),
        (r"PE_\{\(p", "p, i, b, d", _("position, number of the pair of channels, base, width")),
        (r"PE_p$|PE_p ", "PE_p", _("the vector of position p")),
        (r"E_\{\\text\{token\}", r"E_{\text{token}}", _("the token's row in the table of embeddings")),
        (r"R_k", "R_k", _("a rotation that depends on the distance k alone")),
        (r"\\lambda_i", r"\lambda_i", _("the wavelength of channel pair i, in tokens")),
        (r"\\pi\(", r"\pi", _("another order of the tokens")),
        (r"W_1", "W_1, W_2", _("the matrices into the units and out of them")),
        (r"g_e\(x\)", "g_e", _("the share of network e")),
        (r"z_i|\(z\)_", "z", _("logits: a number for each token of the vocabulary, before softmax")),
        (r"z_\{t,v\}", "z_{t,v}", _("the logit of token v at position t")),
        (r"\(x'\)", "x, x'", _("the text as it is, and with one token changed")),
        (r"\\in S", "S", _("the tokens that are left")),
        (r"p_\{?\\ell", r"p_\ell", _("the prediction if the model ended after layer ℓ")),
        (r"/T", "T", _("the temperature: below 1 surer, above 1 more even")),
        (r"\\ell_t", r"\ell_t", _("the loss at token t, in nats")),
        (r"PPL|perplexity", r"\mathrm{PPL}", _("perplexity: among how many equal choices the model wavers")),
        (r"W_U", "W_U", _("the output matrix: from a vector to logits")),
        (r"y_\{<t\}", "y_{<t}", _("what has been written so far")),
        (r"\|y\|", "|y|", _("the length of what is written")),
        (r"\\eta", r"\eta", _("the learning rate")),
    ]
