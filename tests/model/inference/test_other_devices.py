"""Everything on one device: on CUDA as on the CPU where there is one, and by the meta device everywhere.

The meta device computes shapes alone, but refuses to mix in a tensor that was left on the CPU.
"""

import copy

import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.capture.trace import record
from model.data.datasets import PairDataset
from model.inference.decoding import Sampling
from model.inference.models import LanguageModel, Translator
from model.inference.text_model import TextModel
from model.network.kernels import plain_kernels
from model.training.settings import TrainingSettings
from model.training.trainer import Trainer
from tests.model.examples import network, one_stack, sentences, tokenizers

OPTIONS = [
    {},
    {"norm_placement": "pre", "position": "learned", "activation": "gelu-tanh", "embedding_norm": True},
    {"position": "alibi", "window": 3},
    {"position": "rotary", "n_key_value_heads": 1, "norm": "rms", "activation": "swiglu", "qk_norm": True},
    {"position": "none", "norm": "textbook-sample", "norm_placement": "sandwich"},
]
LONG = 40  # beyond max_length: tables grow on the way


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_no_tensor_is_left_on_the_cpu(options, is_explicit):
    device, length = torch.device("meta"), 30 if options.get("position") == "learned" else LONG
    ids, real = torch.ones(2, length, dtype=torch.long, device=device), torch.ones(2, length, device=device).bool()
    with plain_kernels(is_explicit):
        for transformer in (
            network(**options),
            one_stack("decoder-only", **options),
            one_stack("encoder-only", **options),
        ):
            transformer.to(device)
            inputs = (ids, ids, real, real) if transformer.kind == "encoder-decoder" else (ids, real)
            with record(transformer, maps=is_explicit) as trace:
                assert transformer(*inputs).device == device
            assert {trace[name].device for name in trace.names()} == {device}


def test_the_test_above_sees_a_tensor_on_the_cpu():
    transformer = network().to("meta")
    transformer.decoder.norm = torch.nn.Identity()
    transformer.decoder.embedding.positions.table = torch.zeros(32, 16)
    ids = torch.ones(2, 5, dtype=torch.long, device="meta")
    with pytest.raises(RuntimeError, match="device"):
        transformer(ids, ids)


def models() -> list[TextModel]:
    both = tokenizers(sentences(60))
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    translator = Translator("pairs", network(**sizes), both, {})
    return [translator, LanguageModel("text", one_stack("decoder-only", vocabulary=len(both[0])), (both[0],) * 2, {})]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("number", [0, 1])
def test_cuda_traces_and_writes_what_the_cpu_does(number, dtype):
    model = models()[number]
    other = type(model)("cuda", copy.deepcopy(model.network).to("cuda", dtype), (model.source_tokenizer,) * 2, {})
    other.target_tokenizer = model.target_tokenizer
    text, loose = sentences(60)[0].source, {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 2e-2}[dtype]
    tokens = [model.source_tokens(text)] if number else [model.source_tokens(text), model.target_tokens("师学")]
    ours, theirs = model.trace_tokens(*tokens), other.trace_tokens(*tokens)
    assert all(check.passed for check in checks(theirs))
    for name in ours.names():
        assert theirs[name].is_cuda
        assert_close(theirs[name].cpu().to(ours[name].dtype), ours[name], rtol=loose, atol=loose)
    for options in ({}, {"beam": 3}, {"sampling": Sampling(seed=3)}):
        made = other.generate(text, **options)
        assert len(made.log_probabilities) == len(made.ids)
        if dtype == torch.float32 and "sampling" not in options:
            assert made.ids == model.generate(text, **options).ids


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_cuda_trains_as_the_cpu_does(precision, tmp_path):
    pairs = sentences(60)
    both = tokenizers(pairs)
    corpus = PairDataset(pairs, both, 32)
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    settings = TrainingSettings(epochs=3, batch_tokens=100, warmup=5, rate=5e-3, bpe_dropout=0.0, precision=precision)
    ours = Trainer(network(**sizes), corpus, corpus, TrainingSettings(**vars(settings) | {"precision": "float32"}))
    theirs = Trainer(network(**sizes).cuda(), corpus, corpus, settings)
    losses = [[report.loss for report in trainer.steps(12)] for trainer in (ours, theirs)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3 if precision == "float32" else 0.05)
    theirs.save_state(tmp_path / "run.resume")
    again = Trainer(network(**sizes).cuda(), corpus, corpus, settings)
    again.load_state(tmp_path / "run.resume")
    expected = [report.loss for report in theirs.steps(3)]
    assert [report.loss for report in again.steps(3)] == pytest.approx(expected, rel=1e-5)
