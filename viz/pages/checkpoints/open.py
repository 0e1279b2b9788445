"""Open a checkpoint: from the list, an upload, a path, a name at Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import streamlit as st

from model.checkpoints.adapters import base_label
from model.checkpoints.catalog import CatalogEntry
from model.runtime import memory
from model.runtime.device import DTYPES, choose_device, choose_device_map
from viz.components.registry import component, pack
from viz.components.view import PackedView
from viz.i18n.catalogue import _
from viz.i18n.errors import slow_precision, translate_error
from viz.i18n.format import bytes_text, count_text, literal, stopped, with_label
from viz.pages.checkpoints import add
from viz.state import assumptions, checkpoints, shown_model
from viz.state.adapter_bases import base_of
from viz.state.checkpoints import MODELS, CheckpointEntry, saved_folder
from viz.state.session import Key, Session, choose, current_session
from viz.ui.model_words import what_it_does

_list = component("pages/checkpoints/checkpoint_list")


class Part(StrEnum):
    """Names in the session state; the last two belong to other parts of the page."""

    LIST = "checkpoints_list"
    SEGMENT = "checkpoints_part"
    CHECKPOINT = "checkpoint"


def show(session: Session) -> None:
    """The ways to add to the list, and the list of what is here."""
    here = checkpoints.all_places(session)
    row = st.container(
        key="choices_open", horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    add.show(session, row.container(horizontal=True, width="content"))
    right = row.container(horizontal=True, vertical_alignment="center", width="content")
    precision, known = shown_model.precision(), shown_model.state()
    space = room(precision)
    right.caption(
        _("{device}, {free} free, load models in").format(device=literal(space.device), free=gigabytes(space.free))
    )
    choose(_("Precision"), shown_model.PRECISIONS, precision, shown_model.Part.PRECISION, lambda name: name, right)
    if precision != known.precision:  # the model that is shown is opened again, outside this fragment
        known.precision = precision
        st.rerun()
    if slow := slow_precision(precision):
        st.warning(slow)
    add.report(session)
    unsaid_row(session)
    header = {"groups": _groups(here, space), "words": _words()}
    PackedView(_list, Part.LIST, pack(header), {"act": _act})()


def unsaid_row(session: Session) -> None:
    """Row on what the shown model's weights do not tell; some of it can be chosen."""
    if session.traced_input is None:
        return
    model = session.model
    row = st.container(horizontal=True, vertical_alignment="bottom")
    if text := assumptions.in_short(model):
        row.popover(assumptions.title(model)).markdown(text)
    values, width = assumptions.chosen(model), model.config.d_model
    if values and model.name == st.session_state.get(Key.MODEL):
        heads = [each for each in range(1, width + 1) if width % each == 0]
        models = assumptions.models_of(model)
        assumptions.fields(row, model.name, values, heads, model.config.vocabulary, shown_model.show, models=models)


def _groups(here: Sequence[CheckpointEntry], space: Room) -> list[dict[str, Any]]:
    titles = {
        "opened": (_("Opened in this session"), _("Removed with it; nobody else sees it")),
        "given": (_("Given on the command line"), ""),
        "folder": (_("From the folder that {variable} names").format(variable=MODELS), ""),
        "saved": (_("Saved"), str(saved_folder())),
        "bundled": (_("Bundled"), ""),
    }
    model_name = st.session_state.get(Key.MODEL)
    groups = []
    for origin, (title, where) in titles.items():
        rows = [_line(place, here, space, place.name == model_name) for place in here if place.origin == origin]
        if rows:
            groups.append({"title": title, "where": where, "rows": rows})
    return groups


def _line(place: CheckpointEntry, here: Sequence[CheckpointEntry], space: Room, is_current: bool) -> dict[str, Any]:
    entry = place.listed()
    whole = _merged_entry(place, here)
    needed = space.needed(whole)
    fits = space.fits(needed) or not entry.computes
    why = translate_error(entry.part) or ("" if fits or entry.problem else space.refusal(place.name, whole))
    form = with_label(entry.format, entry.family) if entry.family else _format(entry.format)
    if entry.base:
        form += f" → {base_label(entry.base)}"
    return {
        "name": place.name,
        "where": str(place.path) if place.origin in ("given", "folder") else "",
        "kind": _(whole.kind) if whole.kind else "" if entry.computes else _("tensors only"),
        "does": what_it_does(entry),
        "format": form,
        "parameters": count_text(entry.parameters) if entry.parameters else "",
        "bytes": bytes_text(entry.bytes) if entry.bytes else "",
        "needs": bytes_text(needed) if entry.computes and needed else "",
        "fits": fits,
        "refused": stopped(why),
        "problem": stopped(translate_error(entry.problem)),
        "current": is_current,
        "computes": entry.computes,
        "removable": place.origin == "opened",
    }


def _merged_entry(place: CheckpointEntry, here: Sequence[CheckpointEntry]) -> CatalogEntry:
    """Entry of the model that computes: of an adapter its base, as far as that is here."""
    entry = place.listed()
    if entry.base is None:
        return entry
    try:
        base = base_of(place, here, assumptions.hints_for(place.name, place.origin == "given"))
    except ValueError:
        return replace(entry, parameters=0)
    return entry if base is None else CheckpointEntry("", base, "").listed()


def _format(name: str) -> str:
    return name if name in ("", "Vitrine", "Hugging Face", "PEFT") else _("{format} file").format(format=name)


def _words() -> dict[str, Any]:
    return {
        "columns": [_("name"), _("kind"), _("format"), _("parameters"), _("on the disk"), _("in memory"), ""],
        "show": _("Show it"),
        "showing": _("Make it the model that every page shows"),
        "read": _("Tensors and health"),
        "reading": _("Its tensors one by one, its heads, and whether anything about its weights is unhealthy"),
        "remove": _("Take it out of the list"),
        "shown": _("shown"),
        "alt": _("Checkpoints that are here"),
    }


def _act(act: dict[str, Any]) -> None:
    """A button of the list."""
    what, name, session = act["act"], act["name"], current_session()
    if name not in [place.name for place in checkpoints.all_places(session)]:
        return
    if what == "show":
        shown_model.show(name)
    elif what == "read":
        session.address.set_choices({Part.CHECKPOINT: name, Part.SEGMENT: "read"})
    elif checkpoints.remove(session, name):
        shown_model.forget(session, name)


# Memory that a model will take, before it is loaded.


@dataclass(frozen=True)
class Room:
    """The device that computes, the precision, and how many bytes are free."""

    device: str
    precision: str
    free: int

    def needed(self, entry: CatalogEntry) -> int:
        """Bytes of the weights in this precision."""
        return memory.needed(entry.parameters, DTYPES[self.precision])

    def fits(self, needed: int) -> bool:
        return needed * memory.SPARE <= self.free

    def refusal(self, name: str, entry: CatalogEntry) -> str:
        """Reason why it cannot be opened, and what would help."""
        sentence = _("{name} needs {needed} in {precision} and {free} are free: choose {what}")
        fitting = [each for each in DTYPES if (room := replace(self, precision=each)).fits(room.needed(entry))]
        return sentence.format(
            name=name,
            needed=gigabytes(self.needed(entry)),
            precision=self.precision,
            free=gigabytes(self.free),
            what=fitting[0] if fitting else _("a smaller model, or a machine with more memory"),
        )


def room(precision: str) -> Room:
    """Memory and precision as they are now."""
    device = choose_device()
    return Room(str(device), precision, memory.available(None if choose_device_map() else device))


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
