"""A component by itself on an otherwise empty page, a heatmap first of all."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
from playwright.sync_api import Page

from viz.components.registry import pack, sources

HOSTILE = [
    "<s>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a&b",
    "مرحبا بالعالم",
    "我",
    "\0",
]
MOUNT = """
async ([script, style, bytes, width]) => {
  const file = new Blob([script], { type: "text/javascript" });
  const { default: show } = await import(URL.createObjectURL(file));
  document.body.style.cssText = `margin: 0; width: ${width}px`;
  document.head.appendChild(document.createElement("style")).textContent = style;
  window.rows = [];
  window.hovered = [];
  const end = show({
    data: new Uint8Array(bytes),
    parentElement: document.body,
    setTriggerValue: (name, row) => window.rows.push([name, row]),
    setStateValue: (name, row) => window.rows.push([name, row]),
  });
  (window.ends ??= []).push(end);
  window.__vitrine.addEventListener("hover", ({ detail }) => window.hovered.push([detail.side, detail.position]));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}
"""


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
        script, style = sources("heatmap", "plot", "heat")
        data = pack(header, [self.values, self.visible.astype(np.uint8)])
        page.evaluate(MOUNT, [script, style, list(data), width])

    def saved(self, kind: str) -> bytes:
        self.page.get_by_role("button", name="Download").click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"saved.{kind.lower()}"
        return download.value.path().read_bytes()

    def svg(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.saved("SVG").decode("utf-8"))
