"""The script that Streamlit mounts, by itself: it fetches a component's module, and what that imports."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.alone import MODULES, module
from viz.components.registry import loader, pack

pytestmark = pytest.mark.browser
LOAD = """
async ([script, bytes]) => {
  const { default: show } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  show({ data: new Uint8Array(bytes), key: "a", parentElement: document.body });
}
"""
STAMP = b'{"key": "a", "of": "b", "moment": 1, "live": []}'.ljust(52)


def test_a_module_that_is_lost_on_its_way_is_asked_for_again(page: Page):
    asked: list[str] = []

    def lost_once(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.abort()
        else:
            module(route)

    page.route(f"{MODULES}**", module)
    page.route(f"{MODULES}web/elements.js", lost_once)
    page.goto(f"{MODULES}web/bus.js")  # a page whose address others can be read from
    data = len(STAMP).to_bytes(4, "little") + STAMP + pack({"share": 0.5, "text": "half of it", "button": ""})
    page.evaluate(LOAD, [loader("web/progress", "/"), list(data)])
    expect(page.locator(".vitrine.progress .text")).to_have_text("half of it")
    assert len(asked) == 2
