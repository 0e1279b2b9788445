"""Index of the Lab's experiments: those of every module that has some, by name, in the order of their rows."""

from __future__ import annotations

from functools import cache

from model.experiments.claims import (
    additive_attention,
    attention,
    attention_variants,
    bahdanau,
    bleu,
    costs,
    data_lesson,
    data_needed,
    kv_cache,
    layers_compared,
    maps,
    masks,
    norms,
    paper_sizes,
    parameter_free,
    positions,
    recommendation,
    similarity,
    speed_ups,
    trainings,
    variants_cost,
    variants_trained,
    weight_tying,
)
from model.experiments.experiment import Experiment

# Modules with a tuple EXPERIMENTS, one a line.
MODULES = (
    additive_attention,
    attention,
    attention_variants,
    bahdanau,
    bleu,
    costs,
    data_lesson,
    data_needed,
    kv_cache,
    layers_compared,
    maps,
    masks,
    norms,
    paper_sizes,
    parameter_free,
    positions,
    recommendation,
    similarity,
    speed_ups,
    trainings,
    variants_cost,
    variants_trained,
    weight_tying,
)


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, in the order of the fifty rows."""
    all_experiments = [experiment for module in MODULES for experiment in module.EXPERIMENTS]
    return {
        experiment.name: experiment for experiment in sorted(all_experiments, key=lambda each: (each.row, each.name))
    }
