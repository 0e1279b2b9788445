"""How wrong a network's predictions are."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model.corpus import IGNORED, Batch
from model.network import Network


def summed_loss(model: Network, batch: Batch, label_smoothing: float) -> Float[Tensor, ""]:
    """Cross-entropy in nats, added up over the tokens to predict (section 5.4); the others are not computed."""
    asked = batch.labels != IGNORED
    logits = model.output(model.states(*batch.inputs)[asked])
    return F.cross_entropy(logits, batch.labels[asked], label_smoothing=label_smoothing, reduction="sum")


def loss_and_hits(model: Network, batch: Batch) -> tuple[float, int]:
    """Cross-entropy in nats, added up, and at how many of the tokens to predict the most probable one is right."""
    asked = batch.labels != IGNORED
    labels, logits = batch.labels[asked], model.output(model.states(*batch.inputs)[asked])
    return float(F.cross_entropy(logits, labels, reduction="sum")), int((logits.argmax(dim=-1) == labels).sum())
