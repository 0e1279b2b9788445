"""Colours: one table, which the browser's scripts and styles hold too; and how many are written elsewhere."""

from __future__ import annotations

import re
from collections import Counter

from viz.figures import colours
from viz.web.modules import ASIDE, VIZ

HEX = re.compile(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b(?!\w)|\brgba?\(\d[^)]*\)")
GREY = re.compile(r"rgba?\((\d+),? ?\1,? ?\1\b")  # of lines, shadows and hatches
TABLES = ("figures/colours.py", "web/colours.js", "web/common.css")
# Colours that are written outside the tables. These numbers only fall.
ELSEWHERE = {
    "frame/frame.css": 2,
    "frame/token_bar.css": 1,
    "pages/attention/bertviz.py": 2,
    "web/heat.js": 2,
    "web/pens.js": 3,
}


def table() -> dict[str, str]:
    return {name: value for name, value in vars(colours).items() if isinstance(value, str) and value.startswith("#")}


def named(path: str, pattern: str) -> dict[str, str]:
    text = (VIZ / path).read_text("utf-8")
    return {name.upper(): value for name, value in re.findall(pattern, text)}


def test_scripts_and_styles_have_the_colours_of_the_table():
    script = named("web/colours.js", r'export const (\w+) = "(#\w{6})"')
    style = named("web/common.css", r"--(\w+): (#\w{6})")
    for other in (script, style):
        known = {name: value for name, value in other.items() if name in table()}
        assert {"QUERY", "KEY", "VALUE", "OUTPUT", "ATTENTION", "LOSS", "PLAIN", "PINNED"} <= set(known)
        assert known == {name: table()[name] for name in known}
    assert script["ODD_COLOUR"] == style["ODD"]
    assert style["DIFFERENCE"] == colours.DIFFERENCE[1]
    text = (VIZ / "web/colours.js").read_text("utf-8")
    assert re.search(r"SERIES = \[(.*)\]", text)[1] == ", ".join(f'"{each}"' for each in colours.SERIES[:5])  # type: ignore[index]
    assert f'channels("{colours.DIFFERENCE[1]}")' in text


def test_each_thing_has_a_colour_of_its_own():
    own = {name: value for name, value in table().items() if name not in ("PINNED", "EXPECTED")}
    every = [*own.values(), *colours.DIFFERENCE, *colours.SERIES[5:]]
    assert len(every) == len(set(every))


def test_selection_is_grey_in_the_theme_too():
    config = (VIZ.parent / ".streamlit" / "config.toml").read_text("utf-8")
    script = (VIZ / "web/colours.js").read_text("utf-8")
    chosen = re.findall(r"#\w{6}", re.search(r"SELECTED = \[(.*)\]", script)[1])  # type: ignore[index]
    assert re.findall(r'primaryColor = "(#\w{6})"', config) == chosen
    assert all(max(channels) - min(channels) < 16 for channels in map(colours.channels, chosen))


def test_no_colour_is_written_outside_the_tables():
    found: Counter[str] = Counter()
    for path in VIZ.rglob("*"):
        name = path.relative_to(VIZ).as_posix()
        if path.suffix in (".py", ".js", ".css") and name not in TABLES and not {*ASIDE} & {*path.parts}:
            written = [each for each in HEX.findall(path.read_text("utf-8")) if not GREY.match(each)]
            found.update({name: len(written)} if written else {})
    assert found == ELSEWHERE
