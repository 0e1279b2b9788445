"""Why a file is not opened: what it is, by what it holds, and nothing to fetch that would not help."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import theirs
from tests.model.checkpoints.convert.course_references import meta_weights
from tests.model.checkpoints.convert.layout_references import GPT, quietly

ONE = torch.ones(4, 4)


def torchs(**parts):
    """State dict of an encoder of torch with these parts around it."""
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    around = {"emb": nn.Embedding(19, 4), "encoder": quietly(nn.TransformerEncoder, layer, 1), **parts}
    return nn.ModuleDict(around).state_dict()


FILES = {
    "a decoder alone": (
        nn.ModuleDict({"d": nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1)}).state_dict(),
        r"holds 0 stacks of torch\.nn\.TransformerEncoder and 1 of torch\.nn\.TransformerDecoder: one encoder",
    ),
    "a classifier": (
        torchs(fc=nn.Linear(4, 2)),
        r"is a classifier or the like: what stands behind its layers \(fc\.weight\) gives no number for each",
    ),
    "a classifier of two layers": (torchs(head=nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))), "is a classifier or"),
    "a classifier of nanoGPT's": (
        {**GPT(mini=True).state_dict(), "lm_head.weight": torch.ones(3, 12)},
        r"is a classifier: lm_head\.weight gives 3 numbers, and there are 19 tokens in transformer\.wte\.weight",
    ),
    "CLIP": (
        {"visual.conv1.weight": ONE, "transformer.resblocks.0.attn.in_proj_weight": ONE, "token_embedding.weight": ONE},
        r"holds visual\.conv1\.weight, which a model of images has, so that it is no model of texts alone",
    ),
    "CLIP of Hugging Face": (
        {"vision_model.post_layernorm.weight": ONE, "text_model.encoder.layers.0.self_attn.q_proj.weight": ONE},
        r"holds vision_model\.post_layernorm\.weight, which a model of images has",
    ),
    "LSTM": (nn.LSTM(4, 4).state_dict(), "holds weight_ih_l0, which a recurrent model has"),
    "Mamba": ({"backbone.layers.0.mixer.A_log": ONE}, "A_log, which a recurrent model has"),
    "MLX": (
        {"model.layers.0.self_attn.q_proj.weight": ONE.to(torch.int32), "model.layers.0.self_attn.q_proj.scales": ONE}
        | {"model.layers.0.self_attn.q_proj.biases": ONE},
        r"is quantized \(MLX\): model\.layers\.0\.self_attn\.q_proj\.weight .*: open the model that it was made from",
    ),
    "another": (
        {"a.weight": ONE, "b.weight": ONE, "c.weight": ONE, "d.weight": ONE},
        r"holds tensors by whose names \(a\.weight, b\.weight, c\.weight, …; 4 in all\) it is none of nanoGPT, minGPT",
    ),
    "no tensors": ({"step": 3}, "holds no tensors of a model"),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused_by_what_it_is(name, tmp_path):
    state, sentence = FILES[name]
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match=sentence) as refused:
        open_checkpoint(tmp_path / "x.pt", heads=2)
    assert "config.json" not in str(refused.value)


def test_a_folder_s_only_file_of_weights_opens_as_the_folder(tmp_path):
    shutil.copytree(theirs("llama")[1], tmp_path / "llama")
    file = tmp_path / "llama" / "model.safetensors"
    assert open_checkpoint(file).training["format"] == "Hugging Face, llama"
    assert (catalog_entry(file).format, catalog_entry(file).family) == ("Hugging Face", "llama")
    torch.save(load_file(file), tmp_path / "llama" / "second.pt")
    with pytest.raises(CheckpointError, match="holds the weights of the Hugging Face model llama: open that folder"):
        open_checkpoint(tmp_path / "llama" / "second.pt")
    assert open_checkpoint("checkpoints/sort/model.safetensors").name == "sort"


@pytest.mark.parametrize(
    ("settings", "tensors", "sentence"),
    [
        (
            {"model_type": "clip", "text_config": {}, "vision_config": {}},
            {"logit_scale": torch.ones(1)},
            "model_type 'clip' compares texts with pictures or sounds and writes none, and transformers has no class",
        ),
        (
            {"model_type": "llama", "quantization": {"bits": 4}, "quantization_config": {"group_size": 64, "bits": 4}},
            {"lm_head.weight": ONE.to(torch.uint32), "lm_head.scales": ONE, "lm_head.biases": ONE + 1},
            r"is quantized \(MLX\): lm_head\.weight \(uint32\)",
        ),
    ],
)
def test_a_folder_is_refused_by_what_it_is(settings, tensors, sentence, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    for path in (tmp_path, tmp_path / "model.safetensors"):
        with pytest.raises(CheckpointError, match=sentence):
            open_checkpoint(path)


def test_one_of_several_files_of_meta_s_is_no_model(tmp_path):
    for number in range(2):
        torch.save(dict(meta_weights()), tmp_path / f"consolidated.0{number}.pth")
    (tmp_path / "params.json").write_text(json.dumps({"n_heads": 4}))
    with pytest.raises(CheckpointError, match="in parts, as Meta's model parallelism saves them"):
        open_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="is by its name one of several files of a model"):
        open_checkpoint(tmp_path / "consolidated.00.pth")
    (tmp_path / "consolidated.01.pth").unlink()
    assert open_checkpoint(tmp_path).training["format"] == "Llama in Meta's names"
