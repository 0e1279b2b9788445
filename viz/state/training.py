"""Training in the session: what is trained on, and the model as it is after the newest step."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import secrets
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import in_turn, significant
from viz.state.permissions import Quota, limit, seconds_kept
from viz.state.serving import by_channel
from viz.state.session import Key, Session
from viz.state.training_view import GeneratedTarget, Watching

if TYPE_CHECKING:
    from model.data.sources import Data, Source, TrainingData
    from model.inference.models import Translator
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens
    from model.training.live.frame_recorder import Probe
    from model.training.live.live_training import LiveTraining
    from model.training.live.registry import TrainingRegistry
    from model.training.live.worker import Slots
    from model.training.settings import BatchSizes, TrainingSettings

RUN = "run"  # in the address: a reconnect finds the training again
ENTRY = "training"  # in the list of models
STEPS, RATE, WARMUP = 1000, 3e-4, 20  # of a training that is begun in the sidebar: a trained model goes on gently
WATCHED = 256  # tokens of a batch while steps are taken some at a time there, unless another size is chosen
AHEAD = 1.0  # seconds from the first sight of a model until the data for it are prepared: first the page is drawn
MOVING = ("preparing", "running", "waiting")
OVER = ("finished", "stopped")
Standing = tuple[int, int, int]


TRAININGS = "VITRINE_TRAININGS"  # in the environment: a folder in which trainings are kept, which servers may share
AGAIN = 60.0  # seconds after which a training for which there was no room is asked for again
_unreadable: dict[str, float] = {}  # until when what was kept is not asked for again, by its key


@st.cache_resource(show_spinner=False)
def trainings() -> TrainingRegistry:
    """Trainings of this process, of all sessions."""
    from model.training.live.registry import TrainingRegistry

    return TrainingRegistry(retention=seconds_kept())


def training(session: Session) -> LiveTraining | None:
    """This session's training, found again by the address after a reload; being asked for is a sign of life."""
    key = session.training.run or session.address.get(RUN)
    live = (trainings().get(key) or _kept(key)) if key else None
    if live and live.save_error and session.training.unkept != live.number and is_own(session, live):
        session.training.unkept, session.notice = live.number, live.save_error  # the script says it, once
        session.rerun_requested = session.rerun_requested or by_channel()
    if live and not session.training.run:
        session.training.run = key or ""
        session.address.set(RUN, session.training.run)
    return live


def is_own(session: Session, live: LiveTraining) -> bool:
    """True if this visitor's browser began a training. The address has its key, and a link may be copied: others see
    it, and steer nothing.
    """
    return live.owner == owner(session)


def owner(session: Session) -> str:
    """Hash of the secret of a visitor's browser; not itself, for others may read what is kept of a training."""
    return hashlib.sha256(session.browser.encode()).hexdigest() if session.browser else ""


def kept_folder(key: str) -> Path | None:
    """Folder in which the training of this key is kept for other processes, and for this one after its end; None:
    nowhere.
    """
    wanted = os.environ.get(TRAININGS, "").strip()
    return Path(wanted).expanduser() / hashlib.sha256(key.encode()).hexdigest()[:32] if wanted else None


def _kept(key: str) -> LiveTraining | None:
    """A training that another process has left, as it stood last; None where none is kept, or it cannot be read."""
    folder = kept_folder(key)
    if folder is None or time.monotonic() < _unreadable.get(key, 0.0):
        return None
    from model.runtime.files import finish_replacing

    finish_replacing(folder)
    if not folder.is_dir():
        return None
    from model.runtime.errors import CheckpointError
    from model.training.live.live_training import LiveTraining
    from model.training.live.saved_training import read_saved_training

    with trainings().alone(key):
        if live := trainings().get(key):  # another window was faster
            return live
        try:
            left = read_saved_training(folder)
            request = left.start.config, left.material, left.settings, left.start.device
            needed = trainings().require_room(key, *request)
            given = {"source": left.source, "owner": left.owner, "batches": left.batches, "folder": folder, **quotas()}

            def make_training(slots: Slots) -> LiveTraining:
                first = left.start, left.material, left.settings, left.probe
                return LiveTraining(*first, slots=slots, going_on=left, **given)

            return trainings().begin(key, make_training, needed)
        except ValueError as error:
            logging.getLogger(__name__).exception("a training that was kept does not go on")
            _unreadable[key] = math.inf if isinstance(error, CheckpointError) else time.monotonic() + AGAIN
            return None


def steered(session: Session) -> LiveTraining | None:
    """This session's training, for its own visitor to steer; None for others."""
    live = training(session)
    return live if live is not None and is_own(session, live) else None


def watched_only() -> str:
    """Reason why somebody else's training cannot be steered here."""
    return _("This training belongs to another browser: it can be watched here, not steered.")


def own_key(session: Session) -> str:
    """Key of this visitor's own training; "" where the session shows another's, or none."""
    return session.training.run if steered(session) is not None else ""


