"""Which tokens are one word or one character, and that rows of merged weights still sum to 1."""

from __future__ import annotations

import math

import pytest
import torch

from model.analysis.pieces import pieces


@pytest.mark.parametrize(
    ("labels", "inside", "words"),
    [
        ("▁un happi ness ▁, ▁ x ray ' s", "", ["▁unhappiness", "▁,", "▁xray", "'", "s"]),
        ("H e l l o ▁ 1 9", "", ["Hello", "▁19"]),
        ("[CLS] un ##aff ##able . 我 爱 red", "##", ["[CLS]", "unaffable", ".", "我", "爱", "red"]),
        ("## ##s", "##", ["##s"]),
        ("▁ 你好 吗 ab cd", "", ["▁", "你好", "吗", "abcd"]),
        ("▁при вет ▁स्त े", "", ["▁привет", "▁स्ते"]),
        ("▁<0xE4> <0xBD> <0xA0> 好 <0xF0><0x9F> <0x98><0x80>", "", ["▁你", "好", "😀"]),
        ("▁na <0xC3> <0xAF> ve <0xE4> a", "", ["▁naïve", "<0xE4>", "a"]),
        ("", "", []),
    ],
)
def test_tokens_of_a_word_and_bytes_of_a_character_are_one(labels, inside, words):
    assert pieces(labels.split(), {"[CLS]"}, inside).labels == words


def test_a_special_token_is_alone_though_letters_meet():
    runs = pieces(["ab", "cd", "mask", "ef"], {"mask"})
    assert (runs.labels, runs.firsts, runs.run_of) == (["abcd", "mask", "ef"], [0, 2, 3], [0, 0, 1, 2])
    assert (list(runs.of(0)), list(runs.of(2)), runs.joined) == ([0, 1], [3], True)
    assert not pieces(["▁a", "▁b"], ()).joined


def test_rows_are_averaged_and_columns_added_up_so_that_rows_sum_to_one():
    runs = pieces("▁a b ▁c d e ▁f".split(), ())
    weights = torch.randn(2, 6, 6, dtype=torch.float64).softmax(dim=-1)
    merged = runs.sum(runs.mean(weights, -2), -1)
    groups = [[0, 1], [2, 3, 4], [5]]
    by_hand = [[weights[:, rows][..., columns].sum((1, 2)) / len(rows) for columns in groups] for rows in groups]
    torch.testing.assert_close(merged, torch.stack([torch.stack(row, -1) for row in by_hand], 1), rtol=0, atol=1e-15)
    torch.testing.assert_close(merged.sum(-1), torch.ones(2, 3, dtype=torch.float64), rtol=0, atol=1e-12)


def test_a_mean_leaves_masked_cells_out_and_tells_what_is_not_a_number():
    runs = pieces("▁a b ▁c d ▁e f".split(), ())
    found = runs.mean(torch.tensor([-math.inf, 3.0, -math.inf, -math.inf, math.nan, 1.0]), 0)
    torch.testing.assert_close(found, torch.tensor([3.0, -math.inf, math.nan]), equal_nan=True)


def test_the_largest_the_last_and_the_first_of_many():
    runs = pieces("▁a b ▁c".split(), ())
    values = torch.tensor([[-3.0, -2.0, 5.0], [1.0, 0.5, -1.0]])
    assert runs.largest(values, 1).tolist() == [[-2.0, 5.0], [1.0, -1.0]]
    assert runs.largest(torch.tensor([False, True, False]), 0).tolist() == [True, False]
    assert runs.last(values, 1).tolist() == [[-2.0, 5.0], [0.5, -1.0]]
    assert (runs.of_first(1).firsts, runs.of_first(4).run_of) == ([0], [0, 0, 1, 2])


@pytest.mark.parametrize(
    ("labels", "inside", "first", "words"),
    [
        (["▁un", "fat", "hom"], "", 2, ["▁unfat"]),
        (["un", "##fat", "##hom"], "##", 2, ["unfat"]),
        (["▁a", "<0xE7>", "<0xBA>", "<0xA2>"], "", 3, ["▁a", "<0xE7><0xBA>"]),
        (["▁a", "▁b", "c"], "", 1, ["▁a"]),
    ],
)
def test_a_run_that_is_cut_is_named_by_what_is_left_of_it(labels, inside, first, words):
    assert pieces(labels, [], inside).of_first(first).labels == words
