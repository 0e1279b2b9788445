"""One moment of a model in training, as it shows on a probe: small enough to keep thousands of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from model.analysis.heads import entropy
from model.attention import MultiHeadAttention
from model.inspectable import Inspectable
from model.norms import Norm
from model.tasks import find_task
from model.text import Tokens
from model.trace import AttentionKind, Trace, ordinary
from model.writing import Translator

KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)
LEVELS = 255  # an attention weight is kept as one of so many steps from 0 to 1
TOP = 5  # predictions kept for each position
TOKENS, PROBABILITIES, LOSS = "predictions.tokens", "predictions.probabilities", "loss"


@dataclass(frozen=True)
class Probe:
    """The text that a training is watched on. target: of a model with two stacks, what the decoder reads."""

    source: Tokens
    target: Tokens | None = None

    def labels(self, lens: Inspectable) -> list[int]:
        """What the model should say at each position, as far as that is known; none if it fills in hidden tokens."""
        if self.target is not None:
            return [*self.target.ids[1:], lens.target_tokenizer.end]
        return self.source.ids[1:] if lens.kind == "decoder-only" else []


def probe_of(lens: Inspectable, source: str, target: str = "", task: str = "") -> Probe:
    """The probe of these texts. An empty target is what the rule of `task` makes of the source, else what the model
    writes for it now; models with one stack have none.
    """
    tokens = lens.source_tokens(source)
    if not isinstance(lens, Translator):
        return Probe(tokens)
    if task and not target:
        with suppress(ValueError):  # a source that is none of the task
            target = find_task(task).solve(source)
    return Probe(tokens, lens.target_tokens(target) if target else lens.trace_generated(tokens)[1])


@dataclass(frozen=True)
class Frame:
    """weights: attention of every kind, layer and head, 0 to 255. values: all else; `Camera.slots` says where."""

    step: int
    weights: npt.NDArray[np.uint8]
    values: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        return self.weights.nbytes + self.values.nbytes


@dataclass(frozen=True)
class Slot:
    """Where a quantity stands in the frames of a camera."""

    of_weights: bool
    first: int
    shape: tuple[int, ...]

    @property
    def unit(self) -> int:
        """What stands for 1."""
        return LEVELS if self.of_weights else 1

    def read(self, frames: Sequence[Frame]) -> npt.NDArray[np.generic]:
        """(frame, …) of these frames."""
        part = slice(self.first, self.first + math.prod(self.shape))
        rows = [(frame.weights if self.of_weights else frame.values)[part] for frame in frames]
        kind = np.uint8 if self.of_weights else np.float32
        return np.array(rows, dtype=kind).reshape(len(frames), *self.shape)


class Camera:
    """Takes frames of the model of a lens on one probe.

    slots: for each attention kind that the model has (layer, head, query, key); for each norm `PATH.mean` and
    `PATH.std` (position); for the residual stream `PATH.residual` and `STACK.embedding.output`, Euclidean norms
    (position); the most probable tokens and their probabilities (position, rank); the loss in nats per known token.
    """

    def __init__(self, lens: Inspectable, probe: Probe) -> None:
        self.lens, self.probe = lens, probe
        self.labels = torch.tensor(probe.labels(lens), dtype=torch.long, device=lens.device)
        self.slots: dict[str, Slot] = {}

    def take(self, step: int) -> tuple[Frame, dict[str, float]]:
        """A frame, and the figures of this moment for the curves."""
        with torch.inference_mode():
            trace = self.lens.trace_tokens(self.probe.source, self.probe.target)
            maps = {kind: weights_of(trace, kind) for kind in KINDS if trace.attention_paths(kind)}
            values = self._values(trace)
            if not self.slots:
                self.slots = {**_slots(maps, of_weights=True), **_slots(values, of_weights=False)}
            weights = torch.cat([_levels(each).flatten() for each in maps.values()])
            flat = torch.cat([each.flatten() for each in values.values()])
            figures = {**_entropies(trace, maps), **_idle_units(trace), "probe loss": float(values[LOSS])}
        return Frame(step, weights.cpu().numpy(), flat.cpu().numpy()), figures

    def _values(self, trace: Trace) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        for names in _by_stack(trace.norm_paths()):
            inputs = torch.stack([trace[f"{name}.input"] for name in names]).float()
            means, deviations = Norm.mean(inputs), Norm.std(inputs)
            for name, mean, deviation in zip(names, means, deviations, strict=True):
                values |= {f"{name}.mean": mean, f"{name}.std": deviation}
        for names in _by_stack(_stream(trace)):
            states = torch.stack([trace[name] for name in names]).float()
            values |= dict(zip(names, states.norm(dim=-1), strict=True))
        log_probabilities = trace["output.logits"].float().log_softmax(dim=-1)
        best, tokens = log_probabilities.topk(min(TOP, log_probabilities.shape[-1]), dim=-1)
        known = log_probabilities[: len(self.labels)].gather(1, self.labels[:, None])
        return values | {TOKENS: tokens.float(), PROBABILITIES: best.exp(), LOSS: -known.mean()}


def weights_of(trace: Trace, kind: AttentionKind) -> Float[Tensor, "layer head query key"]:
    """`trace.attention(kind)` in float32, all layers at once: the steps from query to weight have no weights."""
    paths = trace.attention_paths(kind)
    attention = trace.model.get_submodule(paths[0])
    assert isinstance(attention, MultiHeadAttention)
    query, key = (torch.stack([trace[f"{path}.{side}"] for path in paths]) for side in ("query", "key"))
    visible = trace[f"{paths[0]}.visible"]
    with ordinary():
        biased = attention.biased(attention.scaled(attention.scores(query, key)))
        return attention.weights(attention.masked(biased, visible), visible).float()


def _levels(weights: Float[Tensor, "layer head query key"]) -> UInt8[Tensor, "layer head query key"]:
    return (weights * LEVELS).round_().clamp_(0, LEVELS).to(torch.uint8)


def _slots(tensors: Mapping[Any, Tensor], of_weights: bool) -> dict[str, Slot]:
    slots: dict[str, Slot] = {}
    first = 0
    for name, tensor in tensors.items():
        slots[name] = Slot(of_weights, first, tuple(tensor.shape))
        first += tensor.numel()
    return slots


def _stream(trace: Trace) -> list[str]:
    """The names of the residual stream: what enters each stack, and what each block leaves."""
    return [name for name in trace.names() if name.endswith((".residual", ".embedding.output"))]


def _by_stack(names: Sequence[str]) -> list[list[str]]:
    """Names of the encoder and of the decoder apart: their texts differ in length."""
    stacks = ([name for name in names if name.startswith(stack)] for stack in ("encoder.", "decoder."))
    return [found for found in stacks if found]


def _entropies(trace: Trace, maps: dict[AttentionKind, Tensor]) -> dict[str, float]:
    """The entropy of every head on the probe, in nats."""
    found: dict[str, float] = {}
    for kind, weights in maps.items():
        for path, heads in zip(trace.attention_paths(kind), entropy(weights).tolist(), strict=True):
            found |= {f"entropy/{path}/{head}": value for head, value in enumerate(heads)}
    return found


def _idle_units(trace: Trace) -> dict[str, float]:
    """The share of each feed-forward's units that stay at or below 0 at every position of the probe.

    For ReLU these are dead on the probe: their output is 0, and so is their gradient.
    """
    names = [name for name in trace.names() if name.endswith(".feed_forward.hidden")]
    return {
        f"dead units/{name.removesuffix('.hidden')}": float((trace[name] <= 0).all(dim=0).float().mean())
        for name in names
    }
