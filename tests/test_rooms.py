"""Who may import whom: the rooms of the design."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Tests need no network; those that start the application talk to it on localhost.
NETWORK = ("requests", "httpx", "aiohttp", "urllib3", "huggingface_hub", "ftplib", "smtplib")
LOCALHOST = ("socket", "http.client", "urllib.request")
TALKS_TO_LOCALHOST = ("tests/browser/", "tests/benchmarks/")
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
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            found |= {str(given.value) for given in node.args if isinstance(given, ast.Constant)}
    return found


def forbidden(file: str, *modules: str) -> list[str]:
    """What `file` imports of `modules` or from within them."""
    package = ".".join(Path(file).parent.parts)
    return sorted(
        name
        for name in imports((ROOT / file).read_text(encoding="utf-8"), package)
        if any(name == module or name.startswith(f"{module}.") for module in modules)
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


def test_the_model_knows_no_screen() -> None:
    for file in files("model"):
        assert not forbidden(file, "viz", "app", "streamlit", "plotly"), file


def test_figures_know_neither_streamlit_nor_torch() -> None:
    for file in files("viz/figures"):
        assert not forbidden(file, "streamlit", "torch"), file


def test_only_the_outer_rooms_import_streamlit() -> None:
    allowed = files(
        "viz/pages",
        "viz/sections",
        "viz/components",
        "viz/state/workbench.py",
        "viz/state/checkpoints.py",
        "viz/state/checkpoints.py",
        "viz/state/assumptions.py",
        "viz/state/shown_model.py",
        "viz/state/positions.py",
        "viz/state/training.py",
        "viz/strip.py",
        "viz/ui/parts.py",
        "viz/input_bar.py",
        "viz/token_bar.py",
        "app.py",
    )
    others = [file for file in files("app.py", "model", "viz") if file not in allowed]
    assert others
    for file in others:
        assert not forbidden(file, "streamlit"), file
    assert forbidden("app.py", "streamlit")


def test_no_page_imports_a_page() -> None:
    for file in files("viz/pages", "viz/sections"):
        assert not forbidden(file, "viz.pages", "app"), file


def test_imports_point_inwards() -> None:
    for file in files("viz/figures", "viz/components"):
        assert not forbidden(file, "viz.pages", "viz.state.workbench", "app"), file
    for file in files("viz/packing"):
        assert not forbidden(file, "viz.sections", "viz.pages", "app"), file
    for file in (
        "viz/state/workbench.py",
        "viz/state/checkpoints.py",
        "viz/state/checkpoints.py",
        "viz/state/assumptions.py",
        "viz/state/shown_model.py",
        "viz/state/positions.py",
        "viz/state/training.py",
        "viz/strip.py",
        "viz/ui/parts.py",
        "viz/input_bar.py",
        "viz/token_bar.py",
    ):
        assert not forbidden(file, "viz.pages", "app"), file


def test_tests_need_no_network() -> None:
    for file in files("tests"):
        modules = NETWORK if file.startswith(TALKS_TO_LOCALHOST) else NETWORK + LOCALHOST
        assert not forbidden(file, *modules), file
