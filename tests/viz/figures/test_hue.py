"""Hues of runs, layers and tensors: none is the blue of attention."""

from __future__ import annotations

from viz.figures.colours import BLUE, hue


def test_no_hue_is_attentions_and_neighbours_are_far_apart():
    hues = [hue(number, turn) for number in range(200) for turn in (0, 65, 130)]
    assert not [each for each in hues if BLUE[0] < each < BLUE[1]]
    assert min(abs(hue(number) - hue(number + 1)) for number in range(60)) > 40
