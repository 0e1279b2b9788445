"""torch.compile: the same losses, and its failures as one sentence."""

import pytest
import torch

from model import compiling
from model.compiling import compiled
from tests.model.examples import sentences, trainer

PAIRS = sentences(60)


def test_a_failure_of_the_compiler_is_one_sentence(monkeypatch):
    def failing(compute, **options):
        def call(*inputs):
            raise torch._dynamo.exc.TorchDynamoException("No working C++ compiler found in (None, 'g++')\nmore\n")

        return call

    monkeypatch.setattr(compiling.torch, "compile", failing)
    quick = compiled(torch.sin)
    with pytest.raises(
        ValueError, match=r"torch\.compile failed: No working C\+\+ compiler found in .*; train without it"
    ):
        quick(torch.ones(1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, where it imports its compiler
def test_compiled_training_has_the_same_losses():
    def losses(compile: bool) -> list[float]:
        sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1}
        given = trainer(PAIRS[10:], [], sizes, epochs=1, batch_tokens=200, warmup=2, undo_merges=0.0, compile=compile)
        return [report.loss for report in given.steps(4)]

    assert losses(compile=True) == pytest.approx(losses(compile=False), abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_without_a_compiler_one_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (None, "/nonexistent"))
    given = trainer(PAIRS[10:], [], {}, epochs=1, compile=True)
    with pytest.raises(ValueError, match=r"^compile is on and torch\.compile failed: InvalidCxxCompiler: No working C"):
        next(given.steps())
