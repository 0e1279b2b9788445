"""The statements of tutorials: a list of them with their verdicts, and the card of the chosen one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.experiments.experiment import Experiment, Group, Outcome
from model.experiments.rule import Verdict
from model.experiments.runner import Report
from model.inference.text_model import TextModel
from model.message import Message
from viz.components.registry import component, pack
from viz.components.view import PackedView
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, duration, literal
from viz.pages.lab.card_order import cards
from viz.pages.lab.experiment import Measurement, job_of
from viz.pages.lab.live_views import LIVE_VIEWS
from viz.pages.lab.outcome import plain_words, statement_words, verdict_findings, verdict_words, words
from viz.pages.lab.parameters import fields
from viz.pages.lab.trained_models import offer_models
from viz.state import training
from viz.state.opened_page import open_page
from viz.state.session import Key, current_session
from viz.state.texts import first_source, typed
from viz.ui.parts import Views, explanation, no_views

STATEMENT = "statement"  # in the address: the chosen experiment
GUESSES = (Verdict.HOLDS, Verdict.IN_PART, Verdict.WRONG)
KINDS = {Verdict.HOLDS: "holds", Verdict.IN_PART: "only", Verdict.WRONG: "wrong"}

_list = component("pages/lab/statement_list")


def section(model: TextModel, row: DeltaGenerator) -> Views:
    """The card of the chosen statement, or the list of all."""
    known = cards()
    name = current_session().address.get(STATEMENT)
    if name in known:
        return card(model, known[name], row)
    row.caption(
        _("{count} cards, the easiest first. Guess, then let each be measured.").format(count=len(known)),
        width="content",
    )
    PackedView(_list, "statement_list", pack(index(known)), {"choose": choose_statement})()
    return no_views


def index(known: dict[str, Experiment]) -> dict[str, Any]:
    """The list's groups, with the verdicts of this session."""
    rows: dict[Group, list[dict[str, str]]] = {}
    for number, experiment in enumerate(known.values(), start=1):
        rows.setdefault(experiment.group, []).append(line(number, experiment))
    groups = [{"title": words(Message(str(group))), "rows": lines} for group, lines in rows.items()]
    return {"groups": groups}


def line(number: int, experiment: Experiment) -> dict[str, str]:
    """A statement in the list, with the number of its card."""
    outcome = outcome_of(experiment)
    row = {"name": experiment.name, "number": str(number), "statement": words(experiment.statement)}
    if outcome is None:
        return {**row, "verdict": "", "kind": "none"}
    return {**row, "verdict": verdict_words(outcome.verdict), "kind": KINDS.get(outcome.verdict, "none")}


def key_of(experiment: Experiment) -> str:
    return f"statement_{experiment.name}"


def outcome_of(experiment: Experiment) -> Outcome | None:
    """Outcome of an experiment in this session, once it has ended."""
    job = job_of(f"{key_of(experiment)}_run")
    return job.result if job is not None and job.status == "finished" else None


def choose_statement(name: str) -> None:
    """Show a statement's card; "" the list."""
    current_session().address.set(STATEMENT, name or None)


