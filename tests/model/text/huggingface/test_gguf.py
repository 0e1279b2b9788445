"""Tokenizers in the records of a GGUF file: as transformers and sentencepiece cut texts."""

from __future__ import annotations

import dataclasses
import json

import pytest
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from model.checkpoints.convert.from_gguf import GgufModel
from model.runtime.errors import CheckpointError
from model.text.huggingface.gguf import GgufVocabulary, tokenizer_json
from model.text.huggingface.load import open_gguf_tokenizers
from model.text.huggingface.tokenizer import HuggingFaceTokenizer, IdTokenizer
from tests.model.checkpoints.convert.gguf_files import DEFINED, byte_level_records, piece_records, write_gguf
from tests.model.text.huggingface.sentencepiece_models import CHINESE, ENGLISH, LLAMA, processor, trained

SETTINGS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TEXTS = (
    *("The cat sat on the mat.", "I'm a teacher, you'RE not; they'll see 12345 of 678!", "我是老师。猫坐在垫子上。"),
    *(
        "  two  spaces\n\n\nand lines \t tab\r\n",
        "x=1;\n\tif (a<=b) { return 'é' + \"ñ\" }",
        "e\u0301 a\u0300 naïve 😀👩‍👩‍👧",
    ),
    *(
        "",
        " ",
        "\n",
        "1",
        "a",
        "ﬁ ＡＢ①㌔ ǆ",
        "<think>what</think> <|end|> [PAD3] don't",
        "teacherteacher TEACHERS 3.14",
    ),
)
DEFINED_HERE = ("<think>", "▁▁")
DIGITS = ["12 34 567 8901 2345678 99", "1234567890 123 456", "I'll we've THEY'RE it'd don't"] * 5
PATTERNS = {"gpt-2": None, "llama-bpe": 3, "qwen2": 1}  # digits of a number that stay together


