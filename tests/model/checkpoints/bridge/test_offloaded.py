"""Models of transformers that accelerate spreads: a part of their weights lies on disk, or waits on the CPU for another
device, and is brought while its module computes.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from pathlib import Path

import accelerate.hooks
import pytest
import torch
import transformers.integrations.accelerate
from safetensors import SafetensorError
from torch import nn
from torch.testing import assert_close

from model.analysis.checks import checks
from model.capture.interventions import RemovedHead, intervening
from model.checkpoints.bridge.load import open_bridged
from model.checkpoints.bridge.network import BridgedNetwork
from model.runtime.errors import CheckpointError
from tests.model.checkpoints.bridge.models import CPU, bridged, opened, settings_in, theirs, traced, write_tokenizer
from tests.pretended_device import NAME


def require_alike(spread: BridgedNetwork, plain: BridgedNetwork) -> None:
    found, wanted = traced(spread), traced(plain)
    assert found.names() == wanted.names()
    for name in wanted.names():
        assert_close(found[name].cpu(), wanted[name], rtol=1e-5, atol=1e-6, msg=name)
    assert not [check.name for check in checks(found) if not check.passed]
    assert spread.missing == plain.missing
    for name, module in plain.named_modules():
        for part, place in getattr(module, "parts", {}).items():
            assert_close(spread.get_submodule(name).parts[part].weight.cpu(), place.weight)


def offloaded(network: BridgedNetwork) -> list[str]:
    """The modules whose weights accelerate's hooks bring."""
    named = network.runner.model.named_modules()
    return [name for name, module in named if getattr(getattr(module, "_hf_hook", None), "offload", False)]


def give_little_room(name: str, monkeypatch) -> None:
    """ "auto" finds room for less than half of the weights."""
    room = int(0.4 * sum(4 * each.numel() for each in theirs(name)[0].parameters()))
    monkeypatch.setattr(transformers.integrations.accelerate, "accelerate_max_memory", lambda _given: {"cpu": room})


def pickled_gpt(tmp_path: Path, monkeypatch) -> tuple[Path, Path]:
    """GPT-2 in a file that is no .safetensors, and an empty temporary folder."""
    folder, temporary = tmp_path / "gpt2", tmp_path / "temporary"
    for each in (folder, temporary):
        each.mkdir()
    shutil.copy(theirs("gpt2")[1] / "config.json", folder)
    torch.save(theirs("gpt2")[0].state_dict(), folder / "pytorch_model.bin")
    theirs("llama")  # is made once, in a temporary folder too
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return folder, temporary


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5"])
def test_what_does_not_fit_into_memory_stays_on_disk(name, monkeypatch):
    """Nothing differs from the model that is loaded whole."""
    give_little_room(name, monkeypatch)
    spread = opened(theirs(name)[1], device_map="auto")
    assert offloaded(spread)
    assert any(each.is_meta for each in spread.parameters())
    require_alike(spread, bridged(name))


def test_what_is_no_safetensors_waits_in_a_folder_that_goes_with_the_model(tmp_path, monkeypatch):
    plain = bridged("gpt2")  # which is made once, in a temporary folder too
    folder, temporary = pickled_gpt(tmp_path, monkeypatch)
    give_little_room("gpt2", monkeypatch)
    spread = opened(folder, device_map="auto")
    assert list(temporary.rglob("*.safetensors"))
    require_alike(spread, plain)
    assert sorted(each.name for each in folder.iterdir()) == ["config.json", "pytorch_model.bin"]
    del spread
    gc.collect()
    assert not list(temporary.iterdir())


def test_no_folder_stays_where_no_weights_wait_in_it(tmp_path, monkeypatch):
    folder, temporary = pickled_gpt(tmp_path, monkeypatch)
    whole = opened(folder, device_map={"": "cpu"})
    assert not list(temporary.iterdir())
    give_little_room("llama", monkeypatch)
    spread = opened(theirs("llama")[1], device_map="auto")
    assert offloaded(spread)
    assert not offloaded(whole)
    assert not list(temporary.iterdir())


def test_a_full_disk_is_told_as_such(tmp_path, monkeypatch):
    def fail(_tensors: object, _file: str) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    folder, temporary = pickled_gpt(tmp_path, monkeypatch)
    give_little_room("gpt2", monkeypatch)
    monkeypatch.setattr(transformers.integrations.accelerate, "save_file", fail)
    with pytest.raises(CheckpointError, match=f"wait in {temporary}, whose disk is full: make room there"):
        opened(folder, device_map="auto")
    gc.collect()
    assert not list(temporary.iterdir())


def test_a_map_by_module_is_written_with_and_changed(tmp_path):
    folder = theirs("llama")[1]
    write_tokenizer(folder)
    layers = {f"model.layers.{layer}": "disk" if layer else "cpu" for layer in range(2)}
    places = {"model.embed_tokens": "disk", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk", **layers}
    spread = open_bridged(folder, settings_in(folder), CPU, torch.float32, places)
    plain = open_bridged(folder, settings_in(folder), CPU, torch.float32)
    assert spread.device == CPU
    assert spread.generate("the cat", length=4).ids == plain.generate("the cat", length=4).ids
    logits = []
    for model in (spread, plain):
        with intervening(model.network, [RemovedHead("decoder", 1, 2)]):
            logits.append(model.trace("the cat")["output.logits"])
    assert_close(*logits)


def bring(module: nn.Module, name: str, device: str, value: torch.Tensor | None = None, **_: object) -> None:
    """accelerate's own asks for the class of a tensor, which that of the pretended device is not made by."""
    given = getattr(module, name) if value is None else value
    meta = str(device) == "meta"
    moved = torch.empty(given.shape, dtype=given.dtype, device="meta") if meta else given.to(device)
    if name in module._parameters:
        module._parameters[name] = nn.Parameter(moved, requires_grad=False)
    else:
        module._buffers[name] = moved


@pytest.mark.parametrize("name", ["gemma2", "t5"])
def test_what_waits_on_the_cpu_computes_on_the_other_device(name, pretended, monkeypatch):
    monkeypatch.setattr(accelerate.hooks, "set_module_tensor_to_device", bring)
    kept = "encoder.block.1" if name == "t5" else "model.layers.1"
    modules = [each for each, module in theirs(name)[0].named_modules() if not [*module.children()] and each]
    places = {each: "cpu" if each.startswith(kept) else NAME for each in modules}
    spread = opened(theirs(name)[1], device_map=places)
    assert spread.device.type == NAME
    assert len(offloaded(spread)) > 5
    require_alike(spread, bridged(name))
