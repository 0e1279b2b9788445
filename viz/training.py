"""Training in the session: what is trained on, where it stands, and the model as it is after the newest step."""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz import i18n
from viz.components.views import training_strip
from viz.film_feed import film_data
from viz.i18n import _
from viz.opening import spare_imports
from viz.said import said
from viz.words import no_training, significant
from viz.workbench import Key, Workbench, workbench

if TYPE_CHECKING:
    from model import Inspectable
    from model.beginnings import Data
    from model.live import LiveTraining
    from model.live_registry import LiveTrainings
    from model.materials import Material
    from model.saving import Source
    from model.snapshots import Snapshot
    from model.text import Tokens
    from model.training_settings import TrainingSettings

RUN = "run"  # in the address: a reconnect finds the training again
EVERY = 0.5  # seconds between looks at a training
DRAWN = 200  # points of the loss in the sidebar
ENTRY = "training"  # in the list of models
STRIP = "training_strip"
STEPS, RATE = 1000, 3e-4  # of a training that is begun in the sidebar: a trained model goes on gently
FILMING = 0.02  # of the time of a training: more often than that no frame is taken
MOVING = ("preparing", "running", "waiting")


@st.cache_resource(show_spinner=False)
def trainings() -> LiveTrainings:
    """Those of this process, of all sessions."""
    from model.live_registry import LiveTrainings

    return LiveTrainings()


def training(bench: Workbench) -> LiveTraining | None:
    """This session's training, found again by the address after a reload; being asked for is a sign of life."""
    key = bench.run or st.query_params.get(RUN)
    found = trainings().get(key) if key else None
    if found and not bench.run:
        bench.run = key or ""
        bench.say(RUN, bench.run)
    return found


def begin(
    bench: Workbench, lens: Inspectable, material: Material, settings: TrainingSettings, source: Source, text: str = ""
) -> LiveTraining:
    """A new training of this session on a copy of `lens`; the one before is freed, and the page shows the new one.

    source: what it learns from, for the model card. text: to watch it on, unless it is the model that is shown.

    Raises:
        ValueError: the settings do not go together with the data.
    """
    from model.camera import Probe
    from model.live import LiveTraining
    from model.writing import Translator

    bench.run = bench.run or secrets.token_urlsafe(9)
    same = lens is bench.lens
    tokens = bench.source if same and bench.source else lens.source_tokens(text or lens.example or material.example)
    target = bench.target if same else None
    if target is None and isinstance(lens, Translator):
        target = lens.target_tokens("")
    made = partial(LiveTraining, lens, material, settings, source=source, share=FILMING)
    live = trainings().begin(bench.run, lambda slots: made(Probe(tokens, target), slots=slots))
    bench.say(RUN, bench.run)
    st.session_state[Key.MODEL] = ENTRY
    return live


def usual_data(lens: Inspectable) -> Data:
    """What a bundled model is trained on unless the user chooses: its own task, or sentences made by rule."""
    from model.beginnings import phrase_data, task_data

    task = str(lens.training.get("task") or "")
    return task_data(task) if task else phrase_data(lens.kind)


def material_of(lens: Inspectable, data: Data) -> Material:
    """This data for a model that has its tokenizers already.

    Raises:
        ValueError: it does not fit this kind of model.
    """
    from model import beginnings

    units = beginnings.usual_units(lens.kind, data)
    return beginnings.material_of(lens.kind, data, units, 0, (lens.source_tokenizer, lens.target_tokenizer))


def shown(bench: Workbench, live: LiveTraining) -> Inspectable:
    """The model as it is after the newest step, and its trace of the text in the fields; the training watches it."""
    from model.camera import Probe
    from viz import input_bar

    view = live.view()
    lens = view.lens if view else live.start
    source, target_text = input_bar.texts(lens)
    tokens = lens.source_tokens(source)
    target = _target(lens, live, bench, source, target_text)
    probe = Probe(tokens, target)
    if view and view.probe == probe:
        trace = view.trace
    else:
        trace = lens.trace_tokens(tokens, target)
        live.set_probe(probe)
    bench.show(lens, (source, target_text), trace, tokens, target, view.step if view else 0)
    return lens


