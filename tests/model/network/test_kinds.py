"""Decoder-only and encoder-only models: everything that encoder-decoder models have, through the same names."""

import math
from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.analysis.norms import norm_table
from model.capture.trace import record
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.data.datasets import AnswerDataset, MaskedDataset, TextDataset
from model.inference.decoding import Sampling, greedy
from model.network.attention import MAPS
from model.network.config import Position, TransformerConfig
from model.network.transformer import DecoderOnly, EncoderOnly, Network, Transformer, build
from model.text.tokenizer_training import train_bpe, train_text_characters
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.model.examples import config, one_stack, sentences

PAIRS = sentences(60)
TEXT = "".join(f"{pair.source}\n" for pair in PAIRS)
TOKENIZERS = {
    "decoder-only": train_text_characters([TEXT]),
    "encoder-only": train_bpe([pair.source for pair in PAIRS], 90, mask=True),
}
STACKS = {"decoder-only": "decoder", "encoder-only": "encoder"}
OPTIONS = [
    {"norm_placement": "pre"},
    {"norm_placement": "post", "position": "learned", "embedding_norm": True, "tied_embeddings": "all"},
    {"position": "alibi", "n_key_value_heads": 1},
    {"position": "rotary", "window": 3, "activation": "swiglu", "norm": "rms", "norm_placement": "sandwich"},
]
POSITIONS = [{"position": position} for position in get_args(Position)[1:]]  # sinusoidal is what they have unless told


def model(kind, folder, seed=0, **options):
    made = TOKENIZERS[kind]
    save_checkpoint(folder, one_stack(kind, seed, vocabulary=len(made), **options), (made, made))
    return open_checkpoint(folder)


def test_the_config_chooses_the_network():
    networks = [type(build(each)) for each in (config(), *map(one_config, STACKS))]
    assert networks == [Transformer, DecoderOnly, EncoderOnly]
    message = r"Transformer is encoder-decoder, the config decoder-only: use build\(config\)"
    with pytest.raises(ValueError, match=message):
        Transformer(one_config("decoder-only"))


def one_config(kind) -> TransformerConfig:
    return TransformerConfig.one_stack(kind, 13, 2, d_model=16, n_heads=2, d_ff=24)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", STACKS)
def test_a_trace_has_everything_and_proves_itself(kind, options, tmp_path):
    given = model(kind, tmp_path / "c", **options)
    trace = given.trace("The cat sees the dog.")
    stack = STACKS[kind]
    assert trace.target_tokens == []
    assert trace.source_tokens == given.source_tokens("The cat sees the dog.").labels
    count = len(trace.source_tokens)
    assert trace.attention(stack).shape == (2, 2, count, count)
    assert [name for name in ("encoder", "decoder", "cross") if trace.attention_paths(name)] == [stack]
    assert trace["output.logits"].shape == (count, len(TOKENIZERS[kind]))
    assert trace.tokens_of(f"{stack}.layers.0.self_attention.output") == trace.source_tokens
    assert set(norm_table(trace)["token"]) == set(trace.source_tokens)
    made = {check.name: check for check in checks(trace)}
    assert all(check.passed for check in made.values())
    assert (made["future"].cells > 0) == (kind == "decoder-only")
    assert made["padding"].cells == 0
    assert (made["hidden"].cells > 0) == ("window" in options)
    biased = [name for name in trace.names() if name.endswith(".biased")]
    assert len(biased) == (2 if options.get("position") == "alibi" else 0)
    with torch.inference_mode(), record(given.network, maps=True) as explicit:
        given.network(torch.tensor([given.source_tokens("The cat sees the dog.").ids]))
    for name in explicit.names():
        assert_close(trace[name], explicit[name], rtol=1e-5, atol=1e-5)
    assert any(name.endswith(MAPS) for name in explicit.names())


def test_two_texts_belong_to_two_stacks(tmp_path):
    with pytest.raises(ValueError, match="c is decoder-only: it reads one text and has no target"):
        model("decoder-only", tmp_path / "c").trace("a", "b")


@pytest.mark.parametrize("options", OPTIONS)
def test_no_future_reaches_a_language_model_and_both_sides_reach_an_encoder(options):
    ids = torch.randint(13, (1, 9))
    other = ids.clone()
    other[0, 5] = (ids[0, 5] + 1) % 13
    for kind in STACKS:
        network = one_stack(kind, **options).double()
        before, after = network(ids), network(other)
        same = [bool(torch.equal(before[0, place], after[0, place])) for place in range(9)]
        assert same[:5] == [True] * 5 if kind == "decoder-only" else not all(same[3:5])
        assert not same[5]


