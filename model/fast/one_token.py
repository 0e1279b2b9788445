"""A decoding step of one token in NumPy, whose calls cost a fraction of torch's: a step makes a hundred small ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import threadpoolctl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.network.attention import HeadProjection, MultiHeadAttention
from model.network.kv_cache import Cache, GrowingCache, KeysAndValues
from model.network.masks import Mask

Array = NDArray[np.floating[Any]]
LARGE = 1 << 22  # weights of a matrix from which several threads of torch gain more than NumPy's one


def suits(module: nn.Module) -> bool:
    """True if a layer, or the output, is computed here: on the CPU, in a precision that NumPy has."""
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
    """x Wᵀ + b of one token x (1, 1, features)."""
    weight, bias = as_array(module.weight), None if module.bias is None else as_array(module.bias)

    def multiply(x: Array) -> Array:
        product = weight @ x.reshape(-1)
        if bias is not None:
            product += bias
        return product.reshape(1, 1, -1)

    return multiply


def projection(module: HeadProjection) -> Callable[..., Array]:
    """Heads (1, head, 1, channel) of a projection; `first` is the position of the token."""
    multiply, n_heads = linear(module), module.n_heads
    if type(module).split is HeadProjection.split:
        return lambda x, first=0: multiply(x).reshape(1, n_heads, 1, -1)  # noqa: ARG005 - others turn by it
    return lambda x, first=0: module.split(torch.from_numpy(multiply(x)), first).numpy()  # turned or normalised


def cached(
    cache: Cache, attention: MultiHeadAttention, key: Callable[..., Array], value: Callable[..., Array]
) -> Callable[[Any], tuple[Array, Array]]:
    """Function from the newest state to the keys and values of all; those of an encoder's output, a tensor, stay."""
    if not isinstance(cache, GrowingCache):
        return lambda memory: _arrays(cache(attention.keys_and_values, memory))

    def grown(states: Array) -> tuple[Array, Array]:
        first, end = cache.length, cache.length + 1
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
    """softmax(Q Kᵀ / √d_k) V of every head (equation 1) for one query (1, head, 1, channel), side by side."""
    keys, groups = key.shape[-2], query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat(groups, axis=1), value.repeat(groups, axis=1)
    scores = query * query.dtype.type(attention.scaled.factor) @ key.swapaxes(-1, -2)
    bias = attention.biased.bias(1, keys, torch.from_numpy(query))
    if bias is not None:
        scores += as_array(bias)
    if not mask.is_plain(1, keys):
        visible = mask.visible(1, keys, torch.device("cpu")).numpy()
        if not visible.any():
            return np.zeros((1, 1, query.shape[1] * value.shape[-1]), query.dtype)
        scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    heads: Array = weights @ value
    return heads.reshape(1, 1, -1)