def begin(
    session: Session,
    model: TextModel,
    material: TrainingData,
    settings: TrainingSettings,
    source: Source,
    text: str = "",
    needed: int = 0,
    batches: BatchSizes | None = None,
) -> LiveTraining:
    """A new training of this session on a copy of `model`; the one before is freed, and the page shows the new one.

    source: what it learns from, for the model card. text: to watch it on, unless it is the model that is shown. needed:
    bytes of memory that it is promised. batches: other sizes than that of the settings, which are of the first step.

    Raises:
        ValueError: the settings do not go together with the data, the model is larger than this server trains, or the
            memory is promised to others.
    """
    from model.inference.models import Translator
    from model.training.live.frame_recorder import Probe
    from model.training.live.live_training import LiveTraining

    require_allowed(model.network.parameter_count())
    session.training.run = own_key(session) or secrets.token_urlsafe(9)
    same = session.traced_input is not None and model is session.model
    probe_text, typed = session.traced if same else (text or model.example or material.example, "")
    tokens = session.source if same else model.source_tokens(probe_text)
    target = session.target if same else None
    if isinstance(model, Translator) and not typed:
        target = _answer(model, material, probe_text) or target or model.target_tokens("")
    probe = Probe(tokens, target)

    def make_training(slots: Slots) -> LiveTraining:
        given = {"source": source, "owner": owner(session), "folder": kept_folder(session.training.run), **quotas()}
        return LiveTraining(model, material, settings, probe, slots=slots, batches=batches, **given)

    live = trainings().begin(session.training.run, make_training, needed)
    untyped = None
    if isinstance(model, Translator) and not typed:
        untyped = _on_film(model, live.number, material, probe, probe_text)
    session.training.watching = Watching((live.number, probe), untyped)
    session.address.set(RUN, session.training.run)
    show()
    return live


def show() -> None:
    """Make the model in training the shown one. In a callback."""
    st.session_state[Key.MODEL] = ENTRY


def require_allowed(parameters: int) -> None:
    """A model of so many parameters may be trained here.

    Raises:
        ValueError: it may not.
    """
    most = limit(Quota.MODEL_SIZE)
    if most is not None and parameters > 1e6 * most:
        sentence = _(
            "This model has {count:.3g} M parameters, and this server trains models of at most {most:g} M: choose a "
            "smaller one."
        )
        raise ValueError(sentence.format(count=parameters / 1e6, most=most))


def quotas() -> dict[str, Any]:
    """Limits of a training here, as arguments of `LiveTraining`."""
    from model.training.live.film import BUDGET, KEY_BUDGET

    minutes, film = limit(Quota.TRAINING_TIME), limit(Quota.FILM_SIZE)
    limits: dict[str, Any] = {} if minutes is None else {"longest": 60 * minutes}
    if film is not None:
        limits |= {"budget": min(BUDGET, int(film * 1e6)), "key_budget": min(KEY_BUDGET, int(film * 1e6))}
    return limits


@dataclass(frozen=True)
class Plan:
    """Data and settings of the first click on a step. name: of the data. own: whether they are what the model's run
    learnt from, in its split.
    """

    name: str
    own: bool
    settings: TrainingSettings

    def data(self, model: TextModel) -> Data:
        """The data themselves."""
        from model.data.sources import data_of_run, phrase_data

        return (data_of_run(model.kind, model.training) if self.own else None) or phrase_data(model.kind)


def batch_sizes(session: Session, live: LiveTraining | None, plan: TrainingSettings) -> BatchSizes:
    """Sizes of batches: those of the training, else those with which the first click would begin one of this plan."""
    from model.training.settings import BatchSizes

    if live is not None:
        return live.batches
    return BatchSizes(min(session.training.watched_batch or WATCHED, plan.batch_tokens), plan.batch_tokens)


def usual_plan(model: TextModel) -> Plan:
    """Its run's own data and settings where they are here, else sentences made by rule; gently."""
    from model.data.sources import PHRASES, has_data_of
    from model.training.settings import TrainingSettings, settings_of_run

    own = has_data_of(model.training)
    gentle = TrainingSettings(steps=STEPS, warmup=WARMUP, rate=RATE, label_smoothing=0.0, average=0.0, bpe_dropout=0.0)
    name = str(model.training["data"]) if own else PHRASES
    return Plan(name, own, settings_of_run(model.training, gentle))


served = threading.Event()  # a server has begun: what a click will need may be prepared before it
_ahead: WeakSet[TextModel] = WeakSet()  # models for which it was


def prepare_ahead(model: TextModel) -> None:
    """Have what the first click on a step needs prepared soon, once for each model, beside the page."""
    if not served.is_set() or model in _ahead:
        return
    _ahead.add(model)
    timer = threading.Timer(AHEAD, _prepare, (weakref.ref(model),))
    timer.daemon = True
    timer.start()


def _prepare(reference: weakref.ref[TextModel]) -> None:
    from model.data.prepared import prepared

    if (model := reference()) is None:
        return
    plan = usual_plan(model)
    with suppress(ValueError):  # it is said after the click
        material = material_of(model, plan.data(model))
        prepared().corpora(material, model.config.max_length, plan.settings.bpe_dropout)


