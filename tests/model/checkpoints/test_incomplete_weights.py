"""Weights that are no model by themselves: what is said of them, and what is not taken for such."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import settings_in, theirs
from tests.model.checkpoints.convert.layout_references import GPT
from tests.model.checkpoints.formats.test_headers import gguf_file

WEIGHTS = "model.safetensors"
NAMES = [
    "bert.encoder.layer.0.attention.self.query.weight",
    "distilbert.transformer.layer.0.attention.q_lin.weight",
    "mpnet.encoder.layer.0.attention.attn.q.weight",
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.qkv_proj.weight",
    "gpt_neox.layers.0.attention.query_key_value.weight",
    "transformer.h.0.self_attention.query_key_value.weight",
    "encoder.block.0.layer.0.SelfAttention.q.weight",
]


def refused(path, sentence) -> None:
    """In the list its tensors can be read, and the sentence that opening raises says why only these."""
    found = catalog_entry(path)
    assert (found.computes, found.problem) == (False, "")
    assert sentence in found.part
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(path)
    assert str(error.value) == found.part


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "t5"])
def test_weights_of_hugging_face_without_their_config(family, tmp_path):
    weights = load_file(theirs(family)[1] / WEIGHTS)
    torch.save(weights, tmp_path / "pytorch_model.bin")
    (tmp_path / "folder").mkdir()
    shutil.copy(theirs(family)[1] / WEIGHTS, tmp_path / "folder")
    for path, name in ((tmp_path / "pytorch_model.bin", "pytorch_model.bin"), (tmp_path / "folder", WEIGHTS)):
        refused(path, f"{name} has weights named as Hugging Face (some also as fairseq or torchtune)")
    shutil.copy(theirs(family)[1] / "config.json", tmp_path / "folder")
    assert catalog_entry(tmp_path / "folder").computes
    open_checkpoint(tmp_path / "folder")


@pytest.mark.parametrize("name", NAMES)
def test_their_families_are_known_by_the_names_of_tensors(name, tmp_path):
    save_file({name: torch.ones(4, 4)}, tmp_path / "x.safetensors")
    refused(tmp_path / "x.safetensors", "open the whole folder of the Hugging Face model, or a .zip of it")


def test_one_file_of_several(tmp_path):
    save_file({"embed.weight": torch.ones(4, 4)}, tmp_path / "model-00001-of-00002.safetensors")
    file = tmp_path / "model-00001-of-00002.safetensors"
    refused(file, "is by its name one of several files of a model: open their whole folder, or a .zip of it")
    assert "Hugging Face" not in catalog_entry(file).part  # anybody's may be named so
    part = tmp_path / "zero_pp_rank_0_mp_rank_00_model_states.pt"
    torch.save({"module": {}, "lr": torch.ones(1)}, part)
    refused(part, "is by its name one of several files of a model")
    torch.save({"state_dict": GPT().state_dict(), "n_head": 3}, tmp_path / "whole-00001-of-00001.pt")
    assert open_checkpoint(tmp_path / "whole-00001-of-00001.pt").training["format"] == "nanoGPT"


def test_an_adapter_without_its_config_says_what_is_missing(tmp_path):
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    save_file({name: torch.ones(2, 4), name.replace("_A", "_B"): torch.ones(4, 2)}, tmp_path / "adapter.safetensors")
    refused(tmp_path, "without the adapter_config.json that says what it changes and how: open the whole folder")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    assert catalog_entry(tmp_path).computes


def test_a_file_of_llama_cpp_that_does_not_say_what_it_is(tmp_path):
    refused(gguf_file(tmp_path / "x.gguf"), "x.gguf does not say general.architecture: convert it again")
    refused(tmp_path, "x.gguf does not say general.architecture")


@pytest.mark.parametrize("wrapped", ["", "_orig_mod.", "module._orig_mod.", "model."])
def test_nano_gpt_whatever_wraps_it_is_none_of_them(wrapped, tmp_path):
    """GPT-2's names are nanoGPT's; torch.compile, DistributedDataParallel and Lightning put their own before them."""
    state = {f"{wrapped}{name}": each for name, each in GPT().state_dict().items()}
    torch.save({"state_dict": state, "hyper_parameters": {"n_head": 3}}, tmp_path / "gpt.PT")
    assert (catalog_entry(tmp_path / "gpt.PT").computes, catalog_entry(tmp_path / "gpt.PT").part) == (True, "")
    assert open_checkpoint(tmp_path / "gpt.PT").training["format"] == "nanoGPT"


def test_a_pointer_of_git_lfs_and_a_folder_of_folders(tmp_path):
    folder = tmp_path / "models" / "snapshots" / "abc"
    shutil.copytree(theirs("gpt2")[1], folder)
    assert "none itself: give one of them, such as snapshots/abc" in catalog_entry(tmp_path / "models").problem
    (folder / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "abc/model.safetensors only points to the weights" in catalog_entry(folder).problem
    with pytest.raises(CheckpointError, match="fetch them with git lfs pull"):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["x.pt", "x.bin", "x.safetensors", "x.gguf"])
def test_a_pointer_is_told_as_such_whatever_it_points_to(name, tmp_path):
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert f"{name} only points to the weights" in catalog_entry(tmp_path / name).problem
    with pytest.raises(CheckpointError, match="fetch them with git lfs pull"):
        open_checkpoint(tmp_path / name)


def test_a_file_of_an_unknown_ending_is_told_what_opens(tmp_path):
    (tmp_path / "x.weights").write_bytes(b"?")
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(tmp_path / "x.weights")
    assert str(error.value) == "x.weights must be a checkpoint folder or end in .safetensors, .pt, .pth, .bin, .ckpt"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model_type": ""}, "config.json does not say its model_type"),
        ({"model_type": "unheard-of"}, "knows no model_type 'unheard-of', as config.json calls it: install a version"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantized, and transformers cannot open it"),
    ],
)
def test_what_this_transformers_cannot_run(changes, sentence, tmp_path):
    shutil.copytree(theirs("llama")[1], tmp_path / "llama")
    settings = settings_in(tmp_path / "llama") | changes
    (tmp_path / "llama" / "config.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=sentence) as error:
        open_checkpoint(tmp_path / "llama")
    assert str(tmp_path) not in str(error.value)
