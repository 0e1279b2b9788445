"""The film of this session's training."""

from __future__ import annotations


def show() -> None:
    """Nothing yet."""
