"""Browser components (Streamlit components v2): data goes in as bytes, clicks come back."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

VIZ = Path(__file__).parents[1]
VENDOR = Path(__file__).parent / "vendor"
LOADING = ("script_loader", "script_library")  # scripts that bring the others


def component(name: str, *shared: str) -> Callable[..., Any]:
    """The component in {name}.js and {name}.css, after what it shares with others, and with all in common.*.

    Streamlit sends a component's script with each of its messages: 150 kB a keystroke. So that is a line that takes it
    from the library, which comes with the `carrier`.
    """
    _script, style = sources(name, *shared)
    return _mounted(name, _filled("script_loader", PARTS=["common", *shared, name]), style)


def carrier(name: str, *shared: str) -> Callable[..., Any]:
    """A component that every page mounts: its script brings those of all others along."""
    script, style = sources(name, *shared)
    return _mounted(name, script + _filled("script_library", TEXTS=_texts()), style)


def _filled(loading: str, **values: object) -> str:
    """This script with values in place of names."""
    values["LIBRARY"] = _library()
    return re.sub("|".join(values), lambda name: json.dumps(values[name[0]]), _text(loading))


@cache
def _library() -> str:
    """What the page knows it by: after an update of Vitrine, a page that is still open asks for the new one."""
    return f"vitrine {hashlib.sha256(json.dumps(_texts()).encode()).hexdigest()[:16]}"


@cache
def _texts() -> dict[str, str]:
    """Of all scripts by their names, but for those that bring them."""
    return {name: path.read_text("utf-8") for name, path in files(".js").items() if name not in LOADING}


@cache
def files(suffix: str) -> dict[str, Path]:
    """Scripts or styles of all pages by their names, wherever under viz/ they lie; no two are called the same."""
    paths = [path for path in sorted(VIZ.rglob(f"*{suffix}")) if VENDOR not in path.parents]
    files = {path.stem: path for path in paths}
    assert len(files) == len(paths), "two scripts or styles have one name"
    return files


def _mounted(name: str, script: str, style: str) -> Callable[..., Any]:
    mount: Callable[..., Any] = st.components.v2.component(f"vitrine_{name}", js=script, css=style)
    return mount


def sources(name: str, *shared: str) -> tuple[str, str]:
    """Script and style of a component; a part may have no style of its own."""
    parts = ("common", *shared, name)
    styles = [files(".css")[part].read_text("utf-8") for part in parts if part in files(".css")]
    return "".join(map(_text, parts)), "".join(styles)


def _text(part: str) -> str:
    if part not in files(".js"):
        raise FileNotFoundError(f"no script under viz/ is called {part}.js")
    return files(".js")[part].read_text("utf-8")


def pack(header: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """Header and arrays as one piece of bytes: the header's length, its JSON, then each array at a multiple of 8.

    NaN and infinities, which JSON does not have, become {"~": "NaN"} in a header that says `odd`.
    """
    offsets, parts, end = [], [], 0
    for array in arrays:
        contiguous = np.ascontiguousarray(array)
        offsets.append({"offset": end, "type": contiguous.dtype.name, "shape": list(contiguous.shape)})
        padding = -contiguous.nbytes % 8
        parts += [contiguous.tobytes(), b"\0" * padding]
        end += contiguous.nbytes + padding
    whole = {**header, "arrays": offsets}
    try:
        written = json.dumps(whole, ensure_ascii=False, allow_nan=False)
    except ValueError:
        written = json.dumps(_written_out({**whole, "odd": True}), ensure_ascii=False, allow_nan=False)
    text = written.encode("utf-8", "replace")
    text += b" " * (-(4 + len(text)) % 8)
    return len(text).to_bytes(4, "little") + text + b"".join(parts)


def _written_out(value: Any) -> Any:
    """The same with what is not finite as JSON can have it."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"~": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, Mapping):
        return {name: _written_out(part) for name, part in value.items()}
    return [_written_out(part) for part in value] if isinstance(value, list | tuple) else value
