"""Norms and dropout: LayerNorm's form (row 25), BatchNorm beside it (26), pre-norm's formula (27), dropout (36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from model.analysis.dropout import MaskStatistics, expected_error, over_masks, sites
from model.analysis.norms import Batch, batch_of, batch_statistics, expected_gap, forms
from model.experiments.engines.trace_inputs import read, tolerance, too_short, unanswered
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    at_once,
)
from model.experiments.rule import Quantity, Rule, at_most, exceeds
from model.inference.text_model import TextModel
from model.message import say
from model.network.config import TransformerConfig
from model.network.dropout import dropout
from model.network.layers import PreNorm
from model.runtime.device import exact
from model.runtime.errors import require
from model.runtime.random import seeded
from model.text.tokenizer import Tokens

ROUNDING = 1e-9  # relative, in float64

# LayerNorm (row 25).

WIDTHS = tuple(2**power for power in range(2, 12))
SIZES = tuple(10.0**power for power in range(-5, 3))  # deviations of the inputs
POSITIONS = 64

Form = Callable[[Tensor, float], Tensor]


def tutorial_norm(x: Float[Tensor, "position d_model"], eps: float) -> Float[Tensor, "position d_model"]:
    """(x − μ) / (s + ε), with the sample deviation s, which divides by n − 1."""
    return forms(x, eps)["textbook-sample"]


def form_error(form: Form, width: int, size: float, eps: float, seed: int) -> float:
    """‖form(x) − torch(x)‖ / ‖torch(x)‖ of positions whose features are drawn from N(0, size²)."""
    x = size * torch.randn(POSITIONS, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    reference = F.layer_norm(x, (width,), eps=eps)
    return float((form(x, eps) - reference).norm() / reference.norm())


def find_layer_norm(request: Request, form: Form = tutorial_norm) -> Outcome:
    """Distance of the tutorial's LayerNorm from torch's, over the number of features and the size of the input."""
    width, eps, seeds = int(request.values["d_model"]), 10.0 ** float(request.values["eps"]), request.seeds
    errors = [form_error(form, width, 1.0, eps, seed) for seed in seeds]
    small = [form_error(form, width, eps**0.5, eps, seed) for seed in seeds]
    reason = say(
        "its outputs are {error} away from torch's, relative to them, with {width} features of deviation 1, where "
        "n − 1 in the place of n alone makes {expected}; {small} with features as small as √ε",
        error=fmean(errors),
        width=width,
        expected=expected_gap(width),
        small=fmean(small),
    )
    quantities = [
        Quantity(say("relative difference from torch, features of deviation 1"), tuple(errors)),
        Quantity(say("relative difference from torch, features as small as √ε"), tuple(small)),
    ]
    rule = Rule([at_most(each, ROUNDING) for each in quantities])
    ways: list[tuple[str, Form]] = [
        (say("(x − μ) / (s + ε), the tutorial"), form),
        ("(x − μ) / (σ + ε)", lambda x, e: forms(x, e)["textbook"]),
    ]
    over_width = [
        Curve(name, WIDTHS, [form_error(way, each, 1.0, eps, seeds[0]) for each in WIDTHS]) for name, way in ways
    ]
    over_size = [
        Curve(name, SIZES, [form_error(way, width, each, eps, seeds[0]) for each in SIZES]) for name, way in ways
    ]
    y = say("relative difference from torch")
    figures = [
        Curves(say("Over the number of features"), "d_model", y, over_width, log_x=True, log_y=True),
        Curves(say("Over the deviation of the features"), say("deviation"), y, over_size, log_x=True, log_y=True),
    ]
    return Outcome(rule, reason, quantities, figures)


# BatchNorm (row 26).

MOVED = 0.01  # relative change of a text's states from which on it counts
MakeBatch = Callable[[TextModel, Sequence[Tokens]], "Batch | None"]


def with_pieces(model: TextModel, texts: Sequence[Tokens]) -> Batch | None:
    """The text and its sentences or halves, which are padded, through the model as one batch."""
    return batch_of(model, texts[0], texts[1] if len(texts) > 1 else None)


def find_batch_norm(request: Request, make: MakeBatch = with_pieces) -> Outcome:
    """Change of a text's normalised states in a padded batch: by LayerNorm and by BatchNorm."""
    model = request.model
    trace, texts = read(model, request.text)
    require(trace.network, f"{model.config.stacks[0]}.layers.0.self_attention_block.norm.output")
    paths = [path for path in trace.norm_paths() if path.startswith(f"{model.config.stacks[0]}.")]
    if not paths:
        return unanswered(say("this model shows no norms: choose another"))
    batch = make(model, texts)
    if batch is None:
        return too_short(4, texts)
    path, stack = paths[0], model.config.stacks[0]
    statistics = batch_statistics(batch.stacked(f"{path}.input"), batch.real[stack], trace[f"{path}.input"], 1e-5)
    layer, batched = statistics.layer_moves, statistics.batch_moves
    lengths = [int(row.sum()) for row in batch.real[stack]]
    reason = say(
        "beside texts of other lengths ({lengths} tokens) the normalised states of this one move by {layer} with "
        "LayerNorm and by {batch} with BatchNorm, relative to their size",
        lengths=", ".join(map(str, lengths)),
        layer=layer,
        batch=batched,
    )
    quantities = [
        Quantity(say("change beside other texts, LayerNorm"), (layer,)),
        Quantity(say("change beside other texts, BatchNorm"), (batched,)),
    ]
    rule = Rule([at_most(quantities[0], tolerance(model)), exceeds(quantities[1], MOVED)])
    channels = list(range(min(len(statistics.real_std), 64)))
    curves = [
        Curve(name, channels, values[: len(channels)].tolist())
        for name, values in (
            (say("real tokens only"), statistics.real_std),
            (say("padding counted in"), statistics.padded_std),
        )
    ]
    row = batch.rows[stack][0]
    places = list(range(min(len(row), 48)))
    of_layer = [Curve(say("this text"), places, statistics.layer_std[0, : len(places)].tolist(), style="bars")]
    figures = [
        Curves(say("BatchNorm: deviation of each channel over the batch"), say("channel"), say("deviation"), curves),
        Curves(
            say("LayerNorm: deviation of each position over its channels"),
            say("token"),
            say("deviation"),
            of_layer,
            ticks=row.labels[: len(places)],
        ),
    ]
    return Outcome(rule, reason, quantities, figures)


