"""Index of the Lab's experiments: those of every module that has some, by name, in the order of their rows."""

from __future__ import annotations

from functools import cache

from model.experiments.experiment import Experiment
from model.experiments.rows import bleu, maps, parameter_free, trainings

# Modules with a tuple EXPERIMENTS, one a line.
MODULES = (
    parameter_free,
    trainings,
    maps,
    bleu,
)


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, in the order of the fifty rows."""
    found = [experiment for module in MODULES for experiment in module.EXPERIMENTS]
    return {experiment.name: experiment for experiment in sorted(found, key=lambda each: (each.row, each.name))}
