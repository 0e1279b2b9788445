"""The laboratory's pictures and verdicts, from values computed otherwise."""

import math
from itertools import product

import numpy as np
import pytest

from model.checkpoints.load import open_checkpoint
from tests.viz.small import small_model, write_small
from viz.pages.positions import encodings
from viz.pages.positions.encodings import Settings

ONE = Settings((10_000.0,), (40,), (8,), (0, 3), k=5, position=20)


def code(place: int, dimension: int, d_model: int, base: float = 1e4) -> float:
    angle = place / base ** (2 * (dimension // 2) / d_model)
    return math.cos(angle) if dimension % 2 else math.sin(angle)


def test_curves_of_every_combination():
    settings_of = (10_000.0, 100.0), (10, 30), (8, 16)
    said, (picture, table) = encodings.curves(Settings(*settings_of, (3,)))
    assert [curve.name for curve in picture.curves][:2] == [
        "base 10,000 · length 10 · d 8, dimension 3",
        "base 10,000 · length 10 · d 16, dimension 3",
    ]
    for curve, (base, length, width) in zip(picture.curves, product(*settings_of), strict=True):
        assert np.allclose(curve.ys, [code(place, 3, width, base) for place in range(length)], atol=1e-12)
    whole = [[code(place, dimension, 8) for dimension in range(8)] for place in range(10)]
    assert np.allclose(table.figure.data[0].z, whole, atol=1e-6)
    assert any("base 10,000 · d 8: dimension 3 repeats after 62.8 positions." in sentence for sentence in said)


@pytest.mark.parametrize("shown", [0, 3, 99])
def test_the_table_is_of_the_chosen_combination(shown):
    settings = Settings((10_000.0, 100.0), (10,), (8, 16), (3,), single=shown)
    _said, (_curves, table) = encodings.curves(settings)
    base, width = list(product(settings.bases, settings.widths))[min(shown, 3)]
    whole = [[code(place, dimension, width, base) for dimension in range(width)] for place in range(10)]
    assert np.allclose(table.figure.data[0].z, whole, atol=1e-6)


def test_curves_that_are_not_drawn_are_told():
    settings = Settings((1.0, 2.0, 3.0, 4.0), (4, 5), (2, 4, 6, 8), (0,))
    said, (picture, _table) = encodings.curves(settings)
    assert len(picture.curves) == 27
    assert "32 combinations are asked for; the first 27 are drawn." in said
    said, (picture, _table) = encodings.curves(Settings((9.0,), (4,), (8,), (8, 1)))
    assert said[0] == "d_model 8 has no dimension 8: its dimensions are 0 to 7."
    assert len(picture.curves) == 1


def test_many_encodings_have_a_panel_each_with_one_legend_of_dimensions():
    settings = Settings((10_000.0, 1000.0, 100.0), (40, 60, 100), (8, 16, 64), (0, 3))
    _said, (picture, _table) = encodings.curves(settings)
    figure = picture.figure
    assert picture.wide
    assert len({trace.xaxis for trace in figure.data}) == 27
    for axes in (figure.select_xaxes(), figure.select_yaxes()):
        shared = [axis.matches for axis in axes]
        assert (len(shared), shared.count(None), len(set(shared))) == (27, 1, 2)
    named = [trace.name for trace in figure.data if trace.showlegend]
    assert named == ["dimension 0", "dimension 3"]
    titles = [note.text for note in figure.layout.annotations]
    assert [titles.count(f"d {width}") for width in settings.widths] == [9, 9, 9]
    assert [title for title in titles if title.startswith("<b>")][:2] == [
        "<b>base 10,000 · length 40</b>",
        "<b>base 10,000 · length 60</b>",
    ]
    for (base, length, width), first in zip(
        product(settings.bases, settings.lengths, settings.widths), range(0, 54, 2), strict=True
    ):
        for trace, dimension in zip(figure.data[first : first + 2], (0, 3), strict=True):
            assert trace.x[-1] == length - 1
            assert np.allclose(trace.y, [code(place, dimension, width, base) for place in trace.x], atol=1e-12)


def test_a_width_without_the_dimension_leaves_no_panel_and_the_others_in_their_rows():
    _said, (picture, _table) = encodings.curves(Settings((9.0, 99.0), (10, 20), (8, 16, 32), (9, 10)))
    titles = [note.text for note in picture.figure.layout.annotations]
    assert titles[:6] == ["<b>base 9 · length 10</b>", "d 16", "d 32", "<b>base 9 · length 20</b>", "d 16", "d 32"]


def test_panels_of_one_curve_each_have_no_legend():
    _said, (picture, _matrix) = encodings.shift(Settings((9.0, 99.0), (10, 20), (8, 16), k=1))
    assert picture.wide
    assert not any(trace.showlegend for trace in picture.figure.data)
    _said, (waves, _slow) = encodings.wavelengths(Settings((9.0, 99.0, 1e4), (10,), (8, 16, 32)))
    assert len(waves.curves) == 9
    assert {axis.type for axis in waves.figure.select_yaxes()} == {"log"}


@pytest.mark.parametrize(("length", "steps"), [(2, 8), (50, 8), (51, 8), (1000, 4), (2048, 2), (9000, 2)])
def test_a_wave_is_drawn_between_positions_too(length, steps):
    _said, (picture, _table) = encodings.curves(Settings((1e4,), (length,), (8,), (1,)))
    line, *dots = picture.figure.data
    assert np.allclose(np.diff(line.x), 1 / steps)
    assert (line.x[0], line.x[-1]) == (0, length - 1)
    assert np.allclose(line.y, np.cos(line.x), atol=1e-9)
    assert [dot.mode for dot in dots] == ["markers"] * (length <= 50)
    for dot in dots:
        assert np.array_equal(dot.x, np.arange(length))
        assert np.allclose(dot.y, line.y[::steps])


def test_the_similarity_is_drawn_between_positions_too():
    _said, (similar, _matrix) = encodings.shift(ONE)
    for curve in similar.curves:
        assert np.allclose(curve.fine[1][::8], curve.ys, atol=1e-12)
        assert curve.fine[0][4] == curve.xs[0] + 0.5
        apart = sum(math.cos((curve.xs[0] + 0.5) / 10**pair) for pair in range(4))
        assert curve.fine[1][4] == pytest.approx(apart)


def test_a_smaller_base_has_shorter_waves():
    said, (picture, _) = encodings.wavelengths(Settings((10_000.0, 1000.0), (10,), (8,)))
    assert picture.figure.layout.yaxis.type == "log"
    assert np.allclose(picture.curves[1].ys[::2], [2 * math.pi * 1000 ** (pair / 4) for pair in range(4)])
    assert said[-1] == "With base 1,000 instead of 10,000, 6 of 8 dimensions have a shorter wavelength."


def test_a_shift_is_a_linear_function():
    said, (similar, matrix) = encodings.shift(ONE)
    assert "over 35 positions, ‖PE(p)‖ = 2: a linear function." in said[0]
    assert [curve.name for curve in similar.curves] == [f"base 10,000, p = {place}" for place in (0, 20, 39)]
    row = similar.curves[1]
    assert row.xs[0] == -20
    assert row.ys[25] == pytest.approx(sum(math.cos(5 / 10 ** (pair)) for pair in range(4)))
    assert matrix.figure.data[0].z[0, 0] == pytest.approx(math.cos(5))
    said, _pictures = encodings.shift(Settings((1e4,), (4,), (8,), k=9))
    assert said[0] == "k = 9 leaves no pair of positions in a length of 4."


def test_a_position_is_the_same_at_any_length():
    said, (along, over) = encodings.any_length(Settings((1e4,), (30, 60, 10), (8,), (0,), position=20))
    assert said == [
        "Position 20 is not in a table of length 10.",
        "Position 20 in tables of length 30, 60: the largest difference is 0.",
    ]
    for curve in along.curves:
        assert np.allclose(curve.ys, [code(20, dimension, 8) for dimension in range(8)])
    for curve, length in zip(over.curves, (30, 60), strict=True):
        assert np.allclose(curve.ys, [code(place, 0, 8) for place in range(length)])
    assert encodings.any_length(ONE)[0] == ["Give two lengths or more above 20 to compare."]


def test_the_misread_formula_is_told_from_the_papers():
    said, (waves, pair) = encodings.misread(ONE)
    assert "longest wavelength 6,280 positions" in said[0]
    assert said[1].startswith("wrong: 2i/d with channel i: longest wavelength 6.28×10⁷")
    right, wrong = waves.curves
    assert right.ys[6] == right.ys[7]
    assert wrong.ys[7] == pytest.approx(2 * math.pi * 1e4 ** (14 / 8))
    assert len(pair.curves) == 4
    assert pair.curves[3].ys[1] == pytest.approx(math.cos(1 / 1e4 ** (2 / 8)))


def test_learned_positions_of_both_stacks_stand_beside_sinusoids(tmp_path):
    model = open_checkpoint(write_small(tmp_path / "a", position="learned"))
    _said, (curves, alike) = encodings.learned(Settings((1e4,), (9,), (4,), (5,), k=2), model)
    names = [curve.name for curve in curves.curves]
    assert names == [f"{name}, dimension 5" for name in ("learned · encoder", "learned · decoder", "sinusoidal")]
    for number, stack in enumerate((model.network.encoder, model.network.decoder)):
        table = stack.embedding.positions.table.detach().double().numpy()
        assert np.allclose(curves.curves[number].ys, table[:, 5])
        cosine = table @ table[16] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[16])
        assert np.allclose(alike.curves[number].ys, cosine)
    assert np.allclose(curves.curves[2].ys, [code(place, 5, 16) for place in range(32)])
    said, pictures = encodings.learned(ONE, small_model(tmp_path / "b"))
    assert said == ["b has no learned positions: it was trained with sinusoidal. A new one can have them."]
    assert pictures == []


def test_rotary_and_alibi_are_those_of_the_models_heads(tmp_path):
    model = small_model(tmp_path / "a")  # two heads of 8 channels
    _said, (angles, product, biases) = encodings.relative(Settings((100.0,), (12,), (4,)), model)
    assert np.allclose(angles.curves[1].ys, np.arange(1, 12) / 100 ** (4 / 8))
    assert product.curves[0].ys[0] == pytest.approx(1)
    assert product.curves[0].ys[3] == pytest.approx(sum(math.cos(3 / 100 ** (2 * p / 8)) for p in range(4)) / 4)
    assert np.allclose([curve.ys[8] for curve in biases.curves], [-8 / 16, -8 / 256])


def test_the_pinned_model_stands_beside_dashed(tmp_path):
    model = small_model(tmp_path / "a", position="learned")
    other = small_model(tmp_path / "b", seed=1, position="learned", max_length=20)
    said, (curves, alike) = encodings.learned(Settings((1e4,), (9,), (4,), (5,), k=2), model, other)
    errors = []
    for number, stack in enumerate(("encoder", "decoder"), start=3):
        before = getattr(other.network, stack).embedding.positions.table.detach().double().numpy()
        drawn = curves.curves[number]
        assert (drawn.name, drawn.dash) == (f"learned · {stack} · pinned, dimension 5", True)
        assert np.allclose(drawn.ys, before[:, 5])
        assert np.array_equal(alike.curves[number].xs, np.arange(20) - 10)
        pairs = before.reshape(20, 8, 2).transpose(1, 0, 2)
        missed = [pair[:-2] @ np.linalg.lstsq(pair[:-2], pair[2:])[0] - pair[2:] for pair in pairs]
        error = np.linalg.norm(np.concatenate(missed, 1), axis=1).mean() / np.linalg.norm(before, axis=1).mean()
        errors.append(f"{error:.3g}")
    assert [curve.dash for curve in alike.curves] == [False, False, False, True, True]
    assert said[-1] == f"In the pinned model it misses by {', '.join(errors)}."


def test_a_pinned_model_with_other_heads_is_drawn_with_its_own(tmp_path):
    model, other = small_model(tmp_path / "a"), small_model(tmp_path / "b", n_heads=4)
    _said, (angles, product, biases) = encodings.relative(Settings((100.0,), (12,), (4,)), model, other)
    assert [curve.name for curve in biases.curves[2:]] == [f"head {head} · pinned" for head in range(1, 5)]
    assert np.allclose([curve.ys[8] for curve in biases.curves[2:]], [-8 / 4, -8 / 16, -8 / 64, -8 / 256])
    assert np.allclose(product.curves[1].ys[3], (math.cos(3) + math.cos(3 / 10)) / 2)  # two pairs a head
    assert all(curve.dash for curve in angles.curves[3:])
    said, pictures = encodings.relative(Settings((100.0,), (12,), (4,)), model, model)
    assert said[-1] == "The pinned model has as many heads, as wide: its curves are the same."
    assert not any(curve.dash for picture in pictures for curve in picture.curves)


def test_a_pin_without_learned_positions_is_said(tmp_path):
    model = small_model(tmp_path / "a", position="learned")
    said, (curves, _alike) = encodings.learned(ONE, model, small_model(tmp_path / "b"))
    assert said[-1] == "b, which is pinned, has no learned positions to compare with (sinusoidal)."
    assert len(curves.curves) == 3
