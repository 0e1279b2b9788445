"""Figures of a page in Python and in a notebook: the page's own numbers, in files that run nothing of a text."""

from __future__ import annotations

import html
import json
import re
import sys
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from torch.testing import assert_close

import viz.notebook
from model.capture.interventions import intervening, read_changes
from model.capture.trace import Trace
from model.checkpoints.load import open_checkpoint
from tests.app_reading import body, opened, sound
from tests.browser.alone import HOSTILE
from tests.viz.components.test_registry import unpack
from viz.figures.axis import Axis, Scale
from viz.figures.figure import Caption, Figure
from viz.figures.heatmap import Heatmap
from viz.frame.python_code import ROOT
from viz.notebook import figures, show
from viz.state.session import Key

SOURCE, CHANGES = "She bought a red car yesterday.", "cross.2.0:remove"


def test_figures_of_a_page_have_the_numbers_of_the_model(model):
    page = figures(model, "attention", SOURCE, attention="cross", layer=2, head=5, query=3, changes=CHANGES)
    source = model.source_tokens(SOURCE)
    target = model.trace_generated(source)[1]
    with intervening(model.network, read_changes(CHANGES)):
        trace = model.trace_tokens(source, target)
    assert_close(page.trace.attention("cross"), trace.attention("cross"))
    weights = trace.attention("cross")[2, 5].flatten().numpy()
    np.testing.assert_allclose(page["head_large"].table()["weight"], weights, atol=1e-6)
    assert page["head_large"].caption.code == 'page.trace.attention("cross")[2, 5]'
    assert page["stages"].caption.name.endswith("3.6")
    clicks = {click for click, _key, _data in page.choices.views}
    assert len(clicks) == trace.attention("cross").shape[:2].numel()  # every head can be pressed


def test_words_are_of_the_language_that_is_asked_for(model):
    page = figures(model, "residual", language="zh", residual_view="stream")
    assert page["residual_map"].caption.name == "经过每个块之后"


def test_what_is_not_there_is_a_sentence(model):
    with pytest.raises(ValueError, match="there is no page 'attentions'"):
        figures(model, "attentions")
    with pytest.raises(KeyError, match="there is no figure 'head'"):
        figures(model, "attention")["head"]


def test_a_picture_is_a_frame_that_asks_for_nothing_and_runs_nothing_of_a_text():
    names = [*HOSTILE, "plain"]
    values = np.eye(len(names), dtype=np.float32)
    axis = Axis(HOSTILE[0], names)
    figure = Heatmap(Caption(HOSTILE[0], "file", "stamp"), values, axis, axis, Scale(0, 1, "weight"))
    picture = show(figure)
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', picture._repr_html_())
    assert frame
    file = html.unescape(frame[1])
    assert file.replace(' data-tall="700"', "") == picture.html
    assert "default-src 'none'" in file
    assert file.count("<script") == file.count("</script") == 2  # the numbers, and ours
    assert not re.search(r"https?://(?!www\.w3\.org/)", file)
    numbers = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', file)[1])
    assert [each["name"] for each in numbers["views"]] == ["web/heatmap"]


def test_figures_and_traces_draw_themselves_where_a_notebook_is(model, monkeypatch):
    drawn = {}
    formatter = SimpleNamespace(for_type=drawn.__setitem__)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    viz.notebook.register()
    assert drawn.keys() == {Figure, Trace}
    assert "pages/attention/head_grid" in html.unescape(drawn[Trace](model.trace("I see.", "我")))


@pytest.fixture(scope="module")
def model():
    return open_checkpoint(ROOT / "checkpoints" / "eng-cmn")


@pytest.fixture(scope="module")
def saved():
    """The notebook that the menu saves of a page."""
    app = sound(opened("attention", source=SOURCE, attention="cross", layer="2", head="5", changes=CHANGES))
    app.session_state[Key.SESSION].making = (7, "notebook")
    app.run()
    synced = [each.proto for each in app.get("bidi_component") if each.proto.component_name == "vitrine_learnt"]
    header, _arrays = unpack(body(synced[0].bytes))
    assert header["saving"] == 7
    found = nbformat.reads(header["file"], as_version=4)
    nbformat.validate(found)
    assert header["python"].split("\n\n") == [found.cells[1].source, found.cells[2].source]
    return found


def test_a_saved_notebook_gives_the_numbers_of_the_page(saved):
    cells = [each.source for each in saved.cells if each.cell_type == "code"]
    assert sum("assert_allclose" in each for each in cells) == 4
    assert SOURCE in cells[1]
    assert CHANGES in cells[1]
    names: dict[str, object] = {}
    for source in cells:
        exec(source, names)
    planted = re.sub(r"expected = \[[^,]*,", "expected = [0.5,", cells[-1], count=1)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        exec(planted, names)


@pytest.mark.slow
def test_a_saved_notebook_runs_in_jupyter(saved):
    NotebookClient(saved, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [output for cell in saved.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "stream"]  # no warning
    assert any("<iframe" in output.data.get("text/html", "") for output in outputs)
