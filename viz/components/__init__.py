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


def component(name: str) -> Callable[..., Any]:
    """The component in {name}.js and {name}.css, with what all share from common.js and common.css."""
    script = (HERE / "common.js").read_text(encoding="utf-8") + (HERE / f"{name}.js").read_text(encoding="utf-8")
    style = (HERE / "common.css").read_text(encoding="utf-8") + (HERE / f"{name}.css").read_text(encoding="utf-8")
    mount: Callable[..., Any] = st.components.v2.component(f"vitrine_{name}", js=script, css=style)
    return mount


def pack(header: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """Header and arrays as one piece of bytes: the header's length, its JSON, then each array at a multiple of 8."""
    offsets, parts, end = [], [], 0
    for array in arrays:
        contiguous = np.ascontiguousarray(array)
        offsets.append({"offset": end, "type": contiguous.dtype.name, "shape": list(contiguous.shape)})
        padding = -contiguous.nbytes % 8
        parts += [contiguous.tobytes(), b"\0" * padding]
        end += contiguous.nbytes + padding
    text = json.dumps({**header, "arrays": offsets}, ensure_ascii=False).encode("utf-8", "replace")
    text += b" " * (-(4 + len(text)) % 8)
    return len(text).to_bytes(4, "little") + text + b"".join(parts)
