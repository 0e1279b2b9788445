"""The checkpoints that come with the application are what they were before there were options for other families."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from model.checkpoints.convert.to_huggingface import counterpart
from model.checkpoints.load import open_checkpoint
from model.data.tasks import task_pairs
from model.network.config import TransformerConfig

NEW = {
    "position_buckets": 32,
    "position_reach": 128,
    "rotary_channels": None,
    "rotary_stretch": 1.0,
    "rotary_short": 0.0,
    "rotary_long": 0.0,
    "parallel": False,
    "head_width": None,
    "attention_bias": "same",
    "output_head": "linear",
    "output_bias": False,
    "scale_output": False,
    "n_experts": None,
    "experts_per_token": 2,
    "balance": 0.01,
}


def test_the_recurrent_one_reads_and_writes_the_tokens_of_the_other_translator():
    recurrent, other = (open_checkpoint(Path("checkpoints", name)) for name in ("eng-cmn-recurrent", "eng-cmn"))
    assert recurrent.kind == "recurrent"
    assert recurrent.source_tokenizer.to_json() == other.source_tokenizer.to_json()
    assert recurrent.target_tokenizer.to_json() == other.target_tokenizer.to_json()
    assert recurrent.training["data"] == other.training["data"]
    size = sum(file.stat().st_size for file in Path("checkpoints", "eng-cmn-recurrent").iterdir())
    assert size < 6 << 20
    assert recurrent.generate("I am a teacher.").text.endswith("。")


@pytest.mark.parametrize("name", ["eng-cmn", "shakespeare", "fill-mask", "sort", "reverse"])
def test_it_opens_as_it_was_and_has_a_counterpart_at_hugging_face(name):
    folder = Path("checkpoints", name)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert not written.keys() & NEW.keys()
    config = open_checkpoint(folder, torch.device("cpu")).config
    found = dataclasses.asdict(config)
    assert NEW.items() <= found.items()
    assert written.items() <= found.items()
    assert TransformerConfig.from_json(config.to_json()) == config
    counterpart(config)


def test_the_one_with_experts_moves_letters_on_by_what_its_router_chooses():
    model = open_checkpoint(Path("checkpoints", "experts"))
    assert (model.config.n_experts, model.config.experts_per_token) == (4, 1)
    assert sum(file.stat().st_size for file in Path("checkpoints", "experts").iterdir()) < 1_500_000
    pairs = task_pairs("caesar", 30, [4, 7, 9], seed=5)
    assert [model.generate(pair.source).text for pair in pairs] == [pair.target for pair in pairs]
