"""A padded batch of one text: its rows are the model's own on each, and both norms' statistics are torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.norms import batch_of, batch_statistics, pieces
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.viz.small import small_model


@pytest.fixture
def model(tmp_path):
    return small_model(tmp_path / "small")


def test_sentences_are_the_pieces_and_halves_of_one_alone(model):
    tokenizer = model.source_tokenizer
    whole = model.source_tokens("The cat sees. The dog hears.")
    two = [[whole.labels[place] for place in piece] for piece in pieces(whole, tokenizer)]
    assert [piece[-1] for piece in two] == ["</s>", "</s>"]
    assert "".join(two[0]).replace("▁", " ").strip() == "The cat sees.</s>"
    one = model.source_tokens("The cat sees the dog")
    halves = pieces(one, tokenizer)
    assert [*halves[0][:-1], *halves[1]] == [*range(len(one))]
    assert abs(len(halves[0]) - len(halves[1])) <= 1
    assert len(pieces(model.source_tokens("A. B. C."), tokenizer, 2)) == 2
    assert pieces(model.source_tokens(""), tokenizer) == []


def test_every_row_is_what_the_model_computes_of_it_alone(model):
    source, target = (
        model.source_tokens("The cat sees the dog."),
        model.target_tokens(model.target_tokenizer.label(7) * 5),
    )
    batch = batch_of(model, source, target)
    assert {stack: len(rows) for stack, rows in batch.rows.items()} == {"encoder": 3, "decoder": 3}
    assert int((~batch.real["encoder"]).sum()) > 0
    assert batch.places["encoder"][0] == [*range(len(source))]
    for row in range(3):
        places = batch.places["encoder"][row]
        assert batch.rows["encoder"][row].labels == [source.labels[place] for place in places]
        alone = model.trace_tokens(batch.rows["encoder"][row], batch.rows["decoder"][row])
        for stack in ("encoder", "decoder"):
            name = f"{stack}.layers.1.feed_forward_block.norm.input"
            own = batch.stacked(name)[row][batch.real[stack][row]]
            assert_close(own, alone[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack_have_a_batch_of_their_text(kind, tmp_path):
    made = TOKENIZERS[kind]
    save_checkpoint(tmp_path / "one", one_stack(kind, vocabulary=len(made)), (made, made))
    model = open_checkpoint(tmp_path / "one")
    batch = batch_of(model, model.source_tokens("The cat sees"), None)
    assert list(batch.rows) == [kind.split("-")[0]]
    assert batch_of(model, model.source_tokens(""), None) is None


def test_statistics_are_torchs():
    x = torch.randn(3, 4, 6, dtype=torch.float64) + 2
    real = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
    found = batch_statistics(x.float(), real, x[0].float(), 1e-5)
    assert_close(found.layer_mean, x.float().double().mean(-1))
    assert_close(found.layer_std, x.float().double().std(-1, correction=0))
    x = x.float().double()
    assert_close(found.real_mean, x[real].mean(0))
    assert_close(found.padded_std, x.flatten(0, 1).std(0, correction=0))
    normal = F.batch_norm(x.flatten(0, 1), None, None, training=True).view_as(x)[0]
    alone = F.batch_norm(x[0], None, None, training=True)
    assert found.batch_moves == pytest.approx(float((normal - alone).norm() / alone.norm()), rel=1e-6)
    assert found.layer_moves == 0
    assert batch_statistics(x, real, x[0] + torch.randn(4, 6), 1e-5).layer_moves > 0.1
