"""Experiments with masks: a changed future, a padded batch, a mask after softmax, numbers for −∞."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.capture.interventions import Causal, Intervention, PaddingSeen, intervening
from model.capture.trace import ATTENTION_PATHS, AttentionKind, Trace, record
from model.data.pairs import pad
from model.network.attention import Masked, Weights
from model.network.transformer import Network

if TYPE_CHECKING:
    import pandas

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def self_attention(network: Network) -> AttentionKind:
    """Kind of attention whose causal rule keeps predictions from the future."""
    return "encoder" if network.kind == "encoder-only" else "decoder"


@torch.inference_mode()
def future_change(
    network: Network, ids: Sequence[Tensor], place: int, token: int, changes: Sequence[Intervention] = ()
) -> Float[Tensor, position]:
    """Largest change of a logit at each position when the last of the texts has `token` at `place`.

    ids: (1, length) of each stack. Two passes of one shape: a logit that does not depend on the token stays the same to
    the last bit.
    """
    other = ids[-1].clone()
    other[0, place] = token
    with intervening(network, changes):
        logits = [network(*ids[:-1], last)[0].float() for last in (ids[-1], other)]
    change: Tensor = (logits[1] - logits[0]).abs().amax(dim=-1)
    return change


@dataclass(frozen=True)
class Batch:
    """Texts of several lengths as one batch: for each stack the ids (example, length), and `real`, False on padding."""

    ids: tuple[Tensor, ...]
    real: tuple[Bool[Tensor, "example _"], ...]

    @classmethod
    def of(cls, stacks: Sequence[Sequence[Sequence[int]]], paddings: Sequence[int], device: torch.device) -> Batch:
        """Batch of the ids of every example, for each stack, padded on the right with its padding token."""
        ids, real = [], []
        for rows, padding in zip(stacks, paddings, strict=True):
            ids.append(pad([list(row) for row in rows], padding).to(device))
            lengths = torch.tensor([[len(row)] for row in rows], device=device)
            real.append(torch.arange(ids[-1].shape[1], device=device) < lengths)
        return cls(tuple(ids), tuple(real))

    @torch.inference_mode()
    def trace(self, network: Network, changes: Sequence[Intervention] = ()) -> Trace:
        """Trace of one pass over the whole batch; `example` of it gives one text."""
        with intervening(network, changes), record(network) as trace:
            network(*self.ids, *self.real)
        return trace

    @torch.inference_mode()
    def alone(self, network: Network, changes: Sequence[Intervention] = ()) -> list[Tensor]:
        """Logits (position, vocabulary) of each text in a pass of its own, without padding."""
        logits = []
        with intervening(network, changes):
            for example in range(len(self.ids[0])):
                pairs = zip(self.ids, self.real, strict=True)
                text = [ids[example : example + 1, : int(real[example].sum())] for ids, real in pairs]
                logits.append(network(*text)[0])
        return logits

    @torch.inference_mode()
    def changes_of(
        self, network: Network, alone: Sequence[Tensor], changes: Sequence[Intervention] = ()
    ) -> Float[Tensor, example]:
        """Largest difference between the logits of each text in the batch and `alone`, at real positions."""
        with intervening(network, changes):
            together = network(*self.ids, *self.real)
        pairs = zip(together, alone, strict=True)
        return torch.stack([(padded[: len(single)] - single).float().abs().max() for padded, single in pairs])


def without_padding_masks(network: Network) -> list[Intervention]:
    """Changes with which padding is looked at in every attention of the model."""
    paths = {path for path, _module in network.named_modules()}
    return [PaddingSeen(kind) for kind in get_args(AttentionKind) if ATTENTION_PATHS[kind].format(0) in paths]


def without_causal_mask(network: Network) -> list[Intervention]:
    """Change with which nothing keeps a query from later tokens."""
    return [Causal(self_attention(network), False)]


@dataclass(frozen=True)
class Order:
    """Weights (query, key) and output (query, channel) of a head, by one order of softmax and mask."""

    name: str
    weights: Tensor
    output: Tensor

    @property
    def sums(self) -> Float[Tensor, query]:
        """Sum of each query's weights."""
        return self.weights.sum(dim=-1)


def orders(
    scores: Float[Tensor, "query key"], visible: Bool[Tensor, "query key"], value: Float[Tensor, "key channel"]
) -> list[Order]:
    """One head in three orders: −∞ before softmax ("before"), −∞ after it ("after"), zeros after it ("zeroed").

    Only the first is section 3.2.3. After softmax −∞ is no weight any more: sums and outputs are −∞, or NaN where ∞ of
    both signs meet; zeros there leave rows that add up to less than 1.
    """
    late = scores.softmax(dim=-1)
    weights = {
        "before": Weights()(Masked()(scores, visible), visible),
        "after": late.masked_fill(~visible, -torch.inf),
        "zeroed": late.masked_fill(~visible, 0.0),
    }
    return [Order(name, rows, rows @ value) for name, rows in weights.items()]


def fills(
    scores: Float[Tensor, "query key"], visible: Bool[Tensor, "query key"], number: float = -1e9
) -> pandas.DataFrame:
    """Numbers that stand for −∞ before softmax, in three precisions; a row each.

    dtype: the precision. fill: "-inf", `number` as "-1e9", or "min", the lowest of the type. stored: its value there.
    accepted: whether torch's masked_fill takes it. hidden: largest weight on a hidden cell of a row with visible ones.
    rows: largest |sum − 1| of these rows. empty_low, empty_high: weights of the last query, were all of it hidden.
    """
    import pandas

    table = []
    sees = visible.any(dim=-1)
    short = f"{number:g}".replace("e+0", "e").replace("e+", "e")
    for dtype in DTYPES:
        cast = scores.to(dtype)
        for fill, value in (("-inf", -torch.inf), (short, number), ("min", torch.finfo(dtype).min)):
            stored = torch.tensor(value, dtype=torch.float64).to(dtype)
            weights = cast.where(visible, stored).softmax(dim=-1).double()
            hidden = weights[~visible & sees[:, None]]
            empty = stored.expand(cast.shape[-1]).softmax(dim=-1).double()
            errors = (weights.sum(dim=-1) - 1).abs()[sees]
            table.append(
                {
                    "dtype": str(dtype).removeprefix("torch."),
                    "fill": fill,
                    "stored": float(stored),
                    "accepted": _accepted(cast, value),
                    "hidden": float(hidden.max()) if hidden.numel() else 0.0,
                    "rows": float(errors.max()) if errors.numel() else 0.0,
                    "empty_low": float(empty.min()),
                    "empty_high": float(empty.max()),
                }
            )
    return pandas.DataFrame(table)


def _accepted(scores: Tensor, number: float) -> bool:
    """True if torch takes a number: it refuses one that the type would turn into −∞."""
    try:
        scores[:1].masked_fill(torch.ones_like(scores[:1], dtype=torch.bool), number)
    except RuntimeError:
        return False
    return True