# The formula of pre-norm (row 27).

Sublayer = Callable[[Tensor], Tensor]
Block = Callable[[Tensor, Sublayer, Sublayer], Tensor]  # of x, the sublayer and the norm
DEPTH = 12


def tutorial_pre_norm(x: Tensor, sublayer: Sublayer, norm: Sublayer) -> Float[Tensor, "*batch d_model"]:
    """Sublayer(x) + LayerNorm(x), as the tutorial has it."""
    return sublayer(x) + norm(x)


def pre_norm(x: Tensor, sublayer: Sublayer, norm: Sublayer) -> Float[Tensor, "*batch d_model"]:
    """x + Sublayer(LayerNorm(x)) (Xiong et al., 2020)."""
    return x + sublayer(norm(x))


def torch_layer(width: int, seed: int) -> nn.TransformerEncoderLayer:
    """New encoder layer of torch's own, with pre-norm."""
    with seeded(seed, torch.device("cpu")):
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, norm_first=True, batch_first=True)
    return layer.double().eval()


@torch.inference_mode()
def block_error(block: Block, width: int, seed: int) -> float:
    """Relative distance of a layer whose two blocks are by this formula from torch's layer with the same weights."""
    layer = torch_layer(width, seed)
    x = torch.randn(2, 8, width, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)

    def attend(y: Tensor) -> Tensor:
        output: Tensor = layer.self_attn(y, y, y, need_weights=False)[0]
        return output

    middle = block(x, attend, layer.norm1)
    result = block(middle, lambda y: layer.linear2(F.relu(layer.linear1(y))), layer.norm2)
    expected = layer(x)
    return float((result - expected).norm() / expected.norm())


@torch.inference_mode()
def input_likeness(block: Block, width: int, seed: int) -> list[float]:
    """Cosine of the stream with its input after each of some blocks."""
    generator = torch.Generator().manual_seed(seed)
    first = x = torch.randn(64, width, generator=generator, dtype=torch.float64)
    cosines = []
    for _layer in range(DEPTH):
        weight = torch.randn(width, width, generator=generator, dtype=torch.float64) / width**0.5
        x = block(x, lambda y, weight=weight: torch.tanh(y @ weight), lambda y: F.layer_norm(y, (width,)))  # type: ignore[misc]
        cosines.append(float(torch.cosine_similarity(x, first, dim=-1).mean()))
    return cosines