@pytest.mark.parametrize("options", [*OPTIONS, *POSITIONS])
def test_cached_writing_is_the_uncached_one(options):
    network, prompts = one_stack("decoder-only", **options), torch.randint(3, 13, (3, 4))
    ids, values, _ = greedy(network.read(prompts, padding=0, start=1), ends=[2], limits=[9, 5, 9])
    for row, limit, written, prompt in zip(range(3), [9, 5, 9], ids, prompts, strict=True):
        assert len(written) == limit or written[-1] == 2
        whole = torch.cat([prompt, torch.tensor(written)])[None]
        expected = network(whole).log_softmax(dim=-1)[0, 3:-1]
        assert expected.argmax(dim=-1).tolist() == written
        assert_close(values[: len(written), row, 0], expected.max(dim=-1).values, rtol=0, atol=1e-5)


SAMPLED = {"sampling": Sampling(temperature=2.0)}
CONTINUED = [({}, {}, 6), ({}, {"beam": 3}, 6), ({}, SAMPLED, 6)]
CONTINUED += [(position, options, 3) for position in POSITIONS for options in ({"beam": 2}, SAMPLED)]


@pytest.mark.parametrize(("position", "options", "length"), CONTINUED)
def test_prompts_are_continued_alone_as_together(position, options, length, tmp_path):
    """Together, each alone and with the whole network; log-probabilities to 1e-5."""
    given = model("decoder-only", tmp_path / "c", **position)
    texts = ["The cat", "The dog sees", "", "The cat sees t"]
    together = given.generate_batch(texts, length=length, **options)
    for text, made in zip(texts, together, strict=True):
        assert given.generate(text, length=length, **options).ids == made.ids
        assert len(made.ids) <= length
        whole = TOKENIZERS["decoder-only"].decode([*given.source_tokens(text).ids, *made.ids])
        assert text + made.text == whole
        row = torch.tensor([[*given.source_tokens(text).ids, *made.ids]])
        expected = given.network(row)[0].log_softmax(dim=-1)[-len(made.ids) - 1 : -1]
        own = expected.gather(1, torch.tensor(made.ids)[:, None])[:, 0].tolist()
        assert made.log_probabilities == pytest.approx(own, abs=1e-5)


def test_a_long_prompt_is_cut_and_still_continued(tmp_path):
    given = model("decoder-only", tmp_path / "c", position="learned")
    tokens = given.source_tokens("a" * 100)
    assert (len(tokens), tokens.left_out) == (32, 69)
    assert tokens.ids[1:] == TOKENIZERS["decoder-only"].encode("a" * 31).ids
    seen = given.source_tokens("The cat sees the bird and the dog.")
    assert "".join(seen.labels[1:]) == "The cat sees the bird and the dog."[-31:]  # its end, where it goes on
    assert len(given.generate("a" * 100).ids) <= 16
    assert len(given.generate("a" * 31).ids) == 1
    assert len(given.generate("a", length=100).ids) <= 31


def learnt(network: Network, corpus) -> tuple[float, float]:
    settings = TrainingSettings(epochs=12, batch_tokens=200, warmup=5, rate=1e-2, label_smoothing=0.0, bpe_dropout=0.0)
    reports = list(Trainer(network, corpus, corpus, settings).steps())
    validations = [report.validation for report in reports if report.validation is not None]
    return validations[0], validations[-1]


@pytest.mark.unchecked
def test_every_kind_learns():
    letters, words = TOKENIZERS["decoder-only"], TOKENIZERS["encoder-only"]
    corpora = [
        ("decoder-only", TextDataset(TEXT, letters, 32), letters),
        ("decoder-only", AnswerDataset(PAIRS, words, 32, "="), words),
        ("encoder-only", MaskedDataset([pair.source for pair in PAIRS], words, 32), words),
    ]
    for kind, corpus, tokenizer in corpora:
        first, last = learnt(one_stack(kind, vocabulary=len(tokenizer), norm_placement="pre"), corpus)
        assert last < 0.85 * first
        assert first < 2 * math.log(len(tokenizer))


@pytest.mark.parametrize("kind", STACKS)
def test_weights_of_another_kind_are_refused(kind, tmp_path):
    model(kind, tmp_path / "c")
    (other,) = set(STACKS) - {kind}
    (tmp_path / "c" / "config.json").write_text(one_stack(other, vocabulary=len(TOKENIZERS[kind])).config.to_json())
    with pytest.raises(ValueError, match=r"the weights hold|has no <mask> token"):
        open_checkpoint(tmp_path / "c")
