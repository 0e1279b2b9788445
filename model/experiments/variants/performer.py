"""Performer's FAVOR+: exp(q·k) by positive orthogonal random features (Choromanski et al., 2021, sections 2.3, 2.4)."""

from __future__ import annotations

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from model.experiments.variants.linear import by_features, in_brackets
from model.experiments.variants.variant import AttentionOutput, Shape, Sizes, Variant
from model.message import say


@cache
def drawn(count: int, channels: int, seed: int = 0) -> Float[Tensor, "feature channel"]:
    """Rows w, orthogonal to one another in groups of `channels`, each as long as a standard normal vector."""
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.randn(-(-count // channels), channels, channels, generator=draw, dtype=torch.float64)
    q, r = torch.linalg.qr(numbers)
    rows = (q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]).flatten(0, 1)[:count]  # else some signs are fixed
    return rows * torch.randn(count, channels, generator=draw, dtype=torch.float64).norm(dim=-1, keepdim=True)


def directions(count: int, like: Tensor, seed: int = 0) -> Float[Tensor, "feature channel"]:
    """The rows w for vectors `like` these."""
    return drawn(count, like.shape[-1], seed).to(like)


def features(x: Tensor, rows: Tensor, over: tuple[int, ...]) -> Tensor:
    """exp(w·x − ‖x‖²/2) with x over ⁴√d_k, so that the mean of φ(q) φ(k) is exp(q·k / √d_k).

    over: axes whose largest exponent is taken away before: a factor that the division by the sum takes out again.
    """
    x = x / x.shape[-1] ** 0.25
    exponents = x @ rows.mT - x.square().sum(dim=-1, keepdim=True) / 2
    return (exponents - exponents.amax(dim=over, keepdim=True)).exp()


def performer(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, rows: Tensor) -> AttentionOutput:
    """φ(q)·φ(k) over its sum, which comes near to the softmax with many features."""
    return by_features(features(query, rows, (-1,)), features(key, rows, (-2, -1)), value, visible)


def quick(query: Tensor, key: Tensor, value: Tensor, rows: Tensor) -> Tensor:
    """The product of keys and values first: n m d."""
    return in_brackets(features(query, rows, (-1,)), features(key, rows, (-2, -1)), value)


def variant(sizes: Sizes) -> Variant:
    """`sizes.features` random features."""
    count, seed = sizes.features, sizes.seed

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
        return performer(query, key, value, visible, directions(count, query, seed))

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        key_features = features(key, directions(count, key, seed), (-2, -1))
        return key_features.mT @ value, key_features.sum(dim=-2)

    def cached(shape: Shape) -> int:
        return shape.heads * count * (shape.width + 1)

    return Variant(
        key="performer",
        name=say("random features (Performer)"),
        formula=r"\phi(x) = \exp(W x - \lVert x \rVert^2 / 2),\quad \mathbb{E}[\phi(q)^\top \phi(k)] \sim e^{q^\top k}",
        source="Choromanski et al., 2021, sections 2.3 and 2.4",
        exponents=(1, 1),
        attend=attend,
        quick=lambda q, k, v: quick(q, k, v, directions(count, q, seed)),
        cache_tensors=cache_tensors,
        cached=cached,
        code=(features, performer, in_brackets),
    )
