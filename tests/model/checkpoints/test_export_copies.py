"""What was opened in a folder of Hugging Face leaves again: as a checkpoint of ours, and in their form."""

from __future__ import annotations

import pytest
import torch
import transformers

from model.checkpoints.export import export_huggingface
from model.checkpoints.native import save_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.test_load import BART, BERT, GPT2, TEXT, opened, saved
from tests.model.text.huggingface.test_tokenizer import byte_level, word_piece


@pytest.mark.parametrize(
    ("kind", "made", "settings"),
    [
        ("GPT2LMHeadModel", byte_level, GPT2),
        ("BertModel", word_piece, BERT),
        ("BartForConditionalGeneration", lambda: byte_level(True), BART),
    ],
)
def test_a_copy_saved_as_ours_opens_as_the_same(kind, made, settings, tmp_path):
    saved(tmp_path / "theirs", kind, made(), **settings)
    model = opened(tmp_path / "theirs")
    save_checkpoint(tmp_path / "ours", model.network, (model.source_tokenizer, model.target_tokenizer))
    again = opened(tmp_path / "ours")
    one, other = model.trace(TEXT), again.trace(TEXT)
    assert (one.source_tokens, one.target_tokens) == (other.source_tokens, other.target_tokens)
    last = [name for name in one.names() if name.endswith(".residual")][-1]
    torch.testing.assert_close(other[last], one[last])
    assert again.source_tokenizer.to_json() == model.source_tokenizer.to_json()
    path = next((tmp_path / "ours").glob("*tokenizer.json"))
    path.write_text(path.read_text().replace('"size": ', '"size": -'))
    with pytest.raises(CheckpointError, match=r"tokenizer.json cannot be read as a tokenizer"):
        opened(tmp_path / "ours")


def test_a_copy_of_theirs_leaves_in_their_form_with_their_tokens_and_logits(tmp_path):
    saved(tmp_path / "theirs", "GPT2LMHeadModel", byte_level(), **GPT2)
    model = opened(tmp_path / "theirs")
    save_checkpoint(tmp_path / "ours", model.network, (model.source_tokenizer, model.target_tokenizer))
    again = opened(tmp_path / "ours")
    export_huggingface(again, tmp_path / "back")
    ids = again.source_tokens(TEXT).ids
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "back")(TEXT)["input_ids"] == ids
    network = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    with torch.no_grad():
        logits = network(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(logits, again.trace(TEXT)["output.logits"], atol=1e-5, rtol=1e-5)


def test_a_model_of_bare_ids_is_not_written_in_their_form(tmp_path):
    saved(tmp_path / "theirs", "GPT2LMHeadModel", byte_level(), **GPT2)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).unlink()
    with pytest.raises(CheckpointError, match="has no tokenizer to write"):
        export_huggingface(opened(tmp_path / "theirs"), tmp_path / "back")
    assert not (tmp_path / "back").exists()
