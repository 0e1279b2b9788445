"""The state of one user's session: model, texts, selection; and the models that sessions share."""

from __future__ import annotations

import hashlib
import secrets
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from weakref import WeakValueDictionary

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from model.runtime.locks import NotifyingLock
from viz.i18n.catalogue import _, language
from viz.i18n.messages import in_language
from viz.i18n.names import attention_title
from viz.state.address import BOUND, Address
from viz.state.input_texts import InputTexts
from viz.state.inputs import Inputs
from viz.state.inputs import Selection as Selection
from viz.state.permissions import longest_text
from viz.state.pin import Made, Pin
from viz.state.saved_page import Choices
from viz.state.serving import by_channel, served
from viz.state.training_view import TrainingView
from viz.state.what_if import CHANGES, WhatIf

if TYPE_CHECKING:
    from torch import nn

    from model.analysis.comparison import Comparison
    from model.capture.interventions import AttentionChange
    from model.capture.trace import AttentionKind, Trace
    from model.inference.decoding import Generation
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokenizer, Tokens


Origin = Literal["", "data", "trained"]  # written by the model, the answer in the data, or by the model as trained
DRAFTS = 12  # texts that are kept: most of what is written for a changed text stands in one of those before it
LONG = 100  # tokens of both texts
LARGE = 1 << 26  # bytes of a trace, or of the maps of one layer
FIRST_SOURCE = "She bought a red car yesterday."


class Key(StrEnum):
    """Names in the session state; those of widgets bound to the address bar are its parameters too."""

    SESSION = "session"
    LANGUAGE = "language"
    MODEL = "model"
    SOURCE = "source"
    TARGET = "target"
    KIND = "attention"
    SCALE = "scale"
    TOKENS = "tokens"
    FILE = "page_file"


class Parameter(StrEnum):
    """Parameters of the address bar that belong to no widget."""

    LAYER = "layer"
    HEAD = "head"
    QUERY = "query"


@dataclass(frozen=True)
class TracedInput:
    """Input of every view: a model, its tokens, and the trace of its pass over them."""

    model: TextModel
    trace: Trace
    source: Tokens
    target: Tokens | None


