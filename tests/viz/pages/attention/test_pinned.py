"""The pin on the page of attention: one query step by step, and BertViz, of this trace and of the pinned one."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

import viz.state.session
from tests.app_reading import component, opened, type_in
from tests.viz.pages.attention.test_bertviz import given
from tests.viz.pages.attention.test_page import TEXT
from tests.viz.pages.positions.positions_page import one
from tests.viz.small import write_small
from viz.i18n.format import significant

OTHER = "The cat sees the bird."  # one token in the middle is another
PATH = "decoder.layers.1.cross_attention"


@pytest.fixture
def pinned(small, here):
    """The page with one text pinned, another shown, and its session; another checkpoint is there too."""
    write_small(here / "wide", d_model=32)
    app = opened(model="small", source=TEXT, target="一七丞世", layer="1", head="0", query="1")
    session = app.session_state[viz.state.session.Key.SESSION]
    session.keep()
    type_in(app, "source", OTHER)
    assert not app.exception
    return app, session


def test_the_steps_of_a_query_stand_beside_the_pinned_ones(pinned):
    app, session = pinned
    header, arrays = component(app, "steps")
    compared = session.comparison
    assert header["pinned"] == {"differing": False}
    steps = ["scores", "scaled", "masked", "weights"]
    expected = {name: compared.counterpart(f"{PATH}.{name}")[0, 1].numpy() for name in steps}
    assert np.isnan(expected["weights"]).any()
    for array, name in zip(arrays[6:], steps, strict=False):
        assert np.allclose(array, expected[name], atol=1e-6, equal_nan=True)
    values = compared.counterpart(f"{PATH}.value")[0].numpy()
    assert np.allclose(arrays[10], expected["weights"][:, None] * values, atol=1e-6, equal_nan=True)
    assert np.allclose(arrays[11], compared.counterpart(f"{PATH}.heads")[0, 1], atol=1e-6)
    moved = np.nan_to_num(arrays[3] - arrays[9])
    assert f"change of a weight: {header['keys'][int(np.abs(moved).argmax())]} " in header["note"]
    app.session_state["data"] = True
    app.session_state["data_of"] = 1
    (table,) = [each.value for each in app.run().dataframe]
    assert app.selectbox(key="data_of").options[1].endswith("head 2.1")
    app.session_state["data_of"] = 1
    session.select(head=1)
    app.run()
    assert app.selectbox(key="data_of").value == 1  # the same table of another head
    session.select(head=0)
    assert np.allclose(table["weight, pinned"], expected["weights"], atol=1e-6, equal_nan=True)
    session.differing = True
    header, differences = component(app.run(), "steps")
    for difference, own, before in zip(differences[:6], arrays[:6], arrays[6:], strict=True):
        assert np.allclose(difference, own - before, atol=1e-6, equal_nan=True)
    assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(differences[6:], arrays[6:], strict=True))


def test_pinned_weight_on_tokens_that_are_gone_is_told_where_the_sum_lacks_it(pinned):
    app, session = pinned
    type_in(app, "source", "The dog.")
    header, arrays = component(app, "steps")
    gone = 1 - float(np.nansum(arrays[9]))
    places = session.comparison.source.deleted
    assert gone == pytest.approx(float(session.pin.trace[f"{PATH}.weights"][0, 1, places].sum()), abs=1e-6)
    assert gone > 0.01
    assert f"{significant(gone)} of the pinned weight went to tokens that are gone" in header["note"]
    type_in(app, "source", TEXT)
    assert component(app, "steps")[0]["note"] == "nothing differs from the pin"


def test_what_changed_most_is_ranked_and_its_tokens_light_up(pinned):
    app, session = pinned
    lists = {each["title"]: each["items"] for each in component(app, "token_bar")["pin"]["changes"]}
    assert list(lists) == ["heads", "layers", "positions", "predictions"]
    for items in lists.values():
        assert [each["exact"] for each in items] == sorted((each["exact"] for each in items), reverse=True)
    tokens = {"source": session.trace.source_tokens, "target": session.trace.target_tokens}
    for each in (*lists["positions"], *lists["predictions"]):
        side, position = each["token"]["side"], each["token"]["position"]
        assert position == each["act"]["query"]
        assert tokens[side][position] == each["label"]


def test_the_numbers_of_every_head_stand_beside_the_pinned_ones(pinned):
    app, session = pinned
    app.session_state["metrics"] = True
    (table,) = [each.value for each in app.run().dataframe]
    weights = session.pin.trace.attention("cross").numpy()
    expected = -(weights * np.log(weights)).sum(axis=-1).mean(axis=-1).flatten()
    assert np.allclose(table["H · entropy, pinned"], expected, atol=1e-5)


def test_what_is_masked_both_times_stays_so_in_the_differences(pinned):
    app, session = pinned
    session.differing = True
    app.session_state["attention"] = "decoder"
    header, arrays = component(app.run(), "steps")
    assert header["masked"] == [False, False, True, True, True][: len(header["keys"])]
    assert np.array_equal(arrays[2] == -np.inf, header["masked"])


def test_without_a_counterpart_the_steps_say_why(pinned):
    app, session = pinned
    session.differing = True
    type_in(app, "target", "世世世世世世")
    session.select(query=5)
    header, arrays = component(app.run(), "steps")
    assert header["pinned"] is None
    assert len(arrays) == 6
    assert "not in the pinned text" in header["note"]
    session.select(query=0)
    app.selectbox(key="model").set_value("wide").run()
    assert not app.exception
    header, _arrays = component(app, "steps")
    assert header["pinned"] is None
    assert "another width" in header["note"]


def test_bertviz_is_switched_to_the_pinned_trace(pinned, here):
    app, session = pinned

    def page() -> dict:
        (frame,) = app.get("iframe")
        return given(base64.b64decode(frame.proto.src.partition("base64,")[2]).decode("utf-8"))

    app.session_state["bertviz_open"] = True
    app.run()
    assert any("one trace at a time" in each.value for each in app.caption)
    assert page()["attention"][0]["right_text"] == session.trace.source_tokens
    app.session_state["bertviz_trace"] = "pinned"
    app.run()
    (shown,) = page()["attention"]
    assert shown["right_text"] == session.pin.trace.source_tokens
    assert np.allclose(shown["attn"], session.pin.trace.attention("cross"), atol=6e-5)
    session.pin = replace(session.pin, trace=one(here / "one", "decoder-only").trace(TEXT))
    app.run()
    assert not app.get("iframe")
    assert any("no attention of this kind" in each.value for each in app.info)
    session.release()
    app.run()
    assert page()["attention"][0]["right_text"] == session.trace.source_tokens
