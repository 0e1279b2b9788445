"""What the channel draws after a keystroke, a click or a pin is what a run of the script draws then."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.state import QueryParamsProxy, session_state_proxy

from tests.app_reading import opened, sound
from tests.viz.every_view import VIEWS
from tests.viz.frame.window import stamp
from viz.frame import drawing, token_bar
from viz.i18n import catalogue
from viz.pages.attention import importance
from viz.pages.lab.page import ARITHMETIC
from viz.state.serving import by_channel, serving
from viz.state.session import Key, Selection, Session
from viz.state.texts import accept_edit

ADDRESSES = [
    *((page, choices) for page, views in VIEWS.items() for choices in views.values()),
    ("masks", {"changes": "decoder:causal:off"}),
    ("positions", {"part": "applied", "position_base": "50"}),
    ("positions", {"part": "order", "position": "none"}),
    *(("lab", {"lab_part": "arithmetic", "arithmetic": name}) for name in ARITHMETIC),
    ("checkpoints", {}),
    ("training", {}),
]
MEASURED = "scaling_run"
ASIDE = {"learnt", "training_strip"}  # what the page does not draw


@pytest.fixture(autouse=True)
def no_widgets(monkeypatch):
    """The channel draws views alone: of Streamlit it makes nothing, and the state of its widgets is not its to read."""

    def only_by_script(ordinary):
        def called(*given, **named):
            assert not by_channel()
            return ordinary(*given, **named)

        return called

    for owner, name in (
        (DeltaGenerator, "_enqueue"),
        (DeltaGenerator, "_block"),
        (session_state_proxy, "get_session_state"),
        (QueryParamsProxy, "__getitem__"),
    ):
        monkeypatch.setattr(owner, name, only_by_script(getattr(owner, name)))


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """What is measured for the channel is measured whole, on a busy machine too."""
    for name in ("WAIT", "CHANNEL_WAIT"):
        monkeypatch.setattr(importance, name, 60.0)


class Page:
    """The application on a page, drawn by the channel and by the script."""

    def __init__(self, page: str, address: dict[str, str]) -> None:
        self.app = sound(opened(page, **address))
        if MEASURED in self.app.session_state:  # what is measured there is not of the text
            job = self.app.session_state[MEASURED]
            while not job.wait(0.5):
                job.look()
        self.session: Session = self.app.session_state[Key.SESSION]

    def by_channel(self, change: Callable[[Session], object]) -> dict[str, bytes]:
        """Frames of all views after this change, by their keys, in a thread where no script runs."""

        def draw() -> dict[str, bytes]:
            with self.session.lock, serving(self.session):
                catalogue.use(self.session.stage.language)
                change(self.session)
                groups = drawing.frames(self.session, self.session.stage)
                drawn = {view.key: view.frame() for views, _more in groups for view in views}
                return drawn | {Key.TOKENS: token_bar.token_bar(self.session).frame()}  # with the checks, which follow

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(draw).result()

    def by_script(self) -> dict[str, bytes]:
        protos = [each.proto for each in sound(self.app.run()).get("bidi_component")]
        frames = [proto.bytes for proto in protos if proto.WhichOneof("data") == "bytes"]
        return {key: frame for frame in frames if (key := stamp(frame)["key"]) not in ASIDE}


def typing(text: str) -> Callable[[Session], object]:
    return lambda session: accept_edit(session, Key.SOURCE, text, session.texts.edits.get(Key.SOURCE, 0) + 1)


@pytest.mark.parametrize(("page", "address"), ADDRESSES, ids=[" ".join([page, *of.values()]) for page, of in ADDRESSES])
def test_the_channel_draws_what_the_script_draws(page, address):
    """To the byte, and of the same moment: nothing is painted twice. What the script alone draws, no change changes."""
    shown = Page(page, address)
    before = shown.by_script()
    changes = [
        typing("He has a dog and a cat."),
        lambda session: session.select(layer=1, head=3, query=2),
        Session.keep,
        lambda session: setattr(session, "selection", Selection(0, 2, 1)),
        lambda session: setattr(session, "differing", True),
        typing("She bought a car."),
        typing(""),
        Session.release,
    ]
    for change in changes:
        drawn = shown.by_channel(change)
        assert drawn.keys() >= {Key.SOURCE, Key.TARGET, Key.TOKENS}
        after = shown.by_script()
        assert drawn.keys() <= after.keys()
        for key, frame in after.items():
            assert frame == drawn.get(key, before.get(key)), key
        before = after


def test_views_come_and_go_with_the_text():
    shown = Page("residual", {"residual_view": "batch", "model": "sort", "source": "1"})
    for text, there in (("12", True), ("1", False), ("123", True)):
        drawn = shown.by_channel(typing(text))
        assert ("residual_map" in drawn) == there
        assert drawn == shown.by_script()


def test_all_that_is_computed_for_the_channel_is_there_for_the_script(monkeypatch):
    shown = Page("attention", {})
    shown.by_channel(typing("He has a dog and a cat."))
    for name in ("encode", "decode", "forward"):
        monkeypatch.setattr(type(shown.session.model.network), name, None)
    sound(shown.app.run())
