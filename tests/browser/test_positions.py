"""A figure of the laboratory in the browser, saved as it is seen."""

import csv
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_figure_of_the_laboratory_is_saved_as_it_is_seen(visit):
    page = visit().open()
    page.get_by_role("link", name="Tokens and positions", exact=True).click()
    page.get_by_role("radio", name="Position curves").click()
    files = page.locator(".vitrine.figure")
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    expect(page.locator(".js-plotly-plot").first.locator(".scatterlayer .trace")).not_to_have_count(0)
    saved = {}
    for kind in ("PNG", "SVG", "CSV"):
        files.first.get_by_role("button", name="Download").click()
        with page.expect_download() as download:
            files.first.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"positions-curves-1.{kind.lower()}"
        saved[kind] = download.value.path().read_bytes()
    assert saved["PNG"].startswith(b"\x89PNG")
    assert len(saved["PNG"]) > 10_000
    drawing = ElementTree.fromstring(saved["SVG"])
    words = "".join(drawing.itertext())
    assert "position p" in words
    assert "dimension 20" in words
    table = list(csv.reader(saved["CSV"].decode("utf-8-sig").splitlines()))
    assert table[0] == ["curve", "position p", "PE"]
    assert table[1][0].endswith("dimension 4")
    assert table[1][1:] == ["0", "0"]  # sin 0
    assert len(table) == 1 + 4 * 100  # bases and dimensions, positions
