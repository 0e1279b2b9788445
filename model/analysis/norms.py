"""Statistics of norms: of each at each token, of LayerNorm's three forms, and of batches beside BatchNorm's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pandas
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.analysis.masking import Batch as PaddedBatch
from model.analysis.residual import Get, stacked, stacks
from model.capture.trace import Trace
from model.network.norms import Norm
from model.runtime.device import exact
from model.text.tokenizer import Role, Tokenizer, Tokens

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]
QUANTITIES = ("mean", "std", "before", "after")


def norm_table(trace: Trace) -> pandas.DataFrame:
    """Table with a row for each norm and position: mean and population deviation of its input, Euclidean norms of input
    and output.
    """
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
    """Paths of the norms over the features of one stack, "encoder" or "decoder", in order of computation."""
    return [path for path in trace.norm_paths() if path.startswith(f"{stack}.")]


def norm_levels(get: Get, paths: Sequence[str], quantity: str) -> Float[Tensor, "norm position"] | None:
    """Levels of each norm at each position: "mean" or population deviation "std" of its input, or the Euclidean norm
    "before" or "after" it. None where one of them does not exist.
    """
    name = {"mean": "mean", "std": "std", "before": "input", "after": "output"}[quantity]
    levels = stacked(get, [f"{path}.{name}" for path in paths])
    return levels if levels is None or name in ("mean", "std") else levels.norm(dim=-1)


def forms(x: Float[Tensor, "*batch d_model"], eps: float) -> dict[str, Float[Tensor, "*batch d_model"]]:
    """Outputs of LayerNorm in three forms, in float64 and without γ and β.

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
    """‖form(x) − torch(x)‖ / ‖torch(x)‖ over all positions: the distance of a form of LayerNorm from torch's."""
    outputs = forms(x, eps)
    return _distance(outputs[form], outputs["layer"])


def expected_gap(width: int) -> float:
    """1 − √((n − 1)/n), about 1/2n: the share of every output over n features that n − 1 in place of n takes away."""
    return 1 - math.sqrt((width - 1) / width)


# A padded batch of one text and its parts, and the statistics of LayerNorm and BatchNorm over it.

SENTENCE_ENDS = (".", "!", "?", "。", "！", "？", "⏎", "\n")
MOST_PIECES = 6


@dataclass(frozen=True)
class Batch:
    """One forward pass over several texts, the shorter ones padded. The first row is the whole text.

    rows, places, real: for each stack the tokens of each row, their places in the whole text, and False on padding.
    """

    trace: Trace
    rows: dict[str, list[Tokens]]
    places: dict[str, list[list[int]]]
    real: dict[str, Bool[Tensor, "row position"]]

    def stacked(self, name: str) -> Float[Tensor, "row position d_model"]:
        """Quantity of every row, by its name."""
        count = len(next(iter(self.rows.values())))
        return torch.stack([self.trace.example(row)[name].float() for row in range(count)])


