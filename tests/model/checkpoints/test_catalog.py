"""What a checkpoint is, from its headers: no value is read, and nothing that is wrong with it raises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load import open_checkpoint
from tests.model.checkpoints.convert.layout_references import GPT
from tests.viz.small import write_small

TENSORS = {"a": torch.zeros(3, 5), "b": torch.zeros(7)}


def hugging_face(folder, **config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(TENSORS, folder / "model.safetensors")
    return catalog_entry(folder)


def test_our_folder(tmp_path):
    folder = write_small(tmp_path / "small")
    found = catalog_entry(folder)
    assert (found.format, found.family, found.kind, found.problem) == ("Vitrine", "", "encoder-decoder", "")
    assert found.parameters == open_checkpoint(folder).network.parameter_count()
    assert found.bytes == 4 * found.parameters


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "decoder-only"),
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, "decoder-only"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "encoder-only"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "encoder-only"),
        ({"model_type": "marian", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "t5", "is_encoder_decoder": False, "architectures": ["T5EncoderModel"]}, "encoder-only"),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, "decoder-only"),
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
    assert catalog_entry(tmp_path / "x.safetensors").format == "safetensors"
    found = catalog_entry(tmp_path / "x.pt")
    assert (found.format, found.kind, found.parameters) == ("PyTorch", None, 22)


@pytest.mark.parametrize("content", ["{", "[]", '{"d_model": 7}', '{"model_type": "gpt2", "model_type": "bert"}'])
def test_what_is_wrong_is_a_sentence(tmp_path, content):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text(content)
    assert len(catalog_entry(tmp_path / "bad").problem) > 20
    for content in (b"", b"short"):
        (tmp_path / "x.safetensors").write_bytes(content)
        problem = catalog_entry(tmp_path / "x.safetensors").problem
        assert problem.startswith("x.safetensors cannot be read")
        assert str(tmp_path) not in problem
    assert catalog_entry(tmp_path / "nowhere").problem
    assert catalog_entry(Path("/")).problem.startswith("/ is a folder without")


def test_an_optimizer_and_kept_masks_are_no_parameters_of_the_model(tmp_path):
    model = GPT()
    adam = torch.optim.AdamW(model.parameters())
    model(torch.tensor([[1, 2, 3]])).sum().backward()
    adam.step()
    mask = {"transformer.h.0.attn.bias": torch.ones(1, 1, 16, 16), "transformer.h.0.attn.mask": torch.ones(9).bool()}
    held = {"model": model.state_dict() | mask, "optimizer": adam.state_dict(), "iter_num": 7}
    torch.save(held, tmp_path / "nano.pt")
    found = catalog_entry(tmp_path / "nano.pt")
    assert found.parameters == sum(parameter.numel() for parameter in set(model.parameters()))
    assert found.bytes > 3 * 4 * found.parameters
    assert found.computes


def test_of_tensors_without_a_known_layout_it_is_said(tmp_path):
    save_file(TENSORS, tmp_path / "x.safetensors")
    (tmp_path / "folder").mkdir()
    torch.save(GPT().state_dict(), tmp_path / "folder" / "gpt.pt")
    (tmp_path / "folder" / "config.json").write_text('{"model": {"n_head": 3}}')
    assert not catalog_entry(tmp_path / "x.safetensors").computes
    found = catalog_entry(tmp_path / "folder")
    assert (found.format, found.problem, found.computes) == ("PyTorch", "", True)
    assert open_checkpoint(tmp_path / "folder").network.parameter_count() == found.parameters
