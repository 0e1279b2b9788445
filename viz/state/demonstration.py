"""Start of a demonstration: its model is built, and shown on the text that shows it best."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from viz.state import texts, training
from viz.state.session import Session, current_session

if TYPE_CHECKING:
    from model.data.sources import Source, TrainingData
    from model.inference.text_model import TextModel
    from model.training.demonstration import Demonstration
    from model.training.live.live_training import LiveTraining
    from model.training.settings import TrainingSettings

FEW = 1000  # pairs; batches of more are no larger


def begin_demonstration(session: Session, demonstration: Demonstration) -> LiveTraining | None:
    """A demonstration, from nothing, on the text that shows it best; None, and a message, where memory has no room."""
    few, some, _probe = replace(demonstration, pairs=min(FEW, demonstration.pairs)).begin()
    request = few.config, some, demonstration.settings, few.device
    session.message = ""
    try:
        needed = training.trainings().require_room(training.own_key(session), *request)
        model, material, _probe = demonstration.begin()
        return begin_on_text(model, material, demonstration.settings, demonstration.source, demonstration.text, needed)
    except ValueError as error:  # somebody else may have been promised the memory meanwhile
        session.message = str(error)
        return None


def begin_on_text(
    model: TextModel, material: TrainingData, settings: TrainingSettings, source: Source, text: str, needed: int
) -> LiveTraining:
    """A training of this session that is seen on a text; "" leaves the one that is there."""
    session = current_session()
    if text:
        texts.write_first(session, model, text)
    live = training.begin(session, model, material, settings, source, text, needed)
    session.rerun_requested = True
    return live
