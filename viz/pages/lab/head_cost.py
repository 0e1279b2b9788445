"""What heads cost, counted and measured: many small ones beside one, narrow ones beside wide ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.lab.experiment import (
    duration,
    header,
    machine_words,
    measuring,
    percent,
    show_claim,
    sizes_of,
    times_columns,
)
from viz.ui.fields import Field
from viz.ui.parts import data_table, explanation, mount
from viz.ui.plots import EXPECTED, FIRST, FOURTH, SECOND, THIRD

COLOURS = {"fused": FOURTH, "explicit": FIRST, "products": SECOND, "softmax": THIRD}


def piece_name(piece: str) -> str:
    return {
        "fused": _("whole attention, fused kernel"),
        "explicit": _("whole attention, step by step"),
        "products": _("Q Kᵀ and weights · V"),
        "softmax": "softmax",
    }[piece]


def counts_verdict(several: Mapping[int, Sizes], length: int, own: int) -> str:
    """What is the same for every h, and what is not."""
    counts = {heads: counted(sizes, length) for heads, sizes in several.items()}
    products = {each["products"] for each in counts.values()}
    first, most = min(counts), max(counts)
    total = {heads: sum(each.values()) for heads, each in counts.items()}
    same = (
        _("The matrix products are {count} operations for every h.").format(count=f"{products.pop():,}")
        if len(products) == 1
        else _("The matrix products are not the same for every h.")
    )
    sentence = _(
        "The softmax grows with h: all operations together are {own} times those of {first} head with h = {h}, and "
        "{most} times with h = {many}."
    )
    words = sentence.format(
        own=f"{total[own] / total[first]:.3f}",
        first=first,
        h=own,
        most=f"{total[most] / total[first]:.3f}",
        many=most,
    )
    return f"{same} {words}"


def head_verdicts(found: Timed, own: int) -> list[str]:
    """Whether h heads took as long as one; from where on they did not, and what took the difference."""
    said, first = [machine_words(found.machine)], min(found.sizes)
    for piece in ("fused", "explicit"):
        one, several = found.median(first, piece), found.median(own, piece)
        ratios = {heads: found.median(heads, piece) / one for heads in found.sizes}
        slower_from = next((h for h in ratios if all(ratios[m] > 1 + SAME for m in ratios if m >= h)), None)
        sentence = _("{piece}: {several} with h = {h}, {one} with one head, {ratio} times: {verdict}")
        said.append(
            sentence.format(
                piece=piece_name(piece),
                several=duration(several),
                h=own,
                one=duration(one),
                ratio=f"{several / one:.2f}",
                verdict=head_verdict(several / one),
            )
        )
        if slower_from is not None:
            sentence = _("More than {share} slower than one head from h = {h} on; with h = {most} it is {ratio} times.")
            most = max(found.sizes)
            ratio = significant(ratios[most])
            said[-1] += " " + sentence.format(share=percent(SAME), h=slower_from, most=most, ratio=ratio)
    more = {piece: found.median(max(found.sizes), piece) - found.median(first, piece) for piece in PIECES}
    sentence = _(
        "Step by step with h = {h}, beside one head: {time}; softmax alone {softmax}, the same products in smaller "
        "matrices {products}."
    )
    words = {piece: f"{'−' if seconds < 0 else '+'}{duration(abs(seconds))}" for piece, seconds in more.items()}
    said.append(
        sentence.format(
            time=words["explicit"], h=max(found.sizes), softmax=words["softmax"], products=words["products"]
        )
    )
    return said


def head_verdict(ratio: float) -> str:
    """What a ratio of times says of "costs the same"."""
    if ratio > 1 + SAME:
        return _("not the same, many heads cost more.")
    if ratio < 1 - SAME:
        return _("not the same, many heads cost less.")
    return _("the same within {share}.").format(share=percent(SAME))


def pack_head_counts(several: Mapping[int, Sizes], length: int, key: str) -> Mount:
    heads = np.array(list(several))
    counts = [counted(sizes, length) for sizes in several.values()]
    products = np.array([each["products"] for each in counts])
    softmax = np.array([each["softmax"] for each in counts])
    series = [
        Series(_("all matrix products"), heads, products, SECOND),
        Series("softmax", heads, softmax, THIRD),
        Series(_("together"), heads, products + softmax, EXPECTED, dash=True),
    ]
    said = _("products {products}; softmax {first} to {last}").format(
        products=f"{products[0]:,}", first=f"{softmax[0]:,}", last=f"{softmax[-1]:,}"
    )
    return _plot(series, said, _("Counted operations"), _("operations"), "lab-heads-counted", key)


def pack_head_times(found: Timed, key: str) -> Mount:
    heads = np.array(list(found.sizes))
    series = []
    for piece in PIECES:
        seconds = np.array([found.median(each, piece) for each in found.sizes])
        series.append(Series(piece_name(piece), heads, seconds, COLOURS[piece]))
        series.append(Series(piece_name(piece), heads, seconds, COLOURS[piece], "dots", quiet=True))
    said = "; ".join(
        f"{piece_name(piece)}: {duration(found.median(heads[0], piece))} – {duration(found.median(heads[-1], piece))}"
        for piece in PIECES
    )
    return _plot(series, said, _("Measured time"), _("seconds"), "lab-heads-times", key)


def _plot(series: list[Series], said: str, title: str, axis: str, file: str, key: str) -> Mount:
    more = {"x": {"title": _("heads h"), "log": True}, "y": {"title": axis, "log": True}, "tall": 260}
    return chart(series, header(title, said, file, file, (_("series"), _("heads h"), axis), more), key)


def head_table(several: Mapping[int, Sizes], length: int, found: Timed | None) -> pd.DataFrame:
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


def way_name(way: str) -> str:
    return {"narrow": _("narrow: d / h each"), "wide": _("wide: d each")}[way]


def pass_name(piece: str) -> str:
    return {"forward": _("forward"), "backward": _("backward")}[piece]


def way_counts(both: Mapping[str, Sizes], length: int) -> str:
    narrow, wide = (sum(counted(both[way], length).values()) for way in WAYS)
    sentence = _(
        "With h = {h}, wide heads have {weights} times the weights of narrow ones and {operations} times the "
        "operations at n = {n}."
    )
    return sentence.format(
        h=both["narrow"].heads,
        weights=significant(both["wide"].parameters / both["narrow"].parameters),
        operations=significant(wide / narrow),
        n=f"{length:,}",
    )


def way_verdicts(found: Timed) -> list[str]:
    """What wide heads cost in time, beside what the counts let expect."""
    said = [machine_words(found.machine)]
    narrow, wide = (sum(counted(found.sizes[way], found.length).values()) for way in WAYS)
    for piece in PASSES:
        times = {way: found.median(way, piece) for way in WAYS}
        ratio, expected = times["wide"] / times["narrow"], wide / narrow
        sentence = _("{piece}: narrow {narrow}, wide {wide}, {ratio} times: {verdict}")
        said.append(
            sentence.format(
                piece=pass_name(piece),
                narrow=duration(times["narrow"]),
                wide=duration(times["wide"]),
                ratio=significant(ratio),
                verdict=way_verdict(ratio, expected),
            )
        )
    return said


def way_verdict(ratio: float, expected: float) -> str:
    if ratio <= 1 + SAME:
        return _("wide heads are not slower here.")
    if ratio < (1 - SAME) * expected:
        return _(
            "slower, and less so than the operations let expect: the larger products reach more operations a second."
        )
    return _("slower, as the operations let expect, or more.")


def pack_ways(both: Mapping[str, Sizes], length: int, found: Timed | None, key: str) -> Mount:
    """Everything as a multiple of the narrow heads'."""
    labels = [_("parameters"), _("operations")]
    ratios = [
        both["wide"].parameters / both["narrow"].parameters,
        sum(counted(both["wide"], length).values()) / sum(counted(both["narrow"], length).values()),
    ]
    for piece in PASSES if found else ():
        assert found is not None
        labels.append(_("time {piece}").format(piece=pass_name(piece)))
        ratios.append(found.median("wide", piece) / found.median("narrow", piece))
    places = np.arange(len(labels))
    series = [
        Series(way_name("narrow"), places, np.ones(len(labels)), EXPECTED, "bars"),
        Series(way_name("wide"), places, np.array(ratios), FIRST, "bars"),
    ]
    said = "; ".join(f"{label}: {significant(ratio)}" for label, ratio in zip(labels, ratios, strict=True))
    title, axis = _("Wide heads beside narrow ones"), _("times narrow")
    more = {"x": {"labels": labels, "side": "", "title": ""}, "y": {"title": axis, "zero": True}, "tall": 220}
    stamp = f"ways {len(labels)}"
    return chart(series, header(title, said, "lab-ways", stamp, (_("series"), _("quantity"), axis), more), key)


