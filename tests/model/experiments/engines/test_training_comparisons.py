"""Arms that are trained short and tested long, and the wrong pre-norm, which is the formula as it is said."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from model.data.tasks import find_task
from model.experiments.engines import training_comparisons
from model.experiments.engines.ab_training import learners
from model.experiments.engines.training_comparisons import COMPARISONS, SOURCES, NormOnTheShortCut
from model.network.layers import PreNorm
from tests.model.examples import network
from tests.model.network.test_attention import torchs

SIZES = {"steps": 1, "d_model": 8, "depth": 1, "warmup": 0, "task": "copy", "lengths": (3, 4)}


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr("model.experiments.engines.ab_training.PAIRS", 200)
    monkeypatch.setattr("model.experiments.engines.training_comparisons.SOURCES", 6)


def test_lengths_reach_from_the_shortest_to_the_longest_with_the_last_trained_one() -> None:
    assert training_comparisons.tested_lengths((3, 4, 5), 9) == [3, 4, 5, 6, 7, 8, 9]
    found = training_comparisons.tested_lengths(tuple(range(3, 9)), 60)
    assert 8 in found
    assert len(found) <= 15
    assert found[0] >= 3
    assert 55 < found[-1] <= 60


def test_sources_are_of_the_length_right_and_unknown() -> None:
    known = {pair.source for pair in training_comparisons.unseen("reverse", 3, set(), 1)}
    fresh = training_comparisons.unseen("reverse", 3, known, 1)
    assert known.isdisjoint(pair.source for pair in fresh)
    assert all(len(pair.source) == 3 and find_task("reverse").solve(pair.source) == pair.target for pair in fresh)
    assert SOURCES > 6 == len(fresh)
    assert not training_comparisons.unseen("sort", 1, set("0123456789"), 1)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_every_arm_is_tested_at_every_length(kind, monkeypatch) -> None:
    monkeypatch.setattr(training_comparisons, "SOURCES", 2)  # an untrained model writes on and on
    setup = training_comparisons.setup_of("positions", kind, **SIZES)
    compared = COMPARISONS["positions"].arms(setup)
    reports = list(training_comparisons.train_short_test_long(compared, setup, 5))
    side = reports[-1].result
    assert [(each.length, each.arm) for each in side.tests] == [(n, arm.name) for n in (3, 4, 5) for arm in compared]
    assert reports[0].result.due == 15
    assert not reports[0].result.done
    assert side.done
    assert reports[-1].share == pytest.approx(1.0)
    assert side.trained == 4
    assert all(0 <= each.exact <= each.tokens <= 1 for each in side.tests)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder-only"])
def test_right_to_the_character_is_what_is_written(kind, monkeypatch) -> None:
    chosen = training_comparisons.setup_of("positions", kind, **SIZES, max_length=24)
    made, _chance = learners(COMPARISONS["positions"].arms(chosen)[:1], chosen)
    pairs = training_comparisons.unseen("copy", 4, set(), 3)
    asked = []

    def answers(sources, **_options):
        asked.extend(sources)
        return [SimpleNamespace(text=pair.target if number else "wrong") for number, pair in enumerate(pairs)]

    monkeypatch.setattr(made[0].model, "generate_batch", answers)
    assert training_comparisons.answered_at(made[0], chosen, pairs, 4).exact == pytest.approx(5 / 6)
    assert asked == [pair.source + ("=" if kind == "decoder-only" else "") for pair in pairs]


def test_learned_positions_have_rows_for_the_longest_text() -> None:
    chosen = training_comparisons.setup_of("positions", "encoder-decoder", **SIZES)
    assert training_comparisons.room(chosen, 20) == 22
    with pytest.raises(ValueError, match="must be above"):
        next(training_comparisons.train_short_test_long(COMPARISONS["positions"].arms(chosen), chosen, 4))


def short_cut(x, block):
    return F.layer_norm(x, (16,), block.norm.weight, block.norm.bias, 1e-5)


def test_the_wrong_norm_is_the_sublayer_of_the_bare_stream_plus_the_normalised_stream() -> None:
    """Sublayer(x) + LayerNorm(x), by torch's own attention and layer norm."""
    model = network(norm_placement="pre").double()
    training_comparisons.put_norm_on_the_short_cut(model)
    ids = torch.tensor([[3, 4, 5, 6, 7]])
    x = model.encoder.embedding(ids)
    for layer in model.encoder.layers:
        attention = torchs(layer.self_attention, 2)
        x = attention(x, x, x, need_weights=False)[0] + short_cut(x, layer.self_attention_block)
        hidden, output = layer.feed_forward.hidden, layer.feed_forward.output
        x = output(hidden(x).relu()) + short_cut(x, layer.feed_forward_block)
    norm = model.encoder.norm
    x = F.layer_norm(x, (16,), norm.weight, norm.bias, 1e-5)
    torch.testing.assert_close(model.encode(ids), x, rtol=1e-12, atol=1e-12)


def test_every_block_is_replaced_and_no_weight() -> None:
    model = network(norm_placement="pre")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    source, target = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 4]])
    right = model(source, target)
    training_comparisons.put_norm_on_the_short_cut(model)
    blocks = [module for module in model.modules() if isinstance(module, PreNorm)]
    assert len(blocks) == 2 * 2 + 2 * 3
    assert all(type(block) is NormOnTheShortCut for block in blocks)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not torch.allclose(model(source, target), right)
