"""The heads of attention as matrices: how large they are and which are alike, from the weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model.checkpoints.bridge.missing import Reason
from model.checkpoints.bridge.modules import HostedAttention
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.transformer import Network

PROJECTIONS = ("query", "key", "value", "output")
Circuit = Literal["scores", "output"]
MOST = 1 << 24  # numbers of all heads' products that are there at once


def attentions(model: Network) -> dict[str, MultiHeadAttention]:
    """Every attention of the model by its module path, in the order of computation: of a hosted model those whose
    matrices could be cut into heads.
    """
    found = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    return {name: module for name, module in found.items() if not isinstance(module, HostedAttention) or module.parts}


def unclear(model: Network) -> Reason | None:
    """Why the heads of a hosted model are not cut out of its matrices."""
    hosted = (module for module in model.modules() if isinstance(module, HostedAttention))
    return next((module.unclear for module in hosted if not module.parts), None)


def head_weights(attention: MultiHeadAttention, projection: str) -> Float[Tensor, "head channel d_model"]:
    """W_Q, W_K, W_V or W_O of every head, W_O transposed; heads that share keys and values have the same ones."""
    if isinstance(attention, HostedAttention):
        return for_each_head(attention.parts[projection].weight.cpu(), attention.counts[0])
    weight = getattr(attention, projection).weight.detach().cpu()
    heads = attention.query.n_heads
    if projection == "output":
        return weight.T.unflatten(0, (heads, -1))
    own = weight.unflatten(0, (getattr(attention, projection).n_heads, -1))
    return for_each_head(own, heads)


def head_norms(attention: MultiHeadAttention) -> Float[Tensor, "projection head"]:
    """The Frobenius norm of W_Q, W_K, W_V and W_O of every head, in this order (`PROJECTIONS`)."""
    weights = [head_weights(attention, projection) for projection in PROJECTIONS]
    return torch.stack([torch.linalg.vector_norm(each, dim=(1, 2), dtype=torch.float64) for each in weights])


def head_similarity(attentions: Sequence[MultiHeadAttention], circuit: Circuit) -> Float[Tensor, "head head"]:
    """The cosine of every head's product of weights with every other's, heads of all the given attentions in order.

    scores: W_Qᵀ W_K, which makes scores of what two tokens hold; output: W_O W_V, which head moves what from one token
    to the other (Elhage et al., 2021). Biases, positions and norms of queries are left out. The (d_model, d_model)
    products are made some rows at a time. A head of zeros has cosine 0.
    """
    left, right = ("query", "key") if circuit == "scores" else ("value", "output")
    first, second = _of_all(attentions, left), _of_all(attentions, right)
    kept = torch.promote_types(first.dtype, torch.float32)
    first, second = first.to(kept).transpose(1, 2).contiguous(), second.to(kept)
    heads, rows = first.shape[:2]
    at_once = max(1, MOST // (heads * second.shape[2]))
    products = torch.zeros(heads, heads, dtype=torch.float64)
    for begin in range(0, rows, at_once):
        part = (first[:, begin : begin + at_once] @ second).flatten(1)
        products += part @ part.T
    lengths = products.diagonal().clamp(min=0).sqrt()
    scale = torch.where(lengths > 0, 1 / lengths, 0.0)
    return products * scale[:, None] * scale


def _of_all(attentions: Sequence[MultiHeadAttention], projection: str) -> Float[Tensor, "head channel d_model"]:
    """The heads of several attentions in a row; narrower ones get channels of zeros, which add nothing to a product."""
    weights = [head_weights(each, projection) for each in attentions]
    widest = max(each.shape[1] for each in weights)
    return torch.cat([F.pad(each, (0, 0, 0, widest - each.shape[1])) for each in weights])
