"""Figures of norms, stream, placement and dropout as values: numbers of the trace, and those of the pin beside."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.analysis.dropout import over_masks
from model.analysis.norms import form_gap, norm_table, stack_norms
from model.analysis.residual import blocks
from model.checkpoints.load import open_checkpoint
from tests.test_app_kinds import write
from tests.viz.small import looking, write_small
from viz.figures.compared import of_now
from viz.i18n.format import significant_alike
from viz.pages.residual import batch_norm, dropout, norm_forms, norms, placement, stream
from viz.pages.residual.norms import chosen_norm

SOURCE, TARGET, OTHER = "The cat sees the dog.", "一七丞世", "The cat hears the dog."
NORM = "encoder.layers.0.self_attention_block.norm"
ABSENT = "this token is not in the pinned text"


@pytest.fixture
def inputs(small):
    return looking(small, SOURCE, TARGET).inputs


@pytest.fixture
def pinned(small):
    """Inputs beside a pinned text that lacks one of their tokens."""
    return looking(small, OTHER, TARGET, pinned=(small, SOURCE, TARGET)).inputs


def series(chart):
    return {each.name: of_now(each.ys) for each in chart.series}


def before(chart):
    return {each.name: each.ys.before for each in chart.series}


@pytest.mark.parametrize(
    ("stack", "quantity", "column"),
    [
        ("encoder", "mean", "mean"),
        ("encoder", "before", "input norm"),
        ("decoder", "std", "std"),
        ("decoder", "after", "output norm"),
    ],
)
def test_every_norm_at_every_token(small, stack, quantity, column):
    session = looking(small, SOURCE, TARGET, layer=1, query=2)
    inputs, (paths, row, token) = session.inputs, chosen_norm(session, stack, None)
    figure = norms.norm_map(inputs, stack, paths, quantity, (row, token))
    table = norm_table(inputs.trace)
    expected = table[table["name"].str.startswith(stack)][column].to_numpy().reshape(len(paths), -1)
    assert np.allclose(figure.values.now, expected, rtol=1e-5, atol=1e-6)
    assert figure.columns.labels == inputs.trace.tokens_of(f"{stack}.")
    assert figure.scale.low == (-figure.scale.high if quantity == "mean" else 0)
    assert (figure.rows.labels[figure.chosen], figure.column) == ("2 self-att.", 2)
    channels = series(norms.norm_channels(inputs, paths[row], token))
    assert np.array_equal(channels["input"], inputs.trace[f"{paths[row]}.input"][2])
    assert np.array_equal(channels["output"], inputs.trace[f"{paths[row]}.output"][2])
    weights, norm = series(norms.norm_weights(inputs, paths[row])), inputs.trace.module(paths[row])
    assert np.array_equal(weights["γ"], norm.weight.detach())
    assert np.array_equal(weights["β"], norm.bias.detach())


@pytest.mark.parametrize(
    ("options", "titles"),
    [
        ({}, ("Before self-attention, layer 1, at ▁", "(x − μ) / σ", "… · γ + β")),
        ({"norm": "rms", "norm_placement": "post"}, ("After self-attention, layer 1, at ▁", "x / rms", "… · γ")),
        (
            {"norm": "textbook-sample", "bias": False},
            ("Before self-attention, layer 1, at ▁", "(x − μ) / (s + ε)", "… · γ"),
        ),
    ],
)
def test_a_norm_step_by_step_is_torchs_own(tmp_path, options, titles):
    inputs = looking(open_checkpoint(write_small(tmp_path / "normed", **options)), SOURCE, TARGET).inputs
    norm, x = inputs.trace.module(NORM), inputs.trace[f"{NORM}.input"][1]
    torch.nn.init.normal_(norm.weight)
    y = {"layer": F.layer_norm, "rms": F.rms_norm}.get(inputs.config.norm, F.layer_norm)(x, x.shape, eps=norm.eps)
    if inputs.config.norm == "textbook-sample":
        y *= (15 / 16) ** 0.5
    charts = norms.norm_steps(inputs, NORM, 1)
    assert tuple(str(chart.caption.name) for chart in charts) == titles
    assert torch.allclose(norm.standardised(x).float(), y, atol=1e-4)
    for chart, values in zip(charts, (x, y, inputs.trace[f"{NORM}.output"][1]), strict=True):
        (bars,) = chart.series
        counts, edges = np.histogram(values, norms.BINS, (chart.x.low, chart.x.high))
        assert np.array_equal(bars.ys.now, counts)
        assert np.allclose(bars.xs, (edges[1:] + edges[:-1]) / 2)
        said = chart.caption.note
        _mean, size = significant_alike(float(values.mean()), float(values.std(correction=0)))
        if "rms" in titles[1]:
            assert said == f"rms {significant_alike(float(values.square().mean() ** 0.5))[0]}"
            assert [mark["text"] for mark in chart.marks] == ["", "± rms"]
        else:
            assert said.endswith(f" · deviation {size}")
            assert chart.marks[1]["x"] == pytest.approx(float(values.mean()), abs=1e-6)


def test_the_stream_its_blocks_and_their_likeness(inputs):
    trace, steps = inputs.trace, blocks(inputs.config, "encoder")
    names = [steps[0].before, *(step.after for step in steps)]
    states = torch.stack([trace[name] for name in names])
    figure = stream.stream_map(inputs, "encoder", steps, "length", (0, 0))
    assert np.allclose(figure.values.now, states.norm(dim=-1), rtol=1e-5)
    mean = series(stream.stream_chart(inputs, "encoder", steps, "length", 0))["mean"]
    assert np.allclose(mean, states.norm(dim=-1).mean(dim=1), rtol=1e-5)
    expected = F.cosine_similarity(states[:, None], states[None], dim=-1).mean(dim=-1)
    assert np.allclose(stream.cosine_map(inputs, "encoder", steps).values.now, expected, atol=1e-5)
    assert "largest error" in stream.sum_sentence(inputs, steps)
    added = torch.stack([trace[name.replace("_block.residual", ".output")] for name in names[1:]])
    shares = added.norm(dim=-1) / states[:-1].norm(dim=-1)
    most = int(shares.mean(dim=1).argmax())
    label = f"{most // 2 + 1} {('self-att.', 'FFN')[most % 2]}"
    assert figure.caption.sentence.startswith(f"{label} changes the stream most")
    share, cosine = (
        stream.stream_map(inputs, "encoder", steps, quantity, (0, 0)).values.now for quantity in ("share", "cosine")
    )
    assert np.allclose(share, shares, rtol=1e-5)
    assert np.allclose(cosine, F.cosine_similarity(added, states[:-1], dim=-1), atol=1e-5)


def test_the_forms_differ_as_n_and_n_minus_1(inputs):
    x = inputs.trace[f"{NORM}.input"].double()
    torchs = F.layer_norm(x, (16,), eps=1e-5)
    sample = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
    gaps = series(norm_forms.form_differences(inputs, NORM, 1, 1e-5))
    assert np.allclose(gaps["textbook, sample"], (sample - torchs)[1], atol=1e-6)
    table = norm_forms.form_table(inputs, NORM, 1, 1e-5)
    largest = float((sample - torchs)[1].abs().max())
    assert table["largest difference"].tolist()[2] == pytest.approx(largest, rel=1e-6)
    assert table["divides by"].tolist()[0] == pytest.approx(float((x[1].var(correction=0) + 1e-5).sqrt()))
    widths = series(norm_forms.form_widths(inputs, NORM, 1e-5))
    assert widths["expected, 1 − √((n−1)/n)"][0] == pytest.approx(1 - 0.5**0.5)
    assert len(widths["textbook, sample"]) == 4  # 2, 4, 8 and all 16


def test_a_padded_batch_moves_batch_norm_and_not_layer_norm(small, inputs):
    batch = batch_norm.text_batch(inputs, [])
    measured = batch_norm.statistics(inputs.trace, batch, NORM)
    figure = batch_norm.layer_map(inputs, batch, measured, NORM, "std", False)
    own, real = inputs.trace.source_tokens, figure.visible
    assert figure.rows.labels == ["whole", "part 1", "part 2"]
    assert figure.values.shape == real.shape == (3, len(own))
    assert 0 < real.sum() < real.size
    places = np.array(figure.tokens["places"]).reshape(real.shape)  # cells light up with the tokens of the page
    assert (figure.tokens["side"], figure.tokens["labels"]) == ("source", own)
    assert places[0].tolist() == [*range(len(own))]
    assert ((places >= 0) == real.astype(bool)).all()
    assert sorted({*places[1].tolist(), *places[2].tolist()} - {-1}) == [*range(len(own))]
    assert "% of all positions are padding" in batch_norm.sentence(batch, measured, NORM)
    assert measured.layer_moves < 1e-5 < measured.batch_moves
    assert set(series(batch_norm.batch_chart(inputs, measured, "std"))) == {"real tokens alone", "padding counted in"}
    assert batch_norm.text_batch(looking(small, "", TARGET).inputs, []) is None


def test_the_models_own_placement_is_framed_and_exact(inputs):
    # Claim 36: where dropout sits, after every sublayer and before the sum.
    rows = placement.wires(inputs).rows
    assert {row["name"]: [box["kind"] for box in row["boxes"]] for row in rows} == {
        "post-norm": ["sublayer", "dropout", "sum", "norm"],
        "pre-norm": ["norm", "sublayer", "dropout", "sum"],
        "wrong pre-norm": ["sublayer", "dropout", "sum"],
    }
    assert [(row["past"], row["own"]) for row in rows] == [("bare", False), ("bare", True), ("LayerNorm", False)]
    moved = series(placement.placement_chart(inputs, blocks(inputs.config, "decoder")))
    assert moved["pre-norm"].max() < 1e-5
    assert moved["wrong pre-norm"].min() > 0.05


def test_blocks_in_parallel_are_drawn_and_computed_as_they_are(tmp_path):
    inputs = looking(open_checkpoint(write_small(tmp_path / "parallel", parallel=True)), SOURCE, TARGET).inputs
    (own,) = [row for row in placement.wires(inputs).rows if row["own"]]
    assert (own["name"], own["formula"]) == (
        "blocks in parallel",
        "x + Attn(LayerNorm(x)) + FFN(LayerNorm(x))",
    )
    assert [box["kind"] for box in own["boxes"]] == ["norm", "sublayer", "dropout", "sum"]
    assert [box["text"] for box in own["beside"][:2]] == ["LayerNorm", "Feed-forward"]
    moved = series(placement.placement_chart(inputs, blocks(inputs.config, "decoder")))
    assert moved["blocks in parallel"].max() < 1e-5
    assert moved["pre-norm"].min() > 1e-3


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("block", "encoder.layers.1.feed_forward.output"),
        ("embedding", "encoder.embedding.output"),
        ("weights", "encoder.layers.1.self_attention.weights"),
        ("units", "encoder.layers.1.feed_forward.activation"),
    ],
)
def test_dropout_is_measured_on_this_stream(inputs, site, name):
    assert dropout.vector_name(inputs.config, "encoder", site, 1) == name
    measured = dropout.measured(inputs, name, 0, 0.1, 100)
    entries = inputs.trace[name]
    x = (entries[0] if site == "weights" else entries)[0].numpy()  # of the chosen head
    mean = dropout.dropout_chart(inputs, name, 0, measured, None, 0.1).series[2]
    assert np.array_equal(mean.xs, x)
    assert np.linalg.norm(mean.ys - x) < 0.15 * np.linalg.norm(x)  # expected: 0.033
    table = dropout.summary(measured, None, 0.1)
    assert table["expected"].tolist() == pytest.approx([0.9, 1, 0.9, 1 / 9])
    assert table["measured"].tolist() == pytest.approx([0.9, 1, 0.9, 1 / 9], abs=0.1)


def test_norms_are_compared_with_the_pinned_ones_token_by_token(pinned):
    figure = norms.norm_map(pinned, "encoder", stack_norms(pinned.trace, "encoder"), "std", (0, 0))
    now, kept = (trace[f"{NORM}.std"] for trace in (pinned.trace, pinned.comparison.pinned))
    places = pinned.comparison.source.places
    expected = [float(now[i] - kept[p]) if p >= 0 else np.nan for i, p in enumerate(places)]
    assert np.allclose(figure.values.difference[0], expected, atol=1e-6, equal_nan=True)
    assert np.isnan(expected).any()
    assert np.array_equal(before(norms.norm_channels(pinned, NORM, 0))["input"], pinned.before(f"{NORM}.input")[0])


def test_dropout_is_measured_on_the_pinned_vector_once(pinned, monkeypatch):
    drawn: list[torch.Tensor] = []
    monkeypatch.setattr(dropout, "over_masks", lambda x, *more: drawn.append(x) or over_masks(x, *more))
    name, rate, masks = "decoder.layers.0.feed_forward.output", 0.1, 1000
    kept = dropout.pinned_measured(pinned, name, 1, rate, masks)
    assert dropout.pinned_measured(pinned, name, 1, rate, masks)[1] is kept[1]
    assert len(drawn) == 1
    dropout.pinned_measured(pinned, name, 2, rate, masks)  # another token is another vector
    assert len(drawn) == 2
    x = pinned.before(name)[1]
    found = over_masks(x, rate, masks, f"dropout {rate} {masks}")
    measured = dropout.measured(pinned, name, 1, rate, masks)
    last = dropout.error_chart(pinned, name, measured[1], kept, rate).series[-1]
    assert last.name == "measured, pinned"
    assert np.allclose(last.ys, found.errors)
    last = dropout.dropout_chart(pinned, name, 1, measured, kept, rate).series[-1]
    assert last.name == "mean over the masks, pinned"
    assert np.allclose([last.xs, last.ys], [x.sort().values, found.mean[x.argsort()]])
    size = float(x.square().sum())
    slope = float((found.mean * x).sum()) / size
    expected = [found.share, slope, slope * (1 - rate), float(found.variance.sum()) / size]
    assert dropout.summary(measured, kept, rate)["measured, pinned"].tolist() == pytest.approx(expected, rel=1e-5)


def test_a_token_that_is_not_in_the_pinned_text_has_nothing_beside_it(pinned):
    inserted = pinned.comparison.source.places.index(-1)
    name = "encoder.layers.0.feed_forward.output"
    measured = dropout.measured(pinned, name, inserted, 0.1, 10)
    assert dropout.pinned_measured(pinned, name, inserted, 0.1, 10) is None
    for chart in (
        dropout.dropout_chart(pinned, name, inserted, measured, None, 0.1),
        dropout.error_chart(pinned, name, measured[1], None, 0.1),
        norms.norm_channels(pinned, NORM, inserted),
        norms.norm_steps(pinned, NORM, inserted)[0],
        norm_forms.form_differences(pinned, NORM, inserted, 1e-5),
    ):
        assert chart.caption.sentence == ABSENT
    table = norm_forms.form_table(pinned, NORM, inserted, 1e-5)
    assert not [column for column in table if "pinned" in column]  # it is of this token
    assert not table.isna().any(axis=None)


def test_the_pinned_weights_of_a_norm_are_drawn_where_they_are_others(pinned, small, tmp_path):
    same = norms.norm_weights(pinned, NORM)
    assert same.caption.sentence == "the pinned ones are the same"
    assert set(map(type, before(same).values())) == {type(None)}
    other = open_checkpoint(write_small(tmp_path / "other", seed=5))
    chart = norms.norm_weights(looking(small, SOURCE, TARGET, pinned=(other, SOURCE, TARGET)).inputs, NORM)
    norm = other.network.get_submodule(NORM)
    assert np.array_equal(before(chart)["γ"], norm.weight.detach())
    assert np.array_equal(before(chart)["β"], norm.bias.detach())
    assert not np.allclose(before(chart)["γ"], series(chart)["γ"])


def test_the_forms_of_the_pinned_input_stand_in_the_table(pinned):
    table = norm_forms.form_table(pinned, NORM, 0, 1e-5)
    kept = pinned.before(f"{NORM}.input")
    variance = float(kept[0].double().var(correction=0))
    expected = [(variance + 1e-5) ** 0.5, variance**0.5 + 1e-5]
    assert table["divides by, pinned"][:2].tolist() == pytest.approx(expected, rel=1e-6)
    gaps = [form_gap(kept[0], 1e-5, form) for form in ("layer", "textbook", "textbook-sample")]
    assert table["relative difference, pinned"].tolist() == pytest.approx(gaps)


def test_placement_is_named_and_measured_for_the_pinned_model(pinned, small, tmp_path):
    steps = blocks(small.config, "decoder")
    last = [block for block in steps if block.sublayer == "feed_forward"]
    assert placement.wires(pinned).caption.sentence == "this model: pre-norm · pre-norm, pinned"
    chart = placement.placement_chart(pinned, steps)
    kept = before(chart)
    assert not np.allclose([*kept.values()], [*series(chart).values()])
    expected = placement.differences(pinned.comparison.pinned, last)
    assert np.allclose([*kept.values()], [*expected.values()])
    other = write(tmp_path / "other", "encoder-only", norm="none")
    inputs = looking(small, SOURCE, TARGET, pinned=(other, SOURCE, "")).inputs
    assert placement.wires(inputs).caption.sentence == "this model: pre-norm · no norm, pinned"
    chart = placement.placement_chart(inputs, steps)
    assert "cannot be compared" in chart.caption.sentence
    assert set(map(type, before(chart).values())) == {type(None)}
