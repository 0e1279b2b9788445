"""The chosen file and tensor: fields bound to the address bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, with_label
from viz.state import assumptions, shown_model
from viz.state.adapter_bases import base_of
from viz.state.checkpoints import all_places
from viz.state.session import Key, current_session, take_pending

if TYPE_CHECKING:
    from model.checkpoints.adapters import Merged
    from model.checkpoints.tensors import TensorInfo
    from model.inference.text_model import TextModel

CHECKPOINT, TENSOR = "checkpoint", "tensor"  # parameters of the address
REGION = ("w_rows", "w_columns")  # the fields of the rows and columns that are looked at
FOLLOWED = "checkpoint_of_the_sidebar"
LONGEST = 200  # letters of a tensor's name in the address; of a longer one its number


def choose_subject(place: DeltaGenerator, label: str, key: str, default: str | None) -> Subject | None:
    """The file of that field, which is in the address; None where there is no file at all, or by default none."""
    by_name = {subject.name: subject for subject in subjects()}
    if not by_name:
        place.info(_("There is nothing to look at: open a checkpoint first."))
        return None
    names = list(by_name)
    request = st.query_params.get(key)
    take_pending(key, default, names)
    before = st.session_state.get(key)
    none = default is None and request is None and before is None
    name = place.selectbox(
        label,
        names,
        index=names.index(default) if default in by_name else None if none else 0,
        key=key,
        placeholder=_("another checkpoint"),
        bind="query-params",
        persist_state="session",
        label_visibility="collapsed",
    )
    if name is None and none:
        return None
    name = name if name in by_name else names[0]
    missing_key = f"{key}_missing"  # the page may draw itself again at once, and the address is another one then
    if request is not None and request not in by_name:
        sentence = _("The address asks for a checkpoint that is not here. This is {name}.")
        st.session_state[missing_key] = (name, sentence.format(name=literal(name)))
    elif before is not None and before not in by_name:  # deleted, or taken out of the list, in another window
        sentence = _("{before} is no longer there. This is {name}.")
        st.session_state[missing_key] = (name, sentence.format(before=literal(before), name=literal(name)))
    of, warning = st.session_state.get(missing_key, ("", ""))
    if of == name:
        place.warning(warning)
    return by_name[name]


def choose_pair(
    row: DeltaGenerator, keys: tuple[str, str], defaults: tuple[str | None, str]
) -> tuple[Subject | None, Subject | None]:
    """Two files, each field beside its letter also where the row is broken."""
    places = []
    for letter in ("**A**", "→ **B**"):
        pair = row.container(horizontal=True, vertical_alignment="center", gap="xsmall", width=256)
        pair.markdown(letter, width=30)
        places.append(pair.container())
    before = choose_subject(places[0], _("A: before"), keys[0], defaults[0])
    return before, choose_subject(places[1], _("B: after"), keys[1], defaults[1])


def follow_sidebar(key: str) -> str:
    """The model in the sidebar, to begin with; while the field shows that model, it goes on to the next with it."""
    now, before = str(st.session_state.get(Key.MODEL) or ""), st.session_state.get(FOLLOWED)
    if before is not None and now != before and st.session_state.get(key) == before:
        st.session_state[key] = now
    st.session_state[FOLLOWED] = now
    return now


def asked_place(table: Sequence[TensorInfo]) -> int | None:
    """The number of the tensor that the address asks for."""
    wish = st.query_params.get(TENSOR, "")
    for place, info in enumerate(table):
        if wish and info.name == wish:
            return place
    if wish.startswith("#") and wish[1:].isascii() and wish[1:].isdigit() and len(wish) < 10:
        return min(int(wish[1:]), len(table) - 1)
    return None


def chosen_place(table: Sequence[TensorInfo], first: Callable[[int], float] | None = None) -> int:
    """The number of the tensor that is looked at.

    first: of the number of a tensor, how much it asks to be the first that is shown; by default large matrices do.
    """
    request = asked_place(table)
    if request is not None:
        return request
    return max(
        range(len(table)),
        key=first or (lambda place: table[place].elements * (len(table[place].shape) == 2)),
    )


def choose_tensor(table: Sequence[TensorInfo], place: int) -> None:
    """Put the tensor of that number into the address; all of it is looked at."""
    name = table[place].name
    plain = name.isprintable() and 0 < len(name) <= LONGEST and not name.startswith("#")
    current_session().address.set(TENSOR, name if plain else f"#{place}")
    for key in REGION:
        st.session_state[key] = ""


def open_subject(subject: Subject) -> TextModel:
    """The model in that file.

    Raises:
        ValueError: it holds none, or none that opens.
    """
    session = current_session()
    if session.traced_input is not None and st.session_state.get(Key.MODEL) == subject.name:
        return session.model
    return shown_model.open_named(subject.name)


def model_of(subject: Subject) -> TextModel | None:
    """The model in that file, if it is one that opens."""
    try:
        return open_subject(subject)
    except ValueError:
        return None


def closed_words(subjects: Iterable[Subject]) -> str:
    """Sentence that says why the model in one of these files does not open; empty where all do."""
    for subject in subjects:
        try:
            open_subject(subject)
        except ValueError as error:
            return as_sentence(with_label(subject.name, translate_error(error)))
    return ""


# The files that the page Checkpoints can look at: bundled, saved, and opened in this session.


@dataclass(frozen=True)
class Subject:
    """A checkpoint folder or a file of tensors, by the name that the user sees.

    given: on the command line. base: the folder of the model that an adapter changes, where the tensors that are meant
    are those of both merged. beside: the folder of Hugging Face whose names and order the tensors of a GGUF file are
    given, where it is compared with one.
    """

    name: str
    path: Path
    given: bool = False
    base: Path | None = None
    beside: Path | None = None

    @property
    def changed(self) -> int:
        """Time of its last change, or what it is beside; of an adapter that is merged another number than of its own
        tensors.
        """
        paths = (self.path, self.beside) if self.beside else (self.path,)
        own = max(path.stat().st_mtime_ns for each in paths for path in [each, *each.glob("*")])
        return own if self.base is None else hash((own, str(self.base), Subject("", self.base).changed))

    @property
    def quantized(self) -> bool:
        """True if it is a GGUF file, or a folder of one alone."""
        from model.checkpoints.convert.from_gguf import gguf_in

        return gguf_in(self.path) is not None

    @property
    def key(self) -> str:
        """Identity of the file, whatever its name."""
        return f"{self.path}\0{self.beside or ''}"

    def table(self) -> list[TensorInfo]:
        """Its tensors, without their values.

        Raises:
            CheckpointError: it is damaged, or must not be read.
        """
        return _table(str(self.path), self.changed, self.beside) if self.base is None else merged_table(self).table


def is_merged(subject: Subject) -> bool:
    """True if it is an adapter that is merged into its base."""
    return any(each.name == subject.name and each.listed().base is not None for each in all_places(current_session()))


def base_of_subject(subject: Subject) -> Path | None:
    """The folder of the model that an adapter changes; None: the subject is no adapter.

    Raises:
        ValueError: it is not here; the sentence names it.
    """
    here = all_places(current_session())
    place = next((each for each in here if each.name == subject.name), None)
    return None if place is None else base_of(place, here, assumptions.hints_for(subject.name, subject.given))


def hints_of(subject: Subject) -> str:
    """Hints for a subject, with the folder of an adapter's base, as a text of `LoadHints`.

    Raises:
        ValueError: the base is not here.
    """
    from model.checkpoints.load_hints import LoadHints

    hints, base = assumptions.hints_for(subject.name, subject.given), base_of_subject(subject)
    return replace(LoadHints.read(hints), base=None if base is None else str(base)).text()


def merged(subject: Subject) -> Subject:
    """An adapter as the model that it is with its base; every other subject as it is.

    Raises:
        ValueError: its base is not here.
    """
    return replace(subject, base=base_of_subject(subject))


def name_of_base(subject: Subject, candidates: Sequence[Subject]) -> str | None:
    """The name in the list of the model that an adapter changes; None: it is no adapter, or its base is not there."""
    try:
        base = base_of_subject(subject)
    except ValueError:
        return None
    return next((each.name for each in candidates if base and each.path.resolve() == base.resolve()), None)


def aligned(before: Subject, after: Subject) -> tuple[Subject, Subject]:
    """Both, a GGUF file and a folder with names and an order of rows in common: those of the folder."""
    if before.quantized and not after.quantized:
        return replace(before, beside=after.path), after
    if after.quantized and not before.quantized:
        return before, replace(after, beside=before.path)
    return before, after


def nearest(name: str, candidates: Sequence[Subject]) -> str | None:
    """The checkpoint to compare with: of the same run folder, else of the same names and shapes, else of the
    same kind and width, which have most of their tensors in common; None where none is. With a GGUF file rather a
    folder that it may have been made from, with others rather no GGUF file.
    """
    own = next((each for each in candidates if each.name == name), None)
    ranked = [(_nearness(own, each), each.name) for each in candidates if own is not None and each is not own]
    return max((each for each in ranked if each[0]), default=((), None), key=lambda each: each[0])[1]


def _nearness(one: Subject, other: Subject) -> tuple[float, ...]:
    """Larger is nearer; empty for no kin, or what cannot be read."""
    try:
        mine, theirs = ({(info.name, info.shape) for info in each.table()} for each in aligned(one, other))
    except (ValueError, OSError):
        return ()
    common, more = len(mine & theirs), max(len(mine), len(theirs))
    if not common or 2 * common < more:
        return ()
    equal = mine == theirs
    alike = next((at for at, (a, b) in enumerate(zip(one.name, other.name, strict=False)) if a != b), 1000)
    return equal and one.path.parent == other.path.parent, equal, common / more, not other.quantized, alike


def subjects() -> list[Subject]:
    """Everything that can be looked at, whether or not it is a model."""
    return [
        Subject(place.name, place.path, place.origin == "given")
        for place in all_places(current_session())
        if place.path.exists()
    ]


def merged_table(subject: Subject) -> Merged:
    """An adapter merged into its base, without any values yet.

    Raises:
        CheckpointError: one of them is damaged, or they do not fit each other.
    """
    return _merged(str(subject.path), str(subject.base), subject.changed)


@st.cache_resource(max_entries=8, show_spinner=False)
def _merged(path: str, base: str, changed: int) -> Merged:  # noqa: ARG001 - of the key in the cache
    from model.checkpoints.load import merged_adapter
    from model.checkpoints.load_hints import LoadHints

    return merged_adapter(Path(path), LoadHints(base=base))[2]


@st.cache_resource(max_entries=32, show_spinner=False)
def _table(path: str, changed: int, beside: Path | None) -> list[TensorInfo]:  # noqa: ARG001 - of the key in the cache
    from model.checkpoints.convert.from_gguf import as_family, gguf_in
    from model.checkpoints.tensors import tensor_table

    file = gguf_in(Path(path)) if beside else None
    if file is None or beside is None:
        return tensor_table(path)
    try:
        names = {info.name for info in tensor_table(beside)}
        table = as_family(file, names)
    except ValueError:  # of an architecture that is not known
        return tensor_table(path)
    return table if any(info.name in names for info in table) else tensor_table(path)
