"""Masks."""

from __future__ import annotations

from collections.abc import Iterator

from model.inspectable import Inspectable


def page(lens: Inspectable) -> Iterator[None]:
    """Places and controls first; then all that the workbench's trace of this model holds is packed; then mounted."""
    yield
    yield
