"""Statistics of the norms: of each at each token, and of LayerNorm's three forms side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pandas
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.capture.trace import Trace, record
from model.network.norms import Norm
from model.runtime.device import exact
from model.text.tokenizer import Role, Tokenizer, Tokens

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]
QUANTITIES = ("mean", "std", "before", "after")
# Gives the quantity of a name: of a trace, or its pinned counterpart, which may not exist.
Get = Callable[[str], "Tensor | None"]


def norm_table(trace: Trace) -> pandas.DataFrame:
    """A row per norm and position: mean and population deviation of its input, Euclidean norms in and out."""
    rows: list[pandas.DataFrame] = []
    for path in trace.norm_paths():
        x, y = trace[f"{path}.input"].float(), trace[f"{path}.output"].float()
        columns = {
            "name": path,
            "position": range(len(x)),
            "token": trace.tokens_of(path) or [""] * len(x),
            "mean": Norm.mean(x).tolist(),
            "std": Norm.std(x).tolist(),
            "input norm": x.norm(dim=-1).tolist(),
            "output norm": y.norm(dim=-1).tolist(),
        }
        rows.append(pandas.DataFrame(columns))
    return pandas.concat(rows, ignore_index=True) if rows else pandas.DataFrame(columns=COLUMNS)


def stack_norms(trace: Trace, stack: str) -> list[str]:
    """The names of the norms over the features of one stack, "encoder" or "decoder", in order of computation."""
    return [path for path in trace.norm_paths() if path.startswith(f"{stack}.")]


def norm_levels(get: Get, paths: Sequence[str], quantity: str) -> Float[Tensor, "norm position"] | None:
    """For each norm and position: "mean" and population deviation "std" of what goes in, or the Euclidean norm "before"
    and "after". None where one of them does not exist.
    """
    name = {"mean": "mean", "std": "std", "before": "input", "after": "output"}[quantity]
    found = [get(f"{path}.{name}") for path in paths]
    if not found or any(each is None for each in found):
        return None
    rows = [each.float() for each in found if each is not None]
    return torch.stack(rows if name in ("mean", "std") else [row.norm(dim=-1) for row in rows])


def forms(x: Float[Tensor, "*batch d_model"], eps: float) -> dict[str, Float[Tensor, "*batch d_model"]]:
    """x normalised in three forms, in float64 and without γ and β.

    layer: (x − μ) / √(σ² + ε), torch's (Ba et al., 2016). textbook: (x − μ) / (σ + ε). textbook-sample:
    (x − μ) / (s + ε), with the sample deviation s, which divides by n − 1 (the Annotated Transformer).
    """
    x = exact(x)
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    n = x.shape[-1]
    return {
        "layer": centred / (variance + eps).sqrt(),
        "textbook": centred / (variance.sqrt() + eps),
        "textbook-sample": centred / ((variance * n / max(1, n - 1)).sqrt() + eps),
    }


def form_gap(x: Float[Tensor, "*batch d_model"], eps: float, form: str) -> float:
    """‖form(x) − torch(x)‖ / ‖torch(x)‖ over all positions: how far a form of LayerNorm is from torch's."""
    found = forms(x, eps)
    return float((found[form] - found["layer"]).norm() / found["layer"].norm())


def expected_gap(width: int) -> float:
    """1 − √((n − 1)/n): what n − 1 in place of n takes from every output over n features, about 1/2n."""
    return 1 - ((width - 1) / width) ** 0.5


# A padded batch made of one text, and what LayerNorm and BatchNorm compute over it.

SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "⏎", "\n")
MOST_PIECES = 6


@dataclass(frozen=True)
class Batch:
    """One forward pass over several texts, the shorter ones padded. The first row is the whole text.

    rows, places, real: for each stack the tokens of each row, where they stand in the whole text, and True where a
    position is none of padding.
    """

    trace: Trace
    rows: dict[str, list[Tokens]]
    places: dict[str, list[list[int]]]
    real: dict[str, Bool[Tensor, "row position"]]

    def stacked(self, name: str) -> Float[Tensor, "row position d_model"]:
        """A quantity of every row."""
        count = len(next(iter(self.rows.values())))
        return torch.stack([self.trace.example(row)[name].float() for row in range(count)])


@dataclass(frozen=True)
class BatchStatistics:
    """LayerNorm's mean and deviation of each position; BatchNorm's of each channel, over real positions only and with
    the padding counted in, as a BatchNorm that knows nothing of masks would.

    layer_moves, batch_moves: ‖y − y′‖ / ‖y′‖ of the whole text's normalised states in this batch, y, and alone, y′.
    """

    layer_mean: Float[Tensor, "row position"]
    layer_std: Float[Tensor, "row position"]
    real_mean: Float[Tensor, " d_model"]
    real_std: Float[Tensor, " d_model"]
    padded_mean: Float[Tensor, " d_model"]
    padded_std: Float[Tensor, " d_model"]
    layer_moves: float
    batch_moves: float


