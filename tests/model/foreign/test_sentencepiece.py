"""Tokenizers that are sentencepiece models alone, Marian's, T5's, Llama's: as transformers and sentencepiece do."""

from __future__ import annotations

import io
import json
import time
from functools import cache
from random import Random

import pytest
import sentencepiece
import torch
import transformers

from model.checkpoints import open_checkpoint, save_checkpoint
from model.errors import CheckpointError
from model.exporting import export_huggingface
from model.foreign.slow_tokenizer import SlowTokenizer
from model.foreign.tokenizer_files import open_tokenizers
from model.safe_pieces import require_pieces
from tests.model.fuzzing_files import damaged

# transformers' advice to install what its MarianTokenizer does not use to cut a text
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
CPU = torch.device("cpu")
ENGLISH = ["I am a teacher.", "He is not a teacher.", "We are teachers and they teach.", "The cat sat on the mat."] * 5
CHINESE = ["我是老师。", "他不是老师。", "我们是老师。", "猫坐在垫子上。"] * 5
SIZES = {"d_model": 16, "max_position_embeddings": 32} | {
    f"{stack}_{name}": size
    for stack in ("encoder", "decoder")
    for name, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 16))
}
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
LLAMA = {"model_type": "bpe", "byte_fallback": True, "vocab_size": 330}
LLAMA |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}


@cache
def trained(*texts: str, **options) -> bytes:
    made = io.BytesIO()
    usual = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, "num_threads": 1}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=made, **(usual | options))
    return made.getvalue()


def pieces(content: bytes) -> list[str]:
    made = sentencepiece.SentencePieceProcessor(model_proto=content)
    return [made.id_to_piece(number) for number in range(made.get_piece_size())]


@pytest.fixture
def marian(tmp_path):
    """A folder as `save_pretrained` of model and tokenizer leaves it."""
    both = {"source": trained(*ENGLISH), "target": trained(*CHINESE)}
    for side, content in both.items():
        (tmp_path / f"{side}.spm").write_bytes(content)
    known = dict.fromkeys(piece for content in both.values() for piece in pieces(content))
    names = ["</s>", "<unk>", *(piece for piece in known if piece not in ("<unk>", "<s>", "</s>")), "<pad>"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: row for row, name in enumerate(names)}))
    ids = {"pad_token_id": len(names) - 1, "decoder_start_token_id": len(names) - 1, "eos_token_id": 0}
    torch.manual_seed(0)
    config = transformers.MarianConfig(vocab_size=len(names), forced_eos_token_id=0, **ids, **SIZES)
    model = transformers.MarianMTModel(config).eval()
    model.save_pretrained(tmp_path)
    files = [str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files, source_lang="en", target_lang="zh")
    tokenizer.save_pretrained(tmp_path)
    return tmp_path, model, tokenizer


def test_a_marian_reads_and_writes_each_language_by_its_own_pieces(marian):
    folder, model, tokenizer = marian
    lens = open_checkpoint(folder, CPU, torch.float32)
    assert isinstance(lens.source_tokenizer, SlowTokenizer)
    for text in (*ENGLISH[:4], "naïve 😀", "a  b", "", "</s> <pad>"):
        assert lens.source_tokens(text).ids == tokenizer(text, split_special_tokens=True)["input_ids"], text
        ids = tokenizer(text, split_special_tokens=True)["input_ids"]
        assert lens.source_tokenizer.ends(text)[-1:] == ([len(text)] if len(ids) > 1 else [])
    for text in (*CHINESE[:4], "我 是", "teacher"):
        wanted = tokenizer(text_target=text)["input_ids"]
        assert lens.target_tokens(text).ids == [model.config.decoder_start_token_id, *wanted[:-1]], text
        assert lens.target_tokenizer.decode(wanted) == tokenizer.decode(wanted, skip_special_tokens=True)
    assert lens.target_tokens(CHINESE[0]).labels[:2] == ["<pad>", "▁我"]
    source = torch.tensor([lens.source_tokens(ENGLISH[0]).ids])
    written = model.generate(source, max_new_tokens=6, num_beams=1, do_sample=False)[0, 1:].tolist()
    made = lens.generate(ENGLISH[0], length=6)
    assert made.ids == written
    assert made.text == tokenizer.decode(written, skip_special_tokens=True)
    assert lens.trace(ENGLISH[0], CHINESE[0]).target_tokens[0] == "<pad>"
    with pytest.raises(ValueError, match="runs in Python cannot be saved"):
        save_checkpoint(folder / "copy", lens.model, (lens.source_tokenizer, lens.target_tokenizer))
    with pytest.raises(CheckpointError, match=r"cannot be written as a tokenizer\.json"):
        export_huggingface(lens, folder / "theirs")
    assert not (folder / "theirs").exists()


def test_a_t5_with_a_spiece_model_alone_is_read(tmp_path):
    content = trained(*ENGLISH, **T5)
    (tmp_path / "spiece.model").write_bytes(content)
    settings = {"d_model": 16, "d_kv": 8, "num_heads": 2, "d_ff": 16, "num_layers": 1, "decoder_start_token_id": 0}
    config = transformers.T5Config(vocab_size=len(pieces(content)), **settings)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    lens = open_checkpoint(tmp_path, CPU, torch.float32)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    own = sentencepiece.SentencePieceProcessor(model_proto=content)
    for text in ENGLISH[:4]:
        assert lens.source_tokens(text).ids == [*own.encode(text), 1] == theirs(text)["input_ids"]
        assert lens.target_tokenizer.decode(own.encode(text)) == text


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
        require_pieces(tmp_path / "spiece.model")
    ours, _ = open_tokenizers(tmp_path, {"model_type": "t5"}, (9, 9))
    assert "spiece.model cannot be read" in ours.reason
    assert ours.encode("3 1").ids == [3, 1]


def test_a_huge_model_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "source.spm").open("wb") as file:
        file.truncate(1 << 40)
    began = time.monotonic()
    with pytest.raises(CheckpointError, match="has more than 33,554,432 bytes"):
        require_pieces(tmp_path / "source.spm")
    assert time.monotonic() - began < 5


def test_whatever_is_in_the_files_a_text_is_read_or_refused(marian):
    """Either both sides cut a text into tokens of the model, or they are of bare ids and say why."""
    folder, model, _tokenizer = marian
    original, random = (folder / "source.spm").read_bytes(), Random(1)
    settings = json.loads((folder / "config.json").read_text())
    size, refused = model.config.vocab_size, 0
    for _case in range(40):
        (folder / "source.spm").write_bytes(damaged(random, original))
        source, _target = open_tokenizers(folder, settings, (size, size))
        refused += bool(source.reason)
        if not source.reason:
            tokens = source.encode("I am a 😀 teacher.")
            assert all(0 <= token < size for token in tokens.ids)
            source.decode(tokens.ids)
    assert 0 < refused < 40
