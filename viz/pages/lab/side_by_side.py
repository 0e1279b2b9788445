"""What only a training can show: arms that differ in one thing learn side by side, and are judged at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np
import pandas as pd
import streamlit as st

from model.analysis.downsample import outline, smoothed
from model.data.tasks import TASKS
from model.experiments.side_by_side import Course, Setup, Side, rounds, step_seconds
from model.experiments.training_claims import COMPARISONS, answered_at, begin, lengths_of, setup_of
from model.experiments.weight_tying import tied
from model.inference.text_model import TextModel
from model.training.gradients import Gradients
from model.training.losses import loss_and_hits, summed_loss
from model.training.schedule import learning_rate
from viz.components.plots import About, Axis, Chart, Heading, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, significant, stopped
from viz.pages.lab.experiment import Experiment, Findings, Measurement
from viz.pages.lab.side_by_side_text import arm_name, claims, colours, method, verdicts
from viz.state import training
from viz.state.session import current_session
from viz.ui.curve_names import part_name, title_of
from viz.ui.fields import NARROW, Field, number_field
from viz.ui.plots import EXPECTED

KEEP = 0.9  # the weight of the past in a smoothed curve
POINTS = 300  # of a curve
FAINT = "59"  # the opacity of what was measured, behind what is smoothed
TESTING = 1.2  # times the training: what the tests on longer texts take too, about


def experiment(name: str, model: TextModel) -> Experiment:
    """The trainings of one comparison. Nothing here depends on the text."""
    claim = claims()[name]
    return Experiment(
        key=f"lab_{name}",
        claim=claim.claim,
        truth=claim.truth,
        parts=[partial(trainings, name, model)],
        formulas=[claim.formula],
        explanation=f"{claim.source} {method()}",
        code=(*claim.code, rounds),
    )


def trainings(name: str, model: TextModel) -> Measurement[Side] | None:
    if name == "tying" and model.network.ours:
        st.caption(literal(tied_counts(model)))
    chosen = controls(name, model)
    if chosen is None:
        return None
    setup, longest = chosen
    if longest and longest <= max(setup.lengths):
        st.error(_("The test must go beyond the lengths trained on: choose a longer one."))
        return None
    try:
        words = forecast(name, setup, longest)
    except (ValueError, FloatingPointError) as error:
        st.error(as_sentence(translate_error(error)))
        return None
    if training.is_moving(training.training(current_session())):
        st.caption(_("A training runs on the page Training too: times suffer, losses do not."))
    return Measurement(
        measure=partial(begin, name),
        settings=(setup, longest),
        findings=partial(findings, name),
        begin=_("Train side by side"),
        forecast=words,
    )


def tied_counts(model: TextModel) -> str:
    """What tying saves in the model that is loaded, by its config."""
    shared, apart = (tied(model.config, kind) for kind in ("output", "none"))
    if shared.refusal:
        return stopped(translate_error(shared.refusal))
    sentence = _("{name}, with its vocabulary of {words}: {tied} parameters with the output tied, {untied} without.")
    words = f"{model.config.vocabulary:,}"
    return sentence.format(name=model.name, words=words, tied=f"{shared.total:,}", untied=f"{apart.total:,}")


def controls(name: str, model: TextModel) -> tuple[Setup, int] | None:
    """The setup and the longest text of the test, 0 for none; nothing while a field holds no number that can be."""
    usual = COMPARISONS[name]
    fields = {
        "steps": Field(f"{name}_steps", _("steps"), str(usual.steps), 1, 5000, log=True),
        "d_model": Field(f"{name}_d_model", "d_model", str(usual.d_model), 8, 256, even=True),
        "depth": Field(f"{name}_depth", _("layers of each stack"), str(usual.depth), 1, 12),
        "rate": Field(f"{name}_rate", _("rate"), f"{usual.rate:g}", 1e-5, 10, whole=False, log=True),
        "warmup": Field(f"{name}_warmup", _("warm-up, steps"), str(usual.warmup), 0, 1000),
        "seeds": Field(f"{name}_seeds", _("seeds"), "1", 0, 1000, most=5),
    }
    if usual.longest:
        fields["trained"] = Field(f"{name}_trained", _("trained up to length"), "8", 4, 16)
        fields["longest"] = Field(f"{name}_longest", _("tested up to length"), str(usual.longest), 5, 64)
    tasks = [name for name, task in TASKS.items() if task.any_length or not usual.longest]
    st.html(NARROW)
    places = st.container(key=f"fields_{name}").columns(len(fields) + 1, gap="small")
    key = f"{name}_task"
    task = TASKS.get(st.session_state.get(key, usual.task), TASKS[usual.task])
    chosen_task: str = places[0].selectbox(
        _("task"), tasks, tasks.index(usual.task), key=key, bind="query-params", help=_(task.description)
    )
    given = {part: number_field(where, fields[part]) for part, where in zip(fields, places[1:], strict=True)}
    if not all(given.values()):
        return None
    whole = {part: int(values[0]) for part, values in given.items() if part not in ("rate", "seeds")}
    longest, trained = whole.pop("longest", 0), whole.pop("trained", 0)
    chosen = {**whole, "rate": given["rate"][0], "seeds": tuple(int(seed) for seed in given["seeds"])}
    if trained:
        chosen["lengths"] = lengths_of(chosen_task, trained)
    return setup_of(name, model.kind, task=chosen_task, **chosen), longest


def forecast(name: str, setup: Setup, longest: int) -> str:
    """From a step of the first arm, measured now."""
    arms = COMPARISONS[name].arms(setup)
    shape = (setup.kind, setup.task, setup.d_model, setup.depth, setup.lengths)
    step = current_session().cached(f"lab_pace_{name}", shape, lambda: step_seconds(arms[0], setup))
    count = len(arms) * len(setup.seeds) * setup.steps
    seconds = count * step * (TESTING if longest else 1.0)
    return _("{arms} arms, {count} steps in all, about {seconds} s by a step just measured").format(
        arms=len(arms), count=f"{count:,}", seconds=f"{max(1.0, seconds):.0f}"
    )


def findings(name: str, side: Side) -> Findings:
    """Verdict, curves, the row of each arm, and every number."""
    beside = over_lengths if side.tests else BESIDE[name]
    rows = [[losses(side, name), beside(side, name)], [results(side)]]
    return Findings(verdicts(name, side), rows, partial(every_number, side), f"trained-{name}")


# The tables of trainings side by side: a row an arm, and every number that was measured.


def results(side: Side) -> pd.DataFrame:
    """An arm a row; of several seeds the mean."""
    rows = []
    for arm in colours(side.courses):
        courses = side.of(arm)
        checked = [each.validations[-1] for each in courses if each.validations]
        finals = [each.final for each in courses]
        rows.append(
            {
                _("arm"): arm_name(arm),
                _("parameters"): f"{courses[0].parameters:,}",
                _("steps a second"): number([1 / each.seconds for each in courses]),
                _("loss at the end"): number(finals),
                _("validation loss"): number([loss for _step, loss, _share in checked]),
                _("perplexity"): number([float(np.exp(loss)) for _step, loss, _share in checked]),
                _("tokens right, %"): number([100 * share for _step, _loss, share in checked]),
            }
        )
    return pd.DataFrame(rows)


def number(values: Sequence[float]) -> str:
    return significant(fmean(values)) if values and np.isfinite(values).all() else "–"


def every_number(side: Side) -> pd.DataFrame:
    """All that was measured: arm, seed, quantity, step or layer or length, value."""
    rows: list[tuple[str, int, str, object, float]] = []
    for course in side.courses:
        who = (arm_name(course.arm), course.seed)
        rows += [(*who, title_of("loss"), step, value) for step, value in enumerate(course.losses, start=1)]
        rows += [(*who, title_of("rate"), step, value) for step, value in enumerate(course.rates, start=1)]
        rows += [(*who, title_of("validation"), step, loss) for step, loss, _share in course.validations]
        rows += [(*who, title_of("accuracy"), step, share) for step, _loss, share in course.validations]
        for quantity, norms in (
            (_("gradient norm, first step"), course.first),
            (_("gradient norm, newest step"), course.latest),
        ):
            rows += [(*who, quantity, part_name(part), value) for part, value in norms.items()]
    for each in side.tests:
        who = (arm_name(each.arm), each.seed)
        rows += [
            (*who, title_of("exact match"), each.length, each.exact),
            (*who, _("tokens predicted rightly, by length"), each.length, each.tokens),
        ]
    frame = pd.DataFrame(rows, columns=[_("arm"), _("seed"), _("quantity"), _("step, layer or length"), _("value")])
    place = frame.columns[3]
    frame[place] = frame[place].astype(str)
    return frame


# Trainings side by side as charts: loss, gradients by layer, accuracy, rates.


def losses(side: Side, name: str) -> Chart:
    """Of every step, smoothed, what was measured behind it, and what frequencies alone give."""
    series = []
    for course, arm, hue, quiet in curves(side):
        steps, ys = np.arange(1, len(course.losses) + 1, dtype=float), np.array(course.losses)
        if len(ys):
            series.append(Series(arm, *outline(steps, ys, POINTS), hue + FAINT, quiet=True))
            series.append(Series(arm, *outline(steps, smoothed(ys, KEEP), POINTS), hue, quiet=quiet))
    ends = np.array([1.0, side.steps])
    series.append(Series(_("frequency of tokens alone"), ends, np.full(2, side.chance), EXPECTED, dash=True))
    return drawn(series, side, name, "loss", _("Training loss"), step_axis(side), Axis(_("nats per token")))


def gradients(side: Side, name: str) -> Chart:
    """By layer, at the first step, and dashed at the newest."""
    layers = list(dict.fromkeys(part for course in side.courses for part in course.first if ".layers." in part))
    places, series = np.arange(len(layers), dtype=float), []
    for course, arm, hue, quiet in curves(side):
        first, latest = (
            np.array([norms.get(layer, np.nan) for layer in layers]) for norms in (course.first, course.latest)
        )
        newest = _("{arm}, newest step").format(arm=arm)
        series.append(Series(arm, places, first, hue, quiet=quiet))
        series.append(Series(newest, places, latest, hue + FAINT, dash=True, quiet=True))
    x, y = Axis(_("layer"), [part_name(layer) for layer in layers]), Axis("‖g‖", log=True)
    sentence = _("at the first step; faint: at the newest")
    return drawn(series, side, name, "gradients", _("Gradient norm by layer"), x, y, sentence)


def accuracy(side: Side, name: str) -> Chart:
    """Of tokens kept for validation, whenever that was measured."""
    series = []
    for course, arm, hue, quiet in curves(side):
        steps, _losses, shares = np.array(course.validations, float).reshape(-1, 3).T
        series.append(Series(arm, steps, shares, hue, quiet=quiet))
    y, sentence = Axis(_("share"), low=0, high=1), _("of pairs kept for validation")
    return drawn(series, side, name, "accuracy", _("Tokens predicted rightly"), step_axis(side), y, sentence)


def rates(side: Side, name: str) -> Chart:
    """The schedule that each arm has had."""
    series = [
        Series(arm, np.arange(1.0, len(course.rates) + 1), np.array(course.rates), hue, quiet=quiet)
        for course, arm, hue, quiet in curves(side)
    ]
    return drawn(series, side, name, "rates", _("Learning rate"), step_axis(side), Axis(_("rate"), log=True))


def over_lengths(side: Side, name: str) -> Chart:
    """The share answered to the character against the length, and faint, of tokens; where the training ended."""
    series = []
    for course, arm, hue, quiet in curves(side):
        tests = [each for each in side.tests if (each.arm, each.seed) == (course.arm, course.seed)]
        xs = np.array([float(each.length) for each in tests])
        exact, tokens = np.array([each.exact for each in tests]), np.array([each.tokens for each in tests])
        of_tokens = _("{arm}, tokens").format(arm=arm)
        series.append(Series(arm, xs, exact, hue, quiet=quiet))
        series.append(Series(of_tokens, xs, tokens, hue + FAINT, dash=True, quiet=True))
    marks = [{"x": side.trained, "text": _("trained up to {length}").format(length=side.trained)}]
    x, y = Axis(_("length of the source")), Axis(_("share"), low=0, high=1)
    sentence = _("to the character; faint: tokens, each after the right ones")
    return drawn(series, side, name, "lengths", _("Right answers against length"), x, y, sentence, marks)


RAN = {
    "loss": summed_loss,
    "gradients": Gradients.norms,
    "accuracy": loss_and_hits,
    "rates": learning_rate,
    "lengths": answered_at,
}


def about(file: str) -> About:
    """Of a chart of trainings."""
    sentence = {
        "loss": _(
            "How well each arm predicts what it is trained on, step by step; dashed: what frequencies alone give."
        ),
        "gradients": _(
            "How large the gradient of each layer's weights is, at the first step and, faint, at the newest."
        ),
        "accuracy": _("How many tokens of pairs kept for validation each arm predicts rightly, as a share."),
        "rates": _("By which rate each arm was trained, step by step."),
        "lengths": _("The share of texts of each length that an arm answers to the character, and, faint, of tokens."),
    }[file]
    formula = {
        "loss": r"L = -\frac1N \sum_t \sum_i q_{t,i} \ln p_{t,i}",
        "gradients": r"\left\lVert \frac{\partial L}{\partial \theta_\ell} \right\rVert",
        "accuracy": r"\frac1N \sum_t \left[\arg\max_i\, p_{t,i} = y_t\right]",
        "rates": r"\theta_{t+1} = \theta_t - \eta_t\,u_t",
        "lengths": r"\frac1M \sum_m \left[\hat y_m = y_m\right]",
    }[file]
    return About(sentence, [formula], [RAN[file]])


BESIDE = {
    "norms": gradients,
    "depth": gradients,
    "residual": gradients,
    "tying": accuracy,
    "heads": accuracy,
    "positions": accuracy,
    "smoothing": accuracy,
    "recipe": rates,
}


def curves(side: Side) -> Iterator[tuple[Course, str, str, bool]]:
    """Each course with its name, its arm's colour, and whether the legend leaves it out: all but the first seed."""
    hues = colours(side.courses)
    for number, course in enumerate(side.courses):
        yield course, label(course, side), hues[course.arm], number >= len(hues)


def label(course: Course, side: Side) -> str:
    """The arm, and the seed where there are several."""
    several = len({each.seed for each in side.courses}) > 1
    return arm_name(course.arm) + (f" · {course.seed}" if several and course is not side.of(course.arm)[0] else "")


def step_axis(side: Side) -> Axis:
    return Axis(_("step"), low=0, high=side.steps)


def drawn(
    series: Sequence[Series],
    side: Side,
    name: str,
    file: str,
    title: str,
    x: Axis,
    y: Axis,
    sentence: str = "",
    marks: Sequence[dict[str, object]] = (),
) -> Chart:
    stamp = f"{name} {side.step} {len(side.tests)}"
    above = Heading(title, f"trained-{name}-{file}", stamp, sentence=sentence, about=about(file))
    return Chart(f"lab_{name}_{file}", above, series, x, y, tall=230, marks=marks, of=_("arm"))
