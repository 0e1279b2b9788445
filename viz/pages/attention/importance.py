"""Attention: what each head is good for, and a button that removes it from the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.finite import first_not_finite
from model.analysis.head_importance import Effect, Place, Removals, removable
from model.analysis.head_metrics import Likeness, likeness
from model.capture.interventions import RemovedHead
from model.capture.trace import AttentionKind, Trace
from model.inference.text_model import TextModel
from model.runtime.errors import require
from viz.components.view import live
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import lacks
from viz.i18n.format import duration, literal
from viz.jobs import TableJob, TableTask
from viz.pages.attention.importance_figures import (
    HeadImportance,
    alike_panels,
    effects_panels,
    importance_table,
    of_chosen,
    ranking_chart,
    together,
    verdict,
)
from viz.render.view import view
from viz.state import training
from viz.state.serving import by_channel
from viz.state.session import Key, Selection, Session, attention_kinds, current_session
from viz.state.token_groups import run_labels
from viz.ui.job_view import show_job
from viz.ui.parts import Drawing, Placed, data_table
from viz.ui.prediction import Subject

if TYPE_CHECKING:
    from streamlit.elements.lib.mutable_expander_container import ExpanderContainer


class Part(StrEnum):
    """Keys of this section's components."""

    EFFECTS = "head_effects"
    RANKING = "head_ranking"
    ALIKE = "heads_alike"
    MEASURE = "importance_measure"
    BAR = "importance_bar"
    PAUSE = "importance_pause"
    REMOVE = "head_remove"
    DATA = "importance_data"


@dataclass(frozen=True)
class Containers:
    """Under the heads, sentences and maps; under the chosen one; and for the numbers behind it all."""

    heads: DeltaGenerator
    maps: DeltaGenerator
    chosen: DeltaGenerator
    alike: DeltaGenerator
    pair: DeltaGenerator
    table: ExpanderContainer


def show(places: Containers, model: TextModel, kind: AttentionKind, chosen: Selection) -> Drawing:
    """Views under the heads and under the chosen one.

    Raises:
        MissingQuantityError: the model does not show its heads apart.
    """
    require(model.network, removable(kind))
    session = current_session()
    if (odd := first_not_finite(session.trace)) is not None:
        yield []
        return partial(within, places.heads, partial(not_finite, odd.tensor))
    if session.training.moving and session.training.step is not None:
        yield []
        return partial(within, places.heads, partial(hold, session))
    measurement = measured(session, model)
    weighed = weigh(session, measurement)
    if weighed is None or measurement.measuring is None:
        yield []
        return partial(within, places.heads, partial(offer, measurement))
    head: Place = (kind, chosen.layer, chosen.head)
    side = "target" if weighed.trace.target_tokens else "source"
    labels = run_labels(session, side, weighed.trace.tokens_of("output.logits"))
    measurement.ranked = weighed.ranked
    alike: Likeness = measurement.measuring.remember(("alike", head), lambda: likeness(weighed.trace, *head))
    both = pair_sentence(measurement, weighed, alike, head)
    parts: list[Placed] = [
        (places.maps, view(Part.EFFECTS, effects_panels(weighed, measurement.kinds, head), cell=on_effect)),
        (places.maps, view(Part.RANKING, ranking_chart(weighed, head), place=on_ranked)),
        (places.alike, view(Part.ALIKE, alike_panels(weighed, alike, head), cell=on_alike)),
    ]
    yield parts

    def rest() -> None:
        with places.heads:
            st.markdown(verdict(weighed, labels))
            if sentence := pinned_sentence(session, weighed):
                st.caption(sentence)
        said_of, button = places.chosen.columns([5, 3], vertical_alignment="center")
        said_of.markdown(of_chosen(weighed, head, labels))
        label = _("Restore this head") if head in weighed.removed else _("Remove this head")
        button.button(label, key=Part.REMOVE, on_click=on_remove, args=(head,), width="stretch")
        if both:
            places.pair.markdown(both)
        table = partial(importance_table, weighed, labels)
        data_table(Part.DATA, table, "attention-importance", place=places.table, parts=parts)

    return rest


