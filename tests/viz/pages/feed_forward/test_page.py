"""The feed-forward page without a browser: what it sends is what the trace holds."""

from __future__ import annotations

import numpy as np
import pytest

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.app_reading import opened, sent, sound
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.small import write_small
from viz.pages.feed_forward.text import UNIT_VIEWS
from viz.pages.feed_forward.units import PAGE

SOURCE, TARGET = "The cat sees the dog.", "一七丞世"
PATH = "encoder.layers.1.feed_forward"


def page(**address):
    return sound(opened("feed_forward", **({"source": SOURCE, "target": TARGET} | address)))


def turned(app, **choices):
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def words(app):
    return " ".join(each.value for each in app.markdown)


def test_units_are_paged_in_order_and_none_is_left_out(here):
    model = open_checkpoint(write_small(here / "small", d_ff=2 * PAGE + 7))
    app = page(stack="encoder", layer="1", query="2", units_order="number")
    units = model.trace(SOURCE, TARGET)[f"{PATH}.activation"].numpy()
    found = []
    for number in (1, 2, 3):
        app.number_input[0].set_value(number).run()
        header, (values, _visible) = sent(sound(app), "units_map")
        found.append(values)
        assert header["columns"]["labels"][0] == str(PAGE * (number - 1))
        assert header["chosen"] == 2
    assert np.array_equal(np.concatenate(found, axis=1), units)
    app.number_input[0].set_value(1)
    header, (values, _visible) = sent(turned(app, units_order="strength"), "units_map")
    strongest = np.abs(units).max(axis=0)
    order = [int(label) for label in header["columns"]["labels"]]
    assert strongest[order].tolist() == pytest.approx(sorted(strongest, reverse=True)[:PAGE])
    assert np.array_equal(values, units[:, order])
    _header, arrays = sent(app, "units_all")
    assert arrays[1].tolist() == pytest.approx(sorted(strongest, reverse=True))


def test_zeros_dead_units_and_those_of_the_session_are_counted(here):
    model = open_checkpoint(write_small(here / "small"))
    app = page(stack="encoder", layer="1")
    trace, other = model.trace(SOURCE, TARGET), model.trace("The dog.", TARGET)
    units, more = (each[f"{PATH}.activation"].numpy() for each in (trace, other))
    _header, (values, _visible) = sent(app, "units_layers")
    assert np.allclose(values[1], (units == 0).mean(axis=1))
    said = words(app)
    assert f"**{(units == 0).mean():.1%}**" in said
    assert f"**{(units == 0).all(axis=0).sum()}** of {units.shape[1]} units" in said
    app.text_input(key="source").set_value("The dog.").run()
    never = (np.concatenate([units, more]) == 0).all(axis=0).sum()
    both = len(units) + len(more)
    assert f"over the {both} positions seen on this page: **{never}** were never on" in words(app)


def test_a_unit_a_token_and_the_layer_are_looked_at(here):
    model = open_checkpoint(write_small(here / "small"))
    app = page(stack="encoder", layer="1", query="2", unit="5")
    units = model.trace(SOURCE, TARGET)[f"{PATH}.activation"].numpy()
    assert np.array_equal(sent(app, "units_first")[1][1], units[:, 5])
    assert any("only through the decoder" in caption.value for caption in app.caption)
    header, arrays = sent(turned(app, look="token"), "units_first")
    strongest = [int(label) for label in header["x"]["labels"]]
    assert arrays[1].tolist() == pytest.approx(units[2, strongest].tolist())
    assert units[2, strongest[0]] == units[2].max()
    assert sent(turned(app, look="layer"), "units_first")[1][1].sum() == units.size
    (table,) = turned(app, look="apart").dataframe
    permuted, alone, attention, recorded = table.value["largest difference"]
    assert max(permuted, alone, recorded) < 1e-5 < attention
    header, _arrays = sent(turned(app, look="unit", stack="decoder"), "units_second")
    assert len(header["x"]["labels"]) == 16  # eight tokens that it writes, eight that it takes away


def test_differences_and_pinned_values_are_shown(here):
    model = open_checkpoint(write_small(here / "small"))
    app = page(stack="encoder", layer="1", units_order="number", unit="3")
    app.session_state["session"].keep()
    app.session_state["session"].differing = True
    app.text_input(key="source").set_value("The dog sees the dog.").run()
    header, (values, _visible) = sent(sound(app), "units_map")
    assert header["scale"]["difference"] is True
    comparison = app.session_state["session"].comparison
    difference = comparison.difference(f"{PATH}.activation").numpy()
    assert np.isnan(difference).any()
    assert np.allclose(values, difference, equal_nan=True, atol=1e-6)
    header, _arrays = sent(app, "units_first")
    assert [each["name"] for each in header["series"]] == ["activation", "pinned"]
    assert model.config.d_ff == values.shape[1]


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_gated_units_and_one_stack_are_shown(here, kind):
    made = TOKENIZERS[kind]
    options = {"activation": "swiglu", "norm": "none", "residual": False}
    save_checkpoint(here / "one", one_stack(kind, vocabulary=len(made), **options), (made, made))
    model = open_checkpoint(here / "one")
    app = page(source="The cat sees", layer="9", query="99", unit="9" * 5000, page="77")
    stack = kind.split("-")[0]
    for name in ("gated", "activation", "linear", "hidden"):
        _header, (values, _visible) = sent(turned(app, units=name, units_order="number"), "units_map")
        assert np.array_equal(values, model.trace("The cat sees")[f"{stack}.layers.1.feed_forward.{name}"])
    for view in UNIT_VIEWS:
        assert len(turned(app, look=view).get("bidi_component")) >= 4
    assert "|a| ≤ 0.01" in words(app)
