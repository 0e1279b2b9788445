"""Frames: what a model computes on a probe at one step of its training, small enough to keep thousands of them."""

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

from model.analysis.feed_forward import off, quantities, threshold
from model.analysis.head_metrics import entropy
from model.capture.hooks import no_recording
from model.capture.trace import AttentionKind, Trace
from model.data.sources import TrainingData, Translations
from model.data.tasks import find_task
from model.inference.models import Translator
from model.inference.text_model import TextModel
from model.network.attention import MultiHeadAttention
from model.network.norms import Norm
from model.network.transformer import Network
from model.text.tokenizer import Tokens

KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)
LEVELS = 255  # an attention weight is kept as a multiple of 1 / LEVELS
TOP = 5  # predictions kept for each position
TOKENS, PROBABILITIES, LOSS = "predictions.tokens", "predictions.probabilities", "loss"
NORMS = "norms"  # all slots of norms in one row, in their order


@dataclass(frozen=True)
class Frame:
    """Quantities of one step, in the order of `Camera.slots`.

    weights: attention of every kind, layer and head, 0 to 255. values: all other quantities.
    """

    step: int
    weights: npt.NDArray[np.uint8]
    values: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        """Bytes of the quantities."""
        return self.weights.nbytes + self.values.nbytes


@dataclass(frozen=True)
class Slot:
    """Place of a quantity in the frames of a camera: in their weights or values, from element `first` on."""

    of_weights: bool
    first: int
    shape: tuple[int, ...]

    @property
    def unit(self) -> int:
        """Number that stands for 1."""
        return LEVELS if self.of_weights else 1

    def read(self, frames: Sequence[Frame]) -> npt.NDArray[np.generic]:
        """Quantity (frame, …) of some frames, as it is kept."""
        part = slice(self.first, self.first + math.prod(self.shape))
        rows = [(frame.weights if self.of_weights else frame.values)[part] for frame in frames]
        kind = np.uint8 if self.of_weights else np.float32
        return np.array(rows, dtype=kind).reshape(len(frames), *self.shape)


