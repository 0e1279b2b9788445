"""Folders whose tokenizer is missing, damaged, of an older kind, or names code."""

from __future__ import annotations

import json
import sys

import pytest

from model.text.huggingface.load import open_tokenizers
from tests.model.text.huggingface.sentencepiece_models import ENGLISH, T5, trained
from tests.model.text.huggingface.test_tokenizer import byte_level


def test_a_tokenizer_that_is_missing_or_damaged_is_one_of_bare_ids(tmp_path):
    ours, _ = open_tokenizers(tmp_path, {"eos_token_id": 2}, (10, 10))
    assert ours.reason == "there is no tokenizer.json beside the weights"
    assert ours.framed("3 1 4", "prompt", 99).ids == [3, 1, 4]
    assert ours.decode([3, 1, 2]) == "3 1"
    assert ours.ends("3 14") == [1, 4]
    (tmp_path / "tokenizer.json").write_text("{")
    assert "tokenizer.json cannot be read" in open_tokenizers(tmp_path, {}, (10, 10))[0].reason
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "spiece.model").write_bytes(trained(*ENGLISH, **T5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentencepiece", None)
        assert "pip install sentencepiece" in open_tokenizers(tmp_path, {}, (10, 10))[0].reason


def test_older_files_are_read_through_transformers(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "am", "##s"]))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    ours, _ = open_tokenizers(tmp_path, {"model_type": "bert", "pad_token_id": 0}, (8, 8))
    assert ours.framed("I ams", "whole", 99).labels == ["[CLS]", "i", "am", "##s", "[SEP]"]


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json", "config.json"])
@pytest.mark.parametrize("whole", [False, True])
def test_code_that_a_tokenizers_files_name_is_never_run(file, whole, tmp_path):
    """Whether older files are read, or a tokenizer.json beside them; nor is another file read that they name."""
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "am"]))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass")
    (tmp_path / "other.txt").write_text("evil")
    said = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    said |= {"vocab_file": str(tmp_path / "other.txt"), "trust_remote_code": True, "model_type": "bert"}
    (tmp_path / file).write_text(json.dumps(said))
    if whole:
        byte_level()[0].save(str(tmp_path / "tokenizer.json"))
    ours, _ = open_tokenizers(tmp_path, said, (300, 300))
    assert not (tmp_path / "ran").exists()
    assert not [name for name in sys.modules if "evil" in name.lower()]
    assert "evil" not in {ours.label(token) for token in range(6)}
