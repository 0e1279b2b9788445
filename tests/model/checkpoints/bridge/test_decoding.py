"""What bridged models write, against transformers' own generate, and beams and drafts against greedy decoding."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig

from model.inference.beam_search import beam_search
from model.inference.decoding import greedy
from tests.model.checkpoints.bridge.models import bridged, theirs

NEVER, LENGTH = frozenset([-5]), 10
FAMILIES = ("gemma2", "gptj", "opt", "pegasus", "t5")


def generated(name: str, source: torch.Tensor, **options) -> list[list[int]]:
    model = theirs(name)[0]
    model.generation_config = GenerationConfig()
    config = GenerationConfig(
        max_new_tokens=LENGTH, do_sample=False, eos_token_id=None, pad_token_id=48, decoder_start_token_id=0, **options
    )
    found = model.generate(input_ids=source, attention_mask=torch.ones_like(source), generation_config=config)
    return found[:, -LENGTH:].tolist()


def written(network, source: torch.Tensor, length: int = LENGTH) -> tuple[list[list[int]], ...]:
    """Greedily, by beams, and of the first text by a draft that is right at first, then wrong: the cache is cut."""
    options = {"ends": NEVER, "limits": [length] * len(source)}
    first, second = (network.read(source, padding=-1, start=0) for _ in range(2))
    rows = greedy(first, **options)[0]
    trees = beam_search(second, beam=3, length_penalty=0.0, **options)
    best = [[tree.nodes[place].token for place in tree.path(tree.ranked()[0])] for tree in trees]
    alone = network.read(source[:1], padding=-1, start=0)
    drafted = greedy(alone, ends=NEVER, limits=[length], draft=[*rows[0][:3], 5, 5, 5, 5])[0]
    return rows, best, drafted


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_greedy_and_beams_are_those_of_generate(name):
    source = torch.randint(5, 40, (2, 7))
    greedily = generated(name, source)
    by_beams = generated(name, source, num_beams=3, length_penalty=0.0)
    assert written(bridged(name), source) == (greedily, by_beams, greedily[:1])


@torch.inference_mode()
def test_padded_sources_are_written_for_as_they_are_alone():
    network, source = bridged("m2m_100"), torch.randint(5, 40, (2, 7))
    source[0, 4:] = 48
    together = greedy(network.read(source, padding=48, start=0), ends=NEVER, limits=[LENGTH] * 2)[0]
    alone = greedy(network.read(source[:1, :4], padding=48, start=0), ends=NEVER, limits=[LENGTH])[0]
    assert together[0] == alone[0]


def test_an_encoder_does_not_write():
    with pytest.raises(ValueError, match="do not write"):
        bridged("electra").read(torch.ones(1, 3, dtype=torch.long), padding=0, start=0)


@pytest.mark.parametrize("name", ["opt", "t5"])
@torch.inference_mode()
def test_without_a_cache_the_same_is_written(name, monkeypatch):
    network, source = bridged(name), torch.randint(5, 40, (2, 7))
    assert network.runner.caches
    cached = written(network, source, 6)
    monkeypatch.setattr(network.runner, "caches", False)
    assert written(network, source, 6) == cached
