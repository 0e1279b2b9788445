"""Modules of the browser: what one imports, another exports; what a saved page can link; how they are served."""

from __future__ import annotations

import re

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from viz.web.modules import ROUTE, VIZ, imports, linked, modules, serve_module, styles, version, with_imports

IMPORT = re.compile(r"^import \{([^}]*)\} from \"(\.[^\"]+\.js)\";$", re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const) (\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=[Route(f"/{ROUTE}", serve_module)]))


@pytest.mark.parametrize("path", sorted(modules()))
def test_what_it_imports_is_there(path):
    """And in the one form that `linked` knows."""
    text = modules()[path]
    named = [name.strip() for names, _ in IMPORT.findall(text) for name in names.split(",") if name.strip()]
    assert len(IMPORT.findall(text)) == len(re.findall(r"^import\b", text, re.MULTILINE)) == len(imports(path))
    assert len(named) == len(set(named))
    offered = {name for other in imports(path) for name in EXPORT.findall(modules()[other])}
    assert set(named) <= offered
    assert len(re.findall(r"^export\b", text, re.MULTILINE)) == len(EXPORT.findall(text)) + text.count(
        "\nexport default function ("
    )


@pytest.mark.parametrize("path", sorted(modules()))
def test_none_imports_itself_by_way_of_others(path):
    *others, last = with_imports(path)
    assert last == path
    assert path not in {each for other in others for each in imports(other)}


def test_styles_come_in_the_order_of_imports_with_those_of_all_first_and_its_own_last():
    names = [style.stem for style in styles("pages/attention/head_grid.js")]
    assert names == ["common", "plot", "thumbnails", "head_grid"]


def test_a_module_is_kept_for_ever_under_the_hash_of_all(client):
    answer = client.get(f"/web/{version()}/pages/attention/head_grid.js")
    assert answer.text == modules()["pages/attention/head_grid.js"]
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "path", ["0123456789abcdef/web/bus.js", "{version}/web/none.js", "{version}/web/modules.py", "{version}/../app.py"]
)
def test_another_version_and_another_file_are_not_there(client, path):
    answer = client.get(f"/web/{path.format(version=version())}")
    assert answer.status_code == 404
    assert "immutable" not in answer.headers.get("cache-control", "")


def test_modules_are_linked_into_one_script_each_once_and_behind_what_it_imports(client, monkeypatch):
    files = {
        "web/a.js": 'import { two as both } from "./b.js";\n\nconst own = 1;\nexport const sum = () => own + both();\n',
        "web/b.js": "const own = 2;\nexport function two() {\n  return own;\n}\n",
        "pages/c/d.js": 'import { two } from "../../web/b.js";\nimport {\n  sum,\n} from "../../web/a.js";\n\n'
        "export default function () {\n  return [two(), sum()];\n}\n",
    }
    monkeypatch.setattr("viz.web.modules.modules", lambda: files)
    text = linked(["pages/c/d.js", "web/a.js"])
    assert text.count("const own = 2") == 1
    assert text.index("web/b.js") < text.index("web/a.js") < text.index("pages/c/d.js")
    assert 'const { two: both } = modules["web/b.js"];' in text
    assert "exported.default = function () {" in text
    assert "{ two }" in text
    both = client.get(f"/web/{version()}/linked?module=web/b.js&module=web/a.js")
    assert both.text == linked(["web/b.js", "web/a.js"])
    assert client.get(f"/web/{version()}/linked?module=app.py").status_code == 404
    assert client.get(f"/web/{version()}/linked").status_code == 404


def test_every_module_can_be_linked():
    assert not re.search(r"^(import|export)\b", linked(sorted(modules())), re.MULTILINE)


def test_the_lock_of_the_developers_packages_names_no_host():
    assert "://" not in (VIZ / "web" / "package-lock.json").read_text("utf-8")
