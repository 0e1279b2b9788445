"""Importance of each head on one text: the loss and the predictions without it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from model.analysis.comparison import divergence_of_logs
from model.analysis.predictions import UNKNOWN
from model.capture.hooks import no_recording
from model.capture.interventions import EachRemoved, Intervention, RemovedHead, intervening
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.inference.text_model import TextModel
from model.network.transformer import Network
from model.runtime.device import exact
from model.text.tokenizer import Tokens

AT_ONCE = 4096  # tokens of the copies of a text computed together, at most; one copy is, however long
PLACES = 512  # positions whose logits are there at once, beside those of the pass with all heads
AGAIN = 0.2  # seconds: a pass that takes longer is not timed again

Place = tuple[AttentionKind, int, int]  # a head: its kind of attention, layer and number


@dataclass(frozen=True)
class Effect:
    """Change of the predictions of a text in a pass without some heads.

    loss: growth of the mean loss of the actual tokens, in nats; NaN where none is known. moved: largest
    KL(p ‖ p without) of a position, in nats. position: that position. Of a bare encoder, which predicts nothing, loss
    and moved are relative changes of the last states, ‖x − x′‖ / ‖x‖: of all positions together, and of that position.
    """

    loss: float
    moved: float
    position: int


class Removals:
    """Passes of one text without some of a model's heads.

    actual: tokens that the logits are asked for, see `actual_tokens`. changes: other changes, made in every pass.
    """

    def __init__(
        self,
        model: TextModel,
        source: Tokens,
        target: Tokens | None,
        actual: Sequence[int],
        changes: Sequence[Intervention] = (),
    ) -> None:
        self.network: Network = model.network
        self.predicts, self.changes = model.predicts, tuple(changes)
        self.ids = [torch.tensor([text.ids], device=model.device) for text in (source, target) if text is not None]
        self._actual = torch.tensor(list(actual), device=model.device)

    @property
    def length(self) -> int:
        """Number of tokens that a pass computes."""
        return sum(ids.shape[1] for ids in self.ids)

    def places(self, kinds: Sequence[AttentionKind]) -> list[Place]:
        """Every head of these kinds of attention, first layer first."""
        return [(kind, layer, head) for kind, layer, heads in self._layers(kinds) for head in heads]

    def groups(self, kinds: Sequence[AttentionKind]) -> list[EachRemoved]:
        """Every head of these kinds of attention, those of a layer in groups whose passes are computed together."""
        size = max(1, AT_ONCE // self.length)
        return [
            EachRemoved(kind, layer, tuple(heads[first : first + size]))
            for kind, layer, heads in self._layers(kinds)
            for first in heads[::size]
        ]

    def _layers(self, kinds: Sequence[AttentionKind]) -> Iterator[tuple[AttentionKind, int, range]]:
        """Heads of each layer, by the attention itself: a bridged model's stacks may differ in them."""
        for kind in kinds:
            config, path = self.network.config, ATTENTION_PATHS[kind]
            for layer in range(config.n_encoder_layers if kind == "encoder" else config.n_decoder_layers):
                attention = self.network.get_submodule(path.format(layer))
                yield kind, layer, range(int(attention.query.n_heads))  # type: ignore[union-attr, arg-type]

    def without_each(self, group: EachRemoved) -> dict[Place, Effect]:
        """Effect of each of these heads removed alone: I_h = L(ξ_h = 0) − L (Michel et al., 2019, section 3.2, of test
        scores).

        Raises:
            ValueError: the model's heads cannot be removed.
        """
        states = self._states([group], len(group.heads), group.kind == "encoder")
        return {
            (group.kind, group.layer, head): self._effect(states[row : row + 1]) for row, head in enumerate(group.heads)
        }

    def each(self, kinds: Sequence[AttentionKind]) -> Iterator[tuple[Place, Effect]]:
        """Effect of every head of these kinds, removed in turn.

        Raises:
            ValueError: the model's heads cannot be removed.
        """
        for group in self.groups(kinds):
            yield from self.without_each(group).items()

    def without(self, *places: Place) -> Effect:
        """Effect of these heads, removed together.

        Raises:
            ValueError: the model's heads cannot be removed.
        """
        encoder = any(kind == "encoder" for kind, _layer, _head in places)
        return self._effect(self._states([RemovedHead(*place) for place in places], 1, encoder))

    def seconds(self) -> float:
        """Seconds that a pass takes. The first one of a process is slow, so a quick one is taken twice."""
        times: list[float] = []
        while len(times) < (2 if sum(times) < AGAIN else 1):
            began = time.perf_counter()
            self._effect(self._states((), 1, True))
            times.append(time.perf_counter() - began)
        return min(times)

    @cached_property
    def loss(self) -> float:
        """Mean loss of the actual tokens with all heads, in nats; NaN where none is known."""
        if not self.predicts:
            return float("nan")
        parts = zip(self.plain, self._actual.split(PLACES), strict=True)
        return _mean([_losses(logs, actual) for logs, actual in parts])

    @cached_property
    def plain(self) -> list[Tensor]:
        """Outputs of the pass with all heads: ln p (position, vocabulary) of some positions after others, or the states
        (position, d_model) of a bare encoder.
        """
        return list(self._outputs(self._states((), 1, False)))

    @cached_property
    def _memory(self) -> Tensor:
        """Encoder's output with all its heads: the same for whatever is removed from the decoder."""
        with torch.inference_mode(), no_recording(), intervening(self.network, self.changes):
            encoded: Tensor = self.network.encode(self.ids[0])  # type: ignore[operator]
            return encoded

    def _states(self, changes: Sequence[Intervention], copies: int, encoder: bool) -> Tensor:
        """Last states (copy, position, d_model). encoder: whether something is changed before the decoder."""
        texts = [ids.expand(copies, -1) for ids in self.ids]
        memory = None if encoder or len(texts) == 1 else self._memory
        with torch.inference_mode(), no_recording(), intervening(self.network, (*self.changes, *changes)):
            if memory is None:
                return self.network.states(*texts)
            decoded: Tensor = self.network.decode(texts[1], memory.expand(copies, -1, -1))  # type: ignore[operator]
            return decoded

    def _outputs(self, states: Tensor) -> Iterator[Tensor]:
        """ln p (position, vocabulary) of some positions after others, or the states of a bare encoder."""
        if not self.predicts:
            yield states[0].float()
            return
        for part in states.split(PLACES, dim=1):
            with torch.inference_mode():
                logs = exact(self.network.output(part)[0]).log_softmax(dim=-1)  # small KLs are small differences
            yield logs

    def _effect(self, states: Tensor) -> Effect:
        if not self.predicts:
            (now,), (before,) = self._outputs(states), self.plain
            moved = (now - before).norm(dim=-1) / before.norm(dim=-1)
            loss = float((now - before).norm() / before.norm())
        else:
            parts, losses = [], []
            for now, before, actual in zip(self._outputs(states), self.plain, self._actual.split(PLACES), strict=True):
                parts.append(divergence_of_logs(now, before))
                losses.append(_losses(now, actual))
            moved, loss = torch.cat(parts), _mean(losses) - self.loss
        return Effect(loss, float(moved.max()), int(moved.argmax()))


def _losses(logs: Tensor, actual: Tensor) -> Tensor:
    """−ln p of the actual tokens that are known."""
    actual = actual.to(logs.device)
    return exact(-logs.gather(-1, actual.clamp(min=0)[:, None])[:, 0][actual != UNKNOWN])


def _mean(losses: Sequence[Tensor]) -> float:
    return float(torch.cat(list(losses)).mean())


def removable(kind: AttentionKind) -> str:
    """Name of the quantity that a model must show for its heads to be removed: their outputs, apart."""
    return f"{ATTENTION_PATHS[kind].format(0)}.heads"
