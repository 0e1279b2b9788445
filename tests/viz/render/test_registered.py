"""What the application imports to draw a page registers the renderers of the page's figures."""

from __future__ import annotations

import subprocess
import sys

from tests.browser.server import ROOT

UNKNOWN = """
import importlib, inspect
from viz.figures.figure import Figure
from viz.frame.app import PAGES
from viz.render.renderer import RENDERERS

for path in PAGES.values():
    importlib.import_module(path.removesuffix(".py").replace("/", "."))
kinds = [Figure]
for kind in kinds:
    kinds += kind.__subclasses__()
drawn = [kind for kind in kinds[1:] if not inspect.isabstract(kind)]
print([kind.__name__ for kind in drawn if kind not in RENDERERS])
"""


def test_every_figure_of_a_page_can_be_drawn_in_a_process_that_has_imported_pages_alone():
    done = subprocess.run([sys.executable, "-c", UNKNOWN], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
