"""What the figures share is written down once."""

from __future__ import annotations

import re

from tests.test_rooms import ROOT, files
from viz.ui.plots import PINNED


def test_what_is_pinned_has_one_colour_everywhere() -> None:
    defined = re.compile(r"\bPINNED\b[^=\n]*= .*\"#[0-9a-f]{6}\"")
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in files("viz")}
    assert [file for file, source in sources.items() if defined.search(source)] == ["viz/ui/plots.py"]
    assert [file for file, source in sources.items() if PINNED in source] == ["viz/ui/plots.py"]
