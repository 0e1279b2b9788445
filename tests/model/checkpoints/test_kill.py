"""A checkpoint that is being saved when the process dies: the old one or the new one, whole."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.network.transformer import Transformer
from tests.model.checkpoints.killing import dying_at
from tests.model.examples import config, sentences, tokenizers

BOTH = tokenizers(sentences(50))
ROOT = Path(__file__).parents[3]
KILLS = 20


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


SAVER = """
import itertools, os, sys
from pathlib import Path
from tests.model.checkpoints.test_kill import opened_version, save_version
folder = Path(sys.argv[1])
save_version(folder, 1)
print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()  # a fresh process a kill, without importing torch each time
    if child == 0:
        for version in itertools.count(opened_version(folder) + 1):
            save_version(folder, version)
            os.write(1, b"saved %d\\n" % version)
    os.write(1, b"child %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"dead\\n")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_sigkill_at_random_moments_leaves_one_whole(tmp_path):
    folder, moments, versions = tmp_path / "checkpoint", random.Random(5), [1]
    command = [sys.executable, "-c", SAVER, str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as saver:
        assert saver.stdout.readline() == "ready\n"
        for _ in range(KILLS):
            print("go", file=saver.stdin, flush=True)
            lines = [saver.stdout.readline(), saver.stdout.readline()]  # its number, and one finished save
            child = int(next(line for line in lines if line.startswith("child")).split()[1])
            time.sleep(moments.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
            while lines[-1] != "dead\n":
                lines.append(saver.stdout.readline())
            saved = max(int(line.split()[1]) for line in lines if line.startswith("saved"))
            versions.append(opened_version(folder))
            assert versions[-1] in (saved, saved + 1)
        saver.stdin.close()
    assert saver.returncode == 0
    assert versions == sorted(set(versions))
