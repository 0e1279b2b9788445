"""Masks: where they stand (rows 16, 18), what stands for −∞ (17), what they keep out (19, 20), their shapes (50)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from model.analysis.masking import (
    DTYPES,
    Batch,
    fills,
    future_change,
    orders,
    self_attention,
    without_causal_mask,
    without_padding_masks,
)
from model.analysis.norms import pieces
from model.capture.interventions import Causal, Intervention
from model.capture.trace import AttentionKind, Trace
from model.experiments.engines.trace_inputs import (
    MOST,
    another,
    ids_of,
    kind_name,
    read,
    recurrent,
    tolerance,
    too_short,
)
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
from model.experiments.rule import Condition, Quantity, Rule, at_most, every, exceeds
from model.inference.text_model import TextModel
from model.message import Message, say
from model.network.attention import Masked, Weights
from model.network.masks import Mask
from model.text.tokenizer import Tokens

KEYS = Parameter("keys", say("keys n"), 8, 2, 48)
CHANNELS = 4

Hide = Callable[[int], Tensor]  # from a length to what is visible (query, key)


def causal(length: int) -> Bool[Tensor, "query key"]:
    """Cells that a causal mask leaves visible."""
    return Mask(causal=True).visible(length, length, torch.device("cpu"))[0, 0]


def numbered(length: int) -> list[str]:
    """Names of positions, from 0."""
    return [str(place) for place in range(length)]


def plain(number: float) -> str | float:
    """Number of a table, with ∞ and NaN by their signs."""
    if math.isnan(number):
        return "NaN"
    return {math.inf: "∞", -math.inf: "−∞"}.get(number, number)


# A mask after softmax (row 16).


def find_order(request: Request, hide: Hide = causal) -> Outcome:
    """One head with random scores: the mask before softmax, −∞ after it, and zeros after it."""
    length = int(request.values["keys"])
    visible = hide(length)
    errors, broken, sums = [], [], []
    for seed in request.seeds:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(length, length, generator=generator, dtype=torch.float64)
        value = torch.randn(length, CHANNELS, generator=generator, dtype=torch.float64)
        results = orders(scores, visible, value)
        before, after, zeroed = results
        broken.append(float((~after.output.isfinite()).double().mean()))
        errors.append(float((after.output - before.output).nan_to_num(nan=math.inf).abs().max()))
        sums.append(float(zeroed.sums.min()))
    rule = Rule([at_most(Quantity(say("largest difference from the right output"), tuple(errors)), 1e-6)])
    reason = say(
        "with −∞ put in after softmax {broken} %\xa0of the numbers of the output are infinite or NaN; with zeros put "
        "in there a row adds up to {sum} at the least, whatever the seed, and with the mask before softmax to {right}",
        broken=100 * sum(broken) / len(broken),
        sum=min(sums),
        right=float(before.sums.min()),
    )
    quantities = [
        Quantity(
            say("numbers of the output that are not finite, −∞ after softmax"), tuple(100 * x for x in broken), "%"
        ),
        Quantity(say("least sum of a row, 0 after softmax"), tuple(sums)),
        Quantity(say("least sum of a row, mask before softmax"), (float(before.sums.min()),)),
    ]
    names = {
        "before": say("mask, then softmax"),
        "after": say("softmax, then −∞"),
        "zeroed": say("softmax, then 0"),
    }
    rows: list[tuple[str | float, ...]] = [
        (
            names[each.name],
            plain(float(each.sums.min())),
            plain(float(each.sums.max())),
            int((~each.output.isfinite()).sum()),
            plain(float((each.output - before.output).abs().max())),
        )
        for each in results
    ]
    columns = (
        say("order"),
        say("smallest row sum"),
        say("largest row sum"),
        say("numbers of the output that are not finite"),
        say("largest difference from the right output"),
    )
    places = numbered(length)
    figures: list[Figure] = [Table(say("One head in three orders"), columns, rows)]
    figures += [
        Grid(say("Weights: {order}", order=names[each.name]), each.weights.tolist(), places, places, QUERY, KEY)
        for each in (before, zeroed)
    ]
    return Outcome(rule, reason, quantities, figures)


QUERY, KEY = say("query"), say("key")

# A number in the place of −∞ (row 17).

Fills = Callable[[Tensor, Tensor, float], Any]  # a table, as `fills`


def find_fill(request: Request, fill: Fills = fills) -> Outcome:
    """A number in the place of −∞ beside −∞ itself and the lowest number of the type, in three precisions."""
    length, number = int(request.values["keys"]), float(request.values["fill"])
    scores = torch.randn(length, length, generator=torch.Generator().manual_seed(request.seeds[0]))
    table = fill(scores, causal(length), number)
    own = table[~table["fill"].isin(["-inf", "min"])].set_index("dtype")
    types = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
    hides = {name: bool(own.loc[name, "accepted"]) and float(own.loc[name, "hidden"]) == 0 for name in types}
    uniform = {name: float(own.loc[name, "empty_high"]) > 0 for name in types}  # NaN is not
    in_types = {name: Condition(say("it hides what it must in {types}", types=name), hides[name]) for name in types}
    empty = Condition(
        say("there is no weight on a hidden key in a row with nothing to look at"), not any(uniform.values())
    )
    rule = Rule(
        [in_types["float32"]], wants=[every(in_types.values(), say("it hides what it must in every type")), empty]
    )
    refused = [name for name in types if not own.loc[name, "accepted"]]
    lowest = table[table["fill"] == "min"].set_index("dtype")["stored"]
    reason = say(
        "{fill} hides what it must in {types}; a row with nothing to look at gives each hidden key a weight of "
        "{weight} in float32{end}",
        fill=str(own["fill"].iloc[0]),
        types=", ".join(name for name, each in hides.items() if each) or "—",
        weight=plain(float(own.loc["float32", "empty_high"])),
        end=say(
            "; {types} cannot hold it, its lowest number is {lowest}, and torch refuses to fill it in",
            types=refused[0],
            lowest=plain(float(lowest[refused[0]])),
        )
        if refused
        else "",
    )
    quantities = [
        Quantity(say("largest weight on a hidden key, {type}", type=name), (float(own.loc[name, "hidden"]),))
        for name in types
        if own.loc[name, "accepted"]
    ]
    rows: list[tuple[str | float, ...]] = [
        (
            str(row["dtype"]),
            str(row["fill"]),
            plain(float(row["stored"])),
            say("accepted") if row["accepted"] else say("refused: overflow"),
            plain(float(row["hidden"])),
            plain(float(row["rows"])),
            plain(float(row["empty_high"])),
        )
        for _number, row in table.iterrows()
    ]
    columns = (
        say("type"),
        say("in the place of −∞"),
        say("stored as"),
        "masked_fill",
        say("largest weight on a hidden key"),
        say("largest |row sum − 1|"),
        say("weight in a row with nothing to look at"),
    )
    return Outcome(rule, reason, quantities, [Table(say("What stands for −∞"), columns, rows)])


# Where masks are (row 18).


def padded(model: TextModel, texts: Sequence[Tokens]) -> Batch | None:
    """Batch of a text and its first half, which is padded; None where it is too short for halves."""
    tokenizers = (model.source_tokenizer, model.target_tokenizer)[: len(texts)]
    rows = []
    for tokens, tokenizer in zip(texts, tokenizers, strict=True):
        halves = pieces(tokens, tokenizer, 2)
        if not halves:
            return None
        rows.append([tokens.ids, [tokens.ids[place] for place in halves[0]]])
    return Batch.of(rows, [tokenizer.filler for tokenizer in tokenizers], model.device)


def hidden_cells(trace: Trace, kind: AttentionKind) -> int:
    """Number of cells that the mask of the first attention of a kind hides, in a head that hides most."""
    return int((~trace.visible(trace.attention_paths(kind)[0])).sum(dim=(-2, -1)).max())


def find_places(request: Request, changes: Sequence[Intervention] = ()) -> Outcome:
    """Hidden cells of each kind of attention, in a batch of the text and its first half."""
    model = request.model
    _trace, texts = read(model, request.text)
    batch = padded(model, texts)
    if batch is None:
        return too_short(4, texts)
    whole, half = (batch.trace(model.network, changes).example(row) for row in (0, 1))
    kinds = whole.attention_kinds
    counts = {kind: (hidden_cells(whole, kind), hidden_cells(half, kind)) for kind in kinds}
    elsewhere = sum(sum(both) for kind, both in counts.items() if kind != "cross")
    of_cross = sum(counts.get("cross", (0, 0)))
    reason = say(
        "in a batch of this text and its first half masks hide {cross} cells of the attention between decoder and "
        "encoder and {elsewhere} cells of self-attention",
        cross=of_cross,
        elsewhere=elsewhere,
    )
    names = {kind: kind_name(kind) for kind in kinds}
    quantities = [
        Quantity(say("hidden cells, {kind}", kind=names[kind]), (float(sum(counts[kind])),)) for kind in kinds
    ]
    rows = [(names[kind], *counts[kind]) for kind in kinds]
    columns = (say("attention"), say("hidden in the whole text"), say("hidden in its half, padded"))
    figures: list[Figure] = [Table(say("Cells that masks hide"), columns, rows)]
    for kind in kinds:
        visible = half.visible(half.attention_paths(kind)[0])[0, :MOST, :MOST]
        queries, keys = (numbered(size) for size in visible.shape)
        title = say("Mask of the padded half, 1 is visible: {kind}", kind=names[kind])
        figures.append(Grid(title, visible.float().tolist(), queries, keys, QUERY, KEY))
    hidden = Quantity(say("hidden cells of self-attention"), (float(elsewhere),))
    crossing = Quantity(say("hidden cells, {kind}", kind=kind_name("cross")), (float(of_cross),))
    return Outcome(Rule([at_most(hidden, 0.0), exceeds(crossing, 0.0).or_open]), reason, quantities, figures)


# A changed future (row 19).

Masking = Callable[[AttentionKind, bool], Intervention]


def find_future(request: Request, mask: Masking = Causal) -> Outcome:
    """Change of the outputs before a token that becomes another, with the causal mask and without it."""
    model = request.model
    if model.kind == "recurrent":
        return recurrent()
    _trace, texts = read(model, request.text)
    if len(texts[-1]) < 2:
        return too_short(2, texts)
    place = len(texts[-1]) // 2
    token, kind = another(model, texts[-1].ids[place]), self_attention(model.network)
    masked, free = (
        future_change(model.network, ids_of(model, list(texts)), place, token, [mask(kind, on)]) for on in (True, False)
    )
    size = float(masked.max())
    masked_change, leaked = float(masked[:place].max()), float(free[:place].max())
    small = tolerance(model) * size
    reason = say(
        "when token {place} becomes another, outputs before it move by at most {kept} with the mask and by up to "
        "{leaked} without it; from it on by up to {size}",
        place=place + 1,
        kept=masked_change,
        leaked=leaked,
        size=size,
    )
    quantities = [
        Quantity(say("largest change before the token, mask on"), (masked_change,)),
        Quantity(say("largest change before the token, mask off"), (leaked,)),
    ]
    rule = Rule([at_most(quantities[0], small), exceeds(quantities[1], small)])
    labels = texts[-1].labels[:MOST]
    places = list(range(len(labels)))
    curves = [
        Curve(name, places, changes.tolist()[:MOST], style="bars")
        for name, changes in ((say("mask on"), masked), (say("mask off"), free))
    ]
    figure = Curves(say("Largest change of an output at each token"), say("token"), say("change"), curves, ticks=labels)
    return Outcome(rule, reason, quantities, [figure])


# Padding (row 20).


def find_padding(request: Request, changes: Sequence[Intervention] = ()) -> Outcome:
    """Difference of the outputs of a padded text from those of the same text alone, with the masks and without them.

    changes: made to the passes with the masks.
    """
    model, network = request.model, request.model.network
    _trace, texts = read(model, request.text)
    batch = padded(model, texts)
    if batch is None:
        return too_short(4, texts)
    alone, free = batch.alone(network), without_padding_masks(network)
    ways: list[tuple[Message, Sequence[float]]] = [
        (say("with the padding mask"), batch.changes_of(network, alone, changes).tolist()),
        (say("without the padding mask"), batch.changes_of(network, alone, free).tolist()),
    ]
    if model.kind == "decoder-only":  # its padding is the future, which the causal mask hides too
        ahead = without_causal_mask(network)
        moved = batch.changes_of(network, batch.alone(network, ahead), [*free, *ahead])
        ways.append((say("without padding mask and causal mask"), moved.tolist()))
    size = max(float(each.abs().max()) for each in alone)
    masked, unmasked, *late = (both[1] for _name, both in ways)
    quantities = [Quantity(say("change of the padded text, {way}", way=name), (both[1],)) for name, both in ways]
    small = tolerance(model) * size
    moved_without = [exceeds(each, small) for each in quantities[1:]]
    rule = Rule([at_most(quantities[0], small), reduce(or_, moved_without)], wants=moved_without[:1])
    reason = say(
        "when the shorter text is padded, its outputs move by {masked} with the mask and by {unmasked} without it, "
        "where the largest output is {size}{end}",
        masked=masked,
        unmasked=unmasked,
        size=size,
        end=say(
            "; a causal mask hides what stands behind a text already, and without that too it is {late}", late=late[0]
        )
        if late
        else "",
    )
    rows: list[tuple[str | float, ...]] = [(name, *both) for name, both in ways]
    columns = ("", say("longer text, not padded"), say("shorter text, padded"))
    return Outcome(rule, reason, quantities, [Table(say("Largest change of an output"), columns, rows)])


# Shapes (row 50).

PADDING = 0  # token of the batch below

Pad = Callable[[Tensor], Tensor]


def padding_mask(ids: Int[Tensor, "batch length"]) -> Bool[Tensor, "batch 1 1 length"]:
    """True on real tokens, for every head and query alike."""
    return (ids != PADDING)[:, None, None, :]


def look_ahead_mask(length: int) -> Bool[Tensor, "length length"]:
    """True where a query may look: `triu` with the diagonal 1 marks what stands behind it."""
    return torch.ones(length, length).triu(1) == 0


def find_shapes(request: Request, pad: Pad = padding_mask, ahead: Hide = look_ahead_mask) -> Outcome:
    """Masks of a padded batch by the tutorials' code beside those of the network."""
    length, batch = int(request.values["keys"]), 3
    lengths = [max(1, length - 2 * row) for row in range(batch)]
    ids = torch.tensor([[1] * real + [PADDING] * (length - real) for real in lengths])
    of_padding, of_future = pad(ids), ahead(length)
    own = {on: Mask(ids != PADDING, causal=on).visible(length, length, ids.device) for on in (False, True)}
    full = (batch, 1, length, length)
    differing = {
        on: int((mask.expand(full) != own[on].expand(full)).sum())
        for on, mask in ((False, of_padding), (True, of_padding & of_future))
    }
    shapes = tuple(of_padding.shape), tuple(of_future.shape)
    fit = Condition(say("the shapes are as said"), shapes == ((batch, 1, 1, length), (length, length)))
    reason = say(
        "for a batch of {batch} texts of up to {length} tokens the padding mask has the shape {padding} and the "
        "look-ahead mask {ahead}; joined by “and” they differ from the network's masks in {cells} cells",
        batch=batch,
        length=length,
        padding=str(list(shapes[0])),
        ahead=str(list(shapes[1])),
        cells=sum(differing.values()),
    )
    quantities = [
        Quantity(say("cells that differ, padding mask"), (float(differing[False]),)),
        Quantity(say("cells that differ, both masks"), (float(differing[True]),)),
    ]
    rule = Rule([fit, *(at_most(each, 0.0) for each in quantities)])
    rows: list[tuple[str | float, ...]] = [
        (say("padding"), str(list(shapes[0])), int((~of_padding).sum())),
        (say("look-ahead"), str(list(shapes[1])), int((~of_future).sum())),
        (say("both, by broadcasting"), str(list(full)), int((~(of_padding & of_future)).sum())),
    ]
    places = numbered(length)
    shortest = (of_padding & of_future).expand(full)[-1, 0]
    figures: list[Figure] = [
        Table(say("Shapes"), (say("mask"), say("shape"), say("hidden cells")), rows),
        Grid(
            say("Both masks of the shortest text, 1 is visible"), shortest.float().tolist(), places, places, QUERY, KEY
        ),
    ]
    return Outcome(rule, reason, quantities, figures)


