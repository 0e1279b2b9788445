"""Feed-forward units: what is drawn of them is what the trace holds, and the pinned one's stands beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.feed_forward import SMALL, Seen, positions_apart, read_scores, shares_off, write_scores
from tests.app_reading import opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.small import looking, small_model
from viz.figures.colours import PINNED
from viz.i18n.format import percent, significant
from viz.pages.feed_forward import layer
from viz.pages.feed_forward.units import (
    PAGE,
    UnitSelection,
    all_units,
    choose_units,
    layer_map,
    token_chart,
    unit_chart,
    unit_map,
)
from viz.ui.plots import word

SOURCE, TARGET, OTHER = "The cat sees the dog.", "一七丞世", "The dog sees the dog."
PATH = "encoder.layers.1.feed_forward"


def words(app):
    return " ".join(each.value for each in app.markdown)


def units_of(inputs, stack="encoder", order="number", page=0, unit=5):
    return choose_units(inputs, UnitSelection(stack, "activation", order, page, unit))


def directions(inputs, stack="decoder"):
    """Charts of what a unit writes and reads, and a sentence on that."""
    return layer.direction_charts(inputs, units_of(inputs, stack))


def of_layer(describe, inputs):
    """The sentence, or the table, of the layer."""
    seen = Seen()
    seen.add(inputs.trace, inputs.config)
    return describe(inputs, units_of(inputs), seen)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [small_model(folder / f"{seed}", seed=seed) for seed in (0, 1)]


@pytest.fixture
def pinned(models):
    """Inputs with another checkpoint's trace of another text pinned."""
    return looking(models[0], SOURCE, TARGET, (models[1], OTHER, TARGET), layer=1).inputs


