"""The heads of a long text: the chosen one is there before the others, which come one by one and are the same then."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from model.analysis import attention_maps
from model.analysis.attention_maps import average
from model.checkpoints.load import open_checkpoint
from tests.app_reading import component, heads, opened
from tests.viz.small import looking, small_model, write_small
from viz.pages.attention import head_by_head
from viz.pages.attention.figure import large
from viz.pages.attention.head_by_head import (
    begin_job,
    combination,
    grid_as_it_fills,
    head_key,
    known,
    known_thumbnails,
    scale_of,
)
from viz.pages.attention.head_grid import MetricMasks, all_thumbnails, heads_grid, thumbnail, top_values
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.state.serving import serving
from viz.state.session import Selection, Session
from viz.ui import long_text

TEXT = "The cat sees."
CHOSEN = Selection(layer=1, head=1)


@pytest.fixture
def session(tmp_path, monkeypatch) -> Iterator[Session]:
    monkeypatch.setattr(long_text, "SOON", 0)
    made = looking(small_model(tmp_path / "small"), TEXT, pinned=None)
    with serving(made):
        yield made


def maps_of(session: Session, **wish: object) -> HeadMaps:
    return HeadMaps(session.trace, HeadSettings("encoder", **wish), session.comparison, session.differing)  # type: ignore[arg-type]


@pytest.mark.parametrize("differing", [False, True])
def test_one_by_one_they_are_what_they_are_together(session, differing):
    session.keep()
    session.trace_input(session.model, "The dog sees a cat.", "")
    session.differing = differing
    shown = maps_of(session, threshold=0.1)
    job = begin_job(session, shown, CHOSEN, [], known(session, shown))
    assert job.wait(60)
    assert not job.errors
    found, whole = known_thumbnails(shown, job.values), all_thumbnails(shown)
    assert found.known.all()
    for name in ("cells", "strengths", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_what_is_not_there_yet_waits_and_is_no_number(session):
    shown = maps_of(session)
    one = {head_key(shown, 0, 1): thumbnail(shown, 0, slice(1, 2), MetricMasks(shown))}
    made, whole = known_thumbnails(shown, one), all_thumbnails(shown)
    assert made.known.sum() == 1
    assert made.values[0, 1] == whole.values[0, 1]
    assert np.isnan(made.values[~made.known]).all()
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    grid = heads_grid(shown, made, places, (0, 0))
    assert grid.waiting == [True, False, True, True]
    assert [note == "…" for note in grid.notes] == grid.waiting
    assert grid.hidden.reshape(4, -1).all(axis=1).tolist() == grid.waiting
    assert not grid.hidden[1].any()


@pytest.mark.parametrize("scale", ["one", "largest", "others"])
def test_the_figure_of_a_head_whose_thumbnail_waits_has_its_scale(session, scale):
    shown = maps_of(session, scale=scale)
    made = known_thumbnails(shown, {})
    first = scale_of(shown, CHOSEN, large(shown, CHOSEN, []), made)
    assert top_values(shown, first)[1, 1] == top_values(shown, all_thumbnails(shown))[1, 1]
    assert not first.known.any()


def test_heads_together_are_one_of_the_things_to_come(session):
    shown, heads = maps_of(session, combination="average"), [(0, 0), (1, 1)]
    image, said = combination(shown, heads, {})
    assert image is None
    assert said == "“average” takes the maps of 2 heads of this long text: it follows."
    job = begin_job(session, shown, CHOSEN, heads, {})
    assert job.wait(60)
    image, said = combination(shown, heads, job.values)
    assert image is not None
    assert torch.equal(image.own, average(shown.maps, heads))
    assert said == ""


def test_the_page_shows_the_chosen_head_before_the_others(here, monkeypatch):
    go = threading.Event()

    def held(*arguments: object) -> object:
        assert go.wait(60)
        return thumbnail(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(long_text, "SOON", 0)
    monkeypatch.setattr(head_by_head, "thumbnail", held)
    model = open_checkpoint(write_small(here / "small"))
    app = opened(source=TEXT, attention="encoder", layer="1", head="1")
    assert not app.exception
    assert all(heads(app)[0]["waiting"])
    header, (values, _visible) = component(app, "heatmap")
    assert header["name"] == "Layer 2, head 2"
    expected = model.trace(TEXT).attention("encoder")[1, 1].numpy()
    np.testing.assert_allclose(values.reshape(expected.shape), expected, atol=1e-6)
    badges = component(app, "token_bar")["badges"]
    assert [badge["text"] for badge in badges] == ["checks follow"]
    go.set()
    for _ in range(50):
        app.run()
        if not any(heads(app)[0]["waiting"]) and len(component(app, "token_bar")["badges"]) > 1:
            break
    assert all(badge["passed"] for badge in component(app, "token_bar")["badges"])


def test_where_not_one_map_fits_the_page_says_so(here, monkeypatch):
    monkeypatch.setattr(long_text, "SOON", 0)
    monkeypatch.setattr(attention_maps, "STEPS", 1 << 40)
    write_small(here / "small")
    app = opened(source=TEXT, attention="encoder")
    assert not app.exception
    assert any("are free: choose a shorter text" in info.value for info in app.info)


def test_the_grid_is_drawn_again_when_the_last_head_has_come_and_not_for_nothing(session, monkeypatch):
    monkeypatch.setattr(head_by_head, "STEPS", 1)
    shown, drawn = maps_of(session), []
    job = begin_job(session, shown, CHOSEN, [], {})
    assert job.wait(60)
    keys = [key for key in job.keys if key[0] == long_text.HEAD]
    view = grid_as_it_fills(session, lambda: shown, lambda _shown, made: drawn.append(int(made.known.sum())))
    monkeypatch.setattr(type(job), "ended", False)
    for count in (1, 2, 4, 4):
        job.values = dict.fromkeys(keys[:count], job.values.get(keys[0]))
        view()
    assert drawn == [1, 4]
