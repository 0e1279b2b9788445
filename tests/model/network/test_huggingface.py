"""Our network is GPT-2, BERT, Marian and Llama: with their weights it computes what they compute, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from transformers.models.llama import modeling_llama

from model.capture.trace import record
from model.inference.beam_search import beam_search
from model.inference.decoding import greedy
from model.network.masks import real_tokens
from model.network.positions import sinusoidal
from tests.model import huggingface_reference
from tests.model.huggingface_reference import END, LAYERS, LENGTH, PADDING, START, VOCABULARY, WIDTH, Doubled, Twins

KINDS = ["gpt2", "bert", "marian", "llama"]
WRITERS = ["gpt2", "marian", "llama"]
EXACT = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(autouse=True)
def llama_in_float64(monkeypatch):
    monkeypatch.setattr(modeling_llama, "torch", Doubled())


def made(kind: str) -> Twins:
    return getattr(huggingface_reference, kind)()


def rows() -> torch.Tensor:
    """Two texts, of which one ends in padding."""
    ids = torch.randint(3, VOCABULARY, (2, 7))
    ids[1, 5:] = PADDING
    return ids


def both(twins: Twins, ids: torch.Tensor, target: torch.Tensor):
    """What they and ours make of padded texts; the target is only Marian's."""
    mask, real = (ids != PADDING).long(), real_tokens(ids, PADDING)
    wanted = {"attention_mask": mask, "output_attentions": True, "output_hidden_states": True}
    if twins.ours.kind == "encoder-decoder":
        theirs = twins.theirs(ids, decoder_input_ids=target, **wanted, use_cache=False)
        return theirs, twins.ours.states(ids, target, real)
    return twins.theirs(ids, **wanted), twins.ours.states(ids, real)


