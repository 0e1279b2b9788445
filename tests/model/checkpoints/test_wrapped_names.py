"""Checkpoints whose names have what stood around the model: opened as the same model, and no name of a model is cut."""

import json
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.checkpoints.wrapped_names import models_in, unwrapped, wrapping
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import theirs, write_tokenizer
from tests.model.examples import one_stack
from tests.viz.small import parts, write_small

WEIGHTS = "model.safetensors"


def rename(folder, renamed):
    weights = load_file(folder / WEIGHTS)
    save_file({renamed(name): each for name, each in weights.items()}, folder / WEIGHTS, {"format": "pt"})


def last(folder):
    trace = open_checkpoint(folder).trace("the fox")
    return trace[trace.recorded()[-1]]


AROUND = ("module.", "_orig_mod.", "module._orig_mod.", "model.", "net.model.module.")
FAMILIES = ("llama", "bert", "bare", "t5", "bloom", "ours", "decoder")


def make(family, folder):
    if family == "ours":
        return write_small(folder)
    if family == "decoder":  # all its names begin so
        model = one_stack("decoder-only", vocabulary=len(parts()[0]), output_head="none")
        save_checkpoint(folder, model, (parts()[0], parts()[0]))
        return folder
    copytree(theirs(family)[1], folder)
    write_tokenizer(folder)
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrapped_model_in_a_folder_opens_as_itself(family, tmp_path):
    folder = make(family, tmp_path / "m")
    plain, names = last(folder), list(load_file(folder / WEIGHTS))
    assert wrapping(names, ("encoder.", "decoder.", "output.", "model.", "bert.", "transformer.")) == []
    for around in AROUND:
        rename(folder, lambda name, around=around: around + name)
        assert torch.allclose(last(folder), plain, atol=1e-6), around
        rename(folder, lambda name, around=around: name.removeprefix(around))
    rename(folder, lambda name: name.replace("0.", "0._checkpoint_wrapped_module."))
    assert torch.allclose(last(folder), plain, atol=1e-6)


def test_a_layer_that_the_config_leaves_out_is_refused(tmp_path):
    folder = make("llama", tmp_path / "m")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"num_hidden_layers": 1}))
    with pytest.raises(
        CheckpointError, match=r"holds model\.layers\.1\.\S+ \(9 such\), a layer that config.json leaves"
    ):
        open_checkpoint(folder)


def test_tensors_without_a_use_are_named(tmp_path):
    folder = make("bloom", tmp_path / "m")
    weights = load_file(folder / WEIGHTS)
    more = {f"score.{name}": torch.zeros(2) for name in ("weight", "bias")}
    save_file(weights | more, folder / WEIGHTS, {"format": "pt"})
    assert open_checkpoint(folder).training["unused"] == ["score.bias", "score.weight"]
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    assert "unused" not in open_checkpoint(folder).training


def test_a_name_that_only_looks_wrapped_stays():
    assert (
        unwrapped("model.layers.0.x", wrapping(["model.layers.0.x", "model.norm.y"], ["model."])) == "model.layers.0.x"
    )
    assert wrapping(["0.weight", "0.bias"], []) == []
    assert wrapping([], []) == []
    assert wrapping(["module"], []) == []


SMALL = [
    f"{path}.{part}" for path in ("layers.0.attn.q", "layers.1.attn.q", "layers.0.mlp") for part in ("weight", "bias")
]


def test_models_side_by_side_are_known_by_what_they_have_in_common():
    def below(*paths):
        return [f"{path}{name}" for path in paths for name in (*SMALL, "norm.weight")]

    assert models_in(below("student.", "teacher.")) == ["student", "teacher"]
    assert models_in(below("", "ema.")) == ["", "ema"]
    assert models_in(below("m.actor.", "m.critic.")) == ["m.actor", "m.critic"]
    assert models_in(below("")) == models_in(below("encoder.", "decoder.")) == models_in(below("module.")) == []
    assert (
        models_in([*below("model."), "lm_head.weight"])
        == models_in(below("layer_0.", "layer_1."))
        == models_in([])
        == []
    )
