"""Every position: its loss, its most probable tokens; one position closely."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from model.analysis.predictions import UNKNOWN, entropies, perplexity
from viz.components.old_plots import chart, heatmap
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.predictions.components import ranking
from viz.ui.parts import plot_words, stamp
from viz.ui.plots import PINNED
from viz.ui.prediction import BITS, GOOD, LOSS, Subject, choice_words, gathered, visible

COLUMNS = 6  # of the heatmap: the most probable tokens of each position
ROWS = 12  # of the list of one position


def pack_losses(subject: Subject, key: str, on_place: Callable[[], None]) -> Mount:
    """−ln p of every actual token; differing: how much more probable it is than it was in the pinned trace."""
    places = np.arange(len(subject.places), dtype=np.float32)
    own, other = subject.losses, subject.pinned_losses
    if subject.differing and other is not None:
        values = subject.at_places(other - own)
        colours = ["rgb(150,60,190)" if value < 0 else "rgb(0,140,110)" for value in values]
        series = [Series("ln p − ln p′", places, values, GOOD, "bars", colours=colours)]
    else:
        series = [Series(_("loss"), places, subject.at_places(own), LOSS, "bars")]
        if other is not None:
            series.append(Series(_("pinned"), places, subject.at_places(other), PINNED, dash=True))
    known = int((~own.isnan()).sum())
    header = {
        "x": {"title": _("actual token"), "labels": subject.places, "side": subject.side},
        "y": {"title": _("ln p − ln p′ (nats)") if subject.differing else _("loss −ln p (nats)")},
        "chosen": subject.chosen + subject.shift,
        "tall": 150,
        "name": _("Difference from the pinned log-probability") if subject.differing else _("Loss per token"),
        "note": loss_note(subject),
        "alt": _("Loss of each of {count} tokens. {note}").format(count=known, note=loss_note(subject)),
        "file": "loss-per-token",
        "stamp": stamp(subject.trace),
        "words": plot_words(_("series"), _("token"), _("loss −ln p (nats)")),
    }
    return chart(series, header, key, on_place)


def loss_note(subject: Subject) -> str:
    """Mean loss in both units, and the perplexity; the pinned trace's behind."""
    if bool(subject.losses.isnan().all()):
        return _("no actual token is known here")
    mean = float(subject.losses.nanmean())
    note = _("mean {nats} nats = {bits} bits · perplexity {perplexity}").format(
        nats=significant(mean), bits=significant(BITS * mean), perplexity=significant(perplexity(subject.losses))
    )
    if not subject.shift:
        note = f"{_('tokens that it could see:')} {note}"
    other = subject.pinned_losses
    if other is None or bool(other.isnan().all()):
        return note
    there, before = ~other.isnan(), significant(perplexity(other))
    if bool(there[~subject.losses.isnan()].all()):
        return f"{note} ({_('pinned')} {before})"
    now = significant(perplexity(subject.losses[there]))
    return f"{note} ({_('where both have the token: {now}, pinned {before}').format(now=now, before=before)})"


def pack_top(subject: Subject, key: str, on_row: Callable[[], None]) -> Mount:
    """The most probable tokens of every position, by rank."""
    values, tokens = subject.log_probabilities.topk(min(COLUMNS, subject.logits.shape[-1]), dim=-1)
    shown, name = values.exp(), _("probability")
    scale: dict[str, object] = {"low": 0, "high": 1, "title": name}
    other = subject.pinned_log_probabilities
    if subject.differing and other is not None:
        shown, name = values - other.gather(-1, tokens), "ln p − ln p′"
        most = float(shown.nan_to_num().abs().max()) or 1.0
        scale = {"low": -most, "high": most, "title": name, "difference": True}
    texts = [
        ("✓ " if token == actual else "") + visible(subject.label(token))
        for row, actual in zip(tokens.tolist(), subject.ids, strict=True)
        for token in row
    ]
    ranks = subject.ranks[subject.actual != UNKNOWN]
    first = int((ranks == 1).sum())
    note = _("actual token on rank 1: {first} of {count}").format(first=first, count=len(ranks))
    header = {
        "rows": {
            "title": _("position") if not subject.shift else _("position → actual token"),
            "labels": [subject.asked(position) for position in range(len(subject.tokens))],
            "side": subject.side,
        },
        "columns": {
            "title": _("rank"),
            "labels": [str(rank + 1) for rank in range(tokens.shape[1])],
            "side": "rank",
        },
        "scale": scale,
        "chosen": subject.chosen,
        "name": _("Most probable tokens"),
        "sentence": _("✓ is the actual token"),
        "note": note,
        "alt": _("The most probable tokens of {count} positions. {note}").format(count=len(subject.tokens), note=note),
        "file": "top-tokens",
        "stamp": stamp(subject.trace),
        "texts": texts,
        "words": plot_words(_("position"), _("rank"), name, _("masked"), _("token")),
    }
    array = shown.float().cpu().numpy()
    return heatmap(array, np.ones(array.shape, dtype=bool), header, key, on_row)


