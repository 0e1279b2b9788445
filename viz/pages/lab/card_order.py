"""Order of the cards, which their numbers follow: easy subjects first, and in each the cheap before the dear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from model.experiments.experiment import Experiment, Group
from model.experiments.index import experiments

ORDER: Mapping[Group, Sequence[str]] = {
    Group.SIMILARITY: ("dot-product", "softmax", "scaled-scores"),
    Group.MASKS: ("mask-places", "causal-mask", "padding-mask", "mask-shapes", "mask-after-softmax", "mask-number"),
    Group.POSITIONS: (
        *("order", "sinusoid", "fast-and-slow", "position-50", "base-1000", "rotation"),
        *("wrong-sinusoid", "embedding-scale", "embedding-division", "longer-texts"),
    ),
    Group.ATTENTION: (
        *("worked-example", "attention-formula", "kinds-of-models", "cross-attention", "feed-forward"),
        *("encoder-softmax", "several-heads", "maps-and-effects", "wide-heads"),
    ),
    Group.NORMS: (
        *("layer-norm", "pre-norm-formula", "dropout", "batch-norm"),
        *("without-residuals", "residual-gradient", "wrong-pre-norm", "post-norm-depth"),
    ),
    Group.COST: (
        *("tied-weights", "wide-heads-cost", "kv-cache", "attention-cost", "heads-cost", "additive-attention"),
        *("speed-ups", "paper-sizes", "variants-cost"),
    ),
    Group.ARCHITECTURES: ("parameter-free", "bahdanau", "recommendation", "attention-variants", "layers-compared"),
    Group.TRAINING: (
        *("bleu", "data-lesson", "tied-matrices", "label-smoothing", "recipe", "data-needed", "variants-trained"),
    ),
}


@cache
def cards() -> dict[str, Experiment]:
    """Every experiment by its name, in the order of the cards."""
    known = experiments()
    return {name: known[name] for names in ORDER.values() for name in names}
