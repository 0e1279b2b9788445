"""Errors of model/ are said in the language of the page, with the values that they carry."""

from __future__ import annotations

import gc
import json
import math
import pickle
import re
import weakref

import pytest
import torch

from model.checkpoints.convert.state_dict import unsaid
from model.checkpoints.load import open_checkpoint
from model.inference.decoding import Sampling
from model.message import InputError, Message, read, written
from model.network.config import TransformerConfig
from model.runtime.errors import NOT_FINITE, STANDS, WENT_BACK, CheckpointError, describe_training_error
from model.training.settings import TrainingSettings
from viz.i18n.catalogue import LANGUAGES, _, use
from viz.i18n.errors import translate_error


@pytest.fixture(autouse=True)
def english_again():
    yield
    use("en")


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (lambda: config(n_heads=3), "d_model（8）必须能被 n_heads（3）整除"),
        (lambda: config(dropout=1.5), "dropout（1.5）必须不小于 0 且小于 1"),
        (lambda: config(d_ff=0), "d_ff（0）必须至少为 1"),
        (lambda: TrainingSettings(steps=10, clip=0.0), "clip（0.0）必须大于 0"),
        (lambda: Sampling(top_p=2.0), "top_p（2.0）必须大于 0 且不大于 1"),
    ],
)
def test_an_error_is_said_in_chinese_with_its_values(cause, sentence):
    with pytest.raises(ValueError, match=r"[a-z]") as raised:
        cause()
    assert translate_error(raised.value) == str(raised.value)
    use("zh")
    assert translate_error(raised.value).startswith(sentence)
    assert not re.search(r"must|one of|at least", translate_error(raised.value))


def test_a_language_in_which_no_error_is_translated_yet_says_them_in_english(monkeypatch):
    monkeypatch.setitem(LANGUAGES, "de", "DE")
    use("de")
    with pytest.raises(ValueError, match="d_ff") as raised:
        config(d_ff=0)
    assert translate_error(raised.value) == "d_ff (0) must be at least 1"
    assert _("Translate") == "Translate"


def test_an_error_inside_of_another_is_said_too(tmp_path):
    use("zh")
    with pytest.raises(ValueError, match="d_model") as inner:
        config(n_heads=3)
    outer = CheckpointError("{file} does not describe a model that can be built: {error}", file="a", error=inner.value)
    assert str(outer) == "a does not describe a model that can be built: d_model (8) must be divisible by n_heads (3)"
    assert translate_error(outer) == "a 描述的模型无法构建：d_model（8）必须能被 n_heads（3）整除"
    sparse = tmp_path / "m.pt"
    torch.save({"weight": torch.eye(3).to_sparse()}, sparse)
    with pytest.raises(CheckpointError) as raised:
        open_checkpoint(sparse)
    assert translate_error(raised.value) == "m.pt 中有稀疏的张量：只能显示普通张量"


def test_what_broke_a_training_off_is_said_in_chinese():
    use("zh")
    first = Message(", not finite first in {name}", name="output.logits.weight")
    values = {"step": 7, "loss": math.nan, "total": math.inf, "first": first}
    what = Message("step {step}: loss {loss}, gradient norm {total}{first}", **values)
    why = Message(NOT_FINITE, name="output.logits.weight", step=6)
    told = translate_error(Message(WENT_BACK, what=what, why=why, step=4, rate=0.1))
    assert told == (
        "第 7 步：损失 nan，梯度范数 inf，最先在 output.logits.weight 中不是有限数；"
        "第 6 步的 output.logits.weight 也不是有限数，因此训练已回到第 4 步：请先调低学习率（0.1）再继续"
    )
    assert translate_error(Message(STANDS, what=what, step=6, rate=0.1)).endswith(
        "并调低学习率（0.1），或换一个 seed，用另一个批次继续"
    )
    for error in (MemoryError(), RuntimeError("something")):
        assert not re.search("[a-z] [a-z]", translate_error(describe_training_error(error, 3, 2000)))


def test_a_file_that_cannot_be_opened_is_refused_in_chinese(tmp_path):
    use("zh")
    for name, content in (("a.pkl", b"x"), ("a.safetensors", b"x"), ("a.pt", b"x"), ("a.gguf", b"x"), ("a.txt", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError) as raised:
            open_checkpoint(tmp_path / name)
        assert re.search("[\u4e00-\u9fff]", translate_error(raised.value)), raised.value


def test_a_message_is_its_sentence_and_stays_a_message_through_errors_and_pickles():
    message = Message("{name} ({value!r}) must be at least {least:,}", name="d_ff", value="a{b}", least=1000)
    assert message == "d_ff ('a{b}') must be at least 1,000"
    again = pickle.loads(pickle.dumps(message))
    for same in (str(message), str(ValueError(message)), again, message.read_as(message), read(written(message))):
        assert same == message
        assert isinstance(same, Message)
        assert (same.text, same.values) == (message.text, message.values)
    assert str(InputError("{a} as it is")) == "{a} as it is"


def test_what_is_cut_and_escaped_stays_so_in_a_pickle():
    """Entries of the list of checkpoints come back through one."""
    error = CheckpointError("{file} is not a checkpoint: no folder or file of that name", file="a\u202eb" + "c" * 5000)
    again = pickle.loads(pickle.dumps(str(error)))
    assert again == str(error)
    assert len(again) < 610
    assert "\u202e" not in again


def test_a_sentence_keeps_no_error_alive():
    class Large:
        pass

    def break_off(kept):
        raise ValueError(f"{kept is None}")

    large = Large()
    gone = weakref.ref(large)
    try:
        break_off(large)
    except ValueError as error:
        message = Message("{file} cannot be read: {error}", file="a", error=error)
    del large
    gc.collect()
    assert message == "a cannot be read: False"
    assert gone() is None


def test_messages_are_said_in_chinese_after_a_file():
    use("zh")
    assumed = json.loads(json.dumps(written(unsaid("norms before each block", "norm_first"))))
    assert translate_error(read(assumed)) == translate_error(unsaid("norms before each block", "norm_first"))
    assert re.search("[\u4e00-\u9fff]", translate_error(read(assumed)))


@pytest.mark.parametrize(
    "text", ["{a.__class__}", "{a[0]}", "{a:>99999999}", "{b}", "{", "{a!s}", "{0}", "{a:{a}}", "{a:,.3f}"]
)
def test_a_strangers_text_looks_nothing_up(text):
    assert read({"text": text, "values": {"a": "x"}}) == text
    assert read({"text": text}) == str({"text": text})


def test_what_no_catalogue_has_stays_as_it_is():
    use("zh")
    assert translate_error("a {0} of {braces}") == "a {0} of {braces}"
    for odd in ("", "d_model ({1}) must be divisible by n_heads ({2})\n"):
        assert translate_error(odd) == odd


def config(**options):
    sizes = {"source_vocabulary": 8, "target_vocabulary": 8, "d_model": 8, "n_heads": 2}
    return TransformerConfig(**(sizes | options))


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("/home/me/models/gpt2 is not a checkpoint", "gpt2 is not a checkpoint"),
        ("[Errno 28] No space left on device: '/srv/saved/a b/x.bin'", "[Errno 28] No space left on device: 'x.bin'"),
        ("see https://huggingface.co/gpt2/tree for it", "see https://huggingface.co/gpt2/tree for it"),
        ("a/b and 3/4 of it", "a/b and 3/4 of it"),
        ("/tmp is full", "/tmp is full"),
    ],
)
def test_no_sentence_tells_where_the_server_keeps_its_files(sentence, shown):
    assert translate_error(sentence) == shown
