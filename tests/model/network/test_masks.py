"""Masks against the rule read cell by cell."""

from itertools import product

import torch
from hypothesis import given
from hypothesis import strategies as st

from model.network.masks import Mask, real_tokens

CPU = torch.device("cpu")


@given(st.data())
def test_visible_is_all_rules_together(data):
    batch, queries, keys = (data.draw(st.integers(1, 5)) for _ in range(3))
    is_causal, window = data.draw(st.booleans()), data.draw(st.none() | st.integers(1, 4))
    odd = data.draw(st.booleans())
    row = st.lists(st.booleans(), min_size=keys, max_size=keys)
    real = data.draw(st.lists(row, min_size=batch, max_size=batch))
    mask = Mask(torch.tensor(real), is_causal, window, (lambda query, key: key % 2 == 1) if odd else None)
    visible = mask.visible(queries, keys, CPU)
    assert visible.shape == (batch, 1, queries, keys)
    for example, query, key in product(range(batch), range(queries), range(keys)):
        distance = (keys - key) - (queries - query)  # the last query stands where the last key does
        expected = real[example][key] and (distance >= 0 or not is_causal)
        expected &= (window is None or abs(distance) < window) and (key % 2 == 1 or not odd)
        assert bool(visible[example, 0, query, key]) == expected


def test_without_padding_one_rule_serves_the_batch():
    visible = Mask().visible(2, 3, CPU)
    assert visible.shape == (1, 1, 2, 3)
    assert visible.all()
    assert torch.equal(Mask(causal=True).visible(3, 3, CPU)[0, 0], torch.ones(3, 3).tril().bool())


def test_real_tokens_are_those_that_are_not_padding():
    ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
    assert real_tokens(ids, 0).tolist() == [[True, True, False], [True, False, False]]
    assert real_tokens(ids, 9) is None
