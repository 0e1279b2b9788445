"""Position codes and what they are added to: sines and cosines (rows 4 to 8), a misread formula (10), the size of the
embeddings (11, 12), order without positions (13).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.analysis.masking import self_attention, without_causal_mask
from model.analysis.positions import (
    Table as CodeTable,
)
from model.analysis.positions import (
    best_shift,
    length_difference,
    likeness,
    likeness_error,
    misread,
    misread_wavelengths,
    order_difference,
    pair_error,
    reversed_order,
    rotation,
    shift_residual,
    token_states,
    wavelengths,
)
from model.capture.interventions import Intervention, Window, intervening
from model.experiments.engines.trace_inputs import tolerance, unanswered
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Grid,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    at_once,
)
from model.experiments.rule import Condition, Quantity, Rule, Verdict, at_most, each_of, exceeds
from model.inference.copies import vary
from model.inference.text_model import TextModel
from model.message import Message, say
from model.network.config import TransformerConfig
from model.network.layers import TokenEmbedding
from model.network.positions import sinusoidal
from model.runtime.random import seeded

ROUNDING = 1e-9  # of codes in float64
SHOWN = 16  # channels and positions of a matrix that is drawn

LENGTH = Parameter("length", say("positions"), 128, 8, 1024)
PAIRS = Parameter("pairs", say("channel pairs, d_model/2"), 32, 2, 512)
WIDE = Parameter("pairs", say("channel pairs, d_model/2"), 256, 2, 512)
BASE = Parameter("base", say("base"), 10000.0, 1.5, 1e9)


def table_of(request: Request, code: CodeTable = sinusoidal) -> Float[Tensor, "length d_model"]:
    """Codes of the size that is asked for."""
    values = request.values
    return code(int(values["length"]), 2 * int(values["pairs"]), float(values["base"]))


def whole(number: float) -> int | float:
    """Number without a fraction where it has none, or is so large that none is of interest."""
    return round(number) if number >= 1000 or number.is_integer() else number


def measured_wavelengths(table: Float[Tensor, "length d_model"]) -> Float[Tensor, " pair"]:
    """Wavelength of each pair, in positions, by the angle that it turns from position 0 to 1."""
    angle = torch.atan2(table[:2, ::2], table[:2, 1::2])
    return 2 * math.pi / (angle[1] - angle[0]).abs()


def nearest_codes(table: Float[Tensor, "length d_model"]) -> float:
    """Smallest distance between the codes of two positions."""
    return float(torch.nn.functional.pdist(table).min())


def grid(title: Message, table: Float[Tensor, "length d_model"]) -> Grid:
    """First channels of the first positions."""
    values = table[: 2 * SHOWN, :SHOWN]
    rows, columns = ([str(number) for number in range(size)] for size in values.shape)
    return Grid(title, values.tolist(), rows, columns, say("position"), say("channel"))


# Sines and cosines (row 4).


def find_sinusoid(request: Request, code: CodeTable = sinusoidal) -> Outcome:
    """Wavelengths of the pairs beside those of the paper, and the distance of the two codes that are most alike."""
    table = table_of(request, code)
    expected = wavelengths(table.shape[1], float(request.values["base"]))[::2]
    lengths = measured_wavelengths(table)
    error = float((lengths / expected - 1).abs().max())
    nearest, turned = nearest_codes(table), pair_error(table)
    reason = say(
        "the pairs turn once in {shortest} to {longest} positions, {error} from the formula at most; the two codes "
        "that are most alike are {nearest} apart, of a length of {norm}",
        shortest=float(lengths[0]),
        longest=whole(float(lengths[-1])),
        error=error,
        nearest=nearest,
        norm=float(table[0].norm()),
    )
    quantities = [
        Quantity(say("largest relative error of a wavelength"), (error,)),
        Quantity(say("smallest distance of two codes"), (nearest,)),
        Quantity(say("largest |sin² + cos² − 1| of a pair"), (turned,)),
    ]
    of_wavelength, of_codes, of_pairs = quantities
    needs = [at_most(of_wavelength, 1e-6), exceeds(of_codes, ROUNDING), at_most(of_pairs, ROUNDING)]
    pairs = sorted({0, len(lengths) // 4, len(lengths) // 2, len(lengths) - 1})
    places = list(range(len(table)))
    curves = [Curve(say("channel {channel}", channel=2 * pair), places, table[:, 2 * pair].tolist()) for pair in pairs]
    figures: list[Figure] = [
        Curves(say("Codes over the positions"), say("position"), say("value"), curves),
        grid(say("Codes of the first positions"), table),
    ]
    return Outcome(Rule(needs), reason, quantities, figures)


# One position in tables of several lengths (row 5).


def stretched(length: int, d_model: int, base: float) -> Float[Tensor, "length d_model"]:
    """Codes of pos / length × 100 in the place of pos: a position as a share of the longest input."""
    share = torch.arange(length, dtype=torch.float64)[:, None] * (100 / length)
    angle = share * (2 * math.pi / wavelengths(d_model, base)[::2])
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def find_same_code(request: Request, code: CodeTable = sinusoidal) -> Outcome:
    """Difference of one position's code between tables of several lengths."""
    place, d_model, base = int(request.values["place"]), 2 * int(request.values["pairs"]), float(request.values["base"])
    lengths = [place + 1, 2 * (place + 1), 10 * (place + 1)]
    error = length_difference(place, lengths, d_model, base, code)
    other = length_difference(place, lengths, d_model, base, stretched)
    reason = say(
        "the codes of position {place} in tables of {short} to {long} positions differ by at most {error}; were the "
        "position counted as a share of the length, it would be {other}",
        place=place,
        short=lengths[0],
        long=lengths[-1],
        error=error,
        other=other,
    )
    quantities = [
        Quantity(say("largest difference between the tables"), (error,)),
        Quantity(say("the same, of shares of the length"), (other,)),
    ]
    channels = list(range(d_model))
    curves = [
        Curve(
            say("{length} positions", length=length), channels, code(length, d_model, base)[place].tolist(), dash=dash
        )
        for length, dash in zip(lengths, (False, True, True), strict=True)
    ]
    figure = Curves(say("Code of position {place}", place=place), say("channel"), say("value"), curves)
    return Outcome(Rule([at_most(quantities[0], ROUNDING)]), reason, quantities, [figure])


