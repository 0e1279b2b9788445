"""Figures in a notebook, drawn by the modules of the pages: `from viz.notebook import figures, show`.

Once this is imported, figures and traces that end a cell draw themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamlit.logger import set_log_level

from model.capture.trace import Trace
from model.lessons.state import State
from viz.components.registry import Component
from viz.figures.figure import Figure
from viz.frame.page_figures import PageFigures, page_figures, saved_words
from viz.i18n.catalogue import speaking
from viz.pages.attention import components as _of_attention  # noqa: F401  # renderers of figures that pages have alone
from viz.pages.attention.head_grid import all_thumbnails, heads_grid
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.pages.map import components as _of_map  # noqa: F401
from viz.pages.predictions import components as _of_predictions  # noqa: F401
from viz.pages.residual import components as _of_residual  # noqa: F401
from viz.render.document import TALL, Document, DrawnView
from viz.render.reader import Reader
from viz.render.render import render

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

set_log_level("ERROR")  # Streamlit warns that there is no server, and none is needed


def figures(
    model: TextModel, page: str, source: str = "", target: str = "", *, language: str = "en", **parameters: Any
) -> PageFigures:
    """Figures of a page by their keys, as the application shows them at an address with these parameters.

    page: "map", "attention", "masks", … source, target: as in the fields; what is left out is as the page begins.

    Raises:
        ValueError: there is no such page or parameter, or the model cannot read a text.
    """
    texts = {name: text for name, text in (("source", source), ("target", target)) if text}
    state = State.read(State(page, {name: str(value) for name, value in parameters.items()}).address)
    return page_figures(model, State(state.page, state.parameters | texts), language, choices=True)


class Picture:
    """Picture that draws itself in a notebook; `html` is a file that opens anywhere."""

    def __init__(self, document: Callable[[int], Document]) -> None:
        self._document = document

    @property
    def html(self) -> str:
        return self._document(0).html()

    def _repr_html_(self) -> str:
        return self._document(TALL).framed()


def show(what: Figure | Trace | PageFigures, language: str = "en") -> Picture:
    """A figure, the figures of a page, or the heads of a trace's last attention, as a picture."""
    if isinstance(what, PageFigures):
        return Picture(what.document)
    figure = heads_of(what) if isinstance(what, Trace) else what

    def document(tall: int) -> Document:
        rendered = render(figure, Reader(language))
        component: Component = type(rendered).component
        drawn = DrawnView("figure", component, rendered.data, rendered.caption.name)
        with speaking(language):
            words = saved_words()
        return Document(rendered.caption.name, drawn.place(), [drawn], language, words=words, tall=tall)

    return Picture(document)


def heads_of(trace: Trace) -> Figure:
    """Every head of the last kind of attention that a trace has: of a translator cross-attention.

    Raises:
        ValueError: it has none.
    """
    if not trace.attention_kinds:
        raise ValueError("this trace has no attention to show")
    maps = HeadMaps(trace, HeadSettings(trace.attention_kinds[-1]), None, False)
    thumbnails = all_thumbnails(maps)
    listed = [(layer, head) for layer in range(maps.maps.layers) for head in range(maps.maps.heads)]
    return heads_grid(maps, thumbnails, listed, (-1, -1))


def register() -> None:
    """Have a notebook draw figures and traces, where this runs in one."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        for kind in (Figure, Trace):
            formatter.for_type(kind, lambda value: show(value)._repr_html_())


register()