def test_units_are_paged_in_order_and_none_is_left_out(tmp_path):
    inputs = looking(small_model(tmp_path / "small", d_ff=2 * PAGE + 7), SOURCE, TARGET, layer=1, query=2).inputs
    units = inputs.trace[f"{PATH}.activation"].numpy()
    maps = [unit_map(inputs, units_of(inputs, page=number)) for number in range(3)]
    paged = [each.values.now[:, :count] for each, count in zip(maps, (PAGE, PAGE, 7), strict=True)]
    assert np.array_equal(np.concatenate(paged, axis=1), units)
    assert [each.columns.labels[0] for each in maps] == ["1", f"{PAGE + 1}", f"{2 * PAGE + 1}"]  # from 1, as heads
    assert maps[0].chosen == 2
    token, unit = np.unravel_index(np.abs(units).argmax(), units.shape)
    named, value = word(inputs.trace.source_tokens[token]), significant(float(units[token, unit]))
    other = maps[0].caption  # of the chosen unit, which is another
    at = np.abs(units[:, units_of(inputs).unit]).argmax()
    own = word(inputs.trace.source_tokens[at]), significant(float(units[at, units_of(inputs).unit]))
    assert str(other.finding) == "Unit {} is strongest at {}: {}".format(units_of(inputs).unit + 1, *own)
    note = f"of all units the strongest: {unit + 1}, at {named} {value}"
    assert [str(each.caption.note) for each in maps] == ["" if unit // PAGE == page else note for page in range(3)]
    labels, own_unit = maps[2].columns.labels, f"{units_of(inputs).unit + 1}"
    assert (len(labels), labels[-1], maps[2].column) == (8, own_unit, 7)  # of another page: behind those of this one
    strongest_of_all = unit_map(inputs, units_of(inputs, unit=int(unit))).caption
    assert str(strongest_of_all.finding) == f"Unit {unit + 1} is the strongest, at {named}: {value}"
    assert not strongest_of_all.note
    strongest = np.abs(units).max(axis=0)
    chosen = units_of(inputs, order="strength")
    drawn = unit_map(inputs, chosen)
    order = [int(label) - 1 for label in drawn.columns.labels]
    assert strongest[order].tolist() == pytest.approx(sorted(strongest, reverse=True)[:PAGE])
    assert np.array_equal(drawn.values.now, units[:, order])
    everything, shown = all_units(inputs, chosen).series
    assert everything.ys.tolist() == pytest.approx(sorted(strongest, reverse=True))
    assert shown.xs.tolist() == [1, PAGE]


def test_zeros_dead_units_and_those_of_the_session_are_counted_and_a_field_turns_their_pages(here):
    model = small_model(here / "small", d_ff=2 * PAGE)
    which = {"stack": "encoder", "layer": "1", "units_order": "number", "more": "open"}
    app = sound(opened("feed_forward", source=SOURCE, target=TARGET, **which))
    units, more = (model.trace(text, TARGET)[f"{PATH}.activation"].numpy() for text in (SOURCE, "The dog."))
    _header, (values, _visible) = sent(app, "units_layers")
    assert np.allclose(values[1], (units == 0).mean(axis=1))
    said = words(app)
    assert f"**{percent((units == 0).mean())}**" in said
    assert f"**{(units == 0).all(axis=0).sum()}** of {units.shape[1]} units" in said
    type_in(app, "source", "The dog.")
    never = (np.concatenate([units, more]) == 0).all(axis=0).sum()
    both = len(units) + len(more)
    assert f"never on at the {both} positions seen on this page so far: **{never}**" in words(app)
    app.number_input[0].set_value(2).run()
    assert sent(sound(app), "units_map")[0]["columns"]["labels"][0] == str(PAGE + 1)


def test_a_unit_a_token_and_the_layer_are_looked_at(models):
    inputs = looking(models[0], SOURCE, TARGET, layer=1, query=2).inputs
    chosen, units = units_of(inputs), inputs.trace[f"{PATH}.activation"].numpy()
    (unit,) = unit_chart(inputs, chosen).series
    assert np.array_equal(unit.ys, units[:, 5])
    assert unit_chart(inputs, chosen).caption.name.endswith("unit 6")
    assert list(of_layer(layer.unit_table, inputs)["unit"]) == [*range(1, units.shape[1] + 1)]
    note = layer_map(inputs, chosen).caption.note
    assert note == f"layer 2: {percent((units == 0).mean())}"
    token = token_chart(inputs, chosen)
    strongest = [int(label) - 1 for label in token.x.labels]
    assert token.series[0].ys.tolist() == pytest.approx(units[2, strongest].tolist())
    assert units[2, strongest[0]] == units[2].max()
    assert layer.histogram(inputs, chosen).series[0].ys.sum() == units.size
    permuted, alone, attention, recorded = layer.apart_table(inputs, chosen)[0]["largest difference"]
    assert max(permuted, alone, recorded) < 1e-5 < attention
    assert "only through the decoder" in directions(inputs, "encoder")[1]
    assert len(directions(inputs)[0]["writes"].x.labels) == 16  # eight tokens that it writes, eight that it takes away


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_gated_units_of_one_stack_are_shown(tmp_path, kind):
    model = write(tmp_path / "one", kind, activation="swiglu", norm="none", residual=False)
    inputs, stack = looking(model, "The cat sees", layer=9, query=99).inputs, kind.split("-")[0]
    for name in ("gated", "activation", "linear", "hidden"):
        chosen = choose_units(inputs, UnitSelection(stack, name, "number", page=76, unit=10**9))
        values = inputs.trace[f"{stack}.layers.1.feed_forward.{name}"]
        assert np.array_equal(unit_map(inputs, chosen).values.now, values)
    assert "|a| ≤ 0.01" in layer_map(inputs, chosen).scale.title


def test_an_address_beyond_every_end_is_moved_inside(here):
    write(here / "one", "decoder-only", activation="swiglu")
    app = sound(opened("feed_forward", source="The cat sees", layer="9", query="99", unit="9" * 5000, page="77"))
    assert "Layer 2" in words(app)


def test_pinned_units_stand_beside_in_the_colour_of_the_pin_or_are_subtracted(pinned):
    chosen, units = units_of(pinned), pinned.comparison.counterpart(f"{PATH}.activation").numpy()
    own, before, _shown = all_units(pinned, chosen).series
    assert (before.name, before.colour) == ("largest |a|, pinned", PINNED)
    assert own.colour != PINNED
    assert sorted(before.ys) == pytest.approx(sorted(np.nanmax(np.abs(units), axis=0)))
    for chart in (unit_chart, token_chart):
        assert [each.name for each in chart(pinned, chosen).series] == ["activation", "pinned"]
    difference = unit_map(pinned, chosen).values.difference
    assert np.isnan(difference).any()  # a token that the pinned text has not
    assert np.allclose(difference, pinned.trace[f"{PATH}.activation"].numpy() - units, equal_nan=True, atol=1e-6)


@pytest.mark.parametrize(("does", "scores"), [("writes", write_scores), ("reads", read_scores)])
def test_a_unit_reads_and_writes_beside_the_pinned_models(pinned, models, does, scores):
    chart = directions(pinned)[0][does]
    assert (chart.series[1].colour, chart.series[1].name[-8:]) == (PINNED, ", pinned")
    tokenizer = models[0].target_tokenizer
    labels = [tokenizer.label(token) for token in range(len(tokenizer))]
    ids = [labels.index(label) for label in chart.x.labels]
    for series, model in zip(chart.series, models, strict=True):
        assert np.allclose(series.ys, scores(model.network, "decoder.layers.1.feed_forward", 5)[ids], atol=1e-6)
    assert "pinned: " in chart.caption.alt


def test_the_pinned_numbers_are_computed_once(models, monkeypatch):
    session = looking(models[0], SOURCE, TARGET, (models[1], OTHER, TARGET), layer=1)
    asked = []
    for name in ("write_scores", "read_scores"):
        own = getattr(layer, name)
        spy = lambda network, *of, own=own: asked.append(network is models[1].network) or own(network, *of)  # noqa: E731
        monkeypatch.setattr(layer, name, spy)
    directions(session.inputs)
    session.trace_input(models[0], OTHER, TARGET)
    assert all(chart.series[1].colour == PINNED for chart in directions(session.inputs)[0].values())
    assert asked == [True, True]


def test_tables_have_the_pinned_numbers(pinned):
    units = pinned.comparison.counterpart(f"{PATH}.activation")
    strongest = pinned.trace[f"{PATH}.activation"].abs().argmax(dim=0)
    table = of_layer(layer.unit_table, pinned)
    assert np.allclose(table["activation, pinned"], units.gather(0, strongest[None])[0], equal_nan=True)
    table, _lacking = layer.apart_table(pinned, units_of(pinned, "decoder"))
    places = list(reversed(range(len(pinned.pin.trace.target_tokens))))
    expected = positions_apart(pinned.pin.trace, "decoder.layers.1.feed_forward", places).attention_alone
    assert table["largest difference, pinned"][2] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("activation", "largest"), [("relu", 0.0), ("gelu", SMALL)])
