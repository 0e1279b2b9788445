"""record(): look into one forward pass. Trace: every quantity of the pass, by name."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from model.capture.hooks import changed, changes_to, no_recording, observe, recording
from model.network.attention import MAPS, MultiHeadAttention, for_each_head
from model.network.config import TWO_STACKS
from model.network.kernels import are_plain, plain_kernels
from model.network.masks import Mask
from model.network.norms import Norm
from model.network.positions import Unbiased
from model.network.transformer import Network
from model.runtime.errors import require
from model.runtime.locks import Lock

LARGEST_MAP = 1 << 18  # most numbers of a map that is kept after it was computed
# Of each network: names of the quantities of a whole pass, and modules by their paths.
_attached: WeakKeyDictionary[nn.Module, list[str]] = WeakKeyDictionary()
_parts: WeakKeyDictionary[nn.Module, dict[str, nn.Module]] = WeakKeyDictionary()
_attaching = Lock("hooks")


class Trace:
    """Quantities of one forward pass on one example; tensors stay on their device and have no batch dimension.

    The trace of a pass over a batch is that of its first example; `example` gives the others.
    maps: whether the pass itself recorded the attention maps; otherwise they are computed on demand. size: bytes that
    it has recorded. room: what holds the promise of its memory, None where nobody made one.
    """

    size = 0
    room: object = None

    def __init__(self, network: Network, maps: bool = False) -> None:
        self.network, self.maps, self._example, self._modules = network, maps, 0, _parts.setdefault(network, {})
        self.changes = changes_to(network)
        self.source_tokens: list[str] = []
        self.target_tokens: list[str] = []
        self.special_labels: frozenset[str] = frozenset()
        self._tensors: dict[str, Tensor] = {}
        self._norm_inputs: dict[str, Tensor] = {}
        self._masks: dict[str, Mask] = {}
        self._maps: dict[str, Tensor] = {}
        self._steps: dict[str, list[str]] = {}
        self._fused: set[str] = set()

    def names(self) -> list[str]:
        """Names of all quantities, in order of computation."""
        names: list[str] = []
        for name in self._tensors:
            path, _, quantity = name.rpartition(".")
            if path in self._masks and quantity == ("scores" if self.maps else "heads"):
                names += [f"{path}.visible", *(f"{path}.{part}" for part in self.maps_of(path) if not self.maps)]
            elif path in self._norm_inputs:
                names += [f"{path}.{part}" for part in NORM_PARTS]
            names.append(name)
        return names

    def recorded(self) -> list[str]:
        """Names of the quantities that the pass itself recorded, in order of computation."""
        return list(self._tensors)

    def dtype(self) -> torch.dtype:
        """Precision of the last quantity of the pass."""
        return next(reversed(self._tensors.values())).dtype

    def __contains__(self, name: str) -> bool:
        path, _, quantity = name.rpartition(".")
        return name in self._tensors or quantity in self._on_demand(path)

    def __getitem__(self, name: str) -> Tensor:
        """Quantity of this name: (head, query, channel), (head, query, key), (position, d_model) …

        Raises:
            MissingQuantityError: this network lacks the quantity, which others have.
            KeyError: no quantity has this name.
        """
        path, _, quantity = name.rpartition(".")
        if name in self._tensors:
            return self._one(self._tensors[name])
        if name in self._maps:
            return self._maps[name]
        if quantity in self._on_demand(path):
            if EXPERT in path:
                return self.keep(name, self._units_of_expert(path, quantity))
            if path in self._masks:
                return self.keep(name, self._map(path, quantity))
            x = self._one(self._norm_inputs[path])
            return x if quantity == "input" else getattr(Norm, quantity)(x)
        require(self.network, name)
        raise KeyError(f"{name!r} is not a quantity of this trace; names() lists them")

    def examples(self, name: str) -> Float[Tensor, "example ..."]:
        """Quantity that the pass recorded, or the input of a norm, of all examples of the batch."""
        norm_input = self._norm_inputs.get(name.removesuffix(".input")) if name.endswith(".input") else None
        return self._tensors[name] if norm_input is None else norm_input

    def attention(self, kind: AttentionKind) -> Float[Tensor, "layer head query key"]:
        """Attention weights of all layers and heads of one kind, by either name in a model of one stack."""
        paths = self.attention_paths(kind)
        if not paths and kind != "cross" and self.network.kind not in TWO_STACKS:
            paths = self.attention_paths("decoder" if kind == "encoder" else "encoder")
        return torch.stack([self[f"{path}.weights"] for path in paths])

    @property
    def attention_kinds(self) -> list[AttentionKind]:
        """Kinds of attention that the network has."""
        return [kind for kind in get_args(AttentionKind) if self.attention_paths(kind)]

    def attention_paths(self, kind: AttentionKind) -> list[str]:
        """Paths of the attentions of one kind, first layer first; empty if the network has none."""
        paths = (ATTENTION_PATHS[kind].format(layer) for layer in range(len(self._masks)))
        return [path for path in paths if path in self._masks]

    def norm_paths(self) -> list[str]:
        """Paths of the norms, in order of computation."""
        return list(self._norm_inputs)

    def tokens_of(self, name: str) -> list[str]:
        """Tokens at the positions of a quantity: the source's in an encoder or without a target, else the target's."""
        one_stack = not self.target_tokens
        return self.source_tokens if one_stack or name.startswith("encoder.") else self.target_tokens

    def values(self, path: str) -> Float[Tensor, "head key channel"]:
        """Values of every head of the attention at `path`, repeated where heads share them."""
        return for_each_head(self[f"{path}.value"], self[f"{path}.query"].shape[-3])

    def example(self, index: int) -> Trace:
        """Trace of another example of the same batch; it shares the tensors."""
        other = copy.copy(self)
        other._example, other._maps, other.source_tokens, other.target_tokens = index, {}, [], []
        return other

    def keep(self, name: str, tensor: Shaped[Tensor, "*head query key"]) -> Tensor:
        """Map `tensor` (head, query, key), which is kept by this name from now on unless it is large."""
        if tensor.numel() <= LARGEST_MAP:
            self._maps[name] = tensor
        return tensor

    def on(self, network: Network) -> Trace:
        """This trace with `network`, a copy with the same weights, in the place of its own; it shares the tensors."""
        other = copy.copy(self)
        other.network, other._modules = network, _parts.setdefault(network, {})
        return other

    def maps_of(self, path: str) -> list[str]:
        """Names of the maps of the attention at `path`, in order of computation."""
        return self._steps.get(path) or self._steps.setdefault(path, list(self.attention_at(path).maps))

    def module(self, path: str) -> nn.Module:
        """Module of the network at `path`, looked up once for all traces."""
        return self._modules.get(path) or self._modules.setdefault(path, self.network.get_submodule(path))

    def attention_at(self, path: str) -> MultiHeadAttention:
        """Attention of the network at `path`, one of `attention_paths`."""
        attention = self.module(path)
        assert isinstance(attention, MultiHeadAttention)
        return attention

    def has_weights(self, path: str) -> bool:
        """True if the pass itself recorded the weights of the attention at `path`."""
        return f"{path}.weights" in self._tensors

    def is_fused(self, path: str) -> bool:
        """True if a fused kernel computed the heads of the attention at `path` in the pass."""
        return path in self._fused

    def keep_kernel(self, path: str, is_fused: bool) -> None:
        """Note by which kernel torch computes the heads of the attention at `path` in the pass."""
        if is_fused:
            self._fused.add(path)

    def mask(self, path: str) -> Mask:
        """Mask of the attention at `path`, for the whole batch."""
        return self._masks[path]

    def visible(self, path: str, mask: Mask | None = None) -> Bool[Tensor, "head query key"]:
        """Mask of the attention at `path`, or `mask`, as a tensor; head is 1 where all heads have the same rule."""
        if self.has_weights(path):
            weights = self._tensors[f"{path}.weights"]
            (queries, keys), device = weights.shape[-2:], weights.device
        else:
            query, key = (self._tensors[f"{path}.{name}"] for name in ("query", "key"))
            queries, keys, device = query.shape[-2], key.shape[-2], query.device
        return self._one((mask or self._masks[path]).visible(queries, keys, device))

    def _one(self, tensor: Tensor) -> Tensor:
        return tensor[self._example if tensor.shape[0] > 1 else 0]  # len() of a tensor is slow

    def _on_demand(self, path: str) -> tuple[str, ...]:
        """Quantities at `path` that are computed when asked for."""
        if path in self._masks:
            return (*self.maps_of(path), "visible")
        if EXPERT in path:
            return self._quantities_of_expert(path)
        return NORM_PARTS if path in self._norm_inputs else ()

    def _quantities_of_expert(self, path: str) -> tuple[str, ...]:
        """Quantities of the units of the expert at `path`; none where there is no such expert."""
        of_all, _, number = path.rpartition(EXPERT)
        if f"{of_all}.gates" not in self._tensors or not number.isdecimal():
            return ()
        experts: Any = getattr(self.module(of_all), "experts", ())
        return experts.quantities if int(number) < len(experts) else ()

    def _units_of_expert(self, path: str, quantity: str) -> Float[Tensor, "position unit"]:
        """Units of an expert on what it read; NaN at positions that do not go through it."""
        of_all, _, number = path.rpartition(EXPERT)
        gates, module = self[f"{of_all}.gates"], self.module(of_all)
        x = module.read_by(int(number), self[f"{of_all}.routed"], gates)  # type: ignore[operator]
        taken = gates[:, int(number)] != 0
        with torch.inference_mode(), no_recording():
            units: Tensor = self.network.get_submodule(path).units(x[taken])[quantity]  # type: ignore[operator]
        return units.new_full((len(taken), units.shape[-1]), torch.nan).masked_scatter(taken[:, None], units)

    def _map(self, path: str, quantity: str) -> Tensor:
        """Map of the recorded query and key, by the network's own modules, with the changes of the pass; `visible` is
        True where any head may look.
        """
        visible = self.visible(path)
        if quantity == "visible":
            return visible.any(dim=0)
        bias = self[f"{path}.bias"] if f"{path}.bias" in self._tensors else None
        with torch.inference_mode(), no_recording(), changed(self.network, self.changes):
            steps = self.attention_at(path).steps(self[f"{path}.query"], self[f"{path}.key"], visible, bias)
            return next(tensor for name, tensor in steps if name == quantity)

    def _keep_output(self, path: str, name: str, inputs: Sequence[Any], output: Tensor) -> None:
        if name in self._tensors:
            raise RuntimeError(f"{name} was computed twice inside one record(): use one record() a forward pass")
        self._tensors[name] = output
        self.size += output.nbytes

    def _keep_norm(self, path: str, name: str, inputs: Sequence[Any], output: Tensor) -> None:
        self._keep_output(path, name, inputs, output)
        self._norm_inputs[path] = inputs[0]

    def _keep_mask(self, path: str, name: str, inputs: Sequence[Any], output: Tensor) -> None:
        self._masks[path] = inputs[2]

    def _require_complete(self) -> None:
        absent = [name for name in _attached[self.network] if name not in self._tensors]
        if missing := [name for name in absent if self.maps or name.rpartition(".")[2] not in MAPS]:
            missed = f"{missing[0]} ({len(missing)} such)"
            raise RuntimeError(f"the forward pass left no {missed}: run the whole model once inside record()")


@contextmanager
def record(network: Network, maps: bool = False) -> Iterator[Trace]:
    """Record every quantity of the one forward pass of `network` inside the `with` block.

    maps: whether attention maps are computed inside the pass and recorded, instead of on demand.

    Raises:
        RuntimeError: a quantity was computed twice, or not at all.
    """
    attach(network)
    with plain_kernels(maps):
        trace = Trace(network, are_plain())
        before = recording.set((*recording.get(), trace))
        try:
            yield trace
        finally:
            recording.reset(before)
    trace._require_complete()


def attach(network: nn.Module) -> None:
    """Observe every module whose output is a quantity of a trace; done once for each network."""
    with _attaching:
        if network in _attached:
            return
        names = []
        for path, module in list(network.named_modules()):
            if EXPERT in path:  # an expert computes a part of the tokens: see `_units_of_expert`
                continue
            part_of, _, name = path.rpartition(".")
            if isinstance(module, MultiHeadAttention):
                observe(module, network, path, path, Trace._keep_mask)
            if isinstance(module, Norm):
                names.append(f"{path}.output")
                observe(module, network, path, names[-1], Trace._keep_norm)
            elif part_of and name in OBSERVED and not isinstance(module, Unbiased):
                names.append(path)
                observe(module, network, path, path, Trace._keep_output)
        _attached[network] = names


# Names of the quantities of a trace.

AttentionKind = Literal["encoder", "decoder", "cross"]
ATTENTION_PATHS: dict[str, str] = {
    "encoder": "encoder.layers.{}.self_attention",
    "decoder": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
}
NORM_PARTS = ("input", "mean", "std")  # beside a norm's output
EXPERT = ".experts."  # between the path of a mixture of experts and the number of one
# Names of the modules whose output is a quantity of a trace; its name is the module's path.
OBSERVED = frozenset(
    {"query", "key", "value", "heads", "output", "bias", *MAPS}
    | {"hidden", "activation", "residual", "tokens", "positions", "types", "logits"}
    | {"linear", "gated", "transform", "sink", "router", "routed", "gates"}
    | {"reset", "update", "candidate", "states", "annotations", "energies", "context", "readout"}
)
