"""The heads of a long text: the chosen one at once, the others one by one in a thread, a combination of them as one of
its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from model.analysis.attention_maps import Heads
from viz.components.view import View
from viz.i18n.catalogue import _
from viz.i18n.messages import in_language
from viz.jobs import TableTask
from viz.pages.attention.figure import large
from viz.pages.attention.head_grid import (
    MetricMasks,
    Thumbnail,
    Thumbnails,
    arrange_thumbnails,
    pooled,
    pooled_positive,
    thumbnail,
)
from viz.pages.attention.text import combination_name
from viz.pages.attention.view import HeadImage, HeadMaps
from viz.state.session import Selection, Session
from viz.ui import long_text
from viz.ui.long_text import LongTextJob, long_text_job

STEPS = 8  # times that the grid is drawn while its heads come


def head_key(shown: HeadMaps, layer: int, head: int) -> tuple[Any, ...]:
    """What the thumbnail of a head is of, but for the trace."""
    wish, pinned = shown.wish, shown.comparison and shown.comparison.pinned
    of = wish.kind, wish.quantity, wish.metric, bool(wish.threshold), shown.differing and pinned, shown.runs.joined
    return (long_text.HEAD, layer, head, *of)


def combined_key(shown: HeadMaps, heads: Heads) -> tuple[Any, ...]:
    wish, pinned = shown.wish, shown.comparison and shown.comparison.pinned
    of = wish.kind, wish.quantity, shown.differing, pinned, shown.runs.joined
    return (long_text.COMBINED, wish.combination, tuple(heads), *of)


def known(session: Session, shown: HeadMaps) -> dict[Any, Any]:
    """All that was found of the shown text so far.

    Raises:
        ValueError: not even one map fits into memory.
    """
    shown.maps.require_room()
    job: LongTextJob | None = session.long_text_job
    return dict(job.values) if job is not None and job.trace is shown.trace else {}


def chosen_image(session: Session, shown: HeadMaps, chosen: Selection) -> HeadImage:
    """The chosen head; the last one is known, for the script draws again what the channel has drawn."""
    job: LongTextJob | None = session.long_text_job
    if job is not None and job.trace is shown.trace and job.chosen[0] == _image_key(shown, chosen):
        image: HeadImage = job.chosen[1]
        return image
    return large(shown, chosen, [])


def _image_key(shown: HeadMaps, chosen: Selection) -> tuple[Any, ...]:
    return combined_key(shown, [(chosen.layer, chosen.head)])


def scale_of(shown: HeadMaps, chosen: Selection, image: HeadImage, made: Thumbnails) -> Thumbnails:
    """Those that are known, and the chosen head as the figure shows it: what the figure's scale needs."""
    if made.known[chosen.layer, chosen.head] or shown.wish.combination != "head":
        return made
    smaller = pooled if shown.differing else pooled_positive
    cells = made.cells.copy()
    cells[chosen.layer, chosen.head] = smaller(image.cells[None], made.block)[0].cpu().numpy()
    return replace(made, cells=cells)


def known_thumbnails(shown: HeadMaps, found: Mapping[Any, Any]) -> Thumbnails:
    """Those of the heads that were found so far."""
    places = [*np.ndindex(shown.maps.layers, shown.maps.heads)]
    return arrange_thumbnails(
        shown, {place: found[key] for place in places if (key := head_key(shown, *place)) in found}
    )


def begin_job(
    session: Session,
    shown: HeadMaps,
    chosen: Selection,
    heads: Heads,
    found: Mapping[Any, Any],
    image: HeadImage | None = None,
) -> LongTextJob:
    """Begin with what is not known yet: these heads together, where they are to be shown so, then each head, the chosen
    one first. image: of the chosen head.
    """
    counted = MetricMasks(shown)

    def compute(layer: int, head: int) -> Thumbnail:
        shown.maps.require_room()
        return thumbnail(shown, layer, slice(head, head + 1), counted)

    first = (chosen.layer, chosen.head)
    places = sorted(np.ndindex(shown.maps.layers, shown.maps.heads), key=lambda place: place != first)
    tasks = [TableTask(head_key(shown, *place), 1, partial(compute, *place)) for place in places]
    if shown.wish.combination != "head" and heads:
        tasks.insert(0, TableTask(combined_key(shown, heads), len(heads), partial(shown.combined, heads)))
    job = long_text_job(session, tasks, found)
    if image is not None and shown.wish.combination == "head":
        job.chosen = _image_key(shown, chosen), image
    return job


def combination(shown: HeadMaps, heads: Heads, found: Mapping[Any, Any]) -> tuple[HeadImage | None, str]:
    """These heads together, or a sentence while that is computed."""
    image: HeadImage | None = found.get(combined_key(shown, heads))
    waiting = _("“{name}” takes the maps of {count} heads of this long text: it follows.")
    return image, "" if image else waiting.format(
        name=in_language(combination_name(shown.wish.combination)), count=len(heads)
    )


def grid_as_it_fills(
    session: Session, shown: Callable[[], HeadMaps], draw: Callable[[HeadMaps, Thumbnails], View]
) -> Callable[[], View | None]:
    """The grid again, each time that some more heads have come."""
    drawn: list[tuple[object, int]] = [(None, 0)]  # of which text, and how many heads

    def view() -> View | None:
        job: LongTextJob | None = session.long_text_job
        if job is None or job.trace is not session.trace:
            return None
        count, (trace, before) = job.drawn, drawn[0]
        last = job.ended or count == job.heads
        enough = count > before and (last or count - before >= job.heads // STEPS)
        if trace == id(job) and not enough:
            return None
        drawn[0] = id(job), count
        now = shown()
        return draw(now, known_thumbnails(now, dict(job.values)))

    return view
