"""Feed-forward units as pictures: layers, the units of one layer, one unit, one token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.feed_forward import (
    Direction,
    off,
    order_of,
    path_of,
    quantities,
    reaches_output,
    shares_off,
    strengths,
    threshold,
)
from model.network.transformer import Network
from viz.components.old_plots import chart, heatmap
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import beside_pin, translate_error
from viz.i18n.format import significant
from viz.pages.feed_forward.text import unit_quantity
from viz.state.pin import cached_for_pin
from viz.ui.plots import FIRST, PINNED, SECOND, array, chosen_token, header, levels, missing, now, pinned, side_of

if TYPE_CHECKING:
    from model.analysis.norms import Get
    from model.network.config import TransformerConfig
    from viz.state.pin import Pin
    from viz.state.session import Session

PAGE = 40  # units side by side
TALL = 340  # pixels of their map, where the text is short
TOP = 24  # units of one token
BINS = 60


@dataclass(frozen=True)
class Chosen:
    """What is looked at: a stack's layer, a quantity of its units, their order, a page of them; a token and a unit."""

    stack: str
    layer: int
    quantity: str
    order: str
    page: int
    token: int
    unit: int

    @property
    def name(self) -> str:
        return f"{path_of(self.stack, self.layer)}.{self.quantity}"


def choose_units(
    session: Session, config: TransformerConfig, stack: str, quantity: str, order: str, page: int, unit: str | None
) -> Chosen:
    """The wishes, moved inside what there is; without a wish the chosen token's strongest unit."""
    layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    layer = min(session.selection.layer, layers - 1)
    token = chosen_token(session, stack)
    if unit and len(unit) < 6 and unit.isascii() and unit.isdigit() and int(unit) < config.d_ff:
        wish = int(unit)
    else:
        wish = int(session.trace[f"{path_of(stack, layer)}.{quantities(config)[0]}"][token].float().abs().argmax())
    page = min(page, pages(config) - 1)
    return Chosen(stack, layer, quantity, order, page, token, wish)


