"""The input bar: the texts, and what the model can do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.network.config import TWO_STACKS
from viz.frame import conversation
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import literal, no_predictions
from viz.state import special_tokens, target_language, training
from viz.state.assumptions import assumptions
from viz.state.session import Key, current_session
from viz.state.texts import CONTINUED, first_source, model_and_text, typed, write, write_source
from viz.state.what_if import note

if TYPE_CHECKING:
    from model.inference.text_model import TextModel


def show_controls(model: TextModel) -> list[DeltaGenerator]:
    """The button; gives the places of the source's field and, where the model has a target, of the target's."""
    with st.container(key="texts"):
        return _show_controls(model)


def _show_controls(model: TextModel) -> list[DeltaGenerator]:
    source, *target, button = st.columns(3 if model.kind in TWO_STACKS else 2, vertical_alignment="center")
    act, name, explanation = action(model)
    if current_session().what_if.changes:
        explanation += " · " + _("What-if changes count: the changed model writes")
    refusal = unable(model)
    button.button(name, on_click=act, width="stretch", help=refusal or explanation, disabled=bool(refusal))
    with st.container(horizontal=True, vertical_alignment="center"):
        conversation.editor(model)
        special_tokens.switch(model)
        target_language.field(model)
    if note := reads_ids(model):
        st.caption(note)
    if note := assumptions(model):
        st.caption(note)
    return [source, *target]


def action(model: TextModel) -> tuple[Callable[[], None], str, str]:
    """Act of the button beside the text, its name and an explanation."""
    write_it = (
        write_target,
        _("Let it write") if training.is_task(current_session(), model) else _("Translate"),
        _("Let the model write the target by greedy decoding, and follow what you type"),
    )
    return {
        "encoder-decoder": write_it,
        "recurrent": write_it,
        "decoder-only": (
            go_on,
            _("Continue"),
            _("Let the model go on with the text, by chance (temperature 0.8); ⏎ is a line break"),
        ),
        "encoder-only": (
            fill_in,
            _("Fill in"),
            _("Put the most probable token in the place of each {mask}").format(
                mask=literal(model.source_tokenizer.mask_label)
            ),
        ),
    }[model.kind]


def unable(model: TextModel) -> str:
    """Reason why the button does nothing for this model; empty if it does something."""
    if not model.predicts:
        return no_predictions()
    if model.kind == "encoder-only" and not model.fills:
        return _("This model's tokenizer has no mask token: nothing can be filled in.")
    return ""


def reads_ids(model: TextModel) -> str:
    """Note that texts are numbers, where a model came without a tokenizer; empty if it has one."""
    reason = model.source_tokenizer.reason
    return (
        _("This model's text is token ids, such as 12 5 7: {reason}.").format(reason=literal(translate_error(reason)))
        if reason
        else ""
    )


def write_target() -> None:
    """Leave the target to the model; a changed one writes it once, so that before and after are of the same tokens."""
    session = current_session()
    session.training.watching.rewrite = (
        session.training.step is not None
    )  # a model in training has written once for this text
    text = ""
    changed = session.traced_input is not None and (
        session.origin == "trained" or note(session.what_if, session.trace, session.model.config)
    )
    if changed:
        text = session.what_if.generate(session.model, typed(Key.SOURCE, first_source(session.model))).text
    write(Key.TARGET, text)


def go_on() -> None:
    """Let a language model write some tokens more; the same text is always continued in the same way."""
    from model.inference.decoding import Sampling

    model, text = model_and_text()
    drawn = Sampling(temperature=0.8, seed=len(text))
    continuation = current_session().what_if.generate(model, text, sampling=drawn, length=CONTINUED)
    write_source(text + continuation.text)


def fill_in() -> None:
    """Put tokens in the places of masks; a text without one is left as it is, and a message says what to write."""
    model, text = model_and_text()
    mask = model.source_tokenizer.mask_label
    if mask not in text:
        sentence = _("Nothing is masked: write {mask} in the place of a word, then press Fill in.")
        current_session().notice = sentence.format(mask=mask)
        return
    write_source(current_session().what_if.generate(model, text).text)