# The base of the wavelengths (row 6).


def find_base(request: Request, code: CodeTable = sinusoidal) -> Outcome:
    """Wavelengths of a smaller base beside those of 10000."""
    d_model, smaller = 2 * int(request.values["pairs"]), float(request.values["base"])
    bases = [10000.0, smaller]
    by_base = [measured_wavelengths(code(2, d_model, base)) for base in bases]
    ratio = by_base[1] / by_base[0]
    shorter, longer = int((ratio < 1 - 1e-6).sum()), int((ratio > 1 + 1e-6).sum())
    rule = Rule(
        needs=[exceeds(Quantity(say("wavelengths that are shorter"), (float(shorter),)), 0.0)],
        wants=[at_most(Quantity(say("wavelengths that are longer"), (float(longer),)), 0.0)],
    )
    reason = say(
        "with base {smaller}, {shorter} of {all} wavelengths are shorter than with 10,000 and {longer} are longer: "
        "the last is {last} in the place of {before} positions, the first stays {first}",
        smaller=whole(smaller),
        shorter=shorter,
        longer=longer,
        all=len(ratio),
        last=whole(float(by_base[1][-1])),
        before=whole(float(by_base[0][-1])),
        first=float(by_base[1][0]),
    )
    channels = list(range(0, d_model, 2))
    curves = [
        Curve(say("base {base}", base=whole(base)), channels, values.tolist())
        for base, values in zip(bases, by_base, strict=True)
    ]
    figure = Curves(say("Wavelength of each pair"), say("channel"), say("wavelength, positions"), curves, log_y=True)
    quantities = [
        Quantity(say("longest wavelength in positions, base {base}", base=whole(base)), (float(values[-1]),))
        for base, values in zip(bases, by_base, strict=True)
    ]
    return Outcome(rule, reason, quantities, [figure])


# Fast and slow channels (row 7).


