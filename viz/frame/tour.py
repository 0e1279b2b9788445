"""Tour: what is said of six controls, on the first visit and whenever the menu is asked for it."""

from __future__ import annotations

from typing import Any

from viz.i18n.catalogue import _

# On a phone pages and training are behind the button that opens the list.
FIGURE = "figure"  # the one that the page is about, as presenting begins with it
LIST = '[data-testid="stExpandSidebarButton"]'


def words() -> dict[str, Any]:
    """Words of the tour, and its steps: each a selector of controls and a sentence."""
    return {
        "tour": _("Show me around"),
        "tour_about": _("Six steps on the controls of this page, by buttons or arrow keys; Esc ends"),
        "tour_next": _("Next step"),
        "tour_back": _("Back"),
        "tour_skip": _("Skip"),
        "tour_end": _("Done"),
        "tour_steps": [{"target": target, "sentence": sentence} for target, sentence in steps()],
    }


def steps() -> list[tuple[str, str]]:
    """Selector and sentence of each step; of several controls the first that can be seen, and where none can, none."""
    return [
        (
            ".st-key-texts, .st-key-tokens",
            _("Type here: the model reads your text, and every picture follows each letter."),
        ),
        (
            ".st-key-tokens",
            _(
                "The tokens that the model reads. At the right what was checked on these very numbers, and Pin, which "
                "keeps this moment: change the text, and every picture shows the difference."
            ),
        ),
        (
            FIGURE,
            _("Point at a figure for its numbers, press a part of it to go into it; a double click shows it large."),
        ),
        (
            ".st-key-lead",
            _("One line on what the page shows. “?” beside a figure explains it, with its formula and its code."),
        ),
        (
            f'[data-testid="stSidebar"] a[href*="attention"], {LIST}',
            _("Every page shows another part of the same model, on the same text. Lessons lead through them."),
        ),
        (
            f".st-key-training_box, {LIST}",
            _("Press ▸ and a model trains while you watch: whatever page is open follows its steps."),
        ),
    ]
