"""What only a training can show: arms that differ in one thing learn side by side, and are judged at the end."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.tasks import TASKS
from model.experiments.arms import COMPARISONS, begin, lengths_of, setup_of
from model.experiments.side_by_side import Setup, Side, step_seconds
from model.experiments.weight_tying import tied
from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence, literal, stopped
from viz.packing import lab_trainings as pack
from viz.packing.lab_training_tables import every_number, results
from viz.packing.lab_verdicts import verdicts
from viz.sections.lab_claim import show_claim
from viz.sections.lab_running import experiment
from viz.sections.lab_training_claims import comparison_name, said_of, truth_of
from viz.sections.lab_training_explained import explain
from viz.state import training
from viz.state.cache import remembered
from viz.state.workbench import choose, workbench
from viz.ui.fields import NARROW, Field, number_field
from viz.ui.parts import Views, data_table, nothing

BESIDE = {
    "norms": pack.gradients,
    "depth": pack.gradients,
    "residual": pack.gradients,
    "tying": pack.accuracy,
    "heads": pack.accuracy,
    "positions": pack.accuracy,
    "smoothing": pack.accuracy,
    "recipe": pack.rates,
}
TESTING = 1.2  # times the training: what the tests on longer texts take too, about


def section(lens: Inspectable, row: DeltaGenerator) -> Views:
    """Nothing here depends on the text."""
    name = choose(_("Claim"), list(COMPARISONS), "norms", "lab_training", comparison_name, row)
    show_claim(said_of(name), truth_of(name))
    if name == "tying" and lens.model.ours:
        st.caption(literal(tied_counts(lens)))
    place = st.container()
    found = controls(place, name, lens)
    if found is not None:
        with place:
            run(name, *found)
    explain(name)
    return nothing


def controls(place: DeltaGenerator, name: str, lens: Inspectable) -> tuple[Setup, int] | None:
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
    place.html(NARROW)
    places = place.container(key=f"fields_{name}").columns(len(fields) + 1, gap="small")
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
    return setup_of(name, lens.kind, task=chosen_task, **chosen), longest


def run(name: str, setup: Setup, longest: int) -> None:
    """The forecast, the button, and what is found."""
    if longest and longest <= max(setup.lengths):
        st.error(_("The test must go beyond the lengths trained on: choose a longer one."))
        return
    try:
        words = forecast(name, setup, longest)
    except (ValueError, FloatingPointError) as error:
        st.error(as_sentence(said(error)))
        return
    if training.is_moving(training.training(workbench())):
        st.caption(_("A training runs on the page Training too: times suffer, losses do not."))
    experiment(
        f"lab_trainings_{name}",
        (setup, longest),
        partial(begin, name, setup, longest),
        partial(draw, name),
        begin=_("Train side by side"),
        forecast=words,
    )


def forecast(name: str, setup: Setup, longest: int) -> str:
    """From a step of the first arm, measured now."""
    arms = COMPARISONS[name].arms(setup)
    shape = (setup.kind, setup.task, setup.d_model, setup.depth, setup.lengths)
    step = remembered(f"lab_pace_{name}", shape, lambda: step_seconds(arms, setup))
    count = len(arms) * len(setup.seeds) * setup.steps
    seconds = count * step * (TESTING if longest else 1.0)
    return _("{arms} arms, {count} steps in all, about {seconds} s by a step just measured").format(
        arms=len(arms), count=f"{count:,}", seconds=f"{max(1.0, seconds):.0f}"
    )


def draw(name: str, side: Side) -> None:
    """Verdict, curves, the row of each arm, and every number."""
    st.text("\n".join(verdicts(name, side)))
    left, right = st.columns(2, gap="medium")
    beside = pack.over_lengths if side.tests else BESIDE[name]
    for place, mount in ((left, pack.losses(side, name)), (right, beside(side, name))):
        with place:
            mount()
    st.dataframe(results(side), hide_index=True, key=f"lab_{name}_results")
    data_table(f"lab_{name}_data", lambda: every_number(side), f"trained-{name}")


def tied_counts(lens: Inspectable) -> str:
    """What tying saves in the model that is loaded, by its config."""
    shared, apart = (tied(lens.config, kind) for kind in ("output", "none"))
    if shared.refusal:
        return stopped(said(shared.refusal))
    sentence = _("{name}, with its vocabulary of {words}: {tied} parameters with the output tied, {untied} without.")
    words = f"{lens.config.vocabulary:,}"
    return sentence.format(name=lens.name, words=words, tied=f"{shared.total:,}", untied=f"{apart.total:,}")
