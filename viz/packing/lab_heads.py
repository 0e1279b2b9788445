"""What heads cost, counted and measured: many small ones beside one, narrow ones beside wide ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from model.experiments.attention_cost import Sizes
from model.experiments.head_cost import PASSES, PIECES, SAME, WAYS, Timed, counted
from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.lab_plots import duration, header, machine_words, percent, times_columns
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
