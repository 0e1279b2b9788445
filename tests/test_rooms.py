"""Who may import whom: the rooms of the design."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Rooms of each half, from the innermost: a room imports only from itself and from those before it.
ORDER = {
    "model": (
        *("runtime", "network", "capture", "fast", "text", "data", "inference", "checkpoints", "analysis"),
        *("training", "experiments", "lessons", "cli"),
    ),
    "viz": ("figures", "i18n", "state", "web", "components", "render", "ui", "pages", "frame"),
}
# Tests need no network; those that start the application talk to it on localhost.
NETWORK = ("requests", "httpx", "aiohttp", "urllib3", "huggingface_hub", "ftplib", "smtplib")
LOCALHOST = ("socket", "http.client", "urllib.request")
TALKS_TO_LOCALHOST = ("tests/browser/", "tests/benchmarks/", "tests/deploy/")
BY_NAME = ("importlib.import_module", "import_module", "__import__")


def files(*places: str) -> list[str]:
    """The Python files of folders and files, as paths from the root. Finding none is an error."""
    found: list[str] = []
    for place in places:
        path = ROOT / place
        here = [path] if path.is_file() else sorted(path.rglob("*.py"))
        assert here, f"{place} holds no Python file: has it moved?"
        found += [file.relative_to(ROOT).as_posix() for file in here]
    return found


def imports(source: str, package: str = "") -> set[str]:
    """Every module that `source`, a module of `package`, may import, at any depth, also by name.

    `from a import b` gives both `a` and `a.b`: `b` may be a module.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and dotted(node.func) in BY_NAME:
            found |= {str(given.value) for given in node.args if isinstance(given, ast.Constant)}
    return found


def dotted(node: ast.expr) -> str:
    """The name that is called, as `a.b`; empty where it has none."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def imports_of(file: str) -> frozenset[str]:
    package = ".".join(Path(file).parent.parts)
    return frozenset(imports((ROOT / file).read_text(encoding="utf-8"), package))


def forbidden(file: str, *modules: str) -> list[str]:
    """What `file` imports of `modules` or from within them."""
    return sorted(
        name for name in imports_of(file) if any(name == module or name.startswith(f"{module}.") for module in modules)
    )


def test_imports_are_seen_wherever_they_stand() -> None:
    source = """
import a.b as c
from d import e
def f():
    from . import g
    from ..h import i
    import_module("j.k")
"""
    found = imports(source, "viz.pages")
    assert found == {"a.b", "d", "d.e", "viz.pages", "viz.pages.g", "viz.h", "viz.h.i", "j.k"}


def rooms(half: str) -> dict[str, list[str]]:
    """Files of each room of `model` or `viz`, by the room's name; files at its top are no room."""
    found: dict[str, list[str]] = {}
    for file in files(half):
        parts = Path(file).parts
        if len(parts) > 2:
            found.setdefault(parts[1], []).append(file)
    return found


def graph(*halves: str) -> dict[str, set[str]]:
    """Modules that each module imports, those of its package left out, at any depth, but not for types only."""
    modules = {module_of(file): file for file in files(*halves)}
    return {
        module: {name for name in imports_of(file) if name in modules} - {module} for module, file in modules.items()
    }


def module_of(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("half", ORDER)
def test_every_room_has_its_place_in_the_order(half: str) -> None:
    assert set(rooms(half)) == set(ORDER[half])


@pytest.mark.parametrize("half", ORDER)
def test_imports_point_one_way(half: str) -> None:
    upward = {
        f"{file}: {name}"
        for room, here in rooms(half).items()
        for file in here
        for name in forbidden(file, *(f"{half}.{above}" for above in ORDER[half][ORDER[half].index(room) + 1 :]))
        if (ROOT / f"{name.replace('.', '/')}.py").exists()
    }
    assert not sorted(upward)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not circles(graph("model", "viz"))


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Largest sets of modules that reach one another."""
    reached = {module: _reached(module, arrows) for module in arrows}
    found: list[set[str]] = []
    for module in arrows:
        circle = {other for other in reached[module] if module in reached[other]}
        if circle and circle not in found:
            found.append(circle)
    return found


def _reached(module: str, arrows: dict[str, set[str]]) -> set[str]:
    found, ahead = set(), [module]
    while ahead:
        for name in arrows[ahead.pop()] - found:
            found.add(name)
            ahead.append(name)
    return found


def test_circles_are_found() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d"}, "e": set()}
    assert sorted(map(sorted, circles(arrows))) == [["b", "c"], ["d"]]


def test_the_model_knows_no_screen() -> None:
    for file in files("model"):
        assert not forbidden(file, "viz", "app", "streamlit", "plotly"), file


def test_languages_and_figures_know_no_screen() -> None:
    for file in files("viz/i18n", "viz/pages/positions/figures.py"):
        assert not forbidden(file, "streamlit"), file
    assert forbidden("viz/frame/app.py", "streamlit")


def test_no_page_imports_a_page() -> None:
    pages = {Path(file).parts[2] for file in files("viz/pages") if len(Path(file).parts) > 3}
    assert len(pages) == 11
    for page in pages:
        for file in files(f"viz/pages/{page}"):
            assert not forbidden(file, *(f"viz.pages.{other}" for other in pages - {page}), "app"), file


def test_tests_need_no_network() -> None:
    for file in files("tests"):
        modules = NETWORK if file.startswith(TALKS_TO_LOCALHOST) else NETWORK + LOCALHOST
        assert not forbidden(file, *modules), file
