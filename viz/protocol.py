"""Messages of the channel between a window and the server, in both directions.

The first is {token}, the session's. After it go up, as JSON: Edit, Click, Painted, Visible, Hidden; and come down:
Hello, RunScript, Waiting, Working, Screen, and frames of views, many in one message behind a `MessageHeader`. The
browser's types of them are written by viz/render/schema.py.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, TypedDict

FIELDS = ("source", "target")
MOST_VIEWS = 1000  # that a window may have at a time


@dataclass(frozen=True)
class Edit:
    """Text of the field `type` after an edit; edits are counted."""

    type: str
    text: str
    edit: int


@dataclass(frozen=True)
class Click:
    """Click on the view with the key `answer`, for the channel to answer. name: of the function to be called."""

    answer: str
    name: str
    value: Any


@dataclass(frozen=True)
class Painted:
    """Number of the newest message of frames that was painted."""

    seen: int


@dataclass(frozen=True)
class Visible:
    """Keys of the views that can be seen."""

    visible: list[str]


@dataclass(frozen=True)
class Hidden:
    """The window was hidden, or can be seen again."""

    hidden: bool


@dataclass(frozen=True)
class Hello:
    """The channel is open."""

    hello: bool = True


@dataclass(frozen=True)
class RunScript:
    """The window shall have the script run."""

    script: bool = True


@dataclass(frozen=True)
class Waiting:
    """Seconds until it is this window's turn, and number of windows in which somebody types."""

    waiting: int
    typing: int


@dataclass(frozen=True)
class Working:
    """The turn goes on."""

    works: bool = True


class TeacherScreen(TypedDict):
    """What a teacher's browser alone knows of what it shows, for those who follow.

    figure: key of the figure that is presented, "": it has none. place: its number among those of the page, from 0; −1:
    none is presented. blank: the window is. pointer: unit, x and y in that figure, see present_pointer.js; empty: there
    is none. step: at which the film of a training stands; None: at the newest.
    """

    figure: str
    place: int
    blank: bool
    pointer: list[float]
    step: int | None


@dataclass(frozen=True)
class Screen:
    """Screen of the teacher that the window follows; None: it follows none."""

    screen: TeacherScreen | None


class MessageHeader(TypedDict):
    """Header of frames of views.

    edits: of each field, the edit that they are of. frames: their lengths. more: others of this input follow. gone:
    keys of views that this input does not have; None where the views are not of an input. moved: by a training since
    the script ran, and not by this window. took: milliseconds since the turn began.
    """

    number: int
    edits: dict[str, int]
    frames: list[int]
    more: bool
    gone: list[str] | None
    moved: bool
    took: float


Upward = Edit | Click | Painted | Visible | Hidden
Downward = Hello | RunScript | Waiting | Working | Screen
# Errors of texts that are no message of ours.
NO_MESSAGE = (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)


def read_token(text: str) -> str:
    """Token of the first message.

    Raises:
        NO_MESSAGE: it has none.
    """
    return str(json.loads(text)["token"])


def read(text: str) -> Upward | None:
    """Message from a window; None where it is of a kind that is not known.

    Raises:
        NO_MESSAGE: no window of ours sends that.
    """
    message = json.loads(text)
    if (field := message.get("type")) in FIELDS:
        return Edit(field, str(message["text"]), int(message["edit"]))
    if "answer" in message:
        return Click(str(message["answer"]), str(message["name"]), message.get("value"))
    if "seen" in message:
        return Painted(int(message["seen"]))
    if "visible" in message:
        return Visible([str(key) for key in message["visible"][:MOST_VIEWS]])
    return Hidden(bool(message["hidden"])) if "hidden" in message else None


def read_screen(value: Any) -> TeacherScreen:
    """Screen from a teacher's window.

    Raises:
        NO_MESSAGE: no window of ours sends that.
    """
    figure, pointer, step = str(value["figure"]), [float(each) for each in value["pointer"]], value["step"]
    if not re.fullmatch(r"[\w-]{0,200}", figure) or len(pointer) not in (0, 3) or not all(map(math.isfinite, pointer)):
        raise ValueError("this is no screen of a teacher")
    known = None if step is None else int(step)
    return {
        "figure": figure,
        "place": int(value["place"]),
        "blank": bool(value["blank"]),
        "pointer": pointer,
        "step": known,
    }


def text_of(message: Downward) -> str:
    """Message as it is sent."""
    return json.dumps(vars(message))
