"""Vitrine: page configuration, navigation, and the frame around every page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.components.registry import component, pack, trigger_value
from viz.components.view import PackedView, View
from viz.frame import (
    class_strip,
    class_view,
    drawing,
    input_bar,
    python_code,
    shutdown,
    token_bar,
    training_strip,
)
from viz.frame.command_line import ignored_arguments
from viz.frame.lead import KEY as LEAD
from viz.frame.lead import page_intro
from viz.frame.menu import file_of, show_menu
from viz.frame.model_list import describe_options, words_of_models
from viz.frame.page_layout import PageLayout
from viz.i18n import catalogue
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, count_text, duration, literal, one_row, page_name
from viz.pages.lessons import joining, notes, trained_state, worksheet
from viz.pages.lessons import steps as lesson_steps
from viz.pages.lessons import strip as lesson_strip
from viz.state import (
    assumptions,
    browsers,
    checkpoints,
    opened_page,
    position_override,
    shown_model,
    special_tokens,
    target_language,
    texts,
    training,
)
from viz.state.checkpoints import CheckpointEntry
from viz.state.saved_page import Choices
from viz.state.session import Key, Session, choose, current_session
from viz.ui import long_text
from viz.ui.parts import Views, explain_figure, foreign_code, mount, no_views
from viz.web.modules import base_path

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage

    from model.inference.text_model import TextModel
    from model.training.live.live_training import LiveTraining

PAGES = {
    name: f"viz/pages/{name}/page.py"
    for name in (
        *("map", "positions", "attention", "masks", "residual", "feed_forward", "predictions"),
        *("training", "lessons", "lab", "checkpoints"),
    )
}
SECTION = {
    "training": "change",
    "lessons": "learn",
    "lab": "learn",
    "checkpoints": "models",
}  # the others are for seeing
FIRST = "map"
VISITS = "visits"
PATIENCE = 5.0  # seconds that a model may take to open before there is a button to give it up
HELD = ("draft",)  # in the address: they stay when another page is opened, whichever page knows what they mean
OF_PAGE = {"lab": ("statement",)}  # and these go with the page that is left: a card is one of many
STYLE = Path(__file__).parent / "frame.css"

_channel = component("web/channel")
_visits = component("frame/visits")
_learnt = component("frame/learnt")


def main() -> None:
    st.set_page_config(page_title="Vitrine", page_icon="🔍", layout="wide", initial_sidebar_state=232)
    st.html(STYLE)
    session = current_session()
    heading = st.sidebar.container(key="heading", horizontal=True, vertical_alignment="center")
    heading.markdown("### Vitrine")
    choose_language(heading)
    with heading:
        show_menu(session)
    pages = pages_by_section()
    # The first page has no name in the address; who writes it there all the same means that page.
    named = st.Page(PAGES[FIRST], title=page_name(FIRST), url_path=FIRST)
    hold_choices(session)
    chosen = st.navigation({**pages, "": [named]}, position="hidden").url_path or FIRST
    leave_choices(session, chosen)
    session.address.sync()
    if lesson_window():
        return
    session.browser = browsers.browser()
    joining.begin(session)
    lesson_steps.begin(session)
    session.rerun_requested = False
    here = checkpoints.all_places(session)
    class_view.follow(session, shown_model.model_names(here), chosen)
    lesson_strip.hide(session)
    if not session.runs:
        shutdown.tell(session)
    with st.sidebar:
        names = [*([training.ENTRY] if training.training(session) else []), *shown_model.model_names(here)]
        begun_with = shown_model.first_index(here, names)
        first_name = names[begun_with] if names else ""
        name = choose_model(here, training.training(session), names, begun_with)
        summary = st.container(key="model_summary").empty()
        for section, links in pages.items():
            st.caption(section)
            for link in links:
                st.page_link(link)
        strip_place = st.container(key="training_box")
    first_page = st.empty()
    live = training.training(session)
    trained = live is not None and name == training.ENTRY
    try:
        if live and trained:
            model = live.start
            shown_model.is_open(name)
        else:
            place = summary if session.runs else first_page  # which is empty: what is opened is said there
            model = shown_model.open_shown(here, name, OfferCancel(place, name, names))
            first_page.empty()
    except ValueError as error:
        words = {training.ENTRY: entry_name(live)} if live else {}
        if shown_model.fall_back(name, translate_error(error), chosen, names, words):
            st.rerun()
        st.error(as_sentence(translate_error(error)))
        return
    for sentence in ignored_arguments():
        st.warning(sentence)
    shown_model.show_refusal(chosen)
    description, details = describe(model, shown_model.format_of(here, name, model))
    summary.caption(description, help=details)
    texts.follow_model(session, model)
    session.training.moving, session.training.drawn_state = training.is_moving(live), training.standing(live)
    with strip_place, session.lock:
        training_strip.strip(session, model, trained)()
        session.message_drawn = session.message
        if session.message:
            st.error(as_sentence(translate_error(session.message)))
        open_channel(session)
        visit = {"model": name, "first": first_name, "language": catalogue.language()}
        _visits(data=visit, key=VISITS, on_model_change=partial(on_visit, names))
    st.fragment(arrange)(session, model, chosen, trained)
    session.runs += 1
    session.saving, session.making, session.choices = 0, (0, ""), Choices()


def hold_choices(session: Session) -> None:
    """Keep in the address what stays there whichever page is open."""
    for name in HELD:
        if value := st.query_params.get(name):
            session.address.set(name, value)


def leave_choices(session: Session, page: str) -> None:
    """Take out of the address what belongs to the page that was left."""
    left = session.stage.page if session.stage else page
    for name in OF_PAGE.get(left, ()) if left != page else ():
        session.address.forget(name)


def lesson_window() -> bool:
    """Draw a window of a lesson beside the application, where the address asks for one; whether it does."""
    return notes.window() or worksheet.window()


def pages_by_section() -> dict[str, list[StreamlitPage]]:
    sections = {"see": _("See"), "change": _("Change"), "learn": _("Learn"), "models": _("Models")}
    pages: dict[str, list[StreamlitPage]] = {title: [] for title in sections.values()}
    for name, path in PAGES.items():
        first = name == FIRST
        page = st.Page(path, title=page_name(name), url_path="first" if first else name, default=first)
        pages[sections[SECTION.get(name, "see")]].append(page)
    return pages


def arrange(session: Session, model: TextModel, page: str, trained: bool) -> None:
    """The input bar and the page under it, and the views of the texts as they are now.

    trained: the model in training is shown, and not the one that it began with.
    """
    # A click in here changed what stands outside: the list of models, the strip, the message below it.
    if session.rerun_requested or session.message != session.message_drawn:
        st.rerun()
    catalogue.use(st.session_state[Key.LANGUAGE])
    with session.lock:
        show_notice(session)
    session.address.sync()
    opened_page.go_to_opened(page)
    session.live_regions = []
    texts.say(session, model)
    # First of all: what it imports takes a while, once. Not by the navigation's own run(): that works only in a run of
    # the whole script.
    drawn_by = import_module(PAGES[page].removesuffix(".py").replace("/", "."))
    classroom = st.container()
    lesson, note = st.container(key="lesson"), st.container(key="variation")
    bar, controls = st.container(key="input_bar"), st.container()
    with controls:
        first_line, controls = st.container(), st.container()
    if page != "attention":  # whose first line is of the trace
        mount([(first_line, page_intro(session, page, model))])
    if not trained:
        with note:
            model = target_language.as_chosen(special_tokens.as_chosen(model))
            model = position_override.overridden(session, model)
    foreign_code.set(model.network.code)
    with bar:
        places = input_bar.show_controls(model)
    views: Views = no_views
    with controls, telling():
        views = trained_state.watched(session, lesson, drawn_by.page(model))
    stage = PageLayout(model, trained, views, catalogue.language(), page)
    with session.lock:
        class_view.take_texts(session, stage)
    from model.runtime.errors import device_trouble

    with session.lock:
        try:
            shown_model.pin_again(session, model)
        except ValueError as error:
            st.toast(as_sentence(translate_error(str(error))), icon="⚠️", duration="long")
    with session.lock:  # the tables too are of the trace that the views show
        session.stage, session.views, session.followed = stage, {}, set()
        try:
            traced_model = drawing.trace(session, stage)
        except (ValueError, RuntimeError, MemoryError) as error:  # a text that this model cannot read, or no memory
            problem = str(error) if isinstance(error, ValueError) else device_trouble(error)
            if not problem:
                raise
            mount(zip(places, drawing.fields(session, model), strict=False))
            bar.error(as_sentence(translate_error(problem)))
        else:
            first = [(first_line, page_intro(session, page, traced_model))] if page == "attention" else []
            mount([*zip(places, drawing.fields(session, traced_model), strict=True), *first])
            draw_views(session, stage, traced_model, bar)
    with session.lock:
        lesson_strip.panel(session, lesson)
        class_view.page_drawn(session, stage)
    with classroom:
        joining.show_problem()
    if line := class_strip.strip(session):
        with classroom.container(key="class_line"):
            line()
    mount([(st.container(), script_synced(session, page))])
    explain_figure(session)
    session.wake()


def draw_views(session: Session, stage: PageLayout, model: TextModel, bar: DeltaGenerator) -> None:
    """The page's views, the tokens over them, and what only the script can draw.

    model: as it is shown, after any step of training.
    """
    rest = None
    with telling():
        rest = drawing.views(session, stage, model, mount)
    mount([(bar, view) for view in (token_bar.token_bar(session), *long_text.bars(session))])
    long_text.watch_job(session, partial(long_text.bar, session))
    with telling():
        if rest:
            with drawing.asking_of(session):
                rest()


def show_notice(session: Session) -> None:
    """Show the message that waits for a toast, on whichever page it was written."""
    if session.notice:
        st.toast(as_sentence(translate_error(session.notice)), icon="⚠️", duration="long")
        session.notice = ""


@contextmanager
def telling() -> Iterator[None]:
    """A sentence, where a page needs what the model does not have, or more memory than there is, in place of the
    rest.
    """
    from model.runtime.errors import MissingQuantityError, device_trouble
    from model.runtime.ledger import NoRoomError
    from viz.i18n.errors import absent_words

    try:
        yield
    except MissingQuantityError as absent:
        st.info(absent_words(absent))
    except (NoRoomError, RuntimeError, MemoryError) as error:
        problem = str(error) if isinstance(error, NoRoomError) else device_trouble(error)
        if not problem:
            raise
        st.error(as_sentence(translate_error(problem)))


def script_synced(session: Session, page: str) -> View:
    """The last view of a page, which tells the browser that all above it is of the texts that the script has learnt,
    and how soon to run the script again where there is no channel and something goes on.
    """
    looks = (
        500
        if session.training.moving or session.live_regions
        else 3000
        if session.training.drawn_state is not None
        else None
    )
    header: dict[str, Any] = {"turn": session.turn, "looks": looks, "at": time.monotonic(), "saving": session.saving}
    header["python"] = ""
    if session.traced_input is not None:
        code = python_code.PageCode.of(session, page, checkpoints.all_places(session))
        header["python"] = "\n".join(code.lines())
        number, kind = session.making
        if kind:
            header |= {"saving": number, "file": file_of(session, kind, code)}
    header["followed"] = sorted({*session.followed, Key.TOKENS, LEAD})
    choices = session.choices
    return PackedView(_learnt, "learnt", pack({**header, **choices.header()}, choices.arrays()))


def open_channel(session: Session) -> None:
    """Mount what opens the channel in the browser."""
    words = {"lost": _("The live channel cannot be had here: the page is drawn by the script, more slowly.")}
    words["waiting"] = _("busy: {typing} people are typing here; your turn comes in about {seconds} s")
    words["behind"] = _("of the text before")
    data = {"token": session.token, "base": base_path(), "runs": session.runs}
    _channel(data={**data, "words": words}, key="channel", on_again_change=lambda: None)


def on_visit(names: list[str]) -> None:
    """Show the model of the place to which the browser went back, or forward."""
    if (name := trigger_value(VISITS, "model")) in names:
        shown_model.let_go()
        shown_model.show(name)


def entry_name(live: LiveTraining) -> str:
    """Name of the training's model in the list, also once it has ended."""
    return _("training: {name}").format(name=live.start.name)


@dataclass
class OfferCancel:
    """Name of a model that is being opened, and the seconds that it has taken; after a while a button to show another.
    At each call the script can be interrupted.

    place: an empty one, whose next element replaces these.
    """

    place: DeltaGenerator
    name: str
    names: list[str]
    places: list[DeltaGenerator] = field(default_factory=list)
    offered: bool = False

    def __call__(self, seconds: float) -> None:
        if not self.places:
            row = self.place.container(horizontal=True, vertical_alignment="center")
            self.places = [row.empty(), row.empty()]
        tick, button = self.places
        opening = _("Opening {name} …").format(name=literal(self.name))
        tick.caption(f"{opening} {duration(seconds)}" if seconds > 1 else opening)
        if seconds > PATIENCE and not self.offered and len(self.names) > 1:
            button.button(_("Cancel"), key="cancel_opening", on_click=shown_model.cancel, args=(self.names,))
            self.offered = True


def choose_language(place: DeltaGenerator) -> None:
    names = list(catalogue.LANGUAGES)
    preferred = catalogue.preferred(st.context.locale)
    catalogue.use(choose("Language", names, preferred, Key.LANGUAGE, lambda name: catalogue.LANGUAGES[name], place))


def choose_model(here: Sequence[CheckpointEntry], live: LiveTraining | None, names: list[str], first: int) -> str:
    """The model that is shown. In the address it has its name, and one in training a code for all languages."""
    address = st.query_params.get(Key.MODEL)
    words = {training.ENTRY: entry_name(live)} if live else {}
    called = (  # which addresses had before
        {each.format(name=live.start.name) for each in ("in training: {name}", "训练中：{name}")} if live else set()
    )
    shown_model.take_wanted()
    if names and st.session_state.get(Key.MODEL) not in names:
        code = training.ENTRY if address in called else address
        st.session_state[Key.MODEL] = code if code in names else names[first]
    describe_options(_("Model"), words_of_models(here, names, None if live is None else live.start))
    name, key = str(st.session_state.get(Key.MODEL) or ""), shown_model.list_key()
    st.selectbox(
        _("Model"),
        names,
        index=names.index(name) if name in names else None,
        key=key,
        on_change=shown_model.choose_in_list,
        args=(key,),
        format_func=lambda name: words.get(name, name),
        label_visibility="collapsed",
    )
    current_session().address.set(Key.MODEL, name if name not in names[first : first + 1] else None)
    known = (*names, *called, *shown_model.state().gone)
    if address is not None and address not in known:
        st.warning(_("The address asks for a model that is not here. This is {name}.").format(name=literal(name)))
    return name


def describe(model: TextModel, form: str) -> tuple[str, str]:
    """Kind and size of a model, with what of it is assumed; and in full, to be read on demand."""
    config = model.config
    dtype, shapes = str(model.dtype).removeprefix("torch."), [config.shape_of(stack) for stack in config.stacks]
    layers = "+".join(str(count) for count in (config.n_encoder_layers, config.n_decoder_layers) if count)
    heads = dict.fromkeys(shape.heads for shape in shapes)
    size = count_text(model.network.parameter_count())
    details = [
        ngettext("{count} layer", "{count} layers", config.n_encoder_layers + config.n_decoder_layers).format(
            count=layers
        ),
        ngettext("{count} head", "{count} heads", sum(heads)).format(count="+".join(map(str, heads))),
        f"d {'+'.join(dict.fromkeys(str(shape.width) for shape in shapes))}",
        _("{count} parameters").format(count=size),
        f"{model.device} · {dtype}",
        form,
    ]
    short = f"{one_row(f'{_(model.kind)} ·')} {one_row(size)}"
    full = "\n\n".join(filter(None, [literal(" · ".join(details)), assumptions.in_short(model)]))
    return f"{literal(short)}\n\n{assumptions.beside_name(model)}".rstrip(), full
