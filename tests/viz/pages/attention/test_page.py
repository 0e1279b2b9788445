"""The page of attention: its controls say what is drawn, and what cannot be drawn is a sentence."""

from __future__ import annotations

import pytest

from model.analysis.attention_maps import Quantity
from model.analysis.head_metrics import METRICS
from model.checkpoints.load import open_checkpoint
from tests.app_reading import component, heads, model_list, opened, sound, type_in
from tests.test_app_kinds import write
from tests.viz.small import write_small
from viz.pages.attention import page
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.state.serving import serving
from viz.state.session import Key

TEXT = "The cat sees."


@pytest.fixture
def small(here):
    return open_checkpoint(write_small(here / "small", n_decoder_layers=3))


def test_the_address_says_what_is_drawn(small, monkeypatch):
    wishes = []
    monkeypatch.setattr(
        page, "HeadMaps", lambda trace, wish, *rest: wishes.append(wish) or HeadMaps(trace, wish, *rest)
    )
    which = {"attention": "decoder", "quantity": "value", "scale": "largest", "threshold": "0.05", "draw": "lines"}
    which |= {"metric": "distance", "order": "highest", "layers": "1,3", "heads_shown": "2", "least": "0", "most": "20"}
    app = sound(opened(source=TEXT, combine="maximum", **which))
    bounds = {"least": 0.0, "most": 20.0, "combination": "maximum", "drawing": "lines", "threshold": 0.05}
    expected = HeadSettings("decoder", Quantity.VALUE, "largest", "distance", "highest", [0, 2], [1], **bounds)
    assert wishes[-1] == expected
    assert heads(app)[0]["order"] == [[0, 1], [2, 1]]
    assert component(app, "lines")[0]["name"] == "Maximum of 2 heads"
    more = app.button(key="more_attention")
    assert more.label == "More · 5 changed"
    more.click().run()  # and is the same when what was hidden is shown
    assert wishes[-1] == expected
    assert app.query_params["more"] == "open"
    app.number_input(key="threshold").set_value(0.0).run()
    assert "threshold" not in app.query_params


def test_an_order_of_one_text_gives_way_to_the_layers_under_cross_attention_and_comes_back(small):
    app = opened(source="The cat sees the cat.", metric="previous", order="highest", attention="encoder")
    for kind, sign in (("encoder", "P "), ("cross", "H "), ("encoder", "P ")):
        app.session_state[Key.KIND] = kind
        app.run()
        assert not app.exception
        grid = heads(app)[0]
        assert all(note.startswith(sign) for note in grid["notes"])
        assert (grid["order"][0] == [0, 0] and not grid["best"]) or kind == "encoder"
        assert [app.query_params[name] for name in ("metric", "order")] == ["previous", "highest"]
        if kind == "cross":
            options = " ".join(app.selectbox(key="order_across").options)
            assert not any(word in options for word in ("induction", "previous", "diagonal"))
    assert [each["kind"] for each in grid["best"]] in (["encoder", "decoder"], ["decoder", "encoder"])


def test_another_order_can_be_chosen_under_cross_attention_meanwhile(small):
    app = opened(source=TEXT, metric="previous", order="highest", attention="cross")
    app.selectbox(key="order_across").set_value("distance").run()
    grid = heads(app)[0]
    assert grid["notes"] == sorted(grid["notes"], reverse=True)
    assert grid["notes"][0].startswith("D ")
    assert {each["kind"] for each in grid["best"]} == {"encoder", "decoder", "cross"}


def test_the_best_head_of_another_kind_is_opened_with_that_kind(small):
    app = opened(source=TEXT, metric="previous", order="highest", attention="encoder")
    (best,) = [each for each in heads(app)[0]["best"] if each["kind"] == "decoder"]
    with serving(app.session_state[Key.SESSION]):
        page.on_best(best)
    app.run()
    assert heads(app)[0]["chosen"] == [best["layer"], best["head"]] == heads(app)[0]["order"][0]
    assert app.query_params["attention"] == "decoder"