@dataclass(frozen=True)
class BatchStatistics:
    """Mean and deviation of each position in LayerNorm; of each channel in BatchNorm, over real positions only and with
    the padding counted in, as by a BatchNorm that knows nothing of masks.

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
    """Places of the sentences of a text, or, if it has one alone or `parts` is 2 and they are not two, of its halves.

    Around each are the `<s>` and `</s>` of the whole. A text of fewer than two tokens has no pieces.
    """
    roles: tuple[Role, ...] = ("whole", "target")
    ids, around = tokens.ids, {token for role in roles for margin in tokenizer.margins(role) for token in margin}
    first = next((place for place, token in enumerate(ids) if token not in around), len(ids))
    last = next((place for place in range(len(ids), first, -1) if ids[place - 1] not in around), first)
    if last - first < 2:
        return []
    ends = [place + 1 for place in range(first, last) if tokens.labels[place].strip("▁") in SENTENCE_ENDS]
    cuts = [first, *(end for end in ends if end < last), last]
    sentences = 2 <= len(cuts) - 1 <= MOST_PIECES and parts in (None, len(cuts) - 1)
    cuts = cuts if sentences else [first, (first + last) // 2, last]
    return [[*range(first), *range(a, b), *range(last, len(ids))] for a, b in pairwise(cuts)]


def batch_of(
    model: TextModel, source: Tokens, target: Tokens | None, others: Sequence[Mapping[str, Tokens]] = ()
) -> Batch | None:
    """Whole text and others, else its pieces, as one padded batch through the model; None if too short for pieces.

    others: of each its tokens by their sides, "source" and where the model has one "target".
    """
    texts = {"source": source} if target is None else {"source": source, "target": target}
    tokenizers = {"source": model.source_tokenizer, "target": model.target_tokenizer}
    if others:
        places = {side: [[*range(len(texts[side]))], *([-1] * len(each[side]) for each in others)] for side in texts}
        rows = {side: [texts[side], *(each[side] for each in others)] for side in texts}
        return _padded(model, rows, places)
    cut = {side: pieces(tokens, tokenizers[side]) for side, tokens in texts.items()}
    if len({len(parts) for parts in cut.values()}) > 1:
        cut = {side: pieces(tokens, tokenizers[side], 2) for side, tokens in texts.items()}
    if not all(cut.values()):
        return None
    places = {side: [[*range(len(texts[side]))], *cut[side]] for side in texts}
    return _padded(model, {side: [_at(texts[side], row) for row in places[side]] for side in texts}, places)


def _padded(model: TextModel, rows: Mapping[str, list[Tokens]], places: Mapping[str, list[list[int]]]) -> Batch:
    """Padded batch of these rows of each side, and its trace through the model."""
    fillers = {"source": model.source_tokenizer.filler, "target": model.target_tokenizer.filler}
    ids = [[row.ids for row in of_side] for of_side in rows.values()]
    batch = PaddedBatch.of(ids, [fillers[side] for side in rows], model.device)
    names = stacks(model.network.config)
    return Batch(
        batch.trace(model.network),
        dict(zip(names, rows.values(), strict=True)),
        dict(zip(names, places.values(), strict=True)),
        dict(zip(names, batch.real, strict=True)),
    )


def batch_statistics(
    x: Float[Tensor, "row position d_model"],
    real: Bool[Tensor, "row position"],
    alone: Float[Tensor, "whole d_model"],
    eps: float,
) -> BatchStatistics:
    """Statistics of both norms over the input of a norm, without γ and β. The first row is the whole text, and `alone`
    its input where that is the only text.
    """
    x, alone = exact(x), exact(alone)
    real = real.to(x.device)
    whole = x[0][real[0]]
    real_mean, real_std = _channels(x[real])
    padded_mean, padded_std = _channels(x.flatten(0, 1))
    layer_norm = forms(whole, eps)["layer"], forms(alone, eps)["layer"]
    batch_norm = _normal(whole, padded_mean, padded_std, eps), _normal(alone, *_channels(alone), eps)
    return BatchStatistics(
        Norm.mean(x),
        Norm.std(x),
        real_mean,
        real_std,
        padded_mean,
        padded_std,
        layer_moves=_distance(*layer_norm),
        batch_moves=_distance(*batch_norm),
    )


def _channels(x: Float[Tensor, "position d_model"]) -> tuple[Float[Tensor, " d_model"], Float[Tensor, " d_model"]]:
    """Mean and population deviation of each channel over the positions."""
    return x.mean(dim=0), x.std(dim=0, correction=0)


def _normal(x: Tensor, mean: Tensor, std: Tensor, eps: float) -> Tensor:
    return (x - mean) / (std.square() + eps).sqrt()


def _distance(x: Tensor, reference: Tensor) -> float:
    """‖x − reference‖ / ‖reference‖."""
    return float((x - reference).norm() / reference.norm())


def _at(tokens: Tokens, places: Sequence[int]) -> Tokens:
    return Tokens([tokens.ids[place] for place in places], [tokens.labels[place] for place in places])