def way_table(both: Mapping[str, Sizes], length: int, found: Timed | None) -> pd.DataFrame:
    rows = []
    for way in WAYS:
        row: dict[str, object] = {
            _("heads"): f"{both[way].heads} · {way_name(way)}",
            "d_k": both[way].width,
            _("parameters"): f"{both[way].parameters:,}",
            _("operations"): f"{sum(counted(both[way], length).values()):,}",
        }
        if found is not None:
            row |= {pass_name(piece): duration(found.median(way, piece)) for piece in PASSES}
        rows.append(row)
    return pd.DataFrame(rows)


def timed_table(found: Timed) -> pd.DataFrame:
    """Every time that was measured."""
    names = {piece: piece_name(piece) for piece in PIECES} | {piece: pass_name(piece) for piece in PASSES}
    ways = {way: way_name(way) for way in WAYS}
    return pd.DataFrame(
        {_("heads"): ways.get(what, str(what)), _("series"): names[piece], **times_columns(times)}
        for (what, piece), times in found.times.items()
    )


# Whether h heads of d/h cost what one head of d does; narrow heads beside wide ones.

SHORTEST, LONGEST, WIDEST = 2, 4096, 4096


def show_heads(model: TextModel) -> None:
    show_claim(
        _("h heads of d/h channels cost the same as one head of d channels."),
        _(
            "Their matrix products do. The softmax has a map for each head, so it grows with h; and whether the same "
            "operations take as long in more and smaller matrices is measured here."
        ),
    )
    fields = [
        *_common(model, "cost_heads"),
        Field("cost_heads_d", "d", str(model.config.d_model), 2, max(WIDEST, model.config.d_model)),
    ]
    given = sizes_of(model, "heads", fields)
    if given is None:
        return
    length, d_model = given["cost_heads_n"], given["cost_heads_d"]
    sizes = _sizes(model, given["cost_heads_batch"], 1, d_model)
    several = {heads: with_heads(sizes, heads) for heads in head_counts(d_model)}

    def before() -> None:
        st.text(counts_verdict(several, length, nearest(several, model.config.n_heads)))
        left, right = st.columns(2, gap="medium")
        right.dataframe(head_table(several, length, None), hide_index=True)
        mount([(left, pack_head_counts(several, length, "cost_heads_counts"))])

    def draw(found: Timed) -> None:
        own = nearest(found.sizes, model.config.n_heads)
        counts = counts_verdict(found.sizes, found.length, own)
        st.text("\n".join([*head_verdicts(found, own), counts]))
        left, right = st.columns(2, gap="medium")
        mount(
            [
                (left, pack_head_times(found, "cost_heads_times")),
                (right, pack_head_counts(found.sizes, found.length, "cost_heads_counts")),
            ]
        )
        st.dataframe(head_table(found.sizes, found.length, found), hide_index=True)
        data_table("cost_heads_data", lambda: timed_table(found), "lab-heads")

    enough = room(several[max(several)], length, least=SHORTEST)
    measuring("cost_heads_run", sizes, length, enough, by_heads, draw, before, _forecast(len(several)))
    explain_heads()


