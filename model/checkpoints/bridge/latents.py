"""Latent attention of a bridged layer, recognised by the numbers of a probe."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from model.checkpoints.bridge.probe import Event, is_linear, same
from model.network.config import Latent


def latent_of(attention: Event, calls: Sequence[Event], d_model: int) -> Latent | None:
    """Widths of the latent that keys and values are made of; None: they are not made of one.

    attention: its call. calls: of the part of the layer that it stands in.
    """
    seen = attention.attention
    if seen is None or seen.call is None:
        return None
    value, query = seen.call.value[0], seen.call.query[0]
    linears = [call for call in calls if is_linear(call)]
    narrow = [call for call in linears if call.x.shape[-1] < d_model]
    up = next((call for call in narrow if _ends_in(_rows(call.y), value)), None)
    if up is None:
        return None
    latent = _rows(up.x)
    down = next((call for call in linears if call.end < up.begin and _begins(call, calls, latent, d_model)), None)
    if down is None:
        return None
    wide = query.shape[0] * query.shape[-1]
    asks = next((call for call in narrow if call is not up and call.y.shape[-1] == wide), None)
    turned = down.y.shape[-1] - latent.shape[-1]
    return Latent(latent.shape[-1], turned, None if asks is None else asks.x.shape[-1], value.shape[-1])


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


def _ends_in(rows: Tensor, value: Tensor) -> bool:
    """True if the rows (position, channel), cut into heads, end in the values (head, position, channel)."""
    heads, positions, width = value.shape
    if len(rows) != positions or rows.shape[-1] % heads or rows.shape[-1] // heads < width:
        return False
    return same(rows.unflatten(-1, (heads, -1))[..., -width:].transpose(0, 1), value)


def _begins(down: Event, calls: Sequence[Event], latent: Tensor, d_model: int) -> bool:
    """True if a matrix reads the stream and its output begins with the latent, perhaps before a norm."""
    width = latent.shape[-1]
    if down.x.shape[-1] != d_model or down.y.shape[-1] < width:
        return False
    part = _rows(down.y)[:, :width]
    if same(part, latent):
        return True
    return any(
        call.outputs and same(_rows(call.x), part) and same(_rows(call.y), latent) for call in calls if call.inputs
    )
