"""transformers, imported when it is first needed, by one thread."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

alone = threading.RLock()  # around all that opens a model: transformers keeps its settings for the whole process


def import_transformers() -> Any:
    """The module. While one thread imports it, another would get what is there before its names are."""
    with alone:
        import transformers

        return transformers


@contextmanager
def quietly() -> Iterator[None]:
    """A block of one thread at a time, without transformers' advice, progress bars and warnings."""
    with alone:
        theirs = import_transformers().utils.logging
        before, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
        theirs.set_verbosity(logging.CRITICAL)
        theirs.disable_progress_bar()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            theirs.set_verbosity(before)
            if bars:
                theirs.enable_progress_bar()
