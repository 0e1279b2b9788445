"""A drawing in the browser: bytes, the same whether the script mounts them or the channel brings them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from viz.components.registry import Component, trigger_value
from viz.state.class_sessions import CLASS_SESSIONS
from viz.state.session import current_session

Answer = Callable[[Any], None]  # answer to a click, given the place of the click
Live = TypeVar("Live", bound=Callable[..., None])


def live(answer: Live) -> Live:
    """An answer after which only pictures change: the channel gives it where there is one, without the script."""
    answer.live = True  # type: ignore[attr-defined]  # a mark, for `View.frame`
    return answer


class View:
    """A picture with a key of its own.

    component: what mounts it. data: its bytes, see `registry.pack`. acts: what a click does, by the names of what can
    be clicked; None where nothing is to be done.
    """

    component: Component
    key: str
    data: bytes
    acts: Mapping[str, Answer | None]

    @property
    def moment(self) -> int:
        """Number of the drawing, see `Session.moment`."""
        return current_session().moment(self.key, self.data)

    def frame(self) -> bytes:
        """The bytes behind their stamp, {key, of: the session, moment, live: clicks that the channel answers}.

        Where two frames of a key and a session meet in the browser, the later moment counts; of two sessions, the one
        that comes later, for it may be another machine's, whose clock goes otherwise.
        """
        marked = {name: getattr(act, "func", act) for name, act in self.acts.items()}
        by_channel = [name for name, act in marked.items() if getattr(act, "live", False)]
        stamp = {"key": self.key, "of": current_session().mark, "moment": self.moment, "live": by_channel}
        text = json.dumps(stamp).encode()
        text += b" " * (-(4 + len(text)) % 8)
        return len(text).to_bytes(4, "little") + text + self.data

    def __call__(self) -> object:
        """Mount it, by the script."""
        current_session().views[self.key] = self
        answers = {f"on_{name}_change": partial(self._answer, name) for name in self.acts}
        return self.component(data=self.frame(), key=self.key, **answers)

    def _answer(self, name: str) -> None:
        """A click that came by the script."""
        if act := self.acts[name]:
            session = current_session()
            if name not in ("about", "again") and self.key in session.followed:  # which change nothing that is shown
                CLASS_SESSIONS.follow(session, False)
            with session.lock:
                session.address.sync()  # changes of the address from the channel
                act(trigger_value(self.key, name))


@dataclass
class PackedView(View):
    """A view of bytes that are packed already."""

    component: Component
    key: str
    data: bytes
    acts: Mapping[str, Answer | None] = field(default_factory=dict)
