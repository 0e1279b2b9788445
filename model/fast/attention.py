"""Self-attention of a small model that learns: queries, keys and values in one product, and the rest in one node.

With a hundred thousand weights a layer, calls and copies take longer than products: on two cores a fourteenth of the
training step of a model of nanoGPT's size goes without this.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def in_one_product(
    x: Float[Tensor, "batch length d_model"], *projections: nn.Linear
) -> Float[Tensor, "batch length channels"]:
    """What each of these makes of x, side by side. Hooks on the projections are not called."""
    weight = torch.cat([each.weight for each in projections])
    bias = None if projections[0].bias is None else torch.cat([each.bias for each in projections])
    return F.linear(x, weight, bias)


def apart(
    projected: Float[Tensor, "batch length channels"], *projections: Any
) -> list[Float[Tensor, "batch head length channel"]]:
    """The same, each by itself and split into heads."""
    parts = projected.split([each.out_features for each in projections], dim=-1)
    return [each.split(part) for each, part in zip(projections, parts, strict=True)]


def self_attention(
    projected: Float[Tensor, "batch length channels"],
    added: Float[Tensor, "#batch 1 length length"],
    factor: float,
    n_heads: int,
) -> Float[Tensor, "batch length d_heads"]:
    """softmax(Q Kᵀ · factor + added) V in every head, of what `in_one_product` gives; a gradient reaches only that."""
    attended: Tensor = JointAttention.apply(projected, added, factor, n_heads)
    return attended


class JointAttention(torch.autograd.Function):
    """Section 3.2.1, equation 1, with its own backward pass.

    With S = Q Kᵀ · factor + added, P = softmax(S), H = P V, and dX for the gradient of X:
    dV = Pᵀ dH, dP = dH Vᵀ, dS = P ⊙ (dP − Σ_key P ⊙ dP), dQ = dS K · factor, dK = dSᵀ Q · factor.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Float[Tensor, "batch length channels"],
        added: Float[Tensor, "#batch 1 length length"],
        factor: float,
        n_heads: int,
    ) -> Float[Tensor, "batch length d_heads"]:
        batch, length, _ = projected.shape
        turned = projected.view(batch, length, 3, n_heads, -1).permute(2, 0, 3, 1, 4)
        parts = turned.clone(memory_format=torch.contiguous_format).flatten(1, 2)
        query, key, value = parts.unbind()
        query.mul_(factor)
        scores = torch.bmm(query, key.mT)
        scores.unflatten(0, (batch, n_heads)).add_(added)
        weights = scores.softmax(dim=-1)
        ctx.save_for_backward(parts, weights)
        ctx.factor, ctx.n_heads = factor, n_heads
        return _side_by_side(torch.bmm(weights, value)[None], n_heads)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Float[Tensor, "batch length d_heads"]
    ) -> tuple[Float[Tensor, "batch length channels"], None, None, None]:
        parts, weights = ctx.saved_tensors
        query, key, value = parts.unbind()  # the query is scaled
        of_heads = gradient.unflatten(-1, (ctx.n_heads, -1)).transpose(1, 2).flatten(0, 1)
        of_parts = torch.empty_like(parts)
        of_query, of_key, of_value = of_parts.unbind()
        torch.bmm(weights.mT, of_heads, out=of_value)
        of_weights = torch.bmm(of_heads, value.mT)
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
        torch.bmm(of_scores, key, out=of_query).mul_(ctx.factor)
        torch.bmm(of_scores.mT, query, out=of_key)
        return _side_by_side(of_parts, ctx.n_heads), None, None, None


def _side_by_side(
    parts: Float[Tensor, "part batch_and_head length channel"], n_heads: int
) -> Float[Tensor, "batch length channels"]:
    return parts.unflatten(1, (-1, n_heads)).permute(1, 3, 0, 2, 4).flatten(2)
