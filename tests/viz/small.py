"""A small checkpoint with random weights, for what must not depend on the bundled one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.inference.text_model import TextModel
from tests.model.examples import network, sentences, tokenizers
from viz.state.session import Selection, Session
from viz.state.what_if import WhatIf

LENGTH = 32


@cache
def parts():
    return tokenizers(sentences(50))


def write_small(folder: Path, seed: int = 0, **options) -> Path:
    """Two layers and two heads in each stack; reads 32 tokens."""
    sizes = {"source_vocabulary": len(parts()[0]), "target_vocabulary": len(parts()[1])}
    shape = {"norm_placement": "pre", "max_length": LENGTH}
    save_checkpoint(folder, network(seed, **(sizes | shape | options)), parts())
    return folder


def small_model(folder: Path, seed: int = 0, **options) -> TextModel:
    return open_checkpoint(write_small(folder, seed, **options))


def looking(
    model: TextModel,
    source: str,
    target: str = "",
    pinned: tuple[TextModel, str, str] | None = None,
    changes: str = "",
    **selection: int,
) -> Session:
    """A session that shows a model these texts. pinned: the model and the texts that it has pinned. changes: to the
    masks, as in the address bar.
    """
    session = Session(Selection(**selection), WhatIf.read(changes))
    if pinned:
        session.trace_input(*pinned)
        session.keep()
    session.trace_input(model, source, target)
    return session
