"""Begin a training: the demonstration in one click, a new model, or the one that is shown; data, costs, the start."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.sources import Data, TrainingData, Units, material_of, new_config
from model.inference.text_model import TextModel
from model.message import field_of
from model.network.config import NETWORK_OPTIONS, TransformerConfig
from model.runtime.device import choose_device
from model.runtime.errors import LONGEST, first_line
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, no_training
from viz.pages.training import cost, network, own_data
from viz.pages.training import data as training_data
from viz.pages.training import settings as training_settings
from viz.pages.training.start import start
from viz.state import permissions, training
from viz.state.permissions import Permission
from viz.state.session import Session, choice, choose, current_session
from viz.ui.new_model import FORM

DEMONSTRATION = "demonstration"
WAYS = (DEMONSTRATION, "new", "on")


class Part(StrEnum):
    """Names in the session state; the first is in the address bar too."""

    FORM = "begin_form"
    WAY = "begin"
    MATERIAL = "begin_material"
    BEGIN = "begin_button"
    MESSAGE = "begin_message"


@dataclass(frozen=True)
class Plan:
    """All that a training begins with. model: the model that goes on; None: a new one of this config."""

    model: TextModel | None
    config: TransformerConfig
    material: TrainingData
    data: Data

    @property
    def choices(self) -> tuple[object, ...]:
        """Choices of the user: the model in training is another one after each step."""
        return self.model is None, self.config, self.data


def choose_way(place: DeltaGenerator, model: TextModel) -> str:
    """Demonstration, new model, or the shown one, one at a time; the second at first for a link with choices of it."""
    linked = any(current_session().address.get(name) for name in LINKED)
    default = "new" if linked else DEMONSTRATION
    return choose(_("What to train"), WAYS, default, Part.WAY, lambda way: way_name(way, model), place)


def show(session: Session, model: TextModel) -> None:
    """The model on one side; on the other the data, what it costs, and the start."""
    if training.training(session) is None:
        _form(session, model)
        return
    # While one lasts, the page is drawn twice a second: a form that nobody needs then would take time from it.
    form = st.expander(_("Train something else"), key=Part.FORM, on_change="rerun")
    if form.open:
        with form:
            _form(session, model)


def _form(session: Session, model: TextModel) -> None:
    recall()
    new = choice(WAYS, "new", Part.WAY) == "new"
    left, right = st.columns([12, 11], gap="medium")  # the four kinds stand in one row at 1366 pixels
    kind = network.chosen_kind() if new else model.kind
    with right:
        usual = "" if new else str(model.training.get("task") or "")
        data = training_data.show(right.container(), kind, usual, None if new else model)
    plan, wrong = (_new if new else _on)(left, model, data)
    if training.training(session) is None:  # else the fields say what is in force
        training_settings.suit(None if new else model)
    settings, bad = training_settings.read()
    if bad:
        wrong = [*wrong, *bad.values()]
    foot = right.container()
    if plan is None or settings is None:
        for sentence in wrong:
            foot.error(as_sentence(sentence))
        if data is None and not wrong and choice(list(training_data.SOURCES), "", training_data.Part.SOURCE) == "own":
            files = permissions.may(Permission.UPLOADS)
            foot.caption(
                _("There is nothing to learn from yet: choose a file, or paste a text.")
                if files
                else _("There is nothing to learn from yet: paste a text.")
            )
    keep(session, network.preset_fields() if new else {})
    costs = foot.container()
    known, refused = None, ""
    if plan is not None and settings is not None:
        try:
            known = cost.costs_of(plan.config, plan.material, settings)
            cost.require_costs(plan.config, known[1], plan.model.device if plan.model else choose_device(), session)
        except ValueError as error:
            refused = translate_error(error)
    ready = known is not None and not refused
    buttons = foot.container(horizontal=True, vertical_alignment="center")
    buttons.button(
        _("Begin this training"),
        key=Part.BEGIN,
        type="primary",
        disabled=not ready,
        on_click=_begin,
        args=(plan, settings),
    )
    request, message = st.session_state.get(Part.MESSAGE) or (None, "")
    if refused or (message and plan and request == (plan.choices, settings)):  # not the message on another plan
        foot.error(as_sentence(refused or translate_error(message)))
    if training.training(session):
        foot.caption(_("The training that goes on now, with its film and its runs, is given up for it."))
    if plan is not None and settings is not None and known is not None:
        cost.show(costs, buttons, plan.model, plan.config, plan.material, settings, known)


def _new(place: DeltaGenerator, model: TextModel, data: Data | None) -> tuple[Plan | None, list[str]]:
    """The form of a new model."""
    kind, _preset = network.choose_kind(place)
    options, wrong = network.read(kind)
    form = place.container()
    units, vocabulary = network.tokens(place, kind, data)
    material, sentences = _material(kind, data, units, vocabulary)
    plan = None
    if material is not None and data is not None and not wrong:
        try:
            plan = Plan(None, new_config(kind, options, material.tokenizers), material, data)
        except ValueError as error:
            wrong = {field_of(error, list(options)): translate_error(error)}
    network.fields(form, kind, wrong)
    return plan, [*sentences, *wrong.values()]


def _on(place: DeltaGenerator, model: TextModel, data: Data | None) -> tuple[Plan | None, list[str]]:
    """The model that is shown, with its own tokenizers."""
    if refused := no_training(model.network.ours, model.predicts):
        place.info(refused)
        return None, []
    place.markdown(
        _(
            "A copy of **{name}** goes on from the weights it has now, with its own tokenizers. The model itself stays."
        ).format(name=literal(model.name))
    )
    if data is not None and (sentence := training_data.foreign_sentence(model, data)):
        place.warning(sentence)
    if model.training:
        place.caption(
            _("Batch, smoothing, averaging and the like are those of its run, see Settings; the rate is gentle.")
        )
    material, sentences = _material(model.kind, data, "characters", 0, model)
    plan = Plan(model, model.config, material, data) if material is not None and data is not None else None
    return plan, sentences


def _material(
    kind: Any, data: Data | None, units: Units, vocabulary: int, model: TextModel | None = None
) -> tuple[TrainingData | None, list[str]]:
    """Training data, computed once for the same things; or the reasons why there are none."""
    if data is None:
        return None, []
    tokenizers = (model.source_tokenizer, model.target_tokenizer) if model else None
    made_of = (kind, data, units, vocabulary, tokenizers)
    try:
        read = partial(material_of, *made_of)
        material = current_session().cached(Part.MATERIAL, made_of, read)
        return material, []
    except ValueError as error:
        return None, [translate_error(error)]


def _begin(plan: Plan, settings: Any) -> None:
    try:
        st.session_state[Part.MESSAGE] = None
        start(plan.model, plan.config, plan.material, settings, plan.data.source)
    except (ValueError, MemoryError, RuntimeError) as error:  # torch says RuntimeError where memory does not suffice
        st.session_state[Part.MESSAGE] = ((plan.choices, settings), first_line(error, LONGEST))


def way_name(way: str, model: TextModel) -> str:
    names = {DEMONSTRATION: _("Demonstration"), "new": _("A new model")}
    return names.get(way) or _("Go on with {name}").format(name=literal(model.name))


# Texts typed for a training that has not begun: a reload finds it again, under a key in the address.

DRAFT = "draft"  # in the address
LINKED = (DRAFT, network.Part.KIND, network.Part.PRESET, training_data.Part.SOURCE)  # parameters of a form's link
KEPT, MOST = 600.0, 8  # seconds that a process keeps one, and how many
RECALLED = "draft_recalled"
NAMES = (
    *(FORM.key(name) for name in NETWORK_OPTIONS),
    *(network.Part.PUT, network.Part.VOCABULARY),
    *(training_data.Part.TASK, training_data.Part.COUNT, training_data.Part.SHARE),
    *(own_data.Part.CONTENT, own_data.Part.PASTED, own_data.Part.DELIMITER),
)


@st.cache_resource(show_spinner=False, ttl=KEPT, max_entries=MOST)
def _held(key: str) -> dict[str, Any]:
    """Data held under a key that nobody guesses."""
    return {}


def recall() -> None:
    """Before the fields are drawn: in a session that begins, put back what they held."""
    key = st.query_params.get(DRAFT)
    if key and not st.session_state.get(RECALLED):
        st.session_state.update(_held(key))
    st.session_state[RECALLED] = True


def keep(session: Session, preset: dict[str, Any]) -> None:
    """After they are drawn: hold what differs from a form that nobody has touched. preset: of the network's fields."""
    now = {name: st.session_state[name] for name in NAMES if name in st.session_state}
    touched = now.get(own_data.Part.CONTENT) is not None or any(
        now.get(name, value) != value for name, value in preset.items()
    )
    key = st.query_params.get(DRAFT)
    if touched and not key:
        key = secrets.token_urlsafe(9)
        session.address.set(DRAFT, key)
    if key:
        held = _held(key)
        held.clear()
        held.update(now)
