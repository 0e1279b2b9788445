"""Every position: its loss, its most probable tokens; one position closely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas import DataFrame
from torch import Tensor

from model.analysis.predictions import UNKNOWN, entropies, perplexity
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import DIFFERENCE, LOSS, OUTPUT, PINNED
from viz.figures.heatmap import Heatmap
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.pages.predictions.components import Column, Ranking
from viz.pages.predictions.text import about_losses, about_position, about_top
from viz.ui.parts import frame_of
from viz.ui.plots import array, caption, word
from viz.ui.prediction import BITS, Subject, difference_scale, expectation, gathered, visible

COLUMNS = 6  # of the heatmap: the most probable tokens of each position
ROWS = 12  # of the list of one position


def losses_chart(subject: Subject) -> Chart:
    """−ln p of every actual token; differing: how much more probable it is than it was in the pinned trace."""
    places = np.arange(len(subject.places), dtype=np.float32)
    own, other = subject.losses, subject.pinned_losses
    differing = subject.differing and other is not None
    if differing and other is not None:
        name, quantity = Message("Difference from the pinned log-probability"), Message("ln p − ln p′ (nats)")
        values = subject.at_places(other - own)
        colours = [DIFFERENCE[int(value >= 0)] for value in values]
        series = [Series("ln p − ln p′", places, values, DIFFERENCE[1], "bars", colours=colours)]
    else:
        name, quantity = Message("Loss per token"), Message("loss −ln p (nats)")
        series = [Series(Message("loss"), places, subject.at_places(own), LOSS, "bars")]
        if other is not None:
            series.append(Series(Message("pinned"), places, subject.at_places(other), PINNED, dash=True))
    about = about_losses(subject.model, differing)
    finding = "" if differing else hardest(subject)
    above = caption(subject.inputs, name, "loss-per-token", loss_note(subject), about=about, finding=finding)
    x, chosen = Axis(Message("actual token"), subject.places, subject.side), subject.chosen + subject.shift
    return Chart(above, series, x, Axis(quantity), chosen=chosen, tall=150)


def hardest(subject: Subject) -> str:
    """The token with the largest loss; "" where none is known, or the model could see them all."""
    if not subject.shift:
        return ""
    losses = subject.losses.nan_to_num(nan=-1.0)
    place = int(losses.argmax())
    if not math.isfinite(loss := float(losses[place])) or loss < 0:
        return ""
    token = word(visible(subject.label(subject.ids[place])))
    return Message("{token} is the hardest to predict: {loss} nats", token=token, loss=significant(loss))


def expected(subject: Subject) -> str:
    """The most probable token at the chosen position; "" where there is no number."""
    best = subject.best(subject.chosen, 1)
    if not best:
        return ""
    share = float(subject.log_probabilities[subject.chosen, best[0]].exp())
    return expectation(subject.tokens[subject.chosen], subject.label(best[0]), share, not subject.shift)


def loss_note(subject: Subject) -> str:
    """Mean loss in both units, and the perplexity; the pinned trace's behind."""
    if bool(subject.logits.isnan().any(dim=-1).all()):
        return Message("not a number")
    if bool(subject.losses.isnan().all()):
        return Message("no actual token is known here")
    mean = float(subject.losses.nanmean())
    note: str = Message(
        "mean {nats} nats = {bits} bits · perplexity {perplexity}",
        nats=significant(mean),
        bits=significant(BITS * mean),
        perplexity=significant(perplexity(subject.losses)),
    )
    if not subject.shift:
        note = joined(" ", Message("tokens that it could see:"), note)
    other = subject.pinned_losses
    if other is None or bool(other.isnan().all()):
        return note
    there, before = ~other.isnan(), significant(perplexity(other))
    if bool(there[~subject.losses.isnan()].all()):
        return joined("", note, " (", Message("pinned"), f" {before})")
    now = significant(perplexity(subject.losses[there]))
    both = Message("where both have the token: {now}, pinned {before}", now=now, before=before)
    return joined("", note, " (", both, ")")


