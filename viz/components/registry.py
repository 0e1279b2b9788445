"""Browser components (Streamlit components v2): data goes in as bytes, clicks come back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from viz.web.modules import base_path, styles, version

VENDOR = Path(__file__).parent / "vendor"
# Streamlit sends a component's script with each of its messages: it is as short as can be, and fetches the module, more
# than once where that is lost on its way.
LOADER = """\
const load = async (path, wait = 250) => {
  try {
    return await import(new URL(path, new URL({place}, location.href)));
  } catch (error) {
    if (wait > 4000) throw error;
    await new Promise((done) => setTimeout(done, wait));
    return load(path, 2 * wait);
  }
};
const [{ mount }, module] = await Promise.all([load("web/views.js"), load({module})]);
export default (given) => mount({name}, module, given);
"""


@dataclass(frozen=True)
class Component:
    """Component of the module viz/{name}.js; a call mounts it."""

    name: str
    mount: Callable[..., Any]
    style: str

    def __call__(self, **given: Any) -> Any:
        return self.mount(**given)


def component(name: str) -> Component:
    """The component of the module viz/{name}.js, with its style and those of what it imports."""
    script = loader(name, f"{base_path()}/web/{version()}/")
    style = "".join(each.read_text("utf-8") for each in styles(f"{name}.js"))
    return Component(name, st.components.v2.component(f"vitrine_{Path(name).name}", js=script, css=style), style)


def trigger_value(key: str, name: str) -> Any:
    """Value that a trigger of the component with this key came with. In its callback.

    A run that the page before asked for, and that comes late, takes the state of all that stands outside its fragment
    out of the session, and with it the sight of the triggers that come next: an empty one brings them back.
    """
    if key not in st.session_state:
        st.session_state[key] = {}
    return st.session_state[key][name]


def loader(name: str, place: str) -> str:
    """The script that Streamlit mounts. place: the path of viz/ on the server."""
    words = {"place": place, "module": f"{name}.js", "name": name}
    return re.sub(r"{(\w+)}", lambda word: json.dumps(words[word[1]]), LOADER)


def pack(header: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """Header and arrays as one piece of bytes: the header's length, its JSON, then each array at a multiple of 8.

    NaN and infinities, which JSON does not have, become {"~": "NaN"} in a header that says `escaped`.
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
        written = json.dumps(_written_out({**whole, "escaped": True}), ensure_ascii=False, allow_nan=False)
    text = written.encode("utf-8", "replace")
    text += b" " * (-(4 + len(text)) % 8)
    return len(text).to_bytes(4, "little") + text + b"".join(parts)


def _written_out(value: Any) -> Any:
    """Header with words in place of numbers that are not finite, which JSON cannot have."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"~": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, Mapping):
        return {name: _written_out(part) for name, part in value.items()}
    return [_written_out(part) for part in value] if isinstance(value, list | tuple) else value
