"""The curves of this session's training: every run over the others, with marks where settings changed."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from model.analysis.downsample import outline, smoothed
from model.message import Message
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import hue
from viz.figures.compared import of_now
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.format import enumeration, significant
from viz.i18n.messages import joined
from viz.i18n.names import PARTS
from viz.pages.training.runs import change_texts
from viz.pages.training.start import offer_begin, waits
from viz.render.view import view
from viz.state.session import attention_kinds, choose, choose_attention, current_session
from viz.state.training import training
from viz.ui.choice_row import choice_row
from viz.ui.parts import Drawing, Views, no_views

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind
    from model.inference.text_model import TextModel
    from model.training.live.runs import Run

GROUP, SMOOTHING, AXES = "curves", "smoothing", "axes"  # in the address
GROUPS = {"whole": Message("whole network"), "layers": Message("by layer"), "heads": Message("heads")}
WHOLE = ("loss", "validation", "accuracy", "rate", "gradient norm")
SMOOTHINGS = ("0.9", "0.98", "0")
SCALES = ("linear", "log", "log-log")
NOISY = ("loss", "gradient norm", "update ratio")  # smoothed quantities
WIDE = ("loss", "validation", "rate", "gradient norm", "update ratio", "γ drift")  # quantities over many powers of ten
SHARES = ("accuracy",)  # from 0 to 1
TITLES = {  # of the curves of the whole network
    "loss": Message("training loss"),
    "validation": Message("validation loss"),
    "smoothed validation": Message("validation loss, smoothed labels"),
    "accuracy": Message("tokens predicted rightly"),
    "exact match": Message("exact match"),
    "rate": Message("learning rate"),
    "gradient norm": Message("gradient norm"),
}
HEADINGS = {  # of the charts of one quantity
    "loss": Message("Training and validation loss"),
    "accuracy": Message("Tokens predicted rightly"),
    "rate": Message("Learning rate"),
    "gradient norm": Message("Gradient norm"),
    "update ratio": Message("Update-to-weight ratio"),
    "γ drift": Message("Drift of the norms' γ"),
    "dead units": Message("Units idle on the probe"),
}
UNITS = {  # of the value axis
    "loss": Message("nats per token"),
    "entropy": Message("nats"),
    "accuracy": Message("share"),
    "dead units": Message("share"),
    "update ratio": "‖Δw‖ / ‖w‖",
    "γ drift": "√mean (γ − γ₀)²",
    "gradient norm": "‖g‖",
}
TURNS = {"validation": 130, "exact match": 130, "smoothed validation": 65}  # of a run's hue, in degrees
POINTS, ALL = 400, 12_000  # of a series, of a chart
TALL = 150
LEGIBLE = 8  # names of curves above a chart; of more, the pointer says them


@dataclass(frozen=True)
class Line:
    """A curve's name in its run, and how it is drawn."""

    name: str
    run: Run
    label: str
    colour: int  # a hue, in degrees
    dash: bool = False


@dataclass(frozen=True)
class Look:
    """Choices of the user. keep: the weight of the past in the average."""

    keep: float
    log: bool
    log_x: bool


