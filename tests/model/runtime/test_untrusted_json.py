"""Configs and tokenizers that would do harm are refused; an error is a sentence that can be shown."""

import json
import os
import shutil

import pytest

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import parse_json, read_bytes
from model.text.tokenizer import Tokenizer
from model.text.untrusted import read_tokenizer
from tests.model.examples import network, sentences, tokenizers


def test_json_is_bounded(tmp_path):
    assert parse_json('{"a": [1, "é"]}'.encode(), "x") == {"a": [1, "é"]}
    assert parse_json(b"[NaN]", "x", nan=True)[0] != 0
    (tmp_path / "x").write_bytes(b"12345")
    with pytest.raises(CheckpointError, match="more than 4 bytes"):
        read_bytes(tmp_path / "x", 4)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="it is not a file"):
        read_bytes(tmp_path / "pipe")


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    both = tokenizers(sentences(20))
    folder = tmp_path_factory.mktemp("ours") / "mine"
    save_checkpoint(folder, network(source_vocabulary=len(both[0]), target_vocabulary=len(both[1])), both)
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 10**9}, r"the config says d_model 1,000,000,000, and no tensor in the weights is wider than \d+"),
        ({"d_ff": 10**12}, "the config says d_ff 1,000,000,000,000"),
        ({"n_heads": 10**9, "heads": "full"}, "the config says n_heads"),
        ({"source_vocabulary": 10**9}, "source_vocabulary|source_tokenizer"),
        ({"n_encoder_layers": 10**9}, "the config says 1,000,000,002 layers: at most 512"),
        ({"max_length": 10**9}, "the config says max_length 1,000,000,000, whose table"),
        ({"max_length": 10**30}, "the config says max_length"),
        ({"d_model": 10**30}, "the config says d_model"),
        ({"position_base": 10**30}, "config.json"),
        ({"max_length": 10**400}, "a number has 401 digits"),
        ({"dropout": float("nan")}, "NaN is not a number"),
        ({"max_length": True}, "must be a whole number"),
        ({"position": ["rotary"]}, "config.json"),
        ({"code": "import os"}, "code is not an option"),
        (b"\xff\xfe{\0}\0", "config.json is not valid JSON"),
        (b'{"a":' * 100_000, "config.json is not valid JSON: it nests too deep"),
        (b'{"d_model": 8, "d_model": 16}', "says 'd_model' twice"),
        (b'{"d_model": ' + b"9" * 9999 + b"}", "config.json is not valid JSON"),
        (b" " * (1 << 20) + b"{}", "config.json has more than 1,048,576 bytes"),
        (b"[]", "must hold a JSON object"),
    ],
)
def test_a_harmful_config_is_refused_before_memory_is_taken(change, message, ours, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "mine")
    config = folder / "config.json"
    if isinstance(change, bytes):
        config.write_bytes(change)
    else:
        config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(folder)


def changed_tokenizer(ours, folder, change):
    record = json.loads((ours / "source_tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(record | change))
    return folder / "tokenizer.json"


TEXT, SPECIAL = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<s>", "type_id": 0}}


def template(pieces, ids):
    """What stands around a text: `pieces`, of which a special token is so many ids."""
    special = {"<s>": {"id": "<s>", "ids": [2] * ids, "tokens": ["<s>"] * ids}}
    made = {"type": "TemplateProcessing", "single": pieces, "pair": [TEXT], "special_tokens": special}
    return {"post_processor": {"type": "Sequence", "processors": [made]}}


DOUBLED = {"type": "Sequence", "normalizers": [{"type": "Replace", "content": "aa"}] * 40}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": DOUBLED}, "become 12,157,665,"),
        ({"decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 299}}, "in 309 steps"),
        (template([TEXT] + [SPECIAL] * 1000, 1000), "puts 1,000,000 special tokens around 1 copies"),
        (template([TEXT, TEXT], 1), "puts 0 special tokens around 2 copies"),
        ({"model": {"type": "Unknown"}}, "cannot be read as a tokenizer"),
        ({"model": None}, "cannot be read as a tokenizer"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cannot be read as a tokenizer"),
    ],
)
def test_a_harmful_tokenizer_is_refused(change, message, ours, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        read_tokenizer(changed_tokenizer(ours, tmp_path, change))


def test_a_tokenizer_neither_pads_nor_cuts(ours, tmp_path):
    padding = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    padding |= {"pad_type_id": 0, "pad_token": "<pad>"}
    truncation = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    tokenizer = read_tokenizer(changed_tokenizer(ours, tmp_path, {"padding": padding, "truncation": truncation}))
    assert (tokenizer.padding, tokenizer.truncation) == (None, None)


def test_a_panic_at_a_text_is_an_error_like_others(ours, tmp_path):
    """A regular expression that never ends: the library gives up and panics."""
    normalizer = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}
    tokenizer = Tokenizer.read(changed_tokenizer(ours, tmp_path, {"normalizer": normalizer}))
    assert len(tokenizer.encode("I")) > 0
    with pytest.raises(CheckpointError, match=r"the tokenizer fails at this text: .*retry-limit"):
        tokenizer.encode("a" * 40 + "x")


def test_an_error_can_be_shown():
    assert str(CheckpointError("a\x1b[31m\n\ud800é" + "x" * 9999)).startswith(r"a\x1b[31m\n\ud800é")
    assert len(str(CheckpointError("x" * 9999))) == 600
