"""Files that Hypothesis draws piece by piece: headers, pickles, names in what is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.model.checkpoints.fuzzing_files import NUMBERS, PARTS, archive
from tests.model.tensor_files import raw_safetensors

Read = Callable[[Any], object]
SIZES = st.one_of(st.integers(0, 8), st.sampled_from(NUMBERS), st.integers())
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "I64", "BOOL", "F4", "?"]),
        "shape": st.lists(SIZES, max_size=4),
        "data_offsets": st.lists(SIZES, min_size=2, max_size=2),
    }
)


def _header(parts: Any, path: Path, table: Read, _: Read) -> Callable[[], object]:
    raw_safetensors(path.with_suffix(".safetensors"), parts, bytes(8))
    return lambda: table(path.with_suffix(".safetensors"))


def _pickle(parts: Any, path: Path, table: Read, _: Read) -> Callable[[], object]:
    path = path.with_suffix(".pt")
    content = b"\x80\x02" + b"".join(parts) + b"."
    path.write_bytes(archive([("x/data.pkl", content), ("x/byteorder", b"little"), ("x/version", b"3\n")]))
    return lambda: table(path)


def _names(parts: Any, path: Path, _: Read, upload: Read) -> Callable[[], object]:
    sent = [(name, b"{}") for name in parts]
    return lambda: upload(sent)


NAMES = st.lists(st.text(st.sampled_from("aA./\\:é\0\ud800"), max_size=8).map(lambda name: name + ".json"), max_size=4)
DRAWN: dict[str, tuple[st.SearchStrategy[Any], Callable[..., Callable[[], object]]]] = {
    "header": (st.dictionaries(st.text(max_size=3), ENTRIES, max_size=3), _header),
    "pickle": (st.lists(st.sampled_from(PARTS), max_size=20), _pickle),
    "names": (NAMES, _names),
}