class Table:
    """Curves of some runs as they are drawn now; read once for all charts."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._dense = {run.number: (run.curves.table(), {n: i for i, n in enumerate(run.curves.names)}) for run in runs}

    @property
    def last(self) -> int:
        """The latest step of them all."""
        return max(1, *(int(steps[-1]) for (steps, _values), _columns in self._dense.values()))

    def get(self, run: Run, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
        (steps, values), columns = self._dense[run.number]
        column = columns[name]
        if column >= values.shape[1]:  # not measured at every step
            places, ys = run.curves.get(name)
            return places.astype(float), ys
        measured = ~np.isnan(values[:, column])
        return steps[measured].astype(float), values[measured, column]


def page() -> Views:
    """Small multiples of one group of curves; all of them as a file."""
    live = training(current_session())
    run = live.current if live else None
    if live is None or run is None:
        if live is None:
            offer_begin()
            return no_views
        st.caption(_("There are no curves yet: train a step."))
        return waits
    kinds = attention_kinds(live.start.network)
    words = {"linear": _("linear axes"), "log": _("log values"), "log-log": _("log both")}
    with choice_row("curves") as row:
        group = choose(_("Curves"), list(GROUPS), "whole", GROUP, GROUPS.__getitem__, row.place)
        kind = choose_attention(kinds, row.place) if group == "heads" else kinds[0]
        keep = row.choose(_("Smoothing"), SMOOTHINGS, SMOOTHINGS[0], SMOOTHING, smoothing_name)
        scale = row.choose(_("Axes"), SCALES, SCALES[0], AXES, words.__getitem__)
        if row.rest:
            row.rest.download_button("CSV", lambda: table_of(live.runs), "curves.csv", "text/csv", key="curves_csv")
    look = Look(float(keep), scale != "linear", scale == "log-log")
    known = charts_of(live.runs, run, group, kind)
    columns = min(4, max(2, len(known))) if group == "heads" else 2
    lines = (st.columns(columns, gap="medium") for _line in range(0, len(known), columns))
    places = dict(zip(known, (place for line in lines for place in line), strict=False))

    def views(_model: TextModel) -> Drawing:
        session = current_session()
        current = live.current
        charts = charts_of(live.runs, current, group, kind) if current else {}
        if current is None or set(charts) != set(places):  # of another run
            session.rerun_requested = True
        else:
            table = Table(live.runs)
            yield [
                (places[title], view(f"curves_{title}", curve_chart(title, lines, table, look, current)))
                for title, lines in charts.items()
            ]
        return None

    return views


def smoothing_name(keep: str) -> str:
    """keep: the weight of the past in the average."""
    return Message("as measured") if keep == "0" else Message("smoothed {keep}", keep=keep)


def part_name(path: str) -> str:
    """A module path as people say it: "decoder.layers.0.cross_attention" is "decoder 1 cross-attention"."""
    parts = [part for part in path.split(".") if part != "layers"]
    return joined(" ", *(str(int(part) + 1) if part.isdigit() else PARTS.get(part, part) for part in parts))


def charts_of(runs: Sequence[Run], run: Run, group: str, kind: AttentionKind) -> dict[str, list[Line]]:
    """The lines of each chart of a group, by the charts' titles. run: the present one."""
    parent = next((other for other in runs if other.number == run.parent), None)
    if group == "whole":
        charts = {title: over_runs(title, runs, parent) for title in WHOLE}
        charts["accuracy"] += over_runs("exact match", runs, parent)
        charts["loss"] += smoothed_validations(runs, parent) + charts.pop("validation")
    elif group == "layers":
        titles = ("gradient norm", "update ratio", "γ drift", "dead units")
        charts = {title: parts_of(title, run, parent) for title in titles}
    else:
        charts = heads_of(kind, run, parent)
    return {title: lines for title, lines in charts.items() if lines}


def over_runs(name: str, runs: Sequence[Run], parent: Run | None) -> list[Line]:
    """A figure of the whole network in every run."""
    label = TITLES[name]
    return [
        Line(
            name,
            run,
            joined(" · ", label, "" if len(runs) == 1 else Message("run {number}", number=run.number)),
            hue(run.number, TURNS.get(name, 0)),
            run is parent,
        )
        for run in runs
    ]


def smoothed_validations(runs: Sequence[Run], parent: Run | None) -> list[Line]:
    """The validation loss with the labels smoothed as the training's are, of the runs that smooth them."""
    lines = over_runs("smoothed validation", runs, parent)
    return [line for line in lines if len(line.run.curves.get(line.name)[0])]


def parts_of(title: str, run: Run, parent: Run | None) -> list[Line]:
    """A figure that each layer, embedding, norm or feed-forward has."""
    names = [name for name in run.curves.names if name.startswith(f"{title}/")]
    names.sort(key=lambda name: not name.startswith(f"{title}/encoder"))  # the others keep their order
    return [
        Line(name, each, part_name(name.partition("/")[2]), hue(index), each is not run)
        for each in (run, parent)
        if each
        for index, name in enumerate(names, start=1)
    ]


