"""Figures of a state whose model is in training, for a file: those of its page, of the model at that step; on the page
Training the loss and the film of its run.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from model.lessons.state import State
from model.lessons.trained import with_texts
from viz.components.view import View
from viz.frame.page_figures import PageFigures, new_session, page_figures
from viz.i18n.catalogue import speaking
from viz.pages.training.curves import SMOOTHINGS, Look, Table, charts_of, curve_chart
from viz.pages.training.film import film_view
from viz.pages.training.start import PART
from viz.render.view import view
from viz.state.film_feed import FilmCursor, film_data, thinned
from viz.state.serving import serving

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.lessons.state import Subject
    from model.training.live.runs import Run

FILM = 900_000  # bytes of a film's arrays in a file
ARRAYS = {"uint8": "Uint8Array", "int32": "Int32Array", "float32": "Float32Array"}  # of the browser
PARTS = ("weights", "loss", "best", "probabilities", "norms")  # of a frame, in the order of `film_data`


def trained_figures(state: State, subject: Subject, language: str) -> PageFigures:
    """Figures of a state of a model in training. subject: its model at the state's step.

    Raises:
        ValueError: the model cannot read a text.
        MissingQuantityError: the page needs what the model does not have.
    """
    given = {name: each for name, each in with_texts(state).parameters.items() if not name.startswith("training")}
    if state.page != "training":
        return page_figures(subject.model, State(state.page, given), language, choices=True)
    run, session = subject.run, new_session(given)
    assert run is not None
    assert state.trained is not None
    views: list[View] = []
    with serving(session), speaking(language), session.lock:
        session.show(subject.model, ("", ""), subject.trace, subject.source, subject.target, state.trained[1])
        if state.parameters.get(PART) == "curves":
            lines = charts_of([run], run, "whole", run.film.kinds[-1])["loss"]
            look = Look(float(SMOOTHINGS[0]), log=False, log_x=False)
            views.append(view("curves_loss", curve_chart("loss", lines, Table([run]), look, run)))
        views.append(film_view(session, [run], run, run.film.kinds[-1]))
        current = session.current
    title = f"Vitrine · {subject.model.name} · {state.page}"
    return PageFigures(title, {view.key: view for view in views}, current, language)


def saved_film(run: Run) -> dict[str, Any]:
    """The film of a run as a file has it, see saved_page.js: of its frames as many, evenly, as there is room for."""
    header, (order, *parts) = film_data(run, FilmCursor())
    assert header is not None
    size = sum(each.nbytes for each in parts) // max(1, len(order))
    places = thinned(len(order), FILM // max(1, size)).tolist()
    steps = order[places].tolist()
    frames = [{name: _packed(part[place]) for name, part in zip(PARTS, parts, strict=True)} for place in places]
    return {**header, "runs": {}, "steps": steps, "frames": list(zip(steps, frames, strict=True)), "at": None}


def _packed(values: NDArray[Any]) -> list[str] | float | None:
    """A number, None where it is not finite, or an array: its type and its bytes."""
    if values.ndim:
        return [ARRAYS[values.dtype.name], base64.b64encode(values.tobytes()).decode()]
    return float(values) if np.isfinite(values) else None
