"""Ways to add to the list of checkpoints: an upload, a name at Hugging Face, a path on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz import i18n, opened
from viz.i18n import _
from viz.said import said
from viz.sections import uploading
from viz.words import literal
from viz.workbench import Key, Workbench, workbench

if TYPE_CHECKING:
    from model.hub import Download, Offer

LIMIT = 500  # megabytes of one upload; the server takes no more either (.streamlit/config.toml)
SUFFIXES = ("zip", "safetensors", "pt", "pth", "bin", "gguf", "json", "txt", "model", "spm", "md")
LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")
UNNAMED = "uploaded"  # files without a folder
MESSAGE = {"good": st.success, "wrong": st.error}


class Part(StrEnum):
    """Names in the session state."""

    FILES = "adding_files"
    SENT = "adding_sent"
    SEND = "adding_send"
    HUB = "adding_hub"
    ASK = "adding_ask"
    OFFER = "adding_offer"
    FETCH = "adding_fetch"
    CANCEL = "adding_cancel"
    PATH = "adding_path"
    LOOK = "adding_look"
    SAID = "adding_said"


def show(bench: Workbench, place: DeltaGenerator) -> None:
    """A button for each way; a path only where whoever asks sits at this machine."""
    # With another key it is another button, and closed.
    _upload(place.popover(_("Upload …"), key=f"{Part.SEND}_{st.session_state.get(Part.SENT, 0)}"))
    with place.popover(_("From Hugging Face …")):
        _hub(bench)
    if is_local(str(st.get_option("server.address") or ""), st.context.headers.to_dict()):
        _path(place.popover(_("By its path …")))


def report(bench: Workbench) -> None:
    """What came of it, and how far a transfer is."""
    if message := st.session_state.get(Part.SAID):
        MESSAGE[message[0]](literal(message[1]))
    found = opened.opened(bench)
    if found and found.download is not None:
        st.fragment(_fetching, run_every=1.0)(bench, found.download)


def is_local(address: str, headers: Mapping[str, Any]) -> bool:
    """Whether visitors sit at this machine: only they may name paths of its disk.

    A server that listens elsewhere has visitors whose business its disk is not; one behind a proxy listens here and
    has them all the same, which the proxy's headers, or the name that the browser asked for, give away.
    """
    lower = {name.lower(): str(value) for name, value in headers.items()}
    host = lower.get("host", "localhost")
    name = host if host in LOCAL else host.rpartition(":")[0] or host
    return address in LOCAL and name in LOCAL and not any(each in lower for each in ("forwarded", "x-forwarded-for"))


def _upload(place: DeltaGenerator) -> None:
    count = st.session_state.get(Part.SENT, 0)
    uploading.in_words()
    files = place.file_uploader(
        _("The files of a checkpoint, or one .zip with them, at most {size} MB").format(size=LIMIT),
        SUFFIXES,
        accept_multiple_files=True,
        key=f"{Part.FILES}{count}",
        max_upload_size=LIMIT,
    )
    place.caption(_("They stay in this session and are removed with it. Nothing that they hold is run."))
    if files:
        words = _("Open {name}").format(name=literal(files[0].name))
        if len(files) > 1:
            words = _("Open these {count} files").format(count=len(files))
        place.button(words, key=Part.SEND, on_click=_send, width="stretch")


def _send() -> None:
    bench, count = workbench(), st.session_state.get(Part.SENT, 0)
    st.session_state[Part.SAID] = None
    files = st.session_state.get(f"{Part.FILES}{count}") or []
    if not files:
        return
    st.session_state[Part.SENT] = count + 1  # an empty field
    uploads = opened.begin(bench).uploads
    try:
        path = uploads.add([(file.name, file.getvalue()) for file in files])
    except (ValueError, OSError) as error:
        _say("wrong", _("{name} was not opened: {reason}").format(name=files[0].name, reason=said(error)))
        return
    stem = Path(files[0].name).stem
    # The folder of several files without one of their own is called by a number.
    name = path.name if path.suffix or not path.name.isdigit() else stem if len(files) == 1 else UNNAMED
    _added(bench, name, path, uploads.left_out)


def _hub(bench: Workbench) -> None:
    found = opened.opened(bench)
    if found and found.download is not None:
        st.caption(_("One is on its way already."))
        return
    name = st.text_input(
        _("Its name at Hugging Face"), key=Part.HUB, placeholder="openai-community/gpt2", persist_state="session"
    )
    st.button(_("Ask how large it is"), key=Part.ASK, on_click=_ask, disabled=not name, width="stretch")
    offer: Offer | None = st.session_state.get(Part.OFFER)
    if offer:
        st.button(
            _("Fetch {name}: {size:.3g} MB in {count} files").format(
                name=offer.name, size=offer.bytes / 1e6, count=len(offer.files)
            ),
            key=Part.FETCH,
            on_click=_fetch,
            type="primary",
            width="stretch",
        )


def _ask() -> None:
    from model.hub import ask

    st.session_state[Part.SAID] = st.session_state[Part.OFFER] = None
    try:
        st.session_state[Part.OFFER] = ask(str(st.session_state.get(Part.HUB) or ""))
    except ValueError as error:
        _say("wrong", said(error))


def _fetch() -> None:
    from model.hub import Download

    offer = st.session_state.get(Part.OFFER)
    if offer:
        opened.begin(workbench()).download = Download(offer)
        st.session_state[Part.OFFER] = None


def _fetching(bench: Workbench, download: Download) -> None:
    """How far it is, until it is here."""
    i18n.use(st.session_state[Key.LANGUAGE])
    if download.busy and not download.cancelled:
        st.progress(
            download.share,
            _("{name}: {done:.3g} of {size:.3g} MB").format(
                name=download.offer.name,
                done=download.share * download.offer.bytes / 1e6,
                size=download.offer.bytes / 1e6,
            ),
        )
        st.button(_("Cancel"), key=Part.CANCEL, on_click=download.cancel)
        return
    opened.begin(bench).download = None
    if download.path is not None and not download.cancelled:
        _added(bench, download.offer.name.rpartition("/")[2], download.path)
    elif download.problem:
        _say("wrong", said(download.problem))
    st.rerun()


def _path(place: DeltaGenerator) -> None:
    text = place.text_input(
        _("Its path on this machine"), key=Part.PATH, placeholder="/home/me/models/gpt2", persist_state="session"
    )
    place.button(_("Put it into the list"), key=Part.LOOK, on_click=_look, disabled=not text, width="stretch")


def _look() -> None:
    from model.listing import listed

    if not is_local(str(st.get_option("server.address") or ""), st.context.headers.to_dict()):
        return
    text = str(st.session_state.get(Part.PATH) or "").strip()
    path = Path(os.path.abspath(os.path.expanduser(text)))  # without "..", which would be a name
    if not os.path.exists(path):  # Path.exists raises where the name is too long or a folder is closed
        _say("wrong", _("{path} is not there: give the path of a checkpoint's folder or file").format(path=path))
        return
    if problem := listed(path).problem:
        _say("wrong", said(problem))
        return
    _added(workbench(), path.name or str(path), path)


def _added(bench: Workbench, name: str, path: Path, left_out: Sequence[str] = ()) -> None:
    name = opened.add(bench, name, path)
    sentence = _("{name} is in the list.").format(name=name)
    if left_out:
        sentence += " " + _("Files that no checkpoint needs are left out: {names}.").format(
            names=", ".join(left_out[:5]) + (" …" if len(left_out) > 5 else "")
        )
    _say("good", sentence)
    bench.begun = True  # the sidebar's list too


def _say(how: str, sentence: str) -> None:
    st.session_state[Part.SAID] = (how, sentence)
