"""What the film of a training does when messages are lost or overtaken, and when it goes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.film_alone import own as own
from tests.browser.film_alone import shown as shown
from viz.state.film_feed import film_data

pytestmark = pytest.mark.browser

TIMERS = """
window.waits = [];
window.setTimeout = (act, wait) => ((window.tick = act), window.waits.push(wait));
window.clearTimeout = () => (window.tick = null);
"""

LACKS = "window.__vitrine.film = undefined; window.__vitrine.dispatchEvent(new CustomEvent('film'))"


def test_new_frames_are_added_and_a_gap_is_noticed(shown):
    shown.own.step()
    shown.strip()
    expect(shown.film).to_have_attribute("data-step", str(shown.own.steps_done))  # it follows
    shown.own.step()
    film_data(shown.own.run, shown.sent)  # this message is lost
    shown.own.step()
    shown.strip()
    assert shown.page.evaluate("window.rows")[-1][0] == "again"
    shown.sent.begin()
    shown.strip()
    expect(shown.film).to_have_attribute("data-frames", str(len(shown.own.run.film)))
    assert shown.page.evaluate("window.rows") == []  # mounting empties it


@pytest.mark.parametrize("late", [False, True])
def test_the_end_of_a_call_that_another_has_overtaken_ends_nothing(shown, late):
    """Streamlit calls it when the script has been loaded: before the newer data come to it, or after."""
    end = "window.ends.at(-1)()"
    if late:
        end = "window.ends.at(-2)()"
        shown.show_film()
    shown.page.evaluate(end)
    if not late:
        shown.show_film()
    shown.own.step()
    shown.strip()
    expect(shown.film).to_have_attribute("data-step", str(shown.own.steps_done))


@pytest.mark.parametrize("lost", [False, True])
def test_what_goes_ends_and_listens_no_more(shown, lost):
    """Nor does it ask for what it lacked, in a frame that was waited for."""
    shown.page.evaluate("window.gone = document.querySelector('.training-film'); window.gone.dataset.step = 'none'")
    shown.page.evaluate(TIMERS)
    shown.page.evaluate(f"{LACKS if lost else ''}; window.ends.at(-1)()")
    shown.own.step()
    shown.sent.begin()
    shown.strip()
    expect(shown.film).to_have_count(0)
    assert shown.page.evaluate("[window.gone.dataset.step, ...window.waits]") == ["none"]


def test_names_that_were_lost_are_asked_for_with_their_frames(shown):
    shown.page.evaluate("window.__vitrine.film = undefined")
    shown.own.step()
    shown.strip()  # the newest frame, of tokens whose names came with the frames before
    assert shown.page.evaluate("window.rows")[-1][0] == "again"
    shown.sent.begin()
    shown.strip()
    expect(shown.film).to_have_attribute("data-step", str(shown.own.steps_done))


def test_a_film_that_waits_asks_until_it_has_come(shown):
    """Whatever was lost: a message, an event, the answer to the first question."""
    shown.page.evaluate(TIMERS)
    asked = "window.rows.map(([name]) => name)"
    shown.show_film(labels={"rows": ["another"], "columns": ["text"]})
    expect(shown.film).to_have_class("vitrine training-film waiting")
    assert shown.page.evaluate(asked) == []
    shown.page.evaluate("window.tick(); window.tick()")
    assert shown.page.evaluate(asked) == ["again", "again"]
    assert shown.page.evaluate("window.waits") == [2000, 4000, 8000]  # the answer may be large, and on its way
    shown.show_film()
    expect(shown.film).to_have_class("vitrine training-film")
    assert shown.page.evaluate("window.tick") is None
