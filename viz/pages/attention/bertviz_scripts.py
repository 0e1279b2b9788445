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

// A column of tokens is as wide as they are, at least as BertViz has it, if the frame has room; what does not fit is
// shortened. size: of letters. lines: the width of what is between both columns. around: what a column needs beside a
// token. gap: beside the lines. most: of all together.
const [bertviz_column, bertviz_lines] = (({ size, lines, least, around, gap = 0, most = Infinity }) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${size}px "Source Code Pro", "Noto Sans Mono CJK SC", monospace`;
  const wide = (text) => pen.measureText(text).width;
  const texts = Object.values(bertviz_params.attention);
  const widest = Math.max(...texts.flatMap(({ left_text, right_text }) => [...left_text, ...right_text]).map(wide));
  const frame = document.documentElement.clientWidth - 8;
  const between = Math.min(lines, 0.25 * frame);
  const room = (Math.min(frame, most) - between - gap) / 2;
  const column = Math.max(56, Math.min(room, Math.max(least, widest + around)));
  const fitted = (full) => {
    const letters = [...full];
    while (letters.length && wide(`${letters.join("")}…`) > column - around) letters.pop();
    return wide(full) <= column - around ? full : Object.assign(new String(`${letters.join("")}…`), { full });
  };
  for (const each of texts) for (const side of ["left_text", "right_text"]) each[side] = each[side].map(fitted);
  return [column, between];
})({
  head: { size: 15, lines: 115, least: 110, around: 12 },
  model: { size: 13, lines: 140, least: 80, around: 12, most: 440 },
  neuron: { size: 15, lines: 150, least: 120, around: 32, gap: 25 },
}[document.body.classList[0]]);
"""

# BertViz counts from 0 where it makes the list itself; the page counts layers and heads from 1.
AFTER = """
if (bertviz_params.count)
  for (const each of document.querySelectorAll("option")) each.textContent = Number(each.value) + 1;

// A shortened token says all of it where it is pointed at; a head that is opened large is scrolled into the frame.
function bertviz_drawn() {
  const [vis, large] = [document.getElementById("vis"), document.querySelector("rect.detail")];
  const { x, width } = large?.getBoundingClientRect() ?? { x: 0, width: 0 };
  if (x + width > vis.clientWidth || x < 0) vis.scrollLeft += x - Math.max(0, (vis.clientWidth - width) / 2);
  for (const each of document.querySelectorAll("text")) {
    const full = each.__data__?.full;
    if (!full || each.querySelector("title")) continue;
    each.appendChild(document.createElementNS(each.namespaceURI, "title")).textContent = full;
  }
}
bertviz_drawn();
new MutationObserver(bertviz_drawn).observe(document.getElementById("vis"), { childList: true, subtree: true });
"""

# Lines of the views' scripts on these widths, and their replacements.
WIDTHS = {
    "head": {
        "const BOXWIDTH = 110;": "const BOXWIDTH = bertviz_column;",
        "const MATRIX_WIDTH = 115;": "const MATRIX_WIDTH = bertviz_lines;",
    },
    "model": {
        "const DETAIL_WIDTH = 300;": "const DETAIL_WIDTH = 2 * bertviz_column + bertviz_lines;",
        "const DETAIL_ATTENTION_WIDTH = 140;": "const DETAIL_ATTENTION_WIDTH = bertviz_lines;",
        "const DETAIL_BOX_WIDTH = 80;": "const DETAIL_BOX_WIDTH = bertviz_column;",
    },
    "neuron": {
        "const BOXWIDTH = TEXT_SIZE * 8;": "const BOXWIDTH = bertviz_column;",
        "const ATTENTION_WIDTH = 150;": "const ATTENTION_WIDTH = bertviz_lines;",
    },
}


def scripts(view: str) -> list[str]:
    """Scripts of the page of one of VIEWS, in their order, in the language in use.

    Raises:
        ValueError: BertViz is not installed.
    """
    return [vendored("jquery.slim.min.js"), vendored("d3.v5.min.js"), BEFORE, script(view), AFTER]


def every_script() -> set[str]:
    """Scripts of all views, in all languages; none where BertViz is not installed."""

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
    """BertViz's script as it is, but for its marker, which names the parameters, its columns' width and its words."""
    text = _script(view).replace("PYTHON_PARAMS", "bertviz_params", 1)
    for fixed, fitting in WIDTHS[view].items():
        text = text.replace(fixed, fitting, 1)
    for english, word in written().items():
        text = text.replace(f".text({english!r}", f".text({as_script(word)}").replace(
            f'.text("{english}"', f".text({as_script(word)}"
        )
    return text.replace('", Head "', as_script(", " + _("head") + " "))


def written() -> dict[str, str]:
    """Words in the scripts, and their translations."""
    return {
        "Heads": _("Heads"),
        "Layers": _("Layers"),
        "Layer ": _("Layer") + " ",
        "Query ": _("query") + " ",
        "Key ": _("key") + " ",
        "No token selected": _("Point at a token, or tap it"),
    }


@cache
def _script(view: str) -> str:
    """Found among the package's files and not by importing it: that would import IPython."""
    try:
        path = distribution("bertviz").locate_file(f"bertviz/{view}_view.js")
    except PackageNotFoundError:
        raise ValueError(_("BertViz is not installed: run pip install --no-deps bertviz==1.4.1")) from None
    return Path(str(path)).read_text("utf-8")
