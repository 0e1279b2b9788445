"""Names of classes. Each component has a shadow tree of its own, where only the styles that it loads apply: its own,
those it shares with others, and those of all. Among these a class belongs to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from viz.web.modules import ASIDE, VIZ, modules, with_imports

CALL = re.compile(r"\bcomponent\(\"([\w/]+)\"\)")
BEGINNING = re.compile(r"(?:\.vitrine )?(?::where\([^)]*\)|\.[\w-]+|)")
TOGGLED = re.compile(r"classList\.(?:toggle|add|replace)\(([^;\n]*)")


def loaded() -> dict[str, tuple[str, ...]]:
    """Scripts and styles of each component, in their order."""
    names = [name for path in VIZ.rglob("*.py") for name in CALL.findall(path.read_text("utf-8"))]
    assert len(names) == len(set(names)) > 20
    return {name: ("web/common", *(path[:-3] for path in with_imports(f"{name}.js"))) for name in names}


def style(part: str) -> str:
    file = VIZ / f"{part}.css"
    return file.read_text("utf-8") if file.exists() else ""


def selectors(style: str) -> Iterator[list[list[str]]]:
    """Of each selector the classes of each of its elements; an element's tag counts as its first class."""
    style = re.sub(r"/\*.*?\*/|\[[^]]*\]", "", style, flags=re.DOTALL)
    for listed in re.findall(r"([^{}]+)\{", style):
        if listed.strip().startswith("@"):
            continue
        for selector in re.split(r",(?![^(]*\))", listed):
            elements = re.split(r"[\s>+~,()]+", selector.strip())
            yield [re.findall(r"(?:^|\.)([a-zA-Z][\w-]*)", re.sub(r"::?[\w-]+", "", each)) for each in elements]


def top(style: str) -> Iterator[str]:
    """Selectors of the outermost rules, those within @media and the like too."""
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    depth, begun = 0, 0
    for at, letter in enumerate(style):
        if letter == "{" and (depth := depth + 1) == 1:
            opened = at
        if letter == "}" and (depth := depth - 1) == 0:
            listed, body = style[begun:opened].strip(), style[opened + 1 : at]
            yield from top(body) if listed.startswith("@") else re.split(r",(?![^(]*\))\s*", listed)
            begun = at + 1


def roots(style: str) -> set[str]:
    """Classes of the elements that a style is for: what else it says is said of what is inside them."""
    return {name for each in top(style) for name in re.findall(r"\.([\w-]+)", BEGINNING.match(each)[0])}  # type: ignore[index]


def clashes(parts: tuple[str, ...], styles: dict[str, str], scripts: dict[str, str]) -> list[str]:
    """What two of these parts say of one class.

    A class belongs to the first of them that styles an element by it alone. Another may place such an element within
    one of its own (`.mine > .theirs`) or give it a state (`.theirs.state`); it may not style all of them, nor give that
    class to an element of its own.
    """
    owners: dict[str, str] = {}
    found = []
    for part in parts:
        style = styles[part]
        classes = set(re.findall(r"\.([a-zA-Z][\w-]*)", style))
        listed = list(selectors(style))
        for elements in listed:
            for each in elements:
                if each and each[0] in classes:
                    owners.setdefault(each[0], part)
        for elements in listed:
            names = {name for each in elements for name in each if name in classes}
            theirs = {name for name in names if owners.get(name, part) != part}
            given = {name for each in elements for name in each[1:] if name in theirs}
            if given or (theirs and names <= theirs):
                found.append(
                    f"{part}: {' '.join('.'.join(each) for each in elements)} is of {owners[min(given or theirs)]}"
                )
    for part in parts:
        states = {name for call in TOGGLED.findall(scripts[part]) for name in re.findall(r"\"([\w-]+)\"", call)}
        found += [f"{part} gives {name} of {owners[name]}" for name in states if owners.get(name, part) != part]
    return found


@pytest.mark.parametrize(("name", "parts"), sorted(loaded().items()))
def test_no_class_is_defined_by_two_that_are_loaded_together(name, parts):
    scripts = {part: modules().get(f"{part}.js", "") for part in parts}
    assert not clashes(parts, {part: style(part) for part in parts}, scripts)


def test_every_style_is_looked_at():
    styles = {
        path.relative_to(VIZ).with_suffix("").as_posix() for path in VIZ.rglob("*.css") if not {*ASIDE} & {*path.parts}
    }
    of_lessons = {f"pages/lessons/{name}" for name in ("page", "strip", "window", "worksheet_page")}
    alone = {"frame/frame", "frame/lesson_file", "render/document"} | of_lessons
    assert styles - alone <= {part for parts in loaded().values() for part in parts}


def test_what_a_style_says_is_of_its_own_component():
    """So that a class means one thing in one component, whatever others call theirs."""
    parts = {part for parts in loaded().values() for part in parts if style(part)} - {"web/common"}
    own = {part: roots(style(part)) - {"vitrine"} for part in parts}
    assert {part: names for part, names in own.items() if len(names) != 1} == {"web/plot": {"plot", "filed"}}
    named = [name for names in own.values() for name in names]
    assert len(named) == len(set(named)) > 20


@pytest.mark.parametrize(
    ("style", "found"),
    [
        (".a { top: 0; } :where(.a) { .b { top: 0; } }", {"a"}),
        (".a .b, .vitrine .a .c { top: 0; }", {"a", "vitrine"}),
        ("@media (x) { .a { top: 0; } .b { top: 0; } }", {"a", "b"}),
        (":where(.a, .b) { @media (x) { .c { top: 0; } } } /* .d { } */", {"a", "b"}),
    ],
)
def test_the_roots_of_a_style_are_found(style, found):
    assert roots(style) == found


@pytest.mark.parametrize(
    ("style", "script", "clash"),
    [
        (".panel.about { top: 0; }", "", True),  # the map's panel became a round button
        ("", 'panel.classList.toggle("about", chosen)', True),
        (".tip { margin-top: 8px; }", "", True),
        (".a .tip, .tip { color: red; }", "", True),
        ("@media (x) { .tip { top: 0; } }", "", True),
        (".mine > .tip { top: 0; }", "", False),
        (".tip.mine { top: 0; }", 'tip.classList.toggle("mine", chosen)', False),
        ("p.mine { top: 0; } .mine .own:not(:hover) { top: 0; }", 'element("p", "mine")', False),
    ],
)
def test_a_clash_is_found(style, script, clash):
    shared = ".vitrine .about { width: 17px; } .tip { position: absolute; }"
    styles, scripts = {"plot": shared, "mine": style}, {"plot": "", "mine": script}
    assert bool(clashes(("plot", "mine"), styles, scripts)) == clash


def test_nothing_is_smaller_than_a_label_of_a_chart():
    paths = [path for path in VIZ.rglob("*.css") if not {*ASIDE} & {*path.parts}]
    sizes = [
        float(size)
        for path in paths
        for size in re.findall(r"font(?:-size)?:[^;]*?([\d.]+)px", path.read_text("utf-8"))
    ]
    assert len(sizes) > 40
    assert min(sizes) >= 12
    assert {size for size in sizes if size not in (12, 13, 15, 20)} <= {16, 17, 18}
