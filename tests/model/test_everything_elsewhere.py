"""Everything that model/ computes, on a device that is not the CPU: the same numbers, and no tensor left behind.

The device is a pretended one (tests/pretended_device.py), once with float64, as CUDA, and once without, as MPS.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import pandas
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from model.analysis import (
    batches,
    blocks,
    combining,
    differences,
    dropout,
    effects,
    feed_forward,
    head_weights,
    heads,
    logit_lens,
    loss,
    masking,
    norms,
    order,
    pictures,
    predictions,
    residual,
    spectra,
    tokens,
    weights,
)
from model.analysis.maps import Maps, Quantity
from model.attention import MultiHeadAttention, for_each_head
from model.checkpoints import INSPECTABLES
from model.config import Kind
from model.filling import MaskFiller
from model.inspectable import Inspectable
from model.interventions import Causal, Cells, Intervention, PaddingSeen, Window, intervening
from model.masks import Mask
from model.sampling import Sampling
from model.text import Tokenizer, train_bpe
from model.trace import Trace, record
from model.variation import vary
from tests.model.examples import config, network, one_stack, sentences, tokenizers
from tests.pretended_device import NAME

KINDS: list[Kind] = ["encoder-decoder", "decoder-only", "encoder-only"]
OPTIONS: list[dict[str, Any]] = [
    {"norm_placement": "pre", "position": "learned", "activation": "gelu-tanh", "embedding_norm": True},
    {"position": "alibi", "window": 3, "norm": "textbook"},
    {"position": "rotary", "n_key_value_heads": 1, "norm": "rms", "activation": "swiglu", "qk_norm": True},
    {"position": "relative", "norm": "textbook-sample", "norm_placement": "sandwich"},
    {"position": "none", "norm": "none", "residual": False},
]
TEXT = "The cat sees a dog. The bird likes"


@cache
def words() -> tuple[Tokenizer, Tokenizer, Tokenizer]:
    """Of a source, of a target, and with a mask."""
    pairs = sentences(40)
    return *tokenizers(pairs), train_bpe([pair.source for pair in pairs], 90, mask=True)


def lens_of(kind: Kind, **options: Any) -> Inspectable:
    source, target, masked = words()
    both = {KINDS[0]: (source, target), KINDS[1]: (source, source), KINDS[2]: (masked, masked)}[kind]
    if kind == "encoder-decoder":
        model: Any = network(source_vocabulary=len(both[0]), target_vocabulary=len(both[1]), **options)
    else:
        model = one_stack(kind, vocabulary=len(both[0]), **options)
    return INSPECTABLES[kind](kind, model.requires_grad_(False), both, {})


def elsewhere(lens: Inspectable, dtype: torch.dtype = torch.float32) -> Inspectable:
    moved = copy.deepcopy(lens.model).to(NAME, dtype)
    return type(lens)(lens.name, moved, (lens.source_tokenizer, lens.target_tokenizer), {})


def trace_of(lens: Inspectable, text: str = TEXT) -> Trace:
    if lens.kind == "encoder-decoder":
        return lens.trace(text, "师学")
    return lens.trace(text.replace("cat", "<mask>") if isinstance(lens, MaskFiller) else text)


def at_home(value: Any) -> Any:
    """Numbers and texts, wherever their tensors were."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, pandas.DataFrame):
        return value.to_dict("list")
    if dataclasses.is_dataclass(value):
        return {each.name: at_home(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: at_home(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [at_home(each) for each in value]
    return value


def alike(there: Any, here: Any) -> None:
    there, here = at_home(there), at_home(here)
    if isinstance(here, dict):
        assert list(there) == list(here)
        there, here = list(there.values()), list(here.values())
    if isinstance(here, list):
        assert len(there) == len(here)
        for one, other in zip(there, here, strict=True):
            alike(one, other)
    elif isinstance(here, (Tensor, float)):
        assert_close(there, here, rtol=1e-4, atol=1e-5, equal_nan=True)
    elif isinstance(here, (str, int, bool, type(None))):
        assert there == here


@pytest.mark.parametrize(
    ("kind", "options"), [*zip(KINDS, OPTIONS[2:], strict=True), *zip(KINDS[:2], OPTIONS, strict=False)]
)
def test_every_quantity_of_a_trace(pretended, kind, options):
    lens = lens_of(kind, **options)
    other = elsewhere(lens)
    ours, theirs = trace_of(lens), trace_of(other)
    assert theirs.names() == ours.names()
    for name in theirs.names():
        assert theirs[name].device.type == NAME, name
        assert_close(theirs[name].cpu(), ours[name], rtol=1e-4, atol=1e-5)
    assert all(check.passed for check in theirs.checks())
    ids = [torch.tensor([row, row[::-1]], device=other.device) for row in ([3, 4, 5, 6], [3, 4, 2])]
    inputs = ids if kind == "encoder-decoder" else ids[:1]
    real = [torch.tensor([[True] * each.shape[1], [True] * 2 + [False] * (each.shape[1] - 2)]) for each in inputs]
    with torch.inference_mode(), record(other.model, maps=True) as trace:
        other.model(*inputs, *(each.to(other.device) for each in real))
    assert all(check.passed for check in trace.checks())
    assert all(check.passed for check in trace.example(1).checks())


def analyses(lens: Inspectable, trace: Trace, before: Trace) -> dict[str, Callable[[], Any]]:
    """Every function of model/analysis that takes tensors, on this trace, and beside another one."""
    config, stack, model = lens.config, logit_lens.last_stack(lens.model), lens.model
    kinds = [kind for kind in ("encoder", "decoder", "cross") if trace.attention_paths(kind)]
    maps = {kind: trace.attention(kind) for kind in kinds}
    marked = torch.tensor([place == 0 for place in range(maps[kinds[0]].shape[-1])], device=lens.device)
    path, all_heads = trace.attention_paths(kinds[-1])[-1], [(0, 0), (1, 1)]
    x, logits = trace[f"{stack}.embedding.output"], trace["output.logits"]
    source = lens.source_tokens(TEXT)
    target = lens.target_tokens("师学") if lens.kind == "encoder-decoder" else None
    names = logit_lens.stream_names(trace)
    actual = torch.arange(len(logits), device=lens.device) % logits.shape[1] - 1
    parts = residual.blocks(config, stack)
    three, units = torch.tensor([[3, 4, 5]], device=lens.device), trace[f"{stack}.layers.0.feed_forward.hidden"]
    comparison, seen = differences.Comparison(trace, before), feed_forward.Seen()
    seen.add(trace, config)
    seen.add(before, config)
    made: dict[str, Callable[[], Any]] = {
        "checks": lambda: {check.name: (check.passed, check.cells) for check in trace.checks()},
        "heads": lambda: [metric(maps[kinds[0]], marked) for metric in heads.METRICS.values()],
        "average": lambda: combining.average(Maps(trace, kinds[0]), all_heads),
        "maximum": lambda: combining.maximum(Maps(trace, kinds[0]), all_heads),
        "rollout": lambda: combining.rollout(Maps(trace, kinds[0]), all_heads) if kinds[0] != "cross" else None,
        "quantities": lambda: [Maps(trace, kinds[0], each).of(0, slice(0, 2)) for each in Quantity],
        "row": lambda: Maps(trace, kinds[0]).row(0, 1, 1),
        "norms": lambda: norms.norm_table(trace),
        "levels": lambda: norms.norm_levels(trace.__getitem__, norms.stack_norms(trace, stack), "before"),
        "forms": lambda: norms.forms(x, 1e-5),
        "gap": lambda: norms.form_gap(x, 1e-5, "textbook"),
        "stream": lambda: residual.stream(trace.__getitem__, residual.states(parts)),
        "contributions": lambda: residual.contributions(trace.__getitem__, parts),
        "cosines": lambda: residual.cosines(torch.stack([trace[name].float() for name in residual.states(parts)])),
        "sums": lambda: residual.sum_error(trace, config, parts) < 1e-5,
        "lens": lambda: logit_lens.read_layers(model, [trace[name] for name in names], actual.clamp(min=0)[None]),
        "losses": lambda: predictions.losses(logits, actual),
        "ranks": lambda: predictions.ranks(logits, actual),
        "entropies": lambda: predictions.entropies(logits),
        "sampled": lambda: predictions.sampled(logits[0], Sampling(temperature=0.7, top_k=5, top_p=0.9)),
        "saturation": lambda: predictions.saturation(logits[0], [0.5, 1.0, 2.0]),
        "text losses": lambda: loss.text_losses(lens, trace, source, target)[:3],
        "perplexity": lambda: loss.perplexity(predictions.losses(logits, actual)),
        "nearest": lambda: tokens.nearest(model.get_submodule(f"{stack}.embedding.tokens").weight, 3, 4)[0],
        "plane": lambda: tokens.principal_plane(x).project(x).abs(),
        "groups": lambda: tokens.in_groups(x, 5),
        "pooled": lambda: pictures.pooled(maps[kinds[0]][0], 4),
        "binned": lambda: pictures.binned(x[0], 5),
        "thinned": lambda: pictures.thinned(x, 3, 4),
        "mean norm": lambda: pictures.mean_norm(x),
        "blocks": lambda: len(blocks.blocks(trace)),
        "effects": lambda: effects.weight_changes(trace, trace, kinds[0]),
        "outputs": lambda: effects.output_changes(trace, trace, kinds[0]),
        "divergence": lambda: effects.prediction_changes(trace, trace),
        "difference": lambda: [comparison.difference(name) for name in trace.names()],
        "pinned attention": lambda: comparison.attention(kinds[0]),
        "changes": lambda: comparison.changes,
        "future": lambda: masking.future_change(model, [three] * (2 if target else 1), 1, 6),
        "orders": lambda: masking.orders(trace[f"{path}.scaled"][0], trace[f"{path}.visible"], trace.values(path)[0]),
        "order": lambda: order.order_difference(model, source.ids, [1, 0, *range(2, len(source.ids))]),
        "beside": lambda: order.states_beside(model, source.ids, order.reversed_order([False] * len(source.ids))),
        "weights": lambda: weights.statistics(next(model.parameters())),
        "head norms": lambda: [head_weights.head_norms(each) for each in head_weights.attentions(model).values()],
        "similar": lambda: head_weights.head_similarity(list(head_weights.attentions(model).values())[:2], "scores"),
        "singular": lambda: spectra.singular_values(next(model.parameters()).cpu()),
        "idle": lambda: seen.on(model, feed_forward.path_of(stack, 0)),
        "reads": lambda: feed_forward.reads(model, stack, 0, 3, lens.target_tokenizer),
        "writes": lambda: feed_forward.writes(model, stack, 1, 3, lens.target_tokenizer),
        "unit order": lambda: [feed_forward.order_of(units, each) for each in ("index", "strength")],
        "apart": lambda: feed_forward.positions_apart(trace, stack, 0, range(len(x))[::-1]).alone < 1e-5,
        "dropped": lambda: dropout.over_masks(x[0], 0.25, 20, "seed").counts,
    }
    if config.norm != "none":
        made["placements"] = lambda: residual.placements(model, parts[-1], x, trace[parts[-1].read])
    if batch := batches.batch_of(lens, source, target):
        name = f"{norms.stack_norms(trace, stack)[0]}.input"
        alone = lens.trace_tokens(source, target)[name]
        made["batch"] = lambda: batches.batch_statistics(batch.stacked(name), batch.real[stack], alone, 1e-5)
    return made


@pytest.mark.parametrize(("kind", "options"), [(KINDS[0], {}), (KINDS[1], OPTIONS[2]), (KINDS[2], OPTIONS[0])])
def test_every_analysis(pretended, kind, options):
    lens = lens_of(kind, **options)
    results = []
    for each in (lens, elsewhere(lens)):
        results.append(analyses(each, trace_of(each), trace_of(each, "The dog likes a cat.")))
    for name, here in results[0].items():
        there = results[1][name]()
        alike(there, here())


CHANGES: list[list[Intervention]] = [
    [Causal("decoder", False), Window("decoder", 2), PaddingSeen("decoder")],
    [Cells("decoder", False, 1, None), Cells("decoder", True, 0, 2, 0, None)],
    [Cells("decoder", False, None, 0, 1, 1)],
]


@pytest.mark.parametrize("changes", CHANGES)
def test_every_change_to_masks(pretended, changes):
    lens = lens_of("decoder-only", n_key_value_heads=1, position="alibi")
    found = []
    for each in (lens, elsewhere(lens)):
        with intervening(each.model, changes):
            trace = trace_of(each)
        found.append({name: trace[name] for name in trace.names()} | {"checks": [c.cells for c in trace.checks()]})
    alike(found[1], found[0])


@pytest.mark.parametrize("position", ["rotary", "alibi", "none"])
def test_every_other_position(pretended, position):
    lens = lens_of("encoder-decoder", position="sinusoidal")
    found = [
        trace_of(vary(each, position=position, position_base=500.0, max_length=40))["output.logits"]
        for each in (lens, elsewhere(lens))
    ]
    alike(found[1], found[0])


def naive(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """A kernel that is at its worst: where nothing may be seen, its output and its gradients are NaN."""
    key, value = (for_each_head(each, query.shape[1]) for each in (key, value))
    scores = query @ key.mT * scale
    if attn_mask is None:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    boolean = attn_mask.dtype == torch.bool
    scores = torch.where(attn_mask, scores, -torch.inf) if boolean else scores + attn_mask
    return scores.softmax(dim=-1) @ value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position", ["alibi", "rotary"])
def test_a_query_that_sees_nothing_gets_zeros_from_whatever_kernel(monkeypatch, position, dtype):
    """With a window and padding, and a mask of no key at all."""
    monkeypatch.setattr(F, "scaled_dot_product_attention", naive)
    attention = MultiHeadAttention(config(position=position, n_key_value_heads=1), causal=True).to(NAME, dtype)
    x = torch.randn(2, 6, 16).to(NAME, dtype).requires_grad_()
    real = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    mask = Mask(keys=real.to(NAME), causal=True, window=2)
    attention(x, x, mask)[real.to(NAME)].sum().backward()
    gradients = [x.grad, *(each.grad for each in attention.parameters())]
    assert all(bool(each.isfinite().all()) for each in gradients)
    query, (key, value) = attention.query(x), attention.project(x)
    blind = attention.fused(query, key, value, mask)[1, :, 3:]
    assert blind.abs().max() == 0
    assert_close(
        attention.fused(query, key, value, mask), attention.explicit(query, key, value, mask), rtol=0.02, atol=0.02
    )
    nothing = attention.fused(query, key, value, Mask(keys=torch.zeros(2, 6, dtype=torch.bool, device=NAME)))
    assert nothing.abs().max() == 0