def heads_of(kind: AttentionKind, run: Run, parent: Run | None) -> dict[str, list[Line]]:
    """The entropy of every head, a chart for each layer."""
    from model.capture.trace import ATTENTION_PATHS

    stack = "encoder" if kind == "encoder" else "decoder"
    charts: dict[str, list[Line]] = {}
    layer = 0
    while names := [n for n in run.curves.names if n.startswith(f"entropy/{ATTENTION_PATHS[kind].format(layer)}/")]:
        charts[part_name(f"{stack}.layers.{layer}")] = [
            Line(name, each, joined(" ", Message("head"), f"{head + 1}"), round(head * 137.5) % 360, each is not run)
            for each in (run, parent)
            if each
            for head, name in enumerate(names)
        ]
        layer += 1
    return charts


def about(quantity: str) -> About:
    """Explanation of a curve of this quantity."""
    from model.analysis.feed_forward import SMALL, off, threshold
    from model.analysis.head_metrics import entropy
    from model.training.gradients import Gains, Gradients
    from model.training.losses import loss_and_hits, summed_loss
    from model.training.optimizer import FlatAdamW
    from model.training.schedule import learning_rate

    length = r"\left\lVert \frac{\partial L}{\partial W} \right\rVert"
    return {
        "loss": About(
            Message("How much each right token surprises the model: of the batch, and of texts it never trains on."),
            [
                r"L_\varepsilon = -\tfrac1n \sum_t \left((1 - \varepsilon) \ln p_t(y_t) + "
                r"\tfrac{\varepsilon}{V} \sum_{k=1}^{V} \ln p_t(k)\right)",
                r"\text{validation: } L_0 = -\tfrac1n \sum_t \ln p_t(y_t)",
            ],
            [summed_loss, loss_and_hits],
            meaning=Message(
                "Label smoothing ε is part of the training's own loss, which cannot fall to 0 then. Validation has "
                "none, as on every page; with it, to stand beside the training, it is drawn too."
            ),
        ),
        "accuracy": About(
            Message(
                "The share of tokens whose most probable prediction is right; exact match: of texts in which all are."
            ),
            [r"\tfrac1n\, \#\{\,t : \arg\max_y p(y) = y_t\,\}"],
            [loss_and_hits],
            meaning=Message("It may stand still while the loss falls: the model grows surer of what is right already."),
        ),
        "rate": About(
            Message("What Adam's step is multiplied by: it grows in the warm-up and then follows the schedule."),
            [r"w \leftarrow w - \eta_t\, \hat m_t / (\sqrt{\hat v_t} + \epsilon)"],
            [learning_rate, FlatAdamW],
            meaning=Message("The first steps are small, for what is known of the gradients is still little."),
        ),
        "gradient norm": About(
            Message("How steep the loss is in the weights, before it is clipped."),
            [length],
            [Gradients.norms],
            meaning=Message("A sudden peak is a batch that would have thrown the weights far."),
        ),
        "update ratio": About(
            Message("How far a step moves the weights, against their own length: about 0.001 is usual."),
            [r"\lVert \Delta W \rVert / \lVert W \rVert"],
            [Gradients.update_ratios],
            meaning=Message("Far above that a training is restless, far below it hardly moves."),
        ),
        "γ drift": About(
            Message("How far the gains of each norm have gone from where they began."),
            [r"\sqrt{\tfrac1d \sum_c (\gamma_c - \gamma_{0,c})^2}"],
            [Gains.drifts],
            meaning=Message("Where they have gone far, the norm has come to favour some channels."),
        ),
        "dead units": About(
            Message(
                "The share of feed-forward units that are off at all tokens of the probe, the text that the film "
                "shows, by the rule of the page Feed-forward: what W₂ multiplies is 0 with ReLU, and at most {small} "
                "in size with other activations, which are never exactly 0.",
                small=SMALL,
            ),
            [
                r"\tfrac{1}{d_{ff}}\, \#\{\,u : \max_t \lvert a_{t,u} \rvert \le \theta\,\}, \quad "
                + rf"\theta = 0 \text{{ (ReLU), }} {SMALL} \text{{ (others)}}"
            ],
            [off, threshold],
            meaning=Message("With ReLU they get no gradient, and so rarely come back."),
        ),
        "entropy": About(
            Message(
                "How widely each head spreads its attention on the probe, the text that the film shows: 0 for one "
                "token, ln n for n alike."
            ),
            [r"H = -\tfrac1n \sum_i \sum_j w_{ij} \ln w_{ij}"],
            [entropy],
            meaning=Message("It falls where a head finds what to look at."),
        ),
    }[quantity]


