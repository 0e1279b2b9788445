"""Entropy of attention against the formula, number by number."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.analysis.head_metrics import METRICS, after_the_same, diagonal, distance, entropy, previous
from model.capture.trace import record
from tests.model.examples import network


def by_hand(rows: list[list[float]]) -> float:
    """Mean over the rows with any weight of −Σ w ln w."""
    filled = [row for row in rows if sum(row) > 0]
    each = [-math.fsum(w * math.log(w) for w in row if w > 0) for row in filled]
    return math.fsum(each) / len(each) if each else 0.0


@given(
    st.lists(
        st.lists(st.floats(0.01, 1.0) | st.just(0.0), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_it_is_the_mean_of_the_rows_entropies(rows):
    shares = [[w / (sum(row) or 1.0) for w in row] for row in rows]
    assert float(entropy(torch.tensor(shares))) == pytest.approx(by_hand(shares), abs=1e-6)


def test_one_key_is_0_and_n_equal_keys_are_the_logarithm_of_n():
    assert float(entropy(torch.eye(6))) == 0
    for n in (1, 2, 7, 1000):
        assert float(entropy(torch.full((3, n), 1 / n, dtype=torch.float64))) == pytest.approx(math.log(n))


def test_empty_rows_do_not_count():
    uniform, empty = [0.25] * 4, [0.0] * 4
    assert float(entropy(torch.tensor([empty, uniform, empty]))) == pytest.approx(math.log(4))
    assert float(entropy(torch.tensor([empty, empty]))) == 0


def test_each_layer_and_head_has_its_own():
    weights = torch.rand(3, 2, 5, 4).softmax(dim=-1)
    found = entropy(weights)
    assert found.shape == (3, 2)
    for layer in range(3):
        for head in range(2):
            assert float(found[layer, head]) == pytest.approx(by_hand(weights[layer, head].tolist()), abs=1e-6)


def test_on_the_maps_of_a_trace_it_lies_between_0_and_its_largest():
    with torch.inference_mode(), record(network()) as trace:
        network_input = torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]])
        trace.network(*network_input)
    cross = entropy(trace.attention("cross"))
    assert cross.shape == (2, 2)
    assert bool(((cross > 0) & (cross < math.log(5))).all())
    decoder = trace.attention("decoder")
    assert decoder[:, :, 0, 0].tolist() == [[1, 1], [1, 1]]  # the first token sees itself alone
    assert bool((entropy(decoder) < (math.log(2) + math.log(3)) / 3).all())


def by_definition(name: str, rows: list[list[float]], marked: list[bool]) -> float:
    """A metric as its docstring says, in plain Python; p(i) is i·(m−1)/(n−1), rounded to even where it is halfway."""
    n, m = len(rows), len(rows[0])
    found = []
    for i, row in enumerate(rows):
        place = i * (m - 1) / max(1, n - 1)
        if sum(row) == 0 or (name == "previous" and round(place) < 1):
            continue
        found.append(
            {
                "distance": math.fsum(w * abs(place - j) for j, w in enumerate(row)),
                "previous": row[round(place) - 1],
                "first": row[0],
                "special": math.fsum(w for w, here in zip(row, marked, strict=True) if here),
                "diagonal": row[round(place)],
            }[name]
        )
    return math.fsum(found) / len(found) if found else math.nan if name == "previous" else 0.0


@pytest.mark.parametrize("name", ["distance", "previous", "first", "special", "diagonal"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (6, 2), (1, 4)])
def test_each_number_is_what_its_docstring_says(name, queries, keys):
    torch.manual_seed(queries)
    weights = torch.rand(2, 3, queries, keys, dtype=torch.float64).softmax(dim=-1)
    weights[0, 0, -1] = 0  # a query with nothing to look at
    marked = torch.arange(keys) % 3 == 0
    found = METRICS[name](weights, marked)
    assert found.shape == (2, 3)
    for layer in range(2):
        for head in range(3):
            expected = by_definition(name, weights[layer, head].tolist(), marked.tolist())
            assert float(found[layer, head]) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_head_that_looks_one_back_and_one_that_looks_at_itself():
    back = torch.diag(torch.ones(4), -1)
    back[0, 0] = 1
    assert float(previous(back)) == 1
    assert float(distance(back)) == pytest.approx(4 / 5)
    assert float(diagonal(torch.eye(5))) == 1
    assert float(distance(torch.eye(5))) == 0
    assert math.isnan(float(previous(torch.ones(1, 1))))


def test_a_head_that_looks_at_what_came_after_the_same_token_before():
    words = "a b c a b a".split()
    after = after_the_same(words)
    looked = [(i, j) for i in range(6) for j in range(1, i) if words[j - 1] == words[i]]
    assert after.nonzero().tolist() == [list(each) for each in looked] == [[3, 1], [4, 2], [5, 1], [5, 4]]
    weights = torch.eye(6)
    weights[3:] = torch.tensor([[0, 1, 0, 0, 0, 0], [0, 0, 0.5, 0, 0.5, 0], [0, 0.25, 0, 0, 0.75, 0]])
    assert float(METRICS["induction"](weights, after)) == pytest.approx((1 + 0.5 + 1) / 3)
    assert math.isnan(float(METRICS["induction"](torch.eye(3), after_the_same("abc"))))


def test_a_doubled_token_makes_no_induction_of_a_head_that_looks_at_itself():
    after = after_the_same("aaaab")
    assert after.nonzero().tolist() == [[2, 1], [3, 1], [3, 2]]
    assert float(METRICS["induction"](torch.eye(5), after)) == 0
    back = torch.diag(torch.ones(4), -1)
    assert float(METRICS["induction"](back, after)) == 1
    assert math.isnan(float(METRICS["induction"](torch.eye(2), after_the_same("aa"))))
