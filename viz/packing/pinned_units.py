"""The units of the pinned model beside this one's: shares, what a unit reads and writes; or why they cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.feed_forward import Direction, off, path_of, quantities, reaches_output, threshold
from model.network.transformer import Network
from viz.i18n.catalogue import _
from viz.i18n.errors import beside_pin, said
from viz.state.cache import of_pin
from viz.ui.plots import pinned

if TYPE_CHECKING:
    from model.network.config import TransformerConfig
    from viz.packing.units import Chosen
    from viz.state.workbench import Pin, Workbench

Numbers = NDArray[np.float32]
Scores = Callable[[Network, str, int, int], Tensor]


def pinned_layer(pin: Pin, chosen: Chosen) -> str:
    """Why the pinned model has no such layer; nothing, if it has."""
    config = pin.lens.config
    layers = config.n_encoder_layers if chosen.stack == "encoder" else config.n_decoder_layers
    if chosen.layer < layers:
        return ""
    return _("The pinned model has no such layer: there is nothing to compare with.")


def pinned_direction(
    bench: Workbench, chosen: Chosen, found: Direction, scores: Scores, side: str
) -> tuple[Numbers | None, str]:
    """The pinned model's scores of the same unit at the same tokens of the vocabulary; or a sentence why not."""
    pin, lens = bench.pin, bench.lens
    if pin is None or lens is None:
        return None, ""
    model = pin.trace.model
    if model is lens.model:
        return None, _("The pinned trace is of the same weights: what a unit reads and writes depends on no text.")
    if lacking := pinned_layer(pin, chosen):
        return None, lacking
    reaches = side == "source" or not lens.predicts or reaches_output(pin.lens.config, chosen.stack)
    if chosen.unit >= pin.lens.config.d_ff or not reaches or not pin.same_words(lens, side):
        return None, _("The pinned model has no such unit, or other words: there is nothing to compare with.")
    assert isinstance(model, Network)
    of = chosen.stack, chosen.layer, chosen.unit
    try:
        known, lacking = beside_pin(lambda: of_pin(pin, scores, of, lambda: scores(model, *of)))
    except ValueError as error:
        return None, f"{_('pinned')}: {said(error)}"
    if known is None:
        return None, lacking
    best, worst = found.ids
    return known[[*best, *reversed(worst)]].cpu().numpy(), ""


def pinned_share(bench: Workbench, config: TransformerConfig, chosen: Chosen) -> str:
    """The share of units that are off in the pinned trace, and how many are off at all of its tokens here."""
    if bench.pin is None:
        return ""
    units = pinned(bench)(f"{path_of(chosen.stack, chosen.layer)}.{quantities(config)[0]}")
    known = None if units is None else units[~units.isnan().any(dim=-1)].float()
    if known is None or not len(known):
        return " · " + _("pinned: nothing of this shape")
    silent = off(known, threshold(bench.pin.lens.config))
    sentence = _("pinned, at the tokens of both: **{share:.1%}**, **{dead}** off at all of them")
    return " · " + sentence.format(share=float(silent.float().mean()), dead=int(silent.all(dim=0).sum()))
