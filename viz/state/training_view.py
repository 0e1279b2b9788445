"""View of a session on its training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from viz.state.film_feed import FilmCursor

if TYPE_CHECKING:
    from model.text.tokenizer import Tokens
    from model.training.live.frame_recorder import Probe


@dataclass
class GeneratedTarget:
    """The target of a source where none is typed. number: of a training. reference: whether it is the answer in the
    data, and not what the model wrote.
    """

    number: int
    source: str
    target: Tokens
    reference: bool


@dataclass
class Watching:
    """wish: the number of a training, and what this session would have it watch. untyped: the target that a source has
    in it. rewrite: the model in training is asked to write that.
    """

    wish: tuple[int, Probe] | None = None
    untyped: GeneratedTarget | None = None
    rewrite: bool = False


@dataclass
class TrainingView:
    """run: key of the training that the session shows. step: of the training, that the shown model has. moving: the
    training was, when the script last ran. drawn_state: where it stood then. film_cursor: frames that the browser has.
    watched_batch: tokens of a batch to watch, as chosen before a training begins; 0: not chosen. unkept: number of the
    training of which it was said that it is kept no more. lesson_run: key of the training that a lesson has begun; "":
    none has.
    """

    run: str = ""
    step: int | None = None
    moving: bool = False
    drawn_state: Any = None
    film_cursor: FilmCursor = field(default_factory=FilmCursor)
    watching: Watching = field(default_factory=Watching)
    watched_batch: int = 0
    unkept: int = 0
    lesson_run: str = ""