def pieces(tokens: Tokens, tokenizer: Tokenizer, parts: int | None = None) -> list[list[int]]:
    """The places of the sentences of a text, or, if it has one alone or `parts` is 2 and they are not two, its halves.

    Each has the `<s>` and `</s>` of the whole around it. A text of fewer than two tokens has no pieces.
    """
    roles: tuple[Role, ...] = ("whole", "target")
    ids, around = tokens.ids, {each for role in roles for side in tokenizer.margins(role) for each in side}
    first = next((place for place, token in enumerate(ids) if token not in around), len(ids))
    last = next((place for place in range(len(ids), first, -1) if ids[place - 1] not in around), first)
    if last - first < 2:
        return []
    ends = [place + 1 for place in range(first, last) if tokens.labels[place].strip("▁") in SENTENCE_ENDS]
    cuts = [first, *(end for end in ends if end < last), last]
    sentences = 2 <= len(cuts) - 1 <= MOST_PIECES and parts in (None, len(cuts) - 1)
    cuts = cuts if sentences else [first, (first + last + 1) // 2, last]
    return [[*range(first), *range(a, b), *range(last, len(ids))] for a, b in pairwise(cuts)]


def batch_of(model: TextModel, source: Tokens, target: Tokens | None) -> Batch | None:
    """The whole text and its pieces as one padded batch through the model; None if it is too short for pieces."""
    texts = {"source": source} if target is None else {"source": source, "target": target}
    tokenizers = {"source": model.source_tokenizer, "target": model.target_tokenizer}
    cut = {side: pieces(tokens, tokenizers[side]) for side, tokens in texts.items()}
    if len({len(each) for each in cut.values()}) > 1:
        cut = {side: pieces(tokens, tokenizers[side], 2) for side, tokens in texts.items()}
    if not all(cut.values()):
        return None
    places = {side: [[*range(len(texts[side]))], *cut[side]] for side in texts}
    rows = {side: [_at(texts[side], row) for row in places[side]] for side in texts}
    sides = {side: _padded(rows[side], tokenizers[side].filler, model.device) for side in texts}
    with torch.inference_mode(), record(model.network) as trace:
        model.network(*(ids for ids, _ in sides.values()), *(real for _, real in sides.values()))
    stacks = {"encoder": "source", "decoder": "target"}
    if target is None:
        stacks = dict.fromkeys(("decoder" if model.kind == "decoder-only" else "encoder",), "source")
    return Batch(
        trace,
        {stack: rows[side] for stack, side in stacks.items()},
        {stack: places[side] for stack, side in stacks.items()},
        {stack: sides[side][1] for stack, side in stacks.items()},
    )


def batch_statistics(
    x: Float[Tensor, "row position d_model"],
    real: Bool[Tensor, "row position"],
    alone: Float[Tensor, "whole d_model"],
    eps: float,
) -> BatchStatistics:
    """Both norms' statistics over what goes into a norm, without γ and β. The first row is the whole text, and `alone`
    what goes into the norm when that is the only text.
    """
    x, own = exact(x), exact(alone)
    real = real.to(x.device)
    whole = x[0][real[0]]
    everything, known = x.flatten(0, 1), x[real]
    means = {"real": known.mean(dim=0), "padded": everything.mean(dim=0), "own": own.mean(dim=0)}
    stds = {
        "real": known.std(dim=0, correction=0),
        "padded": everything.std(dim=0, correction=0),
        "own": own.std(dim=0, correction=0),
    }
    in_batch = _normal(whole, means["padded"], stds["padded"], eps)
    own_batch = _normal(own, means["own"], stds["own"], eps)
    positions = (Norm.mean(x), Norm.std(x))
    together = _normal(x, positions[0][..., None], positions[1][..., None], eps)[0][real[0]]
    single = _normal(own, Norm.mean(own)[..., None], Norm.std(own)[..., None], eps)
    return BatchStatistics(
        *positions,
        real_mean=means["real"],
        real_std=stds["real"],
        padded_mean=means["padded"],
        padded_std=stds["padded"],
        layer_moves=float((together - single).norm() / single.norm()),
        batch_moves=float((in_batch - own_batch).norm() / own_batch.norm()),
    )


def _normal(x: Tensor, mean: Tensor, std: Tensor, eps: float) -> Tensor:
    return (x - mean) / (std.square() + eps).sqrt()


def _at(tokens: Tokens, places: Sequence[int]) -> Tokens:
    return Tokens([tokens.ids[place] for place in places], [tokens.labels[place] for place in places])


def _padded(rows: Sequence[Tokens], padding: int, device: torch.device) -> tuple[Tensor, Tensor]:
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row.ids + [padding] * (longest - len(row)) for row in rows], device=device)
    places = torch.arange(longest, device=device)
    real = places[None] < torch.tensor([len(row) for row in rows], device=device)[:, None]
    return ids, real
