"""Rules of masks that the page switches, and texts of a padded batch."""

from __future__ import annotations

from model.capture.interventions import Causal, Cells, PaddingSeen, Window
from tests.model.examples import one_stack
from viz.i18n.format import token_code
from viz.pages.masks.batch import parts_of
from viz.pages.masks.rules import Rules, with_cells


def test_rules_are_the_models_own_and_what_the_changes_made_of_them():
    config = one_stack("decoder-only", window=4).config
    own = Rules.of(config, "decoder")
    assert own == Rules("decoder", True, True, 4)
    assert Rules.of(config, "cross") == Rules("cross", False, True, None)
    cell = Cells("decoder", False, 1, 1)
    changes = [cell, Causal("decoder", False), Window("encoder", 2)]
    now = own.after(changes)
    assert now == Rules("decoder", False, True, 4)
    assert own.changes(changes, own) == [cell, Window("encoder", 2)]
    wanted = Rules("decoder", True, False, None)
    assert wanted.changes(changes, own) == [cell, Window("encoder", 2), PaddingSeen("decoder"), Window("decoder", None)]
    assert own.after(wanted.changes(changes, own)) == wanted


def test_a_second_click_takes_a_change_back():
    cell, other = Cells("decoder", False, 1, 0), Cells("decoder", False, 1, None)
    changes = with_cells(with_cells([], cell), other)
    assert changes == [cell, other]
    assert with_cells(changes, Cells("decoder", True, 1, 0)) == [other]
    assert with_cells(changes, Cells("decoder", True, 1, 0, layer=0)) == [
        *changes,
        Cells("decoder", True, 1, 0, layer=0),
    ]


def test_a_text_is_cut_at_sentence_ends_or_in_halves():
    assert parts_of("I am. You are! Yes") == ["I am. You are! Yes", "I am.", "You are!", "Yes"]
    assert parts_of("我是。你是？") == ["我是。你是？", "我是。", "你是？"]
    assert parts_of("one two three") == ["one two three", "one", "two three"]
    assert parts_of("abcd") == ["abcd", "ab", "cd"]
    assert parts_of("") == ["", "", ""]


def test_a_token_in_a_sentence_means_nothing():
    assert token_code("a`b") == "`` a`b ``"
    assert token_code("\n") == "`⏎`"
    assert token_code("<b>") == "`<b>`"
