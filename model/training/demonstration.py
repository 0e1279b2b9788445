"""New models, and the demonstration whose training shows how attention comes to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from model.data.sources import Source, TrainingData, material_of, new_config, preset_options, task_data
from model.data.tasks import CODE_LICENCE
from model.inference.models import MODEL_CLASSES
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.network.transformer import build
from model.runtime.device import choose_device
from model.runtime.random import seeded
from model.training.live.frame_recorder import Probe, probe_of
from model.training.settings import TrainingSettings


def fresh(name: str, config: TransformerConfig, material: TrainingData, seed: int) -> TextModel:
    """Untrained model with the tokenizers of its training data; its initial weights follow from the seed.

    Raises:
        ValueError: the config has other vocabularies than the tokenizers.
    """
    sizes, tokens = config.vocabularies, (len(material.tokenizers[0]), len(material.tokenizers[1]))
    if sizes != tokens:
        raise ValueError(f"the config's vocabularies {sizes} must be those of the tokenizers {tokens}: take these")
    device = choose_device()
    with seeded(seed, device):
        network = build(config).to(device).eval()
    return MODEL_CLASSES[config.kind](name, network, material.tokenizers, {})


@lru_cache(maxsize=4)
def _material(task: str, pairs: int) -> TrainingData:
    """Pairs of a task and their characters, the same each time that they are begun with."""
    return material_of("encoder-decoder", task_data(task, pairs), "characters", 0)


@dataclass(frozen=True)
class Demonstration:
    """A training to watch.

    task: built-in task, of which `pairs` pairs are learnt. network: options on top of the `preset`. text: the probe.
    """

    task: str
    pairs: int
    preset: str
    settings: TrainingSettings
    text: str
    network: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of its steps."""
        return self.settings.steps or 0

    @property
    def source(self) -> Source:
        """Training data, as in a training record."""
        return Source(f"task:{self.task}:{self.pairs}", CODE_LICENCE)

    def begin(self) -> tuple[TextModel, TrainingData, Probe]:
        """New model, its training data and its probe."""
        material = _material(self.task, self.pairs)
        options = preset_options("encoder-decoder", self.preset) | dict(self.network)
        config = new_config("encoder-decoder", options, material.tokenizers)
        model = fresh(self.task, config, material, self.settings.seed)
        return model, material, probe_of(model, self.text, task=self.task)


# Ends with more than 99 % of unseen words reversed, while cross-attention becomes the anti-diagonal.
REVERSE = Demonstration(
    task="reverse",
    pairs=20_000,
    preset="tiny",
    settings=TrainingSettings(
        steps=1500,
        batch_tokens=750,
        rate=4e-3,
        warmup=100,
        label_smoothing=0.0,
        weight_decay=0.01,
        average=0.0,
        validate_every=100,
        bpe_dropout=0.0,
    ),
    text="transformer",
    network={"dropout": 0.0},
)

DEMONSTRATIONS = {"reverse": REVERSE}  # by the names that addresses have
