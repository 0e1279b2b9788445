"""The decoding film: each token in its turn, with what it looked at and what else it could have been."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.predictions import UNKNOWN
from model.capture.trace import AttentionKind
from viz.components.view import Answer, View
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.predictions.components import film
from viz.pages.predictions.positions import measures
from viz.pages.predictions.text import about_film, view_name
from viz.render.grouping import place_of
from viz.render.renderer import attributes, words
from viz.state.pieces import merged
from viz.state.session import current_session
from viz.ui.parts import stamp
from viz.ui.plots import heading
from viz.ui.prediction import Subject, choice_words, visible

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces

ROWS = 8  # alternatives of a frame, and the actual token behind them
FRAMES = 256  # the last so many tokens of a long text
HELD = 1 << 20  # weights sent to the browser; of more heads than that only their means


def frames_of(subject: Subject) -> list[int]:
    """The positions whose tokens the film shows: those that were written, and what a language model may write next."""
    return list(range(len(subject.tokens)))[-FRAMES:]


def film_of(subject: Subject, key: str, on_choice: Answer) -> View:
    positions = frames_of(subject)
    kind: AttentionKind = "cross" if subject.trace.target_tokens else "decoder"
    weights, maps, difference = attention_maps(subject, kind, positions)
    rows, values, columns = alternatives(subject, positions)
    runs = merged(current_session())
    read, of_target = runs.get("source"), runs.get("target")
    written = [] if not subject.trace.target_tokens else subject.tokens if of_target is None else of_target.labels
    if read is not None:
        weights = read.sum(torch.from_numpy(weights), -1).numpy()
    source = subject.trace.source_tokens if read is None else read.labels
    special = subject.trace.special_labels
    frames = [frame(subject, kind, position, row, runs) for position, row in zip(positions, rows, strict=True)]
    header: dict[str, Any] = {
        "frames": frames,
        "source": {"labels": source, "special": [token in special for token in source], "side": "source"},
        "kept": {"labels": written, "special": [token in special for token in written]},
        "side": subject.side,
        "maps": maps,
        "columns": columns,
        "depth": values.shape[1],
        "difference": difference,
        "top": float(np.nan_to_num(np.abs(weights)).max()) or 1.0,
        "file": "decoding-film",
        "stamp": stamp(subject.trace),
        "words": film_words(kind, len(frames)),
    }
    above = heading(subject.trace, view_name("film"), header["file"], about=about_film(subject.model))
    return film(weights, values, header, key, on_choice, above)


def frame(
    subject: Subject, kind: AttentionKind, position: int, tokens: list[int], runs: Mapping[str, Pieces]
) -> dict[str, Any]:
    """One token: its label, where it stands, what it could see, a sentence, its alternatives.

    runs: by its side, tokens that are one in what is read and what stands there already; the new token is one alone.
    """
    actual = subject.ids[position]
    label = "?" if actual == UNKNOWN else subject.label(actual)
    share = None if actual == UNKNOWN else float(subject.log_probabilities[position, actual].exp())
    if share is None:
        sentence = _("nothing is written here yet: click a token to go on")
    else:
        rank = int(subject.ranks[position])
        sentence = _("“{token}” has probability {p}, rank {rank}").format(
            token=visible(label), p=significant(share), rank=f"{rank:,}"
        )
    top = subject.pinned_top(position)
    if top is not None:
        sentence += f" · {_('pinned top token: {token}').format(token=top)}"
    of_text, before = runs.get(subject.side), subject.tokens[: position + 1]
    if of_text is not None:
        before = of_text.of_first(position + 1).labels
    source = runs["source"].labels if "source" in runs else subject.trace.source_tokens
    return {
        "label": label,
        "special": label in subject.trace.special_labels,
        "position": position,
        "place": place_of(of_text, position + 1),
        "sees": len(source) if kind == "cross" else len(before),
        "before": len(before),
        "last": before[-1],
        "sentence": sentence,
        "share": share,
        "rows": [
            subject.row(position, token, rank)
            for token, rank in zip(tokens, _ranks(subject, position, tokens), strict=True)
        ],
    }


def _ranks(subject: Subject, position: int, tokens: list[int]) -> list[int]:
    """Those of the most probable tokens are their order; only the actual one behind them is counted."""
    return [rank if rank <= ROWS else int(subject.ranks[position]) for rank, _token in enumerate(tokens, start=1)]


def alternatives(
    subject: Subject, positions: list[int]
) -> tuple[list[list[int]], NDArray[np.float32], list[dict[str, Any]]]:
    """For each position its most probable tokens, and their values (position, row, column); the columns."""
    other = subject.pinned_log_probabilities
    rows = [subject.best(position, ROWS) for position in positions]
    columns = [
        measures(subject, position, tokens, None if other is None else other[position])
        for position, tokens in zip(positions, rows, strict=True)
    ]
    values = np.full((len(positions), ROWS + 1, len(columns[0])), np.nan, np.float32)
    for index, (tokens, found) in enumerate(zip(rows, columns, strict=True)):
        values[index, : len(tokens)] = np.array([column.values for column in found], np.float32).T
    return rows, values, [attributes(column, "values") for column in columns[0]]


def attention_maps(
    subject: Subject, kind: AttentionKind, positions: list[int]
) -> tuple[NDArray[np.float32], list[str], bool]:
    """Rows of the attention at these positions: the mean of all heads, of each layer's, and each head alone where they
    are not too many; what changed from the pinned trace where differences are wanted.
    """
    trace, comparison = subject.trace, subject.comparison
    names = [f"{path}.weights" for path in trace.attention_paths(kind)]
    differing = (
        subject.differing and comparison is not None and all(comparison.counterpart(name) is not None for name in names)
    )
    heads: list[Tensor] = []
    for name in names:
        whole = comparison.difference(name) if differing and comparison is not None else trace[name]
        assert whole is not None
        rows = whole[:, positions].float()
        many = rows.numel() * len(names) > HELD
        heads.append(torch.cat([rows.mean(dim=0, keepdim=True), *([] if many else [rows])]))
    means = torch.stack([layer[0] for layer in heads])
    maps = [_("all heads, mean")]
    for number, layer in enumerate(heads, start=1):
        maps.append(_("layer {layer}, mean").format(layer=number))
        maps += [_("layer {layer}, head {head}").format(layer=number, head=head) for head in range(1, len(layer))]
    weights = torch.cat([means.mean(dim=0, keepdim=True), *heads])
    return weights.cpu().numpy(), maps, differing


def film_words(kind: AttentionKind, frames: int) -> dict[str, Any]:
    looks = _("it looks at the source") if kind == "cross" else _("it looks at the text before it")
    return {
        **words(_("step"), _("actual token"), _("rank"), _("token")),
        **choice_words(),
        "looks": looks,
        "weight": _("weight"),
        "play": _("play"),
        "pause": _("pause"),
        "first": _("to the beginning"),
        "back": _("one token back"),
        "on": _("one token on"),
        "keys": _("space plays, ← and → step"),
        "speed": _("speed"),
        "map": _("attention shown"),
        "scrub": _("token of the film"),
        "alt": _("Decoding film of {frames} tokens").format(frames=frames),
    }


def table(subject: Subject) -> pd.DataFrame:
    """A row per frame and alternative."""
    positions = frames_of(subject)
    rows, values, _columns = alternatives(subject, positions)
    found = [
        (position, subject.label(token), token == subject.ids[position], *values[index, row, :2].tolist())
        for index, position in enumerate(positions)
        for row, token in enumerate(rows[index])
    ]
    names = [_("position"), _("token"), _("actual token"), _("probability"), _("log-probability")]
    return pd.DataFrame(found, columns=names)
