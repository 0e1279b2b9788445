"""Loss and hits of a network's predictions; the balance of its experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from model.data.datasets import IGNORED, Batch, Dataset, unshuffled
from model.data.sources import Answers, TrainingData, Translations
from model.network.config import TransformerConfig
from model.network.experts import Routing, balance_loss, routings
from model.network.transformer import Network


def summed_loss(network: Network, batch: Batch, label_smoothing: float) -> Float[Tensor, ""]:
    """Cross-entropy in nats, summed over the tokens to predict, with label smoothing (section 5.4); of a network with
    experts also the weighted loss of their balance, for each of these tokens.
    """
    if network.config.n_experts is None:
        logits, labels = _predictions(network, batch)
        return F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="sum")
    with routings() as layers:
        logits, labels = _predictions(network, batch)
    loss = F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="sum")
    return loss + network.config.balance * len(labels) * mean_balance(network.config, batch, layers)


def mean_balance(config: TransformerConfig, batch: Batch, layers: Sequence[Routing]) -> Float[Tensor, ""]:
    """Mean balance loss of the layers of a pass over a batch, in order of computation; padding does not count."""
    real = _real_of_layers(config, batch)
    return torch.stack([balance_loss(*each) for each in zip(layers, real, strict=True)]).mean()


def _real_of_layers(config: TransformerConfig, batch: Batch) -> Iterator[Tensor | None]:
    """Mask of the real tokens that each layer reads, in order of computation."""
    masks = batch.inputs[len(config.stacks) :]
    for number, stack in enumerate(config.stacks):
        yield from [masks[number] if number < len(masks) else None] * config.depth(stack)


class Hits(NamedTuple):
    """Quality of a batch's predictions.

    loss: sum of the cross-entropies in nats, without label smoothing; smoothed: with it. tokens: number of tokens whose
    most probable prediction is right. texts: number of rows in which all are.
    """

    loss: float
    tokens: int
    texts: int
    smoothed: float


def loss_and_hits(network: Network, batch: Batch, label_smoothing: float = 0.0) -> Hits:
    """Loss of a batch, without label smoothing and with it, and number of right predictions."""
    logits, labels = _predictions(network, batch)
    right = logits.argmax(dim=-1) == labels
    missed = (batch.labels != IGNORED).nonzero()[:, 0][~right].unique()  # rows
    loss = smoothed = float(F.cross_entropy(logits, labels, reduction="sum"))
    if label_smoothing:
        smoothed = float(F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="sum"))
    return Hits(loss, int(right.sum()), len(batch.labels) - len(missed), smoothed)


def _predictions(network: Network, batch: Batch) -> tuple[Float[Tensor, "token vocabulary"], Int[Tensor, " token"]]:
    """Logits and labels of the tokens to predict; logits of the others are not computed."""
    states, labels = network.states(*batch.inputs), batch.labels
    if batch.whole:
        return network.output(states.flatten(0, 1)), labels.flatten()  # selecting all costs a thirtieth of a step
    predicted = labels != IGNORED
    return network.output(states[predicted]), labels[predicted]


TOKENS = 4000  # of a batch of labels


def counts_exactly(material: TrainingData, validation: Dataset) -> bool:
    """True if the share of exactly right answers can be counted from the predictions of single tokens.

    That is so where the rule of a task says what is right, and the labels of the validation split are all its answers,
    whole: then greedy decoding writes an answer to the character just where each of its tokens is the most probable
    one. It is not with letters that the tokenizer lacks, or an answer that is too long for the model.
    """
    if not isinstance(material, Translations | Answers) or not material.task:
        return False
    tokenizer = material.tokenizers[1]
    rows = (row for batch in unshuffled(validation, TOKENS) for row in batch.labels.tolist())
    answers = sorted(tokenizer.decode([token for token in row if token != IGNORED]) for row in rows)
    return bool(answers) and answers == sorted(pair.target for pair in material.pairs["validation"])
