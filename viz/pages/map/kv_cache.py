"""The panel of the KV cache: the formula with the model's numbers, the bytes kept for this text, and their growth."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from model.analysis.kv_cache import CacheSize, formula, measure, numbers_per_token
from model.message import Message
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, bytes_text, in_turn, literal, percent
from viz.ui.parts import expander
from viz.ui.plots import stamp

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator
    from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

    from model.inference.text_model import TextModel
    from viz.state.inputs import Inputs
    from viz.state.session import Session

KEY = "map_kv_cache"


def place(model: TextModel) -> ExpanderContainer | None:
    """Place of the panel; None for a model that does not write, or that keeps a state and no keys and values."""
    return (
        None
        if model.kind in ("encoder-only", "recurrent")
        else expander(KEY, _("KV cache: what writing keeps of each token"))
    )


def sizes(session: Session, model: TextModel) -> list[CacheSize]:
    """Sizes of the cache over the tokens of the session's text, measured once for each trace.

    Raises:
        ValueError: the model goes on without a cache.
    """

    def measured() -> list[CacheSize]:
        text = (session.target or session.source).ids
        source = session.source.ids if session.target else []
        lengths = {len(text), *(2**power for power in range(len(text).bit_length()) if 2**power < len(text))}
        return measure(model, source, text, sorted(lengths))

    return session.cached(KEY, (session.trace, model), measured)


def chart_of(session: Session, model: TextModel) -> Chart | None:
    """The chart; None of a model that goes on without a cache."""
    try:
        return chart(session.inputs, sizes(session, model))
    except ValueError:
        return None


def latex(model: TextModel) -> str:
    """The bytes of a token, with the model's numbers."""
    each, size = numbers_per_token(model), model.dtype.itemsize
    if each is None:
        return ""
    layers, shape = model.config.n_decoder_layers, model.config.shape_of("decoder")
    total = rf"{each * size:,}".replace(",", "{,}")
    if each == 2 * layers * shape.kv_heads * shape.d_head:
        names = r"2 \cdot L \cdot h_{kv} \cdot d_k \cdot b"
        numbers = rf"2 \cdot {layers} \cdot {shape.kv_heads} \cdot {shape.d_head} \cdot {size}"
    else:  # layers that differ, or a latent
        counts = Counter(model.config.cached_of(layer) for layer in range(layers))
        parts = [rf"{count} \cdot {numbers_of_layer}" for numbers_of_layer, count in counts.items()]
        names, numbers = r"b \sum_{l=1}^{L} m_l", rf"{size} \cdot ({' + '.join(parts)})"
    return rf"\begin{{aligned}}{names} &= {numbers} \\ &= {total}\ \text{{B}}\end{{aligned}}"


def sentence(model: TextModel, last: CacheSize) -> str:
    """Sentence on the formula's letters, and on what is cached after the whole text."""
    if r"h_{kv}" in latex(model):
        text = _("For each token, of L layers, h_kv heads of keys and d_k channels, in numbers of b bytes.")
    else:
        text = _("For each token, of the numbers m that each layer keeps, of b bytes each.")
    text = text if last.formula is not None else ""
    text = in_turn(
        text,
        ngettext(
            "After the {count} token of this text it keeps {own}, {each} for each.",
            "After the {count} tokens of this text it keeps {own}, {each} for each.",
            last.tokens,
        ).format(count=f"{last.tokens:,}", own=bytes_text(last.own), each=bytes_text(round(last.own / last.tokens))),
    )
    if last.source:
        text = in_turn(
            text,
            ngettext(
                "Cross-attention keeps {cross} of the source's {count} token, once.",
                "Cross-attention keeps {cross} of the source's {count} tokens, once.",
                last.source,
            ).format(cross=bytes_text(last.cross), count=f"{last.source:,}"),
        )
    if last.deviation is None:
        text = in_turn(text, _("What its layers keep is unknown, so that there is no formula."))
    elif last.deviation == 0:
        text = in_turn(text, _("The formula gives exactly these bytes."))
    else:
        share = percent(last.deviation)
        text = in_turn(text, _("The formula is off by {share}.").format(share=share))
    return text


def chart(inputs: Inputs, cache_sizes: list[CacheSize]) -> Chart:
    """Measured bytes over the tokens of this text, and the formula on to the longest text that the model takes."""
    model, tokens = inputs.model, np.array([size.tokens for size in cache_sizes])
    kilobytes = np.array([size.measured for size in cache_sizes]) / 1e3
    series = [Series(Message("measured"), tokens, kilobytes, FIRST, "dots")]
    ends = [1, max(cache_sizes[-1].tokens, min(model.config.max_length, 4 * cache_sizes[-1].tokens))]
    line = [formula(model, end, cache_sizes[0].source) for end in ends]
    if None not in line:
        ys = np.array([float(each or 0) for each in line]) / 1e3
        series.insert(0, Series(Message("formula"), np.array(ends), ys, EXPECTED, dash=True))
    about = About(
        Message(
            "A model that writes keeps the keys and values of all tokens until now, so that each is computed once."
        ),
        [r"2 \cdot L \cdot h_{kv} \cdot d_k \cdot n \cdot b"],
        [measure],
        meaning=Message("What was read is not computed again; the price is memory, which grows with the text."),
    )
    note, mark = Message("{bytes} now", bytes=bytes_text(cache_sizes[-1].measured)), f"cache {stamp(inputs.trace)}"
    above = Caption(Message("Size of the KV cache"), f"kv-cache-{model.name}", mark, note, about=about)
    return Chart(above, series, Axis(Message("tokens")), Axis("kB", zero=True), tall=150)


def tell(where: DeltaGenerator, session: Session, model: TextModel) -> None:
    """The formula and what there is to say, in the panel."""
    with where:
        try:
            measurements = sizes(session, model)
        except ValueError as error:
            st.caption(as_sentence(translate_error(str(error))))
            return
        if written := latex(model):
            st.latex(written)
        st.caption(literal(sentence(model, measurements[-1])))
