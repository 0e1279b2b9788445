"""The film on its way to the browser: each frame is sent once, and all of them are played there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.i18n.catalogue import _
from viz.i18n.format import SIDES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.training.live.film import Film
    from model.training.live.runs import Run

MOST = 20 << 20  # bytes of attention in the browser


@dataclass
class FilmCursor:
    """Parts that the browser has: frames of one edition of the film, by their steps, and names of tokens."""

    edition: int = 0
    steps: set[int] = field(default_factory=set)
    tokens: set[int] = field(default_factory=set)

    def begin(self, edition: int = 0) -> None:
        """Note that the browser has nothing of this edition yet."""
        self.edition, self.steps, self.tokens = edition, set(), set()


def film_data(run: Run | None, sent: FilmCursor, more: bool = True) -> tuple[dict[str, Any] | None, list[NDArray[Any]]]:
    """Parts of the film that the browser lacks, noted as sent: a header, and of each frame its step, attention, loss,
    tokens, probabilities and norms. None while there is no film; without `more`, of what is sent already no frame.
    """
    from model.training.live.frame_recorder import LOSS, NORMS, PROBABILITIES, TOKENS

    if run is None or not len(run.film) or not (more or sent.edition == run.film.edition):
        return None, []
    film = run.film
    with film.still():
        if film.edition != sent.edition:
            sent.begin(film.edition)
        steps = film.steps
        size = sum(math.prod(film.shape(kind)) for kind in film.kinds)
        sent_steps = [int(step) for step in steps[thinned(len(steps), max(2, MOST // max(1, size)))]]
        sent_steps = sent_steps if more else [step for step in sent_steps if step in sent.steps]
        fresh = [step for step in sent_steps if step not in sent.steps]
        after = min(fresh, default=int(steps[-1]) + 1) - 1
        chosen = np.isin(steps[steps > after], fresh)
        names = (*film.kinds, LOSS, TOKENS, PROBABILITIES, NORMS)
        series = {name: film.series(name, after)[chosen] for name in names}
        header = described(film)
    weights = [series[kind].reshape(len(fresh), math.prod(series[kind].shape[1:])) for kind in film.kinds]
    tokens = series[TOKENS].astype(np.int32)
    new = sorted(set(np.unique(tokens).tolist()) - sent.tokens)
    sent.steps, sent.tokens = set(sent_steps), sent.tokens.union(new)
    tokenizer = film.model.target_tokenizer
    header |= {"steps": sent_steps, "run": run.number, "names": {token: tokenizer.label(token) for token in new}}
    empty = np.zeros((len(fresh), 0), np.uint8)
    return header, [
        np.array(fresh, np.int32),
        np.concatenate([*weights, empty], axis=1),
        series[LOSS].astype(np.float32),
        tokens,
        series[PROBABILITIES].astype(np.float32),
        series[NORMS].astype(np.float32),
    ]


def thinned(count: int, most: int) -> NDArray[np.intp]:
    """Indices of the frames that are sent: all, or every second, fourth … and the last."""
    indices, every = np.arange(count), 1
    while len(indices) > max(most, 2):
        every *= 2
        indices = np.unique(np.append(np.arange(0, count, every), count - 1))
    return indices


def described(film: Film) -> dict[str, Any]:
    """Header of all frames: where each kind of attention stands in them, the probe's tokens, the key frames."""
    from model.training.live.frame_recorder import PROBABILITIES

    probe, model = film.probe, film.model
    kinds, first = {}, 0
    for kind in film.kinds:
        shape = film.shape(kind)
        rows, columns = SIDES[kind] if probe.target else ("source", "source")
        kinds[kind] = {"first": first, "shape": shape, "rows": rows, "columns": columns}
        first += math.prod(shape)
    tokens = {"source": probe.source.labels, "target": probe.target.labels if probe.target else []}
    answers: Sequence[int] = probe.labels(model)
    return {
        "edition": film.edition,
        "kinds": kinds,
        "tokens": tokens,
        "answers": list(answers),
        "ranks": film.shape(PROBABILITIES)[-1],
        "keys": [key.step for key in film.key_frames],
        "words": {
            "film": _("film: step {step}"),
            "newest": _("film: newest step"),
            "drag": _("Drag to see the heads as they were at an earlier step"),
        },
    }
