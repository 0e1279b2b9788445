"""A component by itself on an otherwise empty page, a heatmap first of all."""

from __future__ import annotations

import base64
from typing import Any
from xml.etree import ElementTree

import numpy as np
from playwright.sync_api import Page, Route

from viz.components.registry import pack
from viz.web.modules import modules, styles

HOSTILE = [
    "<s>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a&b",
    "مرحبا بالعالم",
    "我",
    "\0",
]
MODULES = "http://modules.test/"
MOUNT = """
async ([address, style, bytes, width, place]) => {
  const { default: show } = await import(address);
  document.body.style.cssText = `margin: 0; width: ${width}px`;
  document.head.appendChild(document.createElement("style")).textContent = style;
  window.rows = [];
  window.hovered = [];
  const end = show({
    data: Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0)),
    parentElement: document.querySelector(place),
    setTriggerValue: (name, row) => window.rows.push([name, row]),
    setStateValue: (name, row) => window.rows.push([name, row]),
  });
  (window.ends ??= []).push(end);
  window.__vitrine.addEventListener("hover", ({ detail }) => window.hovered.push([detail.side, detail.position]));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}
"""


def mount(page: Page, name: str, data: bytes, width: int, place: str = "body") -> None:
    """The component of viz/{name}.js on a page of its own, which has the modules from here."""
    page.route(f"{MODULES}**", module)
    style = "".join(each.read_text("utf-8") for each in styles(f"{name}.js"))
    page.evaluate(MOUNT, [f"{MODULES}{name}.js", style, base64.b64encode(data).decode("ascii"), width, place])


def module(route: Route) -> None:
    headers = {"Access-Control-Allow-Origin": "*", "Content-Type": "text/javascript"}
    route.fulfill(body=modules()[route.request.url.removeprefix(MODULES)], headers=headers)


class Shown:
    """A heatmap on an otherwise empty page."""

    def __init__(self, page: Page, rows: list[str], columns: list[str], *, width: int = 500, **options: Any) -> None:
        shape = len(rows), len(columns)
        self.page = page
        self.visible = options.pop("visible", np.ones(shape, dtype=bool))
        weights = np.random.default_rng(0).dirichlet(np.ones(shape[1]), shape[0])
        self.values = options.pop("values", weights).astype(np.float32) * self.visible
        header = {
            "rows": {"title": options.pop("title", "query (from)"), "labels": rows},
            "columns": {"title": "key (to)", "labels": columns},
            "scale": {"low": options.pop("low", 0), "high": options.pop("high", 1), "title": "weight"},
            "words": {"masked": "masked", "download": "Download", "csv": ["query", "key", "weight", "masked"]},
            "chosen": options.pop("chosen", 0),
        }
        header["scale"]["floor"] = options.pop("floor", None)
        header |= dict.fromkeys(("name", "sentence", "note", "stamp"), "a") | {"alt": "what it shows", "file": "saved"}
        header["square"] = options.pop("square", False)
        header["columns"]["places"] = options.pop("places", None)
        header["tokens"] = options.pop("tokens", None)
        header["rows"]["side"], header["columns"]["side"] = options.pop("sides", ("target", "source"))
        assert not options
        mount(page, "web/heatmap", pack(header, [self.values, self.visible.astype(np.uint8)]), width)

    def saved(self, kind: str) -> bytes:
        self.page.get_by_role("button", name="Download").click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"saved.{kind.lower()}"
        return download.value.path().read_bytes()

    def svg(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.saved("SVG").decode("utf-8"))
