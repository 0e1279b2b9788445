"""Tokens that never occurred in a training: found by their lengths where these tell it, else beside its beginning."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from model.analysis.weights.health import apart, health, unmoved, unmoved_tokens
from model.checkpoints.tensors import tensor_table
from tests.model.analysis.weights.test_statistics import info
from tests.model.tensor_files import all_statistics, raw_safetensors

VOCABULARY, NEVER = 60, (7, 31, 32, 58)
NAME = "decoder.embedding.tokens.weight"


def trained(spread: float, rate: float, decay: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding of a model that learns the next of two tokens, at first and at last; some tokens never occur."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, 24), nn.Linear(24, VOCABULARY))
    embedding: torch.Tensor = model[0].weight
    with torch.no_grad():
        embedding.mul_(spread)
    before = embedding.detach().clone()
    occur = torch.tensor([token for token in range(VOCABULARY) if token not in NEVER])
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    for _step in range(60):
        text = occur[torch.randint(len(occur), (200,))]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(text), text.roll(1)).backward()
        optimizer.step()
    return before, embedding.detach().clone()


def found(after: torch.Tensor, **more: torch.Tensor) -> dict[str, tuple[int, ...]]:
    infos = [info(name, tensor) for name, tensor in ({NAME: after} | more).items()]
    measured = {each.place: values for each, values in all_statistics(infos)}
    return {each.kind: each.rows for each in health(infos, measured) if each.tensor == NAME}


def test_rows_as_they_began_stand_out_where_the_others_have_grown():
    _before, after = trained(spread=0.02, rate=0.02)
    (kind,) = kinds = found(after)
    assert kind in ("odd_tokens", "short_tokens")
    assert kinds[kind] == NEVER


def test_weight_decay_leaves_next_to_nothing_of_them():
    """Where a token never comes, AdamW's decay is all that happens to its row."""
    _before, after = trained(spread=1.0, rate=0.1, decay=1.0)
    assert found(after)["short_tokens"] == NEVER


def test_what_lengths_cannot_tell_the_beginning_does():
    before, after = trained(spread=1.0, rate=1e-3)
    assert found(after) == {}
    (told,) = unmoved_tokens([info(NAME, after)], [info(NAME, before)], "step-0")
    assert (told.kind, told.rows, told.other) == ("unmoved_tokens", NEVER, "step-0")
    assert told.number == pytest.approx(len(NEVER) / VOCABULARY)
    assert unmoved_tokens([info(NAME, after)], [info(NAME, before[1:])], "x") == []
    assert unmoved_tokens([info(NAME, after)], [info("other.weight", before)], "x") == []
    assert unmoved_tokens([info(NAME, after)], [info(NAME, after)], "x") == []  # nothing moved at all


def test_rows_of_zeros_and_equal_rows_are_told_apart():
    rows = torch.randn(50, 64)
    rows[[3, 9]] = 0
    rows[[5, 40]] = rows[4].clone()
    assert found(rows) == {"zero_tokens": (3, 9), "same_tokens": (4, 5, 40)}
    assert found(torch.zeros(50, 64)) == {"zero": ()}


WORDS = ("output.logits.weight", "lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight", "head.weight")


@pytest.mark.parametrize("name", WORDS)
def test_an_output_matrix_of_its_own_is_looked_at_too(name):
    """Made for it: two rows of zeros, three equal ones, two that no step moved."""
    before = torch.randn(50, 64)
    after = before + 0.1 * torch.randn(50, 64)
    after[[3, 9]] = 0
    after[[5, 40]] = after[4].clone()
    after[[20, 21]] = before[[20, 21]]
    infos = [info(NAME, torch.randn(50, 64)), info(name, after)]
    measured = {each.place: values for each, values in all_statistics(infos)}
    told = {(each.kind, each.tensor): (each.rows, each.number) for each in health(infos, measured)}
    zero, same = ("zero_tokens", name), ("same_tokens", name)
    assert told == {zero: ((3, 9), pytest.approx(2 / 50)), same: ((4, 5, 40), pytest.approx(3 / 50))}
    (unmoved_rows,) = unmoved_tokens(infos, [info(name, before)], "step-0")
    assert (unmoved_rows.tensor, unmoved_rows.rows, unmoved_rows.number) == (name, (20, 21), pytest.approx(2 / 50))


def test_a_tied_output_matrix_is_told_once():
    rows = torch.randn(50, 64)
    rows[[3, 9]] = 0
    tied = [info("lm_head.weight", rows, "place"), info("model.embed_tokens.weight", rows, "place")]
    twice = [info("lm_head.weight", rows), info("model.embed_tokens.weight", rows.clone())]
    for infos, kinds in ((tied, ["zero_tokens"]), (twice, ["zero_tokens", "copy"])):
        measured = {each.place: values for each, values in all_statistics(infos)}
        told = health(infos, measured)
        assert [each.kind for each in told] == kinds
    assert health(tied, {"place": measured["lm_head.weight"]})[0].tensor == "model.embed_tokens.weight"


def test_the_rule_by_hand():
    """ln ‖row‖ is 0 of nine rows, ±0.1 of eight: median 0, median distance 0.1, five deviations of it 0.7413."""
    logarithms = torch.tensor([0.0] * 8 + [0.1] * 6 + [-0.1] * 6 + [0.75, 0.73, -0.75])
    expected = torch.tensor([False] * 20 + [True, False, True])
    assert torch.equal(apart(logarithms.exp()), expected)
    narrow = torch.tensor([1.0] * 20 + [1.24, 1.26])  # no deviation at all: a quarter decides
    assert apart(narrow).nonzero().flatten().tolist() == [21]
    assert not apart(torch.zeros(9)).any()


@pytest.mark.parametrize(("shape", "dtype", "size"), [([5, 0], "F32", 0), ([0, 4], "F32", 0), ([4, 4], "F6_E2M3", 12)])
def test_an_embedding_without_values_that_torch_knows_is_left_out(shape, dtype, size, tmp_path):
    header = {"wte.weight": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    table = tensor_table(raw_safetensors(tmp_path / "x.safetensors", header, bytes(size)))
    assert unmoved_tokens(table, table, "itself") == []


def test_rows_are_compared_by_their_values_and_nan_is_none():
    before = torch.randn(4000, 600)
    after = before.clone()
    after[1, 2] += 1e-6
    after[3000, 5] = before[3000, 5] = torch.nan
    assert (~unmoved(before, after)).nonzero().flatten().tolist() == [1, 3000]
    assert unmoved(before.half(), before.half().float())[0]
