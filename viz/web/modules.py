"""The browser's half: ES modules, which a route of ours serves by their places in viz/, behind a hash of them all."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

VIZ = Path(__file__).parents[1]
ROUTE = "web/{version}/{path:path}"
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}  # another text has another address
LINKED = "linked"  # in the place of a module's path: those that the address names, as one script
IMPORTED = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";$', re.MULTILINE)
EXPORTED = re.compile(r"^export (?=(?:async )?(?:function\*?|const) (\w+))", re.MULTILINE)
ASIDE = ("node_modules", "vendor")


@cache
def modules() -> dict[str, str]:
    """The text of each module by its path in viz/."""
    paths = (path for path in sorted(VIZ.rglob("*.js")) if not {*ASIDE} & {*path.parts})
    return {path.relative_to(VIZ).as_posix(): path.read_text("utf-8") for path in paths}


@cache
def version() -> str:
    """A hash of all modules: after an update of Vitrine, a page that is still open asks for the new ones."""
    return hashlib.sha256(repr(modules()).encode()).hexdigest()[:16]


def imports(path: str) -> list[str]:
    """Modules that this one imports, in its order."""
    return [_resolved(name, path) for _names, name in IMPORTED.findall(modules()[path])]


def _resolved(name: str, importer: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), name))


def with_imports(path: str) -> list[str]:
    """A module behind all that it imports, each once."""

    def walk(module: str) -> Iterator[str]:
        for other in imports(module):
            yield from walk(other)
        yield module

    return list(dict.fromkeys(walk(path)))


def linked(paths: Iterable[str]) -> str:
    """Script that imports nothing, of these modules and all that they import, each once and behind what it imports: in
    it `modules[path]` is what a module exports. For files, which have no server.
    """
    every = dict.fromkeys(module for path in paths for module in with_imports(path))
    return "\n".join(["const modules = {};", *(_as_function(path) for path in every)])


def _as_function(path: str) -> str:
    """A module as a function that gives what it exports."""
    text, key = modules()[path], json.dumps(path)

    def unpacked(match: re.Match[str]) -> str:
        names = match[1].replace(" as ", ": ")
        return f"const {{{names}}} = modules[{json.dumps(_resolved(match[2], path))}];"

    names = ", ".join(EXPORTED.findall(text))
    body = EXPORTED.sub("", IMPORTED.sub(unpacked, text))
    body = re.sub(r"^export default ", "exported.default = ", body, flags=re.MULTILINE)
    return f"modules[{key}] = ((exported) => {{\n{body}\nreturn Object.assign(exported, {{ {names} }});\n}})({{}});"


def styles(path: str) -> list[Path]:
    """Styles of a component: those of all, then one beside each module that has one, its own last."""
    beside = [VIZ / module.replace(".js", ".css") for module in with_imports(path)]
    return [VIZ / "web" / "common.css", *(style for style in beside if style.exists())]


def base_path() -> str:
    """Prefix of every route: empty, or "/" and the path that Streamlit is told."""
    return "/".join(["", *filter(None, st.get_option("server.baseUrlPath").split("/"))])


async def serve_module(request: Request) -> Response:
    """One module, or several linked. Of another version there is none: a page of that asks the server that it came
    from.
    """
    path = request.path_params["path"]
    paths = request.query_params.getlist("module") if path == LINKED else [path]
    if request.path_params["version"] != version() or not paths or not modules().keys() >= {*paths}:
        return PlainTextResponse("There is no such module.", 404)
    text = linked(dict.fromkeys(paths)) if path == LINKED else modules()[path]
    return Response(text, media_type="text/javascript", headers=KEPT)
