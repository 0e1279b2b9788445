"""Vitrine: page configuration, navigation, and the frame around every page."""

from __future__ import annotations

import html
from importlib import import_module
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz import i18n
from viz.components.views import token_bar
from viz.i18n import _
from viz.words import check_explanation, check_name, significant
from viz.workbench import (
    FIRST_SOURCE,
    Key,
    Workbench,
    attention_kinds,
    checkpoint_names,
    choice,
    choose,
    open_model,
    workbench,
)

if TYPE_CHECKING:
    from model import Inspectable

PAGES = {"attention": "viz/pages/attention.py"}
STYLE = """
<style>
.block-container { padding: 3rem 1.6rem 2rem; max-width: none; }
[data-testid="stHeader"] { height: 2.6rem; min-height: 0; }
[data-testid="stSidebarHeader"] { height: 2.2rem; padding-block: 0.4rem; }
[data-testid="stSidebarUserContent"] { padding-top: 0.2rem; }
.vitrine-sticky { position: sticky; top: 2.6rem; z-index: 90; }
.st-key-input_bar { padding: 0.3rem 0 0.6rem;
  border-bottom: 1px solid color-mix(in srgb, currentColor 14%, transparent); }
[data-testid="stCaptionContainer"] { color: inherit !important; opacity: 0.76; }
@media (max-width: 640px) {
  .block-container { padding: 3rem 0.8rem 2rem; }
  .vitrine-sticky { position: static; }
}
</style>
"""


def main() -> None:
    st.set_page_config(page_title="Vitrine", page_icon="🔍", layout="wide", initial_sidebar_state=250)
    st.html(STYLE)
    bench = workbench()
    heading = st.sidebar.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    heading.markdown("### Vitrine", width="content")
    choose_language(heading)
    pages = {
        _("See"): [st.Page(PAGES["attention"], title=_("Attention"), url_path="attention", default=True)],
    }
    chosen = st.navigation(pages, position="hidden").url_path or next(iter(PAGES))
    with st.sidebar:
        name = choose_model()
        summary = st.empty()
        for section, links in pages.items():
            st.caption(section)
            for link in links:
                st.page_link(link)
    try:
        lens = open_model(name)
    except ValueError as error:
        st.error(str(error))
        return
    summary.caption(describe(lens))
    look(bench, lens, chosen)


@st.fragment
def look(bench: Workbench, lens: Inspectable, page: str) -> None:
    """The input bar and the page under it: all that a keystroke draws again."""
    i18n.use(st.session_state[Key.LANGUAGE])
    # What does not depend on the texts goes out first: the browser draws it while the model computes.
    bar = st.container(key="input_bar")
    source, target, button = bar.columns([10, 10, 3], vertical_alignment="bottom")
    text_field(source, _("Source"), Key.SOURCE, FIRST_SOURCE, "")
    button.button(
        _("Translate"),
        on_click=write_target,
        width="stretch",
        help=_("Let the model write the target, and follow what you type"),
    )
    # Not by the navigation's own run(): that works only in a run of the whole script.
    drawing = import_module(PAGES[page].removesuffix(".py").replace("/", ".")).page(lens)
    next(drawing)
    bench.look(lens, typed(Key.SOURCE, FIRST_SOURCE), typed(Key.TARGET, ""))
    mount_tokens = token_bar(describe_tokens(bench), Key.TOKENS, on_token)
    next(drawing)
    text_field(target, _("Target"), Key.TARGET, "", bench.generation.text if bench.generation else "")
    with bar:
        mount_tokens()
    next(drawing, None)


def text_field(place: DeltaGenerator, label: str, key: Key, default: str, placeholder: str) -> None:
    """A text that is read while it is typed, and is in the address bar."""
    place.text_input(
        label,
        default,
        key=key,
        live="100ms",
        bind="query-params",
        persist_state="session",
        placeholder=placeholder,
    )


def choose_language(place: DeltaGenerator) -> None:
    names = list(i18n.LANGUAGES)
    preferred = i18n.preferred(st.context.locale)
    i18n.use(choose("Language", names, preferred, Key.LANGUAGE, lambda name: i18n.LANGUAGES[name], place))


def choose_model() -> str:
    names = checkpoint_names()
    asked = st.query_params.get(Key.MODEL)
    name = st.selectbox(_("Model"), names, key=Key.MODEL, bind="query-params") or ""
    if asked is not None and asked not in names:
        st.warning(_("The address asks for a model that is not here. This is {name}.").format(name=name))
    return name


def typed(key: Key, default: str) -> str:
    """What a text field holds, before it is drawn: at the first run, what the address bar gives it."""
    return str(st.session_state.get(key, st.query_params.get(key, default)) or "")


def write_target() -> None:
    """Leave the target to the model."""
    st.session_state[Key.TARGET] = ""


def describe_tokens(bench: Workbench) -> dict[str, Any]:
    """What the token bar shows: both sides, notes on what was cut, and the checks of this trace."""
    from model.text import SPECIAL

    assert bench.trace is not None
    assert bench.source is not None
    assert bench.target is not None
    assert bench.lens is not None
    cut = _("{count} tokens left out: this model reads {length}")
    length = bench.lens.config.max_length
    sides = {"source": bench.source, "target": bench.target}
    data = {
        side: [{"label": label, "special": label in SPECIAL} for label in tokens.labels]
        for side, tokens in sides.items()
    }
    notes = {
        side: cut.format(count=tokens.left_out, length=length) if tokens.left_out else ""
        for side, tokens in sides.items()
    }
    badges = [
        {
            "text": f"{check_name(check.name)} · {significant(check.error)}",
            "passed": check.passed,
            "title": f"{check_explanation(check.name)} {_('Largest error')}: {check.error:.3e}",
        }
        for check in bench.trace.checks()
        if check.cells
    ]
    words = {"source": _("Source tokens"), "target": _("Target tokens")}
    return {**data, "notes": notes, "badges": badges, "words": words}


def on_token() -> None:
    """A click on a token makes it the query, where its side is the one that asks."""
    clicked, bench = st.session_state[Key.TOKENS].token, workbench()
    kinds = attention_kinds(bench.lens.model) if bench.lens else []
    asking = "source" if choice(kinds, "cross", Key.KIND) == "encoder" else "target"
    if clicked["side"] == asking:
        bench.select(query=int(clicked["position"]))


def describe(lens: Inspectable) -> str:
    config = lens.config
    dtype = str(lens.dtype).removeprefix("torch.")
    millions = lens.model.parameter_count() / 1e6
    text = _(
        "{kind} · {encoder}+{decoder} layers · {heads} heads · d {d} · {millions:.1f} M parameters · {device} · {dtype}"
    ).format(
        kind=_(lens.kind),
        encoder=config.n_encoder_layers,
        decoder=config.n_decoder_layers,
        heads=config.n_heads,
        d=config.d_model,
        millions=millions,
        device=lens.device,
        dtype=dtype,
    )
    return html.escape(text.replace(" ", "\N{NO-BREAK SPACE}").replace("\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}", " · "))


main()
