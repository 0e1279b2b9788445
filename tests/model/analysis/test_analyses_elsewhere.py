"""Every analysis on a device that is not the CPU, with float64, as CUDA, and without, as MPS: the same numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from model.analysis import (
    attention_maps,
    blocks,
    comparison,
    downsample,
    dropout,
    embeddings,
    feed_forward,
    gradients,
    head_metrics,
    logit_attribution,
    logit_lens,
    masking,
    norms,
    positions,
    predictions,
    residual,
)
from model.analysis.attention_maps import Maps, Quantity
from model.analysis.checks import checks
from model.analysis.weights import heads as head_weights
from model.analysis.weights import spectra, statistics
from model.capture.trace import Trace
from model.inference.decoding import Sampling
from model.inference.text_model import TextModel
from tests.model.elsewhere import KINDS, OPTIONS, TEXT, alike, elsewhere, model_of, trace_of


def analyses(model: TextModel, trace: Trace, before: Trace) -> dict[str, Callable[[], Any]]:
    """Every function of model/analysis that takes tensors, on this trace, and beside another one."""
    config, stack, network = model.config, logit_lens.last_stack(model.network), model.network
    kinds = [kind for kind in ("encoder", "decoder", "cross") if trace.attention_paths(kind)]
    maps = {kind: trace.attention(kind) for kind in kinds}
    marked = torch.tensor([place == 0 for place in range(maps[kinds[0]].shape[-1])], device=model.device)
    path, all_heads = trace.attention_paths(kinds[-1])[-1], [(0, 0), (1, 1)]
    x, logits = trace[f"{stack}.embedding.output"], trace["output.logits"]
    source = model.source_tokens(TEXT)
    target = model.target_tokens("师学") if model.kind == "encoder-decoder" else None
    names, ids = logit_lens.stream_names(trace), [each.ids for each in (source, target) if each is not None]
    actual = torch.arange(len(logits), device=model.device) % logits.shape[1] - 1
    parts = residual.blocks(config, stack)
    three, units = torch.tensor([[3, 4, 5]], device=model.device), trace[f"{stack}.layers.0.feed_forward.hidden"]
    beside, seen = comparison.Comparison(trace, before), feed_forward.Seen()
    seen.add(trace, config)
    seen.add(before, config)
    made: dict[str, Callable[[], Any]] = {
        "checks": lambda: {check.name: (check.passed, check.cells) for check in checks(trace)},
        "heads": lambda: [
            metric(maps[kinds[0]], marked) for name, metric in head_metrics.METRICS.items() if name != "induction"
        ],
        "induction": lambda: head_metrics.induction(
            maps[kinds[0]], head_metrics.after_the_same(trace.source_tokens).to(model.device)
        ),
        "average": lambda: attention_maps.average(Maps(trace, kinds[0]), all_heads),
        "maximum": lambda: attention_maps.maximum(Maps(trace, kinds[0]), all_heads),
        "rollout": lambda: attention_maps.rollout(Maps(trace, kinds[0]), all_heads) if kinds[0] != "cross" else None,
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
        "model": lambda: logit_lens.read_layers(network, [trace[name] for name in names], actual.clamp(min=0)[None]),
        "gradients": lambda: gradients.loss_gradients(trace, ids, [*ids[-1][1:], predictions.UNKNOWN]),
        "blocks' logits": lambda: logit_attribution.block_attribution(trace, 1).logits,
        "heads' logits": lambda: logit_attribution.head_attribution(trace, 1, 0).logits,
        "losses": lambda: predictions.losses(logits, actual),
        "ranks": lambda: predictions.ranks(logits, actual),
        "entropies": lambda: predictions.entropies(logits),
        "sampled": lambda: predictions.sampled(logits[0], Sampling(temperature=0.7, top_k=5, top_p=0.9)),
        "saturation": lambda: predictions.saturation(logits[0], [0.5, 1.0, 2.0]),
        "text losses": lambda: predictions.text_losses(model, trace, source, target)[:3],
        "perplexity": lambda: predictions.perplexity(predictions.losses(logits, actual)),
        "nearest": lambda: embeddings.nearest(network.get_submodule(f"{stack}.embedding.tokens").weight, 3, 4)[0],
        "plane": lambda: embeddings.principal_plane(x).project(x).abs(),
        "groups": lambda: embeddings.in_groups(x, 5),
        "pooled": lambda: downsample.pooled(maps[kinds[0]][0], 4),
        "binned": lambda: downsample.binned(x[0], 5),
        "thinned": lambda: downsample.thinned(x, 3, 4),
        "mean norm": lambda: downsample.mean_norm(x),
        "blocks": lambda: len(blocks.blocks(trace)),
        "effects": lambda: comparison.weight_changes(trace, trace, kinds[0]),
        "outputs": lambda: comparison.output_changes(trace, trace, kinds[0]),
        "divergence": lambda: comparison.divergence(logits, logits),
        "difference": lambda: [beside.difference(name) for name in trace.names()],
        "pinned attention": lambda: beside.attention(kinds[0]),
        "changes": lambda: beside.changes,
        "future": lambda: masking.future_change(network, [three] * (2 if target else 1), 1, 6),
        "orders": lambda: masking.orders(trace[f"{path}.scaled"][0], trace[f"{path}.visible"], trace.values(path)[0]),
        "order": lambda: positions.order_difference(network, source.ids, [1, 0, *range(2, len(source.ids))]),
        "beside": lambda: positions.states_beside(
            network, source.ids, positions.reversed_order([False] * len(source.ids))
        ),
        "weights": lambda: statistics.statistics(next(network.parameters())),
        "head norms": lambda: [head_weights.head_norms(each) for each in head_weights.attentions(network).values()],
        "similar": lambda: head_weights.head_similarity(list(head_weights.attentions(network).values())[:2], "scores"),
        "singular": lambda: spectra.singular_values(next(network.parameters()).cpu()),
        "idle": lambda: seen.on(network, feed_forward.path_of(stack, 0)),
        "reads": lambda: feed_forward.reads(network, feed_forward.path_of(stack, 0), 3, model.target_tokenizer),
        "writes": lambda: feed_forward.writes(network, feed_forward.path_of(stack, 1), 3, model.target_tokenizer),
        "unit order": lambda: [feed_forward.order_of(units, each) for each in ("index", "strength")],
        "apart": lambda: (
            feed_forward.positions_apart(trace, feed_forward.path_of(stack, 0), range(len(x))[::-1]).alone < 1e-5
        ),
        "dropped": lambda: dropout.over_masks(x[0], 0.25, 20, "seed").counts,
    }
    if config.norm != "none":
        made["placements"] = lambda: residual.placements(network, parts[-1], x, trace[parts[-1].read])
    if batch := norms.batch_of(model, source, target):
        name = f"{norms.stack_norms(trace, stack)[0]}.input"
        alone = model.trace_tokens(source, target)[name]
        made["batch"] = lambda: norms.batch_statistics(batch.stacked(name), batch.real[stack], alone, 1e-5)
    return made


@pytest.mark.parametrize(("kind", "options"), [(KINDS[0], {}), (KINDS[1], OPTIONS[2]), (KINDS[2], OPTIONS[0])])
def test_every_analysis(pretended, kind, options):
    model = model_of(kind, **options)
    results = []
    for each in (model, elsewhere(model)):
        results.append(analyses(each, trace_of(each), trace_of(each, "The dog likes a cat.")))
    for name, here in results[0].items():
        there = results[1][name]()
        alike(there, here())
