"""Feed-forward units as pictures: layers, the units of one layer, one unit, one token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.feed_forward import (
    Direction,
    off,
    order_of,
    path_of,
    present,
    quantities,
    reaches_output,
    shares_off,
    strengths,
    threshold,
)
from model.capture.trace import EXPERT
from model.message import Message
from model.network.transformer import Network
from model.runtime.errors import require
from viz.figures.axis import Axis, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, PINNED, PLAIN
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.errors import beside_pin, translate_error
from viz.i18n.format import percent, significant, with_label
from viz.i18n.messages import joined
from viz.pages.feed_forward.text import layer_class, unit_formula, unit_quantity
from viz.state.pin import cached_for_pin
from viz.ui.plots import array, caption, compared, lacking, tokens_axis, word

if TYPE_CHECKING:
    from model.analysis.residual import Get
    from model.network.config import Units
    from viz.state.inputs import Inputs
    from viz.state.pin import Pin

PAGE = 40  # units side by side
TOP = 24  # units of one token
BINS = 60


SHARED = "shared"  # in the place of an expert's number: the network that every token goes through beside them


@dataclass(frozen=True)
class UnitSelection:
    """Choice of the controls and the address; None: nothing. expert: a number, or SHARED."""

    stack: str
    quantity: str
    order: str
    page: int = 0
    unit: int | None = None
    expert: str = ""


@dataclass(frozen=True)
class Chosen:
    """The chosen place: a stack's layer, of a mixture of experts one of them, a quantity of the units, their order, a
    page of them; a token and a unit. activation: of the units, "" where it is unknown. quantity: "" where an expert
    computes in a form that is not known.
    """

    stack: str
    layer: int
    expert: str
    quantity: str
    order: str
    page: int
    token: int
    unit: int
    activation: str

    @property
    def mixture(self) -> str:
        """Path of the layer's feed-forward network, of all its experts together."""
        return path_of(self.stack, self.layer)

    @property
    def path(self) -> str:
        """Path of the network whose units are looked at."""
        return self.mixture + part_of(self.expert)

    @property
    def name(self) -> str:
        return f"{self.path}.{self.quantity}"

    @property
    def place(self) -> str:
        """Name of the units' place, for headings."""
        if not self.expert:
            return Message("Layer {layer}", layer=self.layer + 1)
        return Message("Layer {layer}, {expert}", layer=self.layer + 1, expert=expert_name(self.expert))


def part_of(expert: str) -> str:
    """Suffix of an expert's path after that of its mixture."""
    return "" if not expert else f".{SHARED}" if expert == SHARED else f"{EXPERT}{expert}"


def expert_name(expert: str) -> str:
    return Message("shared expert") if expert == SHARED else Message("expert {number}", number=int(expert) + 1)


def unit_name(unit: int) -> str:
    """A unit's number on the screen: from 1, as those of layers, heads and experts."""
    return str(unit + 1)


def choose_units(inputs: Inputs, wishes: UnitSelection) -> Chosen:
    """The wishes, moved inside what there is; without a wish the expert that the chosen token takes with the largest
    weight, and the strongest of the units of the page.

    Raises:
        MissingQuantityError: the model does not show units in this layer.
    """
    stack, trace, config = wishes.stack, inputs.trace, inputs.config
    layer = min(inputs.selection.layer, config.depth(stack) - 1)
    token = min(inputs.selection.query, len(trace.tokens_of(f"{stack}.")) - 1)
    expert = _expert(inputs, path_of(stack, layer), token, wishes.expert)
    path = path_of(stack, layer) + part_of(expert)
    names = quantities(trace.network, path)
    activation = config.units_of(stack, layer).activation
    if not names and not expert:
        require(trace.network, f"{path}.hidden")
    if not names:
        return Chosen(stack, layer, expert, "", wishes.order, 0, token, -1, activation)
    quantity = wishes.quantity if wishes.quantity in names else names[0]
    units, unit = trace[f"{path}.{quantity}"].float(), wishes.unit
    page = min(wishes.page, pages(units.shape[-1]) - 1)
    if unit is None or unit >= units.shape[-1]:
        seen = order_of(units, wishes.order)[page * PAGE : (page + 1) * PAGE]
        unit = seen[int(_sizes(units[:, seen]).amax(dim=0).argmax())]
    return Chosen(stack, layer, expert, quantity, wishes.order, page, token, unit, activation)


