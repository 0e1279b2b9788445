"""KV cache of a model that writes: its bytes by formula, and those of the tensors that it keeps for a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.inference.text_model import TextModel


@dataclass(frozen=True)
class CacheSize:
    """Bytes of a cache after `tokens` were read or written, beside a source of `source` tokens, 0 where there is none.

    own: measured, of the keys and values of the tokens. cross: of those of the source. reserved: of the storage of
    both, where there is room for more. formula: own and cross by the model's options; None where these are unknown.
    """

    tokens: int
    source: int
    own: int
    cross: int
    reserved: int
    formula: int | None

    @property
    def measured(self) -> int:
        """All bytes that are kept."""
        return self.own + self.cross

    @property
    def deviation(self) -> float | None:
        """Relative difference of the measured bytes from those of the formula."""
        return None if self.formula is None else abs(self.measured - self.formula) / self.formula


def numbers_per_token(model: TextModel) -> int | None:
    """Numbers that all self-attentions keep for each token; None: it is unknown, or the model does not write.

    2 h_kv d_k of each layer; of latent attention the latent and the rotary key (DeepSeek-V2, section 2.1).
    """
    if model.kind == "encoder-only":
        return None
    layers = [model.config.cached_of(layer) for layer in range(model.config.n_decoder_layers)]
    return None if None in layers else sum(each for each in layers if each is not None)


def formula(model: TextModel, tokens: int, source: int = 0) -> int | None:
    """Bytes of the cache by the model's options; None: they are unknown."""
    each = numbers_per_token(model)
    if each is None:
        return None
    shape = model.config.shape_of("decoder")
    crossed = model.config.n_decoder_layers * 2 * shape.kv_heads * shape.d_head * source
    return (each * tokens + crossed) * model.dtype.itemsize


@torch.inference_mode()
def measure(model: TextModel, source: Sequence[int], target: Sequence[int], lengths: Sequence[int]) -> list[CacheSize]:
    """Sizes of the cache after so many tokens, shortest first, fed as a text that is written.

    source: ids that an encoder reads; empty of a model without one. target: ids of the text, fed again and again where
    a length is larger.

    Raises:
        ValueError: the model does not write, or goes on without a cache.
    """
    device = model.device
    ids = torch.tensor([[target[place % len(target)] for place in range(max(lengths))]], device=device)
    read = torch.tensor([list(source)], device=device) if source else ids[:, :1]
    state = model.network.read(read, padding=-1, start=-1)  # no padding; what a target starts with is among its ids
    sizes, done = [], 0
    for length in sorted(lengths):
        state.log_probabilities(ids[:, done:length])
        done = length
        parts = state.keys_and_values()
        own, cross = (sum(map(nbytes, tensors)) for tensors in parts)
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for part in parts for tensor in part}
        reserved = sum(storage.nbytes() for storage in storages.values())
        sizes.append(CacheSize(length, len(source), own, cross, reserved, formula(model, length, len(source))))
    return sizes


def nbytes(tensor: Tensor) -> int:
    """Bytes of a tensor's own elements."""
    return tensor.numel() * tensor.element_size()
