"""The views of the page: their names, and for each the line "What am I looking at?"."""

from __future__ import annotations

from model.analysis.logit_attribution import FrozenNorm, block_attribution, head_attribution
from model.analysis.logit_lens import lens_logits, read_layers
from model.analysis.predictions import derivative_norm, entropies, losses, ranks, sampled, saturation
from model.inference.beam_search import SearchTree, beam_search
from model.inference.decoding import Sampling, greedy
from model.inference.text_model import TextModel
from model.message import Message
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.ui.parts import classes, explanation


def view_name(view: str) -> str:
    return {
        "positions": Message("Positions"),
        "sampling": Message("Temperature, top-k, top-p"),
        "layers": Message("Logit lens"),
        "film": Message("Decoding film"),
        "search": Message("Beam tree"),
    }[view]


def how_written(changed: bool) -> str:
    """How the grey target was written. changed: changes are made to the pass, though not to the one that wrote it."""
    if changed:
        return _(
            "What stands in the field above, in grey, is what the model writes without the change, by greedy decoding: "
            "the most probable token at each step."
        )
    return _(
        "What the model writes in the field above, in grey, is greedy decoding: the most probable token at each step. "
        "The beam tree compares it with a search."
    )


def positions(key: str, model: TextModel) -> None:
    explanation(
        key,
        _(
            "After each token the model gives every token of its vocabulary a probability. The loss says how "
            "surprised it was by the token that really came: 0 is not at all."
        ),
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
        _(
            "A model that writes draws its next token from these probabilities. Temperature makes them more or less "
            "even before that; top-k and top-p strike the unlikely ones out."
        ),
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
    explanation(
        key,
        _(
            "If the model ended after this layer, what would it predict? The same output matrix reads the stream "
            "after each layer, so one sees the prediction come to be."
        ),
        [
            rf"\mathrm{{model}}_\ell = {lens_formula(model)}",
            r"z = \sum_c W_U\,D_c\,y_c + b \qquad D\,v = \gamma \odot \frac{v - \bar v}{\sigma(x)} \qquad "
            r"y_{\text{attention}} = \sum_h o_h W^O_h + b^O",
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


def lens_formula(model: TextModel) -> str:
    """Prediction of the model if it ended after layer ℓ."""
    normed = model.config.ends_in_norm and model.config.norm != "none"
    read = r"\mathrm{Norm}(x_\ell)" if normed else r"x_\ell"
    return rf"\mathrm{{softmax}}\left(W_U\,{read}\right)"


def film(key: str) -> None:
    explanation(
        key,
        _(
            "The model writes one token, reads it back, and writes the next. Each frame is one such step: where it "
            "looked, and what else it could have written."
        ),
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
        _(
            "Instead of the one most probable token, the search keeps several beginnings of a sentence and goes on "
            "with the best. A branch that ends here was overtaken by others."
        ),
        [r"\text{score}(y) = \frac{\ln p(y \mid x)}{((5 + |y|)/6)^{0.6}}"],
        _(
            "Wu et al. (2016), equation 14; Vaswani et al., section 6.1, search with a beam of 4 and a length penalty "
            "of 0.6. A column is a step: the best candidates of all hypotheses, best first. The search runs only while "
            "this view is open. This is the code that has just run:"
        ),
        *(beam_search, SearchTree),
    )


# Explanations behind the "?" of each figure.

SOFTMAX = r"p_i = \mathrm{softmax}(z)_i = \frac{e^{z_i}}{\sum_j e^{z_j}}"


def about_losses(model: TextModel, differing: bool) -> About:
    logits = "z_t" if model.kind == "encoder-only" else "z_{t-1}"
    formula = rf"\ln p(y_t) = \ln\,\mathrm{{softmax}}({logits})_{{y_t}}"
    if differing:
        sentence = Message("Each bar is a token: how much more probable it is than in the pinned trace; below 0, less.")
        return About(
            sentence,
            [formula, r"\ln p(y_t) - \ln p'(y_t)"],
            [losses],
            meaning=Message("In one model, only what has read a changed word can differ."),
        )
    sentence = Message("Each bar is a token of the text: the higher, the less the model had expected it there.")
    return About(
        sentence,
        [formula, r"\ell_t = -\ln p(y_t)"],
        [losses],
        meaning=Message("Names and new topics stand out; what grammar demands is nearly free."),
    )


def about_top(model: TextModel, differing: bool) -> About:
    ran = classes(model.network.output)
    if differing:
        sentence = Message(
            "Each row is a position with its most probable tokens; the colour is the change from the pin."
        )
        return About(
            sentence,
            [SOFTMAX, r"\ln p_i - \ln p'_i"],
            ran,
            meaning=Message("What one token gains others lose, for all probabilities add up to 1."),
        )
    sentence = Message(
        "Each row is a position: the tokens that the model thinks most probable there, the first at the left."
    )
    return About(
        sentence, [SOFTMAX], ran, meaning=Message("Where the first is faint, the model wavers between several.")
    )


def about_position(model: TextModel) -> About:
    sentence = Message(
        "The most probable tokens at this position: their probabilities, the logarithms of these, the logits."
    )
    return About(
        sentence,
        [SOFTMAX],
        classes(model.network.output),
        meaning=Message("Logits that differ by 1 are probabilities that differ by a factor of e, which is 2.72."),
    )


SAMPLED = r"p'_i = \frac{e^{z_i/T}}{\sum_{j \in S} e^{z_j/T}} \text{ for } i \in S, \text{ else } 0"


def about_drawn() -> About:
    sentence = Message(
        "The most probable tokens, before and after temperature, top-k and top-p; S is the set of those that are left."
    )
    return About(
        sentence,
        [SOFTMAX, SAMPLED],
        [sampled, Sampling],
        meaning=Message("What is struck out leaves its share to the rest, which add up to 1 again."),
    )


def about_rank() -> About:
    sentence = Message(
        "Every token of the vocabulary, the most probable first: its probability before and after the choice."
    )
    return About(
        sentence,
        [SOFTMAX, SAMPLED],
        [sampled, Sampling],
        meaning=Message(
            "The steeper the curve, the surer the model; but the many rare tokens together may still weigh much."
        ),
    )


def about_saturation() -> About:
    sentence = Message(
        "What the temperature does to a softmax: the colder, the surer it is, and the less it can still move."
    )
    formulas = [
        r"p = \mathrm{softmax}(z/T)",
        r"\max_i p_i, \qquad -\frac{1}{\ln n}\sum_i p_i \ln p_i, \qquad \lVert \mathrm{diag}(p) - pp^\top \rVert_F",
    ]
    return About(
        sentence,
        formulas,
        [saturation, derivative_norm],
        meaning=Message("Where the derivative is near 0, a training learns next to nothing through this softmax."),
    )


OF_LENS = {
    "top": r"\max_i\, p_{\ell,i}",
    "final": r"p_{\ell,y}, \quad y = \arg\max_i\, p_{L,i}",
    "probability": r"p_{\ell,y}",
    "rank": r"1 + \left|\{i : p_{\ell,i} > p_{\ell,y}\}\right|",
    "entropy": r"-\sum_i p_{\ell,i} \ln p_{\ell,i}",
}


def about_lens(model: TextModel, shade: str) -> About:
    """Explanation of the map. shade: meaning of its colours."""
    sentence = Message("Each row is a position, each column a layer: what the model would predict if it ended there.")
    return About(
        sentence,
        [rf"p_\ell = {lens_formula(model)}", OF_LENS[shade]],
        [lens_logits, read_layers],
        meaning=Message("Read a row from left to right to see at which layer the model makes up its mind."),
    )


def about_layers(model: TextModel, quantity: str) -> About:
    """Explanation of a chart of the chosen position over the layers."""
    sentence = {
        "probability": Message("How probable a token would be here if the model ended after each layer."),
        "rank": Message(
            "How many tokens would stand before this one if the model ended after each layer; 1 is the best."
        ),
        "entropy": Message("How unsure the model would be here if it ended after each layer: 0 is sure of one token."),
    }[quantity]
    return About(
        sentence,
        [rf"p_\ell = {lens_formula(model)}", OF_LENS[quantity]],
        [lens_logits, read_layers],
        meaning=Message("Where the curve is steepest, that layer says most about what comes."),
    )


def about_film(model: TextModel) -> About:
    sentence = Message(
        "Each frame is a token: what else it could have been, and where the model looked as it predicted it."
    )
    formulas = [
        r"p(y \mid y_{<t}, x) = \mathrm{softmax}(z_{t-1})",
        r"\bar w_{t-1,j} = \frac{1}{LH} \sum_{\ell, h} w^{(\ell, h)}_{t-1,j}",
    ]
    return About(
        sentence,
        formulas,
        [*classes(model.network.output), greedy],
        meaning=Message("Step through it slowly: the look often moves along the source as the translation grows."),
    )


def about_tree(penalty: float) -> About:
    sentence = Message(
        "Each column is a step: the best continuations of all texts in the beam; those cut go no further."
    )
    formula = rf"\text{{score}}(y) = \frac{{\ln p(y \mid x)}}{{((5 + |y|)/6)^{{{penalty:g}}}}}"
    return About(
        sentence,
        [formula],
        [beam_search, SearchTree],
        meaning=Message("The text that wins in the end need not have led at every step."),
    )
