"""Every view of every page: the line that explains it, the tables of what it draws, hostile tokens in it, and that
choosing it computes no new forward pass.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

import viz.state.checkpoints
from model.checkpoints.native import save_checkpoint
from tests.app_reading import opened
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.every_view import EVERY, Seen, walk
from tests.viz.explanations import BRIDGED, EXPLAINED, LAYER, OTHERS, OURS
from tests.viz.hostile import WORDS, hostile_model

# What these views are is another input, which needs passes of its own.
OF_OTHER_INPUTS = {
    ("attention", "importance"): "without each of the heads",
    ("positions", "order"): "the text backwards, with positions and without",
    ("masks", "future"): "the text with another token",
    ("masks", "batch"): "the text among others in one batch",
    ("residual", "batch"): "the same",
    ("residual", "gradients"): "the same text, with gradients",
    ("feed_forward", "apart"): "each position by itself",
    ("predictions", "search"): "every text that the beam keeps",
}


# Figures whose numbers are the page's own table: in the words of these there are no lines to be read.
OWN = ("map-small", "decoding-film", "beam-search")


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Iterator[Path]:
    """Where the only checkpoints are, for all walks through the application."""
    folder = tmp_path_factory.mktemp("every")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(viz.state.checkpoints, "CHECKPOINTS", folder)
        patch.setattr(viz.state.checkpoints, "spare_collections", lambda: None)
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        yield folder


@pytest.fixture(scope="module")
def seen(here) -> dict[tuple[str, str], Seen]:
    hostile_model(here / "small")
    text = " ".join(WORDS)
    return walk(opened(source=text, target=text, model="small"), EVERY)


@pytest.fixture(scope="module")
def others(here) -> dict[tuple[str, str], Seen]:
    made, options = TOKENIZERS["decoder-only"], {"norm": "rms", "activation": "swiglu", "position": "alibi"}
    model = one_stack("decoder-only", vocabulary=len(made), norm_placement="post", **options)
    save_checkpoint(here / "others", model, (made, made))
    return walk(opened(source="The cat sees.", model="others"), list(OTHERS))


@pytest.fixture(scope="module")
def bridged(here) -> dict[tuple[str, str], Seen]:
    shutil.copytree(theirs("gemma2")[1], here / "gemma2")
    write_tokenizer(here / "gemma2")
    return walk(opened(source="the cat sees a dog .", model="gemma2"), list(BRIDGED))


def assert_explained(view: Seen, formula: str, section: str, code: list[str]) -> None:
    assert formula in view.formulas
    assert section in view.text
    assert not [piece for piece in code if piece not in view.code]


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_every_view_is_explained(seen, view):
    assert_explained(seen[view], *EXPLAINED[view])


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_an_explanation_begins_with_two_plain_sentences(seen, view):
    assert len(seen[view].plain) == 1
    sentences = re.split(r"(?<=[.?!]) (?=[A-Z])", seen[view].plain[0])
    assert len(sentences) == 2
    assert not re.search(r"et al|section|\\", seen[view].plain[0])


@pytest.mark.parametrize("view", OTHERS, ids=" ".join)
def test_a_model_of_other_parts_is_explained_by_those(others, view):
    assert_explained(others[view], *OTHERS[view])
    gone = ("class LayerNorm", "class PreNorm", "class SinusoidalPositions", "class Unbiased")
    assert not [piece for piece in gone if piece in others[view].code]


@pytest.mark.parametrize("view", BRIDGED, ids=" ".join)
def test_a_bridged_model_is_explained_by_its_own_code(bridged, view):
    shown, own = BRIDGED[view]
    found = bridged[view]
    assert (LAYER in found.code) == shown
    assert not [piece for piece in own if piece not in found.code]
    assert not [piece for piece in OURS if piece in found.code]


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_what_explains_a_view_comes_after_its_figures(seen, view):
    order = seen[view].order
    folds = [place for place, each in enumerate(order) if each != "figure"]
    assert "What am I looking at?" in order
    assert "figure" in order[: folds[0]] or view == ("positions", "laboratory learned")  # there is nothing learned here
    assert "figure" not in order[folds[0] :]


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_a_view_computes_no_new_forward_pass(seen, view):
    assert bool(seen[view].attentions) == (view in OF_OTHER_INPUTS)


def figures(view: Seen) -> list[dict[str, Any]]:
    """Headers of what can be saved as a file."""
    return [header for header in view.plots if "file" in header]


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_every_figure_has_its_table_its_file_and_a_summary(seen, view):
    found = seen[view]
    assert found.frames or view == ("positions", "laboratory learned")  # there is nothing learned here
    files = [header["file"] for header in figures(found)]
    assert len(files) == len(set(files))
    for table in found.frames:
        assert len(table) > 0
        assert len(set(table.columns)) == len(table.columns)
    for header in figures(found):
        ranked = isinstance(header.get("rows"), list) and isinstance(header.get("columns"), list)  # is text itself
        # Whose numbers are the page's own tables.
        large = re.match("(attention|heads)-(cross|decoder|encoder)", header["file"])
        own = large or header["file"] in OWN or header["file"].startswith("positions-")
        assert own or found.tables.count(header["name"]) == 1
        plotly = view[1].startswith("laboratory")  # the figure itself has the summary
        assert plotly or ranked or "frames" in header or len(header["alt"]) > 20, header["file"]


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_every_figure_says_what_it_is(seen, view):
    if view[1].startswith("laboratory"):  # plotly's figures have no "?": the page's own line explains them
        return
    assert not [header["file"] for header in figures(seen[view]) if not header.get("about")]


@pytest.mark.parametrize("view", EVERY, ids=" ".join)
def test_no_hostile_token_means_anything_in_a_views_sentences(seen, view):
    for name in ("img", "script"):
        assert f"<{name}" not in seen[view].html
    said = re.sub(r"\\.|(`+).+?\1", "", seen[view].text, flags=re.DOTALL)  # what is escaped, and code
    assert not [token for token in WORDS if token in said]