def find_speed(request: Request, code: CodeTable = sinusoidal) -> Outcome:
    """Mean change of each pair from one position to the next."""
    table = table_of(request, code)
    change = table.diff(dim=0).unflatten(1, (-1, 2)).norm(dim=-1).mean(dim=0)
    slower = int((change.diff() < 0).sum())
    falling = Condition(say("each pair changes less than the pair before it"), slower == len(change) - 1)
    reason = say(
        "{slower} of {all} pairs change less from one position to the next than the pair before them: the first by "
        "{first}, the last by {last}",
        slower=slower,
        all=len(change) - 1,
        first=float(change[0]),
        last=float(change[-1]),
    )
    channels = list(range(0, table.shape[1], 2))
    waves = measured_wavelengths(table)
    chosen = sorted({round(share * (len(waves) - 1)) for share in (0, 0.25, 0.5, 0.75, 1)})
    rows = [(2 * pair, float(waves[pair]), float(change[pair])) for pair in chosen]
    figures: list[Figure] = [
        Curves(
            say("Change from one position to the next"),
            say("channel"),
            say("‖PE(p + 1) − PE(p)‖ of the pair"),
            [Curve(say("mean over the positions"), channels, change.tolist())],
            log_y=True,
        ),
        Table(say("Pairs"), (say("channel"), say("wavelength, positions"), say("change")), rows),
    ]
    quantities = [
        Quantity(say("change of the first pair"), (float(change[0]),)),
        Quantity(say("change of the last pair"), (float(change[-1]),)),
    ]
    return Outcome(Rule([falling]), reason, quantities, figures)


# The rotation that moves codes (row 8).


