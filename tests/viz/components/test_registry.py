"""Bytes for the browser components, read back as bytes.js reads them."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz.components.registry import component, pack
from viz.web.modules import modules


def unpack(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """What the reader finds; and that it is what a browser reads: JSON of numbers alone, arrays at multiples of 8."""
    start = 4 + int.from_bytes(data[:4], "little")
    described = json.loads(data[4:start], parse_constant=pytest.fail)["arrays"]
    assert not any((start + each["offset"]) % 8 for each in described)
    header, arrays = json.loads(data[4:start]), []
    for described in header.pop("arrays"):
        count = int(np.prod(described["shape"]))
        flat = np.frombuffer(data, described["type"], count, start + described["offset"])
        arrays.append(flat.reshape(described["shape"]))
    return header, arrays


@pytest.mark.parametrize("text", ["", "a", "ab" * 50, "我是老师。", "</script>", "مرحبا", "👩🏽‍🚀", "\u2028"])
def test_headers_come_back_whatever_their_length(text):
    header = {"text": text, "list": [text, 1, 2.5, None, True], "inner": {text: [[]]}}
    assert unpack(pack(header)) == (header, [])


@given(st.text(max_size=30), st.lists(st.integers(0, 9), max_size=4))
def test_any_header_and_any_lengths_come_back_aligned(text, lengths):
    arrays = [np.arange(length, dtype=np.uint8) for length in lengths]
    header, found = unpack(pack({"text": text}, arrays))
    assert header == {"text": text}
    assert [array.tolist() for array in found] == [list(range(length)) for length in lengths]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.int32])
def test_arrays_come_back_in_every_type_that_the_browser_reads(dtype):
    first = np.arange(15).reshape(3, 5).astype(dtype)
    second = np.arange(24).reshape(2, 3, 4).astype(dtype)
    _, found = unpack(pack({}, [first, np.empty((0, 4), dtype), second, second.T, first[:, ::2]]))
    for array, expected in zip(found, [first, np.empty((0, 4)), second, second.T, first[:, ::2]], strict=True):
        assert array.dtype == dtype
        assert np.array_equal(array, expected)


def test_the_browser_knows_each_of_these_types():
    script = modules()["web/bytes.js"]
    for reader in ("uint8: Uint8Array", "uint16: Uint16Array", "float32: Float32Array", "int32: Int32Array"):
        assert reader in script


def test_values_that_are_no_numbers_travel_in_arrays():
    values = np.array([np.nan, -np.inf, np.inf, -0.0], np.float32)
    _, (found,) = unpack(pack({}, [values]))
    assert found.tobytes() == values.tobytes()


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "Infinity"), (-np.inf, "-Infinity")])
def test_a_header_names_what_json_does_not_have(value, name):
    header, _arrays = unpack(pack({"values": [{"loss": value, "step": 1.5}], "pair": (value, "a")}))
    assert header == {"values": [{"loss": {"~": name}, "step": 1.5}], "pair": [{"~": name}, "a"], "escaped": True}


def test_a_lone_surrogate_becomes_a_question_mark():
    assert unpack(pack({"text": "a\ud800b"}))[0] == {"text": "a?b"}


def test_the_arrays_entry_is_the_formats_own():
    header, found = unpack(pack({"arrays": "mine"}, [np.ones(3, np.uint8)]))
    assert header == {}
    assert found[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("path", sorted(modules()))
def test_scripts_write_text_as_text(path):
    script = modules()[path].replace("http://www.w3.org/2000/svg", "")  # a name that no browser asks for
    code = "\n".join(line.partition("//")[0] for line in script.splitlines())
    for way in ("innerHTML", "outerHTML =", "insertAdjacentHTML", "document.write", "eval(", "new Function", "http:"):
        assert way not in code, way


def test_an_unknown_component_is_an_error():
    with pytest.raises(KeyError, match="no_such_component"):
        component("web/no_such_component")
