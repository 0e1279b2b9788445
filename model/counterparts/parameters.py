"""A network's weights as families of Hugging Face want them: a bias everywhere, factors in the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from model.network.attention import for_each_head
from model.network.config import TransformerConfig
from model.network.positions import POSITIONS
from model.network.transformer import Network

Named = dict[str, Tensor]
Made = tuple[dict[str, Any], Named]  # a config, and tensors
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu"}
READERS, WRITERS = ("query", "key", "value", "hidden", "linear", "logits", "transform"), ("output",)


class Parameters:
    """The weights of a network by our names, tied ones under each of theirs."""

    def __init__(self, model: Network) -> None:
        self.config: TransformerConfig = model.config
        self._weights = {name: tensor.detach() for name, tensor in model.named_parameters(remove_duplicate=False)}

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[name]

    @property
    def tied(self) -> bool:
        """Whether the logits' matrix is the embedding's there too: not where a factor tells them apart."""
        config = self.config
        factors = config.scale_embedding or config.scale_output
        return config.tied_embeddings in ("output", "all") and not factors

    def layers(self, stack: str) -> int:
        return self.config.n_encoder_layers if stack == "encoder" else self.config.n_decoder_layers

    def embedding(self, stack: str, scaled: bool = True) -> Tensor:
        """Rows of tokens, times √d_model where our network multiplies them. scaled: False where theirs does too."""
        rows = self[f"{stack}.embedding.tokens.weight"]
        return rows * self.config.d_model**0.5 if self.config.scale_embedding and scaled else rows

    def output(self) -> Tensor:
        """The logits' matrix."""
        matrix = self["output.logits.weight"]
        return matrix * self.config.d_model**-0.5 if self.config.scale_output else matrix

    def positions(self, stack: str) -> Tensor:
        """A row for each position: learned, computed, or zeros."""
        learned = self._weights.get(f"{stack}.embedding.positions.table")
        if learned is not None:
            return learned
        rows = self[f"{stack}.embedding.tokens.weight"]
        nothing = rows.new_zeros(1, self.config.max_length, self.config.d_model)
        table = POSITIONS[self.config.position](self.config).to(rows)(nothing)
        return table.expand_as(nothing)[0].clone()

    def module(self, name: str, share: bool = True) -> tuple[Tensor, Tensor]:
        """Weight and bias of a module, zeros where it has none; of keys and values, those of shared heads repeated.

        share: False leaves shared heads as they are. Queries are times √d_k where our network does not divide by it.
        """
        weight, bias = self[f"{name}.weight"], self._weights.get(f"{name}.bias")
        bias = weight.new_zeros(weight.shape[0]) if bias is None else bias
        config, part = self.config, name.rpartition(".")[2]
        if part in ("key", "value") and share and config.kv_heads != config.n_heads:
            heads = (config.kv_heads, config.d_head)
            weight = for_each_head(weight.unflatten(0, heads), config.n_heads).flatten(0, 1)
            bias = for_each_head(bias.unflatten(0, heads)[..., None], config.n_heads).flatten()
        if part == "query" and not config.scale_attention:
            weight, bias = weight * config.d_head**0.5, bias * config.d_head**0.5
        return weight, bias

    def joined(self, layer: str, attention: str, parts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Several projections as one."""
        found = [self.module(f"{layer}.{attention}.{part}") for part in parts]
        return torch.cat([weight for weight, _bias in found]), torch.cat([bias for _weight, bias in found])

    def with_sines_first(self) -> Parameters:
        """The same network with the channels of its stream in another order: what was even first, then what was odd."""
        order = torch.cat([torch.arange(0, self.config.d_model, 2), torch.arange(1, self.config.d_model, 2)])
        made = object.__new__(Parameters)
        made.config = self.config
        made._weights = {name: _moved(name, tensor, order.to(tensor.device)) for name, tensor in self._weights.items()}
        return made


def _moved(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    *_above, module, part = name.split(".")
    if module == "norm" or (module in WRITERS and part == "bias") or (module in WRITERS and part == "weight"):
        return tensor[order]
    if module == "tokens" or (module in READERS and part == "weight"):
        return tensor[:, order]
    return tensor


def linear(named: Named, theirs: str, weight: Tensor, bias: Tensor | None) -> None:
    """A module of theirs."""
    named[f"{theirs}.weight"] = weight
    if bias is not None:
        named[f"{theirs}.bias"] = bias


def put(named: Named, own: Parameters, names: Iterable[tuple[str, str]]) -> None:
    """Modules of theirs, each with the weight and bias of one of ours."""
    for theirs, ours in names:
        linear(named, theirs, *own.module(ours))
