"""One moment of a model in training, as it shows on a probe: small enough to keep thousands of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
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
NORMS = "norms"  # all norms in one row, in the order of their slots


@dataclass(frozen=True)
class Probe:
    """The text that a training is watched on. target: of a model with two stacks, what the decoder reads."""

    source: Tokens
    target: Tokens | None = None

    def labels(self, lens: Inspectable) -> list[int]:
        """What the model should say at each position, as far as that is known; none if it fills in hidden tokens."""
        if self.target is not None:
            return [*self.target.ids[1:], *lens.target_tokenizer.ending]
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
    (position); all of these once more as `norms`; the most probable tokens and their probabilities (position, rank);
    the loss in nats per known token.
    """

    def __init__(self, lens: Inspectable, probe: Probe) -> None:
        self.lens, self.probe = lens, probe
        self.labels = torch.tensor(probe.labels(lens), dtype=torch.long, device=lens.device)
        self.slots: dict[str, Slot] = {}
        self._found: _Found | None = None

    def take(self, step: int) -> tuple[Frame, dict[str, float]]:
        """A frame, and the figures of this moment for the curves."""
        with torch.inference_mode():
            trace = self.lens.trace_tokens(self.probe.source, self.probe.target)
            found = self._found = self._found or _Found.within(trace)
            maps = {kind: self._weights(trace, found, kind) for kind in found.attention}
            blocks = self._blocks(trace, found)
            if not self.slots:
                of_maps: list[Block] = [([kind], weights[None]) for kind, weights in maps.items()]
                self.slots = {**_slots(of_maps, of_weights=True), **_slots(blocks, of_weights=False)}
                self.slots[NORMS] = Slot(False, 0, (self.slots[TOKENS].first,))
            weights = torch.cat([(each * LEVELS).round_().flatten() for each in maps.values()]).to(torch.uint8)
            values = torch.cat([block.flatten() for _, block in blocks])
            figures = _entropies(found, maps) | _idle_units(trace, found) | {"probe loss": float(values[-1])}
        return Frame(step, weights.cpu().numpy(), values.cpu().numpy()), figures

    def _weights(self, trace: Trace, found: _Found, kind: AttentionKind) -> Float[Tensor, "layer head query key"]:
        """`trace.attention(kind)` in float32, all layers at once: the steps from query to weight have no weights."""
        paths, visible, attention = found.attention[kind], found.visible[kind], found.modules[kind]
        query, key = (torch.stack([trace[f"{path}.{side}"] for path in paths]) for side in ("query", "key"))
        with ordinary():
            biased = attention.biased(attention.scaled(attention.scores(query, key)))
            return attention.weights(attention.masked(biased, visible), visible).float()

    def _blocks(self, trace: Trace, found: _Found) -> list[Block]:
        blocks: list[Block] = []
        for names in found.norms:
            inputs = torch.stack([trace[f"{name}.input"] for name in names]).float()
            blocks += [([f"{name}.mean" for name in names], Norm.mean(inputs))]
            blocks += [([f"{name}.std" for name in names], Norm.std(inputs))]
        for names in found.stream:
            blocks += [(names, torch.stack([trace[name] for name in names]).float().norm(dim=-1))]
        log_probabilities = trace["output.logits"].float().log_softmax(dim=-1)
        best, tokens = log_probabilities.topk(min(TOP, log_probabilities.shape[-1]), dim=-1)
        known = log_probabilities[: len(self.labels)].gather(1, self.labels[:, None])
        return [
            *blocks,
            ([TOKENS], tokens.float()[None]),
            ([PROBABILITIES], best.exp()[None]),
            ([LOSS], -known.mean()[None]),
        ]


Block = tuple[list[str], Tensor]  # quantities of one shape: their names, and (quantity, …)


@dataclass(frozen=True)
class _Found:
    """What there is in every trace of one probe: looked up once. Names of encoder and decoder are in lists apart."""

    attention: dict[AttentionKind, list[str]]
    modules: dict[AttentionKind, MultiHeadAttention]
    visible: dict[AttentionKind, Bool[Tensor, "query key"]]
    norms: list[list[str]]
    stream: list[list[str]]  # what enters each stack, and what each block leaves
    hidden: list[list[str]]

    @classmethod
    def within(cls, trace: Trace) -> _Found:
        attention = {kind: paths for kind in KINDS if (paths := trace.attention_paths(kind))}
        modules = {kind: trace.module(paths[0]) for kind, paths in attention.items()}
        names = trace.names()
        return cls(
            attention,
            {kind: module for kind, module in modules.items() if isinstance(module, MultiHeadAttention)},
            {kind: trace[f"{paths[0]}.visible"] for kind, paths in attention.items()},
            _by_stack(trace.norm_paths()),
            _by_stack(name for name in names if name.endswith((".residual", ".embedding.output"))),
            _by_stack(name for name in names if name.endswith(".feed_forward.hidden")),
        )


def _slots(blocks: Iterable[Block], of_weights: bool) -> dict[str, Slot]:
    slots: dict[str, Slot] = {}
    first = 0
    for names, block in blocks:
        for name, tensor in zip(names, block, strict=True):
            slots[name] = Slot(of_weights, first, tuple(tensor.shape))
            first += tensor.numel()
    return slots


def _by_stack(names: Iterable[str]) -> list[list[str]]:
    """The texts of encoder and decoder differ in length."""
    given = list(names)
    stacks = ([name for name in given if name.startswith(stack)] for stack in ("encoder.", "decoder."))
    return [found for found in stacks if found]


def _entropies(found: _Found, maps: Mapping[AttentionKind, Tensor]) -> dict[str, float]:
    """The entropy of every head on the probe, in nats."""
    return {
        f"entropy/{path}/{head}": value
        for kind, weights in maps.items()
        for path, heads in zip(found.attention[kind], entropy(weights).tolist(), strict=True)
        for head, value in enumerate(heads)
    }


def _idle_units(trace: Trace, found: _Found) -> dict[str, float]:
    """The share of each feed-forward's units that stay at or below 0 at every position of the probe.

    For ReLU these are dead on the probe: their output is 0, and so is their gradient.
    """
    shares: dict[str, float] = {}
    for names in found.hidden:
        idle = torch.stack([trace[name] for name in names]).amax(dim=1) <= 0
        for name, share in zip(names, idle.float().mean(dim=-1).tolist(), strict=True):
            shares[f"dead units/{name.removesuffix('.hidden')}"] = share
    return shares
