"""Browser components (Streamlit components v2): data goes in as bytes, clicks come back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

HERE = Path(__file__).parent


def component(name: str, *shared: str) -> Callable[..., Any]:
    """The component in {name}.js and {name}.css, after what it shares with others, and with all in common.*."""
    script, style = sources(name, *shared)
    mount: Callable[..., Any] = st.components.v2.component(f"vitrine_{name}", js=script, css=style)
    return mount


def sources(name: str, *shared: str) -> tuple[str, str]:
    """Script and style of a component; a part may have no style of its own."""
    parts = [HERE / part for part in ("common", *shared, name)]
    styles = [path for part in parts if (path := part.with_suffix(".css")).exists()]
    scripts = [part.with_suffix(".js") for part in parts]
    return "".join(path.read_text("utf-8") for path in scripts), "".join(path.read_text("utf-8") for path in styles)


def pack(header: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """Header and arrays as one piece of bytes: the header's length, its JSON, then each array at a multiple of 8.

    Raises:
        ValueError: the header holds NaN or an infinity, which JSON does not have; arrays may.
    """
    offsets, parts, end = [], [], 0
    for array in arrays:
        contiguous = np.ascontiguousarray(array)
        offsets.append({"offset": end, "type": contiguous.dtype.name, "shape": list(contiguous.shape)})
        padding = -contiguous.nbytes % 8
        parts += [contiguous.tobytes(), b"\0" * padding]
        end += contiguous.nbytes + padding
    text = json.dumps({**header, "arrays": offsets}, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    text += b" " * (-(4 + len(text)) % 8)
    return len(text).to_bytes(4, "little") + text + b"".join(parts)
