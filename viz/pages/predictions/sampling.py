"""Temperature, top-k and top-p on logits that are there already; and how a softmax saturates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from model.analysis.head_metrics import entropies
from model.analysis.predictions import Sampled, sampled, saturation
from model.inference.decoding import Sampling
from model.runtime.device import exact
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.predictions.components import ranking
from viz.ui.parts import plot_words, stamp
from viz.ui.plots import PINNED
from viz.ui.prediction import GOOD, LOSS, Subject, choice_words, gathered

ROWS = 14
TEMPERATURES = [float(value) for value in np.geomspace(0.05, 20, 41)]
BEFORE, AFTER = "#8a8fa3", LOSS


def draw(subject: Subject, sampling: Sampling) -> Sampled:
    """The chosen position's distribution before and after."""
    return sampled(subject.logits[subject.chosen], sampling)


def pack_drawn(subject: Subject, sampling: Sampling, drawn: Sampled, key: str, on_choice: Callable[[], None]) -> Mount:
    """The most probable tokens before and after, all others as one row, the sum below."""
    position = subject.chosen
    shown = min(ROWS, len(drawn.tokens))
    tokens = drawn.tokens[:shown].tolist()
    columns = [
        {"name": _("before"), "formula": "softmax(z)", "mark": "bar", "colour": BEFORE},
        {"name": _("after"), "formula": "softmax(z/T)", "mark": "bar", "colour": AFTER},
    ]
    whole = [drawn.before, drawn.after]
    if subject.pinned is not None and subject.pinned_at(position) is not None:
        other = sampling(subject.pinned[position].to(drawn.tokens.device))[drawn.tokens]
        columns.append({"name": _("pinned, after"), "formula": "softmax(z′/T)", "mark": "bar", "colour": PINNED})
        whole.append(other)
    lines = [gathered(each, range(shown)) for each in whole]
    rows = [subject.row(position, token, rank) for rank, token in enumerate(tokens, start=1)]
    many = {"special": False, "actual": False, "open": False}
    if len(drawn.tokens) > shown:
        count = f"{len(drawn.tokens) - shown:,}"
        rows.append({"label": _("{count} others").format(count=count), "rank": "", **many})
        lines = [[*line, float(each[shown:].sum())] for line, each in zip(lines, whole, strict=True)]
    rows.append({"label": "Σ", "rank": "", **many})
    lines = [[*line, float(exact(each).sum())] for line, each in zip(lines, whole, strict=True)]
    header = {
        "name": subject.asked(position),
        "sentence": subject.with_pin(_("before and after, no new forward pass")),
        "facts": facts(drawn),
        "columns": columns,
        "rows": rows,
        "position": position,
        "file": f"probabilities-at-{position}",
        "stamp": f"{stamp(subject.trace)} {sampling}",
        "words": choice_words(),
    }
    return ranking(np.array(lines, np.float32).T, header, key, on_choice)


def facts(drawn: Sampled) -> list[str]:
    size = len(drawn.tokens)
    before, after = (float(entropies(each)) for each in (drawn.before, drawn.after))
    return [
        _("{left} of {size} tokens left").format(left=f"{drawn.left:,}", size=f"{size:,}"),
        _("they had probability {kept}").format(kept=significant(drawn.kept)),
        _("entropy {before} → {after} nats").format(before=significant(before), after=significant(after)),
    ]


def pack_curve(subject: Subject, drawn: Sampled, key: str) -> Mount:
    """Probability by rank, before and after, on logarithmic axes."""
    ranks = np.arange(1, len(drawn.tokens) + 1, dtype=np.float32)
    picked = np.unique(np.geomspace(1, len(ranks), 300).round().astype(int)) - 1  # evenly on the axis
    after = np.where(drawn.after.cpu() > 0, drawn.after.cpu(), np.nan)
    series = [Series(_("before"), ranks[picked], drawn.before.cpu().numpy()[picked], BEFORE)]
    series.append(Series(_("after"), ranks[picked], after[picked].astype(np.float32), AFTER))
    if subject.pinned is not None and subject.pinned_at(subject.chosen) is not None:
        other = subject.pinned[subject.chosen].float().softmax(dim=-1).sort(descending=True).values.cpu().numpy()
        series.append(Series(_("pinned"), ranks[picked], other[picked], PINNED, dash=True))
    note = _("{left} of {size} tokens left").format(left=f"{drawn.left:,}", size=f"{len(ranks):,}")
    header = {
        "x": {"title": _("rank"), "log": True},
        "y": {"title": _("probability"), "log": True, "low": 1e-8, "high": 1.0},
        "tall": 150,
        "name": _("Probability by rank"),
        "note": note,
        "alt": _("Probability by rank before and after. {note}").format(note=note),
        "file": "probability-by-rank",
        "stamp": stamp(subject.trace),
        "words": plot_words(_("series"), _("rank"), _("probability")),
    }
    return chart(series, header, key)


def pack_saturation(subject: Subject, temperature: float, key: str) -> Mount:
    """The largest probability, the entropy and the softmax's derivative over the temperature."""
    found = saturation(subject.logits[subject.chosen], TEMPERATURES)
    xs = np.array(TEMPERATURES, np.float32)
    names = [_("largest probability"), _("entropy / ln n"), "‖∂softmax‖"]
    colours = [LOSS, GOOD, "#d55e00"]
    values = [found.largest, found.entropy, found.derivative]
    series = [
        Series(name, xs, value.cpu().numpy(), colour)
        for name, value, colour in zip(names, values, colours, strict=True)
    ]
    if subject.pinned is not None and subject.pinned_at(subject.chosen) is not None:
        other = saturation(subject.pinned[subject.chosen].to(subject.logits.device), TEMPERATURES)
        name = f"{names[0]}, {_('pinned')}"
        series.append(Series(name, xs, other.largest.cpu().numpy(), PINNED, dash=True))
    now = np.array([temperature, temperature], np.float32)
    series.append(Series(_("chosen temperature"), now, np.array([0, 1], np.float32), BEFORE))
    at = saturation(subject.logits[subject.chosen], [temperature])
    note = _("T = {temperature}: p ≤ {largest}, ‖∂‖ = {derivative}").format(
        temperature=significant(temperature),
        largest=significant(float(at.largest)),
        derivative=significant(float(at.derivative)),
    )
    header = {
        "x": {"title": _("temperature T"), "log": True},
        "y": {"title": _("value"), "low": 0.0, "high": 1.0},
        "tall": 150,
        "name": _("Saturation of the softmax"),
        "note": note,
        "alt": _("Softmax over the temperature. {note}").format(note=note),
        "file": "softmax-saturation",
        "stamp": stamp(subject.trace),
        "words": plot_words(_("series"), _("temperature T"), _("value")),
    }
    return chart(series, header, key)


def table(subject: Subject, drawn: Sampled) -> pd.DataFrame:
    """The chosen position's whole distribution, most probable first."""
    columns = {
        _("rank"): range(1, len(drawn.tokens) + 1),
        _("token"): [subject.label(token) for token in drawn.tokens.tolist()],
        _("before"): drawn.before.tolist(),
        _("after"): drawn.after.tolist(),
    }
    return pd.DataFrame(columns)