def card(model: TextModel, experiment: Experiment, row: DeltaGenerator) -> Views:
    """A statement: the reader's guess, the button, and what was found; then what is true, and the live view of it."""
    names = list(cards())
    place = names.index(experiment.name)
    row = row.container(key="statement_steps", horizontal=True, width="content")  # they go to a line below together
    row.button("‹ " + _("All statements"), key="statement_all", on_click=choose_statement, args=("",))
    for title, step in ((_("Previous"), -1), (_("Next"), 1)):
        other = names[(place + step) % len(names)]
        row.button(title, key=f"statement_{step}", on_click=choose_statement, args=(other,))
    claim_place, own = st.columns([11, 9], gap="large")
    group = literal(words(Message(str(experiment.group))))
    claim_place.caption(_("Card {number} of {count} · {group}").format(number=place + 1, count=len(names), group=group))
    claim_place.markdown(f"**{_('Tutorials say:')}** {statement_words(experiment)}")
    key = key_of(experiment)
    with own:
        guess = st.segmented_control(
            _("Guess first: does it hold?"),
            GUESSES,
            format_func=verdict_words,
            key=f"{key}_guess",
            persist_state="session",
        )
    experiment_measurement = measurement(key, experiment, model, guess or "")
    if experiment_measurement is None:
        return no_views
    views = experiment_measurement.show(key, None)
    offer_models(experiment, outcome_of(experiment))
    if (live := LIVE_VIEWS.get(experiment.row)) is not None:
        act = partial(open_page, live.page, live.choices)
        st.button(literal(live.label), key=f"{key}_live", type="tertiary", icon="↗", on_click=act)
    row_words = _("Statement {row} of the fifty that were collected from tutorials.").format(row=experiment.row)
    rule_words = _("The rule by which the verdict falls was fixed before: the numbers only have to meet it.")
    method = [words(experiment.method)] if experiment.method else []
    paragraphs = [*method, rule_words, experiment.source, row_words]
    plain, symbols = plain_words(experiment)
    text = "\n\n".join(map(literal, paragraphs))
    explanation(f"{key}_explanation", plain, experiment.formulas, text, *experiment.code, symbols=symbols)
    return views


def measurement(
    key: str, experiment: Experiment, model: TextModel, guess: str = "", embedded: bool = False
) -> Measurement[Outcome] | None:
    """The fields of an experiment, and its measurement with what they hold; None while that cannot be run.

    key: beginning of their keys. embedded: in an instrument, which says what is true; it begins of itself.
    """
    values = fields(key, experiment, bound=embedded)
    if values is None:
        return None
    numbers, seeds = values
    try:
        forecast = forecast_words(experiment, model, numbers, seeds)
    except (ValueError, FloatingPointError) as error:
        st.error(as_sentence(translate_error(error)))
        return None
    if experiment.forecast and training.is_moving(training.training(current_session())):
        st.caption(_("A training runs on the page Training too: times suffer, losses do not."))
    going = (job := job_of(f"{key}_run")) is not None and not job.ended
    return Measurement(
        measure=partial(run, experiment, model, text_of(model)),
        settings=(numbers, seeds, *seen(experiment, model)),
        findings=partial(verdict_findings, experiment, guess, going, embedded=embedded),
        forecast=forecast,
        begin=_("Measure it"),
        at_once=embedded,
    )


def forecast_words(
    experiment: Experiment, model: TextModel, values: tuple[tuple[str, Any], ...], seeds: tuple[int, ...]
) -> str:
    """Forecast of its time: as it always is, or by a piece of it that is measured once for these values.

    Raises:
        ValueError, FloatingPointError: it cannot be run with them.
    """
    forecast = experiment.forecast
    if forecast is None:
        return _("about {time}").format(time=duration(max(1.0, experiment.about(len(seeds)))))
    # Measured once for these values: by another measurement three seeds might take less than one.
    request = experiment.request(model, text_of(model), dict(values), seeds[:1])
    seconds = len(seeds) * current_session().cached(
        f"{key_of(experiment)}_forecast", (model, values), lambda: forecast(request)
    )
    return _("about {time}, by steps just measured").format(time=duration(max(1.0, seconds)))


def seen(experiment: Experiment, model: TextModel) -> tuple[Hashable, ...]:
    """Input besides its numbers: the model and the text, where it looks at them."""
    return (model.name, model, text_of(model)) if experiment.of_model else ()


def text_of(model: TextModel) -> str:
    """The text in the field."""
    return typed(Key.SOURCE, first_source(model))


def run(
    experiment: Experiment,
    model: TextModel,
    text: str,
    values: tuple[tuple[str, Any], ...],
    seeds: Sequence[int],
    *_seen: Any,
) -> Iterator[Report[Outcome]]:
    """The experiment on this model and text."""
    yield from experiment.run(experiment.request(model, text, dict(values), seeds))
