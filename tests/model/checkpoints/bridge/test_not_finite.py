"""Bridged models that compute numbers that are not finite: opened all the same, and what is not finite is found."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.analysis.finite import first_not_finite
from model.checkpoints.bridge.network import tamed
from tests.model.checkpoints.bridge.models import opened, settings_in, theirs, traced


def changed(tmp_path, name, change):
    """A folder of this family with other weights."""
    folder = tmp_path / name
    shutil.copytree(theirs(name)[1], folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("name", ["gemma2", "opt", "bart"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_weight_that_is_not_finite_is_found_by_the_quantity_that_it_spoils(tmp_path, name, value):
    def change(tensors):
        key = next(key for key in tensors if "layers.1." in key and ("up_proj" in key or key.endswith("fc1.weight")))
        tensors[key][3, 4] = value

    folder = changed(tmp_path, name, change)
    network = opened(folder)
    assert network.missing.keys() == opened(theirs(name)[1]).missing.keys()  # as much of it is recognised
    found = first_not_finite(traced(network))
    assert ".layers.1.feed_forward." in found.tensor
    assert any(not bool(parameter.isfinite().all()) for parameter in network.parameters())  # nothing was mended


def test_an_overflow_of_float16_is_found_too(tmp_path):
    def change(tensors):
        for key in tensors:
            if "layers.0.mlp.down_proj" in key:
                tensors[key] = torch.full_like(tensors[key], 5e4)
            elif "up_proj" in key:
                tensors[key] *= 20

    folder = changed(tmp_path, "gemma2", change)
    settings = settings_in(folder) | {"dtype": "float16"}
    (folder / "config.json").write_text(json.dumps(settings))
    network = opened(folder, dtype=torch.float16)
    found = first_not_finite(traced(network))
    assert found.tensor == "decoder.layers.0.feed_forward.output"
    assert first_not_finite(traced(opened(folder))) is None  # in float32 it does not overflow


def test_what_was_tamed_is_as_it_was():
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    with torch.no_grad():
        network[0].weight[1, 1] = torch.nan
    before = [parameter.detach().clone() for parameter in network.parameters()]
    places = [parameter.data_ptr() for parameter in network.parameters()]
    with tamed(network, 0.5):
        assert all(bool(parameter.isfinite().all()) for parameter in network.parameters())
        torch.testing.assert_close(network[0].weight[0], before[0][0] / 2)
        torch.testing.assert_close(network[1].weight, before[2])
    for parameter, value in zip(network.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), value, equal_nan=True, rtol=0, atol=0)
    assert places == [parameter.data_ptr() for parameter in network.parameters()]
