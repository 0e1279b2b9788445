"""QR codes: the path covers the dark modules, no others, and leaves the quiet zone free."""

from __future__ import annotations

import re

import pytest
import segno

from viz.ui.qr import BORDER, code_data, qr_code

LINK = "https://vitrine.example.org/class/?join=2-KWT4MZ"


def test_the_path_covers_the_dark_modules_and_no_others():
    code, reference = qr_code(LINK), segno.make(LINK, error="m", micro=False)
    covered = set()
    for x, y, length, back in re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", code.path):
        assert length == back
        covered |= {(int(x) + step, int(y)) for step in range(int(length))}
    rows = list(reference.matrix)
    assert code.size == len(rows) + 2 * BORDER
    assert covered == {(x + BORDER, y + BORDER) for y, row in enumerate(rows) for x, dark in enumerate(row) if dark}


def test_a_text_that_is_too_long_is_an_error():
    with pytest.raises(ValueError, match=r"too large|does not fit|Data too"):
        qr_code("x" * 5000)


def test_a_link_has_a_code_and_another_text_none():
    assert code_data(LINK) == {"href": LINK, "size": qr_code(LINK).size, "path": qr_code(LINK).path}
    assert code_data("javascript:alert(1)") is None
    assert code_data(f"{LINK}&source={'x' * 5000}") is None
