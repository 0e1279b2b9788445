"""Heads cut from the files of every layout: what is changed in theirs moves exactly the heads that it belongs to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.analysis.head_tensors import head_tensors, moved_heads
from model.errors import CheckpointError
from model.foreign.told import Told
from model.listing import listed
from tests.model.foreign.layout_references import GPT, Annotated
from tests.model.hosted.models import FAMILIES, theirs
from tests.viz.small import write_small

TOLD = Told(heads=4)
# Of a family: the kind, its name of a matrix of the second layer, what of it is changed, and the heads that this moves.
ROWS, COLUMNS = (slice(8, 16), slice(None)), (slice(None), slice(8, 16))
CASES = {
    "gpt2": ("decoder", "transformer.h.1.attn.c_attn.weight", (slice(None), slice(32 + 8, 32 + 16)), 1, [1]),
    "llama": ("decoder", "model.layers.1.self_attn.v_proj.weight", ROWS, 2, [2, 3]),  # two heads share it
    "bert": ("encoder", "bert.encoder.layer.1.attention.output.dense.weight", COLUMNS, 3, [1]),
    "bart": ("cross", "model.decoder.layers.1.encoder_attn.q_proj.weight", ROWS, 0, [1]),
    "t5": ("encoder", "encoder.block.1.layer.0.SelfAttention.k.weight", ROWS, 1, [1]),
    "gptj": ("decoder", "transformer.h.1.attn.out_proj.weight", COLUMNS, 3, [1]),
    "phi": ("decoder", "model.layers.1.self_attn.dense.weight", COLUMNS, 3, [1]),
    "gemma2": ("decoder", "model.layers.1.self_attn.k_proj.weight", (slice(16, 32), slice(None)), 1, [2, 3]),
    "electra": ("encoder", "electra.encoder.layer.1.attention.self.query.weight", ROWS, 0, [1]),
    "m2m_100": ("cross", "model.decoder.layers.1.encoder_attn.v_proj.weight", ROWS, 2, [1]),
    "pegasus": ("encoder", "model.encoder.layers.1.self_attn.out_proj.weight", COLUMNS, 3, [1]),
}


def written(family: str, folder: Path) -> Path:
    """A copy of a tiny model of transformers."""
    return Path(shutil.copytree(theirs(family)[1], folder))


def moved(before, after, kind, told=TOLD):
    old, new = (head_tensors(path, told, listed(path).kind) for path in (before, after))
    return moved_heads(old[kind], new[kind])


@pytest.mark.parametrize("family", CASES)
def test_a_part_of_theirs_is_a_head(family, tmp_path):
    kind, name, part, projection, heads = CASES[family]
    before, after = (written(family, tmp_path / each) for each in "ab")
    weights = load_file(after / "model.safetensors")
    weights[name][part] *= 3
    save_file(weights, after / "model.safetensors", {"format": "pt"})
    changes = moved(before, after, kind)
    expected = torch.zeros_like(changes)
    expected[projection, 1, heads] = 2
    torch.testing.assert_close(changes, expected)


@pytest.mark.parametrize("model", [GPT(heads=4), Annotated(heads=4)], ids=["nanoGPT", "Annotated Transformer"])
def test_layouts_of_files(model, tmp_path):
    old = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    new = {name: tensor.clone() for name, tensor in old.items()}
    nano = isinstance(model, GPT)
    name = "transformer.h.0.attn.c_attn.weight" if nano else "encoder.layers.0.self_attn.linears.2.weight"
    new[name][(24 if nano else 0) + 6 : (24 if nano else 0) + 9] *= -1
    for each, state in (("a.pt", old), ("b.pt", new)):
        torch.save(state, tmp_path / each)
    changes = moved(tmp_path / "a.pt", tmp_path / "b.pt", "decoder" if nano else "encoder")
    expected = torch.zeros_like(changes)
    expected[2, 0, 2] = 2
    torch.testing.assert_close(changes, expected)


def test_ours_and_other_shapes(tmp_path):
    one, two, deep = write_small(tmp_path / "a"), write_small(tmp_path / "b"), write_small(tmp_path / "c", n_heads=4)
    assert not moved(one, two, "cross").any()
    assert moved(one, deep, "cross") is None


def test_what_cannot_be_told_apart_is_a_sentence(tmp_path):
    folder = written("phi3", tmp_path / "packed")
    with pytest.raises(CheckpointError, match="packed has no matrices of queries, keys, values and outputs"):
        head_tensors(folder, TOLD, listed(folder).kind)
    torch.save({"a": torch.zeros(3)}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="is none of nanoGPT"):
        head_tensors(tmp_path / "x.pt", TOLD, None)


def test_every_family_of_the_tests_is_tried():
    assert CASES.keys() <= FAMILIES.keys()
