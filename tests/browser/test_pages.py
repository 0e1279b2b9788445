"""Every page, as wide as a desk and as a phone, light and dark, in both languages: nothing cut off, nothing unreadable.

Each leaves a picture in the folder VITRINE_SCREENS, if that is set: to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.contrast import NOTED, drawn
from tests.browser.looking import FAILURE, eventually, stands_still
from tests.browser.test_appearance import CONTRASTS

pytestmark = pytest.mark.browser

NAMES = {
    "map": ("Map", "全图"),
    "positions": ("Tokens and positions", "词元与位置"),
    "attention": ("Attention", "注意力"),
    "masks": ("Masks", "掩码"),
    "residual": ("Norms and residual", "归一化与残差"),
    "feed_forward": ("Feed-forward", "前馈网络"),
    "predictions": ("Predictions", "预测"),
    "training": ("Training", "训练"),
    "checkpoints": ("Checkpoints", "检查点"),
    "lab": ("Lab", "实验室"),
}
WITHOUT_CANVAS = ("training", "checkpoints", "lab")  # at first
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
LOOKS = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark-zh": {"viewport": WIDE, "color_scheme": "dark", "locale": "zh-CN"},
    "phone": {"viewport": NARROW, "color_scheme": "light", "is_mobile": True, "has_touch": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_and_can_be_read(visit, look, tmp_path):
    visited = visit(**LOOKS[look])
    visited.page.add_init_script(NOTED)
    page = visited.open()
    background = page.locator(".stApp").evaluate("(app) => getComputedStyle(app).backgroundColor")
    folder = Path(os.environ.get("VITRINE_SCREENS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in NAMES.items():
        if look == "phone":
            page.locator('[data-testid="stExpandSidebarButton"]').click()
        page.get_by_role("link", name=words[look == "dark-zh"], exact=True).click()
        path = "/" if name == "map" else f"/{name}"
        page.wait_for_url(lambda url, path=path: urlsplit(url).path == path)
        if look == "phone":  # the menu folds by itself
            expect(page.locator('[data-testid="stExpandSidebarButton"]')).to_be_visible()
        settle(page)
        page.screenshot(path=folder / f"{name}-{look}.png")
        assert page.locator(FAILURE).count() == 0, name
        spare = "(main) => main.scrollWidth - main.clientWidth"
        assert page.locator('[data-testid="stMain"]').evaluate(spare) <= 0, name
        texts = [
            each for each in page.evaluate(CONTRASTS) if not each["text"].startswith("keyboard_")
        ]  # an icon's name
        faint = [each for each in texts if each["contrast"] < 4.5]
        assert texts
        assert not faint, f"{name}: {faint[:4]}"
        painted = drawn(page, background)
        assert painted or name in WITHOUT_CANVAS, name
        faint = [each for each in painted if each[1] < 4.5]
        assert not faint, f"{name}: {faint[:4]}"


def settle(page) -> None:
    """Until nothing of the page is being computed, of another page is left, and it has stood still for a while."""
    expect(page.locator('[data-testid="stStatusWidget"]')).to_have_count(0)
    expect(page.locator('[data-stale="true"]')).to_have_count(0)
    stands_still(page)
    sizes: list[str] = []

    def still() -> bool:
        page.wait_for_timeout(250)
        sizes.append(page.evaluate("String(document.querySelector('[data-testid=stMain]').scrollHeight)"))
        return len(sizes) > 3 and len(set(sizes[-3:])) == 1

    eventually(page, still)


@pytest.mark.slow
def test_the_first_page_opens_by_its_name_too(visit):
    visited = visit()
    page = visited.page
    page.goto(f"{visited.url}/attention?source=I+see.", wait_until="commit")
    expect(page.locator(".vitrine.heatmap[data-painted]")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)  # Streamlit's "Page not found"
    expect(page.locator('input[aria-label="Source"]')).to_have_value("I see.")
    # Streamlit looks for its own addresses under the page's first.
    visited.errors[:] = [error for error in visited.errors if "404" not in error]
