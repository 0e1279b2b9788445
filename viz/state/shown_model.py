"""The model that is shown, its precision, and what happens when one cannot be opened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from viz.i18n.catalogue import _
from viz.i18n.format import as_sentence, in_turn, literal, stopped, with_label
from viz.jobs import Job
from viz.state import adapter_bases, assumptions, checkpoints
from viz.state.checkpoints import CheckpointEntry, bundled_names, find, given_paths, open_place
from viz.state.session import DEFAULT_SELECTION, DIFFERENCES, PINNED, Key, Selection, Session, choice, current_session
from viz.state.what_if import WhatIf

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

TICK = 0.2  # seconds between two of what a run of the script says while it waits for a model
PRECISIONS = ("float32", "bfloat16", "float16")


class Part(StrEnum):
    """Names in the session state; the first is a parameter of the address bar too."""

    PRECISION = "precision"
    STATE = "shown_state"
    LIST = "model_list"


class Opening(Job["TextModel"]):
    """A model that is being opened. key: what it is of, so that the next run of the script finds it going on."""

    patience = 10.0

    def __init__(self, key: Hashable, work: Callable[[], TextModel]) -> None:
        self.key, self._work, self._context = key, work, get_script_run_ctx(suppress_warning=True)
        super().__init__()

    def compute(self) -> TextModel:
        add_script_run_ctx(threading.current_thread(), self._context)
        return self._work()

    def model(self, waiting: Callable[[float], None]) -> TextModel:
        """The model, when it is open. waiting: called now and then until then, with the seconds that it has taken.

        Raises:
            ValueError: it cannot be opened, or was given up.
        """
        while not self.wait(TICK):
            self.look()
            waiting(self.seconds)
        if self.exception is not None:
            raise self.exception
        if self.result is None:
            raise ValueError("the model was given up before it was open: choose it again")
        return self.result


@dataclass
class State:
    """Name of the model that is shown, and of those that could not be.

    refusal: the sentence and the page that it is on. wanted: to be shown at the next run instead. failed: since the
    last model that could be opened. asks_heads: how many heads there may be, where weights do not tell it. asks_base:
    the models that an adapter may change, where its own is not here or does not fit. gone: what the address asked for
    when the user deleted it. opened: what the last model was opened of. opening: the one that is being opened. listed:
    name that the list of models shows. lists: number of lists, see `list_key`.
    """

    current: str = ""
    wanted: str = ""
    refused: str = ""
    precision: str = ""
    asks_heads: Sequence[int] = ()
    asks_base: Sequence[str] = ()
    refusal: tuple[str, str] = ("", "")
    failed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    opened: Hashable = None
    opening: Opening | None = None
    listed: str = ""
    lists: int = 0


def state() -> State:
    """State of this session."""
    value: State = st.session_state.setdefault(Part.STATE, State())
    return value


def let_go() -> None:
    """Leave the model in the address, by the user's own will: no warning where the browser asks for it once more."""
    if name := st.query_params.get(Key.MODEL):
        state().gone.add(name)


def list_key() -> str:
    """Key of the list of models: another one once a model is shown that was not chosen in it. A click that the browser
    has sent before it knows of that model brings the choice of the former list, which nobody reads.
    """
    known, name = state(), st.session_state.get(Key.MODEL, "")
    if name != known.listed:
        known.listed, known.lists = name, known.lists + 1
    return f"{Part.LIST}_{known.lists}"


def choose_in_list(key: str) -> None:
    """Show the model that was chosen in the list of this key, unless another one has taken its place. In a callback."""
    known = state()
    if key == f"{Part.LIST}_{known.lists}" and (name := st.session_state.get(key)):
        known.listed = st.session_state[Key.MODEL] = name


def precision() -> str:
    """Precision in which models are opened: as it was chosen on the page Checkpoints, else what VITRINE_DTYPE says."""
    from model.runtime.device import choose_dtype

    return choice(PRECISIONS, str(choose_dtype()).removeprefix("torch."), Part.PRECISION)


def model_names(here: Sequence[CheckpointEntry]) -> list[str]:
    """Names of checkpoints that may be models: folders with a config, and files that can be read."""
    return [place.name for place in here if place.origin == "given" or _may_be_model(place)]


def _may_be_model(place: CheckpointEntry) -> bool:
    listing = place.listed()
    return listing.computes and ((place.path / "config.json").is_file() or not listing.problem)


def first_index(here: Sequence[CheckpointEntry], names: Sequence[str]) -> int:
    """The number of the model that a visit begins with: given on the command line, else the first bundled one."""
    given = [path.resolve() for path in given_paths()]  # one that is saved or bundled may be given too
    for wanted in (lambda place: place.path.resolve() in given, lambda place: place.origin == "bundled"):
        for place in filter(wanted, here):
            if place.name in names:
                return names.index(place.name)
    return 0


def open_named(name: str) -> TextModel:
    """The model of that name, as it is shown, but without changes to its positions.

    Raises:
        ValueError: it cannot be opened.
    """
    return _open(checkpoints.all_places(current_session()), name)


def _open(here: Sequence[CheckpointEntry], name: str) -> TextModel:
    return open_place(*_of_place(here, name))


def _of_place(here: Sequence[CheckpointEntry], name: str) -> tuple[CheckpointEntry, str, str, Path | None]:
    """Checkpoint, precision, hints and base that the model of that name is opened from."""
    place = find(name, here)
    hints = assumptions.hints_for(name, place.origin == "given")
    return place, precision(), hints, adapter_bases.base_of(place, here, hints)