def find_pre_norm(request: Request, block: Block = tutorial_pre_norm) -> Outcome:
    """The tutorial's formula and the right one, each as torch's encoder layer with the same weights."""
    width, seeds = 4 * int(request.values["quarter"]), request.seeds
    tutorial = [block_error(block, width, seed) for seed in seeds]
    right = [block_error(pre_norm, width, seed) for seed in seeds]
    reason = say(
        "as torch's layer with norm_first, Sublayer(x) + LayerNorm(x) gives outputs that are {said} away, relative to "
        "them, and x + Sublayer(LayerNorm(x)) {right}",
        said=fmean(tutorial),
        right=fmean(right),
    )
    quantities = [
        Quantity(say("relative difference from torch, Sublayer(x) + LayerNorm(x)"), tuple(tutorial)),
        Quantity(say("relative difference from torch, x + Sublayer(LayerNorm(x))"), tuple(right)),
    ]
    layers = list(range(1, DEPTH + 1))
    curves = [
        Curve(name, layers, input_likeness(way, width, seeds[0]))
        for name, way in (("Sublayer(x) + LayerNorm(x)", block), ("x + Sublayer(LayerNorm(x))", pre_norm))
    ]
    figure = Curves(say("What is left of the input in the stream"), say("block"), say("cosine with the input"), curves)
    return Outcome(Rule([at_most(quantities[0], ROUNDING)]), reason, quantities, [figure])


# Dropout (row 36).

ENTRIES = 256
SHARE_OFF, MEAN_OFF = 5.0, 2.0  # standard errors from which on a share, or the mean of all entries, is another one

Drop = Callable[..., Tensor]


def find_dropout(request: Request, drop: Drop = dropout) -> Outcome:
    """Share of the entries that are kept, and their mean and variance over many masks."""
    rate, masks = float(request.values["rate"]), int(request.values["masks"])
    by_seed: dict[int, tuple[Tensor, MaskStatistics]] = {}
    for seed in request.seeds:
        x = torch.randn(ENTRIES, generator=torch.Generator().manual_seed(seed))
        by_seed[seed] = x, over_masks(x, rate, masks, f"dropout {seed}", drop)
    shares = [each.share for _x, each in by_seed.values()]
    errors = [each.errors[-1] / expected_error(rate, masks) for _x, each in by_seed.values()]
    spreads = [
        float(each.variance.sum() / (exact(x).square() * rate / (1 - rate)).sum()) for x, each in by_seed.values()
    ]
    standard = (rate * (1 - rate) / (masks * ENTRIES)) ** 0.5
    off = Quantity(
        say("distance of the share from 1 − p, in standard errors"),
        tuple(abs(share - (1 - rate)) / standard for share in shares),
    )
    decides = MEAN_OFF * expected_error(rate, masks) < rate  # without the division, the mean would be off by the rate
    reason = say(
        "with rate {rate}, {kept} of the units are kept over {masks} masks; their mean is {error} standard errors away "
        "from x, and their variance {variance} times x² p / (1 − p)",
        rate=rate,
        kept=fmean(shares),
        masks=masks,
        error=fmean(errors),
        variance=fmean(spreads),
    )
    quantities = [
        Quantity(say("share of the units that are kept"), tuple(shares)),
        Quantity(say("distance of the mean from x, in standard errors"), tuple(errors)),
        Quantity(say("variance, in times of x² p / (1 − p)"), tuple(spreads)),
    ]
    mean = at_most(quantities[1], MEAN_OFF)
    rule = Rule([at_most(off, SHARE_OFF), mean if decides else replace(mean, met=None if mean.met else False)])
    _x, first = by_seed[request.seeds[0]]
    expected = [expected_error(rate, count) for count in first.counts]
    curves = [
        Curve(say("measured"), first.counts, first.errors),
        Curve("√(p / ((1 − p) N))", first.counts, expected, dash=True),
    ]
    paper = TransformerConfig(source_vocabulary=1, target_vocabulary=1)
    names: Mapping[str, str] = {
        "embedding": say("tokens + positions"),
        "weights": say("attention weights"),
        "block": say("output of each sublayer, before it is added"),
        "units": say("units of the feed-forward network"),
    }
    figures: list[Figure] = [
        Curves(
            say("Distance of the mean over N masks from x"),
            say("masks N"),
            "‖mean − x‖ / ‖x‖",
            curves,
            log_x=True,
            log_y=True,
        ),
        Table(
            say("Where dropout sits in the paper's base size"),
            (say("place"), say("rate")),
            [(names[place], each) for place, each in sites(paper).items()],
        ),
    ]
    return Outcome(rule, reason, quantities, figures)


