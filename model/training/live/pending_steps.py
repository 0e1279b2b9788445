"""What the last steps of a training left, waiting to be filmed: several at a time take a third of one by one."""

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
from model.network.layers import TokenEmbedding
from model.network.norms import NORMS
from model.network.positions import LearnedPositions
from model.training.flat_parameters import FlatParameters, weights_in_a_row
from model.training.gradients import Gains, Gradients, Updates
from model.training.live.camera import TOKENS
from model.training.live.film import Film
from model.training.live.runs import Run

MANY = 16  # steps that wait: most networks read all of them in one pass
LONGEST = 1.0  # seconds that one waits, or a step longer
HELD = 32 << 20  # bytes that they may take, about
WHILE_FILMED = 16  # bytes that a frame takes for each that is kept of it, and for each logit, about


@dataclass(frozen=True)
class Moment:
    """A step and its figures. seen: whether its weights are to be looked at. at: when it was noted."""

    step: int
    figures: Mapping[str, float | None]
    seen: bool
    at: float = field(default_factory=time.monotonic)


class Moments:
    """Steps of the model that `gradients` belongs to: noted at once, on film and curves as soon as `develop` is called.

    model: a model of its own, in which the weights of each moment are looked at.
    """

    def __init__(self, model: TextModel, gradients: Gradients) -> None:
        self.model = alone(model)
        row = weights_in_a_row(tuple(self.model.network.parameters()))
        self._here, self._trained = row.whole, gradients.weights.whole
        self._several = BatchedWeights(self.model, row) if can_be_several(self.model.network) else None
        fitting = max(1, min(MANY, HELD // (2 * self._here.nbytes)))
        # Of those that wait and are to be seen: weights, and by how much their step has changed them.
        self._after, self._moved = self._here.new_empty(2, fitting, len(self._here))
        self._updates, self._gains = Updates(gradients), Gains(self.model.network)
        self._waiting: list[Moment] = []
        self._newest: tuple[int, Tensor] | None = None  # a copy of the weights, and the step it was made after

    @property
    def names(self) -> list[str]:
        """Of the figures that a moment has of its weights alone."""
        return [*self._updates.parts("update ratio/"), *self._gains.names]

    def many(self, film: Film) -> bool:
        """Whether so many wait, or for so long, that it is time to develop them."""
        logits = film.shape(TOKENS)[0] * self.model.config.vocabulary
        each = 2 * self._trained.nbytes + WHILE_FILMED * (film.frame_size + logits)
        late = bool(self._waiting) and time.monotonic() - self._waiting[0].at > LONGEST
        return late or len(self._waiting) >= max(1, min(len(self._after), HELD // each))

    @property
    def tensors(self) -> list[Tensor]:
        """All that is held here, but for the frames that are being made."""
        return [self._here, self._after, self._moved, *(self._newest or ())[1:]]

    def latest(self, name: str) -> float | None:
        """The newest of these figures among those that wait."""
        known = (moment.figures.get(name) for moment in reversed(self._waiting))
        return next((value for value in known if value is not None), None)

    def begin(self, stands: int) -> Tensor:
        """The weights before the step that follows `stands`, which is to be seen."""
        if self._newest is None or self._newest[0] != stands:
            self._newest = stands, self._trained.clone()
        return self._newest[1]

    def end(self, step: int, figures: Mapping[str, float | None], before: Tensor | None) -> None:
        """Note a step. before: what `begin` gave, if it is to be seen."""
        if before is not None:
            place = sum(moment.seen for moment in self._waiting)
            torch.sub(self._trained, before, out=self._moved[place])  # first: `before` may stand where `after` comes
            self._newest = step, self._after[place].copy_(self._trained)
        self._waiting.append(Moment(step, figures, before is not None))

    def develop(self, run: Run) -> None:
        """Put all that wait onto the film and the curves of their run."""
        waiting, self._waiting = self._waiting, []
        seen: dict[int, dict[str, float]] = {}
        try:
            seen |= self._filmed(run.film, [moment.step for moment in waiting if moment.seen])
        finally:
            for moment in waiting:
                run.curves.add(moment.step, {**moment.figures, **seen.get(moment.step, {})})

    def load(self) -> None:
        """Put the weights as they are now into the model."""
        self._here.copy_(self._trained)

    def forget(self) -> None:
        """The weights have been set to others."""
        self._newest = None

    def _filmed(self, film: Film, steps: Sequence[int]) -> dict[int, dict[str, float]]:
        """Put these steps onto the film; gives what the weights of each say, and its frame."""
        after, moved = self._after[: len(steps)], self._moved[: len(steps)]
        drifts: list[dict[str, float]] = []
        if self._several and len(steps) > 1:
            self._several.load(after)
            drifts += self._gains.drifts(self._several.of(self._gains.weights))
            shown = film.record(steps, self._several.model)
        else:
            shown = film.record(self._one_by_one(steps, drifts))
        figures = zip(self._updates.ratios(moved, after), drifts or [{}] * len(steps), shown, strict=True)
        return {step: ratio | drift | frame for step, (ratio, drift, frame) in zip(steps, figures, strict=True)}

    def _one_by_one(self, steps: Sequence[int], drifts: list[dict[str, float]]) -> Iterator[int]:
        """The steps, each while its weights are in the model; how far γ has moved goes into `drifts`."""
        for step, weights in zip(steps, self._after, strict=False):
            self._here.copy_(weights)
            drifts += self._gains.drifts([gain[None] for gain in self._gains.weights])
            yield step


# One network with several sets of weights at once: each example of a batch has a set of its own.
#
# A pass of a tiny network costs calls, not products; so read, the network of ten moments costs about as many as one.

READERS = {nn.Linear, HeadProjection, TurnedProjection, TokenEmbedding, LearnedPositions, nn.RMSNorm, *NORMS.values()}


class Weight:
    """A weight of a network, one of each set. To the module that has it it looks like one; torch's functions, given
    it, read `sets`.
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
        """Rows of a table, for a batch."""
        _batch, rows = index
        return self.sets[:, rows]

    def beside(self, x: Tensor) -> Tensor:
        """In as many dimensions as `x` (example, …, feature) has."""
        between = (1,) * (x.dim() - self.sets.dim())
        return self.sets.view(len(self.sets), *between, *self.shape)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, given: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> Tensor:
        if function not in RULES:
            raise NotImplementedError(f"{function.__name__} does not know several sets of weights: add its rule")
        return RULES[function](*given, **(named or {}))


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
    """The network of a model, for the weights of several moments, each a row as `row` has them.

    model: reads a batch with as many examples as there are rows.
    """

    def __init__(self, model: TextModel, row: FlatParameters) -> None:
        """row: of all weights of `model`, in the order of its parameters."""
        self._row = row
        parts = [Weight(part[None]) for part in row.parts]
        self._weights: dict[Tensor, Weight] = dict(zip(model.network.parameters(), parts, strict=True))
        self.model = with_weights(model, self._weights.__getitem__)

    def load(self, rows: Float[Tensor, "moment all"]) -> None:
        """From now on, these are the weights."""
        for weight, sets in zip(self._weights.values(), self._row.parts_of(rows), strict=True):
            weight.sets = sets

    def of(self, weights: Sequence[Tensor]) -> list[Float[Tensor, "moment ..."]]:
        """What these weights of the model given at the start are at those moments."""
        return [self._weights[weight].sets for weight in weights]


def can_be_several(network: nn.Module) -> bool:
    """Whether all that has weights in it can read several."""
    return all(not module._parameters or original_class(module) in READERS for module in network.modules())
