"""The form of a new model: presets fill it, every option is there, and what is wrong stands beneath its field."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from streamlit.testing.v1.element_tree import Block, Element

from model.data.sources import new_config, preset_options, without_stack
from model.network.config import NETWORK_OPTIONS, PRESETS
from model.options import field_text
from tests.app_reading import sound
from tests.viz.pages.training.training_page import page
from viz.ui.fields import whose

ROTARY = {"position": "rotary"}
NO_LOGITS = {"output_head": "none", "tied_embeddings": "none"}


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
        ("d_model", {"d_model": 63}, "d_model (63) must be even"),
        ("d_model", {"n_heads": 3}, "d_model (64) must be divisible by n_heads (3)"),
        ("n_heads", {"n_key_value_heads": 3}, "n_heads (4) must be divisible by n_key_value_heads (3)"),
        ("n_encoder_layers", {"n_encoder_layers": 0}, "of another kind"),
        ("n_decoder_layers", {"n_decoder_layers": 0}, "of another kind"),
        ("attention_dropout", {"attention_dropout": 1.0}, "must be at least 0 and below 1"),
        ("position_reach", {"position_reach": 16}, "must be above half of position_buckets"),
        ("rotary_channels", {**ROTARY, "rotary_channels": 18}, "must be at most a head's width (16)"),
        ("rotary_channels", {**ROTARY, "rotary_channels": 3}, "must be even"),
        ("position", {**ROTARY, "d_model": 12}, "a head's width (3) must be even: rotary positions"),
        ("rotary_short", {"rotary_short": 2.0, "rotary_long": 1.0}, "must be at most rotary_long (1.0)"),
        ("parallel", {"parallel": True, "residual": False}, "parallel needs residual"),
        ("head_width", {"heads": "full", "head_width": 4}, "must be left out where heads is 'full'"),
        ("tied_embeddings", {"tied_embeddings": "all"}, "needs one vocabulary"),
        ("tied_embeddings", {"output_head": "none"}, "must not be set where output_head is 'none'"),
        ("output_bias", {**NO_LOGITS, "output_bias": True}, "must not be set where output_head is 'none'"),
        ("output_head", NO_LOGITS, "gives no logits to train with"),
        ("scale_output", {"output_head": "transform", "scale_output": True}, "scale_output needs output_head 'linear'"),
    ],
)
def test_each_rule_that_is_broken_has_its_field(field, options, sentence):
    given = preset_options("encoder-decoder", "tiny") | options
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        new_config("encoder-decoder", given, (range(10), range(12)))  # type: ignore[arg-type]  # only their lengths count
    assert whose(str(error.value), list(given.keys() - without_stack("encoder-decoder").keys())) == field


def test_what_is_wrong_stands_beneath_its_field_also_among_the_options_that_were_hidden():
    app = page(training_data="phrases", preset="tiny")
    app.text_input(key="network_n_heads").set_value("3").run()
    assert beneath(app, "network_d_model") == "d_model (64) must be divisible by n_heads (3)"
    assert beneath(app, "network_n_heads") == ""
    assert "d_model (64) must be divisible by n_heads (3)." in [each.value for each in app.error]  # and beside the form
    assert app.button(key="begin_button").disabled
    app.text_input(key="network_d_ff").set_value("wide").run()
    assert beneath(app, "network_d_ff") == "d_ff (“wide”) must be a whole number"
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
