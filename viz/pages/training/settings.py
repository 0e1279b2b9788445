"""Settings of the next training, or those of the present one, which change while it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from model.message import Message, field_of
from model.options import field_text
from model.training.notes import no_peak
from model.training.schedule import learning_rate
from model.training.settings import (
    CHANGEABLE,
    DROPOUTS,
    RUN_OPTIONS,
    TRAINING_OPTIONS,
    TrainingSettings,
    settings_of_run,
)
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, PLAIN
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.errors import slow_precision, translate_error
from viz.i18n.format import as_sentence
from viz.render.view import view
from viz.state import training
from viz.state.session import Session, current_session
from viz.ui.fields import Form
from viz.ui.parts import Drawing, Views, explanation

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.training.live.live_training import LiveTraining
    from model.training.settings import RunSettings

USUAL = (
    *("steps", "batch_tokens", "rate", "warmup", "schedule", "label_smoothing", "weight_decay", "clip"),
    *("precision", "seed", "accumulation", "validate_every"),
)
RARE = tuple(name for name in CHANGEABLE if name not in (*USUAL, *DROPOUTS))
FIRST_ONLY = tuple(
    option.name for option in TRAINING_OPTIONS.values() if option.fixed and option.name != "compile"
)  # a training that is watched is not compiled
NAMES = (*USUAL, *RARE, *FIRST_ONLY)
NEW_RATE = 1e-3  # of a model from nothing; one that is trained goes on with training.RATE
BEGINNING = TrainingSettings(
    steps=1500,
    batch_tokens=1000,
    rate=NEW_RATE,
    warmup=100,
    label_smoothing=0.0,
    average=0.0,
    bpe_dropout=0.0,
    validate_every=100,
)
POINTS = 300  # of the schedule's curve


class Part(StrEnum):
    """Names in the session state."""

    SEEN = "training_settings_seen"
    SUITED = "training_settings_suited"  # the model that they were put for
    WRONG = "training_settings_wrong"
    SCHEDULE = "training_schedule"
    RARE = "training_rare"
    EXPLANATION = "training_settings_explanation"
    WORDS = "training_settings_words"


def form() -> Form:
    return Form("setting", {name: RUN_OPTIONS[name] for name in (*NAMES, *DROPOUTS)}, change)


def follow(live: LiveTraining | None) -> None:
    """Put what is in force into the fields: at first, and whenever going back or branching changed it."""
    fields = form()
    if not fields.holds():
        fields.put(dataclasses.asdict(BEGINNING) | dict.fromkeys(DROPOUTS, 0.0))
    fields.refill()
    refused: dict[str, str] = st.session_state.setdefault(Part.WRONG, {})
    if live is None:
        refused.clear()
        return
    seen: RunSettings | None = st.session_state.get(Part.SEEN)
    now = live.settings
    if seen is now:
        return
    news = dataclasses.asdict(now)
    if seen:
        news = {name: news[name] for name in seen.differences(now)}
    fields.put(news)
    for name in news:
        refused.pop(name, None)
    st.session_state[Part.SEEN] = now


def put(values: Mapping[str, Any]) -> None:
    """Write settings into the fields."""
    form().put(values)


def suit(model: TextModel | None) -> None:
    """First values of the fields: of a model that goes on the settings of its run, and gently; None: of a new one.

    What the user has written stays.
    """
    name = "" if model is None else model.name
    known, before = st.session_state.get(Part.SUITED) or ("", BEGINNING)
    if known == name:
        return
    usual = BEGINNING if model is None else settings_of_run(model.training, replace(BEGINNING, rate=training.RATE))
    st.session_state[Part.SUITED] = name, usual
    fields, old, new = form(), dataclasses.asdict(before), dataclasses.asdict(usual)
    held = {each: st.session_state.get(fields.key(each)) for each in NAMES}
    put({each: new[each] for each in NAMES if held[each] == field_text(old[each])})


def read() -> tuple[TrainingSettings | None, dict[str, str]]:
    """Settings in the fields, and their faults, by name."""
    values, wrong = form().read(NAMES)
    if wrong:
        return None, wrong
    try:
        return TrainingSettings(**values), {}
    except ValueError as error:
        return None, {field_of(error, NAMES) or NAMES[0]: translate_error(error)}


def change(name: str) -> None:
    """A field was changed: if a training lasts, it goes on with that."""
    live, (values, wrong) = training.steered(current_session()), form().read([name])
    refused: dict[str, str] = st.session_state.setdefault(Part.WRONG, {})
    refused.pop(name, None)
    if live is None or wrong or name in FIRST_ONLY or values[name] == getattr(live.settings, name):
        return
    try:
        live.change(**values)
        st.session_state[Part.SEEN] = live.settings
    except ValueError as error:
        refused[name] = str(error)


def page(session: Session) -> Views:
    """The fields on one side, the schedule that they make on the other."""
    live = training.steered(session)
    settings, wrong = read()
    broken = {name: translate_error(message) for name, message in st.session_state.get(Part.WRONG, {}).items()}
    wrong |= broken | form().read(DROPOUTS)[1]
    left, right = st.columns([11, 9], gap="medium")
    with left:
        st.container(key=Part.WORDS).caption(
            _("These are in force. A change counts from the next step on, and is marked on the curves.")
            if live
            else _("The next training begins with these; while it runs they can be changed here.")
        )
        fields = form()
        fields.draw(left, USUAL, wrong)
        if settings and (slow := slow_precision(settings.precision)):
            left.warning(slow)
        if live:
            fields.draw(left, DROPOUTS, wrong)
        rare = st.expander(_("More settings"), key=Part.RARE, on_change="rerun")
        if rare.open:
            fields.draw(rare, RARE, wrong)
            if live:
                rare.caption(_("These hold from the beginning of a training to its end; the next one takes them up:"))
            fields.draw(rare, FIRST_ONLY, wrong)
    place = right.container()
    with right:
        explanation(
            Part.EXPLANATION,
            _(
                "The learning rate says how far each step moves the weights. It rises at first, while the steps are "
                "still rash, and falls towards the end, so that the model settles."
            ),
            [RATE],
            _(
                "The learning rate says how far a step moves the weights. It grows during warm-up, while the gradients "
                "are still rough, and falls towards the end, so that the weights come to rest. "
                "After w steps of warm-up the rate η falls as a cosine (Loshchilov and Hutter, 2017, equation 5), as "
                "in Vaswani et al., 2017, section 5.3, or not at all. This code says the rate of each step:"
            ),
            learning_rate,
        )

    def views(_model: TextModel) -> Drawing:
        total = (settings.steps if settings else None) or (live.snapshot.total if live else 0)
        step = live.snapshot.step if live else None
        yield [(place, view(Part.SCHEDULE, schedule_chart(settings, total, step)))] if settings and total else []

        def rest() -> None:
            if settings is None:
                place.caption(_("The schedule is drawn once every field holds a number that can be."))
            elif total and (sentence := no_peak(settings, total)):
                place.warning(as_sentence(translate_error(sentence)))
            elif not total:
                text = _("Without a number of steps the epochs say how many there are: known once the training begins.")
                place.caption(text)

        return rest

    return views


RATE = (
    r"\eta_t = \eta\,\frac{t}{w}\ (t \le w), \qquad "
    r"\eta_t = \frac{\eta}{2}\Big(1 + \cos\pi\,\tfrac{t - w}{T - w}\Big)"
    r"\ \text{or}\ \eta\sqrt{\tfrac{w}{t}}\ \text{or}\ \eta"
)


def schedule_chart(settings: TrainingSettings, total: int, step: int | None) -> Chart:
    """Learning rates of all steps, and where the training is that has come to `step`."""
    places = np.unique(np.rint(np.linspace(1, total, POINTS)).astype(int))
    if settings.warmup <= total:
        places = np.union1d(places, [max(1, settings.warmup)])
    rates = np.array([learning_rate(int(step), total, settings) for step in places])
    series = [Series(Message("rate"), places, rates, PLAIN)]
    if step and step <= total:
        rate = learning_rate(step, total, settings)
        series.append(Series(Message("now"), np.array([step]), np.array([rate]), FIRST, "dots"))
    about = About(
        Message("The learning rate of each step: up during warm-up, then as the schedule says."),
        [RATE],
        [learning_rate],
        meaning=Message("The first steps are taken with care, and the last ones to settle."),
    )
    heading = Caption(Message("Learning rate over the steps"), "schedule", f"{settings.schedule} {total}", about=about)
    return Chart(heading, series, Axis(Message("step")), Axis(Message("rate"), zero=True), tall=240)
