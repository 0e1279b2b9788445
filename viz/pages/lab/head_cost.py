"""What heads cost, counted and measured: many small ones beside one, narrow ones beside wide ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from model.experiments.attention_cost import Sizes, operations, room
from model.experiments.head_cost import (
    PASSES,
    PIECES,
    SAME,
    WAYS,
    Timed,
    all_operations,
    by_heads,
    counted,
    head_counts,
    narrow_and_wide,
    ways,
    with_heads,
)
from model.experiments.timing import ROUNDS, SECONDS
from model.inference.text_model import TextModel
from model.network.attention import MultiHeadAttention
from model.network.costs import attention_flops
from viz.components.plots import About, Axis, Chart, Heading, Series
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.lab.experiment import (
    Experiment,
    Findings,
    Measurement,
    duration,
    machine_words,
    percent,
    sizes_of,
    times_columns,
)
from viz.ui.fields import Field
from viz.ui.plots import EXPECTED, FIRST, FOURTH, SECOND, THIRD

COLOURS = {"fused": FOURTH, "explicit": FIRST, "products": SECOND, "softmax": THIRD}
SHORTEST, LONGEST, WIDEST = 2, 4096, 4096


def common_fields(model: TextModel, key: str) -> list[Field]:
    length = min(model.config.max_length, 1024)
    return [
        Field(f"{key}_n", "n", str(length), SHORTEST, LONGEST, log=True),
        Field(f"{key}_batch", _("batch"), "1", 1, 64),
    ]


def forecast(count: int) -> str:
    words = _("at least {seconds} s and {runs} runs of each; in the background")
    return words.format(seconds=f"{SECONDS * count:.2g}", runs=ROUNDS)


def numbers(found: Timed) -> pd.DataFrame:
    """Every time that was measured."""
    names = {piece: piece_name(piece) for piece in PIECES} | {piece: pass_name(piece) for piece in PASSES}
    ways = {way: way_name(way) for way in WAYS}
    return pd.DataFrame(
        {_("heads"): ways.get(what, str(what)), _("series"): names[piece], **times_columns(times)}
        for (what, piece), times in found.times.items()
    )


# Whether h heads of d/h cost what one head of d does.


def heads_experiment(model: TextModel) -> Experiment:
    return Experiment(
        key="cost_heads",
        claim=_("h heads of d/h channels cost the same as one head of d channels."),
        truth=_(
            "Their matrix products do. The softmax has a map for each head, so it grows with h; and whether the same "
            "operations take as long in more and smaller matrices is measured here."
        ),
        parts=[partial(heads_measurement, model)],
        formulas=[
            r"8\,n\,d^2 + h \cdot 4\,n^2\,\tfrac{d}{h} = 8\,n\,d^2 + 4\,n^2 d",
            r"h\,n\,(5n - 2) \text{ for the softmax}",
        ],
        explanation=_(
            "Vaswani et al., section 3.2.2: “Due to the reduced dimension of each head, the total computational cost "
            "is similar to that of single-head attention with full dimensionality.” The very same weights are cut into "
            "1 to d/2 heads; all are run in turn, again and again, and the median counts. Times are "
            "called the same if they differ by no more than {share}. This is the code that runs:"
        ).format(share=percent(SAME)),
        code=(MultiHeadAttention, operations, counted, by_heads, attention_flops),
    )


def heads_measurement(model: TextModel) -> Measurement[Timed] | None:
    d_model = model.config.d_model
    fields = [*common_fields(model, "cost_heads"), Field("cost_heads_d", "d", str(d_model), 2, max(WIDEST, d_model))]
    given = sizes_of(model, "heads", fields)
    if given is None:
        return None
    length, batch, width = given.values()
    sizes = Sizes(batch=batch, heads=1, width=width, device=model.device, dtype=model.dtype)
    several = {heads: with_heads(sizes, heads) for heads in head_counts(width)}
    return Measurement(
        measure=by_heads,
        settings=(sizes, length),
        findings=lambda found: heads_findings(found.sizes, found.length, model.config.n_heads, found),
        begin=_("Measure"),
        forecast=forecast(len(several)),
        before=heads_findings(several, length, model.config.n_heads, None),
        room=room(several[max(several)], length, least=SHORTEST),
    )


def heads_findings(several: Mapping[int, Sizes], length: int, wish: int, found: Timed | None) -> Findings:
    """wish: the number of heads that is looked at, or the nearest to it."""
    own = nearest(several, wish)
    counts = counts_verdict(several, length, own)
    chart, table = count_chart(several, length), heads_table(several, length, found)
    if found is None:
        return Findings([counts], [[chart, table]])
    rows = [[time_chart(found), chart], [table]]
    return Findings([*head_verdicts(found, own), counts], rows, partial(numbers, found), "lab-heads")


def nearest(several: Iterable[int], wish: int) -> int:
    return min(several, key=lambda heads: abs(heads - wish))


def piece_name(piece: str) -> str:
    return {
        "fused": _("whole attention, fused kernel"),
        "explicit": _("whole attention, step by step"),
        "products": _("Q Kᵀ and weights · V"),
        "softmax": "softmax",
    }[piece]


def counts_verdict(several: Mapping[int, Sizes], length: int, own: int) -> str:
    """What is the same for every h, and what is not."""
    products = {counted(sizes, length)["products"] for sizes in several.values()}
    total = {heads: all_operations(sizes, length) for heads, sizes in several.items()}
    first, most = min(several), max(several)
    same = (
        _("The matrix products are {count} operations for every h.").format(count=f"{products.pop():,}")
        if len(products) == 1
        else _("The matrix products are not the same for every h.")
    )
    sentence = _(
        "The softmax grows with h: all operations together are {own} times those of {first} head with h = {h}, and "
        "{most} times with h = {many}."
    )
    ratios = {"own": f"{total[own] / total[first]:.3f}", "most": f"{total[most] / total[first]:.3f}"}
    return f"{same} {sentence.format(first=first, h=own, many=most, **ratios)}"


def head_verdicts(found: Timed, own: int) -> list[str]:
    """Whether h heads took as long as one; from where on they did not, and what took the difference."""
    said, first, most = [machine_words(found.machine)], min(found.sizes), max(found.sizes)
    for piece in ("fused", "explicit"):
        one, several = found.median(first, piece), found.median(own, piece)
        ratio = several / one
        sentence = _("{piece}: {several} with h = {h}, {one} with one head, {ratio} times: {verdict}")
        times = {"several": duration(several), "one": duration(one), "ratio": f"{ratio:.2f}"}
        line = sentence.format(piece=piece_name(piece), h=own, verdict=head_verdict(ratio), **times)
        if (slower := found.slower_from(piece)) is not None:
            sentence = _("More than {share} slower than one head from h = {h} on; with h = {most} it is {ratio} times.")
            times_as_long = significant(found.median(most, piece) / one)
            line += " " + sentence.format(share=percent(SAME), h=slower, most=most, ratio=times_as_long)
        said.append(line)
    more = {piece: found.median(most, piece) - found.median(first, piece) for piece in PIECES}
    words = {piece: f"{'−' if seconds < 0 else '+'}{duration(abs(seconds))}" for piece, seconds in more.items()}
    sentence = _(
        "Step by step with h = {h}, beside one head: {time}; softmax alone {softmax}, the same products in smaller "
        "matrices {products}."
    )
    return [*said, sentence.format(h=most, time=words["explicit"], **words)]


def head_verdict(ratio: float) -> str:
    """What a ratio of times says of "costs the same"."""
    if ratio > 1 + SAME:
        return _("not the same, many heads cost more.")
    if ratio < 1 - SAME:
        return _("not the same, many heads cost less.")
    return _("the same within {share}.").format(share=percent(SAME))


def count_chart(several: Mapping[int, Sizes], length: int) -> Chart:
    heads = np.array(list(several))
    counts = [counted(sizes, length) for sizes in several.values()]
    products, softmax = (np.array([each[part] for each in counts]) for part in ("products", "softmax"))
    series = [
        Series(_("all matrix products"), heads, products, SECOND),
        Series("softmax", heads, softmax, THIRD),
        Series(_("together"), heads, products + softmax, EXPECTED, dash=True),
    ]
    return over_heads(series, _("Counted operations"), _("operations"), "counts", "lab-heads-counted")


def time_chart(found: Timed) -> Chart:
    heads = np.array(list(found.sizes))
    series = []
    for piece in PIECES:
        name, seconds = piece_name(piece), np.array([found.median(each, piece) for each in found.sizes])
        series.append(Series(name, heads, seconds, COLOURS[piece]))
        series.append(Series(name, heads, seconds, COLOURS[piece], "dots", quiet=True))
    return over_heads(series, _("Measured time"), _("seconds"), "times", "lab-heads-times")


def over_heads(series: list[Series], title: str, unit: str, name: str, file: str) -> Chart:
    heads, values = Axis(_("heads h"), log=True), Axis(unit, log=True)
    return Chart(
        f"cost_heads_{name}", Heading(title, file, file, about=about_heads(name)), series, heads, values, tall=260
    )


def about_heads(name: str) -> About:
    """Of a chart over the number of heads."""
    if name == "times":
        sentence = _("How long the same attention takes, cut into h heads: all of it, and its parts.")
        return About(sentence, [r"d_k = d/h, \qquad t = \mathrm{median}(t_1, \ldots, t_r)"], [by_heads])
    sentence = _("How many operations the same attention needs, cut into h heads: its products, and its softmax.")
    formulas = [r"8\,n\,d^2 + h \cdot 4\,n^2\,\tfrac{d}{h}", r"h\,n\,(5n - 2) \text{ for the softmax}"]
    return About(sentence, formulas, [counted, operations])


def heads_table(several: Mapping[int, Sizes], length: int, found: Timed | None) -> pd.DataFrame:
    """A row for each number of heads."""
    rows = []
    for heads, sizes in several.items():
        count = counted(sizes, length)
        row: dict[str, object] = {"h": heads, "d / h": sizes.width, _("parameters"): f"{sizes.parameters:,}"}
        row |= {_("products, operations"): f"{count['products']:,}", _("softmax, operations"): f"{count['softmax']:,}"}
        if found is not None:
            row |= {piece_name(piece): duration(found.median(heads, piece)) for piece in PIECES}
        rows.append(row)
    return pd.DataFrame(rows)


# Narrow heads beside wide ones.


def ways_experiment(model: TextModel) -> Experiment:
    return Experiment(
        key="cost_ways",
        claim=_(
            "Each head attends in a space of its own; some split the d channels among the heads, some give each head "
            "all d of them."
        ),
        truth=_(
            "These are two networks of different cost: wide heads have h times the weights and the matrix products. "
            "The paper splits (section 3.2.2). Which learns better is measured under “Trained side by side”."
        ),
        parts=[partial(ways_measurement, model)],
        formulas=[
            r"\text{narrow: } 4\,d^2 \qquad \text{wide: } 3\,d \cdot h d + h d \cdot d = 4\,h\,d^2 \quad \text{weights}"
        ],
        explanation=_(
            "Section 3.2.2. One attention of the network's own module each way, without groups of keys and values and "
            "without dropout; forward as in training, and backward to its weights and its input. Both run in turn, "
            "again and again, and the median counts. This is the code that runs:"
        ),
        code=(MultiHeadAttention, narrow_and_wide, ways, Sizes),
    )


def ways_measurement(model: TextModel) -> Measurement[Timed] | None:
    config = model.config
    h = Field("cost_ways_h", _("heads h"), str(config.n_heads), 1, max(64, config.n_heads))
    given = sizes_of(model, "ways", [*common_fields(model, "cost_ways"), h])
    if given is None:
        return None
    length, batch, heads = given.values()
    if config.d_model % heads:
        divisors = ", ".join(str(each) for each in range(1, 65) if config.d_model % each == 0)
        sentence = _("d = {d} cannot be split among {h} heads: choose one of {divisors}.")
        st.error(sentence.format(d=config.d_model, h=heads, divisors=divisors))
        return None
    width = config.d_model // heads
    sizes = Sizes(batch=batch, heads=heads, width=width, device=model.device, dtype=model.dtype)
    both = narrow_and_wide(sizes)
    return Measurement(
        measure=ways,
        settings=(sizes, length),
        findings=lambda found: ways_findings(found.sizes, found.length, found),
        begin=_("Measure"),
        forecast=forecast(len(both)),
        before=ways_findings(both, length, None),
        room=room(both["wide"], length, backward=True, least=SHORTEST),
    )


def ways_findings(both: Mapping[str, Sizes], length: int, found: Timed | None) -> Findings:
    counts, rows = way_counts(both, length), [[ways_chart(both, length, found), ways_table(both, length, found)]]
    if found is None:
        return Findings([counts], rows)
    return Findings([*way_verdicts(found), counts], rows, partial(numbers, found), "lab-ways")


def way_name(way: str) -> str:
    return {"narrow": _("narrow: d / h each"), "wide": _("wide: d each")}[way]


def pass_name(piece: str) -> str:
    return {"forward": _("forward"), "backward": _("backward")}[piece]


def way_counts(both: Mapping[str, Sizes], length: int) -> str:
    sentence = _(
        "With h = {h}, wide heads have {weights} times the weights of narrow ones and {operations} times the "
        "operations at n = {n}."
    )
    weights, operations = (significant(ratio) for ratio in counted_ratios(both, length))
    return sentence.format(h=both["narrow"].heads, weights=weights, operations=operations, n=f"{length:,}")


def counted_ratios(both: Mapping[str, Sizes], length: int) -> tuple[float, float]:
    """Weights and operations of wide heads as multiples of those of narrow ones."""
    narrow, wide = (both[way] for way in WAYS)
    return wide.parameters / narrow.parameters, all_operations(wide, length) / all_operations(narrow, length)


def way_verdicts(found: Timed) -> list[str]:
    """What wide heads cost in time, beside what the counts let expect."""
    said = [machine_words(found.machine)]
    _weights, expected = counted_ratios(found.sizes, found.length)
    sentence = _("{piece}: narrow {narrow}, wide {wide}, {ratio} times: {verdict}")
    for piece in PASSES:
        narrow, wide = (found.median(way, piece) for way in WAYS)
        numbers = {"narrow": duration(narrow), "wide": duration(wide), "ratio": significant(wide / narrow)}
        said.append(sentence.format(piece=pass_name(piece), verdict=way_verdict(wide / narrow, expected), **numbers))
    return said


def way_verdict(ratio: float, expected: float) -> str:
    if ratio <= 1 + SAME:
        return _("wide heads are not slower here.")
    if ratio < (1 - SAME) * expected:
        return _(
            "slower, and less so than the operations let expect: the larger products reach more operations a second."
        )
    return _("slower, as the operations let expect, or more.")


def ways_chart(both: Mapping[str, Sizes], length: int, found: Timed | None) -> Chart:
    """Everything as a multiple of the narrow heads'."""
    labels, ratios = [_("parameters"), _("operations")], [*counted_ratios(both, length)]
    if found is not None:
        labels += [_("time {piece}").format(piece=pass_name(piece)) for piece in PASSES]
        ratios += [found.median("wide", piece) / found.median("narrow", piece) for piece in PASSES]
    places = np.arange(len(labels))
    series = [
        Series(way_name("narrow"), places, np.ones(len(labels)), EXPECTED, "bars"),
        Series(way_name("wide"), places, np.array(ratios), FIRST, "bars"),
    ]
    note = "; ".join(f"{label}: {significant(ratio)}" for label, ratio in zip(labels, ratios, strict=True))
    title = _("Wide heads beside narrow ones")
    above = Heading(title, "lab-ways", f"ways {len(labels)}", alt=f"{title}: {note}", about=about_ways())
    values = Axis(_("times narrow"), zero=True)
    return Chart("cost_ways_bars", above, series, Axis("", labels), values, tall=220, place=_("quantity"))


def about_ways() -> About:
    sentence = _("What h heads of d channels cost, as multiples of what h heads of d/h channels do.")
    formula = r"\frac{4\,h\,d^2}{4\,d^2} = h \text{ for the weights}"
    return About(sentence, [formula], [narrow_and_wide, counted])


def ways_table(both: Mapping[str, Sizes], length: int, found: Timed | None) -> pd.DataFrame:
    rows = []
    for way in WAYS:
        row: dict[str, object] = {
            _("heads"): f"{both[way].heads} · {way_name(way)}",
            "d_k": both[way].width,
            _("parameters"): f"{both[way].parameters:,}",
            _("operations"): f"{all_operations(both[way], length):,}",
        }
        if found is not None:
            row |= {pass_name(piece): duration(found.median(way, piece)) for piece in PASSES}
        rows.append(row)
    return pd.DataFrame(rows)
