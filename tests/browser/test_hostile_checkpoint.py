"""A checkpoint whose name, format, mask token, licence and figures want the browser to fetch from elsewhere."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from model.checkpoints.native import TRAINING, save_checkpoint
from tests.browser.server import PATIENCE, serve
from tests.model.examples import network
from tests.viz.hostile import of_words
from viz.state.checkpoints import MODELS

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PAGES = ("map", "positions", "attention", "masks", "residual", "feed_forward", "predictions", "training", "checkpoints")
MADE = '() => [...document.querySelectorAll(\'[data-testid=stMain] img, [data-testid=stMain] a[href*="127.0.0.1"],' + (
    " [data-testid=stSidebar] img, [data-testid=stTooltipContent] img, [data-testid=stTooltipContent] a')]"
    ".map((each) => each.outerHTML).filter((html) => html.includes('/fetched'))"
)


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def write_hostile(folder: Path, address: str) -> None:
    """A masked model of ours, whose mask token is a picture."""
    picture = f"![a]({address}/fetched.png)"
    words = of_words(["the", "cat", "<mask>", picture])
    state = json.loads(words.to_json())
    state["added_tokens"] = [each for each in state["added_tokens"] if each["content"] != "<mask>"]
    options = {"source_vocabulary": len(words), "target_vocabulary": len(words), "norm_placement": "pre"}
    save_checkpoint(folder, network(**options), (words, words))
    record = {
        "format": picture,
        "licence": picture,
        "data": f"{picture} {address}/fetched",
        "assumed": [picture, address],
    }
    record |= {"note": picture, "example": picture, "validation_loss": picture, "settings": {"rate": picture}}
    (folder / TRAINING).write_text(json.dumps(record), encoding="utf-8")
    (folder / "README.md").write_text(
        f"{picture}\n\n&#33;[b]({address}/fetched.png) {address}/fetched", encoding="utf-8"
    )


def test_no_page_of_a_hostile_checkpoint_fetches_from_elsewhere(tmp_path, browser: Browser, elsewhere):
    address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}"
    name = "&#33;[a](x) :red[b] $c$ `d`"
    write_hostile(tmp_path / name, address)
    with serve("app.py", **{MODELS: str(tmp_path)}) as url:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{url}/checkpoints")
        page.get_by_role("button", name="Show it").first.click()
        expect(page.locator('[data-testid="stSidebar"]')).to_contain_text("![a](")
        for each in PAGES:
            page.mouse.move(0, 0)
            page.goto(f"{url}/{each}?model={name.replace('&', '%26').replace('#', '%23')}")
            expect(page.locator(".vitrine-sticky, .vitrine").first).to_be_visible()
            page.wait_for_timeout(1500)
            for question in page.locator('[data-testid="stTooltipHoverTarget"]').all()[:6]:
                if question.is_visible():
                    question.hover()
                    page.wait_for_timeout(150)
                    assert page.evaluate(MADE) == []
            assert page.evaluate(MADE) == []
        page.goto(f"{url}/checkpoints?checkpoints_part=keep&model={name.replace('&', '%26').replace('#', '%23')}")
        page.wait_for_timeout(3000)
        assert not [each for each in asked if each.startswith(address)]
        page.close()
    with pytest.raises(BlockingIOError):
        elsewhere.accept()
