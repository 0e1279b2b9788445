"""BertViz's page: whole, from nothing but this machine, and with every token only text."""

from __future__ import annotations

import base64
import json
import re

import pytest
import torch

from model.analysis.attention_maps import Maps
from model.capture.trace import record
from tests.model.examples import network
from viz.i18n.catalogue import use
from viz.pages.attention import bertviz_scripts
from viz.pages.attention.bertviz import address, document, height, parameters
from viz.pages.attention.bertviz_scripts import VIEWS, as_script, every_script, script, vendored

HOSTILE = ["</script><script>alert(1)</script>", "<!--", "PYTHON_PARAMS", "\u2028", '"; alert(1); "']


@pytest.fixture
def maps():
    """Of a model with one layer in the encoder and three in the decoder."""
    model = network(n_encoder_layers=1, n_decoder_layers=3)
    with torch.inference_mode(), record(model) as trace:
        model(torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]]))
    trace.source_tokens, trace.target_tokens = list(HOSTILE), ["a", "▁the", "x" * 40]
    return lambda kind: Maps(trace, kind)


def given(page: str) -> dict:
    """The parameters, as the page's script gets them."""
    return json.loads(re.search(r'id="params">(.*)</script>', page).group(1))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("view", VIEWS)
def test_the_page_holds_this_traces_numbers(maps, view, kind):
    shown = maps(kind)
    page = document(shown, view, shown.layers - 1, 1, dark=True)
    found = given(page)["attention"]
    (attention,) = found.values() if isinstance(found, dict) else found
    weights = torch.tensor(attention["attn"])
    torch.testing.assert_close(weights, shown.trace.attention(kind), atol=6e-5, rtol=0)
    assert (len(attention["left_text"]), len(attention["right_text"])) == weights.shape[2:]
    if view == "neuron":
        path = shown.paths[-1]
        for name, quantity in (("queries", "query"), ("keys", "key")):
            torch.testing.assert_close(
                torch.tensor(attention[name][-1]), shown.trace[f"{path}.{quantity}"], atol=6e-5, rtol=0
            )
        assert given(page)["bidirectional"] == (kind != "decoder")


@pytest.mark.parametrize("view", VIEWS)
def test_no_token_ends_the_script_and_nothing_is_fetched(maps, view):
    page = document(maps("cross"), view, 0, 0, dark=False)
    assert page.count("</script>") == 6
    assert set(re.findall(r"<script>(.*?)</script>", page, re.DOTALL)) <= every_script()  # the browser runs no others
    assert "alert(1)</script>" not in page
    assert given(page)
    assert "PYTHON_PARAMS;" not in page
    own = page.replace(vendored("jquery.slim.min.js"), "").replace(vendored("d3.v5.min.js"), "")
    assert len(own) < len(page) - 300_000
    assert not re.search(r"<script[^>]*src|<link|<img|@import|url\(", own)
    assert "default-src 'none'" in page
    decoded = base64.b64decode(address(page).partition("base64,")[2]).decode("utf-8")
    assert decoded == page


def test_json_in_a_script_has_no_letter_that_html_reads():
    text = as_script(HOSTILE)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == HOSTILE


def test_tokens_are_whole_and_layers_counted_from_1(maps):
    found = parameters(maps("decoder"), "head", 2, 1, dark=False)
    assert (found["include_layers"], found["layer"], found["heads"]) == ([1, 2, 3], 3, [1])
    assert found["attention"][0]["left_text"] == ["a", "·the", "x" * 40]


@pytest.mark.parametrize("view", VIEWS)
def test_the_width_of_columns_is_found_in_the_scripts(view):
    for fixed, fitting in bertviz_scripts.WIDTHS[view].items():
        assert bertviz_scripts._script(view).count(fixed) == 1
        assert fixed not in script(view)
        assert fitting in script(view)


@pytest.mark.parametrize("view", VIEWS)
def test_the_words_of_the_scripts_are_found_and_translated(view):
    english = script(view)
    use("zh")
    try:
        chinese = script(view)
    finally:
        use("en")
    assert chinese != english or view == "head"
    assert bertviz_scripts._script(view).count("PYTHON_PARAMS") == (0 if view == "neuron" else 2)
    for word in ("Heads", "Layers", "No token selected", "Layer "):
        assert f'"{word}"' not in chinese
        assert f"'{word}'" not in chinese


def test_the_frame_is_as_high_as_what_is_in_it(maps):
    assert all(isinstance(height(maps("cross"), view), int) for view in VIEWS)
    assert height(maps("cross"), "head") < height(maps("cross"), "neuron")


def test_without_bertviz_it_says_what_to_install(maps, monkeypatch):
    def missing(name):
        raise bertviz_scripts.PackageNotFoundError(name)

    monkeypatch.setattr(bertviz_scripts, "distribution", missing)
    bertviz_scripts._script.cache_clear()
    with pytest.raises(ValueError, match="pip install --no-deps bertviz"):
        script("head")
