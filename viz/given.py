"""What the command line and the environment ask for that cannot be followed, in sentences."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

from viz.i18n import _
from viz.opening import GIVEN, MODELS


def unfollowed() -> list[str]:
    """Words of the command line that mean nothing here, and a folder of models that is not there."""
    words = sys.argv[1:]
    found = [
        _("{word} means nothing to Vitrine: a checkpoint is given by {option}.").format(
            word=word, option=f"streamlit run app.py -- {GIVEN} PATH"
        )
        for before, word in pairwise(["", *words])
        if before != GIVEN and word.partition("=")[0] != GIVEN
    ]
    if words and words[-1] == GIVEN:
        found.append(_("After {option} a path is missing.").format(option=GIVEN))
    wanted = os.environ.get(MODELS, "").strip()
    if wanted and not Path(wanted).expanduser().is_dir():
        found.append(_("{variable} names {path}, which is no folder.").format(variable=MODELS, path=wanted))
    return found