def outcome(twins: Twins, theirs, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, or BERT's last states."""
    if twins.ours.kind == "encoder-only":
        return theirs.last_hidden_state, states
    return theirs.logits, twins.ours.output(states)


def layers_of(theirs, stack: str, two_stacks: bool) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Hidden states before, between and after the layers, and attention weights (batch, head, query, key) of each."""
    prefix = f"{stack}_" if two_stacks else ""
    return theirs[f"{prefix}hidden_states"], theirs[f"{prefix}attentions"]


@pytest.mark.parametrize("kind", KINDS)
def test_states_logits_and_every_head_are_theirs(kind):
    twins, ids, target = made(kind), rows(), torch.randint(3, VOCABULARY, (2, 6))
    config = twins.ours.config
    with torch.inference_mode(), record(twins.ours) as trace:
        theirs, states = both(twins, ids, target)
        expected, actual = outcome(twins, theirs, states)
        assert_close(actual, expected, **EXACT)
        if kind == "bert":
            twins.ours.output(states)  # a trace is of a whole pass
    ends = "feed_forward_block.residual" if config.norm_placement == "pre" else "feed_forward_block.norm.output"
    compared = 0
    for stack in ("encoder", "decoder"):
        if not trace.attention_paths(stack):
            continue
        hidden, weights = layers_of(theirs, stack, config.kind == "encoder-decoder")
        names = [f"{stack}.embedding.output", *(f"{stack}.layers.{index}.{ends}" for index in range(LAYERS))]
        if config.norm_placement == "pre":
            names[-1] = f"{stack}.norm.output"  # they give the last states after the last norm
        for row in range(len(ids)):
            example = trace.example(row)
            for name, states in zip(names, hidden, strict=True):
                assert_close(example[name], states[row], **EXACT)
            assert_close(example.attention(stack), torch.stack(weights)[:, row], **EXACT)
            if kind == "marian" and stack == "decoder":
                assert_close(example.attention("cross"), torch.stack(theirs.cross_attentions)[:, row], **EXACT)
            compared += 1
    assert compared == (4 if kind == "marian" else 2)


@pytest.mark.parametrize("kind", KINDS)
def test_every_gradient_is_theirs(kind):
    twins, ids, target = made(kind), rows(), torch.randint(3, VOCABULARY, (2, 6))
    real = ids != PADDING if kind != "marian" else torch.ones_like(target, dtype=torch.bool)
    labels = torch.randint(WIDTH, real.shape)[real]
    losses = [F.cross_entropy(each[real], labels) for each in outcome(twins, *both(twins, ids, target))]
    for loss in losses:
        loss.backward()
    assert_close(*losses, **EXACT)
    gradients = {name: parameter.grad for name, parameter in twins.theirs.named_parameters()}
    fixed = {name for name, gradient in gradients.items() if gradient is None}
    assert len(fixed) == (2 if kind == "marian" else 0)  # its positions
    parameters = twins.theirs.get_parameter
    theirs = twins.named(lambda name: parameters(name) if name in fixed else gradients[name])
    ours = dict(twins.ours.named_parameters())
    assert theirs.keys() == ours.keys()
    for name, parameter in ours.items():
        if not (kind == "marian" and name.endswith("positions.table")):
            assert_close(parameter.grad, theirs[name], **EXACT, msg=lambda text, name=name: f"{name}: {text}")
            assert parameter.grad.abs().max() > 1e-6 or name.endswith("key.bias")
    if kind == "bert":
        types = gradients["embeddings.token_type_embeddings.weight"][0]
        assert_close(ours["encoder.embedding.positions.table"].grad.sum(dim=0), types, **EXACT)


def starts(kind: str) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Padded sources for Marian, prompts of one length for the others; and how many tokens theirs gives before."""
    if kind == "marian":
        ids = rows()
        return ids, {"attention_mask": (ids != PADDING).long()}, 1
    ids = torch.randint(3, VOCABULARY, (2, 4))
    return ids, {"attention_mask": torch.ones_like(ids)}, 4


@pytest.mark.parametrize("kind", WRITERS)
def test_cached_greedy_decoding_is_theirs(kind):
    twins = made(kind)
    ids, options, before = starts(kind)
    steps: list[torch.Tensor] = []  # `generate` gives float32; their network computes these in float64
    keep = twins.theirs.register_forward_hook(lambda module, inputs, output: steps.append(output.logits[:, -1]))
    with keep:
        theirs = twins.theirs.generate(ids, **options, do_sample=False, use_cache=True, max_new_tokens=LENGTH - before)
    theirs = theirs[:, before:]
    limits = [LENGTH - before] * 2
    written, values, tokens = greedy(
        twins.ours.read(ids, padding=PADDING, start=START), ends=[END], limits=limits, keep=VOCABULARY
    )
    for row, expected in zip(written, theirs.tolist(), strict=True):
        assert row == expected[: len(row)]
        assert set(expected[len(row) :]) <= {PADDING}
    expected = torch.stack(steps).log_softmax(dim=-1)
    assert len(values) == len(expected) == theirs.shape[1] > 3
    for row, ids in enumerate(written):  # after its end a text is padded by them and not by us
        own = values[: len(ids), row], tokens[: len(ids), row]
        assert_close(own[0], expected[: len(ids), row].gather(1, own[1]), **EXACT)


@pytest.mark.parametrize("kind", WRITERS)
def test_beam_search_is_theirs(kind):
    """Without a length penalty: they divide by length^p, we by Wu et al.'s ((5 + length) / 6)^p."""
    twins = made(kind)
    ids, options, before = starts(kind)
    theirs = twins.theirs.generate(
        ids,
        **options,
        do_sample=False,
        num_beams=3,
        num_return_sequences=3,
        length_penalty=0.0,
        max_new_tokens=LENGTH - before,
        return_dict_in_generate=True,
        output_scores=True,
    )
    trees = beam_search(
        twins.ours.read(ids, padding=PADDING, start=START), ends=[END], limits=[LENGTH - before] * 2, beam=3,
        length_penalty=0.0,
    )  # fmt: skip
    ours = [(tree, index) for tree in trees for index in tree.ranked()[:3]]
    assert len(ours) == 6
    for (tree, index), row, score in zip(ours, theirs.sequences[:, before:], theirs.sequences_scores, strict=True):
        written = [tree.nodes[node].token for node in tree.path(index)]
        assert written == row[: len(written)].tolist()
        assert set(row[len(written) :].tolist()) <= {PADDING}
        assert tree.score(index) == pytest.approx(float(score), abs=1e-5)  # theirs is added up in float32


def test_marian_has_the_papers_curves_with_sines_before_cosines():
    curves = sinusoidal(LENGTH, WIDTH)
    expected = torch.cat([curves[:, 0::2], curves[:, 1::2]], dim=1)
    table = made("marian").ours.get_parameter("decoder.embedding.positions.table")
    assert_close(table, expected, rtol=0, atol=1e-7)  # they keep it in float32


def test_llama_in_its_own_precision_is_ours_up_to_float32(monkeypatch):
    monkeypatch.setattr(modeling_llama, "torch", torch)
    twins, ids = made("llama"), rows()
    with torch.inference_mode():
        theirs, states = both(twins, ids, ids)
        error = (twins.ours.output(states) - theirs.logits).abs().max()
    assert 1e-10 < error < 1e-5  # so float64 in place of float32 changed its precision and nothing else
