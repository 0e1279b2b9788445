"""What describes a head's attention against the formulas in plain Python; entropy against torch's own function too."""

import math

import pytest
import torch
from torch.testing import assert_close

from model.analysis import head_metrics
from model.analysis.head_metrics import METRICS


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_terms_of_the_entropy_are_those_of_torch(dtype):
    drawn = torch.randn(4, 300).mul(6).softmax(dim=-1)
    p = torch.cat([drawn, torch.eye(3, 300), torch.full((1, 300), 1e-7)]).to(dtype)
    kept = p.clone()
    terms = head_metrics.entropy_terms(p)
    assert terms.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_close(terms.double(), torch.special.entr(p.double()), rtol=2e-6, atol=1e-10)
    assert torch.equal(p, kept)


def test_nothing_surprises_where_one_is_sure_and_most_where_all_are_equal():
    p = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.25] * 4, [0.5, 0.5, 0.0, 0.0], [math.nan, 0.5, 0.5, 0.0]])
    assert head_metrics.entropies(p)[:3].tolist() == pytest.approx([0.0, math.log(4), math.log(2)])
    assert head_metrics.entropies(p)[3].isnan()
    assert float(head_metrics.entropy(torch.eye(6))) == 0
    for n in (1, 2, 7, 1000):
        assert float(head_metrics.entropy(torch.full((3, n), 1 / n, dtype=torch.float64))) == pytest.approx(math.log(n))


def by_definition(name: str, rows: list[list[float]], marked: list[bool]) -> float:
    """A metric as its docstring says, in plain Python; p(i) is i·(m−1)/(n−1), rounded to even where it is halfway."""
    n, m = len(rows), len(rows[0])
    values = []
    for i, row in enumerate(rows):
        place = i * (m - 1) / max(1, n - 1)
        if sum(row) == 0 or (name == "previous" and round(place) < 1):
            continue
        values.append(
            {
                "distance": math.fsum(w * abs(place - j) for j, w in enumerate(row)),
                "previous": row[round(place) - 1],
                "first": row[0],
                "special": math.fsum(w for w, here in zip(row, marked, strict=True) if here),
                "diagonal": row[round(place)],
                "entropy": -math.fsum(w * math.log(w) for w in row if w > 0),
            }[name]
        )
    return math.fsum(values) / len(values) if values else math.nan if name == "previous" else 0.0


@pytest.mark.parametrize("name", ["entropy", "distance", "previous", "first", "special", "diagonal"])
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


def test_a_head_that_looks_at_what_came_after_the_same_token_before():
    words = "a b c a b a".split()
    after = head_metrics.after_the_same(words)
    looked = [(i, j) for i in range(6) for j in range(1, i) if words[j - 1] == words[i]]
    assert after.nonzero().tolist() == [list(each) for each in looked] == [[3, 1], [4, 2], [5, 1], [5, 4]]
    weights = torch.eye(6)
    weights[3:] = torch.tensor([[0, 1, 0, 0, 0, 0], [0, 0, 0.5, 0, 0.5, 0], [0, 0.25, 0, 0, 0.75, 0]])
    assert float(METRICS["induction"](weights, after)) == pytest.approx((1 + 0.5 + 1) / 3)
    assert math.isnan(float(METRICS["induction"](torch.eye(3), head_metrics.after_the_same("abc"))))


def test_a_doubled_token_makes_no_induction_of_a_head_that_looks_at_itself():
    after = head_metrics.after_the_same("aaaab")
    assert after.nonzero().tolist() == [[2, 1], [3, 1], [3, 2]]
    assert float(METRICS["induction"](torch.eye(5), after)) == 0
    back = torch.diag(torch.ones(4), -1)
    assert float(METRICS["induction"](back, after)) == 1
    assert math.isnan(float(METRICS["induction"](torch.eye(2), head_metrics.after_the_same("aa"))))
