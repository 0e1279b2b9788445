"""What a live training lets be seen of itself: all of it finished, none of it changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.capture.trace import Trace
from model.inference.text_model import TextModel
from model.training.live.camera import Probe
from model.training.live.runs import Mark
from model.training.settings import RunSettings

Status = Literal["preparing", "idle", "waiting", "running", "paused", "failed", "finished", "stopped"]


@dataclass(frozen=True)
class Snapshot:
    """Where a training stands.

    status: a run that is stopped has ended; one that is finished goes on when its settings have more steps.
    choices: the settings in force. step: the last that is done; wanted: the one to train to; total: the run's last.
    busy: something is under way, so that another snapshot will differ. ahead: how many others wait before it.
    accuracy: the share of tokens predicted rightly in the validation split; exact_match: of texts, where a rule says
    what is right. message: what failed, and what to change. unseen: it paused because nobody looked any more.
    film_every: steps from one new frame of the film to the next.
    """

    status: Status
    choices: RunSettings
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
    run: int = 1
    marks: tuple[Mark, ...] = ()
    frames: int = 0
    film_every: int = 1
    key_steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class View:
    """The model as it was after a step, with weights of its own that no training touches, and the probe's trace."""

    step: int
    probe: Probe
    model: TextModel
    trace: Trace
