"""Views in which a statement can be seen live: a page of the application, and what is chosen on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.message import Message
from viz.i18n.catalogue import _
from viz.i18n.messages import in_language
from viz.i18n.names import page_title

SEPARATOR = " → "


@dataclass(frozen=True)
class LiveView:
    """Page with choices on it, by their names in the address. path: what those are called on the page."""

    page: str
    path: tuple[Message, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Words of the button: the page, and what is chosen on it."""
        place = SEPARATOR.join(map(in_language, (page_title(self.page), *self.path)))
        return _("See it live: {place}").format(place=place)


def by_hand(name: str, title: Message) -> LiveView:
    """One of the calculations of the Lab."""
    return LiveView("lab", (Message("By hand"), title), {"lab_part": "arithmetic", "arithmetic": name})


def curves(experiment: str, title: Message) -> LiveView:
    """One of the experiments of the position laboratory."""
    path = Message("Position curves"), title
    return LiveView("positions", path, {"part": "laboratory", "experiment": experiment})


def part_of(page: str, key: str, name: str, title: Message) -> LiveView:
    """Part of a page that its first row of choices, or the one below its figure, opens."""
    return LiveView(page, (title,), {key: name})


CROSS = part_of("attention", "attention", "cross", Message("Cross"))
IMPORTANCE = part_of("attention", "below", "importance", Message("Importance of each head"))
TOKENS = part_of("positions", "part", "tokens", Message("Tokens"))
WAVELENGTHS = curves("wavelengths", Message("Wavelengths"))
GRADIENTS = part_of("residual", "residual_view", "gradients", Message("Gradients"))

LIVE_VIEWS = {  # by the row of a statement
    1: by_hand("similarity", Message("Dot product or cosine")),
    2: by_hand("softmax", Message("Softmax and temperature")),
    4: curves("curves", Message("Curves")),
    5: curves("any_length", Message("Any length")),
    6: WAVELENGTHS,
    7: WAVELENGTHS,
    8: curves("shift", Message("Moved by k")),
    10: curves("misread", Message("A wrong formula")),
    11: TOKENS,
    12: TOKENS,
    13: part_of("positions", "part", "order", Message("Without positions")),
    14: part_of("attention", "below", "steps", Message("One query, step by step")),
    15: by_hand("scaling", Message("Why 1/√d_k")),
    16: part_of("masks", "mask_experiment", "order", Message("Mask before or after softmax")),
    17: part_of("masks", "mask_experiment", "numbers", Message("−∞ or −1e9")),
    18: LiveView("masks"),
    19: part_of("masks", "mask_experiment", "future", Message("A changed future")),
    20: part_of("masks", "mask_experiment", "batch", Message("A padded batch")),
    21: CROSS,
    22: IMPORTANCE,
    25: part_of("residual", "residual_view", "forms", Message("Forms of LayerNorm")),
    26: part_of("residual", "residual_view", "batch", Message("LayerNorm, BatchNorm")),
    27: part_of("residual", "residual_view", "placement", Message("Pre-norm, post-norm")),
    28: GRADIENTS,
    29: GRADIENTS,
    31: LiveView("feed_forward"),
    33: LiveView("map"),
    36: part_of("residual", "residual_view", "dropout", Message("Dropout")),
    41: CROSS,
    44: by_hand("example", Message("Worked example")),
    46: part_of("checkpoints", "checkpoints_part", "open", Message("Open")),
    48: IMPORTANCE,
    49: part_of("checkpoints", "checkpoints_part", "evaluate", Message("Evaluate")),
    50: LiveView("masks"),
}
