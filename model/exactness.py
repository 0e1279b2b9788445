"""How often a model in training answers exactly right, where a rule says what is right."""

from __future__ import annotations

import torch

from model.inspectable import Inspectable
from model.materials import SEPARATOR, Answers, Material, Translations
from model.tasks import exact_match

MOST = 200  # texts written at a validation


@torch.inference_mode()
def exactly_right(lens: Inspectable, material: Material) -> float | None:
    """The share of validation texts that are answered to the character; None where no rule says what is right."""
    if not isinstance(material, Translations | Answers) or not material.task:
        return None
    sources = list(dict.fromkeys(pair.source for pair in material.pairs["validation"]))[:MOST]
    if not sources:
        return None
    separator, length = (SEPARATOR, lens.config.max_length) if isinstance(material, Answers) else ("", None)
    written = lens.generate_batch([source + separator for source in sources], length=length)
    return exact_match(material.task, sources, [each.text for each in written])
