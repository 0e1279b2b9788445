"""Immutable snapshots of a live training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.capture.trace import Trace
from model.inference.text_model import TextModel
from model.training.live.frame_recorder import Probe
from model.training.live.runs import Mark

Status = Literal["preparing", "idle", "waiting", "running", "paused", "failed", "finished", "stopped"]


@dataclass(frozen=True)
class Snapshot:
    """State of a live training.

    status: a stopped run has ended; a finished one goes on when its settings have more steps. step: latest completed
    step; wanted: step to train to; total: last step of the run. busy: something is under way, so that the next snapshot
    will differ. ahead: number of trainings that wait for a slot before this one. loss, validation: nats per predicted
    token. accuracy: share of right tokens in the validation split; exact_match: share of right texts, where a rule says
    what is right. message: error and what to change. unseen: paused because nobody looked any more. watched: some steps
    are taken, each to be seen. film_every: steps between two new frames of the film.
    """

    status: Status
    step: int = 0
    wanted: int = 0
    total: int = 0
    busy: bool = True
    ahead: int = 0
    loss: float | None = None
    validation: float | None = None
    accuracy: float | None = None
    exact_match: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    message: str = ""
    unseen: bool = False
    watched: bool = False
    run: int = 1
    marks: tuple[Mark, ...] = ()
    frames: int = 0
    film_every: int = 1


@dataclass(frozen=True)
class View:
    """Model after a step, with a copy of the weights that no training touches, and its trace of the probe."""

    step: int
    probe: Probe
    model: TextModel
    trace: Trace
