"""Training: what to train and on what, where it stands, its curves, its film, going back and branching."""

from __future__ import annotations

from collections.abc import Iterator

from model.inspectable import Inspectable
from viz.sections import training_curves, training_film


def page(lens: Inspectable) -> Iterator[None]:
    """Places and controls first; then all that the workbench's trace of this model holds is packed; then mounted."""
    yield
    yield
    training_curves.show()
    training_film.show()