def plan_words(model: TextModel) -> tuple[str, str]:
    """Name of the data that the first click on a step trains on, and sentences about them and how it trains."""
    plan, known = usual_plan(model), str(model.training.get("data") or "")
    if plan.own:
        data_sentence = _("Trains on its run's own data: {data}.").format(data=data_name(plan.name))
    elif known:
        data_sentence = _(
            "Trains on {data}: the data of its run, {own}, are not here, so losses cannot be compared with its own."
        ).format(data=data_name(plan.name), own=data_name(known))
    else:
        data_sentence = _("Trains on {data}: what it has learnt from is unknown.").format(data=data_name(plan.name))
    rate, smoothing = significant(plan.settings.rate), significant(plan.settings.label_smoothing)
    how = _("Rate {rate}, smoothing {smoothing}.").format(rate=rate, smoothing=smoothing)
    goes_on = _("Goes on from {name} as it is now; an untrained model begins on the page Training.")
    return data_name(plan.name), in_turn(data_sentence, how, goes_on.format(name=model.name))


def is_task(session: Session, model: TextModel) -> bool:
    """True if what a model writes answers a built-in task, and is no translation; one in training by its data."""
    live = trainings().get(session.training.run) if session.training.run else None
    if live is not None and live.start.name == model.name:
        return live.source.data.startswith("task:")
    return bool(model.training.get("task"))


def data_name(name: str) -> str:
    """Name of training data on the screen."""
    from model.data.sources import PHRASES

    task, _colon, count = name.removeprefix("task:").partition(":")
    if name.startswith("task:"):
        return _("the task {task}, {count} pairs").format(
            task=task, count=f"{int(count):,}" if count.isdecimal() else "?"
        )
    return _("sentences made by rule") if name == PHRASES else name


def material_of(model: TextModel, data: Data) -> TrainingData:
    """This data for a model that has its tokenizers already.

    Raises:
        ValueError: it does not fit this kind of model.
    """
    from model.data import sources

    units = sources.usual_units(model.kind, data.task)
    return sources.material_of(model.kind, data, units, 0, (model.source_tokenizer, model.target_tokenizer))


def newest_model(session: Session, live: LiveTraining) -> TextModel:
    """The model as it is after the newest step, and its trace of the text in the fields; the training watches it."""
    from model.training.live.frame_recorder import Probe
    from viz.state import texts

    view = live.view()
    model = view.model if view else live.start
    source, target_text = texts.texts(model)
    tokens = model.source_tokens(source)
    target, reference = _target(model, live, session, source, target_text)
    probe = Probe(tokens, target)
    if view and view.probe == probe:
        trace = view.trace
    else:
        trace = model.trace_tokens(tokens, target)
        # Else another tab chose a text since, and the film is of that; or this is somebody else's training.
        if session.training.watching.wish != (live.number, probe) and is_own(session, live):
            live.set_probe(probe)
    session.training.watching.wish = live.number, probe
    session.show(model, (source, target_text), trace, tokens, target, view.step if view else 0)
    session.origin = "data" if reference else ""
    return model


def _target(
    model: TextModel, live: LiveTraining, session: Session, source: str, typed: str
) -> tuple[Tokens | None, bool]:
    """The typed target; else, until there is another source, the right answer, or what the model writes now: where
    nobody knows the answer, or the user asked the model. A tab that finds a training goes on with what that is watched
    on. And whether it is the answer in the data.
    """
    from model.inference.models import Translator

    if not isinstance(model, Translator):
        return None, False
    watching = session.training.watching
    anew, watching.rewrite = watching.rewrite, False
    if typed:
        return model.target_tokens(typed), False
    if live.current and (watching.wish is None or watching.wish[0] != live.number):  # a reload: what is filmed goes on
        watching.untyped = _on_film(model, live.number, live.material, live.current.film.probe, source)
    known = watching.untyped
    if anew or known is None or (known.number, known.source) != (live.number, source):
        answer = None if anew else _answer(model, live.material, source)
        target = answer or model.trace_generated(model.source_tokens(source))[1]
        known = watching.untyped = GeneratedTarget(live.number, source, target, answer is not None)
    return known.target, known.reference


def _on_film(
    model: Translator, number: int, material: TrainingData, probe: Probe, source: str
) -> GeneratedTarget | None:
    """The target of this source that a training watches, if it is of that source and anything is in it."""
    if probe.target is None or len(probe.target.ids) < 2 or probe.source != model.source_tokens(source):
        return None
    return GeneratedTarget(number, source, probe.target, probe.target == _answer(model, material, source))


def _answer(model: Translator, material: TrainingData, source: str) -> Tokens | None:
    """The right target, where it is known."""
    from model.training.live.frame_recorder import right_answer

    answer = right_answer(material, source)
    return None if answer is None else model.target_tokens(answer)


def standing(live: LiveTraining | None) -> Standing | None:
    """State of a training: its number, its film's edition, which no other text or run has, and its step."""
    if live is None:
        return None
    run = live.current
    return live.number, run.film.edition if run else 0, live.snapshot.step


def is_moving(live: LiveTraining | None) -> bool:
    """True if there will be something newer to show."""
    return live is not None and (live.snapshot.busy or live.snapshot.status in MOVING)
