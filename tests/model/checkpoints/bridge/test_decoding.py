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


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_greedy_and_beams_are_those_of_generate(name):
    network, source = bridged(name), torch.randint(5, 40, (2, 7))
    wanted = generated(name, source)
    assert greedy(network.read(source, padding=-1, start=0), ends=NEVER, limits=[LENGTH] * 2)[0] == wanted
    draft = [*wanted[0][:3], 5, 5, 5, 5]  # right at first, then wrong: the cache is cut
    alone = network.read(source[:1], padding=-1, start=0)
    assert greedy(alone, ends=NEVER, limits=[LENGTH], draft=draft)[0] == wanted[:1]
    context = network.read(source, padding=-1, start=0)
    trees = beam_search(context, ends=NEVER, limits=[LENGTH] * 2, beam=3, length_penalty=0.0)
    best = [[tree.nodes[place].token for place in tree.path(tree.ranked()[0])] for tree in trees]
    assert best == generated(name, source, num_beams=3, length_penalty=0.0)


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
    options = {"ends": NEVER, "limits": [6, 6]}

    def written() -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        read = [network.read(source, padding=-1, start=0) for _ in range(2)]
        rows = greedy(read[0], **options)[0]
        trees = beam_search(read[1], beam=3, length_penalty=0.0, **options)
        alone = network.read(source[:1], padding=-1, start=0)
        drafted = greedy(alone, ends=NEVER, limits=[6], draft=[*rows[0][:3], 5, 5])[0]
        return rows, [[tree.nodes[at].token for at in tree.path(tree.ranked()[0])] for tree in trees], drafted

    cached = written()
    monkeypatch.setattr(network.runner, "caches", False)
    assert written() == cached