def curve_chart(title: str, lines: Sequence[Line], table: Table, look: Look, run: Run) -> Chart:
    from model.training.live.runs import SPARSE

    most = max(40, min(POINTS, ALL // len(lines)))
    series: list[Series] = []
    for line in lines:
        xs, ys = table.get(line.run, line.name)
        points = outline(xs, ys, most)
        quiet = len(lines) == 1 or len(lines) > LEGIBLE or (line.dash and "/" in line.name)
        if look.keep and line.name.partition("/")[0] in NOISY and len(ys) > 1:
            if "/" not in line.name:
                name = joined(" · ", line.label, smoothing_name("0"))
                series.append(Series(name, *points, f"hsl({line.colour} 65% 40% / 0.28)", quiet=True))
            points = outline(xs, smoothed(ys, look.keep), most)
        series.append(Series(line.label, *points, f"hsl({line.colour} 65% 40%)", dash=line.dash, quiet=quiet))
    quantity = lines[0].name.partition("/")[0]
    sentences = [Message("smoothed by {keep}", keep=look.keep)] if look.keep and quantity in NOISY else []
    drawn = [of_now(each.ys) for each in series]
    if not any(map(len, drawn)):
        every = run.settings.validate_every
        if not all(line.name in SPARSE for line in lines):
            sentences.append(Message("not measured yet: train a step"))
        elif every:
            sentences.append(Message("not measured yet, that comes every {every} steps", every=every))
        else:
            sentences.append(Message("not measured in this training"))
    if len(lines) > LEGIBLE:
        sentences.append(Message("point at a curve, or tap it, for its name"))
    if any(line.name == "smoothed validation" for line in lines):
        sentences.append(
            Message("the training's loss has label smoothing in it; validation is drawn with it and without it")
        )
    if any(line.dash for line in lines):
        sentences.append(Message("dashed: the run it left"))
    name = HEADINGS.get(title, title)
    texts: dict[int, list[str]] = {}
    if run.parent is not None:
        texts[run.begins] = [Message("run {number}", number=run.number)]
    for mark in run.changes:
        texts.setdefault(mark.step, []).append(enumeration(change_texts(mark.changes)))
    marks = [{"x": step, "text": joined(" · ", *parts)} for step, parts in sorted(texts.items())]
    last = next((significant(ys[-1]) for ys in reversed(drawn) if len(ys)), "")
    alt = Message(
        "{name} over the steps, {count} curve; the last value is {last}.",
        plural="{name} over the steps, {count} curves; the last value is {last}.",
        name=name,
        count=len(lines),
        last=last,
    )
    stamp = f"{run.number} {int(series[0].xs[-1]) if len(series[0].xs) else 0}"
    file, sentence = f"curves-{title.replace(' ', '-')}", joined(" · ", *sentences)
    heading = Caption(name, file, stamp, sentence=sentence, alt=alt, about=about(quantity))
    first, end = (None, None) if look.log_x else (0, table.last)  # 0 has no logarithm
    low, high = (0, 1) if quantity in SHARES else (None, None)
    x = Axis(Message("step"), log=look.log_x, low=first, high=end)
    y = Axis(UNITS.get(quantity, Message("rate")), log=look.log and quantity in WIDE, low=low, high=high)
    return Chart(heading, series, x, y, tall=TALL, marks=marks)


def table_of(runs: Sequence[Run]) -> bytes:
    """Every figure of every run: run, step, name, value; in UTF-8 with the mark that tells spreadsheets so."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", "step", "name", "value"])
    table = Table(runs)
    for run in runs:
        for name in run.curves.names:
            for step, value in zip(*table.get(run, name), strict=True):
                writer.writerow([run.number, int(step), name, repr(float(value))])
    return text.getvalue().encode("utf-8-sig")
