"""What strangers wrote, as Streamlit itself shows it: every letter, and nothing else."""

import pytest
from playwright.sync_api import expect

from tests.browser.literal_page import TEXTS
from tests.browser.looking import eventually
from tests.browser.server import serve

pytestmark = pytest.mark.browser

MADE = (
    "a[href], main img, [data-testid='stMain'] img, .katex, strong, em, del, s, h1, ol, ul, blockquote, table, mermaid"
)
SHOWN = """
(all) => all.map((each) => each.innerText.replaceAll('\\u2060', '').replace(/\\s+/g, ' ').trim())
"""


@pytest.mark.slow
def test_streamlit_shows_every_letter_of_it_and_makes_nothing_of_it(browser):
    with serve("tests/browser/literal_page.py", PYTHONPATH=".") as address:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.get_by_role("alert")).to_have_count(len(TEXTS))
        expect(page.locator('[data-testid="stMain"] code')).to_have_count(len(TEXTS))
        main = page.locator('[data-testid="stMain"]')
        wanted = [" ".join(text.split()) for text in TEXTS]
        containers = main.locator('[data-testid="stMarkdownContainer"]')
        eventually(page, lambda: containers.count() > 4 * len(wanted))  # labels and choices come one by one
        assert set(containers.evaluate_all(SHOWN)) == set(wanted)
        captions = main.locator('[data-testid="stCaptionContainer"] p').evaluate_all(SHOWN)
        assert {f"before {text} behind" for text in wanted} <= set(captions)
        assert main.locator("code").evaluate_all(SHOWN) == wanted
        assert main.locator(MADE).evaluate_all("(all) => all.map((each) => each.outerHTML)") == []
        page.locator('[data-testid="stButton"]').first.hover()
        expect(page.locator('[data-testid="stTooltipContent"]')).to_be_visible()
        assert page.locator('[data-testid="stTooltipContent"] :is(img, a)').count() == 0
        assert not [url for url in asked if not url.startswith((address, "data:", "blob:", "ws://127.0.0.1"))]
        page.close()
