"""The page Checkpoints without a browser: taking a model away, its card, its name, its end."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
import torch

import viz.state.checkpoints
from model.checkpoints.manage import read_card, write_card
from tests.app_reading import model_list, opened, sound
from tests.model.checkpoints.bridge.models import theirs
from tests.viz.small import write_small
from viz.pages.checkpoints import keep
from viz.pages.checkpoints.keep import SHOWN, front_matter, without_pictures

CARD = "---\nlicense: mit\n---\n# Mine\n\n<script>alert(1)</script> ![x](http://example.org/x.png)\n"


@pytest.fixture(autouse=True)
def here(places):
    """One bundled checkpoint and one saved, which no family of Hugging Face computes."""
    write_small(places / "saved" / "mine", position="alibi")
    return places


def page(name):
    return sound(opened("checkpoints", model=name, checkpoints_part="keep"))


def downloads(app) -> list[str]:
    return [each.proto.label for each in app.get("download_button")]


def words(app) -> str:
    return " ".join(each.value for kind in (app.markdown, app.caption, app.info, app.toast, app.code) for each in kind)


def test_what_has_a_counterpart_is_offered_in_both_forms():
    app = page("small")
    assert downloads(app) == ["Vitrine's folder as .zip", "Hugging Face's folder as .zip"]
    assert "As Megatron-BERT with GPT-2" in words(app)


def test_what_has_none_is_offered_in_ours_and_says_why():
    app = page("mine")
    assert downloads(app) == ["Vitrine's folder as .zip"]
    assert "position 'alibi'" in app.info[0].value


def test_a_model_of_others_is_saved_as_one_of_vitrine(here, monkeypatch):
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(here / "models"))
    shutil.copytree(theirs("llama")[1], here / "models" / "their llama")
    app = page("their llama")
    assert downloads(app) == []
    assert "is not of Vitrine (Hugging Face: llama): it stays as it came." in words(app)
    before = app.session_state["session"].model
    app.button(key="keeping_save").click().run()
    assert model_list(sound(app)).value == "my-their-llama"
    model = app.session_state["session"].model
    assert model.network.config == before.network.config
    state = before.network.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.network.state_dict().items())
    assert downloads(app)[0] == "Vitrine's folder as .zip"
    assert "A copy of their llama (Hugging Face, llama)" in words(app)


def test_what_transformers_runs_cannot_be_saved(here, monkeypatch):
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(here / "models"))
    shutil.copytree(theirs("phi")[1], here / "models" / "phi")
    app = page("phi")
    assert "run by transformers' own code" in words(app)
    assert "Vitrine keeps no copy of it" in words(app)
    assert not [button for button in app.button if button.key == "keeping_save"]
    assert "Model card" not in words(app)  # and no half of the page for it
    write_card(here / "models" / "phi", "---\nlicense: mit\n---\nTheir own words.")
    app = page("phi")
    assert "**Model card**" in words(app)
    assert "Their own words." in words(app)
    assert not app.text_area


def test_the_card_of_a_saved_one_is_edited_in_place(here):
    app = page("mine")
    assert "There is no card yet." in words(app)
    assert app.button(key="keeping_save").disabled
    app.text_area(key="keeping_card_mine").set_value(CARD).run()
    app.button(key="keeping_save").click().run()
    assert read_card(here / "saved" / "mine") == CARD
    assert "The card of mine is saved." in words(sound(app))
    assert "license: mit" in [each.value for each in app.code]
    shown = next(each for each in app.markdown if "Mine" in each.value)
    assert not shown.allow_html
    assert "![" not in shown.value


def test_the_card_of_a_bundled_one_goes_into_a_copy(here):
    write_card(here / "bundled" / "small", "old")
    app = page("small")
    app.text_area(key="keeping_card_small").set_value("new").run()
    app.text_input(key="keeping_copy_small").set_value("mine").run()
    assert app.button(key="keeping_save").disabled  # the name is taken
    app.text_input(key="keeping_copy_small").set_value("copy").run()
    app.button(key="keeping_save").click().run()
    assert read_card(here / "saved" / "copy") == "new"
    assert read_card(here / "bundled" / "small") == "old"
    assert model_list(sound(app)).value == "copy"
    assert "Saved as copy" in words(app)


def test_a_saved_one_is_renamed_and_deleted(here):
    app = page("mine")
    app.text_input(key="keeping_name_mine").set_value("../out").run()
    assert app.button(key="keeping_rename").disabled
    app.text_input(key="keeping_name_mine").set_value("better").run()
    app.button(key="keeping_rename").click().run()
    assert [folder.name for folder in (here / "saved").iterdir()] == ["better"]
    assert model_list(sound(app)).value == "better"
    app.button(key="keeping_delete").click().run()
    assert not list((here / "saved").iterdir())
    assert model_list(sound(app)).value == "small"
    assert not [each for each in app.button if each.key == "keeping_delete"]


def test_a_card_is_shown_without_what_it_would_fetch():
    assert front_matter(CARD) == ("license: mit", CARD.split("---\n")[2])
    assert front_matter("no front") == ("", "no front")
    assert without_pictures("# A\n#### B\n![x][y] ![z](u)") == "#### A\n###### B\n[x][y] [z](u)"
    assert without_pictures("!![x](u) !!![y](v) \\\\![z](w)") == "[x](u) [y](v) \\\\[z](w)"
    assert without_pictures("> " * 5000 + "a") == ">  a"


def test_of_a_long_card_the_beginning_is_shown(here):
    """A browser takes many seconds for a million brackets."""
    write_card(here / "saved" / "mine", "[" * 10 * SHOWN)
    app = page("mine")
    assert max(len(each.value) for each in app.markdown) == SHOWN
    assert "the first 10,000 characters" in words(app)


def test_one_that_went_in_another_window_is_said_to_be_gone(here, monkeypatch):
    """And not that it is in training, nor another one in its place without a word."""
    app = opened(model="small").switch_page("viz/pages/checkpoints/page.py")
    app.session_state["checkpoints_part"] = "read"
    app.session_state["checkpoint"] = "mine"
    sound(app.run())
    shutil.rmtree(here / "saved" / "mine")
    assert any(each.value.endswith("not here. This is small.") for each in sound(app.run()).warning)
    assert any(each.value.endswith("not here. This is small.") for each in sound(app.run()).warning)
    app.session_state["checkpoints_part"] = "keep"
    monkeypatch.setattr(keep, "checkpoints", SimpleNamespace(all_places=lambda _bench: []))
    assert "small is no longer there: choose another model." in [each.value for each in sound(app.run()).warning]
    assert "in training" not in words(app)
