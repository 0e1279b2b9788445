"""Properties of position encodings: wavelengths, likeness over distance, the rotation that moves them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model.capture.hooks import no_recording
from model.network.positions import sinusoidal
from model.network.transformer import Network, Transformer

Table = Callable[[int, int, float], Tensor]  # from length, d_model and base to codes (length, d_model)


def wavelengths(d_model: int, base: float = 10000.0) -> Float[Tensor, dimension]:
    """Wavelengths 2π · base^(2i/d_model), in positions, of both dimensions of pair i (section 3.5)."""
    pair = torch.arange(0, d_model, 2, dtype=torch.float64)
    return (2 * math.pi * base ** (pair / d_model)).repeat_interleave(2)


def wave_at(places: Float[Tensor, place], dimension: int, wavelengths: Float[Tensor, d_model]) -> Float[Tensor, place]:
    """One dimension of an encoding at any places, between positions too: a sine where it is even, else a cosine."""
    angle = places * (2 * math.pi / wavelengths[dimension])
    return angle.cos() if dimension % 2 else angle.sin()


def likeness_at(distances: Float[Tensor, place], wavelengths: Float[Tensor, d_model]) -> Float[Tensor, place]:
    """PE(p) · PE(p + distance) at any distances, between positions too: Σ cos(2π distance / λ_i) over the pairs."""
    return (distances[:, None] * (2 * math.pi / wavelengths[::2])).cos().sum(dim=-1)


def misread_wavelengths(d_model: int, base: float = 10000.0) -> Float[Tensor, dimension]:
    """Wavelengths 2π · base^(2c/d_model) of `misread`, in positions, for channel c, counted singly."""
    channel = torch.arange(d_model, dtype=torch.float64)
    return 2 * math.pi * base ** (2 * channel / d_model)


def misread(length: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "length d_model"]:
    """Table of the formula as tutorials misread it: `2 * i / d_model` where i already counts in twos.

    Its sine stands on channel i with exponent 2i/d_model, its cosine on i + 1 with exponent 2(i + 1)/d_model: the
    wavelengths reach base² instead of base, and sine and cosine of a pair differ in theirs.
    """
    angle = torch.arange(length, dtype=torch.float64)[:, None] * (2 * math.pi / misread_wavelengths(d_model, base))
    return torch.where(torch.arange(d_model) % 2 == 0, angle.sin(), angle.cos())


def pair_error(table: Float[Tensor, "length d_model"]) -> float:
    """Largest |sin² + cos² − 1| of a pair: 0 where its sine and its cosine turn together."""
    return float((table[:, ::2] ** 2 + table[:, 1::2] ** 2 - 1).abs().max())


def rotation(k: int, d_model: int, base: float = 10000.0) -> Float[Tensor, "d_model d_model"]:
    """R_k with PE(p + k) = R_k PE(p) for every p: a turn of each pair by ω = k / base^(2i/d_model) (section 3.5).

    sin(a + ω) = cos ω · sin a + sin ω · cos a and cos(a + ω) = −sin ω · sin a + cos ω · cos a.
    """
    turn = 2 * math.pi * k / wavelengths(d_model, base)[::2]
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    sine, cosine = torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)
    matrix[sine, sine] = matrix[cosine, cosine] = turn.cos()
    matrix[sine, cosine], matrix[cosine, sine] = turn.sin(), -turn.sin()
    return matrix


def shift_residual(
    table: Float[Tensor, "length d_model"], matrix: Float[Tensor, "d_model d_model"], k: int
) -> Float[Tensor, place]:
    """‖R_k PE(p) − PE(p + k)‖ for every p of the table with p + k in it too."""
    first, last = max(0, -k), min(len(table), len(table) - k)
    places = torch.arange(first, max(first, last))
    distances: Tensor = torch.linalg.vector_norm(table[places] @ matrix.T - table[places + k], dim=-1)
    return distances


def best_shift(table: Float[Tensor, "length d_model"], k: int) -> Float[Tensor, "d_model d_model"]:
    """Matrix that comes nearest to moving codes by k ≥ 0, pair by pair, by least squares.

    Raises:
        ValueError: no position of the table has another k after it.
    """
    if not 0 <= k < len(table):
        raise ValueError(f"k ({k}) must be at least 0 and below the length ({len(table)})")
    d_model = table.shape[1]
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for pair in range(0, d_model, 2):
        place = slice(pair, pair + 2)
        before, after = table[: len(table) - k, place], table[k:, place]
        matrix[place, place] = torch.linalg.lstsq(before, after, driver="gelsd").solution.T
    return matrix


def likeness(table: Float[Tensor, "length d_model"], place: int) -> Float[Tensor, length]:
    """PE(place) · PE(q) for every q."""
    return table @ table[place]


def likeness_error(table: Float[Tensor, "length d_model"], places: Sequence[int]) -> float:
    """Largest difference of PE(p) · PE(q) between these p at one and the same distance q − p."""
    length, largest = len(table), 0.0
    rows = [likeness(table, place) for place in places]
    for number, place in enumerate(places):
        for other, row in zip(places[:number], rows, strict=False):
            first, last = max(-place, -other), min(length - place, length - other)
            difference = rows[number][place + first : place + last] - row[other + first : other + last]
            largest = max(largest, float(difference.abs().max()))
    return largest


def length_difference(
    place: int, lengths: Sequence[int], d_model: int, base: float = 10000.0, table: Table = sinusoidal
) -> float:
    """Largest difference of the code of one position between tables of these lengths."""
    codes = torch.stack([table(length, d_model, base)[place] for length in lengths])
    return float((codes - codes[0]).abs().max())


def rotary_angles(length: int, d_head: int, base: float = 10000.0) -> Float[Tensor, "length pair"]:
    """Angles p / base^(2i/d_head), in radians, by which a query or key at p turns its pair i (Su et al., 2021)."""
    pair = torch.arange(0, d_head, 2, dtype=torch.float64) / d_head
    return torch.arange(length, dtype=torch.float64)[:, None] / base**pair


def rotary_scores(length: int, d_head: int, base: float = 10000.0) -> Float[Tensor, length]:
    """Product of a query and a key of ones after they were turned, by their distance d: 2 Σ cos ω_i d."""
    return 2 * rotary_angles(length, d_head, base).cos().sum(dim=-1)


# Whether a model notices the order of its tokens.


def reversed_order(special: Sequence[bool]) -> list[int]:
    """Places of tokens when all but the special ones stand in reverse order."""
    others = [place for place, fixed in enumerate(special) if not fixed]
    backwards = iter(reversed(others))
    return [place if fixed else next(backwards) for place, fixed in enumerate(special)]


def token_states(network: Network, ids: Sequence[int]) -> Float[Tensor, "position d_model"]:
    """Last states of the stack that reads a text: the encoder's, or the only stack's."""
    rows = torch.tensor([list(ids)], device=network.device)
    with torch.inference_mode(), no_recording():
        if isinstance(network, Transformer):
            return network.encode(rows)[0]
        return network.states(rows)[0]


def order_difference(network: Network, ids: Sequence[int], order: Sequence[int]) -> Float[Tensor, position]:
    """max |f(x)_{order[i]} − f(x_{order})_i| over the channels, for each i: 0 where a token's state is the same
    wherever it stands, so that the outputs are a permutation of each other.
    """
    places = list(order)
    states, moved = token_states(network, ids), token_states(network, [ids[place] for place in places])
    return (states[places] - moved).float().abs().amax(dim=-1)


def states_beside(network: Network, ids: Sequence[int], order: Sequence[int]) -> Float[Tensor, "position position"]:
    """Cosine of each state of a text with each state of the same text in another order."""
    texts = ids, [ids[place] for place in order]
    unit, other = (F.normalize(token_states(network, text).float(), dim=-1) for text in texts)
    return unit @ other.T
