"""Models that an experiment has trained, put into the list of this session's models, so that every page shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import streamlit as st

from model.experiments.experiment import Experiment, Outcome, TrainedModel
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.pages.lab.outcome import words
from viz.state import checkpoints, shown_model
from viz.state.session import current_session, follow_language

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

WIDE = 320  # pixels
REFUSED = "statement_model_refused"  # in the session state: why the last one could not be put there


def offer_models(experiment: Experiment, outcome: Outcome | None) -> None:
    """A choice of the trained models, and the button that shows one; nothing where none was trained."""
    if outcome is None or not outcome.models:
        return
    key = f"statement_{experiment.name}_model"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        numbers = range(len(outcome.models))
        follow_language(key)
        chosen = st.selectbox(
            _("Trained model"),
            numbers,
            format_func=lambda number: literal(words(outcome.models[number].name)),
            key=key,
            width=WIDE,
        )
        trained = outcome.models[chosen]
        st.button(_("Show it on every page"), key=f"{key}_show", on_click=show_model, args=(experiment, trained))
    if refused := st.session_state.pop(REFUSED, ""):
        st.error(as_sentence(translate_error(refused)))


def show_model(experiment: Experiment, trained: TrainedModel) -> None:
    """Put a trained model into this session's list, and show it. In a callback."""
    from model.training.live.saving import zipped

    session, name = current_session(), file_name(experiment, trained.model)
    uploads = checkpoints.begin(session).uploads
    try:
        content = zipped(name, trained.model, dict(trained.model.training))
        path = uploads.add([(f"{name}.zip", content)])
    except (ValueError, OSError) as error:
        st.session_state[REFUSED] = str(error)
        return
    shown_model.show(checkpoints.add(session, name, path))


def file_name(experiment: Experiment, model: TextModel) -> str:
    """Name of a trained model in the list: experiment, arm, seed."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", f"{experiment.name} {model.name} {model.training.get('seed', '')}").strip("-")
