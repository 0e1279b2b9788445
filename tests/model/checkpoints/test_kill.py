"""A checkpoint that is being saved when the process dies: the old one or the new one, whole.

A process that is killed indeed is in tests/model/cli/test_stopping.py.
"""

import itertools
from pathlib import Path

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.network.transformer import Transformer
from tests.model.checkpoints.killing import dying_at
from tests.model.examples import config, sentences, tokenizers

BOTH = tokenizers(sentences(50))


def save_version(folder: Path, version: int) -> None:
    """A checkpoint whose config, weights and figures all say which version it is."""
    sizes = {"source_vocabulary": len(BOTH[0]), "target_vocabulary": len(BOTH[1])}
    network = Transformer(config(**sizes, n_encoder_layers=1, n_decoder_layers=1, d_ff=8 + version % 2))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(version)
    save_checkpoint(folder, network, BOTH, {"version": version})


def opened_version(folder: Path) -> int:
    """The version of the checkpoint, which all of its files agree on."""
    model = open_checkpoint(folder)
    version = model.training["version"]
    assert model.config.d_ff == 8 + version % 2
    assert all(bool((parameter == version).all()) for parameter in model.network.parameters())
    return version


@pytest.mark.parametrize("exists", [True, False])
def test_a_death_at_any_step_leaves_one_whole(exists, tmp_path, monkeypatch):
    found = []
    for step in itertools.count(1):
        folder = tmp_path / str(step) / "checkpoint"
        if exists:
            save_version(folder, 1)
        with dying_at(step, monkeypatch) as died:
            save_version(folder, 2)
        try:
            found.append(opened_version(folder))
        except ValueError as error:
            if "no folder or file of that name" not in str(error):
                raise
            found.append(0)
        save_version(folder, 3)
        assert opened_version(folder) == 3
        if not died:
            break
    assert found == sorted(found)  # once the new one is there, it stays
    assert set(found) == {int(exists), 2}
    assert found.count(int(exists)) > 12
    assert found.count(2) > 1
