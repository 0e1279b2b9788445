"""Dot product against cosine: by hand, and against numpy, query by query."""

import math

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps
from model.capture.trace import record
from model.experiments.engines.similarity import agreement, cosines, dots, plane, rank_keys, ranks, spearman
from model.runtime.errors import MissingQuantityError
from tests.model.checkpoints.bridge.models import bridged, inputs
from tests.viz.small import small_model


def ranked(values: np.ndarray) -> np.ndarray:
    """Mean ranks, counted pair by pair."""
    return np.array([(values < each).sum() + ((values == each).sum() + 1) / 2 for each in values])


def test_the_plane_by_hand():
    dot, norm, cosine = plane([(2.0, 0.0), (1.0, 0.0), (3.0, 4.0), (0.0, 0.0)])
    assert dot.tolist() == [2, 6, 0]
    assert norm.tolist() == [2, 1, 5, 0]
    assert cosine[:2].tolist() == pytest.approx([1, 0.6])
    assert math.isnan(cosine[2])  # no direction


def test_equal_values_share_their_rank():
    assert ranks(torch.tensor([[3.0, 1.0, 3.0, 2.0]])).tolist() == [[3.5, 1, 3.5, 2]]
    values = torch.randint(0, 4, (20, 9)).double()
    assert np.allclose(ranks(values), [ranked(row) for row in values.numpy()])


def test_the_rank_correlation_counts_visible_keys_alone():
    one, other = torch.randn(30, 8).double(), torch.randint(0, 3, (30, 8)).double()
    visible = torch.rand(30, 8) < 0.7
    visible[0], visible[1, 1:] = False, False
    found = spearman(one, other, visible)
    for row in range(30):
        seen = visible[row].numpy()
        first, second = ranked(one[row].numpy()[seen]), ranked(other[row].numpy()[seen])
        if seen.sum() < 2 or len(set(second)) < 2:
            assert math.isnan(found[row])
        else:
            assert float(found[row]) == pytest.approx(np.corrcoef(first, second)[0, 1], abs=1e-12)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_models_agreement_is_that_counted_query_by_query(tmp_path, kind):
    model = small_model(tmp_path / "a", n_key_value_heads=1)
    trace = model.trace("The cat sees the dog.", model.target_tokenizer.label(6) * 4)
    maps = Maps(trace, kind)
    found = agreement(maps)
    assert found.same_best.shape == (maps.layers, maps.heads, maps.queries)
    visible = trace[f"{maps.paths[1]}.visible"].numpy()
    query = trace[f"{maps.paths[1]}.query"][1].double().numpy()
    key = trace[f"{maps.paths[1]}.key"][0].double().numpy()  # shared by all heads
    for place in range(maps.queries):
        seen = visible[place]
        dot = (key @ query[place])[seen]
        cosine = dot / np.linalg.norm(key, axis=1)[seen]
        one = rank_keys(maps, 1, 1, place)
        assert one.places == seen.nonzero()[0].tolist()
        assert np.allclose(one.dot, dot)
        assert np.allclose(one.cosine, cosine / np.linalg.norm(query[place]))
        assert one.correlation == pytest.approx(float(found.correlation[1, 1, place]), abs=1e-9, nan_ok=True)
        if len(dot) < 2:
            assert math.isnan(found.same_best[1, 1, place])
            continue
        assert found.same_best[1, 1, place] == (dot.argmax() == cosine.argmax())
        expected = np.corrcoef(ranked(dot), ranked(cosine))[0, 1]
        assert float(found.correlation[1, 1, place]) == pytest.approx(expected, abs=1e-9)
    assert found.share == pytest.approx(float(np.nanmean(found.same_best.numpy())))


@pytest.mark.parametrize("compared", [agreement, lambda maps: rank_keys(maps, 0, 0, 0)])
def test_a_model_that_shows_no_queries_says_so(compared):
    network = bridged("gptj")
    with torch.inference_mode(), record(network) as trace:
        network(*inputs(network))
    with pytest.raises(MissingQuantityError, match="query"):
        compared(Maps(trace, "decoder"))


def test_a_vector_without_a_direction_has_no_rank(tmp_path):
    trace = small_model(tmp_path / "a").trace("The cat sees the dog.")
    maps = Maps(trace, "encoder")
    with torch.inference_mode():
        trace[f"{maps.paths[0]}.query"][0, 1] = 0.0
        trace[f"{maps.paths[1]}.key"][1, 2] = 0.0
    found = agreement(maps)
    for numbers in (found.same_best, found.correlation):
        assert bool(numbers[0, 0, 1].isnan())
        assert bool(numbers[1, 1].isnan().all())
        assert not bool(numbers[0, 1].isnan().any())


def test_of_a_long_text_every_kth_query_is_ranked(tmp_path, monkeypatch):
    model = small_model(tmp_path / "a")
    trace = model.trace("The cat sees the dog.")
    maps = Maps(trace, "encoder")
    whole = agreement(maps)
    monkeypatch.setattr("model.analysis.attention_maps.CELLS", maps.heads * maps.queries * maps.keys // 2)
    half = agreement(maps)
    assert half.queries.tolist() == list(range(0, maps.queries, 2))
    assert torch.equal(half.correlation, whole.correlation[..., ::2])


def test_equal_lengths_agree_and_others_need_not():
    key = torch.randn(50, 6)
    query = torch.randn(10, 6)
    equal = key / key.norm(dim=-1, keepdim=True)
    assert torch.equal(dots(query, equal).argsort(dim=-1), cosines(query, equal).argsort(dim=-1))
    longer = equal * torch.linspace(0.1, 9, 50)[:, None]
    assert not torch.equal(dots(query, longer).argmax(dim=-1), cosines(query, longer).argmax(dim=-1))
