"""What tying saves: against networks that are really built, and by hand."""

from dataclasses import replace

import pytest

from model.experiments.claims.weight_tying import ModelCounts, count, every_kind, judge, saved, tied
from model.experiments.rule import Verdict
from model.network.config import TransformerConfig
from model.network.transformer import build
from tests.model.experiments.claims.judging import judged, tiny

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


def counted(**changes) -> ModelCounts:
    return count("small", replace(SMALL, **changes))


def test_the_verdict_follows_the_counts() -> None:
    none = counted().kinds[0]
    nothing = ModelCounts("alike", [replace(none, kind=kind.kind) for kind in counted().kinds])
    bare = TransformerConfig.one_stack("encoder-only", 11, 1, d_model=8, n_heads=2, d_ff=16, output_head="none")
    assert judge([counted()]).verdict is Verdict.HOLDS
    assert judge([counted(), nothing]).verdict is Verdict.IN_PART
    assert judge([counted(), count("bare", bare)]).verdict is Verdict.IN_PART
    assert judge([nothing]).verdict is Verdict.WRONG
    wrong = ModelCounts("wrong", [replace(kind, built=1) for kind in counted().kinds])
    found = judge([counted(), wrong])
    assert found.verdict is Verdict.OPEN
    assert "the count is wrong" in str(found.reason)
    assert f"at most 176 of the {none.total:,} of small" in str(judge([counted()]).reason)


def test_why_a_kind_cannot_be_is_said() -> None:
    remarks = judge([counted(target_vocabulary=7)]).remarks
    assert "cannot be one matrix: its vocabularies have 11 and 7 tokens" in str(remarks[0])
    bare = TransformerConfig.one_stack("encoder-only", 11, 1, d_model=8, n_heads=2, d_ff=16, output_head="none")
    assert str(judge([count("bare", bare)]).remarks[0]) == "there is no output in bare whose matrix could be shared"
    assert not judge([counted()]).remarks


def test_the_loaded_model_stands_beside_the_papers_and_with_one_vocabulary() -> None:
    model = tiny("encoder-decoder")
    found = judged("tied-weights", model, vocabulary=500)
    assert f"{model.network.parameter_count():,} weights" in str(found.remarks[0])
    *charts, table = found.figures
    names = [str(chart.title) for chart in charts]
    assert names[0] == f"Weights of {model.name}"
    assert names[-2:] == ["Weights of paper, base", "Weights of paper, big"]
    sums = [sum(parts) for parts in zip(*(curve.ys for curve in charts[0].curves), strict=True)]
    rows = [row for row in table.rows if row[0] == model.name]
    assert [1e6 * total for total in sums] == pytest.approx([row[6] for row in rows])
