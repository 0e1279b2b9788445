"""A keystroke, a click or a pin draws a page's views again and not its controls: all is as after a run of all then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from tests.app_reading import opened, sound
from tests.viz.pages.training.training_page import live, short_trainings
from viz.state import training
from viz.state.session import Key, Selection
from viz.ui.parts import ARRANGED

PAGES = [
    ("attention", {}),
    ("map", {}),
    ("masks", {"changes": "decoder:causal:off"}),
    ("positions", {"part": "tokens"}),
    ("positions", {"part": "laboratory"}),
    ("positions", {"part": "applied"}),
    ("positions", {"part": "order"}),
    ("residual", {}),
    ("residual", {"residual_view": "batch"}),
    ("feed_forward", {}),
    ("predictions", {}),
    ("predictions", {"view": "layers"}),
    ("lab", {}),
    ("lab", {"lab_part": "costs"}),
]


class Page:
    """The application with its fragments kept from run to run, as a browser's session keeps them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, page: str, address: dict[str, str]) -> None:
        self.storage, self.sent = MemoryFragmentStorage(), ForwardMsgQueue()
        self.looking = False
        self.runs: list[bool] = []  # of the newest request: whether each was of a fragment alone
        begin, ask = LocalScriptRunner.__init__, LocalScriptRunner.request_rerun

        def kept(runner, *args, **options):
            begin(runner, *args, **options | {"fragment_storage": self.storage})
            runner.forward_msg_queue = self.sent
            runner.on_event.connect(self.note, weak=False)

        def asked(runner, data):
            if self.looking:
                runner._requests = ScriptRequests()
                data = replace(data, fragment_id_queue=self.views())
            return ask(runner, data)

        monkeypatch.setattr(LocalScriptRunner, "__init__", kept)
        monkeypatch.setattr(LocalScriptRunner, "request_rerun", asked)
        self.app = sound(opened(page, **address))
        self.app.run()  # what the fields hold is not sent to them any more

    def note(self, _runner, event, **told) -> None:
        if event.name == "SCRIPT_STARTED":
            self.runs.append(bool(told["fragment_ids_this_run"]))

    def views(self) -> list[str]:
        """The fragment inside the one that arranges the page."""
        parents = self.storage._parent_by_id
        return [each for each, parent in parents.items() if parent in self.storage.resolve_target(ARRANGED)]

    def drawn(self, looking: bool) -> dict[tuple[int, ...], bytes]:
        """What is on the screen after one more run, by its place."""
        self.looking, self.runs = looking, []
        sound(self.app.run())
        deltas = [(tuple(each.metadata.delta_path), each.delta) for each in self.sent._queue if each.HasField("delta")]
        return {
            place: getattr(delta, kind).SerializeToString(deterministic=True)
            for place, delta in deltas
            if (kind := delta.WhichOneof("type")) in ("new_element", "add_block")
        }


@pytest.mark.parametrize(("page", "address"), PAGES)
def test_a_look_draws_what_a_run_of_all_draws(monkeypatch, page, address):
    shown = Page(monkeypatch, page, address)
    session = shown.app.session_state[Key.SESSION]
    changes = [
        lambda: shown.app.session_state.__setitem__(Key.SOURCE, "He has a dog and a cat."),
        lambda: setattr(session, "selection", Selection(1, 3, 2)),
        session.keep,
        lambda: setattr(session, "differing", True),
        lambda: shown.app.session_state.__setitem__(Key.SOURCE, "She bought a car."),
        session.release,
    ]
    for change in changes:
        change()
        looked = shown.drawn(looking=True)
        assert shown.runs == [True]
        whole = shown.drawn(looking=False)
        assert {place: looked.get(place) for place in whole} == whole


def test_a_place_that_was_empty_costs_one_run_of_all(monkeypatch):
    shown = Page(monkeypatch, "residual", {"residual_view": "batch", "model": "sort", "source": "1"})
    for text, runs in (("12", [True, False]), ("1", [True]), ("123", [True])):
        shown.app.session_state[Key.SOURCE] = text
        shown.drawn(looking=True)
        assert shown.runs == runs


trainings = pytest.fixture(short_trainings)


@pytest.mark.usefixtures("trainings")
def test_a_look_at_a_training_that_is_gone_draws_all_again(monkeypatch):
    shown = Page(monkeypatch, "training", {})
    shown.app.button(key="demonstration_begin").click()
    sound(shown.app.run())
    live(shown.app)
    shown.app.switch_page("viz/pages/attention/page.py")
    shown.drawn(looking=False)
    shown.drawn(looking=True)
    assert shown.runs == [True]
    training.trainings().end(shown.app.session_state[Key.SESSION].run)
    shown.drawn(looking=True)
    assert shown.runs[0]
    assert not shown.runs[-1]