def show_ways(model: TextModel) -> None:
    show_claim(
        _(
            "Each head attends in a space of its own; some split the d channels among the heads, some give each head "
            "all d of them."
        ),
        _(
            "These are two networks of different cost: wide heads have h times the weights and the matrix products. "
            "The paper splits (section 3.2.2). Which learns better is measured under “Trained side by side”."
        ),
    )
    fields = [
        *_common(model, "cost_ways"),
        Field("cost_ways_h", _("heads h"), str(model.config.n_heads), 1, max(64, model.config.n_heads)),
    ]
    given = sizes_of(model, "ways", fields)
    if given is None:
        return
    length, heads, d_model = given["cost_ways_n"], given["cost_ways_h"], model.config.d_model
    if d_model % heads:
        divisors = ", ".join(str(each) for each in range(1, 65) if d_model % each == 0)
        sentence = _("d = {d} cannot be split among {h} heads: choose one of {divisors}.")
        st.error(sentence.format(d=d_model, h=heads, divisors=divisors))
        return
    sizes = _sizes(model, given["cost_ways_batch"], heads, d_model)
    both = narrow_and_wide(sizes)

    def before() -> None:
        st.text(way_counts(both, length))
        left, right = st.columns(2, gap="medium")
        right.dataframe(way_table(both, length, None), hide_index=True)
        mount([(left, pack_ways(both, length, None, "cost_ways_bars"))])

    def draw(found: Timed) -> None:
        st.text("\n".join([*way_verdicts(found), way_counts(found.sizes, found.length)]))
        left, right = st.columns(2, gap="medium")
        with right:
            st.dataframe(way_table(found.sizes, found.length, found), hide_index=True)
            data_table("cost_ways_data", lambda: timed_table(found), "lab-ways")
        mount([(left, pack_ways(found.sizes, found.length, found, "cost_ways_bars"))])

    enough = room(both["wide"], length, backward=True, least=SHORTEST)
    measuring("cost_ways_run", sizes, length, enough, ways, draw, before, _forecast(len(both)))
    explain_ways()


