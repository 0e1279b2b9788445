"""python -m model train --dry-run: cost of a training as a table, before anything is built."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from model.cli.inspect import aligned
from model.data.datasets import Dataset
from model.data.sources import TrainingData
from model.network.config import TransformerConfig
from model.network.costs import Costs, costs
from model.network.transformer import build
from model.training.cost import costs_of_batch
from model.training.notes import notes
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer

MEMORY = {
    "weights": "weights",
    "gradients": "gradients",
    "moments": "AdamW's moments",
    "average": "averages of the weights",
    "activations": "activations of the largest batch, about",
}
PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def print_costs(
    config: TransformerConfig,
    material: TrainingData,
    corpora: tuple[Dataset, Dataset],
    settings: TrainingSettings,
) -> None:
    """Print parameters by part, batches and steps, operations and memory of a whole training, and the notes on it.

    corpora: for training and for validation.
    """
    train, validation = corpora
    # The trainer itself counts the steps. They depend on the data and the settings only: the smallest network will do.
    smallest = TransformerConfig.one_stack("decoder-only", 1, 1, d_model=2, n_heads=1, d_ff=1, max_length=1)
    trainer = Trainer(build(smallest), train, validation, dataclasses.replace(settings, compile=False))
    chance = random.Random(settings.seed)
    order = train.order(settings.batch_tokens, chance)
    batches = [train.batch(indices, chance) for indices in order]  # of one epoch; others differ a little
    batch_costs = [costs_of_batch(config, batch) for batch in batches]
    share = len(trainer.epochs.ends) / trainer.epochs.ends[-1]  # of an epoch, in a step
    epochs = share * trainer.total_steps
    tokens = share * sum(batch.tokens for batch in batches)
    operations = epochs * sum(batch.training_flops for batch in batch_costs)
    most = "at most " if settings.patience else ""
    lines = [
        *_parts(config, batch_costs, share),
        "",
        f"{len(train):,} examples, about {len(batches):,} batches an epoch, epochs: {round(epochs, 1):,g}",
        f"{most}{trainer.total_steps:,} steps of about {tokens:,.0f} tokens, padding included",
        f"{_short(operations)}FLOP in all, without validation",
        "",
        *_memory(config, batch_costs, settings),
        "",
        *notes(config, material, corpora, settings, trainer.total_steps),
        "dry run: nothing was trained or written",
    ]
    print("\n".join(lines))


def _parts(config: TransformerConfig, batches: Sequence[Costs], share: float) -> list[str]:
    """Row of each part: its parameters, and the operations of a mean step. share: of an epoch, in a step."""
    parameters = {part: f"{count:,}" for part, count in batches[0].parameters.items()}
    if config.tied_embeddings in ("output", "all"):
        parameters["output"] = "tied"
    rows = [("part", "parameters", "FLOP a step")]
    for part in dict.fromkeys([*parameters, *batches[0].flops]):
        operations = share * sum(3 * batch.flops.get(part, 0) for batch in batches)
        rows.append((part, parameters.get(part, "0"), _short(operations).rstrip()))
    whole = share * sum(batch.training_flops for batch in batches)
    return aligned([*rows, ("in all", f"{batches[0].parameter_count:,}", _short(whole).rstrip())])


def _memory(config: TransformerConfig, batches: Sequence[Costs], settings: TrainingSettings) -> list[str]:
    sizes = max(batches, key=lambda batch: batch.memory["activations"]).memory
    sizes = sizes | {"average": max(1, settings.average_last) * sizes["average"]}
    rows = [("memory in float32", "")]
    rows += [(text, f"{_short(sizes[name])}B") for name, text in MEMORY.items()]
    rows.append(("in all", f"{_short(sum(sizes[name] for name in MEMORY))}B"))
    if config.n_decoder_layers:
        length = config.max_length
        cache = costs(config, 1, length if config.n_encoder_layers else 0, length).memory["cache"]
        rows.append((f"keys and values while {length} tokens are written", f"{_short(cache)}B"))
    return aligned(rows)


def _short(number: int | float) -> str:
    """Number with three digits and the unit's prefix: 12.3 M."""
    place = 0
    while round(number) >= 1000 and place < len(PREFIXES) - 1:
        number, place = number / 1000, place + 1
    digits = 0 if number >= 100 or not place else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {PREFIXES[place]}"
