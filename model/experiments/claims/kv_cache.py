"""KV cache: formula beside measured bytes, of the loaded model and of attention variants in its size (row 45)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from model.analysis.kv_cache import CacheSize, formula, measure, nbytes
from model.experiments.engines.trace_inputs import recurrent
from model.experiments.experiment import Curve, Curves, Experiment, Figure, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Condition, Quantity, Rule, at_most
from model.experiments.runner import Report
from model.experiments.variants.index import variants
from model.experiments.variants.variant import Shape, Sizes, Variant
from model.inference.text_model import TextModel
from model.message import say

SHOWN = ("full", "grouped-query", "multi-query", "latent", "window", "sinks", "blocks", "linear")
ALLOWED = 0.01  # relative difference from the formula, of a model that other code runs; ours must agree exactly
Measure = Callable[[TextModel, Sequence[int], Sequence[int], Sequence[int]], list[CacheSize]]


def doubling(longest: int) -> list[int]:
    """Lengths by doubling from 1 up to the longest."""
    return sorted({longest, *(2**power for power in range(longest.bit_length()) if 2**power < longest)})


def texts(model: TextModel, text: str) -> tuple[list[int], list[int]]:
    """Ids that an encoder reads, none without one, and those of the text that is written."""
    source = model.source_tokens(text)
    if model.kind != "encoder-decoder":
        return [], source.ids
    _trace, target, _generation = model.trace_generated(source)  # type: ignore[attr-defined]  # of a translator
    return source.ids, target.ids


def cache_bytes(variant: Variant, shape: Shape) -> int:
    """Bytes in float32 of the tensors that a variant keeps of random keys and values in one layer."""
    assert variant.cache_tensors is not None
    draw = torch.Generator().manual_seed(0)
    key, value = (torch.randn(*shape, generator=draw) for _ in range(2))
    return sum(map(nbytes, variant.cache_tensors(key, value)))


def variant_bytes(variant: Variant, shape: Shape) -> int:
    """Bytes in float32 by the variant's formula, in one layer."""
    assert variant.cached is not None
    return torch.float32.itemsize * variant.cached(shape)


