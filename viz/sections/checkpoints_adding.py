"""Ways to add to the list of checkpoints: an upload, a name at Hugging Face, a path on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence, literal
from viz.sections import checkpoints_fetching
from viz.sections.checkpoints_added import Part, added, refusal, say
from viz.state import checkpoints
from viz.state.workbench import Workbench, workbench
from viz.ui import fields
from viz.ui.parts import outcome

LIMIT = 500  # megabytes of one upload; the server takes no more either (.streamlit/config.toml)
SUFFIXES = ("zip", "safetensors", "pt", "pth", "bin", "gguf", "json", "txt", "model", "spm", "md")
LOCAL = ("localhost", "127.0.0.1", "::1", "[::1]")
UNNAMED = "uploaded"  # files without a folder


def show(bench: Workbench, place: DeltaGenerator) -> None:
    """A button for each way; a path only where whoever asks sits at this machine."""
    # With another key it is another button, and closed.
    count = st.session_state.get(Part.SENT, 0)
    _upload(place.popover(_("Upload …"), key=f"{Part.SEND}_{count}"))
    with place.popover(_("From Hugging Face …"), key=f"{Part.FETCH}_{count}"):
        checkpoints_fetching.show_hub(bench)
    if is_local(str(st.get_option("server.address") or ""), st.context.headers.to_dict()):
        with place.popover(_("By its path …"), key=f"{Part.LOOK}_{count}"):
            _path()
            refusal(Part.PATH)


def report(bench: Workbench) -> None:
    """What came of it, and how far a transfer is."""
    how, text, where = st.session_state.get(Part.SAID) or ("", "", "")
    if text and not where:
        outcome(how, as_sentence(text))
    found = checkpoints.opened(bench)
    if found and found.download is not None:
        st.fragment(checkpoints_fetching.fetching, run_every=1.0)(bench, found.download)


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
    fields.in_words()
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
    uploads = checkpoints.begin(bench).uploads
    try:
        path = uploads.add([(file.name, file.getvalue()) for file in files])
    except (ValueError, OSError) as error:
        say("wrong", _("{name} was not opened: {reason}").format(name=files[0].name, reason=said(error)))
        return
    stem = Path(files[0].name).stem
    # The folder of several files without one of their own is called by a number.
    name = path.name if path.suffix or not path.name.isdigit() else stem if len(files) == 1 else UNNAMED
    added(bench, name, path, uploads.left_out)


def _path() -> None:
    text = st.text_input(
        _("Its path on this machine"), key=Part.PATH, placeholder="/home/me/models/gpt2", persist_state="session"
    )
    st.button(_("Put it into the list"), key=Part.LOOK, on_click=_look, disabled=not text, width="stretch")


def _look() -> None:
    from model.checkpoints.catalog import listed, typed_path

    if not is_local(str(st.get_option("server.address") or ""), st.context.headers.to_dict()):
        return
    try:
        path = typed_path(str(st.session_state.get(Part.PATH) or ""))
        problem = listed(path).problem
    except ValueError as error:
        problem = str(error)
    if problem:
        say("wrong", said(problem), Part.PATH)
        return
    added(workbench(), path.name or str(path), path)
