"""Components of the frame; each function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from viz.components.plots import Mount
from viz.components.registry import carrier, component, pack

_token_bar = component("token_bar")
_page_file = carrier("page_file")


def token_bar(
    data: Mapping[str, Any],
    frames: Sequence[NDArray[Any]],
    key: str,
    on_token: Callable[[], None],
    on_guess: Callable[[], None],
    on_pin: Callable[[], None],
    on_restore: Callable[[], None],
) -> Mount:
    """Tokens of both sides with notes, guesses, badges, what is changed in the forward pass, and the pin.

    A click on a token puts {side, position} into the state as `token`, one on a guess {number, token} as `guess`, one
    on the pin's buttons "keep", "release", "values" or "differences" as `pin`, one on the changes' as `restore`.
    strip, among the data, and frames: news for the training's strip, or None.
    """
    acts = {"on_token_change": on_token, "on_guess_change": on_guess, "on_pin_change": on_pin}
    return partial(_token_bar, data=pack(data, frames), key=key, **acts, on_restore_change=on_restore)


def page_file(words: Mapping[str, str], key: str) -> None:
    """A button that saves the page as it stands as one HTML file. words: save, explanation, saved, language."""
    _page_file(data=words, key=key)
