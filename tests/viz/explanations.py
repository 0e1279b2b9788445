"""What the line "What am I looking at?" must say of every view."""

from __future__ import annotations

CODE = r"PE_{(p,\,2i)} = \sin\!\left(p / b^{2i/d}\right)"
ROTATION = r"R_k = \mathrm{diag}"
SCORES = r"\frac{QK^\top}{\sqrt{d_k}} + M\right)V"
EQUATION = "section 3.2, equation 1"
HEADS = [
    "class MultiHeadAttention",
    "class HeadProjection",
    "class Scores",
    "class Scaled",
    "class Masked",
    "class Weights",
]
MASKED = r"\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)"
RULES = ["class Mask:", "class Masked", "class Weights"]

# Of each view: a piece of its formula, a paper and section, pieces of the code.
EXPLAINED: dict[tuple[str, str], tuple[str, str, list[str]]] = {
    ("map", "map"): (r"x + \mathrm{Sublayer}(x)", "section 3 and figure 1", ["class Encoder(", "class PreNorm"]),
    ("positions", "tokens"): (
        r"x_p = \sqrt{d_{\mathrm{model}}}\,E_{\text{token}(p)} + PE_p",
        "sections 3.4 and 3.5",
        [
            "class TokenEmbedding",
            "class SinusoidalPositions",
            "class EmbeddingSum",
            "def nearest",
            "def principal_plane",
        ],
    ),
    ("positions", "laboratory curves"): (CODE, "section 3.5", ["def sinusoidal"]),
    ("positions", "laboratory wavelengths"): (r"2\pi\,b^{2i/d}", "section 3.5", ["def wavelengths"]),
    ("positions", "laboratory shift"): (ROTATION, "section 3.5", ["def rotation", "def shift_residual"]),
    ("positions", "laboratory any_length"): (CODE, "section 3.5", ["def length_difference"]),
    ("positions", "laboratory misread"): (r"b^{2c/d}", "section 3.5", ["def misread(", "def misread_wavelengths"]),
    ("positions", "laboratory learned"): (CODE, "section 3.5", ["def best_shift", "def likeness"]),
    ("positions", "laboratory relative"): (
        r"- m_h\,|i - j|",
        "Su et al., 2021, equation 34; ALiBi: Press et al., 2022, section 3",
        ["def rotary_angles", "def rotary_scores", "def alibi_slopes"],
    ),
    ("positions", "applied"): (
        r"-\ln p(\text{token}_t",
        "section 3.5",
        ["class SinusoidalPositions", "def vary", "def token_losses"],
    ),
    ("positions", "order"): (
        r"f(x_1, \ldots, x_n)_{\pi(i)}",
        "section 3.5",
        ["def order_difference", "class NoPositions"],
    ),
    ("attention", "weights"): (SCORES, EQUATION, HEADS),
    ("attention", "weighted"): (r"\alpha_{ij}\, v_j W^O", "Kobayashi et al., 2020", [*HEADS, "def weighted"]),
    ("attention", "lines"): (SCORES, EQUATION, HEADS),
    ("attention", "average"): (SCORES, EQUATION, [*HEADS, "def average"]),
    ("attention", "maximum"): (SCORES, EQUATION, [*HEADS, "def maximum"]),
    ("attention", "rollout"): (r"\tfrac12 W + \tfrac12 I", "Abnar & Zuidema, 2020", [*HEADS, "def rollout"]),
    ("attention", "importance"): (r"\mathcal{L}(\xi_h = 0)", "2019, sections 2.3 and 3.2", ["class Removals"]),
    ("masks", "order"): (MASKED, "sections 3.1 and 3.2.3", [*RULES, "def orders"]),
    ("masks", "numbers"): (MASKED, "sections 3.1 and 3.2.3", [*RULES, "def fills"]),
    ("masks", "future"): (MASKED, "sections 3.1 and 3.2.3", [*RULES, "def future_change"]),
    ("masks", "batch"): (MASKED, "sections 3.1 and 3.2.3", [*RULES, "class Batch"]),
    ("residual", "norms"): (
        r"\frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \odot \gamma + \beta",
        "Ba et al., *Layer Normalization*, 2016, section 3; Vaswani et al., section 3.1",
        ["class LayerNorm"],
    ),
    ("residual", "stream"): (
        r"x_{l+1} = x_l + \mathrm{Block}_l(x_l)",
        "Vaswani et al., section 3.1",
        ["class PreNorm", "class Residual", "def contributions"],
    ),
    ("residual", "forms"): (r"s^2 = \frac{n}{n - 1}\sigma^2", "Ba et al., 2016, section 3", ["def forms"]),
    ("residual", "batch"): (r"\tfrac{1}{B\,P}", "*Batch Normalization*, 2015, section 3", ["def batch_statistics"]),
    ("residual", "placement"): (r"\mathrm{LN}(x + F(x))", "section 3.1", ["class PreNorm", "def placements"]),
    ("residual", "dropout"): (r"\frac{p}{1 - p}\,x_i^2", "section 5.4", ["def dropout", "def over_masks"]),
    ("residual", "gradients"): (
        r"\frac{\partial L}{\partial W}",
        "Pascanu et al., 2013, section 2",
        ["def loss_gradients", "def differentiable"],
    ),
    **{
        ("feed_forward", view): (
            r"\left(\mathrm{ReLU}(xW_1 + b_1)\right) W_2 + b_2",
            "section 3.3, equation 2",
            ["class FeedForward"] + ["def positions_apart"] * (view == "apart"),
        )
        for view in ("unit", "token", "layer", "apart")
    },
    ("predictions", "positions"): (r"-\ln\,\mathrm{softmax}(z)_{y_t}", "section 3.4", ["class Output", "def losses"]),
    ("predictions", "sampling"): (r"\mathrm{diag}(p) - pp^\top", "section 3.4", ["class Sampling", "def saturation"]),
    ("predictions", "layers"): (
        r"\left(W_U\,\mathrm{Norm}(x_\ell)\right)",
        "(2020)",
        ["def lens_logits", "class Out", "class FrozenNorm", "def block_attribution", "def head_attribution"],
    ),
    ("predictions", "film"): (r"\arg\max_y", "section 3:", ["def greedy"]),
    ("predictions", "search"): (
        r"((5 + |y|)/6)^{0.6}",
        "equation 14; Vaswani et al., section 6.1",
        ["def beam_search"],
    ),
}

