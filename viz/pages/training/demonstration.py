"""The first demonstration: from nothing to a model that turns words round, while attention comes to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from model.data.sources import task_data
from model.network.costs import parameters
from model.training.demonstration import REVERSE
from viz.components import progress
from viz.i18n.catalogue import _
from viz.i18n.format import literal, token_code
from viz.pages.training import film
from viz.pages.training.start import demonstrate, demonstrate_again
from viz.state import training
from viz.state.demonstration import FEW
from viz.state.opened_page import open_page
from viz.state.session import Key, Session, current_session
from viz.ui.job_view import remaining
from viz.ui.parts import Drawing, Views, no_views

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from model.data.pairs import Pair
    from model.inference.text_model import TextModel
    from model.network.config import TransformerConfig
    from model.training.live.live_training import LiveTraining

GOAL = 0.99  # of unseen words, exactly right
EXAMPLES = 8


class Part(StrEnum):
    """Names in the session state."""

    BEGIN = "demonstration_begin"
    WORDS = "demonstration_words"
    PROGRESS = "demonstration_progress"
    HALT = "demonstration_halt"
    BEFORE = "demonstration_before"
    WATCH = "demonstration_watch"


def show(session: Session, row: DeltaGenerator) -> Views:
    """The demonstration and its goal; while it goes on, its progress and its film, whose choices go into `row`."""
    live = training.training(session)
    running = live if live is not None and is_demonstration(live) else None
    with st.container(border=True):
        line = st.container(horizontal=True, gap="medium", vertical_alignment="center")
        line.container(key=Part.WORDS).markdown(
            f"**{_('Train a tiny model to reverse strings')}** · "
            + _(
                "a new encoder-decoder learns from {pairs} words to write them backwards. Its goal: {goal}\xa0%\xa0of "
                "unseen words exactly right within {steps} steps: a minute or, on a slow machine, a few. Its "
                "cross-attention turns into an anti-diagonal."
            ).format(pairs=f"{REVERSE.pairs:,}", goal=round(100 * GOAL), steps=f"{REVERSE.settings.steps:,}")
        )
        line.button(
            _("Begin again") if running else _("Begin and run"),
            key=Part.BEGIN,
            type="secondary" if running else "primary",
            width=190,
            on_click=demonstrate_again if running else demonstrate,
            help=_("Begins another run; the run so far stays in Runs, with its film") if running else None,
        )
        if running and training.is_own(session, running) and running.snapshot.status != "finished":
            moves = running.snapshot.status in training.MOVING
            line.button(
                _("Pause") if moves else _("Train on"), key=Part.HALT, on_click=running.pause if moves else running.run
            )
        if running:
            bar = st.container()
            watch = _("Watch its cross-attention turn")
            act = partial(open_page, "attention", {Key.KIND: "cross"})
            st.button(watch, key=Part.WATCH, type="tertiary", icon=":material/grid_on:", on_click=act)
    if running is None:
        show_beginning(st.container(key=Part.BEFORE))
    watched: Views = no_views
    if running and running.current and len(running.current.film):  # the text that shows it best, without a search
        watched = film.page(row)

    def views(model: TextModel) -> Drawing:
        if running is None:
            return None
        yield [(bar, progress.progress(Part.PROGRESS, share_of(running), progress_words(running)))]
        if watched is no_views and running.current and len(running.current.film):
            session.rerun_requested = True  # there is a film now, and no place for it
        return (yield from watched(model))

    return views


def beginning() -> tuple[Sequence[Pair], TransformerConfig]:
    """Some words of the training, and the config of its model."""
    model, _material, _probe = replace(REVERSE, pairs=FEW).begin()
    return task_data(REVERSE.task, FEW).pairs[:EXAMPLES], model.config


def show_beginning(place: DeltaGenerator) -> None:
    """What will be trained, before it begins: examples, the network, the steps."""
    pairs, config = current_session().cached("demonstration", (REVERSE,), beginning)
    left, right = place.columns(2, gap="large")
    rows = [f"| {token_code(pair.source)} | {token_code(pair.target)} |" for pair in pairs]
    left.caption(_("Some of its words"))
    left.markdown("\n".join([f"| {_('word')} | {_('backwards')} |", "| --- | --- |", *rows]))
    settings = REVERSE.settings
    lines = [
        (_("layers"), f"{config.n_encoder_layers} + {config.n_decoder_layers}"),
        (_("heads"), f"{config.n_heads}"),
        ("d_model", f"{config.d_model}"),
        (_("tokens"), f"{config.vocabulary}"),
        (_("parameters"), f"{sum(parameters(config).values()):,}"),
        (_("steps"), f"{settings.steps:,}"),
        (_("tokens in a batch"), f"{settings.batch_tokens:,}"),
        (_("words"), f"{REVERSE.pairs:,}"),
    ]
    right.caption(_("The model, and its training"))
    facts = [f"| {literal(name)} | {literal(number)} |" for name, number in lines]
    right.markdown("\n".join([f"| {_('quantity')} | {_('value')} |", "| --- | --- |", *facts]))


def is_demonstration(live: LiveTraining) -> bool:
    return live.source.data == REVERSE.source.data


def share_of(live: LiveTraining) -> float:
    """The share of the steps that is done."""
    snapshot = live.snapshot
    return min(1.0, snapshot.step / snapshot.total) if snapshot.total else 0.0


def progress_words(live: LiveTraining) -> str:
    """Sentence: how far the training is, the time that is left, and what has become of the goal."""
    snapshot = live.snapshot
    if not snapshot.total:  # how many steps there are is known once the data are
        return _("preparing the data …")
    words = [_("step {step} of {total}").format(step=f"{snapshot.step:,}", total=f"{snapshot.total:,}")]
    if snapshot.seconds_left and snapshot.status == "running":
        words.append(remaining(snapshot.seconds_left))
    return " · ".join([*words, goal_words(live)])


def goal_words(live: LiveTraining) -> str:
    """Sentence: how many words the model turns round, and whether the goal is reached."""
    # The snapshot may know of a measurement before the curve has it.
    steps, shares = live.current.curves.get("exact match") if live.current else (np.empty(0), np.empty(0))
    if not len(shares):
        if every := live.settings.validate_every:
            return _("unseen words are tried every {every} steps").format(every=every)
        return _("this training tries no unseen words")
    reached = steps[shares >= GOAL]
    now, measured = f"{100 * float(shares[-1]):.1f}", f"{int(steps[-1]):,}"
    if len(reached):
        sentence = _(
            "{now}\xa0%\xa0of unseen words were written backwards without a mistake after step {measured}; the goal of "
            "{goal}\xa0% was reached after step {reached}"
        )
        return sentence.format(now=now, measured=measured, goal=round(100 * GOAL), reached=f"{int(reached[0]):,}")
    sentence = _(
        "{now}\xa0%\xa0of unseen words were written backwards without a mistake after step {measured}; the goal is "
        "{goal}\xa0%"
    )
    return sentence.format(now=now, measured=measured, goal=round(100 * GOAL))
