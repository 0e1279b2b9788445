"""Multi-head latent attention: keys and values of all heads are made of one narrow vector of each token (DeepSeek-AI,
2024, DeepSeek-V2, section 2.1).

Its decoupled rotary key, one for all heads beside the latent, is an argument of `latent_heads`; the loaded model and
the trained module go without it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from model.experiments.variants.full import full
from model.experiments.variants.module import VariantAttention
from model.experiments.variants.variant import AttentionOutput, Shape, Sizes, Variant, softmax_where
from model.message import say
from model.network.config import TransformerConfig


def latent_heads(
    query: Float[Tensor, "*batch head query channel"],
    latent: Float[Tensor, "*batch key rank"],
    up_key: Float[Tensor, "head rank channel"],
    up_value: Float[Tensor, "head rank value"],
    visible: Tensor,
    turned: tuple[Tensor, Tensor] | None = None,
) -> AttentionOutput:
    """softmax((Q (C W_UK)ᵀ + Q_R K_Rᵀ) / √(d_k + d_R)) C W_UV (equations 9 to 17).

    turned: queries (*batch, head, query, d_R) and the one key (*batch, key, d_R) that rotary positions have turned.
    """
    rows = latent[..., None, :, :]
    scores, width = query @ (rows @ up_key).mT, query.shape[-1]
    if turned is not None:
        scores, width = scores + turned[0] @ turned[1][..., None, :, :].mT, width + turned[0].shape[-1]
    weights = softmax_where(scores / width**0.5, visible)
    return AttentionOutput(weights @ (rows @ up_value), weights)


def absorbed(query: Tensor, latent: Tensor, up_key: Tensor, up_value: Tensor) -> Tensor:
    """The same heads, where all is visible, without keys and values: W_UK goes into the queries, W_UV comes last."""
    scores = query @ up_key.mT @ latent.mT / query.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ latent @ up_value


def best_latent(key: Tensor, value: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Latent (key, rank) of this text and the keys and values made of it: no other of this rank is nearer to all
    (Eckart and Young, 1936).
    """
    parts = [x.transpose(0, 1).flatten(1) for x in (key, value)]  # (key, head channel)
    u, s, v = torch.linalg.svd(torch.cat(parts, dim=1), full_matrices=False)
    latent = u[:, :rank] * s[:rank]
    halves = (latent @ v[:rank]).split([part.shape[1] for part in parts], dim=1)
    keys, values = (part.unflatten(1, (len(key), -1)).transpose(0, 1) for part in halves)
    return latent, keys, values


class LatentAttention(VariantAttention):
    """Attention whose keys and values are made of a latent of `rank` channels, normalised as in DeepSeek's code."""

    def __init__(self, config: TransformerConfig, causal: bool, rank: int) -> None:
        super().__init__(config, causal)
        del self.key, self.value
        self.down = nn.Linear(config.d_model, rank, bias=False)
        self.norm = nn.RMSNorm(rank)
        shape = config.n_heads, rank, config.d_head
        self.up_key, self.up_value = (nn.Parameter(torch.randn(shape) * rank**-0.5) for _ in range(2))
        nn.init.xavier_uniform_(self.down.weight)

    def attended_of(self, x: Tensor, visible: Tensor) -> Tensor:
        latent = self.norm(self.down(x))
        return latent_heads(self.query(x), latent, self.up_key, self.up_value, visible).heads


def variant(sizes: Sizes) -> Variant:
    """A latent of `sizes.rank` channels."""
    rank = sizes.rank

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
        _latent, keys, values = best_latent(key, value, rank)
        return full(query, keys, values, visible)

    def inputs(shape: Shape) -> tuple[Tensor, ...]:
        draw = torch.Generator().manual_seed(0)
        shapes = (tuple(shape), (shape.length, rank), *[(shape.heads, rank, shape.width)] * 2)
        return tuple(torch.randn(*each, generator=draw) for each in shapes)

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        latent = best_latent(key, value, rank)[0]  # of a text of fewer tokens the other channels are 0
        return (F.pad(latent, (0, rank - latent.shape[-1])),)

    def cached(shape: Shape) -> int:
        return shape.length * rank

    return Variant(
        key="latent",
        name=say("multi-head latent attention"),
        formula=r"c_j = x_j W_{DKV},\quad K = C W_{UK},\; V = C W_{UV}",
        source="DeepSeek-AI, 2024, section 2.1",
        exponents=(2, 2),
        attend=attend,
        quick=absorbed,
        inputs=inputs,
        cache_tensors=cache_tensors,
        cached=cached,
        module=lambda config, causal: LatentAttention(config, causal, rank),
        needs="W_DKV, W_UK, W_UV",
        code=(latent_heads, best_latent, absorbed),
    )
