"""Snapshot of what a session shows: a model, its texts with their trace, what is chosen in them, and the pin."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viz.state.session import Key, Session, TracedInput
from viz.state.texts import LINE_BREAK

if TYPE_CHECKING:
    from model.inference.decoding import Generation
    from model.inference.text_model import TextModel
    from viz.state.inputs import Selection
    from viz.state.pin import Pin
    from viz.state.what_if import WhatIf

FIELDS = (Key.SOURCE, Key.TARGET)


@dataclass(frozen=True)
class Snapshot:
    """texts: as they were typed; None where a field is as it began. base: the model of the page, before its training
    goes on or a step of it is taken. The others: as `Session` has them.
    """

    texts: tuple[str | None, ...]
    selection: Selection
    query_side: str
    what_if: WhatIf
    pin: Pin | None
    differing: bool
    base: TextModel | None
    traced_input: TracedInput | None
    traced: tuple[str, str]
    generation: Generation | None
    origin: Any

    @classmethod
    def of(cls, session: Session) -> Snapshot:
        """Snapshot of a session, whose lock is held."""
        with session.texts.lock:
            texts = tuple(session.texts.typed.get(name) for name in FIELDS)
        base = session.stage.model if session.stage is not None else None
        chosen = copy(session.selection), session.query_side, copy(session.what_if), session.pin, session.differing
        return cls(texts, *chosen, base, session.traced_input, session.traced, session.generation, session.origin)

    def texts_and_choices(self) -> tuple[object, ...]:
        """What is compared to see whether anything else is shown."""
        pin = None if self.pin is None else id(self.pin.trace)
        return self.texts, copy(self.selection), self.what_if.listed, pin, self.differing

    def give(self, session: Session) -> None:
        """Give another session the same texts, choices and changes. Its lock is held; as the current one."""
        with session.texts.lock:
            for name, text in zip(FIELDS, self.texts, strict=True):
                if session.texts.typed.get(name) == text:
                    continue
                if text is None:
                    session.texts.typed.pop(name, None)
                else:
                    session.texts.typed[name] = text.replace("\n", LINE_BREAK)
                session.texts.edits[name] = session.texts.edits.get(name, 0) + 1
        chosen = {name: getattr(self.selection, name) for name in ("layer", "head", "query")}
        session.select(**{name: each for name, each in chosen.items() if getattr(session.selection, name) != each})
        session.query_side = self.query_side
        if session.what_if.listed != self.what_if.listed:
            session.change(self.what_if.listed)

    def share(self, session: Session, base: TextModel) -> bool:
        """Let another session that shows the same model have the trace, too, which nobody changes. base: its model."""
        if base is not self.base or self.traced_input is None or session.training.step is not None:
            return False
        if self.traced_input.model is not base:
            return False
        session.traced_input, session.traced, session.generation = self.traced_input, self.traced, self.generation
        session.origin, session.what_if = self.origin, copy(self.what_if)
        session.pin, session.differing = self.pin, self.differing
        return True