def pages(config: TransformerConfig) -> int:
    return -(-config.d_ff // PAGE)


def values_of(session: Session, chosen: Chosen) -> tuple[Tensor, Tensor | None]:
    """(position, unit): the chosen quantity and its pinned counterpart."""
    own = now(session)(chosen.name)
    assert own is not None
    return own.float(), pinned(session)(chosen.name)


def ordered(session: Session, chosen: Chosen) -> list[int]:
    """All units of the layer in the chosen order."""
    return order_of(values_of(session, chosen)[0], chosen.order)


def on_page(session: Session, chosen: Chosen) -> list[int]:
    return ordered(session, chosen)[chosen.page * PAGE : (chosen.page + 1) * PAGE]


def top_units(session: Session, chosen: Chosen) -> list[int]:
    """The strongest units of the chosen token."""
    row = values_of(session, chosen)[0][chosen.token]
    found: list[int] = row.abs().topk(min(TOP, len(row))).indices.tolist()
    return found


def off_name(config: TransformerConfig) -> str:
    limit = threshold(config)
    return _("share of zeros") if limit == 0 else _("share of |a| ≤ {limit:g}").format(limit=limit)


def layer_map(
    session: Session, config: TransformerConfig, chosen: Chosen, key: str, on_cell: Callable[[], None]
) -> Mount:
    """The share of units that are off, layer by token; a click chooses both."""
    trace = session.trace
    values, other = (_shares(get, config, chosen.stack) for get in (now(session), pinned(session)))
    assert values is not None
    name = off_name(config)
    shown, scale = levels(values, other, session, name)
    labels = trace.tokens_of(f"{chosen.stack}.")
    note = _("layer {layer}: {share:.1%}").format(layer=chosen.layer + 1, share=float(values[chosen.layer].mean()))
    more = {
        "rows": {"title": _("layer"), "labels": [str(row + 1) for row in range(len(values))], "side": "layers"},
        "columns": {"title": _("token"), "labels": labels, "side": side_of(trace, chosen.stack)},
        "scale": scale,
        "chosen": chosen.layer,
        "column": chosen.token,
        "note": note,
        "sentence": missing(session, other),
    }
    alt = _("{name} in {rows} layers at {columns} tokens; {note}.").format(
        name=name, rows=len(values), columns=len(labels), note=note
    )
    csv = (_("layer"), _("token"), name, _("masked"))
    packed = header(trace, _("Every layer"), alt, f"units-off-{chosen.stack}", csv, more)
    return heatmap(shown, np.ones(shown.shape, bool), packed, key, on_cell=on_cell)


def unit_map(session: Session, chosen: Chosen, key: str, on_cell: Callable[[], None]) -> Mount:
    """One page of the layer's units at every token; a click chooses both."""
    trace = session.trace
    own, other = values_of(session, chosen)
    units = on_page(session, chosen)
    before = None if other is None else other[:, units]
    name = unit_quantity(chosen.quantity)
    shown, scale = levels(own[:, units], before, session, name, signed=bool((own < 0).any()))
    labels = trace.tokens_of(chosen.name)
    first = chosen.page * PAGE + 1
    title = _("Layer {layer}: units {first} to {last} of {count}").format(
        layer=chosen.layer + 1, first=first, last=first + len(units) - 1, count=own.shape[1]
    )
    more = {
        "rows": {"title": _("token"), "labels": labels, "side": side_of(trace, chosen.stack)},
        "columns": {"title": _("unit"), "labels": [str(unit) for unit in units], "side": f"units of {chosen.page}"},
        "scale": scale,
        "chosen": chosen.token,
        "column": units.index(chosen.unit) if chosen.unit in units else -1,
        "wanted": TALL,
        "sentence": missing(session, other),
    }
    alt = _("{title}, {name} at {rows} tokens, from {low} to {high}.").format(
        title=title,
        name=name,
        rows=len(labels),
        low=significant(float(own[:, units].min())),
        high=significant(float(own[:, units].max())),
    )
    csv = (_("token"), _("unit"), name, _("masked"))
    file = f"units-{chosen.name}-{chosen.order}-{chosen.page + 1}"
    packed = header(trace, title, alt, file, csv, more)
    return heatmap(shown, np.ones(shown.shape, bool), packed, key, on_cell=on_cell)


def all_units(session: Session, chosen: Chosen, key: str, on_place: Callable[[], None]) -> Mount:
    """How strong every unit of the layer gets over the text, in the chosen order; a click opens its page."""
    trace = session.trace
    own, other = values_of(session, chosen)
    units = ordered(session, chosen)
    before = None if other is None else array(strengths(other)[units])
    places = np.arange(1, len(units) + 1)
    series = [Series(_("largest |a|"), places, array(strengths(own)[units]), SECOND)]
    if before is not None:
        series.append(Series(_("{name}, pinned").format(name=_("largest |a|")), places, before, PINNED, dash=True))
    first = chosen.page * PAGE + 1
    shown = np.array([first, min(first + PAGE - 1, len(units))])
    series.append(Series(_("shown above"), shown, np.zeros(2), FIRST))
    name = _("All {count} units").format(count=len(units))
    alt = _("The largest activation of each of {count} units over the text.").format(count=len(units))
    more = {
        "x": {"title": _("place in this order")},
        "y": {"title": _("largest |a|"), "zero": True},
        "tall": 80,
        "sentence": missing(session, other),
    }
    csv = (_("series"), _("place in this order"), _("largest |a|"))
    return chart(series, header(trace, name, alt, f"units-all-{chosen.name}", csv, more), key, on_place)


def unit_chart(session: Session, chosen: Chosen, key: str, on_place: Callable[[], None]) -> Mount:
    """One unit at every token; a click chooses the token."""
    trace = session.trace
    own, other = values_of(session, chosen)
    labels = trace.tokens_of(chosen.name)
    column = array(own[:, chosen.unit])
    series = [Series(unit_quantity(chosen.quantity), np.arange(len(column)), column, SECOND, "bars")]
    if other is not None:
        before = array(other[:, chosen.unit])
        series.append(Series(_("pinned"), np.arange(len(column)), before, PINNED, dash=True))
    strongest = labels[int(np.abs(column).argmax())]
    name = _("Unit {unit} of layer {layer}").format(unit=chosen.unit, layer=chosen.layer + 1)
    note = f"{strongest} {significant(float(column[np.abs(column).argmax()]))}"
    more = {
        "x": {"title": _("token"), "labels": labels, "side": side_of(trace, chosen.stack)},
        "y": {"title": unit_quantity(chosen.quantity)},
        "chosen": chosen.token,
        "note": note,
        "tall": 110,
        "sentence": missing(session, other),
    }
    alt = _("{name} at {count} tokens; strongest: {note}.").format(name=name, count=len(labels), note=note)
    csv = (_("series"), _("token"), unit_quantity(chosen.quantity))
    return chart(series, header(trace, name, alt, f"unit-{chosen.name}-{chosen.unit}", csv, more), key, on_place)


def token_chart(session: Session, chosen: Chosen, key: str, on_place: Callable[[], None]) -> Mount:
    """The strongest units of one token; a click chooses the unit."""
    trace = session.trace
    own, other = values_of(session, chosen)
    units = top_units(session, chosen)
    places = np.arange(len(units))
    series = [Series(unit_quantity(chosen.quantity), places, array(own[chosen.token, units]), SECOND, "bars")]
    if other is not None:
        series.append(Series(_("pinned"), places, array(other[chosen.token, units]), PINNED, "dots"))
    token = trace.tokens_of(chosen.name)[chosen.token]
    name = _("Strongest units at {token}").format(token=token)
    more = {
        "x": {"title": _("unit"), "labels": [str(unit) for unit in units], "side": "top units"},
        "y": {"title": unit_quantity(chosen.quantity)},
        "chosen": units.index(chosen.unit) if chosen.unit in units else -1,
        "tall": 190,
        "sentence": missing(session, other),
    }
    alt = f"{name}: {', '.join(str(unit) for unit in units[:8])}"
    csv = (_("series"), _("unit"), unit_quantity(chosen.quantity))
    return chart(series, header(trace, name, alt, f"token-{chosen.name}-{chosen.token}", csv, more), key, on_place)


def _shares(get: Get, config: TransformerConfig, stack: str) -> Tensor | None:
    layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    found = [get(f"{path_of(stack, layer)}.{quantities(config)[0]}") for layer in range(layers)]
    if any(units is None for units in found):
        return None
    return torch.stack([shares_off(units.float(), threshold(config)) for units in found if units is not None])


# The units of the pinned model beside this one's: shares, what a unit reads and writes; or why they cannot be.

Numbers = NDArray[np.float32]
Scores = Callable[[Network, str, int, int], Tensor]


def pinned_layer(pin: Pin, chosen: Chosen) -> str:
    """Why the pinned model has no such layer; nothing, if it has."""
    config = pin.model.config
    layers = config.n_encoder_layers if chosen.stack == "encoder" else config.n_decoder_layers
    if chosen.layer < layers:
        return ""
    return _("The pinned model has no such layer: there is nothing to compare with.")


def pinned_direction(
    session: Session, chosen: Chosen, found: Direction, scores: Scores, side: str
) -> tuple[Numbers | None, str]:
    """The pinned model's scores of the same unit at the same tokens of the vocabulary; or a sentence why not."""
    pin, model = session.pin, session.model
    if pin is None or model is None:
        return None, ""
    network = pin.trace.network
    if network is model.network:
        return None, _("The pinned trace is of the same weights: what a unit reads and writes depends on no text.")
    if lacking := pinned_layer(pin, chosen):
        return None, lacking
    reaches = side == "source" or not model.predicts or reaches_output(pin.model.config, chosen.stack)
    if chosen.unit >= pin.model.config.d_ff or not reaches or not pin.same_words(model, side):
        return None, _("The pinned model has no such unit, or other words: there is nothing to compare with.")
    assert isinstance(network, Network)
    of = chosen.stack, chosen.layer, chosen.unit
    try:
        known, lacking = beside_pin(lambda: cached_for_pin(pin, scores, of, lambda: scores(network, *of)))
    except ValueError as error:
        return None, f"{_('pinned')}: {translate_error(error)}"
    if known is None:
        return None, lacking
    best, worst = found.ids
    return known[[*best, *reversed(worst)]].cpu().numpy(), ""


def pinned_share(session: Session, config: TransformerConfig, chosen: Chosen) -> str:
    """The share of units that are off in the pinned trace, and how many are off at all of its tokens here."""
    if session.pin is None:
        return ""
    units = pinned(session)(f"{path_of(chosen.stack, chosen.layer)}.{quantities(config)[0]}")
    known = None if units is None else units[~units.isnan().any(dim=-1)].float()
    if known is None or not len(known):
        return " · " + _("pinned: nothing of this shape")
    silent = off(known, threshold(session.pin.model.config))
    sentence = _("pinned, at the tokens of both: **{share:.1%}**, **{dead}** off at all of them")
    return " · " + sentence.format(share=float(silent.float().mean()), dead=int(silent.all(dim=0).sum()))
