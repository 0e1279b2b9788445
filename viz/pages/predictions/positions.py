"""Every position: its loss, its most probable tokens; one position closely."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from model.analysis.predictions import UNKNOWN, entropies, perplexity
from viz.components.view import Answer
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.predictions.components import Column, Ranking
from viz.pages.predictions.text import about_losses, about_position, about_top
from viz.render.view import FigureView, view
from viz.ui.plots import PINNED, array, heading
from viz.ui.prediction import BITS, GOOD, LOSS, Subject, difference_scale, gathered, visible

COLUMNS = 6  # of the heatmap: the most probable tokens of each position
ROWS = 12  # of the list of one position


def losses_chart(subject: Subject, key: str, on_place: Answer) -> FigureView:
    """−ln p of every actual token; differing: how much more probable it is than it was in the pinned trace."""
    places = np.arange(len(subject.places), dtype=np.float32)
    own, other = subject.losses, subject.pinned_losses
    differing = subject.differing and other is not None
    if differing and other is not None:
        name, quantity = _("Difference from the pinned log-probability"), _("ln p − ln p′ (nats)")
        values = subject.at_places(other - own)
        colours = ["rgb(150,60,190)" if value < 0 else "rgb(0,140,110)" for value in values]
        series = [Series("ln p − ln p′", places, values, GOOD, "bars", colours=colours)]
    else:
        name, quantity = _("Loss per token"), _("loss −ln p (nats)")
        series = [Series(_("loss"), places, subject.at_places(own), LOSS, "bars")]
        if other is not None:
            series.append(Series(_("pinned"), places, subject.at_places(other), PINNED, dash=True))
    about = about_losses(subject.model, differing)
    above = heading(subject.trace, name, "loss-per-token", loss_note(subject), about=about)
    x, chosen = Axis(_("actual token"), subject.places, subject.side), subject.chosen + subject.shift
    return view(key, Chart(above, series, x, Axis(quantity), chosen=chosen, tall=150), place=on_place)


def loss_note(subject: Subject) -> str:
    """Mean loss in both units, and the perplexity; the pinned trace's behind."""
    if bool(subject.logits.isnan().any(dim=-1).all()):
        return _("not a number")
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


def top_map(subject: Subject, key: str, on_row: Answer) -> FigureView:
    """The most probable tokens of every position, by rank."""
    best, tokens = subject.log_probabilities.topk(min(COLUMNS, subject.logits.shape[-1]), dim=-1)
    values, scale = array(best.exp()), Scale(0, 1, _("probability"))
    other = subject.pinned_log_probabilities
    if subject.differing and other is not None:
        values = array(best - other.gather(-1, tokens))
        scale = difference_scale(values, "ln p − ln p′")
    texts = [
        ("✓ " if token == actual else "") + visible(subject.label(token)) if value == value else _("not a number")
        for row, found, actual in zip(tokens.tolist(), best.tolist(), subject.ids, strict=True)
        for token, value in zip(row, found, strict=True)
    ]
    ranks = subject.ranks[subject.actual != UNKNOWN]
    note = _("actual token on rank 1: {first} of {count}").format(first=int((ranks == 1).sum()), count=len(ranks))
    name, sentence = _("Most probable tokens"), _("✓ is the actual token")
    about = about_top(subject.model, subject.differing and other is not None)
    above = heading(subject.trace, name, "top-tokens", note, sentence, about=about)
    rows = subject.axis(_("position → actual token") if subject.shift else _("position"))
    columns = Axis(_("rank"), [str(rank + 1) for rank in range(tokens.shape[1])], "rank")
    chosen, title = subject.chosen, _("token")
    return view(
        key, Heatmap(above, values, rows, columns, scale, chosen=chosen, texts=texts, texts_title=title), row=on_row
    )


def position_ranking(subject: Subject, key: str, on_choice: Answer) -> FigureView:
    """The chosen position's most probable tokens with their numbers."""
    position = subject.chosen
    tokens = subject.best(position, ROWS)
    columns = measures(subject, position, tokens, subject.pinned_at(position))
    columns.insert(2, Column(_("logit"), gathered(subject.logits[position], tokens), "z"))
    rows = [subject.row(position, token, subject.rank_of(position, token)) for token in tokens]
    name, sentence = subject.asked(position), position_sentence(subject)
    file, about = f"tokens-at-{position}", about_position(subject.model)
    above = heading(subject.trace, name, file, sentence=sentence, about=about)
    return view(key, Ranking(above, rows, columns, position, facts(subject)), choice=on_choice)


def measures(subject: Subject, position: int, tokens: Sequence[int], pinned: Tensor | None) -> list[Column]:
    """Probabilities of these tokens at a position, beside those of the pinned log-probabilities."""
    own = subject.log_probabilities[position]
    columns = [
        Column(_("probability"), gathered(own.exp(), tokens), "p", "bar", LOSS),
        Column(_("log-probability"), gathered(own, tokens), "ln p"),
    ]
    if pinned is not None:
        columns += [
            Column(_("pinned"), gathered(pinned.exp(), tokens), "p′", "bar", PINNED),
            Column(_("difference"), gathered(own - pinned, tokens), "ln p − ln p′", "signed"),
        ]
    return columns


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
            _("rank {rank} of {size}").format(rank=rank_text(float(subject.ranks[position])), size=f"{size:,}"),
            f"p = {significant(float(np.exp(-loss)))}",
            _("loss {nats} nats = {bits} bits").format(nats=significant(loss), bits=significant(BITS * loss)),
        ]
    entropy = float(entropies(subject.logits[position]))
    found.append(_("entropy {nats} nats").format(nats=significant(entropy)))
    top = subject.pinned_top(position)
    if top is not None:
        found.append(_("pinned top token: {token}").format(token=top))
    return found


def rank_text(rank: float) -> str:
    return f"{int(rank):,}" if math.isfinite(rank) else _("not a number")


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
