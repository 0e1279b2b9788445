"""The editor of conversations: by the checkpoint's own template into the text, with what the loss counts."""

from __future__ import annotations

import json
import shutil

import pytest

from model.text.chat import Turn, converse
from tests.app_reading import opened, sound
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.model.text.test_chat import CALL, CHATML, TOOLED
from viz.frame import conversation
from viz.state.session import Key


@pytest.fixture
def app(tmp_path, monkeypatch):
    folder = tmp_path / "chat"
    shutil.copytree(theirs("llama")[1], folder)
    write_tokenizer(folder)
    named = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    (folder / "chat_template.jinja").write_text(CHATML.replace("\\n", " ") + "{# enable_thinking #}")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text(TOOLED)
    monkeypatch.setenv("VITRINE_MODELS", str(tmp_path))
    found = opened("masks", model="chat", source="the cat")
    found.session_state[conversation.OPEN] = True
    return sound(found.run())


def test_a_conversation_becomes_the_text(app):
    app.text_area(key="conversation_turns_0_text").set_value("the cat").run()
    app.text_area(key="conversation_turns_1_text").set_value("sees a dog").run()
    next(button for button in app.button if button.label == "One less").click().run()
    app.toggle(key=conversation.PROMPT).set_value(False).run()
    next(button for button in app.button if button.label == "Put it into the text").click().run()
    model = sound(app).session_state[Key.SESSION].model
    expected = converse(model.source_tokenizer.template, [Turn("user", "the cat"), Turn("assistant", "sees a dog")], {})
    assert app.session_state[Key.SESSION].texts.typed[Key.SOURCE].replace("⏎", "\n") == expected.text
    assert app.session_state[Key.SESSION].source.ids == model.source_tokens(expected.text).ids
    tokenizer = model.source_tokenizer
    counted = sum(expected.counts(tokenizer.ends(expected.text)))
    assert any(f"counts {counted} of {len(tokenizer.ends(expected.text))} tokens" in each.value for each in app.caption)


def test_tools_have_a_template_of_their_own(app):
    app.text_area(key=conversation.TOOLS).set_value("[{]").run()
    assert any("list of tools" in each.value for each in app.error)
    app.text_area(key=conversation.TOOLS).set_value(json.dumps(CALL)).run()
    app.selectbox(key=conversation.THINKING).set_value("off").run()
    next(button for button in app.button if button.label == "Put it into the text").click().run()
    text = sound(app).session_state[Key.SESSION].texts.typed[Key.SOURCE].replace("⏎", "\n")
    talk = [Turn(role, said) for role, said in conversation.FIRST]
    assert text == converse(TOOLED, talk, {}, True, [CALL], False).text
    assert text.endswith("<think>\n\n</think>")


def test_without_a_template_there_is_none(monkeypatch, tmp_path):
    app = opened("masks")
    app.session_state[conversation.OPEN] = True
    assert not [field for field in sound(app.run()).text_area if str(field.key).startswith("conversation")]