def pattern(digits: int) -> str:
    """That of Llama 3's and Qwen 2's tokenizer.json, put together from what it says."""
    letter, number, line = r"\p{L}", r"\p{N}", r"\r\n"
    counted = number if digits == 1 else f"{number}{{1,{digits}}}"
    return "|".join(
        (
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
            f"[^{line}{letter}{number}]?{letter}+",
            counted,
            rf" ?[^\s{letter}{number}]+[{line}]*",
            rf"\s*[{line}]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    )


def byte_level(pre: str) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer as the folders of GPT-2, Llama 3 and Qwen 2 have it, trained on a few texts."""
    digits = PATTERNS[pre]
    inner = tokenizers.Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=digits is None)
    if digits is not None:
        split = pre_tokenizers.Split(tokenizers.Regex(pattern(digits)), "isolated")
        words = pre_tokenizers.Sequence([split, words])
    inner.pre_tokenizer, inner.decoder = words, decoders.ByteLevel()
    if pre == "qwen2":
        inner.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator([*ENGLISH, *CHINESE, *DIGITS, *TEXTS], trainer)
    inner.add_special_tokens([tokenizers.AddedToken(name, special=True) for name in ("<|begin|>", "<|end|>")])
    inner.add_tokens([tokenizers.AddedToken("<think>", normalized=False)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<|begin|>", eos_token="<|end|>", clean_up_tokenization_spaces=False
    )


def folder_of(place, size: int, family: str = "Llama"):
    """Folder of a model with a vocabulary of that size."""
    config = getattr(transformers, f"{family}Config")(vocab_size=size, **SETTINGS)
    name = f"{family}LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    getattr(transformers, name)(config).save_pretrained(place)
    return place


def opened(file, settings=None):
    """Tokenizer of a file, which reads no special tokens in a text, and what was assumed."""
    model = GgufModel(file)
    size = model.settings["vocab_size"]
    (one, other), assumed = open_gguf_tokenizers(model.vocabulary, settings or model.settings, (size, size))
    assert one is other
    return one.reading(False), assumed


@pytest.mark.parametrize(("pre", "family"), [("gpt-2", "GPT2"), ("llama-bpe", "Llama"), ("qwen2", "Qwen2")])
def test_byte_level_tokens_are_those_of_the_folder(pre, family, tmp_path):
    theirs = byte_level(pre)
    size = len(theirs) + 5  # the matrix is larger than the vocabulary
    folder = folder_of(tmp_path, size, family)
    records = byte_level_records(theirs, pre, size)
    records |= {"tokenizer.ggml.bos_token_id": theirs.bos_token_id, "tokenizer.ggml.eos_token_id": theirs.eos_token_id}
    ours, assumed = opened(write_gguf(folder, tmp_path / "x.gguf", vocabulary=records))
    assert isinstance(ours, HuggingFaceTokenizer)
    assert assumed == []
    assert (ours.start, ours.end, ours.stops) == (theirs.bos_token_id, theirs.eos_token_id, {theirs.eos_token_id})
    begins = [theirs.bos_token_id] if pre == "llama-bpe" else []  # llama.cpp's own default
    different = 0
    for text in TEXTS:
        expected = theirs.backend_tokenizer
        expected.encode_special_tokens = True
        ids = expected.encode(text, add_special_tokens=False).ids
        assert ours.encode(text).ids == ids, text
        expected.encode_special_tokens = False
        assert ours.reading(True).encode(text).ids == expected.encode(text, add_special_tokens=False).ids, text
        if text:
            assert ours.framed(text, "prompt", 999).ids == [*begins, *ids]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
        different += any(opened_as(folder, tmp_path, records, other).encode(text).ids != ids for other in PATTERNS)
    assert different > 2  # the patterns matter on these texts
    assert ours.label(size - 1) == f"<{size - 1}>"


def opened_as(folder, place, records, pre):
    return opened(write_gguf(folder, place / "other.gguf", vocabulary=records | {"tokenizer.ggml.pre": pre}))[0]


@pytest.mark.parametrize(("pre", "family"), [("llama-bpe", "Llama"), ("qwen2", "Qwen2")])
def test_they_are_those_that_transformers_makes_of_the_file(pre, family, tmp_path):
    theirs = byte_level(pre)
    records = byte_level_records(theirs, pre, len(theirs))
    file = write_gguf(folder_of(tmp_path, len(theirs), family), tmp_path / "x.gguf", vocabulary=records)
    other = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name, local_files_only=True)
    other.backend_tokenizer.encode_special_tokens = True
    ours, _assumed = opened(file)
    for text in TEXTS if pre == "llama-bpe" else (text for text in TEXTS if "\u0301" not in text):  # theirs has no NFC
        assert ours.encode(text).ids == other.backend_tokenizer.encode(text, add_special_tokens=False).ids, text


@pytest.mark.parametrize("space", [True, False])
def test_pieces_are_those_of_the_sentencepiece_model(space, tmp_path):
    content = trained(*ENGLISH, *CHINESE, *DIGITS, **LLAMA | {"add_dummy_prefix": space, "vocab_size": 420})
    own = processor(content)
    size = own.get_piece_size() + 3
    records = piece_records(own, size) | {"tokenizer.ggml.add_space_prefix": None if space else False}
    file = write_gguf(folder_of(tmp_path, size), tmp_path / "x.gguf", vocabulary=records)
    ours, assumed = opened(file)
    assert assumed == []
    for text in TEXTS:
        ids = own.encode(text)
        if text:  # sentencepiece has no ▁ before an empty text either
            assert ours.encode(text).ids == ids, text
            assert ours.framed(text, "prompt", 999).ids == [
                own.bos_id(),
                *ids,
            ]  # what llama.cpp does where none is said
        assert ours.decode(ids) == own.decode(ids), text
    assert (ours.start, ours.end, ours.unknown) == (own.bos_id(), own.eos_id(), own.unk_id())
    other = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name, local_files_only=True)
    for text in ENGLISH[:4] if space else ():
        assert ours.framed(text, "prompt", 99).ids == other(text)["input_ids"]


def test_tokens_that_a_user_defined_are_found_first(tmp_path):
    """Gemma's runs of spaces are such tokens, which the converter writes with spaces."""
    options = LLAMA | {"add_dummy_prefix": False, "user_defined_symbols": ",".join(DEFINED_HERE)}
    own = processor(trained(*ENGLISH, *CHINESE, **options))
    size = own.get_piece_size()
    records = piece_records(own, size) | {"tokenizer.ggml.add_space_prefix": False}
    for name in DEFINED_HERE:
        row = own.piece_to_id(name)
        records["tokenizer.ggml.tokens"][row] = name.replace("▁", " ")
        records["tokenizer.ggml.token_type"][row] = DEFINED
    ours, _assumed = opened(write_gguf(folder_of(tmp_path, size), tmp_path / "x.gguf", vocabulary=records))
    for text in ("I <think>am a <think> teacher", "two  spaces   three    four", "<think>", "   "):
        ids = own.encode(text)
        assert set(ids) & {own.piece_to_id(name) for name in DEFINED_HERE}
        assert ours.encode(text).ids == ids, text
        assert ours.decode(ids) == text


def vocabulary(**more) -> GgufVocabulary:
    usual = {"family": "llama", "model": "gpt2", "pre": "llama-bpe", "tokens": ["a", "b", "ab"], "merges": ["a b"]}
    return GgufVocabulary(**usual | {"scores": [], "types": []} | more)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tokens": []}, "there are no tokens"),
        ({"model": "t5"}, "is of the kind 't5'"),
        ({"tokens": ["a", "b", "a"]}, "has a token twice"),
        ({"tokens": ["a", "b", "c" * 70_000]}, "one that is too long"),
        ({"types": [1]}, "another number of their types or scores"),
        ({"model": "llama", "scores": [0.0]}, "another number of their types or scores"),
        ({"model": "llama", "scores": [0.0, 1.0, float("nan")]}, "scores that are no numbers"),
        ({"model": "llama", "scores": [0.0] * 3, "tokens": ["a", "b", "c" * 60_000]}, "pieces that are too long"),
        ({"merges": ["a"]}, "a merge 'a', which is not of two tokens"),
        ({"merges": ["a b c"]}, "which is not of two tokens"),
        ({"merges": ["a c"]}, "cannot be read as a tokenizer"),
    ],
)
def test_a_harmful_tokenizer_leaves_bare_ids_with_the_reason(more, sentence):
    (one, _other), assumed = open_gguf_tokenizers(lambda: vocabulary(**more), {}, (3, 3))
    assert isinstance(one, IdTokenizer)
    assert sentence in one.reason
    assert assumed == []


