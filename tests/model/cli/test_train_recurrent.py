"""python -m model with a recurrent network: trained, resumed, evaluated, asked to write, and not exported."""

from __future__ import annotations

import json

import pytest
import torch

from model.__main__ import main
from model.checkpoints.catalog import catalog_entry
from model.checkpoints.export import export_huggingface
from model.checkpoints.load import open_checkpoint
from model.network.config import RecurrentConfig
from model.runtime.errors import CheckpointError
from tests.model.examples import sentences, write_pairs

pytestmark = pytest.mark.unchecked

RUN = "--vocabulary 90 --d-model 16 --max-length 64 --dropout 0 --batch-tokens 700 --warmup 5 --rate 5e-3".split()


def test_a_recurrent_network_is_trained_resumed_evaluated_and_writes(tmp_path, capsys):
    data, out = write_pairs(tmp_path / "pairs.tsv", sentences(150)), tmp_path / "made"
    command = ["train", "--kind", "recurrent", "--data", str(data), "--out", str(out), *RUN]
    assert main([*command, "--steps", "3"]) == 0
    assert main([*command, "--steps", "6"]) == 0
    printed = capsys.readouterr().out
    assert "going on at step 3 of 6" in printed
    assert "BLEU" in printed
    model = open_checkpoint(out, torch.device("cpu"))
    assert model.kind == "recurrent"
    assert model.config == RecurrentConfig(
        source_vocabulary=model.config.source_vocabulary,
        target_vocabulary=model.config.target_vocabulary,
        d_model=16,
        dropout=0.0,
        max_length=64,
    )
    assert json.loads((out / "config.json").read_text())["kind"] == "recurrent"
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "Recurrent encoder-decoder with additive attention (Bahdanau et al., 2015)" in card
    entry = catalog_entry(out)
    assert (entry.kind, entry.problem) == ("recurrent", "")
    assert main(["evaluate", str(out), "--data", str(data), "--beam", "2"]) == 0
    assert main(["generate", str(out), "The cat sees the dog.", "--length", "4"]) == 0
    assert main([*command[:5], "--n-heads", "4", *command[5:], "--steps", "6", "--replace"]) == 2
    assert "n_heads is not an option" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="no family of Hugging Face is a recurrent network"):
        export_huggingface(model, tmp_path / "exported")