def not_finite(tensor: str) -> None:
    """Reason why nothing can be measured of a pass that holds NaN or an infinity."""
    st.info(
        _("This pass is not finite from {tensor} on: what a head is good for cannot be measured.").format(
            tensor=literal(tensor)
        )
    )


def within(place: DeltaGenerator, draw: Callable[[], None]) -> None:
    with place:
        draw()


def hold(session: Session) -> None:
    """Placeholder for a model in training: each of its steps would have to be measured anew."""
    st.caption(_("While this model is trained its heads are not measured: that would slow the training down."))
    if live := training.steered(session):
        st.button(_("Pause the training and measure"), key=Part.PAUSE, on_click=live.pause)


def pinned_sentence(session: Session, weighed: HeadImportance) -> str:
    """Reason why nothing is compared with the pin; empty where it is, or nothing is pinned."""
    if session.pin is None or weighed.pinned is not None:
        return ""
    if weighed.unlike:
        return _(
            "One of the two models predicts and the other does not, so their heads are measured in different "
            "quantities: they are not compared with the pinned ones."
        )
    return _("The pinned trace was not measured, which takes its own passes: open this view first, then pin.")


def pair_sentence(measurement: Measured, weighed: HeadImportance, alike: Likeness, head: Place) -> str:
    """The loss without the head and the one most like it; empty for a head that is removed."""
    nearest = None if head in weighed.removed else alike.nearest(*head[1:])
    if nearest is None or measurement.measuring is None:
        return ""
    other: Place = (head[0], *nearest)
    both: Effect = measurement.measuring.remember((head, other), lambda: measurement.removals.without(head, other))
    return together(weighed, head, other, both)


def offer(measurement: Measured) -> None:
    """Placeholder until all is measured: a button, or the progress."""
    going = measurement.measuring
    if going is not None and (show_job(going, Part.BAR, _("Cancel")) or going.error):
        return
    st.caption(_("Each head is removed in turn, and the text is read again without it."))
    count = len(measurement.removals.places(measurement.kinds))
    label = ngettext("Measure {count} head (at most {time})", "Measure {count} heads (at most {time})", count)
    label = label.format(count=count, time=duration(max(1, measurement.most)))
    st.button(label, key=Part.MEASURE, on_click=measurement.begin)


def on_effect(clicked: dict[str, Any]) -> None:
    if int(clicked["row"]) >= 0 and int(clicked["column"]) >= 0:
        kind = clicked_measurement(current_session()).kinds[int(clicked["panel"])]
        open_head((kind, int(clicked["row"]), int(clicked["column"])))


def on_ranked(clicked: dict[str, Any]) -> None:
    ranked, index = clicked_measurement(current_session()).ranked, int(clicked["index"])
    if index < len(ranked):
        open_head(ranked[index])


@live
def on_alike(clicked: dict[str, Any]) -> None:
    if int(clicked["row"]) >= 0 and int(clicked["column"]) >= 0:
        current_session().select(layer=int(clicked["row"]), head=int(clicked["column"]))


def open_head(place: Place) -> None:
    """Show this head large, of whichever kind of attention it is."""
    session, (kind, layer, head) = current_session(), place
    session.select(layer=layer, head=head)
    if len(attention_kinds(session.model.network)) > 1:
        session.address.set_choices({Key.KIND: kind})


def on_remove(place: Place) -> None:
    """The head is taken out of the forward pass, or put into it again."""
    session, removed = current_session(), RemovedHead(*place)
    others = [each for each in session.what_if.changes if each != removed]
    session.change(others if len(others) < len(session.what_if.changes) else [*others, removed])


# Measuring the importance of each head: by itself where that is quick, in a thread of its own.