EXPERIMENTS = (
    Experiment(
        name="layer-norm",
        row=25,
        group=Group.NORMS,
        statement=say("LayerNorm is (x − μ) / (σ + ε), where σ is the sample deviation, which divides by n − 1."),
        truth=say(
            "PyTorch's is (x − μ) / √(σ² + ε) with the variance over n (Ba et al., 2016). n − 1 makes every output "
            "smaller by about 1/2n, and ε beside σ shrinks small inputs much less than ε beside σ²."
        ),
        run=at_once(find_layer_norm),
        parameters=(Parameter("d_model", "d_model", 512, 2, 4096), Parameter("eps", "log₁₀ ε", -5, -12, 0)),
        seeded=True,
        formulas=(
            r"\text{torch: } \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}, \quad "
            r"\sigma^2 = \frac1n \sum_i (x_i - \mu)^2",
            r"\text{tutorial: } \frac{x - \mu}{s + \varepsilon}, \quad s^2 = \frac{1}{n - 1} \sum_i (x_i - \mu)^2",
        ),
        code=(forms, form_error),
        source="Ba et al., 2016, section 3",
    ),
    Experiment(
        name="batch-norm",
        row=26,
        group=Group.NORMS,
        statement=say(
            "LayerNorm works on each position over its features; BatchNorm suffers where texts differ in length."
        ),
        truth=say(
            "BatchNorm takes mean and deviation of each channel over all positions of all texts, padding too if nobody "
            "leaves it out: what stands beside a text changes it. LayerNorm knows a single position."
        ),
        run=at_once(find_batch_norm),
        of_model=True,
        seconds=0.5,
        formulas=(
            r"\text{LayerNorm: } \mu_t = \frac{1}{d} \sum_i x_{t,i}, \qquad "
            r"\text{BatchNorm: } \mu_i = \frac{1}{B L} \sum_{b,t} x_{b,t,i}",
        ),
        code=(batch_statistics,),
        source="Ba et al., 2016, section 3",
    ),
    Experiment(
        name="pre-norm-formula",
        row=27,
        group=Group.NORMS,
        statement=say("Pre-norm is Sublayer(x) + LayerNorm(x)."),
        truth=say(
            "It is x + Sublayer(LayerNorm(x)): the norm stands before the sublayer, and the stream x goes on as it is. "
            "In the other form the stream itself is normalised each time, and nothing passes by untouched."
        ),
        run=at_once(find_pre_norm),
        parameters=(Parameter("quarter", say("channels of each of 4 heads"), 16, 1, 128),),
        seeded=True,
        formulas=(
            r"\text{right: } x + \mathrm{Sublayer}(\mathrm{LayerNorm}(x)), \qquad "
            r"\text{wrong: } \mathrm{Sublayer}(x) + \mathrm{LayerNorm}(x)",
        ),
        code=(pre_norm, tutorial_pre_norm, PreNorm),
        source="Xiong et al., 2020, section 3",
    ),
    Experiment(
        name="dropout",
        row=36,
        group=Group.NORMS,
        statement=say("Dropout of 0.1 keeps 0.9 of the units and divides them by 0.9."),
        truth=say(
            "Each unit is kept by chance, 0.9 of them on average; dividing by 0.9 makes the mean over the masks x, and "
            "leaves a variance of x² · 0.1/0.9. When the model is not trained, nothing is dropped and nothing divided."
        ),
        run=at_once(find_dropout),
        parameters=(
            Parameter("rate", say("rate p"), 0.1, 0.01, 0.99),
            Parameter("masks", say("masks"), 10000, 10, 100000),
        ),
        seeded=True,
        seconds=0.5,
        formulas=(
            r"y_i = \frac{m_i x_i}{1 - p}, \quad m_i \in \{0, 1\},\ P(m_i = 1) = 1 - p",
            r"\mathrm{E}[y_i] = x_i, \qquad \mathrm{Var}[y_i] = \frac{p}{1 - p}\, x_i^2",
        ),
        code=(dropout, over_masks),
        source="Srivastava et al., 2014; Vaswani et al., 2017, section 5.4",
    ),
)
