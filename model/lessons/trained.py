"""Subject of a state that trains a demonstration to a step: trained here and now, from its own seed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from model.data.sources import TrainingData
from model.lessons.state import State, Subject
from model.runtime.locks import Lock
from model.training.demonstration import DEMONSTRATIONS
from model.training.live.frame_recorder import right_answer
from model.training.live.recorded_trainer import RecordedTrainer

_lock = Lock("rehearsal")


class Rehearsal(NamedTuple):
    """Training of a demonstration whose steps are taken as a lesson asks for them."""

    recorded: RecordedTrainer
    material: TrainingData

    def go_to(self, step: int) -> None:
        """Train to a step; to an earlier one from the key frame before it."""
        recorded = self.recorded
        if step < recorded.steps_done:
            recorded.rewind(recorded.run.film.keys_until(step)[-1])
        while recorded.steps_done < step:
            recorded.step(at_once=False)


@lru_cache(maxsize=2)
def rehearsal(name: str) -> Rehearsal:
    """Training of this demonstration."""
    demonstration = DEMONSTRATIONS[name]
    model, material, probe = demonstration.begin()
    return Rehearsal(RecordedTrainer(model, material, demonstration.settings, probe), material)


def with_texts(state: State) -> State:
    """The state with the texts that its page shows: the target is the right answer."""
    assert state.trained is not None
    name, _step = state.trained
    source = state.parameters.get("source", DEMONSTRATIONS[name].text)
    answer = right_answer(rehearsal(name).material, source)
    texts = {"source": source, **({"target": answer} if answer else {})}
    return State(state.page, {**texts, **state.parameters})


def trained_subject(state: State) -> Subject:
    """Model of a demonstration after the state's step, on its texts.

    Raises:
        ValueError: the model cannot read the texts, or lacks what the state shows.
    """
    assert state.trained is not None
    name, step = state.trained
    with _lock:
        training = rehearsal(name)
        training.go_to(step)
        view = training.recorded.look()
        subject = Subject.of(view.model, with_texts(state))
        return replace(subject, run=training.recorded.run)