# The same of a model whose parts are all others: post-norm, RMSNorm, SwiGLU, ALiBi; without the views it has not.
BIASED = r"\frac{QK^\top}{\sqrt{d_k}} - m_h\,|i - j| + M"
OTHERS: dict[tuple[str, str], tuple[str, str, list[str]]] = {
    ("positions", "tokens"): (r"E_{\text{token}(p)}" + "\n", "sections 3.4 and 3.5", ["class NoPositions"]),
    ("positions", "applied"): ("", "section 3.5", ["class Alibi"]),
    ("attention", "weights"): (BIASED, EQUATION, [*HEADS, "class Alibi"]),
    ("masks", "order"): (BIASED, "section", ["class Alibi"]),
    ("residual", "norms"): (r"\overline{x^2}", "Zhang and Sennrich, 2019, equation 4", ["class RMSNorm"]),
    ("residual", "stream"): (r"\mathrm{Norm}(x_l + \mathrm{Block}_l(x_l))", "section 3.1", ["class PostNorm"]),
    ("residual", "placement"): ("", "section 3.1", ["class PostNorm"]),
    ("feed_forward", "layer"): (
        r"\mathrm{Swish}(xW) \otimes xV",
        "Shazeer, 2020, equation 6",
        ["class GatedFeedForward"],
    ),
    ("predictions", "layers"): (r"\left(W_U\,x_\ell\right)", "(2020)", ["def lens_logits"]),
}

LAYER = "class Gemma2DecoderLayer"
# Of a model that others' code runs: whether a layer of that is shown, and what of ours looks into it.
BRIDGED: dict[tuple[str, str], tuple[bool, list[str]]] = {
    ("map", "map"): (True, []),
    ("positions", "tokens"): (True, ["def nearest"]),
    ("positions", "laboratory curves"): (False, ["def sinusoidal"]),
    ("attention", "weights"): (True, ["def entropy"]),
    ("masks", "numbers"): (True, ["class Mask:", "def fills"]),
    ("residual", "norms"): (True, []),
    ("residual", "stream"): (True, ["def contributions"]),
    ("residual", "forms"): (False, ["def forms"]),
    ("residual", "batch"): (False, ["def batch_statistics"]),
    ("residual", "dropout"): (False, ["def over_masks"]),
    ("feed_forward", "layer"): (True, []),
    ("predictions", "positions"): (True, ["def losses"]),
    ("predictions", "sampling"): (False, ["class Sampling"]),
    ("predictions", "film"): (False, ["def greedy"]),
}
OURS = ("class MultiHeadAttention", "class LayerNorm", "class FeedForward", "class TokenEmbedding", "class MirrorNorm")