def pack_position(subject: Subject, key: str, on_choice: Callable[[], None]) -> Mount:
    """The chosen position's most probable tokens with their numbers."""
    position = subject.chosen
    tokens = subject.best(position, ROWS)
    own, other = subject.log_probabilities[position], subject.pinned_at(position)
    columns = [
        {"name": _("probability"), "formula": "p", "mark": "bar", "colour": LOSS},
        {"name": _("log-probability"), "formula": "ln p", "mark": "number"},
        {"name": _("logit"), "formula": "z", "mark": "number"},
    ]
    lines = [gathered(own.exp(), tokens), gathered(own, tokens), gathered(subject.logits[position], tokens)]
    if other is not None:
        columns += [
            {"name": _("pinned"), "formula": "p′", "mark": "bar", "colour": PINNED},
            {"name": _("difference"), "formula": "ln p − ln p′", "mark": "signed"},
        ]
        lines += [gathered(other.exp(), tokens), gathered(own - other, tokens)]
    header = {
        "name": subject.asked(position),
        "sentence": position_sentence(subject),
        "facts": facts(subject),
        "columns": columns,
        "rows": [subject.row(position, token, subject.rank_of(position, token)) for token in tokens],
        "position": position,
        "file": f"tokens-at-{position}",
        "stamp": stamp(subject.trace),
        "words": choice_words(),
    }
    return ranking(np.array(lines, np.float32).T, header, key, on_choice)


def position_sentence(subject: Subject) -> str:
    if not subject.shift:
        return subject.with_pin(_("what stands at position {place}").format(place=subject.chosen))
    return subject.with_pin(_("what comes after position {place}").format(place=subject.chosen))


def facts(subject: Subject) -> list[str]:
    """Rank, probability and loss of the actual token, the entropy, and the pinned trace's favourite."""
    position, size = subject.chosen, subject.logits.shape[-1]
    found = []
    if subject.ids[position] != UNKNOWN:
        loss = float(subject.losses[position])
        found += [
            _("rank {rank} of {size}").format(rank=f"{int(subject.ranks[position]):,}", size=f"{size:,}"),
            f"p = {significant(float(np.exp(-loss)))}",
            _("loss {nats} nats = {bits} bits").format(nats=significant(loss), bits=significant(BITS * loss)),
        ]
    entropy = float(entropies(subject.logits[position]))
    found.append(_("entropy {nats} nats").format(nats=significant(entropy)))
    top = subject.pinned_top(position)
    if top is not None:
        found.append(_("pinned top token: {token}").format(token=top))
    return found


def table(subject: Subject) -> pd.DataFrame:
    """A row per position: the actual token with its numbers, and the model's first choice."""
    probability, top = subject.log_probabilities.exp().max(dim=-1)
    columns: dict[str, object] = {
        _("position"): range(len(subject.tokens)),
        _("token"): subject.tokens,
        _("actual token"): ["" if token == UNKNOWN else subject.label(token) for token in subject.ids],
        _("rank"): subject.ranks.tolist(),
        _("loss −ln p (nats)"): subject.losses.tolist(),
        _("entropy"): entropies(subject.logits).tolist(),
        _("top token"): [subject.label(token) for token in top.tolist()],
        _("probability"): probability.tolist(),
    }
    if subject.pinned_losses is not None:
        columns[_("pinned loss")] = subject.pinned_losses.tolist()
        columns[_("pinned top token")] = [subject.pinned_top(place) or "" for place in range(len(subject.tokens))]
    return pd.DataFrame(columns)