def test_the_list_of_orders_has_each_number_which_is_that_of_the_thumbnails_too(small):
    app = opened(source=TEXT, attention="encoder")
    order = app.selectbox(key="order")
    assert len(order.options) == len(METRICS) + 2
    order.set_value("previous").run()
    grid = heads(app)[0]
    assert all(note.startswith("P ") for note in grid["notes"])
    assert grid["notes"] == sorted(grid["notes"], reverse=True)
    assert [app.query_params[name] for name in ("metric", "order")] == ["previous", "highest"]
    app.selectbox(key="order").set_value("layer").run()
    assert all(note.startswith("P ") for note in heads(app)[0]["notes"])
    assert heads(app)[0]["order"][0] == [0, 0]


def test_the_list_of_orders_shows_its_choice_in_the_language_that_was_chosen_after_it(small):
    app = opened(source=TEXT, attention="encoder")
    app.selectbox(key="order").set_value("previous").run()
    next(each for each in app.button_group if each.key == "language").set_value("zh").run()
    order = app.selectbox(key="order")
    assert order.value == "previous"
    assert order.proto.set_value  # else the browser keeps the English words
    assert order.proto.raw_value in order.options


def test_no_head_left_is_a_sentence(small):
    app = opened(source=TEXT, least="99", combine="average")
    assert not app.exception
    assert heads(app)[0]["order"] == []
    assert any("No head is left" in info.value for info in app.info)
    assert not [each for each in app.get("bidi_component") if "heatmap" in each.proto.component_name]


def test_rollout_gives_way_to_one_head_under_cross_attention_and_comes_back(small):
    app = opened(source=TEXT, combine="rollout", attention="encoder")
    for kind, shown in (("encoder", "Rollout"), ("cross", "Layer "), ("encoder", "Rollout")):
        app.session_state[Key.KIND] = kind
        app.run()
        assert not app.exception
        assert component(app, "heatmap")[0]["name"].startswith(shown)
        assert app.query_params["combine"] == "rollout"


def test_a_pin_of_another_shape_is_a_sentence(here):
    write_small(here / "small", n_heads=2)
    write_small(here / "wide", n_heads=4)
    app = opened(source=TEXT, model="small")
    session = app.session_state[Key.SESSION]
    session.keep()
    session.differing = True
    model_list(app).set_value("wide").run()
    assert not app.exception
    assert any("another number of heads" in info.value for info in app.info)


def test_a_copied_address_shows_the_differences_from_its_pin(small):
    pinned = {"pinned": "The dog sees.", "pinned_target": "", "pinned_model": "small"}
    app = opened(source=TEXT, differences="shown", **pinned)
    assert component(app, "heatmap")[0]["scale"]["difference"]
    assert not component(opened(source=TEXT, **pinned), "heatmap")[0]["scale"]["difference"]


def test_bertviz_is_there_when_it_is_opened_and_a_note_when_the_text_is_long(here):
    model = write(here / "one", "decoder-only", max_length=128)
    app = opened(source="The cat")
    assert not app.get("iframe")
    app.session_state["bertviz_open"] = True
    app.run()
    (frame,) = app.get("iframe")
    assert frame.proto.src.startswith("data:text/html")
    assert not app.exception
    type_in(app, "source", "The cat sees " * 30)
    count = len(model.source_tokens("The cat sees " * 30))
    assert count > 64
    assert not app.get("iframe")
    assert any(f"{count}" in info.value for info in app.info)


@pytest.mark.parametrize(
    "address",
    [
        {"metric": "<script>", "order": "x", "combine": "y", "draw": "z", "quantity": "q", "bertviz": "b"},
        {"least": "nan", "most": "x", "threshold": "-1", "layers": "0,99,a", "heads_shown": ",,"},
    ],
)
def test_a_hostile_address_breaks_nothing(small, address):
    app = opened(source=TEXT, **address)
    assert not app.exception
    assert len(heads(app)[0]["order"]) == 6
