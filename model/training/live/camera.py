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

from model.analysis.head_metrics import entropy
from model.capture.hooks import no_recording
from model.capture.trace import AttentionKind, Trace
from model.data.sources import TrainingData, Translations
from model.data.tasks import find_task
from model.inference.models import Translator
from model.inference.text_model import TextModel
from model.network.attention import MultiHeadAttention
from model.network.norms import Norm
from model.text.tokenizer import Tokens

KINDS: tuple[AttentionKind, ...] = get_args(AttentionKind)
LEVELS = 255  # an attention weight is kept as one of so many steps from 0 to 1
TOP = 5  # predictions kept for each position
TOKENS, PROBABILITIES, LOSS = "predictions.tokens", "predictions.probabilities", "loss"
NORMS = "norms"  # all norms in one row, in the order of their slots


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
    """Takes frames of a model on one probe.

    slots: for each attention kind that the model has (layer, head, query, key); for each norm `PATH.mean` and
    `PATH.std` (position); for the residual stream `PATH.residual` and `STACK.embedding.output`, Euclidean norms
    (position); all of these once more as `norms`; the most probable tokens and their probabilities (position, rank);
    the loss in nats per known token.
    """

    def __init__(self, model: TextModel, probe: Probe) -> None:
        self.model, self.probe = model, probe
        self.labels = torch.tensor(probe.labels(model), dtype=torch.long, device=model.device)
        self.slots: dict[str, Slot] = {}
        self.latest: tuple[int, Trace] | None = None  # the step of the last frame, and the pass it was taken from
        self._found: _Found | None = None

    def take(self, steps: Iterable[int], several: TextModel | None = None) -> list[tuple[Frame, dict[str, float]]]:
        """A frame of each step, and the figures of that moment for the curves. steps: when one is given, the model is
        the model as it is then. several: reads all of them in one pass, see `BatchedWeights`.
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
            made = list(zip(*self._frames(taken, looks), strict=True))
        self.latest = taken[-1], looks[-1].trace.on(self.model.network)
        return made

    def _look(self, model: TextModel, times: int = 1) -> _Look:
        trace = model.trace_tokens(self.probe.source, self.probe.target, times)
        found = self._found = self._found or _Found.within(trace)
        biases: dict[AttentionKind, Tensor] = {}
        for kind, paths in found.attention.items():
            query, (queries, keys) = trace[f"{paths[0]}.query"], found.visible[kind].shape
            if (bias := found.modules[kind].biased.bias(queries, keys, query)) is not None:
                biases[kind] = bias
        return _Look(trace, times, biases)

    def _frames(self, steps: Sequence[int], looks: Sequence[_Look]) -> tuple[list[Frame], list[dict[str, float]]]:
        """All at once: a tiny model's frames cost calls, not products."""
        found, newest = self._found, looks[-1].trace
        assert found
        maps = {kind: _weights(looks, found, kind) for kind in found.attention}
        for kind, paths in found.attention.items():
            for path, weights in zip(paths, maps[kind][-1].clone(), strict=True):  # who looks at this pass needs them
                newest.keep(f"{path}.weights", weights)
        blocks = self._blocks(looks, found)
        if not self.slots:
            of_maps: list[Block] = [([kind], weights[:, None]) for kind, weights in maps.items()]
            self.slots = {**_slots(of_maps, of_weights=True), **_slots(blocks, of_weights=False)}
            self.slots[NORMS] = Slot(False, 0, (self.slots[TOKENS].first,))
        weights = torch.cat([(each * LEVELS).round_().flatten(1) for each in maps.values()], dim=1).to(torch.uint8)
        values = torch.cat([block.flatten(1) for _, block in blocks], dim=1).cpu()
        columns = _entropies(found, maps) | _idle_units(looks, found) | {"probe loss": values[:, -1].tolist()}
        figures = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows = zip(steps, weights.cpu().numpy(), values.numpy(), strict=True)
        return [Frame(step, row.copy(), numbers.copy()) for step, row, numbers in rows], figures

    def _blocks(self, looks: Sequence[_Look], found: _Found) -> list[Block]:
        blocks: list[Block] = []
        for names in found.norms:
            inputs = _stacked(looks, [f"{name}.input" for name in names]).float()
            blocks += [([f"{name}.mean" for name in names], Norm.mean(inputs))]
            blocks += [([f"{name}.std" for name in names], Norm.std(inputs))]
        for names in found.stream:
            blocks += [(names, _stacked(looks, names).float().norm(dim=-1))]
        log_probabilities = _stacked(looks, ["output.logits"]).float().log_softmax(dim=-1)
        best, tokens = log_probabilities.topk(min(TOP, log_probabilities.shape[-1]), dim=-1)
        known = log_probabilities[:, 0, : len(self.labels)].gather(
            2, self.labels.expand(len(log_probabilities), -1)[:, :, None]
        )
        return [
            *blocks,
            ([TOKENS], tokens.float()),
            ([PROBABILITIES], best.exp()),
            ([LOSS], -known.mean(dim=1)),
        ]


