"""What the weights of a model do not tell, and is assumed to compute with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from viz.i18n import _

if TYPE_CHECKING:
    from model import Inspectable


def assumptions(lens: Inspectable) -> str:
    """In a sentence of Markdown; empty where a model says everything itself. A file may have written what is quoted."""
    found = lens.training.get("assumed")
    named = [each[:200] for each in found if isinstance(each, str)] if isinstance(found, list) else []
    if not named:
        return ""
    listed = re.sub(r"([\\`*_\[\]()#!|<>$:~])", r"\\\1", "; ".join(named))
    return _(
        "The weights do not tell everything; assumed: {listed}. Where this is not how the model was trained, what is "
        "shown is not what it computes; what is not said, a config.json beside the weights can say."
    ).format(listed=listed)
