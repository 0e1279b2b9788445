"""The story of a training: begun in one click, typed into while it runs, reloaded, gone back, saved, found, deleted."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import eventually, source, stands_still

pytestmark = pytest.mark.browser

SUMMARY = ".vitrine.strip .standing"


def step(page: Page) -> int:
    found = re.search(r"step\s([\d,]+)", page.locator(SUMMARY).inner_text())
    return int(found.group(1).replace(",", "")) if found else -1


def reaches(page: Page, wanted: int) -> None:
    """The training comes to a step, on a busy machine too."""
    for _ in range(3):
        if step(page) >= wanted:
            return
        page.wait_for_timeout(5000)
    eventually(page, lambda: step(page) >= wanted)


def field(page: Page, label: str, text: str) -> None:
    """Write into a field as a user does."""
    place = page.locator(f'input[aria-label="{label}"]')
    place.fill(text)
    place.press("Enter")


def part(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name, exact=True).click()


def heads(page: Page) -> list[str]:
    """What the thumbnails of all heads say of them."""
    return page.locator(".vitrine.heads button.head").all_inner_texts()


@pytest.mark.slow
def test_the_story_of_a_training(visit):
    visited = visit()
    page = visited.open(model="reverse")
    page.get_by_role("link", name="Training", exact=True).click()
    page.get_by_role("button", name="Begin and run").click()
    reaches(page, 5)
    expect(page.get_by_role("button", name="Mark as A")).to_be_visible()  # the film, where it began
    strip = page.locator(".vitrine.strip")

    def in_sight() -> bool:  # whatever stands above it in the sidebar
        box = strip.bounding_box()
        return box["y"] + box["height"] <= 900

    eventually(page, in_sight)
    before = step(page)
    page.locator(".bar .fold").click()  # the texts come over the page
    source(page).fill("glass")
    expect(page.locator(".vitrine .tokens.source .chip")).to_have_text([*"glass", "</s>"])
    expect(page.locator(".vitrine .tokens.target .chip")).to_have_text(["<s>", *"ssalg"])
    page.locator(".bar .fold").click()
    reaches(page, before + 3)
    shown = page.locator('[data-testid="stSidebar"]').get_by_role("combobox").first
    for language, named in (("中文", "训练：reverse"), ("EN", "training: reverse")):
        page.get_by_role("radio", name=language, exact=True).click()
        expect(shown).to_have_value(named)
    eventually(page, lambda: "model=training" in page.url)
    other = visited.context.new_page()
    other.goto(page.url + "&language=zh")  # copied to someone who reads another language
    expect(other.locator('[data-testid="stSidebar"]').get_by_role("combobox").first).to_have_value("训练：reverse")
    expect(other.locator(".vitrine .tokens.source .chip")).to_have_text([*"glass", "</s>"])
    expect(other.get_by_role("alert")).to_have_count(0)
    other.close()
    expect(page.get_by_role("progressbar").first).to_be_visible()
    part(page, "Settings")
    field(page, "Learning rate", "0.002")
    reaches(page, before + 16)
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    expect(strip).to_have_attribute("data-status", "paused")
    part(page, "Runs")
    expect(page.get_by_text("Key frames:")).to_be_visible()
    eventually(page, lambda: "run=" in page.url)
    given = dict(parse_qsl(urlsplit(page.url).query))
    visited.open(**given)  # as after a reload: the address finds the training again
    page.get_by_role("link", name="Training", exact=True).click()
    part(page, "Runs")
    expect(page.get_by_text("Key frames:")).to_be_visible()
    reaches(page, before + 16)
    field(page, "Step", "10")
    page.get_by_role("button", name="Go back to step 10").click()
    eventually(page, lambda: step(page) == 10)
    field(page, "Name: letters, digits, - and _", "a-story")
    stands_still(page)
    page.get_by_role("button", name="Save as a checkpoint").click()
    expect(page.get_by_text("Saved as a-story")).to_be_visible()
    page.locator('[data-testid="stSidebar"]').get_by_role("combobox").first.click()
    page.get_by_role("option", name="a-story").click()
    expect(page.locator('[data-testid="stSidebar"]')).to_contain_text("172 k")
    eventually(page, lambda: "model=a-story" in page.url)
    # The rule's answer was shown while it was trained; its own is longer, and moves what stands under it.
    expect(page.locator(".vitrine .tokens.target .chip")).not_to_have_text(["<s>", *"ssalg"])
    stands_still(page)
    page.get_by_text("Saved models: 1").click()
    stands_still(page)
    page.get_by_role("button", name="Delete a-story from the disk").click()
    expect(page.get_by_text("a-story is deleted.")).to_be_visible()
    eventually(page, lambda: "model=a-story" not in page.url)
    page.get_by_role("button", name="Give it up").click()
    page.get_by_role("button", name="Give it up now").click()
    expect(page.get_by_text("No training has begun")).to_be_visible()


@pytest.mark.slow
def test_a_second_tab_of_a_training_that_rests_follows_it(visit):
    visited = visit()
    page = visited.open(model="reverse")
    page.get_by_role("button", name="Train one step").click()
    reaches(page, 1)
    eventually(page, lambda: "run=" in page.url)
    stands_still(page)
    other = visited.context.new_page()
    other.goto(page.url)
    reaches(other, 1)
    stands_still(other)
    before = heads(other)
    page.get_by_role("button", name="Train 10 steps").click()
    reaches(page, 11)
    reaches(other, 11)
    eventually(other, lambda: heads(other) == heads(page) != before)  # what it shows, too
    other.close()


@pytest.mark.slow
def test_the_batches_that_steps_take_are_chosen_beside_the_buttons_and_every_step_is_seen(visit):
    visited = visit()
    page = visited.open(model="eng-cmn", source="She bought a red car.")
    strip = page.locator(".vitrine.strip")
    size = strip.locator(".batches select")
    strip.locator(".small-print").click()
    expect(size).to_have_value("256")
    expect(strip.locator(".batches")).to_contain_text("quick to watch; ▶ takes 1,500")
    size.select_option("64")
    stands_still(page)
    expect(size).to_have_value("64")
    expect(strip.locator(".facts")).to_be_empty()  # a choice trains nothing
    page.evaluate(SEEN)
    page.get_by_role("button", name="Train 10 steps", exact=True).click()
    reaches(page, 10)
    expect(size).to_have_value("64")
    seen = page.evaluate("window.seen")
    assert seen == sorted(set(seen))  # none is shown after a newer one
    assert len(seen) >= 3  # on a busy machine too
    page.get_by_role("link", name="Training", exact=True).click()
    part(page, "Settings")
    expect(page.locator('input[aria-label="Tokens of a batch"]')).to_have_value("64")


SEEN = """
() => {
  const strip = [...document.querySelectorAll('*')].map((host) => host.shadowRoot?.querySelector('.vitrine.strip'))
    .find((found) => found);
  const seen = (window.seen = []);
  const note = () => seen.at(-1) !== Number(strip.dataset.step) && seen.push(Number(strip.dataset.step));
  new MutationObserver(note).observe(strip, { attributes: true, attributeFilter: ['data-step'] });
}
"""
