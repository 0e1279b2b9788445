"""Whether h heads of d/h cost what one head of d does; narrow heads beside wide ones."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from model.experiments.attention_cost import Sizes, operations, room
from model.experiments.head_cost import SAME, Timed, by_heads, counted, head_counts, narrow_and_wide, ways, with_heads
from model.experiments.timing import ROUNDS, SECONDS
from model.inference.model import Inspectable
from model.network.attention import MultiHeadAttention
from model.network.costs import attention_flops
from viz.i18n.catalogue import _
from viz.packing import lab_heads as packing
from viz.packing.lab_plots import percent
from viz.sections.lab_claim import show_claim
from viz.sections.lab_fields import measuring, sizes_of
from viz.ui.fields import Field
from viz.ui.parts import data_table, explanation, mount

SHORTEST, LONGEST, WIDEST = 2, 4096, 4096


def show_heads(lens: Inspectable) -> None:
    show_claim(
        _("h heads of d/h channels cost the same as one head of d channels."),
        _(
            "Their matrix products do. The softmax has a map for each head, so it grows with h; and whether the same "
            "operations take as long in more and smaller matrices is measured here."
        ),
    )
    fields = [
        *_common(lens, "cost_heads"),
        Field("cost_heads_d", "d", str(lens.config.d_model), 2, max(WIDEST, lens.config.d_model)),
    ]
    given = sizes_of(lens, "heads", fields)
    if given is None:
        return
    length, d_model = given["cost_heads_n"], given["cost_heads_d"]
    sizes = _sizes(lens, given["cost_heads_batch"], 1, d_model)
    several = {heads: with_heads(sizes, heads) for heads in head_counts(d_model)}

    def before() -> None:
        st.text(packing.counts_verdict(several, length, nearest(several, lens.config.n_heads)))
        left, right = st.columns(2, gap="medium")
        right.dataframe(packing.head_table(several, length, None), hide_index=True)
        mount([(left, packing.pack_head_counts(several, length, "cost_heads_counts"))])

    def draw(found: Timed) -> None:
        own = nearest(found.sizes, lens.config.n_heads)
        counts = packing.counts_verdict(found.sizes, found.length, own)
        st.text("\n".join([*packing.head_verdicts(found, own), counts]))
        left, right = st.columns(2, gap="medium")
        mount(
            [
                (left, packing.pack_head_times(found, "cost_heads_times")),
                (right, packing.pack_head_counts(found.sizes, found.length, "cost_heads_counts")),
            ]
        )
        st.dataframe(packing.head_table(found.sizes, found.length, found), hide_index=True)
        data_table("cost_heads_data", lambda: packing.timed_table(found), "lab-heads")

    enough = room(several[max(several)], length, least=SHORTEST)
    measuring("cost_heads_run", sizes, length, enough, by_heads, draw, before, _forecast(len(several)))
    explain_heads()


def show_ways(lens: Inspectable) -> None:
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
        *_common(lens, "cost_ways"),
        Field("cost_ways_h", _("heads h"), str(lens.config.n_heads), 1, max(64, lens.config.n_heads)),
    ]
    given = sizes_of(lens, "ways", fields)
    if given is None:
        return
    length, heads, d_model = given["cost_ways_n"], given["cost_ways_h"], lens.config.d_model
    if d_model % heads:
        divisors = ", ".join(str(each) for each in range(1, 65) if d_model % each == 0)
        sentence = _("d = {d} cannot be split among {h} heads: choose one of {divisors}.")
        st.error(sentence.format(d=d_model, h=heads, divisors=divisors))
        return
    sizes = _sizes(lens, given["cost_ways_batch"], heads, d_model)
    both = narrow_and_wide(sizes)

    def before() -> None:
        st.text(packing.way_counts(both, length))
        left, right = st.columns(2, gap="medium")
        right.dataframe(packing.way_table(both, length, None), hide_index=True)
        mount([(left, packing.pack_ways(both, length, None, "cost_ways_bars"))])

    def draw(found: Timed) -> None:
        st.text("\n".join([*packing.way_verdicts(found), packing.way_counts(found.sizes, found.length)]))
        left, right = st.columns(2, gap="medium")
        with right:
            st.dataframe(packing.way_table(found.sizes, found.length, found), hide_index=True)
            data_table("cost_ways_data", lambda: packing.timed_table(found), "lab-ways")
        mount([(left, packing.pack_ways(found.sizes, found.length, found, "cost_ways_bars"))])

    enough = room(both["wide"], length, backward=True, least=SHORTEST)
    measuring("cost_ways_run", sizes, length, enough, ways, draw, before, _forecast(len(both)))
    explain_ways()


def nearest(several: Iterable[int], wish: int) -> int:
    return min(several, key=lambda heads: abs(heads - wish))


def _common(lens: Inspectable, key: str) -> list[Field]:
    length = min(lens.config.max_length, 1024)
    return [
        Field(f"{key}_n", "n", str(length), SHORTEST, LONGEST, log=True),
        Field(f"{key}_batch", _("batch"), "1", 1, 64),
    ]


def _sizes(lens: Inspectable, batch: int, heads: int, d_model: int) -> Sizes:
    width = d_model // heads
    return Sizes(batch=batch, heads=heads, width=width, device=lens.device, dtype=lens.dtype)


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
