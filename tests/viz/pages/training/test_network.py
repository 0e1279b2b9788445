"""The form of a new model: presets fill it, every option is there, and what is wrong stands beneath its field."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from streamlit.testing.v1.element_tree import Block, Element

from model.data.sources import new_config, preset_options, without_stack
from model.message import field_of
from model.network.config import NETWORK_OPTIONS, PRESETS
from model.options import field_text
from tests.app_reading import sound
from tests.viz.pages.training.training_page import page


def elements(block: Block) -> Iterator[Element]:
    for child in block.children.values():
        yield from elements(child) if isinstance(child, Block) else [child]


def beneath(app, key: str) -> str:
    """What the page says of a field: the alert that follows it, before the next field."""
    found = iter(elements(app.main))
    next(element for element in found if getattr(element, "key", None) == key)
    said = next(found)
    text = said.proto.body if said.type == "html" else ""
    return html.unescape(re.sub("<[^>]+>", "", text)) if 'role="alert"' in text else ""


def test_a_preset_fills_every_option_there_is():
    app = page(training_data="phrases")
    app.session_state["network_rare"] = True
    for preset in PRESETS:
        app.session_state["preset"] = preset
        widgets = {getattr(each, "key", None): each for each in elements(sound(app.run()).main)}
        for name, value in preset_options("encoder-decoder", preset).items():
            widget, option = widgets[f"network_{name}"], NETWORK_OPTIONS[name]
            assert (widget.value, widget.label) == (field_text(value), option.label), (preset, name)
            limits = f" ({option.limits})" if option.limits else ""
            assert widget.help == f"`{name}`: {option.help}{limits}"
        assert not app.button(key="begin_button").disabled, preset


def test_a_field_that_a_slow_browser_sends_empty_holds_what_it_held_before():
    app = page(training_data="phrases", preset="tiny")
    app.text_input(key="network_d_model").set_value("96").run()
    for name in ("d_model", "d_ff", "n_encoder_layers"):
        app.text_input(key=f"network_{name}").set_value("")
    sound(app.run())
    assert [app.text_input(key=f"network_{name}").value for name in ("d_model", "d_ff")] == ["96", "128"]
    assert not app.button(key="begin_button").disabled


def test_an_option_of_a_stack_that_the_kind_lacks_is_not_asked_for():
    app = page(training_data="phrases", kind="decoder-only")
    keys = {getattr(element, "key", None) for element in elements(sound(app).main)}
    assert "network_n_decoder_layers" in keys
    assert "network_n_encoder_layers" not in keys


@pytest.mark.parametrize(
    ("field", "options", "sentence"),
    [
        ("n_encoder_layers", {"n_encoder_layers": 0}, "of another kind"),
        ("n_decoder_layers", {"n_decoder_layers": 0}, "of another kind"),
        ("tied_embeddings", {"tied_embeddings": "all"}, "needs one vocabulary"),
        ("output_head", {"output_head": "none", "tied_embeddings": "none"}, "gives no logits to train with"),
    ],
)
def test_each_rule_that_is_broken_has_its_field(field, options, sentence):
    given = preset_options("encoder-decoder", "tiny") | options
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        new_config("encoder-decoder", given, (range(10), range(12)))  # type: ignore[arg-type]  # only their lengths count
    assert field_of(str(error.value), list(given.keys() - without_stack("encoder-decoder").keys())) == field


def test_what_is_wrong_stands_beneath_its_field_also_among_the_options_that_were_hidden():
    app = page(training_data="phrases", preset="tiny")
    app.text_input(key="network_n_heads").set_value("3").run()
    assert beneath(app, "network_d_model") == "d_model (64) must be divisible by n_heads (3)"
    assert beneath(app, "network_n_heads") == ""
    assert "d_model (64) must be divisible by n_heads (3)." in [each.value for each in app.error]  # and beside the form
    assert app.button(key="begin_button").disabled
    app.text_input(key="network_d_ff").set_value("wide").run()
    app.text_input(key="network_dropout").set_value("1.5").run()
    assert beneath(app, "network_d_ff") == "d_ff (“wide”) must be a whole number"
    assert beneath(app, "network_dropout") == "dropout (1.5) must be at least 0 and below 1"  # both at once
    app.text_input(key="network_dropout").set_value("0").run()
    app.text_input(key="network_d_ff").set_value("8").run()
    app.text_input(key="network_n_heads").set_value("4").run()
    app.selectbox(key="network_units_encoder-decoder").set_value("mixed").run()
    keys = {getattr(element, "key", None) for element in elements(sound(app).main)}
    assert "network_tied_embeddings" not in keys
    app.session_state["preset"] = "paper-base"  # ties what reads different tokens now
    assert "needs one vocabulary" in beneath(app.run(), "network_tied_embeddings")
    app.session_state["network_rare"] = False  # closed by the user, it stays so
    app.run()
    assert "network_tied_embeddings" not in {getattr(element, "key", None) for element in elements(app.main)}
    assert not app.exception