def find_rotation(request: Request, code: CodeTable = sinusoidal) -> Outcome:
    """Residual of R_k PE(p) = PE(p + k), by the rotation and by the best matrix, and PE(p) · PE(q) over q − p."""
    table, k = table_of(request, code), int(request.values["k"])
    length, d_model = table.shape
    if k >= length:
        return unanswered(say("k ({k}) must be below the number of positions ({length})", k=k, length=length))
    turn = rotation(k, d_model, float(request.values["base"]))
    by_rotation, by_best = (float(shift_residual(table, matrix, k).max()) for matrix in (turn, best_shift(table, k)))
    places = sorted({0, length // 4, length // 2})
    unlike = likeness_error(table, places)
    residual = min(by_rotation, by_best)
    reason = say(
        "one matrix moves every code by k = {k} with a residual of at most {residual}, of codes of length {norm}; "
        "PE(p) · PE(q) at one distance q − p differs by at most {unlike} between the places p",
        k=k,
        residual=residual,
        norm=float(table[0].norm()),
        unlike=unlike,
    )
    quantities = [
        Quantity(say("residual of the rotation R_k"), (by_rotation,)),
        Quantity(say("residual of the best matrix for this table, pair by pair"), (by_best,)),
        Quantity(say("difference of PE(p) · PE(q) at one distance"), (unlike,)),
    ]
    of_rotation, of_best, of_places = (at_most(each, 1e-6) for each in quantities)
    wrong = misread(length, d_model, float(request.values["base"]))
    quantities.append(
        Quantity(
            say("residual of the best matrix for the misread formula"),
            (float(shift_residual(wrong, best_shift(wrong, k), k).max()),),
        )
    )
    size = min(8, d_model)
    names = [str(channel) for channel in range(size)]
    curves = [
        Curve(say("p = {place}", place=place), [q - place for q in range(length)], likeness(table, place).tolist())
        for place in places
    ]
    figures: list[Figure] = [
        Curves(say("Likeness of two codes"), "q − p", "PE(p) · PE(q)", curves),
        Grid(say("First channels of R_k"), turn[:size, :size].tolist(), names, names, say("channel"), say("channel")),
    ]
    return Outcome(Rule([of_rotation | of_best, of_places]), reason, quantities, figures)


# A formula that is misread (row 10).


def find_misread(request: Request, code: CodeTable = misread) -> Outcome:
    """Codes of the tutorial's loop beside those of the paper."""
    right, wrong = table_of(request), table_of(request, code)
    apart, split = float((right - wrong).abs().max()), pair_error(wrong)
    base = float(request.values["base"])
    waves = [wavelengths(right.shape[1], base), misread_wavelengths(right.shape[1], base)]
    longest = [float(values.max()) for values in waves]
    reason = say(
        "the codes differ by up to {apart}; the longest wavelength is {wrong} in the place of {right} positions, and "
        "sin² + cos² of a pair is up to {split} away from 1",
        apart=apart,
        wrong=whole(longest[1]),
        right=whole(longest[0]),
        split=split,
    )
    quantities = [
        Quantity(say("largest difference of the codes"), (apart,)),
        Quantity(say("largest |sin² + cos² − 1|, the paper"), (pair_error(right),)),
        Quantity(say("largest |sin² + cos² − 1|, the loop"), (split,)),
        Quantity(say("longest wavelength in positions, the paper"), (longest[0],)),
        Quantity(say("longest wavelength in positions, the loop"), (longest[1],)),
    ]
    channels = list(range(right.shape[1]))
    named = ((say("the paper"), waves[0]), (say("the loop"), waves[1]))
    figures: list[Figure] = [
        Curves(
            say("Wavelength of each channel"),
            say("channel"),
            say("wavelength, positions"),
            [Curve(name, channels, values.tolist(), dash=name is named[1][0]) for name, values in named],
            log_y=True,
        ),
        grid(say("Codes of the paper"), right),
        grid(say("Codes of the loop"), wrong),
    ]
    return Outcome(Rule([at_most(quantities[0], ROUNDING)]), reason, quantities, figures)


# Size of the embeddings beside the positions (rows 11 and 12).

Embed = Callable[[nn.Embedding, Tensor], Tensor]  # from an embedding and ids to what the network reads
VOCABULARY = 1000
SPREADS: dict[str, Callable[[int], float]] = {"1/√d_model": lambda d_model: d_model**-0.5, "1": lambda _d_model: 1.0}


def drawn_embedding(d_model: int, spread: float, seed: int) -> TokenEmbedding:
    """New embedding of 1,000 tokens of the network's own class, its numbers from N(0, spread²)."""
    config = TransformerConfig.one_stack("encoder-only", VOCABULARY, 1, d_model=d_model, n_heads=1)
    with seeded(seed, torch.device("cpu")), torch.no_grad():
        embedding = TokenEmbedding(VOCABULARY, config)
        embedding.weight.normal_(std=spread)
    return embedding


def mean_norm(rows: Float[Tensor, "row d_model"]) -> float:
    """Mean length of the rows."""
    return float(rows.detach().norm(dim=-1).mean())


def times_root(embedding: nn.Embedding, ids: Tensor) -> Float[Tensor, "token d_model"]:
    """Rows as the network reads them: √d_model times as large (section 3.4)."""
    rows: Tensor = embedding(ids[None])[0]
    return rows


def as_they_are(embedding: nn.Embedding, ids: Tensor) -> Float[Tensor, "token d_model"]:
    """Rows of the embedding's matrix."""
    return embedding.weight[ids]


def divided_by_root(embedding: nn.Embedding, ids: Tensor) -> Float[Tensor, "token d_model"]:
    """Rows divided by √d_model."""
    return embedding.weight[ids] / embedding.weight.shape[-1] ** 0.5


def find_embedding_scale(
    request: Request, spreads: Sequence[str] = tuple(SPREADS), embed: Embed = times_root
) -> Outcome:
    """Norms of tokens and positions, for embeddings drawn small or large, with the factor √d_model and without it."""
    d_model = 2 * int(request.values["pairs"])
    position = mean_norm(sinusoidal(128, d_model))
    ids = torch.arange(VOCABULARY)
    rows, quantities, needed, parts = [], [], [], []
    for name in spreads:
        without, scaled = [], []
        for seed in request.seeds:
            embedding = drawn_embedding(d_model, SPREADS[name](d_model), seed)
            without.append(mean_norm(as_they_are(embedding, ids)) / position)
            scaled.append(mean_norm(embed(embedding, ids)) / position)
        cases = []
        for factor, ratios in ((say("without the factor"), without), (say("with √d_model"), scaled)):
            ratio, label = fmean(ratios), say("deviation {spread}, {factor}", spread=name, factor=factor)
            rows.append((label, ratio * position, position, ratio))
            cases.append(Quantity(say("‖token‖ / ‖position‖, {where}", where=label), tuple(ratios)))
        quantities += cases
        needed.append(at_most(cases[0], 1.0) & exceeds(cases[1], 1.0))
        parts.append(
            say(
                "with the deviation {spread} a token is {without} times as long as a position, {scaled} times with "
                "√d_model",
                spread=name,
                without=fmean(without),
                scaled=fmean(scaled),
            )
        )
    rule = each_of(needed, say("a token is shorter than a position without the factor, and as long with it"))
    reason = reduce(lambda first, second: say("{first}, and {second}", first=first, second=second), parts)
    columns = (say("embedding"), say("norm of a token"), say("norm of a position"), say("ratio"))
    return Outcome(rule, reason, quantities, [Table(say("Norms"), columns, rows)])


def find_embedding_division(request: Request, embed: Embed = times_root) -> Outcome:
    """Factor by which the network's embedding multiplies its rows, and norms with the other factor."""
    d_model = 2 * int(request.values["pairs"])
    root, position = d_model**0.5, mean_norm(sinusoidal(128, d_model))
    ids = torch.arange(VOCABULARY)
    factors, own, divided = [], [], []
    for seed in request.seeds:
        embedding = drawn_embedding(d_model, d_model**-0.5, seed)
        norm = mean_norm(embed(embedding, ids))
        factors.append(norm / mean_norm(as_they_are(embedding, ids)))
        own.append(norm / position)
        divided.append(mean_norm(divided_by_root(embedding, ids)) / position)
    factor = fmean(factors)
    reason = say(
        "the network makes its rows {factor} times as large, and √d_model is {root}: tokens are then {ratio} times as "
        "long as positions, and divided by √d_model they would be {divided} times",
        factor=factor,
        root=root,
        ratio=fmean(own),
        divided=fmean(divided),
    )
    ways = ((say("as the network has it"), own), (say("divided by √d_model"), divided))
    quantities = [
        Quantity(say("factor of the network's embedding"), tuple(factors)),
        *(Quantity(say("‖token‖ / ‖position‖, {where}", where=name), tuple(ratios)) for name, ratios in ways),
    ]
    rows = [(name, fmean(ratios) * position, position, fmean(ratios)) for name, ratios in ways]
    columns = (say("embedding"), say("norm of a token"), say("norm of a position"), say("ratio"))
    off = Quantity(say("difference of the factor times √d_model from 1"), (abs(factor * root - 1),))
    return Outcome(Rule([at_most(off, 1e-3)]), reason, quantities, [Table(say("Norms"), columns, rows)])


# Order without positions (row 13).


def without_positions(model: TextModel) -> TextModel:
    """The model with its weights and no positions."""
    return vary(model, position="none")


def find_order(request: Request, remove: Callable[[TextModel], TextModel] = without_positions) -> Outcome:
    """Difference of the states of a text and of the same text backwards, with positions and without them."""
    model = request.model
    if model.config.position == "none":
        return unanswered(say("this model has no positions: choose one that has"))
    if not model.network.ours:
        return unanswered(
            say(
                "transformers runs this model by code of its own, whose positions cannot be taken away: choose a model "
                "of ours, or of a family that is rebuilt as ours"
            )
        )
    tokens = model.source_tokens(request.text)
    order = reversed_order([label in model.special_labels for label in tokens.labels])
    if [tokens.ids[place] for place in order] == tokens.ids:
        return unanswered(say("the text is the same backwards: type one of two different words at least"))
    bare = remove(model)
    free = order_masks(bare)
    cases: list[tuple[Message, TextModel, list[Intervention]]]
    cases = [(say("with positions"), model, []), (say("without positions"), bare, [])]
    if free:
        cases.append((say("without positions and without masks of order"), bare, free))
    differences = []
    for _name, each, changes in cases:
        with intervening(each.network, changes):
            size = token_states(each.network, tokens.ids).float().abs().max()
            differences.append(order_difference(each.network, tokens.ids, order) / size)
    largest = [float(each.max()) for each in differences]
    quantities = [
        Quantity(say("largest difference of a state, {case}", case=name), (each,))
        for (name, _model, _changes), each in zip(cases, largest, strict=True)
    ]
    placed, bare_alone, *unmasked = (at_most(each, tolerance(model)) for each in quantities)
    rule = Rule([~placed, reduce(or_, unmasked, bare_alone)], wants=[bare_alone])
    reason = say(
        "the states of the text backwards differ by up to {on} of the largest number with positions, and by {off} "
        "without: {end}",
        on=largest[0],
        off=largest[1],
        end=order_end(rule.verdict, largest[-1]),
    )
    labels = [tokens.labels[place] for place in order]
    places = list(range(len(labels)))
    curves = [
        Curve(name, places, each.tolist(), style="bars")
        for (name, _model, _changes), each in zip(cases, differences, strict=True)
    ]
    figure = Curves(
        say("Difference of each token's state when the text is turned round"),
        say("token"),
        say("largest difference, of the largest number"),
        curves,
        ticks=labels,
    )
    return Outcome(rule, reason, quantities, [figure])


def order_masks(model: TextModel) -> list[Intervention]:
    """Changes that take away what else tells a model the order: its causal mask, its window."""
    kind = "encoder" if model.kind == "encoder-decoder" else self_attention(model.network)
    changes = without_causal_mask(model.network) if model.kind == "decoder-only" else []
    return [*changes, *([Window(kind, None)] if model.config.windowed else [])]


def order_end(verdict: Verdict, without_masks: float) -> Message:
    """Meaning of the differences."""
    if verdict is Verdict.IN_PART:
        return say("its mask tells the order too; without it they differ by {difference}", difference=without_masks)
    if verdict is Verdict.HOLDS:
        return say("the outputs are the same set in another order")
    return say("that is not what the statement says of them")


EXPERIMENTS = (
    Experiment(
        name="sinusoid",
        row=4,
        group=Group.POSITIONS,
        statement=say("Sines and cosines of wavelengths from 2π to 10000 · 2π give each position a code of its own."),
        truth=say(
            "Channels 2i and 2i + 1 are a sine and a cosine of one wavelength, 2π · base^(2i/d_model). The longest is "
            "a little below base · 2π, since i ends at d_model/2 − 1."
        ),
        run=at_once(find_sinusoid),
        parameters=(LENGTH, PAIRS, BASE),
        formulas=(
            r"PE_{(pos, 2i)} = \sin\left(pos / base^{2i/d_{model}}\right), \quad "
            r"PE_{(pos, 2i+1)} = \cos\left(pos / base^{2i/d_{model}}\right)",
        ),
        code=(sinusoidal, measured_wavelengths),
        source="Vaswani et al., 2017, section 3.5",
    ),
    Experiment(
        name="position-50",
        row=5,
        group=Group.POSITIONS,
        statement=say("The code of position 50 is the same, however long the longest input may be."),
        truth=say(
            "The formula knows the position alone and no length. It would be otherwise if a position were counted as a "
            "share of the length."
        ),
        run=at_once(find_same_code),
        parameters=(Parameter("place", say("position"), 50, 1, 400), PAIRS, BASE),
        formulas=(r"PE_{(pos, 2i)} = \sin\left(pos / base^{2i/d_{model}}\right)",),
        code=(sinusoidal, length_difference, stretched),
        source="Vaswani et al., 2017, section 3.5",
    ),
    Experiment(
        name="base-1000",
        row=6,
        group=Group.POSITIONS,
        statement=say("A base of 1000 in the place of 10000 makes the wavelengths shorter."),
        truth=say("All but the first: pair i becomes shorter by (10000/base)^(2i/d_model), which is 1 for i = 0."),
        run=at_once(find_base),
        parameters=(PAIRS, Parameter("base", say("base"), 1000.0, 1.5, 9999.0)),
        formulas=(r"\lambda_i = 2\pi \cdot base^{2i/d_{model}}",),
        code=(sinusoidal, measured_wavelengths),
        source="Vaswani et al., 2017, section 3.5",
    ),
    Experiment(
        name="fast-and-slow",
        row=7,
        group=Group.POSITIONS,
        statement=say("Low channels of the code change fast from position to position, high ones slowly."),
        truth=say(
            "Each pair turns by 1/base^(2i/d_model) radians a position, less than the pair before it. That is the "
            "order of the paper: some code puts all sines first and then all cosines."
        ),
        run=at_once(find_speed),
        parameters=(LENGTH, PAIRS, BASE),
        formulas=(r"\lVert PE^{(i)}_{p+1} - PE^{(i)}_p \rVert = 2 \sin\left(\tfrac12\, base^{-2i/d_{model}}\right)",),
        code=(sinusoidal, measured_wavelengths),
        source="Vaswani et al., 2017, section 3.5",
    ),
    Experiment(
        name="rotation",
        row=8,
        group=Group.POSITIONS,
        statement=say("PE(pos + k) is a linear function of PE(pos)."),
        truth=say(
            "One matrix R_k moves all positions by k: it turns each pair by k/base^(2i/d_model). PE(p) · PE(q) "
            "therefore depends on q − p alone."
        ),
        run=at_once(find_rotation),
        parameters=(Parameter("k", "k", 5, 0, 4096), LENGTH, PAIRS, BASE),
        formulas=(
            r"PE_{p+k} = R_k\, PE_p, \quad R_k^{(i)} = \begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ "
            r"-\sin k\omega_i & \cos k\omega_i \end{pmatrix}, \quad \omega_i = base^{-2i/d_{model}}",
            r"PE_p \cdot PE_q = \sum_i \cos\left(\omega_i (q - p)\right)",
        ),
        code=(rotation, shift_residual, best_shift, likeness_error),
        source="Vaswani et al., 2017, section 3.5",
    ),
    Experiment(
        name="wrong-sinusoid",
        row=10,
        group=Group.POSITIONS,
        statement=say(
            "A loop over i = 0, 2, 4, … that takes the exponent (2 · i)/d_model for the sine and 2 · (i + 1)/d_model "
            "for the cosine computes the codes of the paper."
        ),
        truth=say(
            "There i already counts in twos: the exponent is i/d_model, for the sine and the cosine alike. The loop's "
            "wavelengths grow to nearly base² · 2π, and sine and cosine of a pair are of two wavelengths."
        ),
        run=at_once(find_misread),
        parameters=(LENGTH, PAIRS, BASE),
        formulas=(
            r"\text{paper: } \sin\frac{pos}{base^{2i/d}} \text{ on channel } 2i,\ "
            r"\cos\frac{pos}{base^{2i/d}} \text{ on channel } 2i + 1",
            r"\text{loop: } \sin\frac{pos}{base^{2c/d}} \text{ on channel } c \text{ (even)},\ "
            r"\cos\frac{pos}{base^{2c/d}} \text{ on channel } c \text{ (odd)}",
        ),
        code=(sinusoidal, misread, pair_error),
        source="Vaswani et al., 2017, section 3.5",
    ),
    Experiment(
        name="embedding-scale",
        row=11,
        group=Group.POSITIONS,
        statement=say("Embeddings are multiplied by √d_model, so that the positions do not drown them."),
        truth=say(
            "A position's code has the norm √(d_model/2). Rows drawn with the deviation 1/√d_model, as a matrix that "
            "the output shares needs them, have the norm 1 and would drown; rows drawn from N(0, 1) have the norm "
            "√d_model and do not need the factor."
        ),
        run=at_once(find_embedding_scale),
        parameters=(WIDE,),
        seeded=True,
        formulas=(
            r"\lVert PE_p \rVert = \sqrt{d_{model}/2}, \qquad E_{ij} \sim N(0, 1/d_{model}) \;\Rightarrow\; "
            r"\lVert E_i \rVert \approx 1,\ \lVert \sqrt{d_{model}}\, E_i \rVert \approx \sqrt{d_{model}}",
        ),
        code=(TokenEmbedding, drawn_embedding, find_embedding_scale),
        source="Vaswani et al., 2017, section 3.4",
    ),
    Experiment(
        name="embedding-division",
        row=12,
        group=Group.POSITIONS,
        statement=say("The weights of the embedding are divided by √d_model."),
        truth=say(
            "The paper multiplies them. Divided, tokens would be d_model times as short as they are now, and hardly "
            "anything of them would be left beside the positions."
        ),
        run=at_once(find_embedding_division),
        parameters=(WIDE,),
        seeded=True,
        formulas=(r"x = \sqrt{d_{model}}\, E_{token} + PE_{pos}", r"x' = E_{token} / \sqrt{d_{model}} + PE_{pos}"),
        code=(TokenEmbedding, divided_by_root),
        source="Vaswani et al., 2017, section 3.4",
    ),
    Experiment(
        name="order",
        row=13,
        group=Group.POSITIONS,
        statement=say(
            "Without positions a text and the same text in another order are the same set to the network; with them "
            "they are not."
        ),
        truth=say(
            "Of an encoder: its outputs are then a permutation of each other. A causal mask tells the order too, since "
            "each token sees other neighbours: a decoder without positions still knows it in part."
        ),
        run=at_once(find_order),
        of_model=True,
        seconds=0.5,
        formulas=(r"f(x)_{\pi(i)} = f(x_\pi)_i \text{ for all } i",),
        code=(order_difference, reversed_order, without_positions),
        source="Vaswani et al., 2017, section 3.5",
    ),
)
