"""What can go wrong on the way from a file to a model."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A file or folder that cannot be opened, or must not be: one sentence that says what is wrong and what to do."""
