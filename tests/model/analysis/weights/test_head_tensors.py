"""Heads cut from the files of every layout: what is changed in theirs moves exactly the heads that it belongs to."""

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from model.analysis.weights.heads import PROJECTIONS, attentions, head_tensors, head_weights, moved_heads, projection_of
from model.checkpoints.catalog import catalog_entry
from model.checkpoints.load_hints import LoadHints
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import PACKED, bridged, theirs
from tests.model.checkpoints.convert.layout_references import GPT, Annotated
from tests.viz.small import write_small

TOLD = LoadHints(heads=4)
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
    "bloom": ("decoder", "transformer.h.1.self_attention.query_key_value.weight", (slice(32, 40), slice(None)), 1, [1]),
    "pegasus": ("encoder", "model.encoder.layers.1.self_attn.out_proj.weight", COLUMNS, 3, [1]),
}


def test_a_name_alone_tells_which_projection_it_is_or_that_it_is_none():
    known = {name: place for family, (_, name, _, place, _) in CASES.items() if family not in ("gpt2", "t5", "bloom")}
    known |= {f"decoder.layers.1.cross_attention.{part}.weight": place for place, part in enumerate(PROJECTIONS)}
    names = ("decoder.layers.1.feed_forward.output.weight", "h.0.attn.c_attn.weight", "h.0.mlp.c_proj.weight")
    assert {name: projection_of(name) for name in (*known, *names)} == known | dict.fromkeys(names)


def written(family: str, folder: Path) -> Path:
    """A copy of a tiny model of transformers."""
    return Path(shutil.copytree(theirs(family)[1], folder))


def written_twice(family: str, folder: Path, name: str, part) -> tuple[Path, Path]:
    """Two copies of it; of the second, a part of the weight of this name has the other sign."""
    before, after = (written(family, folder / each) for each in "ab")
    weights = load_file(after / "model.safetensors")
    weights[name][part] *= -1
    save_file(weights, after / "model.safetensors", {"format": "pt"})
    return before, after


def moved(before, after, kind):
    """Of each head by how much it moved, and the cosine."""
    old, new = (head_tensors(path, TOLD, catalog_entry(path).kind)[kind] for path in (before, after))
    return moved_heads(old, new)


@pytest.mark.parametrize("family", CASES)
def test_a_part_of_theirs_is_a_head(family, tmp_path):
    kind, name, part, projection, heads = CASES[family]
    changes, cosines = moved(*written_twice(family, tmp_path, name, part), kind)
    expected = torch.zeros_like(changes)
    expected[projection, 1, heads] = 2
    assert_close(changes, expected)
    assert_close(cosines, 1 - expected)


@pytest.mark.parametrize("model", [GPT(heads=4), Annotated(heads=4)], ids=["nanoGPT", "Annotated Transformer"])
def test_layouts_of_files(model, tmp_path):
    weights, nano = copy.deepcopy(model.state_dict()), isinstance(model, GPT)
    torch.save(weights, tmp_path / "a.pt")
    name = "transformer.h.0.attn.c_attn.weight" if nano else "encoder.layers.0.self_attn.linears.2.weight"
    weights[name][(24 if nano else 0) + 6 : (24 if nano else 0) + 9] *= -1
    torch.save(weights, tmp_path / "b.pt")
    changes, _cosines = moved(tmp_path / "a.pt", tmp_path / "b.pt", "decoder" if nano else "encoder")
    expected = torch.zeros_like(changes)
    expected[2, 0, 2] = 2
    assert_close(changes, expected)


def test_ours_and_other_shapes(tmp_path):
    one, two, deep = write_small(tmp_path / "a"), write_small(tmp_path / "b"), write_small(tmp_path / "c", n_heads=4)
    assert not moved(one, two, "cross")[0].any()
    assert moved(one, deep, "cross") is None


@pytest.mark.parametrize("name", [name for name in PACKED if name not in ("deberta-v2", "deepseek_v2")] + ["phi3"])
def test_of_a_file_the_same_heads_are_cut_as_of_the_model_that_runs(name):
    folder = theirs(name)[1]
    (layers,) = head_tensors(folder, TOLD, catalog_entry(folder).kind).values()
    for own, attention in zip(layers, attentions(bridged(name)).values(), strict=True):
        for each, projection in zip(own, PROJECTIONS, strict=True):
            weight = each.weight.T if each.columns else each.weight
            heads = weight.reshape(each.heads, -1, weight.shape[-1]).repeat_interleave(4 // each.heads, dim=0)
            assert_close(heads, head_weights(attention, projection), rtol=0, atol=0)


def test_heads_of_an_encoder_of_t5_alone_are_told_apart(tmp_path):
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 49}
    model = transformers.T5EncoderModel(transformers.T5Config(**sizes))
    model.save_pretrained(tmp_path)
    (layers,) = head_tensors(tmp_path, TOLD, "encoder-only").values()
    attention = model.encoder.block[1].layer[0].SelfAttention
    for own, name in zip(layers[1], "qkvo", strict=True):
        assert own.heads == 4
        assert_close(own.weight, getattr(attention, name).weight.detach())


def test_what_a_config_says_wrongly_of_a_packed_matrix_is_a_sentence(tmp_path):
    folder = written("falcon-40b", tmp_path / "packed")
    for wrong in ({"num_attention_heads": 7}, {"num_kv_heads": 3}, {"num_kv_heads": 0}, {"num_attention_heads": 10**9}):
        settings = json.loads((theirs("falcon-40b")[1] / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(settings | wrong))
        with pytest.raises(CheckpointError, match="packed has no matrices of queries, keys, values and outputs"):
            head_tensors(folder, TOLD, "decoder-only")


@pytest.mark.parametrize("shape", [(0, 4), (12, 0), (7, 4), (12, 4)])
@pytest.mark.parametrize("settings", [{"n_head": 2**70}, {"n_head": 5}, {"n_head": 12, "num_key_value_heads": 2**70}])
@pytest.mark.parametrize("family", ["bloom", "falcon", "codegen", "phi3"])
def test_no_shape_and_no_number_of_heads_is_more_than_a_sentence(family, settings, shape, tmp_path):
    place = "transformer.h.0.self_attention"
    weights = {f"{place}.query_key_value.weight": torch.zeros(shape), f"{place}.dense.weight": torch.zeros(4, 4)}
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family} | settings))
    with pytest.raises(CheckpointError, match="has no matrices of queries, keys, values and outputs"):
        head_tensors(tmp_path, TOLD, None)


def test_what_cannot_be_told_apart_is_a_sentence(tmp_path):
    folder = written("deepseek_v2", tmp_path / "packed")
    with pytest.raises(CheckpointError, match="packed has no matrices of queries, keys, values and outputs"):
        head_tensors(folder, TOLD, catalog_entry(folder).kind)
    torch.save({"a": torch.zeros(3)}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="is none of nanoGPT"):
        head_tensors(tmp_path / "x.pt", TOLD, None)
