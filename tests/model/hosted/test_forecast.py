"""How much memory a model needs, and the sentence where there is not enough."""

from __future__ import annotations

import pytest
import torch

from model.errors import CheckpointError
from model.hosted.forecast import available, needed, require_room
from tests.model.hosted.models import theirs


def test_needs_are_counted_from_the_header():
    model, folder = theirs("llama")
    numbers = sum(each.numel() for each in model.state_dict().values())
    assert needed(folder, torch.float32) == 4 * numbers
    assert needed(folder, torch.bfloat16) == 2 * numbers
    assert needed([10, 32], torch.float16) == 84


def test_what_is_free_is_less_than_what_there_is():
    assert 0 < available(torch.device("cpu")) < 1 << 46
    assert available() >= available(torch.device("cpu")) // 2


def test_the_refusal_names_what_would_fit():
    require_room([1000], torch.float32, None, free=4400)
    sentence = r"this model needs 14\.2 GB in float32 and 8\.1 GB are free: choose bfloat16"
    with pytest.raises(CheckpointError, match=sentence):
        require_room([3_550_000_000], torch.float32, None, free=8_100_000_000)
    with pytest.raises(CheckpointError, match="choose a smaller model"):
        require_room([3_550_000_000], torch.bfloat16, None, free=1_000_000)


def test_a_header_that_is_none_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match=r"no \.safetensors"):
        needed(tmp_path, torch.float32)