def test_the_pinned_share_is_told_by_what_is_off_in_the_pinned_model(models, tmp_path, activation, largest):
    other = small_model(tmp_path / "other", seed=1, activation=activation)
    inputs = looking(models[0], SOURCE, TARGET, (other, OTHER, TARGET), layer=1).inputs
    units = inputs.comparison.counterpart(f"{PATH}.activation")
    share, wrong = (percent(float(shares_off(units, each).nanmean())) for each in (largest, SMALL - largest))
    assert share != wrong
    assert f"pinned, at the tokens of both: **{share}**" in of_layer(layer.layer_sentence, inputs)


def test_what_cannot_be_compared_is_a_sentence(models, tmp_path):
    others = (models[0], *(write(tmp_path / kind, kind) for kind in ("decoder-only", "encoder-only")))
    same, stranger, shallow = (
        looking(models[0], SOURCE, TARGET, (each, SOURCE, ""), layer=1).inputs for each in others
    )
    charts, lacking = directions(same)
    assert "of the same weights" in lacking
    assert [len(chart.series) for chart in charts.values()] == [1, 1]
    assert "other words" in directions(stranger)[1]
    assert "no such layer" in directions(shallow)[1]
    assert "no such layer" in layer.apart_table(shallow, units_of(shallow, "decoder"))[1]
    assert "pinned: nothing of this shape" in of_layer(layer.layer_sentence, stranger)


def test_units_that_are_not_finite_are_told_and_drawn(models, tmp_path):
    model = small_model(tmp_path / "odd")
    with torch.no_grad():
        model.network.encoder.layers[1].feed_forward.hidden.weight[3, 2] = torch.nan
    inputs = looking(model, SOURCE, TARGET, layer=1).inputs
    chosen = units_of(inputs, order="strength", unit=3)
    assert unit_map(inputs, chosen).columns.labels[0] == "4"  # before all others
    assert "not a number, or infinite" in layer.histogram(inputs, chosen).caption.note
    assert unit_chart(inputs, chosen).caption.note == "not a number"
    assert "**1** are not a number" in of_layer(layer.layer_sentence, inputs)
    charts, sentence = layer.direction_charts(inputs, chosen)
    assert charts == {}
    assert "not finite" in sentence
