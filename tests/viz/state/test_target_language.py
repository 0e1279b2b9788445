"""The field for the language into which a translator of many languages translates."""

from __future__ import annotations

import torch
import transformers

from model.checkpoints.load import open_checkpoint
from tests.app_reading import opened, sound
from tests.model.checkpoints.bridge.models import TWO, VOCABULARY, write_tokenizer
from viz.state.target_language import FIELD

LANGUAGES = ["de_DE", "fr_XX"]


def session_of(app):
    return app.session_state["session"]


def test_the_chosen_language_begins_the_target_and_is_in_the_address(tmp_path, monkeypatch):
    folder = tmp_path / "many"
    torch.manual_seed(0)
    config = transformers.MBartConfig(**TWO | {"vocab_size": VOCABULARY + 2}, decoder_start_token_id=3)
    transformers.MBartForConditionalGeneration(config).save_pretrained(folder)
    write_tokenizer(folder)
    inner = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    inner.add_special_tokens({"additional_special_tokens": LANGUAGES})
    assert len(inner) == VOCABULARY + 2
    inner.save_pretrained(folder)
    monkeypatch.setenv("VITRINE_MODELS", str(tmp_path))
    app = sound(opened("masks", model="many", source="the cat sees"))
    assert app.selectbox(key=FIELD).options == ["as its files say", *LANGUAGES]
    assert session_of(app).target.labels[0] == "</s>"
    app.selectbox(key=FIELD).set_value("fr_XX").run()
    chosen = session_of(sound(app))
    assert chosen.target.labels[:2] == ["</s>", "fr_XX"]
    assert app.query_params["into"] == "fr_XX"
    expected = open_checkpoint(folder).into("fr_XX").trace("the cat sees")
    assert torch.equal(chosen.trace["output.logits"], expected["output.logits"])
    copied = sound(opened("masks", model="many", source="the cat sees", into="fr_XX"))
    assert session_of(copied).target.ids == chosen.target.ids
    copied.selectbox(key=FIELD).set_value("").run()
    assert session_of(sound(copied)).target.labels[0] == "</s>"
    assert "into" not in copied.query_params
    assert session_of(copied).target.labels[:2] != ["</s>", "fr_XX"]
