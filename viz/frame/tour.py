"""Tour: what is said of six controls, on the first visit and whenever the menu is asked for it."""

from __future__ import annotations

from typing import Any

from viz.i18n.catalogue import _

FIGURE = "figure"  # the one that the page is about, as presenting begins with it


def words() -> dict[str, Any]:
    """Words of the tour, and its steps: each a selector of controls and a sentence."""
    return {
        "tour": _("Show me around"),
        "tour_about": _("Six steps on the controls of this page, by buttons or arrow keys; Esc ends"),
        "tour_next": _("Next step"),
        "tour_back": _("Back"),
        "tour_skip": _("Skip"),
        "tour_end": _("Done"),
        "tour_steps": steps(),
    }


def steps() -> list[dict[str, Any]]:
    """Steps, each of the first of its controls that can be seen; where none can, the step is left out."""
    return [
        step(
            ".st-key-texts, .st-key-tokens",
            _("Type here: the model reads your text, and every picture follows each letter."),
            header=True,
        ),
        step(
            ".st-key-tokens",
            _(
                "The tokens that the model reads. Beside them what was checked on these very numbers, and Pin, which "
                "keeps this moment: change the text, and every picture shows the difference."
            ),
            header=True,
        ),
        step(
            FIGURE,
            _(
                "Point at a figure for its numbers, press a part of it to go into it; Present, in the menu at its "
                "upper right, shows it large."
            ),
            touch=_(
                "Tap a figure for its numbers, tap the same part again to go into it; Present, in the menu at its "
                "upper right, shows it large."
            ),
        ),
        step(
            ".st-key-lead",
            _("One line on what the page shows. “?” beside a figure explains it, with its formula and its code."),
            part=".sentence",
        ),
        step(
            '[data-testid="stSidebar"] a[href*="attention"]',
            _("Every page shows another part of the same model, on the same text. Lessons lead through them."),
        ),
        step(
            ".st-key-training_box",
            _("Press ▶ and a model trains while you watch: whatever page is open follows its steps."),
        ),
    ]


def step(target: str, sentence: str, touch: str = "", part: str = "", header: bool = False) -> dict[str, Any]:
    """Step on a control by its selector, or on a part of a component. touch: sentence for a finger, if another;
    header: whether the control is in the header, which is unfolded then.
    """
    return {"target": target, "part": part, "sentence": sentence, "touch": touch or sentence, "header": header}
