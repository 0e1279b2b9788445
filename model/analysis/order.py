"""Whether a model notices the order of its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from model.capture.hooks import ordinary
from model.network.transformer import Network, Transformer


def reversed_order(special: Sequence[bool]) -> list[int]:
    """The places of tokens when all but the special ones stand in reverse order."""
    others = [place for place, fixed in enumerate(special) if not fixed]
    backwards = iter(reversed(others))
    return [place if fixed else next(backwards) for place, fixed in enumerate(special)]


def token_states(model: Network, ids: Sequence[int]) -> Float[Tensor, "position d_model"]:
    """The last states of the stack that reads a text: the encoder's, or the only stack's."""
    rows = torch.tensor([list(ids)], device=model.device)
    with torch.inference_mode(), ordinary():
        if isinstance(model, Transformer):
            return model.encode(rows)[0]
        return model.states(rows)[0]


def order_difference(model: Network, ids: Sequence[int], order: Sequence[int]) -> Float[Tensor, position]:
    """max |f(x)_{order[i]} − f(x_{order})_i| over the channels, for each i: 0 where a token's state is the same
    wherever it stands, so that the outputs are a permutation of each other.
    """
    places = list(order)
    states, moved = token_states(model, ids), token_states(model, [ids[place] for place in places])
    return (states[places] - moved).float().abs().amax(dim=-1)


def states_beside(model: Network, ids: Sequence[int], order: Sequence[int]) -> Float[Tensor, "position position"]:
    """The cosine of each state of a text with each state of the same text in another order."""
    states, moved = token_states(model, ids), token_states(model, [ids[place] for place in order])
    unit, other = (torch.nn.functional.normalize(each.float(), dim=-1) for each in (states, moved))
    return unit @ other.T
