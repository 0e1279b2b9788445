"""Trace and views of an input on the page; the same for a run of the script and for the channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from model.network.config import TWO_STACKS
from viz.components.view import View
from viz.frame import text_field, token_bar
from viz.frame.lead import page_intro
from viz.frame.page_layout import PageLayout
from viz.state import texts, training
from viz.state.session import Session
from viz.ui import long_text
from viz.ui.parts import Placed, Rest

if TYPE_CHECKING:
    from model.inference.text_model import TextModel


def trace(session: Session, stage: PageLayout) -> TextModel:
    """Trace the texts in the fields; gives the model that is shown: one that is trained is another after each step.

    Raises:
        ValueError: a text that this model cannot read.
    """
    live = training.training(session) if stage.trained else None
    if live:
        return training.newest_model(session, live)
    texts.trace_fields(session, stage.model)
    return stage.model


def fields(session: Session, model: TextModel) -> list[View]:
    """The fields of the texts: of the source and, where the model has one, of the target."""
    text_fields = [text_field.source_field(session, model)]
    return [*text_fields, text_field.target_field(session, model)] if model.kind in TWO_STACKS else text_fields


def views(
    session: Session, stage: PageLayout, model: TextModel, mount: Callable[[Sequence[Placed]], None]
) -> Rest | None:
    """The page's views, given to `mount` as they are drawn; what only the script can draw is given back.

    Raises:
        MissingQuantityError: the page needs what the model does not have.
    """
    drawing = stage.views(model)
    while True:
        try:
            with asking_of(session):
                placed = next(drawing)
            session.followed.update(view.key for _place, view in placed)
            mount(placed)
        except StopIteration as end:
            rest: Rest | None = end.value
            return rest


def asking_of(session: Session) -> AbstractContextManager[None]:
    """Block in which what is computed of a large trace asks for memory, operation by operation."""
    from model.runtime.room import asking

    return asking(session.is_large)


def frames(session: Session, stage: PageLayout) -> Iterator[tuple[list[View], bool]]:
    """All views of the texts as they are now, for the channel, in groups to be painted at once, each with whether
    another one follows.

    A short text comes in one; of a long one first its tokens with what is nearest to the eyes. Of a very long one the
    tokens come last, for they are thousands, and what is not waited for later. The checks are left to a later turn.

    Raises:
        ValueError: a text that this model cannot read.
    """
    from model.runtime.errors import MissingQuantityError

    model = trace(session, stage)
    group = fields(session, model)
    if stage.page:
        group.append(page_intro(session, stage.page, model))
    very_long = long_text.is_very_long(session)
    tokens_first = session.is_long and not very_long
    if tokens_first:
        group.append(token_bar.token_bar(session, later=True))
    group += long_text.bars(session)
    drawing = stage.views(model)
    try:
        while True:
            with asking_of(session):
                placed = next(drawing, None)
            if placed is None:
                break
            group += [view for _place, view in placed]
            if session.is_long:
                yield group, True
                group = []
    except MissingQuantityError:
        pass  # the script has said it in place of the rest
    if not tokens_first:
        group.append(token_bar.token_bar(session, later=not very_long))
    yield [*group, *long_text.bars(session)], False
