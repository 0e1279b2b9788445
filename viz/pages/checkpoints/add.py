"""Ways to add to the list of checkpoints: an upload, a name at Hugging Face, a path on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.checkpoints import hub
from model.message import Message
from model.runtime import cancellation
from model.runtime.errors import CheckpointError
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, in_turn, literal
from viz.jobs import Job
from viz.state import checkpoints, permissions, shown_model, uploading
from viz.state.permissions import Permission, Quota
from viz.state.session import Session, current_session
from viz.ui.file_field import FileField, Way
from viz.ui.job_view import show_job
from viz.ui.parts import tell

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from model.checkpoints.hub import Offer

LIMIT = 500  # megabytes of one upload; the server takes no more either (.streamlit/config.toml)
SUFFIXES = ("zip", "safetensors", "pt", "pth", "bin", "gguf", "json", "txt", "model", "spm", "md")
UNNAMED = "uploaded"  # files without a folder


def checkpoint_field() -> FileField:
    """Ways to give a checkpoint."""
    size = min(LIMIT, int(permissions.limit(Quota.UPLOAD_SIZE) or LIMIT))
    labels: dict[Way, str] = {
        "file": _("The files of a checkpoint, or one .zip with them, at most {size} MB").format(size=size),
        "hub": _("Its name at Hugging Face"),
        "path": _("Its path on this machine"),
    }
    examples = {"hub": "openai-community/gpt2", "path": "/home/me/models/gpt2"}
    return FileField(key="adding", labels=labels, suffixes=SUFFIXES, largest=size, several=True, examples=examples)


def show(session: Session, place: DeltaGenerator) -> None:
    """A button for each way."""
    given = checkpoint_field()
    titles = {"file": _("Upload …"), "hub": _("From Hugging Face …"), "path": _("By its path …")}
    draw: dict[str, Callable[[FileField], None]]
    draw = {"file": _upload, "hub": partial(show_hub, session), "path": _path}
    for way in given.ways():
        # With another key it is another button, and closed.
        with place.popover(titles[way], key=f"{Part.WAY}_{way}_{st.session_state.get(Part.SENT, 0)}"):
            draw[way](given)
            refusal(way)


def report(session: Session) -> None:
    """Outcome of the last request, and progress of a transfer."""
    how, _text, where = st.session_state.get(Part.SAID) or ("", "", "")
    if how == "good" and shown_model.state().refused:  # a file that could not be opened is no good news
        st.session_state[Part.SAID] = None
    if not where:
        tell(Part.SAID)
    record = checkpoints.opened(session)
    if record and isinstance(record.download, Download):
        fetching(session, record.download)


def _upload(given: FileField) -> None:
    files = given.draw("file", st.container(), again=st.session_state.get(Part.SENT, 0))
    st.caption(_("They stay in this session and are removed with it. Nothing that they hold is run."))
    if files:
        words = _("Open {name}").format(name=literal(files[0].name))
        if len(files) > 1:
            words = _("Open these {count} files").format(count=len(files))
        st.button(words, key=Part.SEND, on_click=_send, args=(files,), width="stretch")


def _send(files: Sequence[UploadedFile]) -> None:
    session = current_session()
    st.session_state[Part.SAID] = None
    if not permissions.may(Permission.UPLOADS):
        return
    close()
    uploads = checkpoints.begin(session).uploads
    try:
        path = uploads.add([(file.name, file.getvalue()) for file in files])
    except (ValueError, OSError) as error:
        say("wrong", _("{name} was not opened: {reason}").format(name=files[0].name, reason=translate_error(error)))
        return
    stem = Path(files[0].name).stem
    # The folder of several files without one of their own is called by a number.
    name = path.name if path.suffix or not path.name.isdigit() else stem if len(files) == 1 else UNNAMED
    uploading.let_go(files)
    name = added(session, name, path, uploads.left_out)
    if name in shown_model.model_names(checkpoints.own_places(session)):
        shown_model.show(name)


def _path(given: FileField) -> None:
    given.draw("path", st.container(), _look)
    st.button(_("Open"), key=Part.LOOK, on_click=_look, args=(True,), width="stretch")


def _look(clicked: bool = False) -> None:
    """Open the path in the field. clicked: on the button, which says that there is nothing in the field."""
    from model.checkpoints.catalog import catalog_entry, typed_path

    if not permissions.may_name_paths(st.context.headers.to_dict()):
        return
    typed = str(st.session_state.get(Part.PATH) or "")
    if not typed.strip():
        empty = _("The field is empty: type the path of a checkpoint's folder or file.")
        say("wrong", empty if clicked else "", "path")
        return
    try:
        path = typed_path(typed)
        problem = catalog_entry(path).problem
    except ValueError as error:
        problem = str(error)
    if problem:
        say("wrong", translate_error(problem), "path")
        return
    session = current_session()
    known = next((each.name for each in checkpoints.own_places(session) if each.path == path), None)
    if known:
        say("good", _("{name} is in the list.").format(name=known))
        close()
    name = known or added(session, path.name or str(path), path)
    if name in shown_model.model_names(checkpoints.own_places(session)):
        shown_model.show(name)


# Shared by all ways to add to the list of checkpoints: the message, and the new entry.


class Part(StrEnum):
    """Names in the session state."""

    SENT = "adding_sent"
    SEND = "adding_send"
    WAY = "adding_way"
    HUB = "adding_hub"
    ASK = "adding_ask"
    ASKED = "adding_asked"  # a bar, as the next
    FETCHED = "adding_fetched"
    OFFER = "adding_offer"
    QUESTION = "adding_question"
    FETCH = "adding_fetch"
    PATH = "adding_path"
    LOOK = "adding_look"
    SAID = "adding_said"


def refusal(where: str) -> None:
    """Refusal beside the field that it is about, which would hide it elsewhere."""
    _how, text, place = st.session_state.get(Part.SAID) or ("", "", "")
    if place == where and text:
        st.error(as_sentence(text))


def added(session: Session, name: str, path: Path, left_out: Sequence[str] = ()) -> str:
    """Put it into the list, and say so; gives its name there."""
    from model.checkpoints.catalog import catalog_entry

    shown_model.forget_refusal()
    name = checkpoints.add(session, name, path)
    entry = catalog_entry(path)
    text = _("{name} is in the list.").format(name=name)
    if entry.problem:
        text = _("{name} is in the list, which says why it cannot be opened.").format(name=name)
    elif entry.part:
        text = _("{name} is in the list, which says why only its tensors can be read.").format(name=name)
    elif not entry.computes:
        text = in_turn(text, _("It is no model that is known here: its tensors can be read."))
    if left_out:
        text = in_turn(
            text,
            _("Files that no checkpoint needs are left out: {names}.").format(
                names=", ".join(left_out[:5]) + (" …" if len(left_out) > 5 else "")
            ),
        )
    say("wrong" if entry.problem else "good", text)
    close()
    session.rerun_requested = True  # the sidebar's list too
    return name


def close() -> None:
    """Close the form: it gets another key, and is another one then."""
    st.session_state[Part.SENT] = st.session_state.get(Part.SENT, 0) + 1


def say(how: str, text: str, where: str = "") -> None:
    st.session_state[Part.SAID] = (how, text, where)


# A name at Hugging Face: asked about first, then fetched, beside the page.

PATIENCE = 0.5  # seconds that a page waits for an answer


def show_hub(session: Session, given: FileField) -> None:
    record = checkpoints.opened(session)
    if record and record.download is not None:
        st.caption(_("One is on its way already."))
        return
    given.draw("hub", st.container())
    question: HubQuestion | None = st.session_state.get(Part.QUESTION)
    st.button(_("Ask how large it is"), key=Part.ASK, on_click=_ask, disabled=bool(question), width="stretch")
    if question:
        asking(question)
    offer: Offer | None = st.session_state.get(Part.OFFER)
    if offer:
        st.button(
            _("Fetch {name}: {size:.3g} MB in {count} files").format(
                name=literal(offer.name), size=offer.bytes / 1e6, count=len(offer.files)
            ),
            key=Part.FETCH,
            on_click=_fetch,
            type="primary",
            width="stretch",
        )


def _ask() -> None:
    st.session_state[Part.SAID] = st.session_state[Part.OFFER] = None
    if not permissions.may(Permission.HUB):
        return
    name = str(st.session_state.get(Part.HUB) or "")
    if not name.strip():
        empty = _("The field is empty: type the name of a model at Hugging Face, such as openai-community/gpt2.")
        say("wrong", empty, "hub")
        return
    question = st.session_state[Part.QUESTION] = HubQuestion(name)
    question.wait(PATIENCE)
    if question.is_over:
        _answered(question)


class HubQuestion(Job["Offer"]):
    """A name at Hugging Face that was asked about. No answer after a while is one, too: nothing ends the thread that
    waits for it.
    """

    def __init__(self, name: str) -> None:
        self.name = name.strip()
        super().__init__()

    @property
    def sentence(self) -> Message:
        return Message("Asking Hugging Face … {seconds} s", seconds=f"{self.seconds:.0f}")

    @property
    def is_over(self) -> bool:
        return self.ended or self.seconds >= hub.PATIENCE

    def compute(self) -> Offer:
        return hub.ask(self.name)


def asking(question: HubQuestion) -> None:
    """Seconds since the request, until there is an answer; the page can be used meanwhile."""
    if not question.is_over and show_job(
        question, Part.ASKED, _("Cancel"), on_cancel=_give_up, state=lambda: question.is_over
    ):
        return
    _answered(question)
    st.rerun()


def _answered(question: HubQuestion) -> None:
    st.session_state[Part.QUESTION], st.session_state[Part.OFFER] = None, question.result
    problem = question.error if question.ended else hub.unanswered(question.name)
    if problem:
        say("wrong", translate_error(problem))
        close()


def _give_up() -> None:
    if (question := st.session_state.get(Part.QUESTION)) is not None:
        question.cancel()
    st.session_state[Part.QUESTION] = None


def _fetch() -> None:
    offer = st.session_state.get(Part.OFFER)
    if offer and permissions.may(Permission.HUB):
        checkpoints.begin(current_session()).download = Download(offer)
        st.session_state[Part.OFFER] = None


class Download(Job[Path]):
    """An offer of Hugging Face that is being downloaded; gives its folder."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        super().__init__(total=offer.bytes)

    @property
    def sentence(self) -> Message:
        name, done, size = self.offer.name, self.done / 1e6, self.total / 1e6
        return Message("{name}: {done:.3g} of {size:.3g} MB", name=name, done=done, size=size)

    def compute(self) -> Path:
        try:
            return hub.fetch(self.offer, self._count)
        except CheckpointError:
            cancellation.check()  # the library may have made an error of what ends it
            raise

    def _count(self, size: float) -> None:
        if self.cancelled:
            raise cancellation.SupersededError
        self.advance(min(size, self.total) - self.done)


def fetching(session: Session, download: Download) -> None:
    """Progress of a download, until it is here."""
    if not download.cancelled and not download.ended and show_job(download, Part.FETCHED, _("Cancel")):
        return
    checkpoints.begin(session).download = None
    if download.status == "finished" and download.result is not None:
        added(session, download.offer.name.rpartition("/")[2], download.result)
    elif download.error:
        say("wrong", translate_error(download.error))
    st.rerun()
