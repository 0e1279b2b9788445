"""Training in the session: what is trained on, and the model as it is after the newest step."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from viz.state.session import Key, Session, Watching

if TYPE_CHECKING:
    from model.data.sources import Data, Source, TrainingData
    from model.inference.models import Translator
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens
    from model.training.live.camera import Probe
    from model.training.live.live_training import LiveTraining
    from model.training.live.registry import TrainingRegistry
    from model.training.settings import TrainingSettings

RUN = "run"  # in the address: a reconnect finds the training again
ENTRY = "training"  # in the list of models
STEPS, RATE = 1000, 3e-4  # of a training that is begun in the sidebar: a trained model goes on gently
MOVING = ("preparing", "running", "waiting")
OVER = ("finished", "stopped")
Standing = tuple[int, int, int]


@st.cache_resource(show_spinner=False)
def trainings() -> TrainingRegistry:
    """Those of this process, of all sessions."""
    from model.training.live.registry import TrainingRegistry

    return TrainingRegistry()


def training(session: Session) -> LiveTraining | None:
    """This session's training, found again by the address after a reload; being asked for is a sign of life."""
    key = session.run or session.parameter(RUN)
    found = trainings().get(key) if key else None
    if found and not session.run:
        session.run = key or ""
        session.say(RUN, session.run)
    return found


def begin(
    session: Session,
    model: TextModel,
    material: TrainingData,
    settings: TrainingSettings,
    source: Source,
    text: str = "",
) -> LiveTraining:
    """A new training of this session on a copy of `model`; the one before is freed, and the page shows the new one.

    source: what it learns from, for the model card. text: to watch it on, unless it is the model that is shown.

    Raises:
        ValueError: the settings do not go together with the data.
    """
    from model.inference.models import Translator
    from model.training.live.camera import Probe
    from model.training.live.live_training import LiveTraining

    session.run = session.run or secrets.token_urlsafe(9)
    same = session.shown is not None and model is session.model
    shown, typed = session.traced if same else (text or model.example or material.example, "")
    tokens = session.source if same else model.source_tokens(shown)
    target = session.target if same else None
    if isinstance(model, Translator) and not typed:
        target = _answer(model, material, shown) or target or model.target_tokens("")
    probe = Probe(tokens, target)
    made = partial(LiveTraining, model, material, settings, source=source)
    live = trainings().begin(session.run, lambda slots: made(probe, slots=slots))
    untyped = None if typed else _on_film(model, live.number, probe, shown)
    session.watching = Watching((live.number, probe), untyped)
    session.say(RUN, session.run)
    st.session_state[Key.MODEL] = ENTRY
    return live


def usual_data(model: TextModel) -> Data:
    """What a bundled model is trained on unless the user chooses: its own task, or sentences made by rule."""
    from model.data.sources import phrase_data, task_data

    task = str(model.training.get("task") or "")
    return task_data(task) if task else phrase_data(model.kind)


def material_of(model: TextModel, data: Data) -> TrainingData:
    """This data for a model that has its tokenizers already.

    Raises:
        ValueError: it does not fit this kind of model.
    """
    from model.data import sources

    units = sources.usual_units(model.kind, data.task)
    return sources.material_of(model.kind, data, units, 0, (model.source_tokenizer, model.target_tokenizer))


def shown(session: Session, live: LiveTraining) -> TextModel:
    """The model as it is after the newest step, and its trace of the text in the fields; the training watches it."""
    from model.training.live.camera import Probe
    from viz.state import texts

    view = live.view()
    model = view.model if view else live.start
    source, target_text = texts.texts(model)
    tokens = model.source_tokens(source)
    target = _target(model, live, session, source, target_text)
    probe = Probe(tokens, target)
    if view and view.probe == probe:
        trace = view.trace
    else:
        trace = model.trace_tokens(tokens, target)
        if session.watching.wish != (live.number, probe):  # else another tab chose a text since: the film is of that
            live.set_probe(probe)
    session.watching.wish = live.number, probe
    session.show(model, (source, target_text), trace, tokens, target, view.step if view else 0)
    return model


def _target(model: TextModel, live: LiveTraining, session: Session, source: str, typed: str) -> Tokens | None:
    """What is typed; else, until there is another source, the right answer, or what the model writes now: where nobody
    knows the answer, or the user asked the model. A tab that finds a training goes on with what that is watched on.
    """
    from model.inference.models import Translator

    if not isinstance(model, Translator):
        return None
    watching = session.watching
    anew, watching.rewrite = watching.rewrite, False
    if typed:
        return model.target_tokens(typed)
    if live.current and (watching.wish is None or watching.wish[0] != live.number):  # a reload: what is filmed goes on
        watching.untyped = _on_film(model, live.number, live.current.film.probe, source)
    known = watching.untyped
    if anew or known is None or known[:2] != (live.number, source):
        target = None if anew else _answer(model, live.material, source)
        target = target or model.trace_generated(model.source_tokens(source))[1]
        known = watching.untyped = live.number, source, target
    return known[2]


def _on_film(model: TextModel, number: int, probe: Probe, source: str) -> tuple[int, str, Tokens] | None:
    """The target of this source that a training watches, if it is of that source and anything is in it."""
    if probe.target is None or len(probe.target.ids) < 2 or probe.source != model.source_tokens(source):
        return None
    return number, source, probe.target


def _answer(model: Translator, material: TrainingData, source: str) -> Tokens | None:
    """The right target, where it is known."""
    from model.training.live.camera import right_answer

    answer = right_answer(material, source)
    return None if answer is None else model.target_tokens(answer)


def standing(live: LiveTraining | None) -> Standing | None:
    """Where a training is: its number, its film's edition, which no other text or run has, and its step."""
    if live is None:
        return None
    run = live.current
    return live.number, run.film.edition if run else 0, live.snapshot.step


def is_moving(live: LiveTraining | None) -> bool:
    """Whether there will be something newer to show."""
    return live is not None and (live.snapshot.busy or live.snapshot.status in MOVING)
