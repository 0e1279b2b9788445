"""Views that clicks show in a saved page, which has no server: they are drawn before it is saved."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 1_200_000  # bytes of them all; a file has room for 5 MB


@dataclass
class Choices:
    """Views by the click that shows them. left_out: they would have been more than MOST."""

    views: list[tuple[str, str, bytes]] = field(default_factory=list)
    left_out: bool = False

    def add(self, key: str, trigger: str, value: Any, target: str, data: bytes) -> bool:
        """A click on the view `key`, by what its script triggers, shows these bytes in the view `target`; whether there
        is room. If not, there are none at all.
        """
        click = f"{key} {trigger} {json.dumps(value, separators=(',', ':'))}"
        self.views.append((click, target, data))
        self.left_out = sum(len(data) for _click, _shown, data in self.views) > MOST
        if self.left_out:
            self.views.clear()
        return not self.left_out

    def header(self) -> dict[str, Any]:
        return {"choices": [[click, target] for click, target, _data in self.views], "left_out": self.left_out}

    def arrays(self) -> list[NDArray[np.uint8]]:
        return [np.frombuffer(data, np.uint8) for _click, _shown, data in self.views]