def run(
    request: Request, measured: Measure = measure, variant_size: Callable[[Variant, Shape], int] = cache_bytes
) -> Iterator[Report[Outcome]]:
    """Measure the loaded model's cache, and what each variant keeps."""
    model, values = request.model, request.values
    config, length = model.config, values["length"]
    if config.kind == "recurrent":
        yield Report(1.0, recurrent())
        return
    sizes: list[CacheSize] = []
    if config.kind != "encoder-only":
        most = min(length, config.max_length)
        sizes = measured(model, *texts(model, request.text), doubling(most))
    figures = [growth(sizes)] if sizes else []
    yield Report(0.2, outcome(model, sizes, [], figures))
    shape = config.shape_of(config.stacks[-1])
    groups = Sizes(width=values["width"], rank=values["rank"], groups=max(1, shape.heads // 4))
    compared = [each for each in variants(groups) if each.key in SHOWN]
    lengths = doubling(length)
    variant_sizes: list[tuple[Variant, list[int], list[int]]] = []
    for number, each in enumerate(compared, 1):
        shapes = [Shape(shape.heads, tokens, shape.d_head) for tokens in lengths]
        variant_sizes.append(
            (each, [variant_size(each, one) for one in shapes], [variant_bytes(each, one) for one in shapes])
        )
        yield Report(
            0.2 + 0.8 * number / len(compared),
            outcome(model, sizes, variant_sizes, [*figures, *side(lengths, variant_sizes)]),
        )


def growth(sizes: Sequence[CacheSize]) -> Figure:
    """Bytes of the loaded model's cache over the tokens."""
    tokens = [float(size.tokens) for size in sizes]
    curves = [Curve(say("measured"), tokens, [float(size.measured) for size in sizes], style="dots")]
    if sizes[-1].formula is not None:
        formula_bytes = [float(size.formula or 0) for size in sizes]
        curves.append(Curve(say("formula"), tokens, formula_bytes))
    curves.append(Curve(say("storage"), tokens, [float(size.reserved) for size in sizes], dash=True))
    return Curves(say("KV cache of the loaded model"), say("tokens"), say("bytes"), curves)


def side(lengths: Sequence[int], variant_sizes: Sequence[tuple[Variant, list[int], list[int]]]) -> list[Figure]:
    """Bytes that each variant keeps, at the longest text and over all lengths."""
    whole = variant_sizes[0][2][-1]
    rows = [
        (each.name, formula_bytes[-1], measured[-1], 100 * measured[-1] / whole)
        for each, measured, formula_bytes in variant_sizes
    ]
    columns = (say("variant"), say("bytes by formula"), say("bytes measured"), say("share of full attention's, in %"))
    title = say("One layer of this size after {tokens} tokens, in float32", tokens=lengths[-1])
    places = [float(each) for each in lengths]
    curves = [
        Curve(each.name, places, [float(size) for size in measured]) for each, measured, _formula in variant_sizes
    ]
    grown = Curves(
        say("What one layer keeps, over length"), say("tokens"), say("bytes"), curves, log_x=True, log_y=True
    )
    return [Table(title, columns, rows), grown]


def outcome(
    model: TextModel,
    sizes: Sequence[CacheSize],
    variant_sizes: Sequence[tuple[Variant, list[int], list[int]]],
    figures: Sequence[Figure],
) -> Outcome:
    """Verdict: whether the formula gives the measured bytes, of the loaded model and of every variant."""
    quantities = []
    by_formula = all(measured == formula_bytes for _each, measured, formula_bytes in variant_sizes)
    needs = [Condition(say("each variant keeps the bytes of its formula"), by_formula)]
    if sizes:
        last = sizes[-1]
        quantities = [
            Quantity(say("measured bytes after {tokens} tokens", tokens=last.tokens), (float(last.measured),), "bytes"),
            Quantity(say("bytes for each token, measured"), ((last.own / last.tokens),), "bytes"),
            Quantity(say("bytes of the storage"), (float(last.reserved),), "bytes"),
        ]
        if last.formula is not None:
            quantities.insert(1, Quantity(say("bytes by formula"), (float(last.formula),), "bytes"))
        if any(size.deviation is None for size in sizes):
            reason = say("what this model's layers keep is not known, so that there is no formula to compare with")
            return Outcome(None, reason, quantities, figures)
        off = max(size.deviation or 0.0 for size in sizes)
        difference = Quantity(say("largest difference from the formula"), (off,))
        needs.append(at_most(difference, 0.0 if model.network.ours else ALLOWED))
        reason = say(
            "after {tokens} tokens the loaded model keeps {measured} bytes, {formula} by the formula; the largest "
            "difference over {count} lengths is {off} %, and {variants} variants were compared",
            tokens=last.tokens,
            measured=last.measured,
            formula=last.formula or 0,
            count=len(sizes),
            off=100 * off,
            variants=len(variant_sizes),
        )
    else:
        reason = say(
            "the loaded model does not write, and keeps nothing; {variants} variants of its size were compared",
            variants=len(variant_sizes),
        )
    return Outcome(Rule(needs) if sizes or variant_sizes else None, reason, quantities, figures)


EXPERIMENTS = (
    Experiment(
        name="kv-cache",
        row=45,
        group=Group.COST,
        statement=say(
            "A KV cache keeps 2 · layers · heads of keys · d_k numbers for each token; shared heads, a latent or a "
            "window make it smaller."
        ),
        truth=say(
            "It grows with every token, whatever the text says. Cross-attention keeps those of the source, once. "
            "Grouped-query attention keeps one head for each group, multi-query attention one in all, a latent its own "
            "channels, a window no more than its width, linear attention one matrix for each head. A model with a "
            "window keeps all tokens here: it could forget the far ones."
        ),
        run=run,
        of_model=True,
        parameters=(
            Parameter("length", say("tokens, at most"), 256, 1.0, 4096.0),
            Parameter("width", say("tokens of a window or block"), 32, 1.0, 1024.0),
            Parameter("rank", say("channels of the latent"), 32, 1.0, 1024.0),
        ),
        seconds=5.0,
        formulas=(
            r"\text{bytes} = 2 \cdot L \cdot h_{kv} \cdot d_k \cdot n \cdot \text{bytes of a number}",
            r"\text{latent: } L \cdot (d_c + d_R) \cdot n",
            r"\text{window: } 2 \cdot L \cdot h \cdot d_k \cdot \min(n, w)",
        ),
        code=(formula, measure),
        source="Shazeer, 2019; Ainslie et al., 2023; DeepSeek-AI, 2024, section 2.1",
    ),
)
