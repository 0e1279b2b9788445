"""Tensors that a model has no use for: harmless ones, parts beside it, and those without which it computes wrongly."""

from __future__ import annotations

import json
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.leftover import leftover
from model.checkpoints.load import open_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer

MODULES = {"", "model", "model.layers", "model.layers.0", "model.layers.0.attn", "model.embed", "lm_head"}
HARMLESS = """
    model.layers.0.attn.bias model.layers.0.attn.masked_bias model.layers.0.attn.rotary_emb.inv_freq
    model.embed.position_ids pooler.dense.weight bert.pooler.dense.bias score.weight v_head.summary.weight
    cls.seq_relationship.weight classifier.out_proj.weight qa_outputs.bias encoder.version optimizer.state.0.exp_avg
    model.layers.0.attn.k_scale model.embed_positions.weights
""".split()
BESIDE = """
    ema.model.layers.0.attn.q.weight draft_model.layers.0.attn.q.weight teacher.lm_head.weight mtp.norm.weight
    visual.blocks.0.norm.weight model.vision_tower.embed.weight model.multi_modal_projector.bias cls.predictions.bias
    embed_out.weight projection.weight output_bias norm.weight
""".split()
REFUSED = {
    "model.layers.0.attn.distance_embedding.weight": "model.layers.0.attn",
    "model.layers.0.attn.q_norm.weight": "model.layers.0.attn",
    "model.layers.0.attn.lora_A.weight": "model.layers.0.attn",
    "model.layers.0.experts.3.weight": "model.layers.0",
    "model.embed.types.weight": "model.embed",
    "lm_head.codebook": "lm_head",
    "model.relative_attention_bias.weight": "relative_attention_bias",
    "model.rel_pos.weight": "rel_pos",
    "model.router.weight": "router",
}


def test_what_changes_nothing_and_what_lies_beside_are_told_apart():
    found = leftover([*HARMLESS, *BESIDE], MODULES, "model", "m")
    assert found.harmless == sorted(HARMLESS)
    assert found.beside == sorted(BESIDE)


@pytest.mark.parametrize("name", REFUSED)
def test_what_belongs_to_the_computation_is_refused(name):
    with pytest.raises(CheckpointError, match=f"holds {name}, which belongs to the computation of {REFUSED[name]} "):
        leftover([name], MODULES, "model", "m")
    short = name.removeprefix("model.")
    if short != name:  # in the file of a bare model
        with pytest.raises(
            CheckpointError, match=f"holds {short}, which belongs to the computation of {REFUSED[name]} "
        ):
            leftover([short], MODULES, "model", "m", bare=True)


@pytest.mark.parametrize(
    ("family", "name", "key"),
    [
        ("bert", "bert.encoder.layer.0.attention.self.distance_embedding.weight", ""),
        ("bert", "bert.encoder.relative_attention_bias.weight", ""),
        ("llama", "model.layers.0.mlp.experts.0.weight", ""),
        ("bert", "bert.pooler.dense.weight", None),  # our own network, which has no use for it either
        ("gemma2", "score.weight", "unused"),
        ("gemma2", "mtp.layers.0.weight", "beside"),
    ],
)
def test_a_folder_with_one_more_tensor_says_so_or_is_refused(family, name, key, tmp_path):
    copytree(theirs(family)[1], folder := tmp_path / family)
    write_tokenizer(folder)
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {name: torch.ones(4, 4)}, folder / "model.safetensors", metadata={"format": "pt"})
    if key == "":
        with pytest.raises(CheckpointError, match=f"holds {name}, which belongs to the computation of"):
            open_checkpoint(folder)
        return
    training = open_checkpoint(folder).training
    assert {each: training[each] for each in ("unused", "beside") if each in training} == ({key: [name]} if key else {})


@pytest.mark.parametrize(("family", "model", "ours"), [("llama", "LlamaModel", True), ("gemma2", "Gemma2Model", False)])
def test_an_output_in_the_file_is_opened_whatever_class_the_config_names(family, model, ours, tmp_path):
    copytree(theirs(family)[1], folder := tmp_path / family)
    write_tokenizer(folder)
    weights = load_file(folder / "model.safetensors")
    weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"] + 0.1)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    changes = {"architectures": [model], "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config | changes))
    lens = open_checkpoint(folder)
    assert (lens.predicts, lens.network.ours) == (True, ours)
    torch.testing.assert_close(lens.network.output.logits.weight, weights["lm_head.weight"])


def test_relative_positions_that_the_code_has_not_are_refused(tmp_path):
    copytree(theirs("bert")[1], folder := tmp_path / "bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"position_embedding_type": "relative_key"}))
    with pytest.raises(CheckpointError, match="position_embedding_type relative_key"):
        open_checkpoint(folder)


def test_of_two_models_in_a_folder_the_opened_one_is_said_and_the_other_can_be_chosen(tmp_path):
    copytree(theirs("llama")[1], folder := tmp_path / "m")
    write_tokenizer(folder)
    first = load_file(folder / "model.safetensors")
    second = {name: each + 0.1 for name, each in first.items()}

    def saved(one: str, other: str):
        tensors = {f"{one}{name}": each for name, each in first.items()}
        tensors |= {f"{other}{name}": each for name, each in second.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    def embedding(**hints):
        model = open_checkpoint(folder, **hints)
        assert model.network.ours
        return model.network.get_parameter("decoder.embedding.tokens.weight"), model.training

    for one, other, shown in (("student.", "teacher.", "under student"), ("", "ema.", "whose names have no prefix")):
        saved(one, other)
        table, training = embedding()
        torch.testing.assert_close(table, first["model.embed_tokens.weight"])
        paths = [one.rstrip("."), other.rstrip(".")]
        assert training["models"] == paths
        assert training["open"] == {"prefix": paths[0]}
        assert training["assumed"] == [f"the model {shown} (the file holds others, under {paths[1]})"]
        assert len(training["beside"]) == len(second)
        table, training = embedding(prefix=paths[1])
        torch.testing.assert_close(table, second["model.embed_tokens.weight"])
        assert "assumed" not in training
    with pytest.raises(CheckpointError, match=r"no tensors whose names begin with x\.: leave prefix:x out"):
        open_checkpoint(folder, prefix="x")
    second = {f"draft_{name}": each + 0.1 for name, each in first.items() if "layers.1" not in name}
    saved("", "")  # of another size, beside the one that is named as its family
    training = open_checkpoint(folder).training
    assert (training["models"], training["prefix"]) == (["", "draft_model"], "")
