"""What trainings side by side are called, and their colours."""

from __future__ import annotations

from collections.abc import Iterable

from model.experiments.side_by_side import Course
from viz.i18n.catalogue import _

# Okabe and Ito's, in an order in which neighbours differ most; an arm keeps its own.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def arm_name(arm: str) -> str:
    return {
        "post": _("post-norm"),
        "post cold": _("post-norm, no warm-up"),
        "pre": _("pre-norm"),
        "pre cold": _("pre-norm, no warm-up"),
        "wrong": _("wrong pre-norm"),
        "on": _("with residuals"),
        "off": _("without residuals"),
        "untied": _("not tied"),
        "output": _("output tied to the decoder's embedding"),
        "all": _("all three tied"),
        "split": _("narrow heads"),
        "full": _("wide heads"),
        "sinusoidal": _("sinusoidal"),
        "learned": _("learned"),
        "rotary": _("rotary"),
        "alibi": "ALiBi",
        "none": _("no positions"),
        "sharp": _("no smoothing"),
        "smooth": _("label smoothing 0.1"),
        "whole": _("all of it"),
        "no warm-up": _("no warm-up"),
        "no Xavier": _("no Xavier"),
        "no clipping": _("no clipping"),
        "no Adam": _("no Adam"),
    }[arm]


def colours(courses: Iterable[Course]) -> dict[str, str]:
    """By arm, in the order in which they are trained."""
    arms = dict.fromkeys(course.arm for course in courses)
    return dict(zip(arms, COLOURS, strict=False))