def open_shown(here: Sequence[CheckpointEntry], name: str, waiting: Callable[[float], None]) -> TextModel:
    """The model to be shown. waiting: called now and then while it is being opened, with the seconds that it has taken.

    Raises:
        ValueError: it cannot be opened; the sentence says why.
    """
    known = state()
    try:
        of = _of_place(here, name)
        key = of, of[0].changed
        if key == known.opened:
            model = open_place(*of)
        else:
            if known.opening is None or known.opening.key != key:
                give_up()
                known.opening = Opening(key, partial(open_place, *of))
            model = known.opening.model(waiting)
            known.opened = key
        known.opening = None
    except ValueError as error:
        known.opening = None
        from model.checkpoints.adapters import AdapterBaseError
        from model.checkpoints.convert.state_dict import HeadsNeededError

        known.asks_base = adapter_bases.possible_bases(here) if isinstance(error, AdapterBaseError) else ()
        known.asks_heads = error.possible if isinstance(error, HeadsNeededError) else ()
        assumptions.forget(name)
        raise
    assumptions.say(name)
    is_open(name)
    return model


def is_open(name: str) -> None:
    """The model of that name is shown from now on, and again after another could not be opened; also one in training.
    A refusal stays until yet another is shown.
    """
    known = state()
    known.failed.clear()
    if name != known.current and name != known.wanted:
        forget_refusal()
    known.current, known.precision = name, precision()


def forget_refusal() -> None:
    """Something else is asked for than what could not be opened."""
    state().refused, state().refusal = "", ("", "")


def pin_again(session: Session, model: TextModel) -> None:
    """Pin what the address says, at the first run of a window or at a lesson's step: texts and a model, traced anew.

    Raises:
        ValueError: the model is not here any more, or cannot read the texts.
    """
    source, target, name = (session.address.get(each) for each in PINNED)
    wanted = session.address.take(PINNED[0]) or not session.runs
    if not wanted or session.pin is not None or source is None or name is None:
        return
    scratch = Session(Selection(**DEFAULT_SELECTION), WhatIf())
    scratch.trace_input(model if name == model.name else open_named(name), source, target or "")
    session.pin = scratch.as_pin()
    session.differing = session.address.get(DIFFERENCES[0]) == DIFFERENCES[1]


def give_up() -> None:
    """Give up the model that is being opened; its memory goes with its thread."""
    if (opening := state().opening) is not None:
        opening.cancel()
        state().opening = None


def cancel(names: Sequence[str]) -> None:
    """Show the model of before, or a bundled one, in the place of the one that is being opened. In a callback."""
    give_up()
    let_go()
    others = [state().current, *bundled_names()]
    show(next(each for each in others if each in names and each != st.session_state.get(Key.MODEL)))


def fall_back(name: str, reason: str, page: str, names: Sequence[str], words: Mapping[str, str]) -> bool:
    """After a model could not be opened: whether there is another to be shown instead, the one before if possible.
    words: what the list calls a name, if not by itself.
    """
    known = state()
    first = not known.failed
    known.failed.add(name)
    others = [known.current, *bundled_names()]
    known.wanted = next((each for each in others if each in names and each not in known.failed), "")
    if first:
        reason = reason.removeprefix(f"{name}: ").removeprefix(f"{name}：")
        sentence = stopped(_("{name} was not opened: {reason}").format(name=name, reason=reason))
        if known.wanted:
            before = _("{name} is shown as before.") if known.wanted == known.current else _("{name} is shown instead.")
            sentence = in_turn(sentence, before.format(name=words.get(known.wanted, known.wanted)))
        known.refused, known.refusal = name, (sentence, page)
    return bool(known.wanted)


def take_wanted() -> None:
    """Before the list of models is drawn: it shows the one that is wanted after another could not be opened."""
    known = state()
    if known.wanted and known.failed:
        st.session_state[Key.MODEL] = known.wanted


def format_of(here: Sequence[CheckpointEntry], name: str, model: TextModel) -> str:
    """The format and family of what is shown; a model in training is of ours."""
    listed = next((place.listed() for place in here if place.name == name), None)
    if listed and listed.base is not None:
        return _("{kind} adapter, merged into {base}").format(kind=listed.family, base=model.training.get("base"))
    if listed and listed.family:
        return with_label(listed.format, listed.family)
    return str(model.training.get("format") or (listed.format if listed else "Vitrine"))


def show_refusal(page: str) -> None:
    """The sentence about a model that could not be opened, on the page where that was; and what it may ask for."""
    known = state()
    if known.refusal[1] != page:
        forget_refusal()
    if not known.refused:
        return
    if not known.asks_heads:
        st.error(as_sentence(known.refusal[0]))
        if known.asks_base:
            row = st.container(horizontal=True, vertical_alignment="bottom")
            assumptions.fields(row, known.refused, {"base": None}, (), 1, show, known.asks_base)
    else:
        st.info(
            _(
                "{name} is not shown yet: its weights do not tell how many attention heads share them. Choose the "
                "number that it was trained with."
            ).format(name=literal(known.refused))
        )
        row = st.container(horizontal=True, vertical_alignment="bottom")
        assumptions.fields(row, known.refused, {"heads": None}, known.asks_heads, 1, show)


def show(name: str) -> None:
    """Make it the model that is shown. In a callback."""
    forget_refusal()
    st.session_state[Key.MODEL] = name
    current_session().rerun_requested = True


def forget(session: Session, name: str) -> None:
    """Forget a deleted model: the bundled one is shown, if this one was. In a callback."""
    if st.session_state.get(Key.MODEL) == name:
        let_go()
        st.session_state[Key.MODEL] = bundled_names()[0]
    session.rerun_requested = True
