"""The latest steps of a training, waiting to be filmed: several at a time take a third of the time of one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.capture.hooks import original_class
from model.inference.copies import alone, with_weights
from model.inference.text_model import TextModel
from model.network.attention import HeadProjection, TurnedProjection
from model.network.experts import MixtureOfExperts
from model.network.layers import TokenEmbedding
from model.network.norms import NORMS
from model.network.positions import LearnedPositions
from model.training.flat_parameters import FlatParameters, weights_in_a_row
from model.training.gradients import Figures, Gains, Gradients
from model.training.live.film import Film
from model.training.live.frame_recorder import TOKENS
from model.training.live.runs import Run

MANY = 16  # steps that wait: most networks read all of them in one pass
LONGEST = 1.0  # seconds that a step waits, or a step longer
BUDGET = 32 << 20  # bytes of all waiting steps, about
WHILE_FILMED = 16  # bytes needed while a frame is taken, for each byte that is kept and for each logit, about


@dataclass(frozen=True)
class PendingStep:
    """A step and its figures. seen: whether it is to be filmed. at: time when it was noted, in seconds."""

    step: int
    figures: Mapping[str, float | None]
    seen: bool
    at: float = field(default_factory=time.monotonic)


class PendingSteps:
    """Steps that were trained, and are on film and curves as soon as `develop` is called.

    model: a copy, which gets the weights of each step in order to be filmed.
    """

    def __init__(self, model: TextModel, gradients: Gradients) -> None:
        """gradients: of the network of `model`, which is trained."""
        self.model = alone(model)
        row = weights_in_a_row(tuple(self.model.network.parameters()))
        self._here, self._trained = row.whole, gradients.weights.whole
        self._several = BatchedWeights(self.model, row) if can_be_several(self.model.network) else None
        fitting = max(1, min(MANY, BUDGET // (2 * self._here.nbytes)))
        # Of the waiting steps that are to be filmed: the weights after each, and their changes in it.
        self._after, self._changes = self._here.new_empty(2, fitting, len(self._here))
        self._gradients, self._gains = gradients, Gains(self.model.network)
        self._waiting: list[PendingStep] = []
        self._newest: tuple[int, Tensor] | None = None  # a step, and a copy of the weights after it

    @property
    def names(self) -> list[str]:
        """Names of the figures that follow from the weights alone."""
        return [*self._gradients.update_names, *self._gains.names]

    def due(self, film: Film) -> bool:
        """True if so many steps wait, or for so long, that it is time to develop them."""
        logits = film.shape(TOKENS)[0] * self.model.config.vocabulary
        bytes_each = 2 * self._trained.nbytes + WHILE_FILMED * (film.frame_size + logits)
        late = bool(self._waiting) and time.monotonic() - self._waiting[0].at > LONGEST
        return late or len(self._waiting) >= max(1, min(len(self._after), BUDGET // bytes_each))

    @property
    def tensors(self) -> list[Tensor]:
        """Tensors of any shape that are kept here, without the frames that are being taken."""
        return [self._here, self._after, self._changes, *(self._newest or ())[1:]]

    def latest(self, name: str) -> float | None:
        """Newest value of a figure among the waiting steps."""
        values = (step.figures.get(name) for step in reversed(self._waiting))
        return next((value for value in values if value is not None), None)

    def begin(self, steps_done: int) -> Float[Tensor, " all"]:
        """Weights before the step after `steps_done`, which is to be filmed."""
        if self._newest is None or self._newest[0] != steps_done:
            self._newest = steps_done, self._trained.clone()
        return self._newest[1]

    def end(self, step: int, figures: Mapping[str, float | None], before: Float[Tensor, " all"] | None) -> None:
        """Note a step. before: result of `begin`, None if the step is not to be filmed."""
        if before is not None:
            place = sum(pending.seen for pending in self._waiting)
            torch.sub(self._trained, before, out=self._changes[place])  # first: `before` may be overwritten by `after`
            self._newest = step, self._after[place].copy_(self._trained)
        self._waiting.append(PendingStep(step, figures, before is not None))

    def develop(self, run: Run) -> None:
        """Put all waiting steps onto the film and the curves of their run."""
        waiting, self._waiting = self._waiting, []
        filmed: dict[int, Figures] = {}
        try:
            filmed |= self._film(run.film, [pending.step for pending in waiting if pending.seen])
        finally:
            for pending in waiting:
                run.curves.add(pending.step, {**pending.figures, **filmed.get(pending.step, {})})

    def load(self) -> None:
        """Copy the present weights into the model."""
        self._here.copy_(self._trained)

    def forget(self) -> None:
        """Forget the newest weights: the network has got others."""
        self._newest = None

    def _film(self, film: Film, steps: Sequence[int]) -> dict[int, Figures]:
        """Put steps onto the film; return the figures of each that follow from its weights and its frame."""
        after, changes = self._after[: len(steps)], self._changes[: len(steps)]
        drifts: list[Figures] = []
        if self._several and len(steps) > 1:
            self._several.load(after)
            drifts += self._gains.drifts(self._several.of(self._gains.weights))
            frames = film.record(steps, self._several.model)
        else:
            frames = film.record(self._one_by_one(steps, drifts))
        ratios = self._gradients.update_ratios(changes, after)
        figures = zip(steps, ratios, drifts or [{}] * len(steps), frames, strict=True)
        return {step: ratio | drift | frame for step, ratio, drift, frame in figures}

    def _one_by_one(self, steps: Sequence[int], drifts: list[Figures]) -> Iterator[int]:
        """Yield each step while its weights are in the model; the drifts of γ go into `drifts`."""
        for step, weights in zip(steps, self._after, strict=False):
            self._here.copy_(weights)
            drifts += self._gains.drifts([gain[None] for gain in self._gains.weights])
            yield step


# One network with several sets of weights at once: each example of a batch has a set of its own.
#
# A pass of a tiny network costs calls, not products: one with the weights of ten steps costs about as much as of one.

READERS = {nn.Linear, HeadProjection, TurnedProjection, TokenEmbedding, LearnedPositions, nn.RMSNorm, *NORMS.values()}


class Weight:
    """Several sets of a weight. To its module it looks like a single one; `RULES` say how torch's functions read it.

    sets: (example, …). shape, device and dtype are those of a single weight.
    """

    def __init__(self, sets: Float[Tensor, "example ..."]) -> None:
        self.sets = sets

    @property
    def shape(self) -> torch.Size:
        return self.sets.shape[1:]

    @property
    def device(self) -> torch.device:
        return self.sets.device

    @property
    def dtype(self) -> torch.dtype:
        return self.sets.dtype

    def __len__(self) -> int:
        return len(self.sets[0])

    def __getitem__(self, index: tuple[None, slice]) -> Float[Tensor, "example ..."]:
        """Rows of a table of positions, for a batch."""
        _batch, rows = index
        return self.sets[:, rows]

    def beside(self, x: Float[Tensor, "example ..."]) -> Float[Tensor, "example ..."]:
        """Sets with as many dimensions as `x` (example, …, feature), to be multiplied with it or added to it."""
        between = (1,) * (x.dim() - self.sets.dim())
        return self.sets.view(len(self.sets), *between, *self.shape)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Tensor:
        if function not in RULES:
            raise NotImplementedError(f"{function.__name__} does not know several sets of weights: add its rule")
        return RULES[function](*args, **(kwargs or {}))


def _linear(x: Tensor, weight: Weight, bias: Weight | None = None) -> Tensor:
    if bias is None:
        return torch.bmm(x, weight.sets.mT)
    return torch.baddbmm(bias.beside(x), x, weight.sets.mT)


def _embedding(ids: Int[Tensor, "example length"], weight: Weight, *_options: Any, **_named: Any) -> Tensor:
    return weight.sets[torch.arange(len(ids), device=ids.device)[:, None], ids]


def _layer_norm(x: Tensor, shape: torch.Size, weight: Weight, bias: Weight | None, eps: float) -> Tensor:
    normal = F.layer_norm(x, shape, eps=eps)
    return normal * weight.beside(x) if bias is None else torch.addcmul(bias.beside(x), normal, weight.beside(x))


def _rms_norm(x: Tensor, shape: Sequence[int], weight: Weight, eps: float | None) -> Tensor:
    return F.rms_norm(x, list(shape), eps=eps) * weight.beside(x)


RULES: dict[Callable[..., Any], Callable[..., Tensor]] = {
    F.linear: _linear,
    F.embedding: _embedding,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    Tensor.mul: lambda x, weight: x * weight.beside(x),
    Tensor.add: lambda x, weight: x + weight.beside(x),
}


class BatchedWeights:
    """A network with the weights of several steps. model: reads a batch with one example for each step."""

    def __init__(self, model: TextModel, row: FlatParameters) -> None:
        """row: all weights of `model`, in the order of its parameters."""
        self._row = row
        parts = [Weight(part[None]) for part in row.parts]
        self._weights: dict[Tensor, Weight] = dict(zip(model.network.parameters(), parts, strict=True))
        self.model = with_weights(model, self._weights.__getitem__)

    def load(self, rows: Float[Tensor, "step all"]) -> None:
        """Set the weights of all steps, each a row as in the constructor's."""
        for weight, sets in zip(self._weights.values(), self._row.parts_of(rows), strict=True):
            weight.sets = sets

    def of(self, weights: Sequence[Tensor]) -> list[Float[Tensor, "step ..."]]:
        """Values at all steps of weights, of any shapes, of the constructor's model."""
        return [self._weights[weight].sets for weight in weights]


def can_be_several(network: nn.Module) -> bool:
    """True if all modules with weights can read several sets of them; experts, who pick tokens of all texts, cannot."""
    modules = list(network.modules())
    if any(isinstance(module, MixtureOfExperts) for module in modules):
        return False
    return all(not module._parameters or original_class(module) in READERS for module in modules)
