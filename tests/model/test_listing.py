"""What a checkpoint is, from its headers: no value is read, and nothing that is wrong with it raises."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints import open_checkpoint
from model.listing import listed
from tests.viz.small import write_small

TENSORS = {"a": torch.zeros(3, 5), "b": torch.zeros(7)}


def hugging_face(folder, **config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(TENSORS, folder / "model.safetensors")
    return listed(folder)


def test_our_folder(tmp_path):
    folder = write_small(tmp_path / "small")
    found = listed(folder)
    assert (found.format, found.family, found.kind, found.problem) == ("Vitrine", "", "encoder-decoder", "")
    assert found.parameters == open_checkpoint(folder).model.parameter_count()
    assert found.bytes == 4 * found.parameters


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "decoder-only"),
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, "decoder-only"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "encoder-only"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "encoder-only"),
        ({"model_type": "marian", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "unheard-of"}, None),
    ],
)
def test_a_folder_of_hugging_face(tmp_path, config, kind):
    found = hugging_face(tmp_path / "theirs", **config)
    assert (found.format, found.family, found.kind) == ("Hugging Face", config["model_type"], kind)
    assert (found.parameters, found.bytes, found.problem) == (22, 88, "")


def test_files_of_tensors(tmp_path):
    save_file(TENSORS, tmp_path / "x.safetensors")
    tied = TENSORS | {"c": TENSORS["a"]}
    torch.save(tied, tmp_path / "x.pt")
    assert listed(tmp_path / "x.safetensors").format == "safetensors"
    found = listed(tmp_path / "x.pt")
    assert (found.format, found.kind, found.parameters) == ("PyTorch", None, 22)


@pytest.mark.parametrize("content", ["{", "[]", '{"d_model": 7}', '{"model_type": "gpt2", "model_type": "bert"}'])
def test_what_is_wrong_is_a_sentence(tmp_path, content):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text(content)
    assert len(listed(tmp_path / "bad").problem) > 20
    (tmp_path / "x.safetensors").write_bytes(b"short")
    assert "x.safetensors" in listed(tmp_path / "x.safetensors").problem
    assert listed(tmp_path / "nowhere").problem