def top_map(subject: Subject) -> Heatmap:
    """The most probable tokens of every position, by rank."""
    best, tokens = subject.log_probabilities.topk(min(COLUMNS, subject.logits.shape[-1]), dim=-1)
    values, scale = array(best.exp()), Scale(0, 1, Message("probability"), colour=OUTPUT)
    other = subject.pinned_log_probabilities
    if subject.differing and other is not None:
        values = array(best - other.gather(-1, tokens))
        scale = difference_scale(values, "ln p − ln p′")
    texts = [
        ("✓ " if token == actual else "") + visible(subject.label(token)) if value == value else Message("not a number")
        for row, probabilities, actual in zip(tokens.tolist(), best.tolist(), subject.ids, strict=True)
        for token, value in zip(row, probabilities, strict=True)
    ]
    ranks = subject.ranks[subject.actual != UNKNOWN]
    note = Message("actual token on rank 1: {first} of {count}", first=int((ranks == 1).sum()), count=len(ranks))
    name, sentence = Message("Most probable tokens"), Message("✓ is the actual token")
    about = about_top(subject.model, subject.differing and other is not None)
    above = caption(subject.inputs, name, "top-tokens", note, sentence, about=about, finding=expected(subject))
    rows = subject.axis(Message("position → actual token") if subject.shift else Message("position"))
    columns = Axis(Message("rank"), [str(rank + 1) for rank in range(tokens.shape[1])], "rank")
    chosen, title = subject.chosen, Message("token")
    return Heatmap(
        *(above, values, rows, columns, scale), chosen=chosen, texts=texts, texts_title=title, ranked=True, large=True
    )


def position_ranking(subject: Subject) -> Ranking:
    """The chosen position's most probable tokens with their numbers."""
    position = subject.chosen
    tokens = subject.best(position, ROWS)
    columns = measures(subject, position, tokens, subject.pinned_at(position))
    columns.insert(2, Column(Message("logit"), gathered(subject.logits[position], tokens), "z"))
    rows = [subject.row(position, token, subject.rank_of(position, token)) for token in tokens]
    name, sentence = subject.question(position), position_sentence(subject)
    file, about = f"tokens-at-{position}", about_position(subject.model)
    above = caption(subject.inputs, name, file, sentence=sentence, about=about)
    return Ranking(above, rows, columns, position, facts(subject))


def measures(subject: Subject, position: int, tokens: Sequence[int], pinned: Tensor | None) -> list[Column]:
    """Probabilities of these tokens at a position, beside those of the pinned log-probabilities."""
    own = subject.log_probabilities[position]
    columns = [
        Column(Message("probability"), gathered(own.exp(), tokens), "p", "bar", OUTPUT),
        Column(Message("log-probability"), gathered(own, tokens), "ln p"),
    ]
    if pinned is not None:
        columns += [
            Column(Message("pinned"), gathered(pinned.exp(), tokens), "p′", "bar", PINNED),
            Column(Message("difference"), gathered(own - pinned, tokens), "ln p − ln p′", "signed"),
        ]
    return columns


def position_sentence(subject: Subject) -> str:
    if not subject.shift:
        return subject.with_pin(Message("what stands at position {place}", place=subject.chosen + 1))
    return subject.with_pin(Message("what comes after position {place}", place=subject.chosen + 1))


def facts(subject: Subject) -> list[str]:
    """Rank, probability and loss of the actual token, the entropy, and the pinned trace's favourite."""
    position, size = subject.chosen, subject.logits.shape[-1]
    sentences = []
    if subject.ids[position] != UNKNOWN:
        loss = float(subject.losses[position])
        sentences += [
            Message("rank {rank} of {size}", rank=rank_text(float(subject.ranks[position])), size=f"{size:,}"),
            f"p = {significant(float(np.exp(-loss)))}",
            Message("loss {nats} nats = {bits} bits", nats=significant(loss), bits=significant(BITS * loss)),
        ]
    entropy = float(entropies(subject.logits[position]))
    sentences.append(Message("entropy {nats} nats", nats=significant(entropy)))
    top = subject.pinned_top(position)
    if top is not None:
        sentences.append(Message("pinned top token: {token}", token=top))
    return sentences


def rank_text(rank: float) -> str:
    return f"{int(rank):,}" if math.isfinite(rank) else Message("not a number")


def table(subject: Subject) -> DataFrame:
    """A row per position: the actual token with its numbers, and the model's first choice."""
    probability, top = subject.log_probabilities.exp().max(dim=-1)
    columns: dict[str, Any] = {
        Message("position"): range(1, len(subject.tokens) + 1),
        Message("token"): subject.tokens,
        Message("actual token"): ["" if token == UNKNOWN else subject.label(token) for token in subject.ids],
        Message("rank"): subject.ranks.tolist(),
        Message("loss −ln p (nats)"): subject.losses.tolist(),
        Message("entropy"): entropies(subject.logits).tolist(),
        Message("top token"): [subject.label(token) for token in top.tolist()],
        Message("probability"): probability.tolist(),
    }
    if subject.pinned_losses is not None:
        columns[Message("pinned loss")] = subject.pinned_losses.tolist()
        columns[Message("pinned top token")] = [subject.pinned_top(place) or "" for place in range(len(subject.tokens))]
    return frame_of(columns)
