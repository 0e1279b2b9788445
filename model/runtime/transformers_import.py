"""Import of transformers when it is first needed, by one thread at a time."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from model.runtime.locks import RLock

alone = RLock("transformers")  # around the opening of a model: transformers has one set of settings for the process


def import_transformers() -> Any:
    """Module transformers. Another thread would get an unfinished module while one imports it."""
    with alone:
        import transformers

        return transformers


@contextmanager
def quietly() -> Iterator[None]:
    """Block without advice, progress bars and warnings of transformers, in one thread at a time."""
    with alone:
        settings = import_transformers().utils.logging
        before, bars = settings.get_verbosity(), settings.is_progress_bar_enabled()
        settings.set_verbosity(logging.CRITICAL)
        settings.disable_progress_bar()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            settings.set_verbosity(before)
            if bars:
                settings.enable_progress_bar()
