"""What each head is good for, against models whose W^O was cut by hand, in float64; likeness, against numpy."""

import copy

import numpy as np
import pytest
import torch

from model.analysis import head_importance
from model.analysis.head_importance import Removals
from model.analysis.head_metrics import likeness, map_distance
from model.analysis.predictions import UNKNOWN, actual_tokens
from model.capture.interventions import Causal, RemovedHead, intervening
from model.inference.text_model import TextModel
from model.text.tokenizer import Tokens
from tests.model import elsewhere
from tests.model.capture.test_head_removal import without_columns
from tests.model.examples import sentences

PAIRS = sentences(20)
KINDS = {"encoder-decoder": ["encoder", "decoder", "cross"], "decoder-only": ["decoder"], "encoder-only": ["encoder"]}


def model_of(kind: str, **options) -> TextModel:
    model = elsewhere.model_of(kind, **options)
    model.network.double()
    return model


def texts(model: TextModel) -> tuple[Tokens, Tokens | None, list[int]]:
    source = model.source_tokens(PAIRS[0].source)
    target = model.target_tokens(PAIRS[0].target) if model.kind == "encoder-decoder" else None
    return source, target, actual_tokens(model.kind, (target or source).ids, model.target_tokenizer.end, None)


def logs_of(network, source: Tokens, target: Tokens | None) -> np.ndarray:
    """ln p by numpy, in float64."""
    with torch.inference_mode():
        logits = network(*(torch.tensor([text.ids]) for text in (source, target) if text))[0].numpy()
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def lost(cut, plain, source: Tokens, target: Tokens | None, actual: list[int]) -> float:
    """By how much the mean loss of `cut` is above that of `plain`."""
    return mean_loss(logs_of(cut, source, target), actual) - mean_loss(logs_of(plain, source, target), actual)


def mean_loss(logs: np.ndarray, actual: list[int]) -> float:
    return float(np.mean([-logs[row, token] for row, token in enumerate(actual) if token != UNKNOWN]))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("at_once", "places"), [(1, 3), (4096, 512)])
def test_it_is_what_a_model_loses_whose_matrix_was_cut(kind, at_once, places, monkeypatch):
    monkeypatch.setattr(head_importance, "AT_ONCE", at_once)
    monkeypatch.setattr(head_importance, "PLACES", places)
    model = model_of(kind)
    source, target, actual = texts(model)
    removals = Removals(model, source, target, actual)
    found = dict(removals.each(KINDS[kind]))
    assert list(found) == removals.places(KINDS[kind])
    assert len(found) == 2 * 2 * len(KINDS[kind])
    plain = logs_of(model.network, source, target)
    assert removals.loss == pytest.approx(mean_loss(plain, actual), abs=1e-5)
    for place, effect in found.items():
        logs = logs_of(without_columns(model.network, RemovedHead(*place)), source, target)
        kl = (np.exp(plain) * (plain - logs)).sum(axis=-1)
        assert effect.loss == pytest.approx(mean_loss(logs, actual) - mean_loss(plain, actual), abs=1e-5)
        assert effect.moved == pytest.approx(kl.max(), abs=1e-5)
        assert effect.position == int(kl.argmax())


def test_a_bare_encoder_loses_a_share_of_its_states():
    model = model_of("encoder-only", output_head="none")
    source, target, actual = texts(model)
    removals = Removals(model, source, target, actual)
    assert np.isnan(removals.loss)
    ids = torch.tensor([source.ids])
    for place, effect in removals.each(["encoder"]):
        with torch.inference_mode():
            plain = model.network.states(ids)[0].numpy()
            moved = without_columns(model.network, RemovedHead(*place)).states(ids)[0].numpy() - plain
        each = np.linalg.norm(moved, axis=-1) / np.linalg.norm(plain, axis=-1)
        assert effect.loss == pytest.approx(np.linalg.norm(moved) / np.linalg.norm(plain), abs=1e-5)
        assert (effect.moved, effect.position) == (pytest.approx(each.max(), abs=1e-5), int(each.argmax()))


