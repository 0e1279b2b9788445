"""Links to where a statement can be seen live: a page of the application in the right state."""

from __future__ import annotations

from viz.i18n.catalogue import _

PAGES = "viz/pages/{}/page.py"


def live_views() -> dict[int, tuple[str, dict[str, str], str]]:
    """Page, values of its address and label of the link, by the row of a statement."""
    positions, attention, masks, residual, lab = (
        PAGES.format(name) for name in ("positions", "attention", "masks", "residual", "lab")
    )
    laboratory = _("Tokens and positions: compare encodings")
    norms = _("Norms and residual")

    def encodings(experiment: str) -> tuple[str, dict[str, str], str]:
        return positions, {"part": "laboratory", "experiment": experiment}, laboratory

    def by_hand(name: str, label: str) -> tuple[str, dict[str, str], str]:
        return lab, {"lab_part": "arithmetic", "arithmetic": name}, label

    def wired(view: str) -> tuple[str, dict[str, str], str]:
        return residual, {"residual_view": view}, norms

    steps = (attention, {"below": "steps"}, _("Attention: one query, step by step"))
    return {
        1: by_hand("similarity", _("Lab: dot product or cosine")),
        2: by_hand("softmax", _("Lab: softmax and temperature")),
        4: encodings("curves"),
        5: encodings("any_length"),
        6: encodings("wavelengths"),
        7: encodings("wavelengths"),
        8: encodings("shift"),
        10: encodings("misread"),
        11: (positions, {"part": "tokens"}, _("Tokens and positions")),
        12: (positions, {"part": "tokens"}, _("Tokens and positions")),
        13: (positions, {"part": "order"}, _("Tokens and positions: without positions")),
        14: steps,
        15: by_hand("scaling", _("Lab: why 1/√d_k")),
        16: (masks, {"mask_experiment": "order"}, _("Masks: before or after the softmax")),
        17: (masks, {"mask_experiment": "numbers"}, _("Masks: which number hides")),
        18: (masks, {}, _("Masks")),
        19: (masks, {"mask_experiment": "future"}, _("Masks: the future")),
        20: (masks, {"mask_experiment": "batch"}, _("Masks: a padded batch")),
        21: (attention, {"attention": "cross"}, _("Attention")),
        22: (attention, {"below": "importance"}, _("Attention: what each head is good for")),
        25: wired("forms"),
        26: wired("batch"),
        27: wired("placement"),
        28: wired("gradients"),
        29: wired("gradients"),
        31: (PAGES.format("feed_forward"), {}, _("Feed-forward")),
        33: (PAGES.format("map"), {}, _("Map")),
        36: wired("dropout"),
        41: (attention, {"attention": "cross"}, _("Attention")),
        44: by_hand("example", _("Lab: worked example")),
        46: (PAGES.format("checkpoints"), {}, _("Checkpoints")),
        48: (attention, {"below": "importance"}, _("Attention: what each head is good for")),
        49: (PAGES.format("checkpoints"), {"checkpoints_part": "evaluate"}, _("Checkpoints: evaluate")),
        50: (masks, {}, _("Masks")),
    }
