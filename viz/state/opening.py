"""A model being opened beside the script, which tells how long it takes and can give it up."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from model.runtime import superseded

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

TICK = 0.2  # seconds between looks
PATIENCE = 10.0  # seconds without a look, after which nobody waits any more


class Unwanted(threading.Event):
    """Set when it is told so, and when nobody has looked for a while."""

    seen = math.inf

    def is_set(self) -> bool:
        return super().is_set() or time.monotonic() - self.seen > PATIENCE


class Opening:
    """One model that a thread opens. key: what it is of, so that the next run of the script finds it going on."""

    def __init__(self, key: Hashable, work: Callable[[], TextModel]) -> None:
        self.key = key
        self._work, self._unwanted, self._done = work, Unwanted(), threading.Event()
        self._made: TextModel | None = None
        self._error: BaseException | None = None
        self._began = self._unwanted.seen = time.monotonic()
        thread = threading.Thread(target=self._run, name="opening", daemon=True)
        add_script_run_ctx(thread, get_script_run_ctx(suppress_warning=True))
        thread.start()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self._began

    def give_up(self) -> None:
        """It ends at its next tensor."""
        self._unwanted.set()

    def model(self, waiting: Callable[[float], None]) -> TextModel:
        """The model, when it is open. waiting: called now and then until then, with the seconds that it has taken.

        Raises:
            ValueError: it cannot be opened, or was given up.
        """
        while not self._done.wait(TICK):
            self._unwanted.seen = time.monotonic()
            waiting(self.seconds)
        if isinstance(self._error, superseded.SupersededError):
            raise ValueError("the model was given up before it was open: choose it again") from self._error
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made

    def _run(self) -> None:
        try:
            with superseded.watch(self._unwanted):
                self._made = self._work()
        except BaseException as error:  # noqa: BLE001 - the script raises it
            self._error = error
        finally:
            self._done.set()
