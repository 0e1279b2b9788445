"""With weights of GPT-2, BERT, Marian and Llama our network gives what theirs give: padded texts, gradients, writing.

Every family's attentions, states and logits of one text are compared in tests/model/checkpoints/convert.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.capture.trace import record
from model.checkpoints.convert.from_huggingface import rebuilt_weights
from model.checkpoints.tensors import read_tensors
from model.inference.beam_search import beam_search
from model.inference.decoding import greedy
from model.network.masks import real_tokens
from tests.model.checkpoints.convert.twins import (
    ONCE_IN_FLOAT32,
    SPECIAL,
    VOCABULARY,
    Doubled,
    read_settings,
    rebuilt,
    saved,
)

KINDS = ["gpt2", "bert", "marian", "llama"]
WRITERS = ["gpt2", "marian", "llama"]
PADDING, END, START, STEPS = SPECIAL["pad_token_id"], SPECIAL["eos_token_id"], 2, 8
EXACT = {"rtol": 0, "atol": 1e-10}


@pytest.fixture
def twins(request, tmp_path, monkeypatch):
    """Theirs and ours with the same weights; ours by the converter."""
    for module in ONCE_IN_FLOAT32:
        monkeypatch.setattr(module, "torch", Doubled())
    theirs = saved(request.param, tmp_path).double()
    ours = rebuilt(tmp_path, torch.float64).requires_grad_(True)
    torch.manual_seed(3)
    return theirs, ours


def rows() -> torch.Tensor:
    """Two texts, of which one ends in padding."""
    ids = torch.randint(3, VOCABULARY, (2, 7))
    ids[1, 5:] = PADDING
    return ids


def both(theirs, ours, **wanted):
    """What theirs and ours make of padded texts, the ids that predict, and which of them are real."""
    ids, target = rows(), torch.randint(3, VOCABULARY, (2, 6))
    masked = {"input_ids": ids, "attention_mask": (ids != PADDING).long(), **wanted}
    if ours.kind == "encoder-decoder":
        output = theirs(**masked, decoder_input_ids=target, use_cache=False)
        return output, ours(ids, target, real_tokens(ids, PADDING)), torch.ones_like(target, dtype=torch.bool)
    return theirs(**masked), ours(ids, real_tokens(ids, PADDING)), ids != PADDING


@pytest.mark.parametrize("twins", KINDS, indirect=True)
def test_logits_and_every_head_of_padded_texts_are_theirs(twins):
    theirs, ours = twins
    with torch.inference_mode(), record(ours) as trace:
        output, logits, _real = both(theirs, ours, output_attentions=True)
        assert_close(logits, output.logits, **EXACT)
    attentions = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    if ours.kind != "encoder-decoder":
        attentions = {ours.kind.split("-")[0]: "attentions"}
    for row in range(2):
        for kind, name in attentions.items():
            assert_close(trace.example(row).attention(kind), torch.stack(output[name])[:, row], **EXACT)


@pytest.mark.parametrize("twins", KINDS, indirect=True)
def test_every_gradient_is_theirs(twins, tmp_path):
    theirs, ours = twins
    output, logits, real = both(theirs, ours)
    labels = torch.randint(VOCABULARY, (int(real.sum()),))
    losses = [F.cross_entropy(each[real], labels) for each in (logits, output.logits)]
    for loss in losses:
        loss.backward()
    assert_close(*losses, **EXACT)
    # Weights become ours by a linear map, and so do gradients; what theirs do not learn counts as 0.
    gradients = {name: torch.zeros_like(tensor).double() for name, tensor in read_tensors(tmp_path).items()}
    gradients |= {name: each.grad for name, each in theirs.named_parameters() if each.grad is not None}
    types = gradients.pop("bert.embeddings.token_type_embeddings.weight", None)
    if types is not None:  # all tokens are of type 0, whose vector is added to every position's
        gradients["bert.embeddings.token_type_embeddings.weight"] = torch.zeros_like(types)
        assert_close(ours.get_parameter("encoder.embedding.positions.table").grad.sum(dim=0), types[0], **EXACT)
    expected = rebuilt_weights(read_settings(tmp_path), ours.config, gradients)
    assert {id(ours.get_parameter(name)) for name in expected} == set(map(id, ours.parameters()))
    if ours.kind == "encoder-decoder":
        del expected["output.logits.bias"]  # in theirs no parameter
    for name, gradient in expected.items():
        assert_close(ours.get_parameter(name).grad, gradient, **EXACT, msg=lambda text, name=name: f"{name}: {text}")
        assert gradient.abs().max() > 1e-6 or name.endswith("key.bias"), name


def starts(ours) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Padded sources for Marian, prompts of one length for the others; and how many tokens theirs gives before."""
    if ours.kind == "encoder-decoder":
        ids = rows()
        return ids, {"attention_mask": (ids != PADDING).long(), "forced_eos_token_id": None}, 1
    ids = torch.randint(3, VOCABULARY, (2, 4))
    return ids, {"attention_mask": torch.ones_like(ids)}, 4


@pytest.mark.parametrize("twins", WRITERS, indirect=True)
def test_cached_greedy_decoding_is_theirs(twins):
    theirs, ours = twins
    ids, options, before = starts(ours)
    steps: list[torch.Tensor] = []  # `generate` gives float32; their network computes these in float64
    with theirs.register_forward_hook(lambda module, inputs, output: steps.append(output.logits[:, -1])):
        written = theirs.generate(ids, **options, do_sample=False, use_cache=True, max_new_tokens=STEPS)[:, before:]
    context = ours.read(ids, padding=PADDING, start=START)
    texts, values, tokens = greedy(context, ends=[END], limits=[STEPS] * 2, keep=VOCABULARY)
    expected = torch.stack(steps).log_softmax(dim=-1)
    assert len(values) == len(expected) == written.shape[1] > 3
    for row, (text, whole) in enumerate(zip(texts, written.tolist(), strict=True)):
        length = len(text)  # after its end a text is padded by them and not by us
        assert text == whole[:length]
        assert set(whole[length:]) <= {PADDING}
        assert_close(values[:length, row], expected[:length, row].gather(1, tokens[:length, row]), **EXACT)


@pytest.mark.parametrize("twins", WRITERS, indirect=True)
def test_beam_search_is_theirs(twins):
    """Without a length penalty: they divide by length^p, we by Wu et al.'s ((5 + length) / 6)^p."""
    theirs, ours = twins
    ids, options, before = starts(ours)
    options |= {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.0, "max_new_tokens": STEPS}
    found = theirs.generate(ids, **options, do_sample=False, return_dict_in_generate=True, output_scores=True)
    context = ours.read(ids, padding=PADDING, start=START)
    trees = beam_search(context, ends=[END], limits=[STEPS] * 2, beam=3, length_penalty=0.0)
    beams = [(tree, index) for tree in trees for index in tree.ranked()[:3]]
    for (tree, index), row, score in zip(beams, found.sequences[:, before:], found.sequences_scores, strict=True):
        written = [tree.nodes[node].token for node in tree.path(index)]
        assert written == row[: len(written)].tolist()
        assert set(row[len(written) :].tolist()) <= {PADDING}
        assert tree.score(index) == pytest.approx(float(score), abs=1e-5)  # theirs is added up in float32