EXPERIMENTS = (
    Experiment(
        name="mask-after-softmax",
        row=16,
        group=Group.MASKS,
        statement=say("A mask may be put in after softmax: −∞ in the place of the weights that must not count."),
        truth=say(
            "It belongs before softmax. After it −∞ is no weight: rows no longer add up to 1, and sums with it are "
            "infinite or NaN. Zeros put in there are finite, but leave rows that add up to less than 1."
        ),
        run=at_once(find_order),
        parameters=(KEYS,),
        seeded=True,
        formulas=(
            r"\text{right: } \mathrm{softmax}(s + M), \qquad \text{wrong: } \mathrm{softmax}(s) + M, \quad "
            r"M_{ij} \in \{0, -\infty\}",
        ),
        code=(orders, Masked, Weights),
        source="Vaswani et al., 2017, section 3.2.3",
    ),
    Experiment(
        name="mask-number",
        row=17,
        group=Group.MASKS,
        statement=say("A large negative number such as −1e9 or −1e10 can stand for −∞ in a mask."),
        truth=say(
            "In float32, and for rows that see something. float16 ends at −65504 and turns it into −∞, or torch "
            "refuses it; and a row with nothing to look at attends to all hidden keys alike, where −∞ gives NaN and "
            "the network here gives zeros."
        ),
        run=at_once(find_fill),
        parameters=(KEYS, Parameter("fill", say("number in the place of −∞"), -1e9, -1e30, -1.0)),
        formulas=(r"\mathrm{softmax}(c, \ldots, c) = (1/n, \ldots, 1/n) \text{ for every } c > -\infty",),
        code=(fills, Masked, Weights),
        source="Vaswani et al., 2017, section 3.2.3",
    ),
    Experiment(
        name="mask-places",
        row=18,
        group=Group.MASKS,
        statement=say("A mask is used only between decoder and encoder."),
        truth=say(
            "Padding is masked in every attention, and a decoder's self-attention has a causal mask besides. Between "
            "decoder and encoder only the padding of the source is hidden."
        ),
        run=at_once(find_places),
        of_model=True,
        seconds=0.5,
        formulas=(
            r"M^{enc}_{ij} = M^{cross}_{ij} = -\infty \text{ if source } j \text{ is padding}, \qquad "
            r"M^{dec}_{ij} = -\infty \text{ if } j > i \text{ or target } j \text{ is padding}",
        ),
        code=(Mask, Batch),
        source="Vaswani et al., 2017, section 3.2.3, of the future; of padding The Annotated Transformer (Rush, 2018)",
    ),
    Experiment(
        name="causal-mask",
        row=19,
        group=Group.MASKS,
        statement=say("A causal mask keeps the decoder from seeing the future."),
        truth=say(
            "With it no output before a token depends on that token, to the last bit. Without it every one does. An "
            "encoder alone sees the future on purpose; here it is given a causal mask too."
        ),
        run=at_once(find_future),
        of_model=True,
        seconds=0.5,
        formulas=(
            r"M_{ij} = -\infty \text{ for } j > i \;\Rightarrow\; "
            r"\frac{\partial z_t}{\partial x_j} = 0 \text{ for } j > t",
        ),
        code=(future_change, Causal, Mask),
        source="Vaswani et al., 2017, section 3.2.3",
    ),
    Experiment(
        name="padding-mask",
        row=20,
        group=Group.MASKS,
        statement=say("A padding mask keeps padding out of the outputs."),
        truth=say(
            "With it a text has the same outputs in a padded batch as alone. A decoder alone would not need it for "
            "padding behind its text, which the causal mask hides already."
        ),
        run=at_once(find_padding),
        of_model=True,
        seconds=0.5,
        formulas=(r"M_{b,i,j} = -\infty \text{ if } j \text{ of text } b \text{ is padding}",),
        code=(Batch, padded),
        source="The Annotated Transformer (Rush, 2018); the paper says nothing of padding",
    ),
    Experiment(
        name="mask-shapes",
        row=50,
        group=Group.MASKS,
        statement=say(
            "A padding mask has the shape [batch, 1, 1, length], and a look-ahead mask is made by triu; together they "
            "are the decoder's mask."
        ),
        truth=say(
            "The ones stand for heads and queries, for which padding is the same: broadcasting repeats it. triu must "
            "begin above the diagonal, or a token does not see itself."
        ),
        run=at_once(find_shapes),
        parameters=(KEYS,),
        formulas=(r"(B, 1, 1, L) \wedge (L, L) \to (B, 1, L, L)",),
        code=(padding_mask, look_ahead_mask, Mask),
        source="The Annotated Transformer (Rush, 2018); of the look-ahead mask Vaswani et al., 2017, section 3.2.3",
    ),
)
