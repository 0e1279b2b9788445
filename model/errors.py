"""What can go wrong on the way from a file to a model."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A file or folder that cannot be opened, or must not be: one sentence that says what is wrong and what to do."""


class AbsentError(KeyError):
    """A quantity that a model does not have. name: of it. reason: why, in a sentence."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason
