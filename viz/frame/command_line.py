"""Sentences on what the command line and the environment ask for that cannot be followed."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, with_label
from viz.state.checkpoints import GIVEN, HINTS, MODELS, words_after


def ignored_arguments() -> list[str]:
    """Words of the command line that mean nothing here, a folder of models that is not there, a limit of memory that is
    no size.
    """
    from model.checkpoints.load_hints import LoadHints
    from model.runtime.ledger import memory_limit
    from model.runtime.memory import machine_memory

    words, known = sys.argv[1:], (GIVEN, *HINTS)
    warnings = [
        _("{word} means nothing to Vitrine: a checkpoint is given by {option}.").format(
            word=literal(word), option=f"streamlit run app.py -- {GIVEN} PATH"
        )
        for before, word in pairwise(["", *words])
        if before not in known and word.partition("=")[0] not in known
    ]
    if words and words[-1] == GIVEN:
        warnings.append(_("After {option} a path is missing.").format(option=GIVEN))
    try:
        LoadHints.read(",".join(word.partition("@")[0] for word in words_after(*HINTS)))
    except ValueError as error:
        warnings.append(as_sentence(with_label(HINTS[0], translate_error(error))))
    try:
        memory_limit(machine_memory())
    except ValueError as error:
        warnings.append(as_sentence(translate_error(error)))
    wanted = os.environ.get(MODELS, "").strip()
    if wanted and not Path(wanted).expanduser().is_dir():
        warnings.append(_("{variable} names {path}, which is no folder.").format(variable=MODELS, path=literal(wanted)))
    return warnings
