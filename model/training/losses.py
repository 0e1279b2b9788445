"""How wrong a network's predictions are."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from model.data.datasets import IGNORED, Batch, Dataset, unshuffled
from model.data.sources import Answers, TrainingData, Translations
from model.network.transformer import Network


def summed_loss(network: Network, batch: Batch, label_smoothing: float) -> Float[Tensor, ""]:
    """Cross-entropy in nats, added up over the tokens to predict (section 5.4); the others are not computed."""
    logits, labels = _asked(network, batch)
    return F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="sum")


class Hits(NamedTuple):
    """How well a batch is predicted.

    loss: cross-entropy in nats, added up, without label smoothing. tokens: of those to predict, for how many the most
    probable one is right. texts: in how many rows none is wrong.
    """

    loss: float
    tokens: int
    texts: int


def loss_and_hits(network: Network, batch: Batch) -> Hits:
    """What a batch's labels say of the model's logits."""
    logits, labels = _asked(network, batch)
    right = logits.argmax(dim=-1) == labels
    missed = (batch.labels != IGNORED).nonzero()[:, 0][~right].unique()  # rows
    loss = F.cross_entropy(logits, labels, reduction="sum")
    return Hits(float(loss), int(right.sum()), len(batch.labels) - len(missed))


def _asked(network: Network, batch: Batch) -> tuple[Float[Tensor, "token vocabulary"], Int[Tensor, " token"]]:
    """Logits where there is something to predict, and what that is."""
    states, labels = network.states(*batch.inputs), batch.labels
    if batch.whole:
        return network.output(states.flatten(0, 1)), labels.flatten()  # to select nothing costs a thirtieth of a step
    asked = labels != IGNORED
    return network.output(states[asked]), labels[asked]


# Whether the share of exactly right answers can be counted from what is predicted token by token.

TOKENS = 4000  # of a batch that is looked at


def counts_exactly(material: TrainingData, validation: Dataset) -> bool:
    """Whether a rule says what is right, and all right answers of the validation split are asked for as a whole.

    Then greedy decoding writes an answer to the character just where each of its tokens is the most probable one. With
    letters that the tokenizer lacks, and where an answer is too long for the model, it does not.
    """
    if not isinstance(material, Translations | Answers) or not material.task:
        return False
    tokenizer = material.tokenizers[1]
    rows = (row for batch in unshuffled(validation, TOKENS) for row in batch.labels.tolist())
    asked = sorted(tokenizer.decode([token for token in row if token != IGNORED]) for row in rows)
    return bool(asked) and asked == sorted(pair.target for pair in material.pairs["validation"])
