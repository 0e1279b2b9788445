"""A GGUF file beside the folder that it was made from: the error of its quantization, tensor by tensor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.app_reading import sent, sound
from tests.model.checkpoints.convert.gguf_files import Kind, gguf, write_gguf
from tests.model.checkpoints.convert.twins import saved_as
from tests.viz.pages.checkpoints.reading_page import WEIGHTS, columns, page
from viz.pages.checkpoints.subjects import Subject, aligned, nearest
from viz.state.checkpoints import MODELS

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
SIZES |= {"max_position_embeddings": 24, "num_key_value_heads": 2}
QUERY, RELATION = "model.layers.1.self_attn.q_proj.weight", "‖B−A‖/‖A‖"


@pytest.fixture
def files(here, monkeypatch):
    """A folder with a model of Hugging Face, and two files made from it."""
    place = here / "files"
    saved_as("LlamaForCausalLM", SIZES, place / "llama")
    for kind in (Kind.F32, Kind.Q8_0):
        write_gguf(place / "llama", place / f"llama-{kind.name}.gguf", kind)
    monkeypatch.setenv(MODELS, str(place))
    return place


def test_each_tensor_shows_the_quantization_s_error_and_its_types(files):
    address = {"model": "llama-Q8_0.gguf", "compare_a": "llama", "compare_b": "llama-Q8_0.gguf", "tensor": QUERY}
    app = page("compare", **address)
    assert any("have the names, shapes and order of rows here that those of llama have" in c.value for c in app.caption)
    found, weights = columns(app, "moved_tree"), load_file(files / "llama" / WEIGHTS)
    assert found.keys() == weights.keys()
    for name, tensor in weights.items():
        error = 0.0
        if tensor.ndim == 2:
            values = tensor.numpy()
            kept = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(values, Kind.Q8_0), Kind.Q8_0))
            error = float((kept - tensor).norm() / tensor.norm())
            assert error > 1e-4
        assert found[name][RELATION] == pytest.approx(error, rel=1e-4), name
    header, _arrays = sent(app, "moved_tree")
    types = dict(zip(header["names"], header["dtypes"], strict=True))
    assert (types[QUERY], types["model.norm.weight"]) == ("float32 → Q8_0", "F32")
    assert header["sentence"] == f"{len(weights)} tensors in both"
    _header, (difference, _visible) = sent(app, "w_map")
    values = weights[QUERY].numpy()
    kept = gguf.quants.dequantize(gguf.quants.quantize(values, Kind.Q8_0), Kind.Q8_0)
    assert np.allclose(difference, kept - values, atol=1e-7)


def test_of_float32_nothing_has_changed_in_tensors_layers_and_heads(files):
    address = {"model": "llama-F32.gguf", "compare_a": "llama-F32.gguf", "compare_b": "llama"}
    app = page("compare", **address)
    assert all(numbers[RELATION] == 0 for numbers in columns(app, "moved_tree").values())
    assert any("this tensor is equal, value for value" in each.value for each in app.info)
    _header, arrays = sent(page("compare", compare_view="heads", **address), "moved_heads")
    assert all(array.max() == 0 for array in arrays[::2])


def test_a_file_is_compared_with_its_folder_first_and_a_folder_with_another(files):
    app = page("compare", model="llama-Q8_0.gguf")
    chosen = {each.key: each.value for each in sound(app).selectbox}
    assert (chosen["compare_a"], chosen["compare_b"]) == ("llama", "llama-Q8_0.gguf")
    saved_as("LlamaForCausalLM", SIZES, files / "other")
    found = [Subject(path.name, path) for path in sorted(files.iterdir())]
    assert nearest("llama-F32.gguf", found) in ("llama", "other")
    assert nearest("llama", found) == "other"
    assert nearest("llama", [each for each in found if each.name != "other"]) in ("llama-F32.gguf", "llama-Q8_0.gguf")


def test_two_files_keep_their_own_names_and_a_strange_one_too(files):
    one, other = (Subject(name, files / name) for name in ("llama-F32.gguf", "llama-Q8_0.gguf"))
    assert aligned(one, other) == (one, other)
    assert one.table()[0].name.startswith(("blk.", "token_embd", "output"))
    write_gguf(files / "llama", files / "moe.gguf", **{"llama.expert_count": 8})
    folder = Subject("llama", files / "llama")
    _same, strange = aligned(folder, Subject("moe.gguf", files / "moe.gguf"))
    assert any(info.name.startswith("blk.0.") for info in strange.table())
    saved_as("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 24}, files / "gpt2")
    _same, strange = aligned(Subject("gpt2", files / "gpt2"), one)
    assert any(info.name.startswith("blk.0.") for info in strange.table())