class Camera:
    """Camera that takes frames of a model on one probe.

    slots: for each attention kind that the model has (layer, head, query, key); for each norm `PATH.mean` and
    `PATH.std` (position); for the residual stream `PATH.residual` and `STACK.embedding.output`, Euclidean norms
    (position); all of these once more as `norms`; the most probable tokens and their probabilities (position, rank);
    the loss in nats per known token. latest: step of the newest frame, and the trace from which it was taken.
    """

    def __init__(self, model: TextModel, probe: Probe) -> None:
        self.model, self.probe = model, probe
        self.labels = torch.tensor(probe.labels(model), dtype=torch.long, device=model.device)
        self.slots: dict[str, Slot] = {}
        self.latest: tuple[int, Trace] | None = None
        self._layout: _Layout | None = None

    def take(self, steps: Iterable[int], several: TextModel | None = None) -> list[tuple[Frame, dict[str, float]]]:
        """Frame of each step, and the figures of that step for the curves.

        steps: the model has the weights of a step as soon as the iterator yields it. several: a model with the weights
        of all steps, which reads them in one pass, see `BatchedWeights`.
        """
        with torch.inference_mode():
            if several:
                taken = list(steps)
                looks = [self._look(several, len(taken))]
            else:
                taken, looks = [], []
                for step in steps:
                    taken.append(step)
                    looks.append(self._look(self.model))
            if not taken:
                return []
            frames = self._frames(taken, looks)
        self.latest = taken[-1], looks[-1].trace.on(self.model.network)
        return frames

    def _look(self, model: TextModel, times: int = 1) -> _Look:
        trace = model.trace_tokens(self.probe.source, self.probe.target, times)
        layout = self._layout = self._layout or _Layout.of(trace)
        biases: dict[AttentionKind, Tensor] = {}
        for kind, paths in layout.attention.items():
            query, (queries, keys) = trace[f"{paths[0]}.query"], layout.visible[kind].shape
            if (bias := layout.modules[kind].biased.bias(queries, keys, query)) is not None:
                biases[kind] = bias
        return _Look(trace, layout, times, biases)

    def _frames(self, steps: Sequence[int], looks: Sequence[_Look]) -> list[tuple[Frame, dict[str, float]]]:
        """Frames of all steps at once: those of a tiny model cost calls, not products."""
        newest, layout = looks[-1].trace, looks[-1].layout
        maps = {kind: _weights(looks, kind) for kind in layout.attention}
        for kind, paths in layout.attention.items():
            for path, weights in zip(paths, maps[kind][-1].clone(), strict=True):  # for views of this trace
                newest.keep(f"{path}.weights", weights)
        blocks = self._blocks(looks)
        if not self.slots:
            of_maps: list[Block] = [([kind], weights[:, None]) for kind, weights in maps.items()]
            self.slots = {**_slots(of_maps, of_weights=True), **_slots(blocks, of_weights=False)}
            self.slots[NORMS] = Slot(False, 0, (self.slots[TOKENS].first,))
        weights = torch.cat([(scaled * LEVELS).round_().flatten(1) for scaled in maps.values()], dim=1).to(torch.uint8)
        values = torch.cat([block.flatten(1) for _, block in blocks], dim=1).cpu()
        columns = (
            _entropies(layout, maps) | _idle_units(self.model.network, looks) | {"probe loss": values[:, -1].tolist()}
        )
        rows = zip(steps, weights.cpu().numpy(), values.numpy(), zip(*columns.values(), strict=True), strict=True)
        return [
            (Frame(step, levels.copy(), numbers.copy()), dict(zip(columns, figures, strict=True)))
            for step, levels, numbers, figures in rows
        ]

    def _blocks(self, looks: Sequence[_Look]) -> list[Block]:
        blocks: list[Block] = []
        for names in looks[0].layout.norms:
            inputs = _stacked(looks, [f"{name}.input" for name in names]).float()
            blocks.append(([f"{name}.mean" for name in names], Norm.mean(inputs)))
            blocks.append(([f"{name}.std" for name in names], Norm.std(inputs)))
        for names in looks[0].layout.stream:
            blocks.append((names, _stacked(looks, names).float().norm(dim=-1)))
        log_probabilities = _stacked(looks, ["output.logits"]).float().log_softmax(dim=-1)
        best, tokens = log_probabilities.topk(min(TOP, log_probabilities.shape[-1]), dim=-1)
        labels = self.labels.expand(len(log_probabilities), -1)[:, :, None]
        known = log_probabilities[:, 0, : len(self.labels)].gather(2, labels)
        predictions = [([TOKENS], tokens.float()), ([PROBABILITIES], best.exp())]
        return [*blocks, *predictions, ([LOSS], -known.mean(dim=1))]


@dataclass(frozen=True)
class _Look:
    """A forward pass on the probe, at `times` steps in one batch. trace: of the last of them.

    biases: what positions added to the scores, which is the same in all layers of a stack and at all these steps.
    """

    trace: Trace
    layout: _Layout
    times: int
    biases: Mapping[AttentionKind, Float[Tensor, "head query key"]]


Block = tuple[list[str], Tensor]  # quantities of one shape: their names, and (frame, quantity, …)


@dataclass(frozen=True)
class _Layout:
    """Names, modules and masks of all traces of one probe. Lists of names are split by encoder and decoder.

    attention: module paths. stream: what enters each stack, and what each block leaves. feed_forwards: module paths.
    """

    attention: dict[AttentionKind, list[str]]
    modules: dict[AttentionKind, MultiHeadAttention]
    visible: dict[AttentionKind, Bool[Tensor, "query key"]]
    norms: list[list[str]]
    stream: list[list[str]]
    feed_forwards: list[list[str]]

    @classmethod
    def of(cls, trace: Trace) -> _Layout:
        attention = {kind: paths for kind in KINDS if (paths := trace.attention_paths(kind))}
        modules = {kind: trace.module(paths[0]) for kind, paths in attention.items()}
        names = trace.names()
        return cls(
            attention,
            {kind: module for kind, module in modules.items() if isinstance(module, MultiHeadAttention)},
            {kind: trace[f"{paths[0]}.visible"] for kind, paths in attention.items()},
            _by_stack(trace.norm_paths()),
            _by_stack(name for name in names if name.endswith((".residual", ".embedding.output"))),
            _by_stack(name.removesuffix(".hidden") for name in names if name.endswith(".feed_forward.hidden")),
        )


def _slots(blocks: Iterable[Block], of_weights: bool) -> dict[str, Slot]:
    slots: dict[str, Slot] = {}
    first = 0
    for names, block in blocks:
        for name, tensor in zip(names, block[0], strict=True):
            slots[name] = Slot(of_weights, first, tuple(tensor.shape))
            first += tensor.numel()
    return slots


