"""The views of the page: their names, and for each the line "What am I looking at?"."""

from __future__ import annotations

from model.analysis.logit_attribution import FrozenNorm, block_attribution, head_attribution
from model.analysis.logit_lens import lens_logits, read_layers
from model.analysis.predictions import entropies, losses, ranks, saturation
from model.inference.beam_search import SearchTree, beam_search
from model.inference.decoding import Sampling, greedy
from model.inference.text_model import TextModel
from viz.i18n.catalogue import _
from viz.i18n.format import no_predictions
from viz.ui.parts import classes, explanation


def refusal(model: TextModel, writing: bool) -> str:
    """Why a view cannot be shown of this model; empty if it can. writing: it is of a model that writes."""
    if not model.predicts:
        return no_predictions()
    if writing and model.kind == "encoder-only":
        return _("An encoder-only model does not write from left to right: its guesses are under Positions.")
    return ""


def view_name(view: str) -> str:
    return {
        "positions": _("Positions"),
        "sampling": _("Temperature, top-k, top-p"),
        "layers": _("Logit lens"),
        "film": _("Decoding film"),
        "search": _("Beam tree"),
    }[view]


def positions(key: str, model: TextModel) -> None:
    explanation(
        key,
        [r"\ell_t = -\ln p(y_t) = -\ln\,\mathrm{softmax}(z)_{y_t} \qquad \mathrm{PPL} = e^{\bar\ell}"],
        _(
            "Vaswani et al., section 3.4; the loss is the cross-entropy that training minimises, without label "
            "smoothing. A model that writes is asked at each position for the token after it; after the last token "
            "comes `</s>`. An encoder-only model is asked for the token itself: it has seen it, unless it is "
            "`<mask>`, so only there the numbers are guesses. This is the code that has just run:"
        ),
        *(*classes(model.network.output), losses, ranks, entropies),
    )


def sampling(key: str) -> None:
    explanation(
        key,
        [
            r"p_i = \frac{e^{z_i/T}}{\sum_j e^{z_j/T}}",
            r"\frac{\partial p}{\partial (z/T)} = \mathrm{diag}(p) - pp^\top",
        ],
        _(
            "Vaswani et al., section 3.4. The softmax turns any n logits into a distribution in O(n) steps. A small "
            "temperature T makes its inputs large: one probability goes to 1, the derivative to 0, the softmax "
            "saturates. Then top-k keeps the k most probable tokens (Fan et al., 2018), top-p the fewest that together "
            "have probability p (Holtzman et al., 2020). All of it works on the logits of the trace; no forward pass "
            "runs:"
        ),
        *(Sampling, saturation),
    )


def layers(key: str, model: TextModel) -> None:
    normed = model.config.ends_in_norm and model.config.norm != "none"
    read = r"\mathrm{Norm}(x_\ell)" if normed else r"x_\ell"
    explanation(
        key,
        [
            rf"\mathrm{{model}}_\ell = \mathrm{{softmax}}\left(W_U\,{read}\right)",
            r"z = \sum_c W_U\,D_c\,y_c + b \qquad D\,v = \gamma \odot \frac{v - \bar v}{\sigma(x)} \qquad "
            r"y_{\mathrm{attention}} = \sum_h o_h W^O_h + b^O",
        ],
        _(
            "nostalgebraist, *interpreting GPT: the logit lens* (2020): the model's own output applied to the "
            "residual stream after each layer, as if the model ended there. After the last layer it is the model's "
            "prediction itself. Below, the logits are taken apart (direct logit attribution; Elhage et al., 2021, *A "
            "Mathematical Framework for Transformer Circuits*; McGrath et al., 2023): what the embedding, each block "
            "or each head has added, y_c, goes through the norms behind it and the output. Each norm divides by the "
            "deviation that it had for the whole stream (RMSNorm takes no mean away); so the parts add up to the "
            "logits, with post-norm too. Shown are differences from the mean over the vocabulary, which softmax does "
            "not see. What a part changes in later blocks counts as theirs. This is the code that has just run:"
        ),
        *(*classes(model.network.output), lens_logits, read_layers, FrozenNorm, block_attribution, head_attribution),
    )


def film(key: str) -> None:
    explanation(
        key,
        [r"y_t = \arg\max_y\, p(y \mid y_{<t}, x)"],
        _(
            "Vaswani et al., section 3: the decoder writes one token at a time and reads what it has written. Each "
            "frame is a token with the attention of the position that predicted it, and the most probable tokens in "
            "its place. The numbers come from the trace; where the model wrote the text, it did so with this code:"
        ),
        greedy,
    )


def search(key: str) -> None:
    explanation(
        key,
        [r"\mathrm{score}(y) = \frac{\ln p(y \mid x)}{((5 + |y|)/6)^{0.6}}"],
        _(
            "Wu et al. (2016), equation 14; Vaswani et al., section 6.1, search with a beam of 4 and a length penalty "
            "of 0.6. A column is a step: the best candidates of all hypotheses, best first. The search runs only while "
            "this view is open. This is the code that has just run:"
        ),
        *(beam_search, SearchTree),
    )