def nearest(several: Iterable[int], wish: int) -> int:
    return min(several, key=lambda heads: abs(heads - wish))


def _common(model: TextModel, key: str) -> list[Field]:
    length = min(model.config.max_length, 1024)
    return [
        Field(f"{key}_n", "n", str(length), SHORTEST, LONGEST, log=True),
        Field(f"{key}_batch", _("batch"), "1", 1, 64),
    ]


def _sizes(model: TextModel, batch: int, heads: int, d_model: int) -> Sizes:
    width = d_model // heads
    return Sizes(batch=batch, heads=heads, width=width, device=model.device, dtype=model.dtype)


def _forecast(count: int) -> str:
    words = _("at least {seconds} s and {runs} runs of each; in the background")
    return words.format(seconds=f"{SECONDS * count:.2g}", runs=ROUNDS)


def explain_heads() -> None:
    explanation(
        "cost_heads_explanation",
        [
            r"8\,n\,d^2 + h \cdot 4\,n^2\,\tfrac{d}{h} = 8\,n\,d^2 + 4\,n^2 d",
            r"h\,n\,(5n - 2) \text{ for the softmax}",
        ],
        _(
            "Vaswani et al., section 3.2.2: “Due to the reduced dimension of each head, the total computational cost "
            "is similar to that of single-head attention with full dimensionality.” The very same weights are cut into "
            "1 to d/2 heads; all are run in turn, again and again, and the median counts. Times are "
            "called the same if they differ by no more than {share}. This is the code that runs:"
        ).format(share=percent(SAME)),
        *(MultiHeadAttention, operations, counted, by_heads, attention_flops),
    )


def explain_ways() -> None:
    explanation(
        "cost_ways_explanation",
        [r"\text{narrow: } 4\,d^2 \qquad \text{wide: } 3\,d \cdot h d + h d \cdot d = 4\,h\,d^2 \quad \text{weights}"],
        _(
            "Section 3.2.2. One attention of the network's own module each way, without groups of keys and values and "
            "without dropout; forward as in training, and backward to its weights and its input. Both run in turn, "
            "again and again, and the median counts. This is the code that runs:"
        ),
        *(MultiHeadAttention, narrow_and_wide, ways, Sizes),
    )
