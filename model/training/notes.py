"""Remarks on a training before its first step, where it does not do what one may expect."""

from __future__ import annotations

from model.data.datasets import Dataset
from model.data.sources import TrainingData
from model.message import Message
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
    sentences = [long_texts(config, corpora), _overlap(material), no_peak(settings, steps)]
    return [f"note: {sentence[0].lower()}{sentence[1:]}" for sentence in sentences if sentence]


def long_texts(config: TransformerConfig, corpora: tuple[Dataset, Dataset]) -> Message | None:
    """Number of texts that are longer than the model reads, and what becomes of them."""
    count = sum(corpus.long for corpus in corpora)
    if not count:
        return None
    if config.kind == "decoder-only":
        return Message(
            "{count:,} pairs are longer than max_length ({length:,}) and are left out: raise it to learn from them",
            count=count,
            length=config.max_length,
        )
    return Message(
        "{count:,} texts are longer than max_length ({length:,}) and are cut off: raise it to learn from the whole",
        count=count,
        length=config.max_length,
    )


def _overlap(material: TrainingData) -> str:
    shared, every = material.overlap
    if not shared:
        return ""
    return (
        f"the validation overlaps the training: {shared:,} of {every:,} texts to validate on are trained on too, so "
        "that its loss will be too low; give --validation others"
    )


def no_peak(settings: TrainingSettings, steps: int) -> Message | None:
    """Remark on a warm-up that lasts longer than the run, of so many steps."""
    if settings.warmup <= steps:
        return None
    return Message(
        "The warm-up has {warmup:,} steps and the training {steps:,}: the rate ends at {last:.1e} of {rate:g}, still "
        "rising. Lower warmup, or raise steps",
        warmup=settings.warmup,
        steps=steps,
        last=learning_rate(steps, steps, settings),
        rate=settings.rate,
    )
