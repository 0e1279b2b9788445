"""The schema of headers: the browser's types are written from it, and what does not fit it is found. Whether real ones
fit is asked of every page that a test opens, see `sound`.
"""

from __future__ import annotations

import pytest

from tests.viz.components.test_styles import loaded
from tests.viz.render.header_checks import misfits
from viz.protocol import MessageHeader
from viz.render.schema import HEADERS, TYPES, ChartHeader, PinHeader, in_typescript, typescript

LESSONS = {f"pages/lessons/{name}" for name in ("lesson", "notes", "worksheet")}
SENT_AS_JSON = {"web/channel", "frame/menu", "frame/visits"} | LESSONS
MESSAGE = {"number": 1, "edits": {"source": 2}, "frames": [8], "more": False, "gone": None, "moved": False, "took": 1}


def test_the_browsers_types_are_those_of_the_schema():
    assert TYPES.read_text("utf-8") == typescript(), "python -m viz.render.schema"


def test_every_component_has_a_header():
    assert HEADERS.keys() | SENT_AS_JSON == loaded().keys()


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (list[str | None], "(string | null)[]"),
        (dict[str, list[float]], "Record<string, number[]>"),
        (ChartHeader.__annotations__["series"], "SeriesHeader[]"),
        (PinHeader.__annotations__["changes"], "ChangesHeader[] | null"),
    ],
)
def test_how_a_type_is_written(kind, written):
    assert in_typescript(kind) == written


def test_a_type_that_the_browser_does_not_have_is_an_error():
    with pytest.raises(TypeError, match="bytes"):
        in_typescript(bytes)


def test_a_message_that_fits_has_no_misfits():
    assert not list(misfits(MESSAGE, MessageHeader))


@pytest.mark.parametrize(
    "change",
    [{"number": "1"}, {"edits": [2]}, {"frames": [8.5]}, {"more": 0}, {"gone": [1]}, {"took": None}, {"other": 1}],
)
def test_what_does_not_fit_is_found(change):
    assert len(list(misfits({**MESSAGE, **change}, MessageHeader))) == 1


def test_what_is_lacking_is_found():
    assert list(misfits({"number": 1}, MessageHeader))
