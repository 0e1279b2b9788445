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
from viz.i18n.catalogue import ngettext
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


def head_key(head_maps: HeadMaps, layer: int, head: int) -> tuple[Any, ...]:
    """Cache key of a head's thumbnail, without the trace."""
    wish, pinned = head_maps.wish, head_maps.comparison and head_maps.comparison.pinned
    before, runs = head_maps.differing and pinned, head_maps.runs.joined
    of = wish.kind, wish.quantity, wish.metric, bool(wish.threshold), before, runs
    return (long_text.HEAD, layer, head, *of)


def combined_key(head_maps: HeadMaps, heads: Heads) -> tuple[Any, ...]:
    wish, pinned = head_maps.wish, head_maps.comparison and head_maps.comparison.pinned
    of = wish.kind, wish.quantity, head_maps.differing, pinned, head_maps.runs.joined
    return (long_text.COMBINED, wish.combination, tuple(heads), *of)


def known(session: Session, head_maps: HeadMaps) -> dict[Any, Any]:
    """Values that the job of the shown text has so far.

    Raises:
        ValueError: not even one map fits into memory.
    """
    head_maps.maps.require_room()
    job: LongTextJob | None = session.long_text_job
    return dict(job.values) if job is not None and job.trace is head_maps.trace else {}


def chosen_image(session: Session, head_maps: HeadMaps, chosen: Selection) -> HeadImage:
    """The chosen head; the last one is known, for the script draws again what the channel has drawn."""
    job: LongTextJob | None = session.long_text_job
    if job is not None and job.trace is head_maps.trace and job.chosen[0] == _image_key(head_maps, chosen):
        image: HeadImage = job.chosen[1]
        return image
    return large(head_maps, chosen, [])


def _image_key(head_maps: HeadMaps, chosen: Selection) -> tuple[Any, ...]:
    return combined_key(head_maps, [(chosen.layer, chosen.head)])


def scale_of(head_maps: HeadMaps, chosen: Selection, image: HeadImage, thumbnails: Thumbnails) -> Thumbnails:
    """Known thumbnails, and the chosen head as the figure shows it, for the figure's scale."""
    if thumbnails.known[chosen.layer, chosen.head] or head_maps.wish.combination != "head":
        return thumbnails
    smaller = pooled if head_maps.differing else pooled_positive
    cells = thumbnails.cells.copy()
    cells[chosen.layer, chosen.head] = smaller(image.cells[None], thumbnails.block)[0].cpu().numpy()
    return replace(thumbnails, cells=cells)


def known_thumbnails(head_maps: HeadMaps, job_values: Mapping[Any, Any]) -> Thumbnails:
    """Thumbnails of the heads that are computed so far."""
    places = [*np.ndindex(head_maps.maps.layers, head_maps.maps.heads)]
    return arrange_thumbnails(
        head_maps, {place: job_values[key] for place in places if (key := head_key(head_maps, *place)) in job_values}
    )


def begin_job(
    session: Session,
    head_maps: HeadMaps,
    chosen: Selection,
    heads: Heads,
    job_values: Mapping[Any, Any],
    image: HeadImage | None = None,
) -> LongTextJob:
    """Begin with what is not known yet: these heads together, where they are to be shown so, then each head, the chosen
    one first. image: of the chosen head.
    """
    counted = MetricMasks(head_maps)

    def compute(layer: int, head: int) -> Thumbnail:
        head_maps.maps.require_room()
        return thumbnail(head_maps, layer, slice(head, head + 1), counted)

    first = (chosen.layer, chosen.head)
    places = sorted(np.ndindex(head_maps.maps.layers, head_maps.maps.heads), key=lambda place: place != first)
    tasks = [TableTask(head_key(head_maps, *place), 1, partial(compute, *place)) for place in places]
    if head_maps.wish.combination != "head" and heads:
        tasks.insert(0, TableTask(combined_key(head_maps, heads), len(heads), partial(head_maps.combined, heads)))
    job = long_text_job(session, tasks, job_values)
    if image is not None and head_maps.wish.combination == "head":
        job.chosen = _image_key(head_maps, chosen), image
    return job


def combination(head_maps: HeadMaps, heads: Heads, job_values: Mapping[Any, Any]) -> tuple[HeadImage | None, str]:
    """These heads together, or a sentence while that is computed."""
    image: HeadImage | None = job_values.get(combined_key(head_maps, heads))
    waiting = ngettext(
        "“{name}” takes the map of {count} head of this long text: it follows.",
        "“{name}” takes the maps of {count} heads of this long text: it follows.",
        len(heads),
    )
    return image, "" if image else waiting.format(
        name=in_language(combination_name(head_maps.wish.combination)), count=len(heads)
    )


def grid_as_it_fills(
    session: Session, newest_maps: Callable[[], HeadMaps], draw: Callable[[HeadMaps, Thumbnails], View]
) -> Callable[[], View | None]:
    """The grid again, each time that some more heads have come."""
    drawn: list[tuple[object, int]] = [(None, 0)]  # the text's trace, and the number of heads

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
        now = newest_maps()
        return draw(now, known_thumbnails(now, dict(job.values)))

    return view
