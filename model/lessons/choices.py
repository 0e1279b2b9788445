"""Choices of pages, as they stand in an address: which there are, and which values they can have."""

from __future__ import annotations

from model.lessons.state import State
from model.message import InputError

# Values by the parameter's name; () where they are a number or a text. A name means the same on each page that has it.
CHOICES: dict[str, tuple[str, ...]] = {
    # everywhere
    **dict.fromkeys(("model", "source", "target", "layer", "head", "query", "changes", "hide"), ()),
    **dict.fromkeys(("training", "training_step", "training_least", "position", "position_base", "max_length"), ()),
    **dict.fromkeys(("sentences", "sentence", "into", "pinned", "pinned_target", "pinned_model"), ()),
    "attention": ("encoder", "decoder", "cross"),
    "differences": ("shown",),
    "more": ("open",),
    "pieces": ("merged",),
    "special": ("0", "1"),
    "scale": ("one", "largest", "others", "log"),
    "precision": ("float32", "bfloat16", "float16"),
    # Attention
    "quantity": ("weight", "value", "output"),
    "metric": ("entropy", "distance", "previous", "first", "special", "diagonal", "induction"),
    "order": ("layer", "highest", "lowest"),
    "combine": ("head", "average", "maximum", "rollout"),
    # under cross-attention, in the place of one that it does not have
    "metric_across": ("entropy", "distance", "first", "special"),
    "order_across": ("layer", "highest", "lowest"),
    "combine_across": ("head", "average", "maximum"),
    "draw": ("map", "lines"),
    "below": ("steps", "importance"),
    "bertviz": ("head", "model", "neuron"),
    **dict.fromkeys(("layers", "heads_shown", "least", "most", "threshold", "bertviz_trace"), ()),
    # Masks
    "masked": ("encoder", "decoder", "cross"),
    "scope": ("all", "layer", "head"),
    "mask_experiment": ("order", "numbers", "future", "batch"),
    **dict.fromkeys(("mask_place", "future"), ()),
    # Tokens and positions
    "part": ("tokens", "laboratory", "applied", "order"),
    "experiment": ("curves", "wavelengths", "shift", "any_length", "misread", "learned", "relative"),
    "side": ("source", "target"),
    "channels": ("means", "first"),
    "plane": ("text", "near"),
    **dict.fromkeys(("code", "vectors", "bases", "lengths", "compared", "widths", "dimension", "k", "place"), ()),
    # Norms and residual
    "stack": ("encoder", "decoder"),
    "residual_view": ("norms", "stream", "forms", "batch", "placement", "dropout", "gradients"),
    "stream": ("length", "share", "cosine"),
    "moment": ("mean", "std"),
    "masks": ("10", "100", "1000", "10000"),
    "gradient_of": ("gradient", "relative"),
    **dict.fromkeys(("norm", "statistic", "site", "gradient", "residual_rate"), ()),
    # Feed-forward
    "units_order": ("strength", "weakness", "number"),
    "routed": ("gates", "router"),
    **dict.fromkeys(("units", "unit", "page", "look", "expert"), ()),
    # Predictions
    "view": ("positions", "sampling", "layers", "film", "search"),
    "shade": ("top", "final", "entropy"),
    "beam": ("2", "4", "8"),
    **dict.fromkeys(("attributed", "temperature", "top_p", "top_k", "seed"), ()),
    # Training
    "training_part": ("begin", "settings", "curves", "film", "runs"),
    "begin": ("demonstration", "new", "on"),
    "curves": ("whole", "layers", "heads"),
    "smoothing": ("0.9", "0.98", "0"),
    "axes": ("linear", "log", "log-log"),
    **dict.fromkeys(("draft", "kind", "preset", "training_data"), ()),
    # Lab
    "lab_part": ("statements", "arithmetic"),
    "arithmetic": ("example", "similarity", "softmax", "scaling"),
    "example_scale": ("off", "on"),
    "example_round": ("half", "tenth", "hundredth"),
    "softmax_from": ("example", "head"),
    "softmax_query": ("1", "2", "3"),
    **dict.fromkeys(("statement", "example", "softmax_t"), ()),
    # Checkpoints
    "checkpoints_part": ("open", "read", "compare", "evaluate", "keep"),
    **dict.fromkeys(("checkpoint", "tensor", "weights_view", "w_kind", "w_circuit"), ()),
    **dict.fromkeys(("compare_part", "compare_view", "compare_a", "compare_b", "compare_stack"), ()),
}


def require_choices(state: State) -> None:
    """All parameters of a state are known, with values that they can have.

    Raises:
        ValueError: one is not.
    """
    for name, value in state.parameters.items():
        if name not in CHOICES:
            raise InputError("no page has a choice {name!r}: copy the address from the browser", name=name[:40])
        if CHOICES[name] and value not in CHOICES[name]:
            known = ", ".join(CHOICES[name])
            raise InputError("{name} ({value!r}) must be one of {names}", name=name, value=value[:40], names=known)
