"""Scripts of BertViz's page, each the same for every model: the guard lets the browser run these and no others."""

from __future__ import annotations

import json
from contextvars import copy_context
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from viz.components.registry import VENDOR
from viz.i18n.catalogue import LANGUAGES, _, use

VIEWS = ("head", "model", "neuron")
BEFORE = """
window.bertviz_params = JSON.parse(document.getElementById("params").textContent);
const require = { config() {} };
const requirejs = (names, run) => run(jQuery, d3);
console.log = () => {};
if (bertviz_params.colours) d3.schemeCategory10 = bertviz_params.colours;
"""

# BertViz counts from 0 where it makes the list itself; the page counts layers and heads from 1.
AFTER = """
if (bertviz_params.count)
  for (const each of document.querySelectorAll("option")) each.textContent = Number(each.value) + 1;
"""


def scripts(view: str) -> list[str]:
    """All that the page of one of VIEWS runs, in its order, in the language in use.

    Raises:
        ValueError: BertViz is not installed.
    """
    return [vendored("jquery.slim.min.js"), vendored("d3.v5.min.js"), BEFORE, script(view), AFTER]


def every_script() -> set[str]:
    """Those of all views, in all languages; of BertViz that is not installed, none."""

    def spoken(language: str) -> set[str]:
        use(language)
        return {each for view in VIEWS for each in scripts(view)}

    try:
        return {each for language in LANGUAGES for each in copy_context().run(spoken, language)}
    except ValueError:
        return set()


def as_script(value: Any) -> str:
    """JSON that may stand in a script: no token can end it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


@cache
def vendored(name: str) -> str:
    return (VENDOR / name).read_text("utf-8")


def script(view: str) -> str:
    """BertViz's script as it is, but for its one marker, which becomes the name of the parameters, and its words."""
    text = _script(view).replace("PYTHON_PARAMS", "bertviz_params", 1)
    for english, word in written().items():
        text = text.replace(f".text({english!r}", f".text({as_script(word)}").replace(
            f'.text("{english}"', f".text({as_script(word)}"
        )
    return text.replace('", Head "', as_script(", " + _("head") + " "))


def written() -> dict[str, str]:
    """What the scripts write by themselves."""
    return {
        "Heads": _("Heads"),
        "Layers": _("Layers"),
        "Layer ": _("Layer") + " ",
        "Query ": _("query") + " ",
        "Key ": _("key") + " ",
        "No token selected": _("Point at a token"),
    }


@cache
def _script(view: str) -> str:
    """Found among the package's files and not by importing it: that would import IPython."""
    try:
        path = distribution("bertviz").locate_file(f"bertviz/{view}_view.js")
    except PackageNotFoundError:
        raise ValueError(_("BertViz is not installed: run pip install --no-deps bertviz==1.4.1")) from None
    return Path(str(path)).read_text("utf-8")