LIGHT = 5e10  # multiplications and additions of all passes that take about a second on one core
QUICK = 4.0  # seconds of as many passes as there are heads: together they take about a third of it
WAIT, CHANNEL_WAIT = 1.0, 0.3  # seconds that script and channel wait for a measurement that began by itself
KEPT = "head_importance"  # in the session: what was measured of this trace, and of the pinned one


class ImportanceJob(TableJob):
    """The effects of all heads of these kinds, group by group."""

    patience = 10.0  # the page that asked for them may be closed, or another one open

    def __init__(self, removals: Removals, kinds: list[AttentionKind]) -> None:
        groups = removals.groups(kinds)
        super().__init__(
            [TableTask(str(each), len(each.heads), partial(removals.without_each, each)) for each in groups]
        )

    @property
    def effects(self) -> dict[Place, Effect]:
        return {place: effect for group in self.values.values() for place, effect in group.items()}


@dataclass
class Measured:
    """Measurement of one trace: its passes, and their results so far. most: seconds that all of them will take."""

    trace: Trace
    removals: Removals
    kinds: list[AttentionKind]
    most: float
    measuring: ImportanceJob | None = None
    ranked: list[Place] = field(default_factory=list)

    def begin(self) -> None:
        if self.measuring is None:
            self.measuring = ImportanceJob(self.removals, self.kinds)
        else:
            self.measuring.start()


def measured(session: Session, model: TextModel) -> Measured:
    """Measurement of the session's trace; begun now, where it is quick."""
    measurements: list[Measured] = session.memory.setdefault(KEPT, [])
    pinned = session.pin.trace if session.pin else None
    for each in measurements:
        if each.trace is session.trace:
            return each
        if each.measuring is not None and each.trace is not pinned:
            each.measuring.cancel()  # nobody will see it
    measurement = _new(session, session.trace, model)
    measurements[:] = [*(each for each in measurements if each.trace is pinned), measurement]
    passes = len(measurement.removals.places(measurement.kinds))
    work = 2.0 * model.network.parameter_count() * measurement.removals.length * passes
    if work < LIGHT or measurement.most < QUICK:
        measurement.begin()
    return measurement


def clicked_measurement(session: Session) -> Measured:
    """Measurement of the trace that was clicked on: not the newest one, where a change was taken back."""
    measurements: list[Measured] = session.memory[KEPT]
    return next(each for each in measurements if each.trace is session.trace)


def _new(session: Session, trace: Trace, model: TextModel) -> Measured:
    actual = Subject(session.inputs).ids if model.predicts else []
    kinds = [kind for kind in attention_kinds(model.network) if not lacks(model.network, removable(kind))]
    removals = Removals(model, session.source, session.target, actual, trace.changes)
    return Measured(trace, removals, kinds, removals.seconds() * len(removals.places(kinds)))


def weigh(session: Session, measurement: Measured) -> HeadImportance | None:
    """Result of the measurement, once it is complete."""
    if measurement.measuring is None:
        return None
    measurement.measuring.look()
    measurement.measuring.wait(max(0.0, (CHANNEL_WAIT if by_channel() else WAIT) - measurement.measuring.seconds))
    if not measurement.measuring.complete:
        return None
    changes = measurement.trace.changes
    removed = [(each.kind, each.layer, each.head) for each in changes if isinstance(each, RemovedHead)]
    loss, predicts = measurement.removals.loss, measurement.removals.predicts
    pinned, unlike = None, False
    for each in session.memory[KEPT]:
        if session.pin and each.trace is session.pin.trace and each.measuring is not None and each.measuring.complete:
            unlike = each.removals.predicts != predicts
            pinned = None if unlike else each.measuring.effects
    differing = session.differing and pinned is not None
    effects = measurement.measuring.effects
    return HeadImportance(measurement.trace, effects, loss, predicts, removed, pinned, differing, unlike)
