"""The loaded model with other positions: type, base and length applied to its very weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.predictions import text_losses, token_losses
from model.inference.copies import BASES, LONGEST, vary
from model.inference.model import Inspectable
from model.network.config import CHOICES
from viz.i18n.catalogue import _
from viz.i18n.format import not_ours
from viz.sections.before_after import compare, losses_table, pack_changes, pack_losses, verdicts
from viz.state.cache import remembered
from viz.state.positions import WITH_BASE, Wished, as_trained, position_name, wish
from viz.state.texts import first_source, typed
from viz.state.workbench import Key, Pin, workbench
from viz.ui.fields import Field, number_field, parse, written
from viz.ui.parts import Views, classes, data_table, explanation, folded, mount, nothing

TYPE = "applied_type"


def section(lens: Inspectable, row: DeltaGenerator) -> Views:
    """The wish first; then the text in the model with and without it."""
    if not lens.model.ours:
        st.info(not_ours())
        return nothing
    choose_type(lens, as_trained(lens), row)
    pin = row.container()
    left, right = st.columns([11, 9], gap="medium")
    with left:
        fields = st.columns(2, gap="medium")
        losses = st.container()
    with right:
        said, changes = st.container(), st.container()
        explain(lens)
        data = folded("applied_data", _("Data"))
    choose_numbers(lens, as_trained(lens), fields)

    def views(lens: Inspectable) -> Iterator[None]:
        bench, trained = workbench(), as_trained(lens)
        both = remembered("applied", (bench.trace, lens, trained), lambda: compare(bench, lens, trained))
        parts = [(losses, pack_losses(bench, both))]
        if both.before not in (None, both.now):
            parts.append((changes, pack_changes(bench, both)))
        yield
        said.text("\n".join(verdicts(both)))
        mount(parts)
        if both.before is not None and lens is not trained:
            text = typed(Key.SOURCE, first_source(lens))
            kept = Pin(trained.name, text, both.before.trace, trained, (both.source, both.target))
            pin.button(_("Pin the trained model's trace"), on_click=_pin, args=(kept,), key="pin_trained")
        elif lens is trained:
            changes.text(_("Choose another type, base or length: every page then shows the model with it."))
        data_table("applied_data", lambda: losses_table(bench, both), "loss", place=data, parts=parts)

    return views


def choose_type(lens: Inspectable, trained: Inspectable, place: DeltaGenerator) -> None:
    """The types that this checkpoint can have: learned positions and distances only if it was trained with them."""
    possible = [name for name in CHOICES["position"] if _can_be(trained, name)]
    st.session_state[TYPE] = lens.config.position
    place.segmented_control(
        _("Positions"),
        possible,
        format_func=position_name,
        key=TYPE,
        required=True,
        on_change=_choose,
        label_visibility="collapsed",
    )


def _can_be(trained: Inspectable, name: str) -> bool:
    if name in ("learned", "relative"):
        return trained.config.position == name
    return name != "rotary" or (trained.config.rotary_channels or trained.config.d_head) % 2 == 0


def choose_numbers(lens: Inspectable, trained: Inspectable, places: Sequence[DeltaGenerator]) -> None:
    low, high = BASES
    base = Field("applied_base", _("base"), "", low, high, whole=False, log=True, bound=False)
    longest = max(LONGEST, trained.config.max_length)
    least = 3 if lens.kind == "encoder-only" else 1
    length = Field("applied_length", _("longest input"), "", least, longest, log=True, bound=False)
    if lens.config.position in WITH_BASE:
        _number(places[0], base, lens.config.position_base, Wished.BASE)
    else:
        sentence = _("{type}: no base.")
        places[0].caption(sentence.format(type=position_name(lens.config.position)))
    if lens.config.position == "learned":
        length = replace(length, high=trained.config.max_length)
    _number(places[1], length, lens.config.max_length, Wished.LENGTH)


def _number(place: DeltaGenerator, field: Field, value: float, wished: Wished) -> None:
    """A field that says what the model has, unless another number is being typed."""
    made = replace(field, changed=partial(_apply, field, wished))
    try:
        same = parse(str(st.session_state.get(field.key, "")), field)[0] == value
    except ValueError:
        same = field.key in st.session_state
    if not same:
        st.session_state[field.key] = written(value)
    number_field(place, made)


def _apply(field: Field, wished: Wished) -> None:
    try:
        (value,) = parse(str(st.session_state[field.key]), field)
    except ValueError:
        return  # the field says why
    wish(**{wished: int(value) if field.whole else value})


def _choose() -> None:
    wish(**{Wished.POSITION: st.session_state[TYPE]})


def _pin(kept: Pin) -> None:
    workbench().pin = kept


def position_classes(lens: Inspectable) -> list[type]:
    """What tells this model where a token stands: of ALiBi and rotary positions a part of the attention."""
    stack = "encoder" if lens.config.n_encoder_layers else "decoder"
    every = classes(*(lens.model.get_submodule(f"{stack}.{part}") for part in ("embedding", "layers.0.self_attention")))
    return [each for each in every if each.__module__ in ("model.network.positions", "model.network.positions")]


def explain(lens: Inspectable) -> None:
    explanation(
        "applied_explanation",
        [
            r"\mathrm{loss}_t = -\ln p(\mathrm{token}_t \mid \ldots)",
            r"\mathrm{perplexity} = e^{\overline{\mathrm{loss}}}",
        ],
        _(
            "Positions: Vaswani et al., section 3.5. The weights are the checkpoint's own; only the code of the "
            "positions is another one, which the model was not trained with. Every page shows the model with it until "
            "you restore it. Where the model writes the target, both losses are of the target that it writes as "
            "trained. A model that fills in masks has no next token: each token is hidden in turn (Salazar et al., "
            "2020). This is the code that has just run:"
        ),
        *(*position_classes(lens), vary, token_losses, text_losses),
    )