def _target(lens: Inspectable, live: LiveTraining, bench: Workbench, source: str, typed: str) -> Tokens | None:
    """What is typed; else the right answer of a task; else what the model wrote when this text was first seen."""
    from model.writing import Translator

    if not isinstance(lens, Translator):
        return None
    if typed:
        return lens.target_tokens(typed)
    if task := str(live.material.record().get("task") or ""):
        from model.tasks import find_task

        with suppress(ValueError):  # none of this task: the model's own answer, as without a rule
            return lens.target_tokens(find_task(task).solve(source))
    before = bench.lens.target_tokenizer if bench.lens else None  # another's tokens are of other words
    if bench.target is None or bench.traced != (source, typed) or before is not lens.target_tokenizer:
        return lens.trace_generated(lens.source_tokens(source))[1]
    return bench.target


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
        left = "{}:{:02d}".format(*divmod(round(snapshot.seconds_left), 60))
        found.append({"text": _("{time} left").format(time=left), "title": str(snapshot.seconds_left)})
    return found


def status_sentence(snapshot: Snapshot) -> str:
    """What the sidebar says of a training that does not simply run."""
    if snapshot.unseen:
        return _("paused: nobody was looking")
    return {
        "preparing": _("preparing the data …"),
        "waiting": _("waiting: place {count} in the queue").format(count=snapshot.ahead + 1),
        "failed": said(snapshot.message),
        "finished": _("finished"),
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
    losses = live.current.curves.get("loss")[1].tolist() if live.current else []
    every = max(1, -(-len(losses) // DRAWN))
    possible = {"advance", "run", "pause" if snapshot.status in MOVING else "run", "reset"}
    return {
        "status": snapshot.status,
        "step": snapshot.step,
        "facts": facts(snapshot),
        "losses": losses[::every],
        "sentence": status_sentence(snapshot),
        "words": words,
        "possible": sorted(possible),
    }


def is_moving(live: LiveTraining | None) -> bool:
    """Whether there will be something newer to show."""
    return live is not None and (live.snapshot.busy or live.snapshot.status in MOVING)


def strip(bench: Workbench, lens: Inspectable, moving: bool) -> None:
    """The strip in the sidebar, drawn again and again while a training moves; the whole page, when one begins to."""
    i18n.use(st.session_state[Key.LANGUAGE])
    live = training(bench)
    bench.moving = moving
    film, frames = film_data(live, bench.sent)
    if film:
        spare_imports()
    refused = no_training(lens.model.ours, lens.predicts)
    training_strip({**strip_data(live, refused), "film": film}, frames, STRIP, lambda: _act(lens), bench.sent.begin)
    if bench.message:
        st.error(said(bench.message))
    if is_moving(live) != moving or bench.begun:
        bench.begun = False
        st.rerun()


def _act(lens: Inspectable) -> None:
    """A button of the strip. The first one begins a training of the model that is shown."""
    act, bench = st.session_state[STRIP].act, workbench()
    live, bench.message = training(bench), ""
    if live is None:
        from model.training_settings import TrainingSettings

        data = usual_data(lens)
        settings = TrainingSettings(steps=STEPS, warmup=20, rate=RATE, label_smoothing=0.0, average=0.0)
        try:
            lens.model.require_logits()
            live = begin(bench, lens, material_of(lens, data), settings, data.source)
        except ValueError as error:
            bench.message = str(error)
            return
        bench.begun = True
    if st.session_state.get(Key.MODEL) != ENTRY:  # what is trained is what one wants to see
        st.session_state[Key.MODEL] = ENTRY
        bench.begun = True
    name, steps = act["name"], int(act.get("count") or 1)
    {"advance": lambda: live.advance(steps), "run": live.run, "pause": live.pause, "reset": live.reset}[name]()
