"""The curves of this session's training."""

from __future__ import annotations


def show() -> None:
    """Nothing yet."""