@dataclass
class Session:
    """One session. Widgets keep their own values in the session state; what they mean is here.

    Four values are its visitor's state: `texts`, `selection`, `training` and `address`.

    pin: what every view is compared with. differing: views show differences from it, and not values. traced_input: None
    until the first input has gone through a model. stage: the page's layout, as the script left it. lock: held while an
    input is traced and drawn. token: by which the browser's channel finds the session. memory: what was computed, by
    its use.
    """

    texts: InputTexts = field(default_factory=InputTexts, kw_only=True)
    training: TrainingView = field(default_factory=TrainingView, kw_only=True)
    address: Address = field(default_factory=Address, kw_only=True)
    stage: Any = field(default=None, kw_only=True)
    override: Any = field(default=None, kw_only=True)  # of the positions, see position_override
    views: dict[str, Any] = field(default_factory=dict, kw_only=True, repr=False)  # on the page, by their keys
    followed: set[str] = field(default_factory=set, kw_only=True)  # keys of those that the page draws of the texts
    runs: int = field(default=0, kw_only=True)  # number of completed runs of the script
    turn: int = field(default=0, kw_only=True)  # number of the last edit that the script has read, see text_field.js
    lock: NotifyingLock = field(
        default_factory=partial(NotifyingLock, "session"), kw_only=True, repr=False, compare=False
    )
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), kw_only=True, repr=False, compare=False)
    channels: set[Callable[[], None]] = field(default_factory=set, kw_only=True, repr=False)  # each wakes an open one
    live_regions: list[Any] = field(default_factory=list, kw_only=True)  # views of jobs beside the page: job_view.py
    job_news: bool = field(default=False, kw_only=True)  # a job that the page shows has gone on or ended
    wake_for_job: Callable[[], None] = field(init=False, repr=False, compare=False)  # keeps no session alive
    long_text_job: Any = field(default=None, kw_only=True, repr=False)  # see long_text.py; the next text cancels it
    memory: dict[Any, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)
    selection: Selection = field(default_factory=Selection)
    query_side: str = field(default="", kw_only=True)  # whose token the query was when it was chosen; "": none was
    what_if: WhatIf = field(default_factory=WhatIf)
    pin: Pin | None = None
    differing: bool = False
    traced_input: TracedInput | None = None
    generation: Generation | None = None  # the target, when the model wrote it
    origin: Origin = ""  # of a target that was not typed
    traced: tuple[str, str] = ("", "")
    seat: Any = field(default=None, kw_only=True)  # in a class session, see class_sessions.py
    browser: str = ""  # secret of this visitor's browser, see `browsers.browser`
    rerun_requested: bool = False
    explained: tuple[str, Any] | None = None  # key and explanation of the figure whose "?" was pressed
    saving: int = 0  # the number of the page file that this run of the script is for; 0: none
    making: tuple[int, str] = (0, "")  # number and kind of the file that this run is to write; 0: none
    choices: Choices = field(default_factory=Choices, repr=False)  # views that clicks show in that file
    message: str = ""  # beside the training, until something else is done with it
    message_drawn: str = ""  # the one that the script has drawn
    notice: str = ""  # message for one toast
    visitor: str = ""  # Streamlit's own name of the session
    _comparison: Comparison | None = None
    _drafts: list[Generation] = field(default_factory=list, repr=False)  # targets written lately, the newest first
    _draft_tokenizer: Tokenizer | None = field(default=None, repr=False)  # of their tokens
    _drawn: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    _moment: int = field(default_factory=lambda: time.time_ns() // 1_000_000, repr=False)

    def __post_init__(self) -> None:
        SESSIONS[self.token] = self
        self.wake_for_job = partial(wake_for_job, weakref.ref(self))

    @cached_property
    def mark(self) -> str:
        """Mark by which the browser tells this session's frames from another's; its token cannot be guessed from it."""
        return hashlib.blake2s(self.token.encode(), digest_size=6).hexdigest()

    def wake(self) -> None:
        """Have the windows look at what there is to do now."""
        for wake in list(self.channels):
            wake()

    def cancel_long_text_job(self) -> None:
        """Nobody waits for what a long text takes any more: another text is there."""
        if (job := self.long_text_job) is not None:
            job.cancel()

    @property
    def current(self) -> TracedInput:
        """The traced input.

        Raises:
            LookupError: nothing is yet: no page draws its views before.
        """
        if self.traced_input is None:
            raise LookupError("no input has gone through a model yet")
        return self.traced_input

    @property
    def edits(self) -> dict[str, int]:
        """Number of changes of each field."""
        return self.texts.edits

    @property
    def inputs(self) -> Inputs:
        """Inputs of figures.

        Raises:
            LookupError: as `current` does.
        """
        traced_input = self.current
        texts = traced_input.source, traced_input.target, self.ended
        return Inputs(traced_input.model, traced_input.trace, self.comparison, self.selection, *texts, self.pin)

    @property
    def model(self) -> TextModel:
        return self.current.model

    @property
    def trace(self) -> Trace:
        return self.current.trace

    @property
    def source(self) -> Tokens:
        return self.current.source

    @property
    def target(self) -> Tokens | None:
        return self.current.target

    @property
    def comparison(self) -> Comparison | None:
        """The trace beside the pinned one; None while nothing is pinned."""
        if self.pin is None or self.traced_input is None:
            return None
        known = self._comparison
        if known is None or known.trace is not self.trace or known.pinned is not self.pin.trace:
            from model.analysis.comparison import Comparison

            known = self._comparison = Comparison(self.trace, self.pin.trace, self.pin.same_words(self.model))
        return known

    @property
    def ended(self) -> bool:
        """True if the written text ends where its tokens do: it was not cut, and a model that wrote it ended it."""
        stops, wrote = self.model.target_tokenizer.stops, self.generation
        return not (self.target or self.source).left_out and (wrote is None or not stops.isdisjoint(wrote.ids))

    def as_pin(self) -> Pin:
        """The current trace, to be compared with."""
        step, texts = "" if self.training.step is None else f" · {self.training.step:,}", (self.source, self.target)
        return Pin(self.model.name + step, self.traced[0], self.trace, self.model, texts, self.ended)

    def keep(self) -> None:
        """Pin the current trace; a reload finds it again where texts and the model as it is opened tell all of it."""
        self.pin = self.as_pin()
        override = self.override
        plain = (
            self.training.step is None
            and not self.what_if.changes
            and (not override or override.model is override.trained)
        )
        values = (*self.traced, self.model.name) if plain else (None, None, None)
        for name, value in zip(PINNED, values, strict=True):
            self.address.set(name, value)

    def differ(self, wanted: bool) -> None:
        """Show differences from the pinned trace in every view, or values."""
        self.differing = wanted
        self.address.set(DIFFERENCES[0], DIFFERENCES[1] if wanted else None)

    def release(self) -> None:
        from model.runtime.memory import collect

        self.pin, self._comparison = None, None
        self.differ(False)
        collect.expect()
        for name in PINNED:
            self.address.set(name, None)

    def cached(self, key: str, made_of: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """Value of `make` for these, traces and models by identity; only the last of a key is kept."""
        known = self.memory.get(key)
        if known is None or known[0] != made_of:
            known = self.memory[key] = (made_of, make())
        value: Made = known[1]
        return value

    def moment(self, key: str, data: bytes) -> int:
        """Number of a view's drawing: grows from drawing to drawing, and stays while its bytes are the same."""
        with self.lock:
            known, digest = self._drawn.get(key), hash(data)
            if known is None or known[0] != digest:
                self._moment += 1
                known = self._drawn[key] = digest, self._moment
            return known[1]

    def change(self, changes: Sequence[AttentionChange]) -> None:
        """Make these what-if changes, and put them into the address bar."""
        from model.capture.interventions import write_changes

        if self.what_if.change(changes):
            self.address.set(CHANGES, write_changes(self.what_if.listed) or None)

    def restore(self) -> None:
        """Take all what-if changes back, those that wait for another model too."""
        self.what_if.clear()
        self.address.set(CHANGES, None)

    def trace_input(self, model: TextModel, source: str, target: str, writer: TextModel | None = None) -> Trace:
        """The trace of this input, computed once per change; an empty target is the model's to write, if it has one.

        writer: who writes it in the model's place, so that both are of the same tokens.

        Raises:
            ValueError: the model cannot read it, or memory has no room for it, even without what was shown before.
        """
        from model.runtime.ledger import NoRoomError

        try:
            return self._trace_input(model, source, target, writer)
        except NoRoomError:
            if self.traced_input is None:
                raise
        self.forget()  # not in the handler, whose traceback holds what the pass has recorded
        return self._trace_input(model, source, target, writer)

    def forget(self) -> None:
        """Let go of what is shown, with all that was computed of it."""
        from model.runtime.memory import collect

        self.cancel_long_text_job()
        self.traced_input = self.long_text_job = self._comparison = self.what_if.plain = self.what_if._trace = None
        self.memory.clear()
        collect.expect()

    def _trace_input(self, model: TextModel, source: str, target: str, writer: TextModel | None) -> Trace:
        wanted, before = (source, target), self.traced_input
        plain: Trace | None = None
        trained = (
            self.training.step is not None
        )  # what was shown before is of a training, which may have begun with this model
        if before is not None and not trained and model is before.model and wanted == self.traced:
            tokens, answer = before.source, before.target
        else:
            from model.inference.models import Translator

            self.cancel_long_text_job()
            tokens, answer, generation = model.source_tokens(source), None, None
            if not isinstance(model, Translator):
                plain = model.trace_tokens(tokens)
            elif target:
                answer = model.target_tokens(target)
                plain = model.trace_tokens(tokens, answer)
            else:
                wrote = writer if isinstance(writer, Translator) else model
                tokenizer = wrote.target_tokenizer
                drafts = self._drafts if tokenizer is self._draft_tokenizer else []  # else their tokens are others
                plain, answer, generation = wrote.trace_generated(tokens, drafts)
                if wrote is not model:
                    plain = model.trace_tokens(tokens, answer)
                self._drafts, self._draft_tokenizer = [generation, *drafts[: DRAFTS - 1]], tokenizer
            trace = self._show(model, plain, tokens, answer)
            self.traced, self.training.step, self.generation = wanted, None, generation
            self.origin = "trained" if generation is not None and writer not in (None, model) else ""
            return trace
        return self._show(model, plain, tokens, answer)

    def show(
        self, model: TextModel, texts: tuple[str, str], trace: Trace, source: Tokens, target: Tokens | None, step: int
    ) -> None:
        """A trace that was computed elsewhere: of a model in training, after `step`."""
        self.traced, self.training.step, self.generation = texts, step, None
        self._show(model, trace, source, target)

    def _show(self, model: TextModel, plain: Trace | None, source: Tokens, target: Tokens | None) -> Trace:
        """The trace with the what-if changes; plain: without them, None where it is the one of before."""
        trace = self.what_if.look(model, plain, source, target)
        self.traced_input = TracedInput(model, trace, source, target)
        if self.long_text_job is not None and self.long_text_job.trace is not trace:
            self.long_text_job = None  # with all that it keeps of the text before
        return trace

    @property
    def has_message(self) -> bool:
        """True if there is a message that only the script can show, or take away."""
        return bool(self.notice) or self.message != self.message_drawn

    @property
    def is_long(self) -> bool:
        """True if the checks of the trace take longer than a page should wait."""
        return self.traced_input is not None and len(self.trace.source_tokens) + len(self.trace.target_tokens) > LONG

    @property
    def is_large(self) -> bool:
        """True if what is computed of the trace may need much memory: each operation then asks for it."""
        if self.traced_input is None:
            return False
        tokens = len(self.trace.source_tokens) + len(self.trace.target_tokens)
        heads = getattr(self.model.config, "n_heads", 1)  # additive attention has none to be told apart
        return max(self.trace.size, 4 * heads * tokens**2) >= LARGE

    @property
    def written(self) -> str:
        """The target that was not typed."""
        if self.generation:
            return self.generation.text
        return self.model.target_tokenizer.decode(self.target.ids) if self.traced_input and self.target else ""

    def select(self, **parts: int) -> None:
        """Choose a layer, head or query, and put it into the address bar."""
        if "query" in parts:
            self.query_side = self.selection.side
        for name, value in parts.items():
            setattr(self.selection, name, value)
            self.address.set(Parameter[name.upper()], str(value))

    def fit_selection(self, layers: int, heads: int, queries: int) -> Selection:
        """The selection, moved inside what the trace has; the wish itself is kept for a longer input."""
        wish = self.selection
        pairs = ((wish.layer, layers), (wish.head, heads), (wish.query, queries))
        return Selection(*(max(0, min(wished, count - 1)) for wished, count in pairs))


def wake_for_job(session: weakref.ref[Session]) -> None:
    """Have the windows of a session, if it is still there, look at its jobs."""
    if (live_session := session()) is not None:
        live_session.job_news = True
        live_session.wake()


def choice(options: Sequence[str], default: str, key: str) -> str:
    """Choice in a row of buttons, known before they are drawn."""
    session = current_session()
    request = session.address.get(key)
    wish = session.address.widget_values.get(key, request) if by_channel() else st.session_state.get(key, request)
    return str(wish) if wish in options else default


def take_pending(key: str, default: object, options: Sequence[object] = ()) -> None:
    """Give a control, before it is drawn, what was chosen elsewhere.

    Not sooner: what a callback sets before it has all drawn again does not reach the browser.
    """
    address = current_session().address
    if key not in address.pending_choices:
        return
    value = address.pending_choices.pop(key)
    if key not in BOUND:
        value = address.get(key) or value  # a link may have come in between
    if value is None or not options or value in options:
        st.session_state[key] = default if value is None else value


def choose(
    label: str,
    options: Sequence[str],
    default: str,
    key: str,
    words: Callable[[str], str],
    place: DeltaGenerator | None,
) -> str:
    """A row of buttons whose choice is in the address bar, by its name and not by its words in one language.

    place: None while the buttons are hidden, where the choice stays what it was.
    """
    take_pending(key, default, options)
    if place is None:
        hidden = current_session().address.widget_values[key] = choice(options, default, key)
        return hidden
    chosen = place.segmented_control(
        label,
        options,
        default=choice(options, default, key),
        format_func=lambda option: in_language(words(option)),
        key=key,
        required=True,
        label_visibility="collapsed",
    )
    if chosen != default or key in st.query_params:
        current_session().address.set(key, chosen)
    current_session().address.widget_values[key] = chosen or default
    return chosen or default


def follow_language(key: str) -> None:
    """Have a list whose words are translated show its choice in the language in use: the browser keeps its old words.

    Before the list is drawn.
    """
    of = f"{key}_language"
    if key in st.session_state and st.session_state.get(of, language()) != language():
        st.session_state[key] = st.session_state[key]
    st.session_state[of] = language()


def choose_attention(kinds: Sequence[AttentionKind], place: DeltaGenerator) -> AttentionKind:
    """Kind of attention, chosen by the user where there are several."""
    if len(kinds) == 1:
        return kinds[0]
    return cast("AttentionKind", choose(_("Attention"), kinds, kinds[-1], Key.KIND, attention_title, place))


SESSIONS: WeakValueDictionary[str, Session] = WeakValueDictionary()  # of this process, by their tokens


def all_sessions() -> list[Session]:
    """Sessions of this process, from any thread: taken in one step, for others may begin meanwhile."""
    return [session for each in SESSIONS.valuerefs() if (session := each()) is not None]


def current_session() -> Session:
    """The session of this user, made from the address bar when the session begins."""
    if session := served.get():
        return cast(Session, session)
    if Key.SESSION not in st.session_state:
        given = {part.value: n for part in Parameter if (n := address_count(part)) is not None}
        what_if = WhatIf.read(st.query_params.get(CHANGES, ""))
        address = st.query_params.to_dict()
        typed = {str(name): address[name][: longest_text()] for name in (Key.SOURCE, Key.TARGET) if name in address}
        selection = Selection(**(DEFAULT_SELECTION | given))
        context = get_script_run_ctx(suppress_warning=True)
        visitor = context.session_id if context else ""
        st.session_state[Key.SESSION] = Session(
            selection, what_if, texts=InputTexts(typed, query_given=Parameter.QUERY in given), visitor=visitor
        )
    return cast(Session, st.session_state[Key.SESSION])


DIFFERENCES = ("differences", "shown")  # parameter of the address bar, and its value where they are
PINNED = ("pinned", "pinned_target", "pinned_model")  # parameters of the address bar: both texts, and the model
DEFAULT_SELECTION = {"layer": 2, "head": 6, "query": 1}  # of the bundled model: it aligns the two sentences


def attention_kinds(network: nn.Module) -> list[AttentionKind]:
    """The kinds of attention that this model has."""
    from model.capture.trace import ATTENTION_PATHS, AttentionKind

    paths = {path for path, _module in network.named_modules()}
    return [kind for kind in get_args(AttentionKind) if ATTENTION_PATHS[kind].format(0) in paths]


def address_count(name: str) -> int | None:
    """The whole number that a parameter of the address bar is, if it is one below 100,000."""
    exists = by_channel() or Key.SESSION in st.session_state  # else the session is being made of the address
    text = (current_session().address.get(name) if exists else st.query_params.get(name)) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None
