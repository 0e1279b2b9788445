"""A model of one's own, from the form and a file with faults to a .zip that opens again; a tab that is closed."""

import io
import time
import zipfile
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, expect

from model.network.config import NETWORK_OPTIONS
from model.training.settings import TRAINING_OPTIONS
from tests.browser.looking import eventually, source, stands_still
from tests.browser.test_checkpoints import line, upload
from tests.browser.test_training import field, part, reaches, step
from tests.model.training.training_examples import read_curves

pytestmark = [pytest.mark.browser, pytest.mark.slow]
WORDS = [f"{first}{second}{third}" for first in "abcd" for second in "abcd" for third in "ab"]
TABLE = "source,target\n" + "".join(f"{word},{word[::-1]}\n" for word in WORDS)
FAULTS = "aba,aba\nlonely\n,nothing\n<b>x</b>,**y**\n"
SMALL = {"d_model": "8", "n_heads": "2", "d_ff": "8", "n_encoder_layers": "1", "n_decoder_layers": "1"}


def status(page: Page, name: str) -> None:
    expect(page.locator(".vitrine.strip")).to_have_attribute("data-status", name)


def test_from_a_table_with_faults_to_a_model_that_opens_again(visit, tmp_path):
    visited = visit()
    page = visited.open(model="reverse")
    page.get_by_role("link", name="Training", exact=True).click()
    part(page, "A new model")
    page.get_by_text("Sizes and options").click()
    for name, value in SMALL.items():
        field(page, NETWORK_OPTIONS[name].label, value)
    part(page, "Your own file or text")
    page.locator('[data-testid="stFileUploaderDropzoneInput"]').set_input_files(
        {"name": "我的数据 (1).csv", "mimeType": "text/csv", "buffer": (TABLE + FAULTS).encode()}
    )
    expect(page.get_by_text("duplicates left out: 1 · empty lines: 0 · rows in error: 2")).to_be_visible()
    part(page, "Settings")
    for name, value in (("steps", "90000"), ("batch_tokens", "60"), ("validate_every", "20")):
        field(page, TRAINING_OPTIONS[name].label, value)
    part(page, "Begin")
    begin = page.get_by_role("button", name="Begin this training")
    expect(begin).to_be_enabled()
    stands_still(page)
    begin.click()
    status(page, "running")
    reaches(page, 20)
    page.locator(".bar .fold").click()  # the texts come over the page
    source(page).fill("dcba")
    expect(page.locator(".vitrine .tokens.source .chip")).to_have_text(["·d", "c", "ba", "</s>"])
    page.locator(".bar .fold").click()
    status(page, "running")
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    status(page, "paused")
    before = step(page)
    page.get_by_role("button", name="Train one step").click()
    reaches(page, before + 1)
    status(page, "idle")
    assert step(page) == before + 1

    part(page, "Film")
    film = page.locator(".vitrine.training-film")
    expect(film).to_have_attribute("data-step", str(before + 1))
    film.get_by_role("slider").press("Home")
    expect(film.get_by_role("slider")).to_have_attribute("aria-valuenow", "0")
    first = int(film.get_attribute("data-step"))
    film.locator(".step.a").click()
    film.get_by_role("slider").press("End")
    film.locator(".step.b").click()
    film.locator(".step.difference").click()
    expect(film.locator(".large .heading")).to_contain_text(f"step {before + 1:,} minus step {first:,}")

    part(page, "Runs")
    page.get_by_role("button", name="Go back to step 0").click()
    eventually(page, lambda: step(page) == 0)
    field(page, "from 0.001 to", "0.01")
    page.get_by_role("button", name="Branch from step 0").click()
    expect(page.locator('input[aria-label="Selected 2. Run"]').or_(page.get_by_text("2 ●")).first).to_be_attached()
    page.get_by_role("button", name="Train 10 steps").click()
    reaches(page, 10)
    status(page, "idle")
    field(page, "Name: letters, digits, - and _", "own-story")
    stands_still(page)
    page.get_by_role("button", name="Save as a checkpoint").click()
    expect(page.get_by_text("Saved as own-story")).to_be_visible()
    page.get_by_text("With the curves of all runs").click()
    stands_still(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as .zip").click()
    content = download.value.path().read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
    assert read_curves(tmp_path / "own-story" / "curves" / "run-2")["loss"][-1][0] == 10

    given = dict(parse_qsl(urlsplit(page.url).query))
    visited.open(**given)  # as after a reload
    status(page, "idle")
    assert step(page) == 10
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    expect(line(page, "own-story")).to_contain_text("encoder-decoder")
    upload(page, "again.zip", content)
    expect(line(page, "own-story-2")).to_contain_text("shown")
    expect(page.get_by_role("combobox", name="Model", exact=True)).to_have_value("own-story-2")
    page.get_by_role("link", name="Training", exact=True).click()
    part(page, "Runs")
    page.get_by_text("Saved models: 1").click()
    stands_still(page)
    page.get_by_role("button", name="Delete own-story from the disk").click()
    expect(page.get_by_text("own-story is deleted.")).to_be_visible()


def test_a_training_pauses_within_ten_seconds_of_the_tab_being_closed(visit):
    visited = visit()
    page = visited.open(model="reverse")
    page.get_by_role("button", name="Train on", exact=True).click()
    status(page, "running")
    eventually(page, lambda: "run=" in page.url)
    given = dict(parse_qsl(urlsplit(page.url).query))
    page.close()
    time.sleep(10)
    visited.page = visited.context.new_page()  # of the same browser: another one is told that it can only watch
    again = visited.open(run=given["run"], model="training")  # which is a sign of life: it would run on
    expect(again.get_by_text("paused: nobody was looking")).to_be_visible()
    status(again, "paused")