def test_several_heads_are_removed_together_and_beside_other_changes():
    model = model_of("encoder-decoder")
    text = source, target, actual = texts(model)
    cut = without_columns(model.network, RemovedHead("cross", 1, 0))
    both = without_columns(cut, RemovedHead("encoder", 0, 1))
    effect = Removals(model, *text).without(("encoder", 0, 1), ("cross", 1, 0))
    assert effect.loss == pytest.approx(lost(both, model.network, *text), abs=1e-5)
    changes = [Causal("decoder", False), RemovedHead("decoder", 0, 0)]
    removals = Removals(model, *text, changes)
    with intervening(model.network, changes), intervening(cut, changes):
        assert removals.loss == pytest.approx(mean_loss(logs_of(model.network, source, target), actual), abs=1e-5)
        expected = lost(cut, model.network, *text)
    assert removals.without(("cross", 1, 0)).loss == pytest.approx(expected, abs=1e-5)
    again = dict(removals.each(["decoder"]))
    assert again["decoder", 0, 0].loss == pytest.approx(0, abs=1e-6)  # it was removed already


def test_nothing_changes_outside_of_the_generator():
    """It can be left at any head: no change stays behind."""
    model = model_of("decoder-only")
    source, target, actual = texts(model)
    before, kept = logs_of(model.network, source, target), copy.deepcopy(model.network.state_dict())
    measuring = Removals(model, source, target, actual).each(["decoder"])
    next(measuring)
    assert np.array_equal(logs_of(model.network, source, target), before)
    measuring.close()
    assert not torch.is_inference_mode_enabled()
    assert all(torch.equal(kept[name], value) for name, value in model.network.state_dict().items())


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_likeness_is_that_of_numpy(kind):
    model = model_of("encoder-decoder")
    source, target, _actual = texts(model)
    trace = model.trace_tokens(source, target)
    found = likeness(trace, kind, 1, 0)
    given, weights = [], trace.attention(kind).numpy()
    for path in trace.attention_paths(kind):
        matrix = trace.module(path).output.weight.detach().numpy()
        width = model.config.d_head
        heads = trace[f"{path}.heads"].numpy()
        given.append([heads[h] @ matrix[:, h * width : (h + 1) * width].T for h in range(2)])
    for layer, head in np.ndindex(2, 2):
        one, other = given[layer][head].ravel(), given[1][0].ravel()
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert float(found.outputs[layer, head]) == pytest.approx(cosine, abs=1e-9)
        p, q = weights[layer, head], weights[1, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [np.nan_to_num(each * np.log2(each / ((p + q) / 2))).sum(axis=-1) for each in (p, q)]
        expected = np.sqrt(np.clip((parts[0] + parts[1]) / 2, 0, 1)).mean()
        assert float(found.maps[layer, head]) == pytest.approx(expected, abs=1e-6)
    assert found.maps[1, 0] == 0
    assert found.nearest(1, 0) == max([(0, 0), (0, 1), (1, 1)], key=lambda place: found.outputs[place])


def test_the_distance_is_0_of_one_map_and_1_of_two_that_share_no_key():
    p, q = torch.tensor([[[1.0, 0, 0], [0.5, 0.5, 0]]]).double(), torch.tensor([[[0, 0.5, 0.5], [0, 0, 1.0]]]).double()
    assert map_distance(p, q).tolist() == [[pytest.approx(1, abs=1e-15)] * 2]
    assert map_distance(p, p).tolist() == [[0, 0]]


def test_a_removed_head_is_like_no_other():
    model = model_of("decoder-only")
    source, _target, _actual = texts(model)
    with intervening(model.network, [RemovedHead("decoder", 0, 1)]):
        trace = model.trace_tokens(source)
    found = likeness(trace, "decoder", 0, 0)
    assert found.outputs[0, 1].isnan()
    assert found.nearest(0, 0) in [(1, 0), (1, 1)]
    assert likeness(trace, "decoder", 0, 1).nearest(0, 1) is None


def test_a_long_text_is_compared_at_queries_spread_over_it():
    model = model_of("decoder-only", max_length=200)
    trace = model.trace_tokens(model.source_tokens(" ".join(pair.source for pair in PAIRS[:12])))
    found = likeness(trace, "decoder", 0, 0)
    length = len(trace.source_tokens)
    assert length > 64
    assert found.queries == 64
    places = np.linspace(0, length - 1, 64).round().astype(int)
    weights = trace.attention("decoder")[1, 1, places].double()
    chosen = trace.attention("decoder")[0, 0, places].double()
    assert float(found.maps[1, 1]) == pytest.approx(float(map_distance(weights[None], chosen[None]).mean()), abs=1e-8)
