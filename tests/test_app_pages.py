"""Changing the page: the same input, the same trace, the same choices in the address."""

from __future__ import annotations

import pytest

import viz.state.checkpoints
from model.inference.text_model import TextModel
from tests.app_reading import labels, opened, type_in, typed
from tests.viz.small import write_small
from viz.state.session import FIRST_SOURCE, Key

PAGES = ("map", "positions", "attention", "masks", "residual", "feed_forward", "predictions")


@pytest.fixture
def passes(tmp_path, monkeypatch):
    """How often a model is traced."""
    monkeypatch.setattr(viz.state.checkpoints, "CHECKPOINTS", tmp_path)
    write_small(tmp_path / "small")
    counted = []
    for name in ("trace_tokens", "trace_generated"):
        for kind in (
            TextModel,
            *TextModel.__subclasses__(),
            *(c for k in TextModel.__subclasses__() for c in k.__subclasses__()),
        ):
            if name in vars(kind):
                ordinary = vars(kind)[name]

                def counting(self, *inputs, ordinary=ordinary):
                    counted.append(inputs)
                    return ordinary(self, *inputs)

                monkeypatch.setattr(kind, name, counting)
    return counted


@pytest.mark.parametrize("target", ["", "我"])
def test_another_page_computes_no_new_forward(passes, target):
    app = opened(source="The cat sees.", target=target, layer="1", head="1")
    assert len(passes) == 1
    for page in PAGES:
        app.switch_page(f"viz/pages/{page}/page.py").run()
        assert not app.exception, page
        assert labels(app, "source")[-1] == "</s>"
    assert len(passes) == 1
    type_in(app, "source", "The cat hears.")
    assert len(passes) == 2


def test_what_was_chosen_stays_in_the_address_on_another_page(passes):
    app = opened(source="The cat sees.", layer="1", head="1")
    app.switch_page("viz/pages/masks/page.py").run()
    session = app.session_state[Key.SESSION]
    assert (session.selection.layer, session.selection.head) == (1, 1)
    assert typed(app, "source") == "The cat sees."


def test_what_is_typed_is_in_the_address_until_it_is_the_example_again(passes):
    app = opened()
    for text in ("The cat sees.", ""):
        assert type_in(app, "source", text).query_params["source"] == text
    assert typed(opened(source=""), "source") == ""
    type_in(app, "source", FIRST_SOURCE)
    assert "source" not in app.query_params
