"""Q Kᵀ costs O(n² d), softmax O(n²), weighting the values O(n² d)."""

from __future__ import annotations

from functools import partial

import streamlit as st

from model.experiments.attention_cost import Growth, Sizes, growth, lengths_up_to, operations, room, steps, upper_fit
from model.experiments.timing import ROUNDS, SECONDS, fit
from model.inference.model import Inspectable
from model.network.attention import MultiHeadAttention, Scores, Weights
from model.network.costs import attention_flops
from viz.i18n.catalogue import _
from viz.packing import lab_growth as packing
from viz.sections.lab_claim import show_claim
from viz.sections.lab_fields import measuring, sizes_of
from viz.ui.fields import Field
from viz.ui.parts import data_table, explanation, mount

LONGEST = 16384


def show(lens: Inspectable) -> None:
    show_claim(
        _("Attention costs O(n² d): Q Kᵀ O(n² d), softmax O(n²), weighting the values O(n² d)."),
        _(
            "That counts operations for long inputs. It leaves out the four projections, O(n d²), which are most of "
            "the work of short inputs; it does not say what an operation costs, which is measured here; and memory "
            "grows with n² only where the maps are written down."
        ),
    )
    asked = fields(lens)
    given = sizes_of(lens, "growth", asked)
    if given is None:
        return
    longest = given["cost_longest"]
    sizes = Sizes(
        batch=given["cost_batch"],
        heads=given["cost_heads"],
        width=given["cost_width"],
        device=lens.device,
        dtype=lens.dtype,
    )
    words = _("{count} lengths, each at least {seconds} s and {runs} runs; in the background")
    forecast = words.format(count=len(lengths_up_to(longest)), seconds=f"{SECONDS:g}", runs=ROUNDS)
    before = partial(draw_counts, sizes, longest)
    found = room(sizes, longest, least=int(asked[0].low))
    measuring("cost_growth", sizes, longest, found, growth, draw, before, forecast)
    explain()


def fields(lens: Inspectable) -> list[Field]:
    config = lens.config
    return [
        Field("cost_longest", _("largest n"), "2048", 128, LONGEST, log=True),
        Field("cost_width", "d_k", str(config.d_head), 1, max(512, config.d_head)),
        Field("cost_heads", _("heads"), str(config.n_heads), 1, max(64, config.n_heads)),
        Field("cost_batch", _("batch"), "1", 1, 64),
    ]


def draw_counts(sizes: Sizes, longest: int) -> None:
    st.text("\n".join(packing.counted_verdicts(sizes, longest)))
    left, right = st.columns(2, gap="medium")
    right.dataframe(packing.summary(sizes, longest, None), hide_index=True)
    mount([(left, packing.pack_counts(sizes, longest, "cost_counts"))])


def draw(found: Growth) -> None:
    longest = found.lengths[-1]
    st.text("\n".join(packing.verdicts(found)))
    columns = st.columns(3, gap="medium")
    mount(
        zip(
            columns,
            [
                packing.pack_times(found, "cost_times"),
                packing.pack_memory(found, "cost_memory"),
                packing.pack_counts(found.sizes, longest, "cost_counts"),
            ],
            strict=True,
        )
    )
    st.dataframe(packing.summary(found.sizes, longest, found), hide_index=True)
    data_table("cost_growth_data", lambda: packing.table(found), "lab-growth")


def explain() -> None:
    explanation(
        "cost_growth_explanation",
        [
            r"\underbrace{8\,n\,d^2}_{\text{projections}} + \underbrace{2\,n^2 d}_{Q K^\top} + "
            r"\underbrace{h\,n\,(5n - 2)}_{\text{softmax}} + \underbrace{2\,n^2 d}_{A V}, \quad d = h\,d_k \qquad "
            r"\log t = \log c + e \log n"
        ],
        _(
            "Vaswani et al., table 1 and section 4. A multiply-add counts 2; a row of the softmax counts its maximum, "
            "differences, exponentials, sum and quotients. Each step is one of the network's own modules, on random "
            "numbers. All steps run in turn, again and again, and the median counts. The exponent e is fitted by "
            "least squares to the lengths from an eighth of the largest on, where fixed costs are small; ± is its "
            "range of 95 per cent. Memory is that of the tensors that a step makes, when most of them are there; what "
            "a kernel takes for itself is not seen. On a CPU one core measures, so that the page answers meanwhile, "
            "in that thread's own time, so that the work of other programs is not counted. This is the code that "
            "runs:"
        ),
        *(Scores, Weights, MultiHeadAttention.fused, steps, operations, attention_flops, upper_fit, fit),
    )
