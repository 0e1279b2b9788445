"""What tutorials say that trainings side by side can show, and what is true."""

from __future__ import annotations

from viz.i18n.catalogue import _


def comparison_name(name: str) -> str:
    return {
        "norms": _("A wrong pre-norm"),
        "depth": _("Post-norm or pre-norm"),
        "residual": _("Residuals"),
        "tying": _("Tied matrices"),
        "heads": _("Width of heads"),
        "positions": _("Longer texts"),
        "smoothing": _("Label smoothing"),
        "recipe": _("The recipe"),
    }[name]


def said_of(name: str) -> str:
    """In our words."""
    return {
        "norms": _("Pre-norm is Sublayer(x) + LayerNorm(x)."),
        "depth": _("Post-norm needs warm-up and gets harder to train with depth; pre-norm does not."),
        "residual": _("The residual path gives the gradient a short cut; without it almost nothing trains."),
        "tying": _("One matrix for embeddings and output saves parameters, at no cost."),
        "heads": _("Heads may be narrow, d_model / h wide each, or as wide as the model each."),
        "positions": _("Sinusoidal codes extend to lengths never trained on; learned positions do not."),
        "smoothing": _("Label smoothing 0.1 makes perplexity worse and accuracy better."),
        "recipe": _("A Transformer needs warm-up, Xavier initialisation, gradient clipping and Adam."),
    }[name]


def truth_of(name: str) -> str:
    return {
        "norms": _(
            "Pre-norm is x + Sublayer(LayerNorm(x)): the stream passes bare, and the sublayer reads it normalised. The "
            "formula that is said does both the other way round. The paper has LayerNorm(x + Sublayer(x)), post-norm."
        ),
        "depth": _(
            "With post-norm each block's norm stands on the stream, and gradients of the first step differ strongly "
            "from layer to layer; pre-norm, with a final norm, leaves a bare path. How much it matters depends on "
            "depth, rate and warm-up: choose them."
        ),
        "residual": _(
            "x + Sublayer(x) has the derivative 1 + Sublayer′(x): the 1 reaches every layer. Without it the gradient "
            "is a product of all the layers in between."
        ),
        "tying": _(
            "It saves vocabulary × d_model weights for each matrix that is shared. Whether the loss is as low is to be "
            "measured; here the vocabulary is small, and so is what is saved."
        ),
        "heads": _(
            "In the paper (section 3.2.2) each of h heads is d_model / h wide, which makes them together as dear as "
            "one wide head. Heads of full width have h times the attention parameters: more than speed differs."
        ),
        "positions": _(
            "The code of any position can be computed, but the network has never learnt to read it; a learned table "
            "has rows up to max_length, and those beyond the trained lengths are still as they were drawn."
        ),
        "smoothing": _(
            "That is what the paper says (section 5.4) of translation, where several words can be right. In a task "
            "with one right answer, smoothing may change accuracy little."
        ),
        "recipe": _(
            "Each is said to matter; each is switched off here alone. In their places: the full rate from the first "
            "step, torch's own initial weights, gradients as they are, descent with momentum 0.9 at 25 times the rate."
        ),
    }[name]
