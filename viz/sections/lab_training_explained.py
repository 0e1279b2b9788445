"""The formulas behind trainings side by side, and the code that they run."""

from __future__ import annotations

from typing import Any

from model.experiments.arms import NormOnTheShortCut, answered_at, as_torch_begins, plain_descent
from model.experiments.side_by_side import frequencies_alone, rounds
from model.network.attention import MultiHeadAttention
from model.network.layers import NoResidual, PostNorm, PreNorm, Residual
from model.network.positions import LearnedPositions, SinusoidalPositions
from model.network.transformer import Network
from model.training.gradients import Gradients
from model.training.losses import summed_loss
from model.training.settings import learning_rate
from viz.i18n.catalogue import _
from viz.ui.parts import explanation

FORMULAS: dict[str, tuple[str, ...]] = {
    "norms": (
        r"\text{post: } \mathrm{LN}(x + S(x)) \qquad \text{pre: } x + S(\mathrm{LN}(x)) \qquad "
        r"\text{wrong: } S(x) + \mathrm{LN}(x)",
    ),
    "depth": (r"\left\lVert \frac{\partial L}{\partial \theta_\ell} \right\rVert \ \text{of each layer}\ \ell",),
    "residual": (
        r"\frac{\partial x_L}{\partial x_\ell} = \prod_{i=\ell}^{L-1}\left(1 + \frac{\partial S_i}{\partial x_i}\right)"
        r"\qquad \text{without: } \prod_{i=\ell}^{L-1}\frac{\partial S_i}{\partial x_i}",
    ),
    "tying": (r"\text{logits} = x W^\top, \quad W = E",),
    "heads": (r"W^Q_i, W^K_i, W^V_i \in \mathbb{R}^{d_\text{model} \times d_k}, \quad d_k = d_\text{model}/h",),
    "positions": (r"x_p = E_{t_p}\sqrt{d_\text{model}} + \mathrm{PE}_p",),
    "smoothing": (r"q_k = (1 - \varepsilon)\,[k = y] + \varepsilon / V",),
    "recipe": (
        r"\eta_t = \eta\,\tfrac{t}{w} \qquad W \sim U\!\left(\pm\sqrt{6 / (n_\text{in}+n_\text{out})}\right)"
        r"\qquad g \leftarrow g \min(1, c / \lVert g \rVert)",
    ),
}
RAN: dict[str, tuple[Any, ...]] = {
    "norms": (PostNorm, PreNorm, NormOnTheShortCut),
    "depth": (PostNorm, PreNorm, Gradients.norms, learning_rate),
    "residual": (Residual, NoResidual, Gradients.norms, frequencies_alone),
    "tying": (Network.begin,),
    "heads": (MultiHeadAttention,),
    "positions": (SinusoidalPositions, LearnedPositions, answered_at),
    "smoothing": (summed_loss,),
    "recipe": (learning_rate, Network._initialise, as_torch_begins, Gradients.clip, plain_descent),
}


def explain(name: str) -> None:
    explanation(
        f"lab_trainings_explanation_{name}", FORMULAS[name], sources()[name] + " " + method(), *RAN[name], rounds
    )


def method() -> str:
    return _(
        "All arms begin with the same seed, learn from the same batches of a built-in task, one step of each in turn, "
        "by AdamW and a cosine schedule unless that is what differs, without dropout. The curves are smoothed with "
        "weight 0.9 of the past; the loss at the end is the mean of the last tenth of the steps. Clearly lower means "
        "by a tenth at least, and with every seed. Loss, validation and gradients are those that our own trainer "
        "reports. This is the code that runs:"
    )


def sources() -> dict[str, str]:
    return {
        "norms": _("Vaswani et al., 2017, section 3.1; Xiong et al., 2020, figure 1."),
        "depth": _("Xiong et al., 2020, sections 3.3 and 4: the gradients of post-norm near the output are large."),
        "residual": _("He et al., 2016, “Identity mappings”, equation 5; Vaswani et al., 2017, section 3.1."),
        "tying": _("Press and Wolf, 2017; Vaswani et al., 2017, section 3.4."),
        "heads": _("Vaswani et al., 2017, section 3.2.2."),
        "positions": _(
            "Vaswani et al., 2017, section 3.5, which supposes it without measuring; Press et al., 2022, measure it."
        ),
        "smoothing": _("Vaswani et al., 2017, section 5.4; Szegedy et al., 2016, section 7."),
        "recipe": _("Vaswani et al., 2017, section 5.3; Glorot and Bengio, 2010; Pascanu et al., 2013."),
    }