def _expert(inputs: Inputs, path: str, token: int, wish: str) -> str:
    """The expert that is looked at; "" where there are none."""
    if f"{path}.gates" not in inputs.trace:
        return ""
    gates = inputs.trace[f"{path}.gates"]
    shared = f"{path}.{SHARED}.output" in inputs.trace
    if (wish == SHARED and shared) or (wish.isdecimal() and int(wish) < gates.shape[-1]):
        return wish
    return str(int(gates[token].argmax()))


def experts_of(units: Units) -> list[str]:
    """Choices in a mixture of experts; empty where there is none."""
    numbers = [str(number) for number in range(units.experts)]
    return [*numbers, SHARED] if numbers and units.shared else numbers


def is_used(inputs: Inputs, chosen: Chosen) -> bool:
    """True if a token of the text goes through the network that is looked at, whose units are known."""
    if not chosen.quantity:
        return False
    if not chosen.expert.isdecimal():
        return True
    return bool((inputs.now(f"{chosen.mixture}.gates")[:, int(chosen.expert)] != 0).any())


def pages(units: int) -> int:
    """Pages of so many units."""
    return -(-units // PAGE)


def values_of(inputs: Inputs, chosen: Chosen) -> tuple[Tensor, Tensor | None]:
    """(position, unit): the chosen quantity and its pinned counterpart."""
    return inputs.now(chosen.name).float(), inputs.before(chosen.name)


def ordered(inputs: Inputs, chosen: Chosen) -> list[int]:
    """All units of the layer in the chosen order."""
    return order_of(values_of(inputs, chosen)[0], chosen.order)


def columns_of(inputs: Inputs, chosen: Chosen) -> list[int]:
    """Units of the page, and behind them the chosen one where it is on another."""
    page = ordered(inputs, chosen)[chosen.page * PAGE : (chosen.page + 1) * PAGE]
    return page if chosen.unit in page else [*page, chosen.unit]


def _sizes(values: Tensor) -> Tensor:
    """Sizes of activations; of those that are not finite −1."""
    sizes: Tensor = values.abs().nan_to_num(nan=-1.0, posinf=-1.0)
    return sizes


def top_units(inputs: Inputs, chosen: Chosen) -> list[int]:
    """The strongest units of the chosen token."""
    row = values_of(inputs, chosen)[0][chosen.token]
    if bool(row.isnan().all()):
        return []
    largest: list[int] = row.abs().topk(min(TOP, len(row))).indices.tolist()
    return largest


def off_name(activation: str) -> str:
    limit = threshold(activation)
    return Message("share of zeros") if limit == 0 else Message("nearly zero (|a| ≤ {limit})", limit=significant(limit))


def layer_map(inputs: Inputs, chosen: Chosen) -> Heatmap:
    """The share of units that are off, layer by token."""
    values, other = (_shares(inputs, get, chosen.stack) for get in (inputs.now, inputs.before))
    assert values is not None
    scale = scale_of(array(values), off_name(chosen.activation))
    rows = Axis(Message("layer"), [str(row + 1) for row in range(len(values))], "layers")
    columns = tokens_axis(inputs, chosen.stack)
    share = float(values[chosen.layer].mean())
    note = "" if np.isnan(share) else Message("layer {layer}: {share}", layer=chosen.layer + 1, share=percent(share))
    network, layers = inputs.trace.network, range(len(values))
    known = [bool(quantities(network, path_of(chosen.stack, layer))) for layer in layers]
    hatched = "" if all(known) else Message("hatched: experts in place of one network")
    sentence = lacking(inputs, other) or hatched
    limit = threshold(chosen.activation)
    off_where = "a_{p,u} = 0" if limit == 0 else rf"|a_{{p,u}}| \le {limit:g}"
    about = About(
        Message("A row is a layer, a column a token: the share of the layer's units that are off at it."),
        [rf"\frac{{1}}{{d_{{\mathrm{{ff}}}}}} \sum_u \mathbb{{1}}[{off_where}]"],
        [off, shares_off],
        meaning=Message("Near 1 hardly a unit answers to that token, near 0 nearly all do."),
    )
    above = caption(inputs, Message("Every layer"), f"units-off-{chosen.stack}", note, sentence, about=about)
    drawn = np.repeat(np.array(known)[:, None], values.shape[1], axis=1)
    words = {"masked": Message("experts in place of one network")}
    return Heatmap(
        *(above, compared(values, other), rows, columns, scale),
        visible=drawn,
        words=words,
        chosen=chosen.layer,
        column=chosen.token,
    )


def unit_map(inputs: Inputs, chosen: Chosen) -> Heatmap:
    """One page of the layer's units at every token; a chosen unit of another page has a column behind them."""
    own, other = values_of(inputs, chosen)
    units, count = columns_of(inputs, chosen), own.shape[1]
    values = compared(own[:, units], None if other is None else other[:, units])
    quantity = unit_quantity(chosen.quantity)
    scale = scale_of(values.now, quantity, signed=bool((own < 0).any()))
    columns = Axis(Message("unit"), [unit_name(unit) for unit in units], f"units of {chosen.page}")
    first, last = chosen.page * PAGE + 1, min((chosen.page + 1) * PAGE, count)
    numbers: dict[str, Any] = {"place": chosen.place, "first": first, "last": last, "count": count}
    title = {
        "strength": Message("{place}: strongest units, {first} to {last} of {count}", **numbers),
        "weakness": Message("{place}: weakest units, {first} to {last} of {count}", **numbers),
        "number": Message("{place}: units {first} to {last} of {count}", **numbers),
    }[chosen.order]
    file = f"units-{chosen.name}-{chosen.order}-{chosen.page + 1}"
    sentence = Message("A row is a token, a column a unit of the layer: its {quantity}.", quantity=quantity)
    if len(units) > last - first + 1:
        title = Message("{units}, and unit {unit}", units=title, unit=unit_name(chosen.unit))
    about = _about(inputs, chosen, sentence)
    finding, note = unit_finding(inputs, chosen, own, units)
    above = caption(inputs, title, file, note, lacking(inputs, other), about=about, finding=finding)
    through = np.repeat(goes_through(inputs, chosen)[:, None], len(units), axis=1)
    return Heatmap(
        *(above, values, tokens_axis(inputs, chosen.stack), columns, scale),
        visible=through,
        words={"masked": Message("this token does not go through this expert")},
        chosen=chosen.token,
        column=units.index(chosen.unit),
        large=not chosen.expert,  # else the router's map is the page's large one
    )


def unit_finding(inputs: Inputs, chosen: Chosen, values: Tensor, seen: list[int]) -> tuple[str, str]:
    """The token at which the chosen unit has its largest value, and the strongest unit of the layer, where it is not
    among those that are seen; "" where none is finite.
    """
    sizes, tokens = _sizes(values), inputs.trace.tokens_of(chosen.name)

    def largest(unit: int) -> dict[str, str]:
        place = int(sizes[:, unit].argmax())
        return {
            "unit": unit_name(unit),
            "token": word(tokens[place]),
            "value": significant(float(values[place, unit])),
        }

    strongest = int(sizes.amax(dim=0).argmax())
    if float(sizes[:, strongest].max()) < 0:
        return "", ""
    own = float(sizes[:, chosen.unit].max())
    if own == float(sizes[:, strongest].max()):
        return Message("Unit {unit} is the strongest, at {token}: {value}", **largest(chosen.unit)), ""
    beyond = Message("of all units the strongest: {unit}, at {token} {value}", **largest(strongest))
    note = "" if strongest in seen else beyond
    if own < 0:
        return "", note
    return Message("Unit {unit} is strongest at {token}: {value}", **largest(chosen.unit)), note


def goes_through(inputs: Inputs, chosen: Chosen) -> NDArray[np.bool_]:
    """(position): whether a token goes through the network that is looked at."""
    if not chosen.expert.isdecimal():
        return np.ones(len(inputs.trace.tokens_of(chosen.name)), bool)
    taken: NDArray[np.bool_] = array((inputs.now(f"{chosen.mixture}.gates")[:, int(chosen.expert)] != 0).float()) > 0
    return taken


def all_units(inputs: Inputs, chosen: Chosen) -> Chart:
    """Strength of every unit of the layer over the text, in the chosen order."""
    own, other = values_of(inputs, chosen)
    units = ordered(inputs, chosen)
    name, places = Message("largest |a|"), np.arange(1, len(units) + 1)
    series = [Series(name, places, array(strengths(own)[units]), PLAIN)]
    if other is not None:
        before = array(strengths(other)[units])
        series.append(Series(Message("{name}, pinned", name=name), places, before, PINNED, dash=True))
    first = chosen.page * PAGE + 1
    series.append(
        Series(Message("shown above"), np.array([first, min(first + PAGE - 1, len(units))]), np.zeros(2), FIRST)
    )
    title = Message("All {count} units", count=len(units))
    about = About(
        Message("Every unit of the layer: how strong it is at the token where it is strongest."),
        [r"\max_p |a_{p,u}|"],
        [strengths],
        meaning=Message("Those at 0 answer to nothing in this text."),
    )
    above = caption(inputs, title, f"units-all-{chosen.name}", sentence=lacking(inputs, other), about=about)
    x_axis, y_axis = Axis(Message("place in this order")), Axis(name, zero=True)
    return Chart(above, series, x_axis, y_axis, tall=80)


def unit_chart(inputs: Inputs, chosen: Chosen) -> Chart:
    """One unit at every token."""
    trace, quantity = inputs.trace, unit_quantity(chosen.quantity)
    own, other = values_of(inputs, chosen)
    column, places = array(own[:, chosen.unit]), np.arange(len(own))
    series = [Series(quantity, places, column, PLAIN, "bars")]
    if other is not None:
        series.append(Series(Message("pinned"), places, array(other[:, chosen.unit]), PINNED, dash=True))
    title = Message("{place}: unit {unit}", place=chosen.place, unit=unit_name(chosen.unit))
    finite = np.isfinite(column)
    strongest = int(np.where(finite, np.abs(column), -1).argmax())
    note = f"{word(trace.tokens_of(chosen.name)[strongest])} {significant(float(column[strongest]))}"
    if not finite[goes_through(inputs, chosen)].all():
        note = Message("not a number")
    about = _about(inputs, chosen, Message("One unit at every token of the text: its {quantity}.", quantity=quantity))
    above = caption(
        inputs, title, f"unit-{chosen.name}-{unit_name(chosen.unit)}", note, lacking(inputs, other), about=about
    )
    x_axis, y_axis = tokens_axis(inputs, chosen.stack), Axis(quantity)
    return Chart(above, series, x_axis, y_axis, chosen=chosen.token, tall=110)


def token_chart(inputs: Inputs, chosen: Chosen) -> Chart:
    """The strongest units of one token."""
    trace, quantity = inputs.trace, unit_quantity(chosen.quantity)
    own, other = values_of(inputs, chosen)
    units = top_units(inputs, chosen)
    places, names = np.arange(len(units)), [unit_name(unit) for unit in units]
    series = [Series(quantity, places, array(own[chosen.token, units]), PLAIN, "bars")]
    if other is not None:
        series.append(Series(Message("pinned"), places, array(other[chosen.token, units]), PINNED, "dots"))
    token = trace.tokens_of(chosen.name)[chosen.token]
    title = Message("{place}: strongest units at {token}", place=chosen.place, token=token)
    alt, file = joined(": ", title, ", ".join(names[:8])), f"token-{chosen.name}-{chosen.token}"
    sentence = Message(
        "The units that are strongest at this token, by the size of their {quantity}.", quantity=quantity
    )
    about = _about(inputs, chosen, sentence)
    above = caption(inputs, title, file, sentence=lacking(inputs, other), alt=alt, about=about)
    framed = units.index(chosen.unit) if chosen.unit in units else -1
    x_axis, y_axis = Axis(Message("unit"), names, "top units"), Axis(quantity)
    return Chart(above, series, x_axis, y_axis, chosen=framed, tall=190)


def _about(inputs: Inputs, chosen: Chosen, sentence: str) -> About:
    """Explanation of a figure of the chosen quantity."""
    config = inputs.config
    units = config.units_of(chosen.stack, chosen.layer)
    return About(
        sentence,
        [unit_formula(config, units, chosen.quantity)],
        [layer_class(units)],
        meaning=Message("A unit that is on for few tokens has something in particular that it looks for."),
    )


def has_dense(inputs: Inputs, stack: str) -> bool:
    """True if a layer of a stack has a network that is no mixture of experts."""
    layers = range(inputs.config.depth(stack))
    return any(quantities(inputs.trace.network, path_of(stack, layer)) for layer in layers)


def _shares(inputs: Inputs, get: Get, stack: str) -> Tensor | None:
    """(layer, position): the share of units that are off, NaN in layers of experts; None where nothing is to be had."""
    shares, config = [], inputs.config
    for layer in range(config.depth(stack)):
        path = path_of(stack, layer)
        if not (names := quantities(inputs.trace.network, path)):
            shares.append(torch.full((len(inputs.trace.tokens_of(path)),), torch.nan))
            continue
        units = get(f"{path}.{names[0]}")
        if units is None:
            return None
        limit = threshold(config.units_of(stack, layer).activation)
        shares.append(shares_off(units.float(), limit).cpu())
    return torch.stack(shares)


# The units of the pinned model beside this one's: shares, what a unit reads and writes; or why they cannot be.

Numbers = NDArray[np.float32]
Scores = Callable[[Network, str, int], Tensor]


def pinned_layer(pin: Pin, chosen: Chosen) -> str:
    """Reason why the pinned model has no such layer; empty if it has."""
    if chosen.layer < pin.model.config.depth(chosen.stack):
        return ""
    return _("The pinned model has no such layer: there is nothing to compare with.")


def pinned_direction(
    inputs: Inputs, chosen: Chosen, direction: Direction, scores: Scores, side: str
) -> tuple[Numbers | None, str]:
    """The pinned model's scores of the same unit at the same tokens of the vocabulary; or a sentence why not."""
    pin, model = inputs.pin, inputs.model
    if pin is None:
        return None, ""
    network = pin.trace.network
    if network is model.network:
        return None, _("The pinned trace is of the same weights: what a unit reads and writes depends on no text.")
    if lacking := pinned_layer(pin, chosen):
        return None, lacking
    reaches = side == "source" or not model.predicts or reaches_output(pin.model.config, chosen.stack)
    parts = quantities(pin.trace.network, chosen.path)
    units = pin.trace[f"{chosen.path}.{parts[0]}"].shape[-1] if parts else 0
    if chosen.unit >= units or not reaches or not pin.same_words(model, side):
        return None, _("The pinned model has no such unit, or other words: there is nothing to compare with.")
    assert isinstance(network, Network)
    of = chosen.path, chosen.unit
    try:
        known, lacking = beside_pin(lambda: cached_for_pin(pin, scores, of, lambda: scores(network, *of)))
    except ValueError as error:
        return None, with_label(_("pinned"), translate_error(error))
    if known is None:
        return None, lacking
    best, worst = direction.ids
    return known[[*best, *reversed(worst)]].cpu().numpy(), ""


def pinned_share(inputs: Inputs, chosen: Chosen) -> str:
    """The share of units that are off in the pinned trace, and how many are off at all of its tokens here."""
    if inputs.pin is None:
        return ""
    units = inputs.before(f"{chosen.path}.{quantities(inputs.trace.network, chosen.path)[0]}")
    known = None if units is None else present(units).float()
    if known is None or not len(known):
        return Message("pinned: nothing of this shape")
    pinned_units = inputs.pin.model.config.units_of(chosen.stack, chosen.layer)
    silent = off(known, threshold(pinned_units.activation))
    return Message(
        "pinned, at the tokens of both: **{share}**, **{dead}** off at all of them",
        share=percent(float(silent.float().mean())),
        dead=int(silent.all(dim=0).sum()),
    )