@dataclass(frozen=True)
class _Look:
    """A forward pass on the probe, at one moment or several in one batch, and what positions added to the scores: the
    same in all layers of a stack, and at all these moments. trace: of the last of them.
    """

    trace: Trace
    times: int
    biases: Mapping[AttentionKind, Float[Tensor, "head query key"]]


Block = tuple[list[str], Tensor]  # quantities of one shape: their names, and (frame, quantity, …)


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
        for name, tensor in zip(names, block[0], strict=True):
            slots[name] = Slot(of_weights, first, tuple(tensor.shape))
            first += tensor.numel()
    return slots


def _by_stack(names: Iterable[str]) -> list[list[str]]:
    """The texts of encoder and decoder differ in length."""
    given = list(names)
    stacks = ([name for name in given if name.startswith(stack)] for stack in ("encoder.", "decoder."))
    return [found for found in stacks if found]


def _stacked(looks: Sequence[_Look], names: Sequence[str]) -> Float[Tensor, "frame quantity *shape"]:
    every = [torch.stack([look.trace.examples(name) for name in names], dim=1) for look in looks]
    return every[0] if len(every) == 1 else torch.cat(every)


def _weights(looks: Sequence[_Look], found: _Found, kind: AttentionKind) -> Float[Tensor, "frame layer head query key"]:
    """`trace.attention(kind)` in float32, all frames and layers at once."""
    paths, visible, attention = found.attention[kind], found.visible[kind], found.modules[kind]
    query, key = (_stacked(looks, [f"{path}.{side}" for path in paths]) for side in ("query", "key"))
    biases = [look.biases[kind].expand(look.times, -1, -1, -1) for look in looks if kind in look.biases]
    with no_recording():
        scores = attention.scaled(attention.scores(query, key))
        biased = scores + torch.cat(biases)[:, None] if biases else scores
        return attention.weights(attention.masked(biased, visible), visible).float()


def _entropies(found: _Found, maps: Mapping[AttentionKind, Tensor]) -> dict[str, list[float]]:
    """The entropy of every head on the probe, in nats, in each frame."""
    return {
        f"entropy/{path}/{head}": column
        for kind, weights in maps.items()
        for path, heads in zip(found.attention[kind], entropy(weights).permute(1, 2, 0).tolist(), strict=True)
        for head, column in enumerate(heads)
    }


def _idle_units(looks: Sequence[_Look], found: _Found) -> dict[str, list[float]]:
    """The share of each feed-forward's units that stay at or below 0 at every position of the probe.

    For ReLU these are dead on the probe: their output is 0, and so is their gradient.
    """
    shares: dict[str, list[float]] = {}
    for names in found.hidden:
        idle = _stacked(looks, names).amax(dim=2) <= 0
        for name, column in zip(names, idle.float().mean(dim=-1).T.tolist(), strict=True):
            shares[f"dead units/{name.removesuffix('.hidden')}"] = column
    return shares


# The text that a training is watched on.


@dataclass(frozen=True)
class Probe:
    """The text that a training is watched on. target: of a model with two stacks, what the decoder reads."""

    source: Tokens
    target: Tokens | None = None

    def labels(self, model: TextModel) -> list[int]:
        """What the model should say at each position, as far as that is known; none if it fills in hidden tokens."""
        if self.target is not None:
            return [*self.target.ids[1:], *model.target_tokenizer.ending]
        return self.source.ids[1:] if model.kind == "decoder-only" else []


def right_answer(material: TrainingData, source: str) -> str | None:
    """The target of a source, by the rule of the material's task or as its pairs have it; None where neither knows."""
    if not isinstance(material, Translations):
        return None
    if (answer := _by_rule(material.task, source)) is not None:
        return answer
    return next((pair.target for part in material.pairs.values() for pair in part if pair.source == source), None)


def _by_rule(task: str, source: str) -> str | None:
    """What the rule of a task makes of a source; None without a task, or where the source is none of it."""
    if task:
        with suppress(ValueError):
            return find_task(task).solve(source)
    return None


def probe_of(model: TextModel, source: str, target: str = "", task: str = "") -> Probe:
    """The probe of these texts. An empty target is what the rule of `task` makes of the source, else what the model
    writes for it now; models with one stack have none.
    """
    tokens = model.source_tokens(source)
    if not isinstance(model, Translator):
        return Probe(tokens)
    target = target or _by_rule(task, source) or ""
    return Probe(tokens, model.target_tokens(target) if target else model.trace_generated(tokens)[1])
