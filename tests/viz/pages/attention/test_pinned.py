"""The pin on the page of attention: one query step by step, and BertViz, of this trace and of the pinned one."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

from tests.app_reading import opened, type_in
from tests.test_app_kinds import write
from tests.viz.pages.attention.test_bertviz import given
from tests.viz.small import looking, small_model
from viz.i18n.format import significant, token_sign
from viz.pages.attention.figure import metrics_table
from viz.pages.attention.head_grid import all_thumbnails, best_of_kinds
from viz.pages.attention.steps import query_steps, steps_table
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.state.session import Key, Selection

TEXT, OTHER, TARGET = "The cat sees.", "The cat sees the bird.", "一七丞世"  # one token in the middle is another
PATH = "decoder.layers.1.cross_attention"
CHOSEN = Selection(1, 0, 1)


def maps_of(session, differing=False, kind="cross") -> HeadMaps:
    return HeadMaps(session.trace, HeadSettings(kind), session.comparison, differing)


@pytest.fixture
def session(small):
    """One text pinned, another shown."""
    return looking(small, OTHER, TARGET, pinned=(small, TEXT, TARGET))


@pytest.fixture
def app(small):
    """The same on the page."""
    app = opened(source=TEXT, target=TARGET, layer="1", head="0", query="1")
    app.session_state[Key.SESSION].keep()
    type_in(app, "source", OTHER)
    assert not app.exception
    return app


def test_the_steps_of_a_query_stand_beside_the_pinned_ones(session):
    shown, compared = maps_of(session), session.comparison
    drawn = query_steps(shown, CHOSEN)
    steps = ["scores", "scaled", "masked", "weights"]
    expected = {name: compared.counterpart(f"{PATH}.{name}")[0, 1].numpy() for name in steps}
    assert np.isnan(expected["weights"]).any()
    for array, name in zip(drawn.before, steps, strict=False):
        assert np.allclose(array, expected[name], atol=1e-6, equal_nan=True)
    values = compared.counterpart(f"{PATH}.value")[0].numpy()
    assert np.allclose(drawn.before[4], expected["weights"][:, None] * values, atol=1e-6, equal_nan=True)
    assert np.allclose(drawn.before[5], compared.counterpart(f"{PATH}.heads")[0, 1], atol=1e-6)
    moved = np.nan_to_num(drawn.steps[3] - drawn.before[3])
    assert f"change of a weight: {drawn.keys.labels[int(np.abs(moved).argmax())]} " in str(drawn.caption.note)
    table = steps_table(shown, CHOSEN)
    assert np.allclose(table["weight, pinned"], expected["weights"], atol=1e-6, equal_nan=True)
    differences = query_steps(maps_of(session, differing=True), CHOSEN)
    assert (drawn.difference, differences.difference) == (False, True)
    for difference, own, before in zip(differences.steps, drawn.steps, drawn.before, strict=True):
        assert np.allclose(difference, own - before, atol=1e-6, equal_nan=True)
    assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(differences.before, drawn.before, strict=True))


def test_the_table_of_the_steps_stays_chosen_with_another_head(app):
    app.session_state["data"] = True
    app.session_state["data_of"] = 1
    app.run()
    assert app.selectbox(key="data_of").options[1].endswith("head 2.1")
    app.session_state["data_of"] = 1
    app.session_state[Key.SESSION].select(head=1)
    app.run()
    assert app.selectbox(key="data_of").value == 1


def test_pinned_weight_on_tokens_that_are_gone_is_told_where_the_sum_lacks_it(session):
    session.trace_input(session.model, "The dog.", TARGET)
    drawn = query_steps(maps_of(session), CHOSEN)
    gone = 1 - float(np.nansum(drawn.before[3]))
    places = session.comparison.source.deleted
    assert gone == pytest.approx(float(session.pin.trace[f"{PATH}.weights"][0, 1, places].sum()), abs=1e-6)
    assert gone > 0.01
    assert f"{significant(gone)} of the pinned weight went to tokens that are gone" in str(drawn.caption.note)
    session.trace_input(session.model, TEXT, TARGET)
    assert str(query_steps(maps_of(session), CHOSEN).caption.note) == "nothing differs from the pin"


def test_the_numbers_of_every_head_stand_beside_the_pinned_ones(session):
    weights = session.pin.trace.attention("cross").numpy()
    expected = -(weights * np.log(weights)).sum(axis=-1).mean(axis=-1).flatten()
    assert np.allclose(metrics_table(maps_of(session))["H · entropy, pinned"], expected, atol=1e-5)


def test_what_is_masked_both_times_stays_so_in_the_differences(session):
    drawn = query_steps(maps_of(session, differing=True, kind="decoder"), CHOSEN)
    assert drawn.masked == [False, False, True, True, True]
    assert np.array_equal(drawn.steps[2] == -np.inf, drawn.masked)


def test_without_a_counterpart_the_steps_say_why(session, tmp_path):
    session.trace_input(session.model, OTHER, "世世世世世世")
    longer = query_steps(maps_of(session, differing=True), replace(CHOSEN, query=5))
    session.trace_input(small_model(tmp_path / "wide", d_model=32), OTHER, TARGET)
    wider = query_steps(maps_of(session, differing=True), replace(CHOSEN, query=0))
    for drawn, sentence in ((longer, "not in the pinned text"), (wider, "another width")):
        assert not drawn.before
        assert sentence in str(drawn.caption.note)


def test_bertviz_is_switched_to_the_pinned_trace(app, tmp_path):
    session = app.session_state[Key.SESSION]

    def page() -> dict:
        (frame,) = app.get("iframe")
        return given(base64.b64decode(frame.proto.src.partition("base64,")[2]).decode("utf-8"))

    app.session_state["bertviz_open"] = True
    app.run()
    assert any("one trace at a time" in each.value for each in app.caption)
    assert page()["attention"][0]["right_text"] == [*map(token_sign, session.trace.source_tokens)]
    app.session_state["bertviz_trace"] = "pinned"
    app.run()
    (shown,) = page()["attention"]
    assert shown["right_text"] == [*map(token_sign, session.pin.trace.source_tokens)]
    assert np.allclose(shown["attn"], session.pin.trace.attention("cross"), atol=6e-5)
    session.pin = replace(session.pin, trace=write(tmp_path / "one", "decoder-only").trace(TEXT))
    app.run()
    assert not app.get("iframe")
    assert any("no attention of this kind" in each.value for each in app.info)
    session.release()
    app.run()
    assert page()["attention"][0]["right_text"] == [*map(token_sign, session.trace.source_tokens)]


def test_above_the_maps_stands_the_head_of_each_kind_that_changed_most_the_largest_change_first(session):
    head_maps = maps_of(session, differing=True)
    best = best_of_kinds(head_maps, all_thumbnails(head_maps))
    table = session.comparison.changes
    heads = table[table["kind"] == "head"]
    assert best[0][0][1:] == (heads["layer"].iloc[0], heads["head"].iloc[0])
    assert float(str(best[0][1]).split()[-1]) == pytest.approx(heads["change"].iloc[0], abs=0.0006)
    assert {kind for (kind, _layer, _head), _words in best} == {"encoder", "decoder", "cross"}
    plain = maps_of(session)
    assert not best_of_kinds(plain, all_thumbnails(plain))
