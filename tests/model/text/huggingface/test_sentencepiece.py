"""Tokenizers that are sentencepiece models alone, T5's, Llama's: as transformers and sentencepiece do."""

from __future__ import annotations

import json
from random import Random

import pytest
import sentencepiece
import torch
import transformers

from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from model.text.huggingface.load import open_tokenizers
from model.text.untrusted import read_pieces
from tests.model.checkpoints.fuzzing_pieces import NORMALIZER, TABLE, fields
from tests.model.text.huggingface.sentencepiece_models import ENGLISH, LLAMA, T5, pieces, trained

# transformers' advice to install what its MarianTokenizer does not use to cut a text
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
CPU = torch.device("cpu")


def test_a_t5_with_a_spiece_model_alone_is_read(tmp_path):
    content = trained(*ENGLISH, **T5)
    (tmp_path / "spiece.model").write_bytes(content)
    settings = {"d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 16, "num_layers": 1, "decoder_start_token_id": 0}
    config = transformers.T5Config(vocab_size=len(pieces(content)), **settings)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    model = open_checkpoint(tmp_path, CPU, torch.float32)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    own = sentencepiece.SentencePieceProcessor(model_proto=content)
    for text in ENGLISH[:4]:
        assert model.source_tokens(text).ids == [*own.encode(text), 1] == theirs(text)["input_ids"]
        assert model.target_tokenizer.decode(own.encode(text)) == text


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_a_llama_with_a_tokenizer_model_alone_is_read_with_its_first_space(family, tmp_path):
    """Where no file names its class, transformers' AutoTokenizer loses the ▁ before a text."""
    content = trained(*ENGLISH, **LLAMA)
    (tmp_path / "tokenizer.model").write_bytes(content)
    settings = {"model_type": family}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    size = len(pieces(content))
    ours, _ = open_tokenizers(tmp_path, settings, (size, size))
    own = sentencepiece.SentencePieceProcessor(model_proto=content)
    for text in (*ENGLISH[:4], "I am 😀", "two  spaces"):
        assert ours.framed(text, "prompt", 99).ids == [own.bos_id(), *own.encode(text)], text
        assert ours.decode(own.encode(text)) == text
    assert ours.framed("I 😀", "prompt", 99).labels[:2] == ["<s>", "▁I"]


@pytest.mark.parametrize("class_name", ["LlamaTokenizer", "LLaMATokenizer"])
@pytest.mark.parametrize("flags", [{}, {"add_bos_token": False}, {"add_bos_token": True, "add_eos_token": True}])
def test_what_stands_around_the_text_of_a_llama_is_what_its_flags_say(flags, class_name, tmp_path):
    """Where its special tokens have no names, or empty ones, they have those of its class."""
    content = trained(*ENGLISH, **LLAMA)
    (tmp_path / "tokenizer.model").write_bytes(content)
    names = {"tokenizer_class": "LlamaTokenizer", **flags}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    begins = flags.get("add_bos_token", class_name == "LLaMATokenizer")  # as the authors' code of that time
    empty = {"bos_token": "", "eos_token": {"content": ""}, "unk_token": ""}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names | empty | {"tokenizer_class": class_name}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(empty))
    size = len(pieces(content))
    ours, _ = open_tokenizers(tmp_path, {"model_type": "llama"}, (size, size))
    assert ours.reason == ""
    for text in (*ENGLISH[:2], "I </s> am"):
        ids = reference(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text).ids == ids
    assert ours.margins("whole") == ([1] * begins, [2] * ("add_eos_token" in flags))
    if class_name == "LlamaTokenizer":
        assert ours.framed("I am", "whole", 99).ids == reference("I am")["input_ids"]


def damages() -> dict[str, tuple[bytes, str]]:
    """Files that harm, and what is said of them."""
    whole = trained(*ENGLISH, **T5)

    def field(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    grown = (4).to_bytes(4, "little") + b"\0" * 4 + b"a" * 2000 + b"\0"
    return {
        "empty": (b"", "does not begin with a piece"),
        "text": (b"IQ== 0\nIg== 1\n", "does not begin with a piece"),
        "cut": (whole[:1000], "it is cut off"),
        "random": (b"\n" + Random(0).randbytes(5000), "it is (damaged|cut off)"),
        "group": (whole + b"\x0b", "it is damaged"),
        "endless number": (whole + b"\x08" + b"\xff" * 20, "it is damaged"),
        "longer than the file": (b"\n\xff\xff\xff\xff\x0f", "it is cut off"),
        "long pieces": (whole + field(1, field(1, b"a" * 40_000)), "its pieces are too long"),
        "growth": (whole + field(3, field(2, grown)), "one character may become 2,000 bytes"),
        "table": (whole + field(5, field(2, b"\xff" * 9)), "its table of characters is damaged"),
    }


@pytest.mark.parametrize("kind", damages())
def test_a_damaged_model_is_refused_in_a_sentence(kind, tmp_path):
    content, sentence = damages()[kind]
    (tmp_path / "spiece.model").write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"^spiece.model cannot be read as a sentencepiece model: .*{sentence}"):
        read_pieces(tmp_path / "spiece.model")
    ours, _ = open_tokenizers(tmp_path, {"model_type": "t5"}, (9, 9))
    assert "spiece.model cannot be read" in ours.reason
    assert ours.encode("3 1").ids == [3, 1]


def test_a_table_that_leads_outside_itself_is_refused_before_any_text_is_read(tmp_path):
    """Its trie is followed from number to number: to a place far beyond the file."""
    whole = trained(*ENGLISH, **T5)
    number, begin, _end = next(each for each in fields(whole) if each[0] == NORMALIZER)
    place, first, last = next(each for each in fields(whole[begin:]) if each[0] == TABLE)
    assert (number, place) == (NORMALIZER, TABLE)
    assert last - first > 100_000
    inside = slice(begin + first + 4, begin + first + 4 + 4096)
    (tmp_path / "spiece.model").write_bytes(whole[: inside.start] + b"\xff" * 4096 + whole[inside.stop :])
    with pytest.raises(CheckpointError, match=r"^sentencepiece refuses spiece\.model: "):
        read_pieces(tmp_path / "spiece.model")
    ours, _ = open_tokenizers(tmp_path, {"model_type": "t5"}, (9, 9))
    assert ours.reason.startswith("sentencepiece refuses spiece.model")


def test_a_huge_model_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "source.spm").open("wb") as file:
        file.truncate(1 << 40)  # to read it takes an hour
    with pytest.raises(CheckpointError, match="has more than 33,554,432 bytes"):
        read_pieces(tmp_path / "source.spm")