def test_what_reading_its_lists_raises_is_the_reason():
    def read():
        raise CheckpointError("x.gguf cannot be read as GGUF")

    (one, _other), _assumed = open_gguf_tokenizers(read, {}, (3, 3))
    assert one.reason == "x.gguf cannot be read as GGUF"


@pytest.mark.parametrize(
    ("family", "pre", "words", "assumed"),
    [
        ("llama", "llama-bpe", "llama-bpe", ""),
        ("llama", "llama-v3", "llama-bpe", ""),
        ("qwen3", "", "qwen2", "texts are cut into words as qwen2 does (the file does not say how)"),
        ("gpt2", "default", "gpt-2", "texts are cut into words as gpt-2 does (the file does not say how)"),
        ("llama", "tekken", "llama-bpe", "as llama-bpe does (the file says 'tekken', which is not known)"),
    ],
)
def test_how_texts_are_cut_is_said_where_it_is_assumed(family, pre, words, assumed):
    records = vocabulary(family=family, pre=pre)
    assert records.words == words
    assert assumed in " ".join(records.assumed)
    assert bool(records.assumed) == bool(assumed)
    assert dataclasses.replace(records, model="llama").assumed == []  # pieces are not cut so


def test_the_chat_template_and_what_stands_around_a_text_are_named_as_in_a_folder():
    ids = {"bos_token": 0, "eos_token": 2, "eot_token": 1, "pad_token": 99}
    records = vocabulary(ids=ids, begins=False, ends=True, chat_template="{{ x }}")
    expected = {"bos_token": "a", "eos_token": "ab", "eot_token": "b", "chat_template": "{{ x }}"}
    assert (records.names(), records.around()) == (expected, ("", "ab"))
    (one, _other), _assumed = open_gguf_tokenizers(lambda: vocabulary(ids=ids, ends=True), {}, (3, 3))
    assert one.stops == {1, 2}
    assert one.framed("b", "source", 9).ids == [0, 1, 2]
    record = json.loads(tokenizer_json(vocabulary(ids=ids)))
    assert [token["content"] for token in record["added_tokens"]] == ["a", "b", "ab"]
