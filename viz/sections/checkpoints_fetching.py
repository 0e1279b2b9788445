"""A name at Hugging Face: asked about first, then fetched, beside the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.sections.checkpoints_added import Part, added, close, say
from viz.state import checkpoints
from viz.state.workbench import Key, Workbench, workbench

if TYPE_CHECKING:
    from model.checkpoints.hub import Download, Offer, Question

LOOK = 0.5  # seconds between two looks at what is under way


def show_hub(bench: Workbench) -> None:
    found = checkpoints.opened(bench)
    if found and found.download is not None:
        st.caption(_("One is on its way already."))
        return
    name = st.text_input(
        _("Its name at Hugging Face"), key=Part.HUB, placeholder="openai-community/gpt2", persist_state="session"
    )
    question: Question | None = st.session_state.get(Part.QUESTION)
    st.button(
        _("Ask how large it is"), key=Part.ASK, on_click=_ask, disabled=not name or bool(question), width="stretch"
    )
    if question:
        st.fragment(_asking, run_every=LOOK)(question)
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
    from model.checkpoints.hub import Question

    st.session_state[Part.SAID] = st.session_state[Part.OFFER] = None
    question = st.session_state[Part.QUESTION] = Question(str(st.session_state.get(Part.HUB) or ""))
    question.wait(LOOK)
    if not question.busy:
        _answered(question)


def _asking(question: Question) -> None:
    """How long it has been, until there is an answer; the page can be used meanwhile."""
    catalogue.use(st.session_state[Key.LANGUAGE])
    given_up = st.session_state.get(Part.QUESTION) is not question
    if question.busy and not given_up:
        st.caption(_("Asking Hugging Face … {seconds} s").format(seconds=f"{question.seconds:.0f}"))
        st.button(_("Cancel"), key=Part.GIVE_UP, on_click=_give_up, width="stretch")
        return
    if not given_up:
        _answered(question)
    st.rerun()


def _answered(question: Question) -> None:
    st.session_state[Part.QUESTION], st.session_state[Part.OFFER] = None, question.offer
    if question.problem:
        say("wrong", said(question.problem))
        close()


def _give_up() -> None:
    st.session_state[Part.QUESTION] = None


def _fetch() -> None:
    from model.checkpoints.hub import Download

    offer = st.session_state.get(Part.OFFER)
    if offer:
        checkpoints.begin(workbench()).download = Download(offer)
        st.session_state[Part.OFFER] = None


def fetching(bench: Workbench, download: Download) -> None:
    """How far it is, until it is here."""
    catalogue.use(st.session_state[Key.LANGUAGE])
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
    checkpoints.begin(bench).download = None
    if download.path is not None and not download.cancelled:
        added(bench, download.offer.name.rpartition("/")[2], download.path)
    elif download.problem:
        say("wrong", said(download.problem))
    st.rerun()