def _by_stack(names: Iterable[str]) -> list[list[str]]:
    """Names of encoder and decoder, whose texts differ in length; without the output's, and a stack that has none."""
    every = list(names)
    stacks = ([name for name in every if name.startswith(stack)] for stack in ("encoder.", "decoder."))
    return [stack for stack in stacks if stack]


def _stacked(looks: Sequence[_Look], names: Sequence[str]) -> Float[Tensor, "frame quantity *shape"]:
    frames = [torch.stack([look.trace.examples(name) for name in names], dim=1) for look in looks]
    return frames[0] if len(frames) == 1 else torch.cat(frames)


def _weights(looks: Sequence[_Look], kind: AttentionKind) -> Float[Tensor, "frame layer head query key"]:
    """Attention weights as in `trace.attention(kind)`, in float32, of all frames and layers at once."""
    layout = looks[0].layout
    paths, visible, attention = layout.attention[kind], layout.visible[kind], layout.modules[kind]
    if looks[0].trace.has_weights(paths[0]):
        return _stacked(looks, [f"{path}.weights" for path in paths]).float()
    query, key = (_stacked(looks, [f"{path}.{side}" for path in paths]) for side in ("query", "key"))
    biases = [look.biases[kind].expand(look.times, -1, -1, -1) for look in looks if kind in look.biases]
    with no_recording():
        scores = attention.scaled(attention.scores(query, key))
        biased = scores + torch.cat(biases)[:, None] if biases else scores
        weights: Tensor = attention.weights(attention.masked(biased, visible), visible)
        return weights.float()


def _entropies(layout: _Layout, maps: Mapping[AttentionKind, Tensor]) -> dict[str, list[float]]:
    """Entropy of every head on the probe, in nats, in each frame."""
    return {
        f"entropy/{path}/{head}": column
        for kind, weights in maps.items()
        for path, heads in zip(layout.attention[kind], entropy(weights).permute(1, 2, 0).tolist(), strict=True)
        for head, column in enumerate(heads)
    }


def _idle_units(network: Network, looks: Sequence[_Look]) -> dict[str, list[float]]:
    """Share of each feed-forward's units that are off at every position of the probe, in each frame; see `off`.

    For ReLU these are dead on the probe: their output is 0, and so is their gradient.
    """
    shares: dict[str, list[float]] = {}
    for paths in looks[0].layout.feed_forwards:
        stack, _layers, layer, _name = paths[0].split(".")
        units = _stacked(looks, [f"{path}.{quantities(network, path)[0]}" for path in paths])
        idle = off(units, threshold(network.config.units_of(stack, int(layer)).activation)).all(dim=2)
        for path, column in zip(paths, idle.float().mean(dim=-1).T.tolist(), strict=True):
            shares[f"dead units/{path}"] = column
    return shares


# The text on which a training is watched.


@dataclass(frozen=True)
class Probe:
    """Text on which a training is watched. target: inputs of the decoder, None for a model with one stack."""

    source: Tokens
    target: Tokens | None = None

    def labels(self, model: TextModel) -> list[int]:
        """Next token at each position, as far as that is known; none for a model that fills in hidden tokens."""
        if self.target is not None:
            return [*self.target.ids[1:], *model.target_tokenizer.ending]
        return self.source.ids[1:] if model.kind == "decoder-only" else []


def right_answer(material: TrainingData, source: str) -> str | None:
    """Target of a source, by the rule of the material's task, else of its first pair; None where there is neither."""
    if not isinstance(material, Translations):
        return None
    if (answer := _by_rule(material.task, source)) is not None:
        return answer
    return next((pair.target for part in material.pairs.values() for pair in part if pair.source == source), None)


def _by_rule(task: str, source: str) -> str | None:
    """Answer to a source by the rule of a task; None without a task, or where the source is none of the task's."""
    if task:
        with suppress(ValueError):
            return find_task(task).solve(source)
    return None


def probe_of(model: TextModel, source: str, task: str = "") -> Probe:
    """Probe of a source and its target, which models with one stack have not: the answer by the rule of `task`, else
    what the model generates now.
    """
    tokens = model.source_tokens(source)
    if not isinstance(model, Translator):
        return Probe(tokens)
    target = _by_rule(task, source)
    return Probe(tokens, model.target_tokens(target) if target else model.trace_generated(tokens)[1])
