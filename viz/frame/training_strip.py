"""The strip in the sidebar: a training's buttons, where it stands, its loss, and its film on the way to the browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st
from numpy.typing import NDArray

from viz.components.registry import component, pack
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import clock, no_training, significant
from viz.state import training
from viz.state.checkpoints import spare_imports
from viz.state.film_feed import film_data
from viz.state.session import Key, Session, current_session

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.training.live.live_training import LiveTraining
    from model.training.live.snapshot import Snapshot

STRIP = "training_strip"
DRAWN = 200  # points of the loss
SELDOM = 15.0  # seconds between runs of its own where looks at the training bring it news: should one of them fail
RESTING = 3.0  # where nothing moves: an open page is a sign of life, and another one may have done something


def facts(snapshot: Snapshot) -> list[dict[str, str]]:
    """Where a training stands, for the sidebar: text, and in full on hover."""
    found = [
        {
            "text": _("step {step}").format(step=f"{snapshot.step:,}"),
            "title": _("of {total}").format(total=snapshot.total),
        }
    ]
    if snapshot.loss is not None:
        found.append({"text": _("loss {loss}").format(loss=significant(snapshot.loss)), "title": str(snapshot.loss)})
    if snapshot.exact_match is not None:
        found.append({"text": f"✓ {100 * snapshot.exact_match:.0f} %", "title": _("exact match on unseen texts")})
    if snapshot.tokens_per_second:
        rate = snapshot.tokens_per_second
        found.append({"text": _("{rate} tokens/s").format(rate=f"{rate:,.0f}"), "title": str(rate)})
    if snapshot.seconds_left and snapshot.status == "running":
        left = _("{time} left").format(time=clock(snapshot.seconds_left))
        found.append({"text": left, "title": str(snapshot.seconds_left)})
    return found


def status_sentence(snapshot: Snapshot) -> str:
    """What the sidebar says of a training that does not simply run."""
    if snapshot.unseen:
        return _("paused: nobody was looking")
    return {
        "preparing": _("preparing the data …"),
        "waiting": _("waiting: place {count} in the queue").format(count=snapshot.ahead + 1),
        "failed": translate_error(snapshot.message),
        "finished": _("finished"),
        "stopped": _("stopped"),
    }.get(snapshot.status, "")


def strip_data(live: LiveTraining | None, refused: str) -> dict[str, Any]:
    """For the strip in the sidebar. refused: why nothing can begin."""
    words = {
        "one": _("Train one step"),
        "advance": _("Train {count} steps"),
        "run": _("Train on"),
        "pause": _("Pause"),
        "reset": _("Back to the weights of before the training"),
        "curve": _("training loss over the steps"),
    }
    if live is None:
        nothing = {"status": "none", "step": 0, "facts": [], "losses": [], "sentence": refused}
        return {**nothing, "words": words, "possible": [] if refused else ["advance", "run"]}
    snapshot = live.snapshot
    onward = {"advance", "run", "pause" if snapshot.status in training.MOVING else "run"}
    return {
        "status": snapshot.status,
        "step": snapshot.step,
        "facts": facts(snapshot),
        "losses": live.current.curves.overview("loss", DRAWN) if live.current else [],
        "sentence": status_sentence(snapshot),
        "words": words,
        "possible": sorted({"reset"} if snapshot.status in training.OVER else {*onward, "reset"}),
    }


def news(session: Session, live: LiveTraining | None, refused: str = "") -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """For the strip, to be sent at once: where the training stands now, and what it lacks of the film.

    refused: why nothing can begin.
    at: when this was so, in seconds; what comes later and is older is not shown. None without a training.
    """
    film, frames = film_data(live, session.sent)
    if film:
        spare_imports()
    return {**strip_data(live, refused), "film": film, "at": time.monotonic() if live else None}, frames


def pace(live: LiveTraining | None, moving: bool, trained: bool) -> float | None:
    """Seconds between runs of the strip. Where the model in training is shown and moves, each look at it brings the
    strip's news along; it is seldom drawn by itself.
    """
    if live is None:
        return None
    if not moving:
        return RESTING
    return SELDOM if trained else training.EVERY


def strip(session: Session, model: TextModel, moving: bool, stands: training.Standing | None) -> None:
    """The strip, drawn again and again while there is a training; the whole page, when one begins to move, or is
    elsewhere than where it stood as the page was drawn.
    """
    catalogue.use(st.session_state[Key.LANGUAGE])
    live = training.training(session)
    session.moving = moving
    elsewhere = not moving and training.standing(live) != stands  # another tab of the same address did it
    if training.is_moving(live) != moving or session.begun or elsewhere:  # before news are taken: what is taken is sent
        session.begun = False
        st.rerun()
    header, frames = news(session, live, no_training(model.network.ours, model.predicts))
    training_strip(header, frames, STRIP, lambda: _act(model), session.sent.begin)
    if session.message:
        st.error(translate_error(session.message))


def _act(model: TextModel) -> None:
    """A button of the strip. The first one begins a training of the model that is shown."""
    act, session = st.session_state[STRIP].act, current_session()
    live, session.message = training.training(session), ""
    if live is None:
        from model.training.settings import TrainingSettings

        data = training.usual_data(model)
        settings = TrainingSettings(
            steps=training.STEPS, warmup=20, rate=training.RATE, label_smoothing=0.0, average=0.0
        )
        try:
            model.network.require_logits()
            material = training.material_of(model, data)
            training.trainings().require_room(session.run, model.config, material, settings, model.device)
            live = training.begin(session, model, material, settings, data.source)
        except ValueError as error:
            session.message = str(error)
            return
    st.session_state[Key.MODEL] = training.ENTRY  # what is trained is what one wants to see
    session.begun = True  # the whole page is drawn: a step may be done before anybody sees that it moves
    name, steps = act["name"], int(act.get("count") or 1)
    {"advance": lambda: live.advance(steps), "run": live.run, "pause": live.pause, "reset": live.reset}[name]()


_training_strip = component("training_strip", "film_store")


def training_strip(
    header: Mapping[str, Any],
    frames: Sequence[NDArray[Any]],
    key: str,
    on_act: Callable[[], None],
    on_again: Callable[[], None],
) -> None:
    """A training's buttons, figures, loss and film. A click puts {name, count} into the state as `act`; `again`: a part
    of the film is missing. What the token bar brings along later replaces what it shows.

    header: status, step, facts ({text, title}), losses, sentence, words, `possible`, the names of what can be done, and
    `film` with `frames` as of `viz.film_feed.film_data`.
    """
    _training_strip(data=pack(header, frames), key=key, on_act_change=on_act, on_again_change=on_again)
