"""The film: what its frames hold, how it is thinned, how its past is shown of another probe."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.testing import assert_allclose, assert_array_equal

from model.analysis.feed_forward import Seen, path_of
from model.capture.trace import Trace
from model.inference.copies import alone
from model.training.live.film import Film, Thinned
from model.training.live.frame_recorder import KINDS, LOSS, PROBABILITIES, TOKENS, Camera, Frame
from tests.model.training.live.live_examples import SETTINGS, material, probe, start, watched
from tests.model.training.training_examples import unchanged

OPTIONS = {
    "encoder-decoder": {},
    "decoder-only": {"position": "alibi", "n_key_value_heads": 1, "activation": "swiglu"},
    "decoder-only, biased": {"position": "relative", "norm": "rms"},
    "encoder-only": {"position": "rotary", "norm": "none", "residual": False, "qk_norm": True},
}


@dataclass(frozen=True)
class Item:
    step: int
    size: int = 10


def thinned(budget: int, steps: int, every: int = 1) -> Thinned[Item]:
    kept: Thinned[Item] = Thinned(budget, every)
    for step in range(steps):
        if every == 1 or kept.wants(step):
            kept.add(Item(step))
    return kept


def steps_of(kept: Thinned[Item]) -> list[int]:
    return [item.step for item in kept]


FIVE = [
    (50, 1, [0]),
    (50, 5, [0, 1, 2, 3, 4]),
    (50, 6, [0, 2, 4, 5]),
    (50, 7, [0, 2, 4, 6]),
    (50, 8, [0, 2, 4, 6, 7]),
    (50, 10, [0, 4, 8, 9]),
    (50, 18, [0, 8, 16, 17]),
]


@pytest.mark.parametrize(("budget", "count", "expected"), [*FIVE, (1, 100, [0, 99])])
def test_every_second_one_goes_when_the_budget_is_full_but_the_first_and_the_latest(budget, count, expected):
    kept = thinned(budget, count)
    assert steps_of(kept) == expected
    assert kept.size == 10 * len(expected)


def test_what_is_kept_is_spread_evenly_and_fits():
    for count in (3, 16, 17, 18, 33, 100, 399):
        kept = thinned(160, count)
        gaps = np.diff(steps_of(kept))
        assert kept.size <= 160
        assert (gaps[:-1] == kept.every).all()
        assert gaps[-1] <= kept.every
        assert len(kept) >= min(count, 8)


def test_key_frames_are_thinned_from_their_own_distance():
    assert steps_of(thinned(40, 35, every=10)) == [0, 10, 20, 30]
    assert steps_of(thinned(40, 45, every=10)) == [0, 20, 40]
    few: Thinned[Item] = Thinned(10**9, most=4)
    few.put(Item(step) for step in range(9))
    assert steps_of(few) == [0, 4, 8]


def test_cutting_and_putting():
    kept = thinned(1000, 10)
    kept.cut(6)
    assert steps_of(kept) == [0, 1, 2, 3, 4, 5, 6]
    kept.put([Item(3, 5), Item(20)])
    assert steps_of(kept) == [0, 1, 2, 3, 4, 5, 6, 20]
    assert kept.size == sum(item.size for item in kept) == 75
    kept.shrink(40)
    assert steps_of(kept) == [0, 4, 20]


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_frame_holds_what_a_trace_says(kind):
    """Each of several that are taken together, as the weights are when it is its turn."""
    options, kind = OPTIONS[kind], kind.partition(",")[0]
    learned = material(kind)
    model = start(learned, kind, **options)
    chosen = probe(model, "abcd")
    camera = Camera(model, chosen)

    def steps():
        for step in (3, 7):
            with torch.no_grad():
                for parameter in model.network.parameters():
                    parameter *= 1 + 0.1 * (step - 3)
            yield step

    before = alone(model).trace_tokens(chosen.source, chosen.target)
    taken = camera.take(steps())
    assert [frame.step for frame, _ in taken] == [3, 7]
    check_frame(camera, *taken[0], before)
    check_frame(camera, *taken[1], model.trace_tokens(chosen.source, chosen.target))


def check_frame(camera: Camera, frame: Frame, figures: dict[str, float], trace: Trace) -> None:
    """By hand, from the trace."""
    model, chosen = camera.model, camera.probe
    read = {name: slot.read([frame])[0] for name, slot in camera.slots.items()}
    for attention in KINDS:
        if paths := trace.attention_paths(attention):
            weights = trace.attention(attention)
            assert_allclose(read[attention] / 255, weights.numpy(), atol=0.5001 / 255)
            for path, heads in zip(paths, weights.double(), strict=True):
                for head, rows in enumerate(heads):
                    natural = [-sum(w * math.log(w) for w in row if w > 0) for row in rows.tolist()]
                    assert figures[f"entropy/{path}/{head}"] == pytest.approx(sum(natural) / len(natural), abs=1e-6)
        else:
            assert attention not in read
    for path in trace.norm_paths():
        x = trace[f"{path}.input"].double()
        assert_allclose(read[f"{path}.mean"], x.mean(-1), rtol=1e-5, atol=1e-6)
        assert_allclose(read[f"{path}.std"], x.var(-1, correction=0).sqrt(), rtol=1e-5, atol=1e-6)
    streams = [name for name in trace.names() if name.endswith(".residual")]
    assert streams
    for name in streams:
        assert_allclose(read[name], trace[name].double().norm(dim=-1), rtol=1e-5)
    probabilities = trace["output.logits"].softmax(-1)
    for place, row in enumerate(probabilities):
        best = row.argsort(descending=True)[:5]
        assert read[TOKENS][place].tolist() == best.tolist()
        assert_allclose(read[PROBABILITIES][place], row[best], rtol=1e-5)
    expected = math.nan
    if model.kind != "encoder-only":
        ids = chosen.target.ids if chosen.target else chosen.source.ids
        labels = ids[1:] + ([model.target_tokenizer.end] if chosen.target else [])
        expected = float(F.cross_entropy(trace["output.logits"][: len(labels)], torch.tensor(labels)))
    assert_allclose(read[LOSS], expected, rtol=1e-5)
    paths = [name.removesuffix(".hidden") for name in trace.names() if name.endswith("feed_forward.hidden")]
    assert paths
    for path in paths:
        units, largest = trace[f"{path}.hidden"].relu(), 0.0
        if model.config.activation == "swiglu":
            units, largest = F.silu(trace[f"{path}.hidden"]) * trace[f"{path}.linear"], 0.01
        idle = sum(all(abs(value) <= largest for value in unit) for unit in units.T.tolist()) / units.shape[1]
        assert figures[f"dead units/{path}"] == pytest.approx(idle)


@pytest.mark.parametrize(("activation", "idle"), [("relu", 2 / 8), ("gelu", 1 / 8), ("swiglu", 2 / 8)])
def test_idle_units_are_those_that_the_feed_forward_page_has_off(activation, idle):
    """One unit's input is always -9, one's -0.5, where GELU is -0.15; of a gated one the linear half is 0."""
    model = start(material("decoder-only"), "decoder-only", activation=activation)
    chosen = probe(model, "abcd")
    with torch.no_grad():
        for layer in model.network.decoder.layers:
            network = layer.feed_forward
            network.hidden.weight.zero_()
            network.hidden.bias.copy_(torch.tensor([-9.0, -0.5, *[1.0] * 6]))
            if activation == "swiglu":
                network.linear.weight.zero_()
                network.linear.bias.copy_(torch.tensor([1.0] * 7 + [0.0]))
    ((_frame, figures),) = Camera(model, chosen).take([0])
    seen = Seen()
    seen.add(model.trace_tokens(chosen.source, chosen.target), model.config)
    for layer in range(2):
        path = path_of("decoder", layer)
        assert figures[f"dead units/{path}"] == pytest.approx(idle)
        assert float((~seen.on(model.network, path)).float().mean()) == pytest.approx(idle)


def test_attention_is_read_from_the_frames():
    film = watched(replace(SETTINGS, rate=0.05), steps=4).run.film
    assert_array_equal(film.steps, range(5))
    weights = film.attention("cross").astype(float) / 255
    assert weights.shape == (5, 2, 2, 5, 5)
    assert_array_equal(film.attention("cross", after=2), film.attention("cross")[3:])


def test_an_attention_that_the_model_lacks_is_named():
    film = watched(kind="decoder-only").run.film
    with pytest.raises(ValueError, match="new has no cross attention: it has decoder"):
        film.attention("cross")


def test_another_probe_is_shown_in_the_past_too():
    """As if it had been watched from the beginning, at the key frames; and the training is not disturbed."""
    learned = material()
    model = start(learned)
    other = probe(model, "xyz")
    expected, given = watched(), watched()
    expected.show(other)
    for each in (expected, given):
        for _ in range(6):
            each.step()
    with unchanged(given.trainer):
        given.show(other)
        assert_array_equal(given.run.film.steps, [6])
        assert list(given.run.film.rerender(other)) == [0.5, 1.0]
    assert_array_equal(given.run.film.steps, [0, 4, 6])
    for name in ("encoder", "decoder", "cross", LOSS):
        assert_array_equal(given.run.film.series(name), expected.run.film.series(name)[[0, 4, 6]])
    list(given.run.film.rerender(probe(model, "abcd")))  # without having been shown first
    given.step()
    assert_array_equal(given.run.film.steps, [0, 4, 7])
    again = watched(steps=7)
    assert_array_equal(given.run.film.attention("cross"), again.run.film.attention("cross")[[0, 4, 7]])


def test_rendering_for_a_probe_that_is_replaced_says_so():
    given = watched()
    film, model = given.run.film, given.model
    rendering = film.rerender(probe(model, "xyz"))
    next(rendering)
    film.show(probe(model, "zz"), 0)
    with pytest.raises(ValueError, match="another probe was chosen while"):
        list(rendering)


def test_a_small_budget_holds():
    given = watched()
    size = given.run.film.size - given.run.film.keys.size
    film = Film(given.model, given.probe, budget=5 * size)
    for step in range(12):
        film.record([step])
    assert len(film) <= 5
    assert film.steps[0] == 0
    assert film.steps[-1] == 11
    assert film.size <= 5 * size


def test_an_edition_gives_each_step_one_frame():
    own = watched()
    film = own.run.film
    editions = [film.edition]
    for _ in range(5):
        own.step()
    assert film.edition == editions[0]
    film.show(film.probe, own.steps_done)
    assert film.edition == editions[0]
    own.rewind(film.key_frames[0])
    editions.append(film.edition)
    film.show(probe(own.model, "dc"), own.steps_done)
    editions.append(film.edition)
    list(film.rerender(film.probe))
    editions.append(film.edition)
    own.branch(film.key_frames[0], {})
    editions.append(own.run.film.edition)
    assert sorted(set(editions)) == editions


def test_the_curves_as_one_table_are_the_curves():
    curves = watched(steps=6).run.curves
    steps, values = curves.table()
    dense = curves.names[: values.shape[1]]
    assert steps.tolist() == list(range(7))
    for column, name in enumerate(dense):
        measured = ~np.isnan(values[:, column])
        assert_array_equal(steps[measured], curves.get(name)[0])
        assert_array_equal(values[measured, column], curves.get(name)[1])
    assert "loss" in dense
    assert "validation" not in dense
