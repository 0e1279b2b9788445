"""The decoding film: each token in its turn, with what it looked at and what else it could have been."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.predictions import UNKNOWN
from model.capture.trace import AttentionKind
from model.message import Message
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.pages.predictions.components import Column, DecodingFilm, Frame
from viz.pages.predictions.positions import measures
from viz.pages.predictions.text import about_film, view_name
from viz.ui.plots import caption
from viz.ui.prediction import Subject, choice_words, visible

ROWS = 8  # alternatives of a frame, and the actual token behind them
FRAMES = 256  # the last so many tokens of a long text
HELD = 1 << 20  # weights sent to the browser; of more heads than that only their means


def frames_of(subject: Subject) -> list[int]:
    """The positions whose tokens the film shows: those that were written, and what a language model may write next."""
    return list(range(len(subject.tokens)))[-FRAMES:]


def film_figure(subject: Subject) -> DecodingFilm:
    """Film of the written tokens; where differences are wanted, its weights are those from the pinned ones."""
    positions, trace = frames_of(subject), subject.trace
    kind: AttentionKind = "cross" if trace.target_tokens else "decoder"
    weights, maps, difference = attention_maps(subject, kind, positions)
    rows, values, columns = alternatives(subject, positions)
    frames = [frame(subject, kind, position, row) for position, row in zip(positions, rows, strict=True)]
    return DecodingFilm(
        caption(subject.inputs, view_name("film"), "decoding-film", about=about_film(subject.model)),
        frames,
        weights,
        values,
        maps,
        columns,
        trace.source_tokens,
        trace.target_tokens and subject.tokens,
        subject.side,
        trace.special_labels,
        difference,
        words=film_words(kind, len(frames)),
    )


def frame(subject: Subject, kind: AttentionKind, position: int, tokens: list[int]) -> Frame:
    """One token: its label, where it stands, what it could see, a sentence, its alternatives."""
    actual = subject.ids[position]
    label, share = "?", None
    sentence = Message("nothing is written here yet: press a token to go on")
    if actual != UNKNOWN:
        label, share = subject.label(actual), float(subject.log_probabilities[position, actual].exp())
        sentence = Message("{query}: not a number", query=visible(label))
        if math.isfinite(share):
            rank = f"{int(subject.ranks[position]):,}"
            sentence = Message(
                "“{token}” has probability {p}, rank {rank}", token=visible(label), p=significant(share), rank=rank
            )
    top = subject.pinned_top(position)
    return Frame(
        label,
        label in subject.trace.special_labels,
        position,
        place=position + 1,
        sees=len(subject.trace.source_tokens) if kind == "cross" else position + 1,
        before=position + 1,
        last=subject.tokens[position],
        sentence=joined(" · ", sentence, "" if top is None else Message("pinned top token: {token}", token=top)),
        share=share if share is None or math.isfinite(share) else None,
        rows=[
            subject.row(position, token, rank)
            for token, rank in zip(tokens, _ranks(subject, position, tokens), strict=True)
        ],
    )


def _ranks(subject: Subject, position: int, tokens: list[int]) -> list[int]:
    """Ranks of tokens: of the most probable ones their order; only the actual one behind them is counted."""
    return [rank if rank <= ROWS else int(subject.ranks[position]) for rank, _token in enumerate(tokens, start=1)]


def alternatives(subject: Subject, positions: list[int]) -> tuple[list[list[int]], NDArray[np.float32], list[Column]]:
    """For each position its most probable tokens, and their values (position, row, column); the columns."""
    other = subject.pinned_log_probabilities
    rows = [subject.best(position, ROWS) for position in positions]
    columns = [
        measures(subject, position, tokens, None if other is None else other[position])
        for position, tokens in zip(positions, rows, strict=True)
    ]
    values = np.full((len(positions), ROWS + 1, len(columns[0])), np.nan, np.float32)
    for index, (tokens, row_columns) in enumerate(zip(rows, columns, strict=True)):
        values[index, : len(tokens)] = np.array([column.values for column in row_columns], np.float32).T
    return rows, values, columns[0]


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
    maps: list[str] = [Message("all heads, mean")]
    for number, layer in enumerate(heads, start=1):
        maps.append(Message("layer {layer}, mean", layer=number))
        maps += [Message("layer {layer}, head {head}", layer=number, head=head) for head in range(1, len(layer))]
    weights = torch.cat([means.mean(dim=0, keepdim=True), *heads])
    return weights.cpu().numpy(), maps, differing


def film_words(kind: AttentionKind, frames: int) -> dict[str, str]:
    looks = Message("it looks at the source") if kind == "cross" else Message("it looks at the text before it")
    return {
        **choice_words(),
        "looks": looks,
        "weight": Message("weight"),
        "play": Message("play"),
        "pause": Message("pause"),
        "first": Message("to the beginning"),
        "back": Message("one token back"),
        "on": Message("one token on"),
        "keys": Message("space plays, ← and → step"),
        "speed": Message("speed"),
        "map": Message("attention shown"),
        "scrub": Message("token of the film"),
        "alt": Message("Decoding film of {count} token", plural="Decoding film of {count} tokens", count=frames),
    }
