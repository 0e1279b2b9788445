"""The page Checkpoints in Chromium: upload and see, refuse what is hostile, keep within the session."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from model.checkpoints.export import folder_zipped
from tests.browser.conftest import Visit
from tests.browser.looking import eventually, stands_still
from tests.viz.small import write_small

pytestmark = pytest.mark.browser

SAID = '[data-testid="stAlert"]'


def opened_page(visit: Visit, **address: str) -> Page:
    """The page Checkpoints, when the list is there."""
    visit.open(**address)
    visit.page.get_by_role("link", name="Checkpoints", exact=True).click()
    expect(visit.page.locator(".vitrine.list .line").first).to_be_visible()
    return visit.page


def line(page: Page, name: str):
    return page.locator(f'.vitrine.list .line[data-name="{name}"]')


def upload(page: Page, name: str, content: bytes) -> None:
    stands_still(page)  # the place of the last upload has gone
    if not page.locator('[data-testid="stFileUploaderDropzone"]').is_visible():
        page.get_by_role("button", name="Upload").first.click()
    kind = "application/zip" if name.endswith(".zip") else "application/octet-stream"
    page.locator('[data-testid="stFileUploaderDropzoneInput"]').set_input_files(
        {"name": name, "mimeType": kind, "buffer": content}
    )
    page.get_by_role("button", name=f"Open {name}").click()


class Harmful:
    """Would write a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.fixture
def mine(tmp_path) -> Path:
    return write_small(tmp_path / "mine", n_heads=4, n_decoder_layers=1)


def shown(visit, mine: Path) -> Page:
    """The page Attention, when a model has been uploaded and is shown."""
    page = opened_page(visit())
    upload(page, "mine.zip", folder_zipped(mine, "mine"))
    expect(page.get_by_role("combobox", name="Model", exact=True)).to_have_value("mine")
    expect(line(page, "mine")).to_contain_text("shown")
    eventually(page, lambda: "model=mine" in page.url)
    page.get_by_role("link", name="Attention", exact=True).click()
    page.wait_for_url(lambda url: "/checkpoints" not in url and "model=mine" in url and "opened=" in url)
    return page


@pytest.mark.slow
def test_an_upload_is_seen_by_nobody_else_until_it_is_taken_out(visit, mine):
    page = shown(visit, mine)
    other = opened_page(visit())
    assert line(other, "mine").count() == 0
    link = page.url
    for copied in (visit().page, page.context.new_page()):  # in another browser, and in a window beside the first
        copied.goto(link)
        expect(copied.get_by_text("asks for a model that is not here")).to_be_visible()
        copied.wait_for_url(lambda url: "opened=" not in url)
        copied.close()
    page.reload()
    expect(page.get_by_role("combobox", name="Model", exact=True)).to_have_value("mine")
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    stands_still(page)
    line(page, "mine").get_by_role("button", name="Take it out").or_(
        line(page, "mine").locator(".remove")
    ).first.click()
    expect(line(page, "mine")).to_have_count(0)
    expect(page.get_by_text("encoder-decoder").first).to_be_visible()


def test_hostile_files_are_a_sentence_and_the_page_goes_on(visit, tmp_path):
    page = opened_page(visit())
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("../escaped.safetensors", b"x")
    upload(page, "up.zip", held.getvalue())
    expect(page.locator(SAID)).to_contain_text("up.zip was not opened")
    expect(page.locator(SAID)).to_contain_text("escaped")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Harmful(tmp_path / "harmed"), protocol=2))
        archive.writestr("archive/version", "3\n")
    upload(page, "evil.pt", held.getvalue())
    expect(line(page, "evil.pt").locator(".problem")).to_contain_text("code")
    expect(line(page, "evil.pt").get_by_role("button", name="Show it")).to_be_disabled()
    assert not (tmp_path / "harmed").exists()
    expect(page.get_by_text("encoder-decoder").first).to_be_visible()
