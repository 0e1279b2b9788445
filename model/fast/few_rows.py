"""Products and attention of a decoding step in NumPy, whose calls cost a fraction of torch's: a step of one token makes
a hundred, each with less than a microsecond's work.

On two cores of an AMD EPYC a step of `checkpoints/eng-cmn` takes a third of the time (tests/benchmarks/decoding.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import threadpoolctl
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from model.network.attention import HeadProjection, MultiHeadAttention
from model.network.kv_cache import Cache, GrowingCache, KeysAndValues
from model.network.masks import Mask

Array = NDArray[np.floating[Any]]
MOST_ROWS = 8  # above, torch's products gain more than their calls cost
LARGE = 1 << 22  # weights of a matrix from which several threads of torch gain more than NumPy's one


def suits(module: nn.Module) -> bool:
    """Whether a layer, or the output, is computed here: on the CPU, in a precision that NumPy has."""
    weights = list(module.parameters())
    if not weights or torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return False  # operations that are counted or redirected are torch's
    if torch.get_num_threads() > 1 and max(weight.numel() for weight in weights) >= LARGE:
        return False
    plain = all(weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64) for weight in weights)
    return plain and not torch.is_autocast_enabled("cpu") and _alone()


@cache
def _alone() -> bool:
    """NumPy's products on one thread from now on: two wait for each other longer than a small product takes."""
    threadpoolctl.threadpool_limits(limits=1, user_api="blas")
    return True


def as_array(x: Tensor) -> Array:
    """The numbers of x, in the same memory."""
    return x.detach().numpy()


def by_torch(function: Callable[..., Tensor]) -> Callable[..., Array]:
    """A function of tensors, and of functions of them, as one of arrays."""
    return lambda *inputs: as_array(function(*map(_as_tensor, inputs)))


def _as_tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return (lambda x: torch.from_numpy(value(as_array(x)))) if callable(value) else value


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def linear(module: nn.Linear) -> Callable[[Array], Array]:
    """x Wᵀ + b of x (batch, new, features): of one row in NumPy, of several by torch, whose product is the faster."""
    weight, bias = module.weight.detach(), None if module.bias is None else module.bias.detach()
    rows = as_array(weight)
    shift = None if bias is None else as_array(bias)

    def multiply(x: Array) -> Array:
        if x.shape[0] * x.shape[1] > 1:
            return F.linear(torch.from_numpy(x), weight, bias).numpy()
        product = rows @ x.reshape(-1)
        if shift is not None:
            product += shift
        return product.reshape(1, 1, -1)

    return multiply


def projection(module: HeadProjection) -> Callable[..., Array]:
    """Heads (batch, head, new, channel) of a projection; `first` is the position of the first token."""
    multiply, n_heads = linear(module), module.n_heads
    if type(module).split is HeadProjection.split:
        return lambda x, first=0: _split(multiply(x), n_heads)
    return lambda x, first=0: module.split(torch.from_numpy(multiply(x)), first).numpy()  # turned or normalised


def _split(projected: Array, n_heads: int) -> Array:
    batch, length, _ = projected.shape
    return projected.reshape(batch, length, n_heads, -1).swapaxes(1, 2)


def cached(
    cache: Cache, attention: MultiHeadAttention, key: Callable[..., Array], value: Callable[..., Array]
) -> Callable[[Any], tuple[Array, Array]]:
    """Function from new states to the keys and values of all: of an encoder's output, which is a tensor, once."""
    if not isinstance(cache, GrowingCache):
        return lambda memory: _arrays(cache(attention.keys_and_values, memory))

    def grown(states: Array) -> tuple[Array, Array]:
        first, end = cache.length, cache.length + states.shape[1]
        new = key(states, first), value(states)
        cache.make_room((torch.from_numpy(new[0]), torch.from_numpy(new[1])), end)
        assert cache.room is not None
        rooms = _arrays(cache.room)
        for room, added in zip(rooms, new, strict=True):
            room[:, :, first:end] = added
        cache.length = end
        return rooms[0][:, :, :end], rooms[1][:, :, :end]

    return grown


def _arrays(tensors: KeysAndValues) -> tuple[Array, Array]:
    return tensors[0].numpy(), tensors[1].numpy()


def attend(attention: MultiHeadAttention, query: Array, key: Array, value: Array, mask: Mask) -> Array:
    """softmax(Q Kᵀ / √d_k) V of every head (equation 1), side by side (batch, query, channels)."""
    queries, keys, groups = query.shape[-2], key.shape[-2], query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat(groups, axis=1), value.repeat(groups, axis=1)
    weights = query * query.dtype.type(attention.scaled.factor) @ key.swapaxes(-1, -2)
    bias = attention.biased.bias(queries, keys, torch.from_numpy(query))
    if bias is not None:
        weights += as_array(bias)
    if mask.is_plain(queries, keys) and (queries == 1 or not mask.causal):
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
    else:
        visible = mask.visible(queries, keys, torch.device("cpu")).numpy()
        weights = np.where(visible, weights, -np.inf)
        largest = weights.max(axis=-1, keepdims=True)
        weights = np.exp(weights - np.where(largest == -np.inf, 0, largest))
        total = weights.sum(axis=-1, keepdims=True)
        weights /= np.where(total == 0, 1, total)  # of a query that may look nowhere: zeros
    heads = weights @ value
    return heads.swapaxes(1, 2).reshape(heads.shape[0], queries, -1)
