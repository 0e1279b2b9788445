"""What a change to the forward pass did: the same tokens traced before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind, Trace


def weight_changes(now: Trace, before: Trace, kind: AttentionKind) -> Float[Tensor, "layer head"]:
    """½ Σ |w − w′| over the keys, averaged over the queries: the total variation distance, 0 to 1.

    A row that got nothing to look at has lost its whole weight and counts ½.
    """
    names = [f"{path}.weights" for path in now.attention_paths(kind)]  # a layer at a time: maps are large
    return torch.stack(
        [(now[name].float() - before[name].float()).abs().sum(dim=-1).mean(dim=-1) / 2 for name in names]
    )


def output_changes(now: Trace, before: Trace, kind: AttentionKind) -> Float[Tensor, "layer query"]:
    """‖o − o′‖ of the attention's output, after W^O, at every query."""
    paths = [f"{path}.output" for path in now.attention_paths(kind)]
    return torch.stack([(now[path].float() - before[path].float()).norm(dim=-1) for path in paths])


def prediction_changes(now: Trace, before: Trace) -> Float[Tensor, position]:
    """The divergence of the predictions at every position, in nats."""
    return divergence(now["output.logits"], before["output.logits"])


def divergence(
    now: Float[Tensor, "position vocabulary"], before: Float[Tensor, "position vocabulary"]
) -> Float[Tensor, position]:
    """KL(p′ ‖ p) = Σ p′ (ln p′ − ln p): p′ was predicted before, p is now. NaN where one of them is."""
    after, first = (logits.float().log_softmax(dim=-1) for logits in (now, before))
    return divergence_of_logs(after, first)


def divergence_of_logs(
    now: Float[Tensor, "position vocabulary"], before: Float[Tensor, "position vocabulary"]
) -> Float[Tensor, position]:
    """The same of ln p and ln p′."""
    return (before.exp() * (before - now)).sum(dim=-1).clamp(min=0)
