"""What python -m model train says of a run before its first step, where it does not do what one may expect."""

from __future__ import annotations

from model.data.datasets import Dataset
from model.data.sources import TrainingData
from model.network.config import TransformerConfig
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings


def notes(
    config: TransformerConfig,
    material: TrainingData,
    corpora: tuple[Dataset, Dataset],
    settings: TrainingSettings,
    steps: int,
) -> list[str]:
    """Sentences on texts that the model does not read whole, a validation that knows what is trained on, and a warm-up
    that does not end. corpora: for training and for validation. steps: of the whole run.
    """
    found = [_long(config, corpora), _overlap(material), _warmup(settings, steps)]
    return [f"note: {sentence}" for sentence in found if sentence]


def _long(config: TransformerConfig, corpora: tuple[Dataset, Dataset]) -> str:
    count = sum(corpus.long for corpus in corpora)
    if not count:
        return ""
    left_out = config.kind == "decoder-only"
    every = sum(map(len, corpora)) + (count if left_out else 0)
    what = "left out" if left_out else "cut off"
    return (
        f"{count:,} of {every:,} examples are longer than max_length ({config.max_length:,}) and are {what}: raise "
        "--max-length to learn from them whole"
    )


def _overlap(material: TrainingData) -> str:
    shared, every = material.overlap
    if not shared:
        return ""
    return (
        f"the validation overlaps the training: {shared:,} of {every:,} texts to validate on are trained on too, so "
        "that its loss will be too low; give --validation others"
    )


def _warmup(settings: TrainingSettings, steps: int) -> str:
    if settings.warmup <= steps:
        return ""
    last = learning_rate(steps, steps, settings)
    return (
        f"the warm-up has {settings.warmup:,} steps and the run {steps:,}: the rate ends at {last:.1e} of "
        f"{settings.rate:.1e}, still rising; give a smaller --warmup or more steps"
    )
