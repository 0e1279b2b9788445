"""Every option in a whole network: recorded wholly, checked, decoded with a cache, trained, written and read."""

from typing import get_args

import pytest
import torch
from torch.testing import assert_close

from model.analysis.checks import checks
from model.analysis.norms import norm_table
from model.capture.trace import record
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.network.config import Activation, Norm, NormPlacement, Position
from tests.model.examples import network, sentences, tokenizers

OPTIONS = [
    *({"norm": norm} for norm in get_args(Norm)),
    *({"norm_placement": placement} for placement in get_args(NormPlacement)),
    *({"activation": activation} for activation in get_args(Activation)),
    {"last_norm": True},
    {"residual": False},
    *({"position": position} for position in get_args(Position)),
    {"heads": "full"},
    {"qk_norm": True},
    {"heads": "full", "qk_norm": True, "position": "rotary"},
    {"norm": "rms", "norm_placement": "sandwich", "activation": "swiglu", "bias": False},
    {"norm": "none", "residual": False, "norm_placement": "sandwich"},
    {"parallel": True, "norm_placement": "pre", "position": "rotary", "rotary_channels": 4},
    {"parallel": True, "head_width": 6, "position": "relative", "position_buckets": 4, "position_reach": 3},
    {"position": "rotary", "rotary_stretch": 8.0, "rotary_short": 7.0, "rotary_long": 40.0, "attention_bias": "inputs"},
    {"output_head": "transform", "output_bias": True, "tied_embeddings": "output"},
    {"scale_output": True, "bias": False, "attention_bias": "all"},
    {"n_experts": 2, "activation": "swiglu"},
]
SOURCE, TARGET = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[1, 4, 9]])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_trace_is_whole_and_passes_its_checks(options):
    model = network(**options)
    with torch.inference_mode(), record(model) as trace:
        logits = model(SOURCE, TARGET)
    assert torch.equal(trace["output.logits"], logits[0])
    for name in trace.names():
        assert trace[name].isfinite().all() or name.endswith(".masked"), name
    norms = options.get("norm") != "none"
    assert bool(trace.norm_paths()) == norms == bool(len(norm_table(trace)))
    assert list(norm_table(trace).columns)[:3] == ["name", "position", "token"]
    for check in checks(trace):
        assert check.passed, check
        assert (check.cells > 0) or check.name in ("padding", "hidden", *([] if norms else ["norm"]))
    path = "encoder.layers.0.feed_forward"
    if "n_experts" in options:
        assert f"{path}.gates" in trace
        return  # see test_experts.py
    gated = "decoder.layers.1.feed_forward.gated" in trace
    assert gated == (options.get("activation") in ("swiglu", "geglu", "geglu-tanh"))
    units = trace[f"{path}.gated"] if gated else trace[f"{path}.activation"]
    output = model.encoder.layers[0].feed_forward.output
    with torch.inference_mode():
        assert_close(output(units), trace[f"{path}.output"])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_weight_is_trained_and_kept(options, tmp_path):
    both = tokenizers(sentences(60))
    sizes = {"source_vocabulary": len(both[0]), "target_vocabulary": len(both[1])}
    model = network(**options, **sizes)
    model.train()(SOURCE, TARGET).log_softmax(dim=-1)[..., 0].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0 or name.endswith(("key.bias", "cross_attention.key.bias")), name
    save_checkpoint(tmp_path / "c", model.eval(), both)
    opened = open_checkpoint(tmp_path / "c", torch.device("cpu")).network
    assert opened.config == model.config
    with torch.inference_mode():
        assert torch.equal(opened(SOURCE, TARGET), model(SOURCE, TARGET))
