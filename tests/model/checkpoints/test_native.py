"""Checkpoints: what is saved comes back, damage is named. Dying while saving is in test_kill.py."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.runtime.errors import CheckpointError
from tests.model.examples import network, sentences, tokenizers

PAIRS = sentences(50)
BOTH = tokenizers(PAIRS)
SIZES = {"source_vocabulary": len(BOTH[0]), "target_vocabulary": len(BOTH[1])}
FILES = {"config.json", "model.safetensors", "training.json", "README.md"}
FILES |= {"source_tokenizer.json", "target_tokenizer.json"}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "below" / "eng-cmn"
    transformer = network(**SIZES, tied_embeddings="output")
    save_checkpoint(path, transformer, BOTH, {"steps": 3, "data": "é.tsv"}, "# A card: é\n")
    return path


def test_what_was_saved_comes_back_read_only_and_does_not_drop_out(folder):
    transformer = network(**SIZES, tied_embeddings="output")
    model = open_checkpoint(folder)
    assert model.config == transformer.config
    assert (model.kind, model.name) == ("encoder-decoder", "eng-cmn")
    assert model.training == {"steps": 3, "data": "é.tsv"}
    assert model.source_tokenizer.to_json() == BOTH[0].to_json()
    assert model.target_tokenizer.to_json() == BOTH[1].to_json()
    source, target = torch.randint(len(BOTH[0]), (2, 5)), torch.randint(len(BOTH[1]), (2, 4))
    assert torch.equal(model.network(source, target), transformer(source, target))
    assert not model.network.training
    assert not any(parameter.requires_grad for parameter in model.network.parameters())
    assert model.network.output.logits.weight is model.network.decoder.embedding.tokens.weight


def test_half_precision_on_disk(folder):
    transformer = network(seed=1, **SIZES)
    save_checkpoint(folder, transformer, BOTH, dtype=torch.float16)
    for name in ("training.json", "README.md"):  # which may be absent
        (folder / name).unlink(missing_ok=True)
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.float16}
    opened = dict(open_checkpoint(folder).network.named_parameters())
    for name, parameter in transformer.named_parameters():
        assert parameter.dtype == torch.float32
        assert_close(opened[name], parameter.half().float(), rtol=0, atol=0, check_device=False)
    assert open_checkpoint(folder).training == {}


def test_the_precision_to_compute_in_can_be_chosen(folder, monkeypatch):
    assert open_checkpoint(folder).dtype == torch.float32
    assert open_checkpoint(folder, dtype=torch.bfloat16).dtype == torch.bfloat16
    monkeypatch.setenv("VITRINE_DTYPE", "float16")
    assert open_checkpoint(folder, device=torch.device("cpu")).dtype == torch.float16


def test_a_new_checkpoint_replaces_every_file_and_nothing_is_beside_it(folder):
    (folder / "extra.txt").write_text("of the old one")
    assert (folder / "README.md").read_text(encoding="utf-8") == "# A card: é\n"
    transformer = network(**SIZES, d_ff=8, tied_embeddings="output")
    save_checkpoint(folder, transformer, BOTH, {"steps": 4})
    assert {path.name for path in folder.iterdir()} == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["eng-cmn"]
    names = set(load_file(folder / "model.safetensors"))
    assert names == {name for name, _ in transformer.named_parameters()}  # what is tied only once
    model = open_checkpoint(folder)
    assert (model.config.d_ff, model.training) == (8, {"steps": 4})


@pytest.mark.parametrize("name", sorted(FILES - {"README.md", "training.json"}))
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "binary"])
def test_damage_is_a_value_error_that_names_the_file(name, damage, folder):
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "binary": b"\xff\xfe\x00"}[damage])
    with pytest.raises(ValueError, match="config" if name == "config.json" else name):
        open_checkpoint(folder)


def test_files_that_do_not_belong_together_are_refused(folder):
    weights, config = folder / "model.safetensors", folder / "config.json"
    whole, options = load_file(weights), json.loads(config.read_text())
    save_file({name: tensor for name, tensor in whole.items() if "norm" not in name}, weights)
    with pytest.raises(ValueError, match="the weights lack encoder"):
        open_checkpoint(folder)
    save_file(whole, weights)
    config.write_text(json.dumps(options | {"d_ff": 25}))
    with pytest.raises(ValueError, match=r"has shape \(24,\), the config asks for \(25,\)"):
        open_checkpoint(folder)
    config.write_text(json.dumps(options | {"target_vocabulary": 7}))
    with pytest.raises(ValueError, match=f"target_tokenizer.json has {len(BOTH[1])} tokens, config.json says 7"):
        open_checkpoint(folder)
    config.write_text(json.dumps(options))
    shutil.copy(folder / "target_tokenizer.json", folder / "source_tokenizer.json")
    with pytest.raises(ValueError, match=r"source_tokenizer.json has"):
        open_checkpoint(folder)


def test_no_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="missing is not a checkpoint"):
        open_checkpoint(tmp_path / "missing")


def test_an_error_while_saving_leaves_the_old_one_and_no_scraps(folder, monkeypatch):
    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr("model.runtime.files.save_file", fail)
    with pytest.raises(CheckpointError, match="cannot be written: no space left"):
        save_checkpoint(folder, network(**SIZES), BOTH, {"steps": 4})
    assert open_checkpoint(folder).training["steps"] == 3
    assert [path.name for path in folder.parent.iterdir()] == ["eng-cmn"]


def test_weights_that_do_not_fit_are_refused_before_they_are_loaded(folder, monkeypatch):
    monkeypatch.setattr("model.runtime.memory.available", lambda _device: 1000)
    with pytest.raises(CheckpointError, match=r"needs 0.0 GB in float32 and 0.0 GB are free"):
        open_checkpoint(folder)
