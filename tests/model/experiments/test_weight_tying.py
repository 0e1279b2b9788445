"""What tying saves: against networks that are really built, and by hand."""

from dataclasses import replace

import pytest

from model.experiments.weight_tying import every_kind, saved, tied
from model.network.config import TransformerConfig
from model.network.transformer import build

SMALL = TransformerConfig(
    source_vocabulary=11, target_vocabulary=11, d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1
)


@pytest.mark.parametrize("kind", ["none", "output", "inputs", "all"])
def test_counts_are_those_of_the_built_network(kind) -> None:
    found = tied(SMALL, kind)
    network = build(replace(SMALL, tied_embeddings=kind))
    assert found.total == found.built == sum(weight.numel() for weight in network.parameters())


def test_each_shared_matrix_is_saved_once() -> None:
    none, output, inputs, everything = every_kind(SMALL)
    assert none.embeddings + none.output == 3 * 11 * 8
    assert none.total - output.total == none.total - inputs.total == 11 * 8
    assert none.total - everything.total == 2 * 11 * 8
    assert saved(everything, none) == pytest.approx(2 * 88 / none.total)


def test_two_vocabularies_cannot_be_one_matrix() -> None:
    found = tied(replace(SMALL, target_vocabulary=7), "all")
    assert "needs one vocabulary" in found.refusal
    assert found.total == 0


def test_without_an_output_nothing_is_saved() -> None:
    bare = TransformerConfig.one_stack("encoder-only", 11, 1, d_model=8, n_heads=2, d_ff=16, output_head="none")
    none, output, inputs, _everything = every_kind(bare)
    assert none.total == none.built
    assert output.refusal
    assert inputs.refusal or inputs.total == none.total


def test_the_papers_sizes() -> None:
    paper = TransformerConfig.preset("paper-base", source_vocabulary=37000, target_vocabulary=37000)
    none, *_rest, everything = every_kind(paper)
    assert none.total - everything.total == 2 * 37000 * 512
    assert 60e6 < everything.total < 66e6  # table 3 says 65 million
