"""A new model: its kind, a preset, and every option of its config."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, cast, get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.sources import KIND_UNITS, VOCABULARY, Data, Units, options_without, preset_options, usual_units
from model.message import Message
from model.network.config import NETWORK_OPTIONS, PRESETS, Kind
from model.options import field_text
from viz.i18n.catalogue import _
from viz.i18n.messages import in_language
from viz.state.session import choice, choose, follow_language
from viz.ui import new_model
from viz.ui.new_model import FIRST_PRESET, FORM

USUAL = (
    *("d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "max_length"),
    *("dropout", "position", "norm_placement"),
)
RARE = tuple(name for name in NETWORK_OPTIONS if name not in USUAL)
USUALLY = "usual"  # as the units: what suits the data
KIND_NAMES = {
    "encoder-decoder": Message("encoder-decoder"),
    "decoder-only": Message("decoder-only"),
    "encoder-only": Message("encoder-only"),
    "recurrent": Message("recurrent with attention"),
}
UNIT_NAMES = {
    "mixed": Message("BPE pieces → characters"),
    "bpe": Message("BPE pieces"),
    "words": Message("whole words"),
    "characters": Message("characters"),
    "joint": Message("BPE pieces of one vocabulary"),
}


class Part(StrEnum):
    """Names in the session state; kind and preset are in the address bar too."""

    KIND = new_model.KIND
    PRESET = new_model.PRESET
    PUT = new_model.PUT
    OPTIONS = new_model.OPTIONS
    RARE = "network_rare"
    OPENED_FOR = "network_opened_for"  # the faults for which their fields are shown
    UNITS = "network_units"
    VOCABULARY = "network_vocabulary"


def choose_kind(place: DeltaGenerator) -> tuple[Kind, str]:
    """The kind and the preset; another one writes its options into the fields."""
    kinds: Sequence[Kind] = get_args(Kind)
    kind: Any = choose(_("Kind"), kinds, kinds[0], Part.KIND, KIND_NAMES.__getitem__, place)
    preset = choose(_("Preset"), list(PRESETS), FIRST_PRESET, Part.PRESET, str, place)
    if st.session_state.get(Part.PUT) != (kind, preset) or not FORM.holds():
        FORM.put(preset_options(kind, preset))
        st.session_state[Part.PUT] = (kind, preset)
    FORM.refill()
    return kind, preset


def preset_fields() -> dict[str, Any]:
    """Values of the fields, by their keys, until one is changed."""
    kind, preset = st.session_state[Part.PUT]
    return {
        FORM.key(name): field_text(value)
        for name, value in preset_options(kind, preset).items()
        if name in NETWORK_OPTIONS
    }


def chosen_kind() -> Kind:
    """Known before the buttons are drawn."""
    kinds: Sequence[Kind] = get_args(Kind)
    return cast(Kind, choice(kinds, kinds[0], Part.KIND))


def read(kind: Kind) -> tuple[dict[str, Any], dict[str, str]]:
    """The options in the fields, and what is wrong with them, by name."""
    return FORM.read([name for name in NETWORK_OPTIONS if name not in options_without(kind)])


def fields(place: DeltaGenerator, kind: Kind, wrong: dict[str, str]) -> None:
    """Every option that this kind has, folded: those one thinks of first, the others when opened once more."""
    left_out = options_without(kind)
    hidden = sorted(wrong)
    if hidden and hidden != st.session_state.get(Part.OPENED_FOR):  # a fault is shown beside its field
        st.session_state[Part.OPTIONS] = True
        if wrong.keys() & set(RARE):
            st.session_state[Part.RARE] = True
    st.session_state[Part.OPENED_FOR] = hidden
    options = place.expander(_("Sizes and options"), key=Part.OPTIONS, on_change="rerun")
    FORM.draw(options, [name for name in USUAL if name not in left_out], wrong)
    rare = options.expander(_("All options"), key=Part.RARE, on_change="rerun")
    if rare.open:
        known = [name for name in RARE if name not in left_out]
        switches = [name for name in known if NETWORK_OPTIONS[name].kind is bool]
        FORM.draw(rare, [name for name in known if name not in switches], wrong)
        FORM.draw(rare, switches, wrong, columns=2)


def tokens(place: DeltaGenerator, kind: Kind, data: Data | None) -> tuple[Units, int]:
    """Units of the new tokenizers, and how many tokens a BPE has."""
    left, right = place.columns(2, gap="small")
    names = [USUALLY, *KIND_UNITS[kind]]
    tied = st.session_state[FORM.key("tied_embeddings")] in ("inputs", "all")
    usual = usual_units(kind, data.task, tied) if data else "mixed"
    words: dict[str, str] = {name: in_language(text) for name, text in UNIT_NAMES.items()}
    words[USUALLY] = words[usual] + _(" (usual)")
    follow_language(f"{Part.UNITS}_{kind}")
    chosen: Any = left.selectbox(
        _("Tokens"),
        names,
        format_func=words.__getitem__,
        key=f"{Part.UNITS}_{kind}",
        persist_state="session",
    )
    units = usual if chosen == USUALLY else chosen
    if units == "characters":  # as many as there are in the data
        return units, VOCABULARY
    vocabulary = right.number_input(
        _("Size of the vocabulary"),
        8,
        100_000,
        VOCABULARY,
        step=100,
        key=Part.VOCABULARY,
        persist_state="session",
    )
    return units, vocabulary
