"""Every damaged file opens or gives a CheckpointError: no crash, no hang, no memory, nothing written, nothing run."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

# Kinds of which none need open: a folder too small for a model, what is put together from parts, and GGUF without the
# package that knows its types.
UNREAD = ["hugging face", "safetensors parts", "pt parts", *([] if find_spec("gguf") else ["gguf", "gguf model"])]


def fuzzed(folder, *arguments):
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "VITRINE_DEVICE": "cpu"}
    command = [sys.executable, *"-W ignore -m tests.model.checkpoints.fuzzing".split(), *map(str, (folder, *arguments))]
    ended = subprocess.run(command, capture_output=True, text=True, env=quiet, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout)


def expect(found, cases):
    """Both outcomes of every kind: damage that is always refused would test no reading, nor would none."""
    assert sum(count for each in found.values() for count in each.values()) >= 0.98 * cases
    for kind, each in found.items():
        assert each.get("refused", 0) > 0, kind
        assert each.get("opened", 0) > 0 or kind in UNREAD, kind


def test_a_thousand_damaged_files_open_or_are_refused(tmp_path):
    expect(fuzzed(tmp_path, 1000), 1000)


@pytest.mark.fuzz
def test_a_hundred_thousand_damaged_files_open_or_are_refused(tmp_path):
    expect(fuzzed(tmp_path, 100_000), 100_000)


@pytest.mark.slow
def test_broken_readers_are_found_out(tmp_path):
    readers = "another error, a hang, memory, a file elsewhere, a folder elsewhere, code, a program, no sentence"
    assert fuzzed(tmp_path, "broken") == readers.split(", ")
