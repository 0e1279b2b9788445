"""Reading files on page Checkpoints that are no model's, or damaged, hostile, quantized."""

from __future__ import annotations

import math
import threading

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import viz.state.checkpoints
from model.analysis.weights import statistics
from tests.app_reading import opened, sent, sound
from tests.viz.pages.checkpoints.reading_page import WEIGHTS, columns, page
from tests.viz.small import write_small
from viz.ui import job_view


def strange(folder, weights=None) -> None:
    """A folder of another's, with these weights or a damaged file."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    if weights is None:
        (folder / WEIGHTS).write_bytes(b"\x01")
    else:
        save_file(weights, folder / WEIGHTS)


HOSTILE = ["</script><script>alert(1)</script>", "x" * 250, "مرحبا.بالعالم", "🙂.🇨🇳", "." * 200]


def test_a_file_of_foreign_tensors_with_hostile_names_is_read(here):
    write_small(here / "small")
    weights = {name: torch.randn(3, 4) for name in HOSTILE}
    weights |= {"none": torch.zeros(0, 4), "lost": torch.full((2, 2), math.nan), "whole": torch.arange(6).reshape(2, 3)}
    strange(here / "strange", weights)
    app = page(checkpoint="strange")
    assert columns(app).keys() == weights.keys()
    for place in range(len(weights)):
        app.query_params["tensor"] = f"#{place}"
        sound(app.run())
        chosen, _arrays = sent(app, "tensor_tree")
        assert chosen["chosen"] == place
    for view in ("heads", "health"):
        sound(page(checkpoint="strange", weights_view=view))


@pytest.mark.parametrize(
    ("name", "said"), [("x" * 10_000, "name"), ("a\u202eb\n.c", "name"), (None, "")], ids=["long", "signs", "damaged"]
)
def test_a_file_whose_names_cannot_be_shown_or_that_is_damaged_is_refused_in_a_sentence(here, name, said):
    write_small(here / "small")
    strange(here / "strange", None if name is None else {name: torch.randn(3, 4)})
    app = opened("checkpoints", checkpoints_part="read", model="small", checkpoint="strange")
    assert not app.exception
    (error,) = app.error
    assert said in error.value
    assert len(error.value) < 700


def test_the_bar_is_there_before_the_first_tensor_is_measured(here, monkeypatch):
    """And only a tensor that the address asks for is scrolled to."""
    write_small(here / "small")
    go, measured = threading.Event(), statistics.statistics

    def slow(tensor):
        if threading.current_thread().name == "job":
            assert go.wait(60)
        return measured(tensor)

    monkeypatch.setattr(statistics, "statistics", slow)
    monkeypatch.setattr(job_view, "AT_ONCE", 0.01)
    try:
        header, _arrays = sent(page(), "tensor_tree")
        count = len(header["names"])
        assert header["progress"] == {"share": 0, "text": f"measured 0 of {count}"}
        assert not header["jump"]
        header, _arrays = sent(page(tensor=header["names"][-1]), "tensor_tree")
        assert header["jump"]
        assert header["chosen"] == count - 1
    finally:
        go.set()


@pytest.mark.filterwarnings("error")
def test_a_quantized_file_of_llama_cpp_is_listed_and_measured(here, monkeypatch):
    """Each type as its values are; one that the package gguf turns into no numbers is listed, and says so."""
    write_small(here / "small")
    (here / "files").mkdir()
    monkeypatch.setenv(viz.state.checkpoints.MODELS, str(here / "files"))
    values = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)
    packed, unread = (gguf.GGMLQuantizationType[name] for name in ("Q4_0", "Q8_1"))
    writer = gguf.GGUFWriter(here / "files" / "x.gguf", "llama")
    writer.add_tensor("plain.weight", values)
    writer.add_tensor("half.weight", values.astype(np.float16))
    writer.add_tensor("packed.weight", gguf.quants.quantize(values, packed), raw_dtype=packed)
    writer.add_tensor("unread.weight", np.zeros((6, 2 * gguf.GGML_QUANT_SIZES[unread][1]), np.uint8), raw_dtype=unread)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    expected = gguf.quants.dequantize(gguf.quants.quantize(values, packed), packed)
    app = page(checkpoint="x.gguf", tensor="packed.weight")
    found = columns(app)
    for name, tensor in (("plain", values), ("half", values.astype(np.float16)), ("packed", expected)):
        numbers = [found[f"{name}.weight"][title] for title in ("mean", "deviation", "least", "greatest")]
        assert numbers == pytest.approx([tensor.mean(), tensor.std(), tensor.min(), tensor.max()], abs=1e-3), name
    _header, (shown, _visible) = sent(app, "w_map")
    assert np.array_equal(shown, expected)
    assert any("Q4_0, quantized, measured as float32" in each.value for each in app.caption)
    app = page(checkpoint="x.gguf", tensor="unread.weight")
    assert any("Type Q8_1: it is listed but not measured" in each.value for each in app.caption)
    page(checkpoint="x.gguf", weights_view="health")
