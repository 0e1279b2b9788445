"""Figure that a step of a lesson is about, by the keys of views and places: it is brought into sight, and presented."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.lessons.light import FIGURE

if TYPE_CHECKING:
    from model.lessons.lesson import Step
    from model.lessons.questions import Question
    from model.lessons.state import State

OF_LIGHTS = {"head": "heads", "cell": "head_large"}
# By a state's choice of what is shown; the others change the page's large figure itself.
OF_CHOICES = {
    ("below", "steps"): ("stages",),
    ("below", "importance"): ("head_effects",),
    ("residual_view", "forms"): ("norm_forms",),
    ("look", "apart"): ("units_apart",),
    ("training_part", "film"): ("training_film",),  # from its slider on
}


def figures_of(step: Step, state: State) -> list[str]:
    """Beginnings of keys, the one that is meant first; none where it is the page's large figure.

    What the step names counts before what has what it lights up, that before what its state chooses to show, and that
    before what its question is answered by.
    """
    named = [each.what for each in step.lights if each.kind == FIGURE]
    lit = [OF_LIGHTS[each.kind] for each in step.lights if each.kind in OF_LIGHTS]
    of_question = answering(step.question) if step.question else ()
    choices = state.parameters
    chosen = [key for (name, value), keys in OF_CHOICES.items() if choices.get(name) == value for key in keys]
    return [*named, *lit, *chosen, *of_question]


def answering(question: Question) -> tuple[str, ...]:
    """Beginnings of keys of the figures that a question is answered by."""
    if question.kind == "head":
        return ("heads_all", "heads")
    if question.kind == "token":
        return ("losses",) if question.of == "loss" else ("residual_map",)
    if question.kind == "step":
        return ("curves_accuracy",) if question.of == "right" else ("curves_loss",)
    if question.kind == "expert":
        return ("experts_router",)
    return ("head_large",) if question.kind in ("key", "cell") or question.of == "entropy" else ()
