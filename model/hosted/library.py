"""transformers, imported when it is first needed, by one thread."""

from __future__ import annotations

import threading
from typing import Any

alone = threading.RLock()  # around all that opens a model: transformers keeps its settings for the whole process


def library() -> Any:
    """The module. While one thread imports it, another would get what is there before its names are."""
    with alone:
        import transformers

        return transformers
