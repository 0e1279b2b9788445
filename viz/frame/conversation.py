"""The editor of conversations: turns become a text by the checkpoint's own template, and what the loss counts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from model.text.tokenizer import clean
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, token_code
from viz.state.permissions import longest_text
from viz.state.session import follow_language
from viz.state.texts import write_source

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.text.chat import Conversation

TURNS, PROMPT, OPEN = "conversation_turns", "conversation_prompt", "conversation"
TOOLS, THINKING = "conversation_tools", "conversation_thinking"
MOST = 20  # turns
SHOWN = 400  # tokens whose part in the loss is shown
ROLES = ("system", "user", "assistant", "tool")
FIRST = (("user", "What is a Transformer?"), ("assistant", "A network that attends."), ("user", "To what?"))


def editor(model: TextModel) -> None:
    """A button that opens it; nothing where the tokenizer has no template."""
    tokenizer = model.source_tokenizer
    if not tokenizer.template:
        return
    place = st.popover(_("Conversation"), key=OPEN, on_change="rerun")
    if not place.open:
        return
    with place:
        st.session_state.setdefault(TURNS, len(FIRST))
        for number in range(st.session_state[TURNS]):
            turn(number)
        row = st.container(horizontal=True)
        row.button(_("One more"), on_click=change, args=(1,), disabled=st.session_state[TURNS] >= MOST)
        row.button(_("One less"), on_click=change, args=(-1,), disabled=st.session_state[TURNS] < 2)
        st.toggle(_("Ask the assistant for an answer"), True, key=PROMPT)
        choose_options(tokenizer.template + tokenizer.tool_template)
        try:
            dialogue = conversation(model, turns(), bool(st.session_state[PROMPT]))
        except ValueError as error:
            st.error(as_sentence(translate_error(error)))
            return
        st.button(_("Put it into the text"), on_click=write_source, args=(dialogue.text,), type="primary")
        loss_mask(model, dialogue)


def choose_options(template: str) -> None:
    """The tools and the thinking, where the template speaks of them."""
    from model.text.chat import takes

    if takes(template, "tools"):
        st.text_area(
            _("Tools that the assistant may call, as JSON"),
            height=68,
            max_chars=longest_text(),
            key=TOOLS,
            placeholder='[{"type": "function", "function": {"name": "…", "parameters": {}}}]',
        )
    if takes(template, "enable_thinking"):
        words = {"": _("as the template does"), "on": _("on"), "off": _("off")}
        follow_language(THINKING)
        st.selectbox(_("Thinking"), list(words), key=THINKING, format_func=words.__getitem__)


def turn(number: int) -> None:
    """The fields of a turn."""
    role, text = FIRST[number] if number < len(FIRST) else (("user", "assistant")[number % 2], "")
    left, right = st.columns([1, 3])
    left.selectbox(
        _("Role"),
        ROLES,
        ROLES.index(role),
        key=f"{TURNS}_{number}_role",
        format_func=role_name,
        label_visibility="collapsed",
    )
    right.text_area(
        _("What is said"),
        text,
        height=68,
        max_chars=longest_text(),
        key=f"{TURNS}_{number}_text",
        label_visibility="collapsed",
    )


def role_name(role: str) -> str:
    return {"system": _("system"), "user": _("user"), "assistant": _("assistant"), "tool": _("tool")}[role]


def change(by: int) -> None:
    st.session_state[TURNS] += by


def turns() -> tuple[tuple[str, str], ...]:
    """Turns as the fields hold them: of each its role and its text."""
    fields = ((f"{TURNS}_{number}_role", f"{TURNS}_{number}_text") for number in range(st.session_state[TURNS]))
    return tuple((str(st.session_state[role]), str(st.session_state[text] or "")) for role, text in fields)


def conversation(model: TextModel, messages: tuple[tuple[str, str], ...], prompt: bool) -> Conversation:
    """The conversation by the model's template, with the tools and the thinking that are chosen.

    Raises:
        ValueError: the template refuses it, or the tools are no JSON.
    """
    from model.text.chat import tools_in

    tokenizer = model.source_tokenizer
    ids = {"bos_token": tokenizer.start, "eos_token": tokenizer.end, "pad_token": tokenizer.padding}
    ids |= {"unk_token": tokenizer.unknown, "mask_token": tokenizer.mask}
    names = {name: tokenizer.label(token) for name, token in ids.items() if token is not None}
    tools = tools_in(clean(str(st.session_state.get(TOOLS) or "")))
    template = tokenizer.template if tools is None else tokenizer.tool_template or tokenizer.template
    thinking = {"on": True, "off": False}.get(str(st.session_state.get(THINKING) or ""))
    dialogue: Conversation = _conversation(template, messages, tuple(names.items()), prompt, tools, thinking)
    return dialogue


@st.cache_data(max_entries=64, show_spinner=False)
def _conversation(
    template: str,
    messages: tuple[tuple[str, str], ...],
    names: tuple[Any, ...],
    prompt: bool,
    tools: list[dict[str, Any]] | None,
    thinking: bool | None,
) -> Any:
    from model.text.chat import Turn, converse

    return converse(template, [Turn(*each) for each in messages], dict(names), prompt, tools, thinking)


def loss_mask(model: TextModel, dialogue: Conversation) -> None:
    """Mask of the tokens that a training on it would count: those that the assistant wrote."""
    tokenizer = model.reading(True).source_tokenizer
    try:
        tokens = tokenizer.encode(dialogue.text)
        counted = dialogue.counts(tokenizer.ends(dialogue.text))
    except ValueError as error:
        st.caption(as_sentence(translate_error(error)))
        return
    sentence = _("A training on it counts {count} of {all} tokens: what the assistant wrote.")
    st.caption(sentence.format(count=sum(counted), all=len(counted)))
    flags = zip(tokens.labels[:SHOWN], counted, strict=False)
    marked = (f":gray-background[**{token_code(label)}**]" if is_in else token_code(label) for label, is_in in flags)
    st.markdown(" ".join(marked))
