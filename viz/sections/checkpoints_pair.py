"""One tensor of two checkpoints: their values over each other, and the difference as a map."""

from __future__ import annotations

from functools import partial

import streamlit as st

from model.checkpoints.tensors import TensorInfo
from viz.i18n.catalogue import _
from viz.i18n.format import literal, shape_text, token_code
from viz.packing import weights_spectra, weights_values
from viz.packing.weights_values import short, summary
from viz.sections import checkpoints_tensor
from viz.sections.checkpoints_measuring import measured
from viz.sections.checkpoints_subjects import Subject


def show_pair(before: Subject, after: Subject, info: TensorInfo, equal: bool) -> None:
    """The tensor of this name in both. equal: value for value."""
    heading = st.container(horizontal=True, vertical_alignment="bottom")
    heading.markdown(f"**{token_code(short(info.name))}**", width="content")
    heading.caption(shape_text(info.shape), width="content")
    if equal:
        st.info(_("In {before} and {after} this tensor is equal, value for value.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    weights = []
    for subject in (before, after):
        found = measured(subject)
        own = next(each for each in found.table if each.name == info.name)
        weight = checkpoints_tensor.weight_of(subject, found, own)
        if isinstance(weight, str):
            st.caption(literal(f"{subject.name}: {weight}"))
            return
        weights.append(weight)
    st.caption(f"A: {summary(weights[0].statistics)}  \nB: {summary(weights[1].statistics)}")
    left, right = st.columns([11, 9], gap="medium")
    named = [weight.called(f"{letter}: {weight.file}") for letter, weight in zip("AB", weights, strict=True)]
    matrix = weights_spectra.is_matrix(weights[1])
    with left:
        if matrix:
            blocks = partial(weights_values.difference_blocks, named)
            checkpoints_tensor.draw_matrix(named[1], blocks, difference=True)
        else:
            weights_values.feature_chart(named, checkpoints_tensor.FEATURES)()
    with right:
        checkpoints_tensor.spread(named)
        if matrix and not any(weights_spectra.why_none(weight) for weight in named):
            takes = sum(weights_spectra.seconds(weight) for weight in named)
            if all(weights_spectra.known(weight) for weight in named) or checkpoints_tensor.asked(takes, named[1]):
                with st.spinner(_("Computing the singular values …")):
                    mount = weights_spectra.spectrum_chart(named, checkpoints_tensor.SPECTRUM)
                mount()
