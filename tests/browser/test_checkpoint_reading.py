"""The page Checkpoints in the browser: reading a file's tensors, its health, comparing two."""

import math
import os
import shutil
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect
from safetensors.torch import load_file, save_file

from tests.browser.looking import eventually, stands_still
from tests.browser.test_hostile import INTRUDERS, SCRIPT
from tests.viz.small import write_small

pytestmark = pytest.mark.browser

NAMES = [SCRIPT, "x" * 250, "مرحبا.بالعالم.שלום", "🙂👩🏽.🇨🇳", "__proto__.constructor", "." * 200]
QUERY = "encoder.layers.0.self_attention.query.weight"
HIDDEN = "decoder.layers.0.feed_forward.hidden"


@pytest.fixture(scope="module")
def saved():
    """Three checkpoints among those that the user has saved: one, one that moved and is sick, one of hostile names."""
    folder = Path(os.environ["VITRINE_SAVED"])
    torch.manual_seed(0)
    made = [write_small(folder / name) for name in ("reading-1", "reading-2")]
    weights = load_file(made[1] / "model.safetensors")
    weights[QUERY] += 0.3 * torch.randn_like(weights[QUERY])
    weights[f"{HIDDEN}.weight"][3], weights[f"{HIDDEN}.bias"][3] = 0, 0
    weights["encoder.norm.bias"][2] = math.nan
    save_file(weights, made[1] / "model.safetensors", {"format": "pt"})
    made.append(folder / "reading-hostile")
    made[-1].mkdir()
    (made[-1] / "config.json").write_text("{}")
    save_file({name: torch.randn(4, 6) for name in NAMES}, made[-1] / "model.safetensors")
    yield {path.name: load_file(path / "model.safetensors") for path in made}
    for path in made:
        shutil.rmtree(path)


def opened(visit, model: str, part: str) -> Page:
    """The page Checkpoints while this model is shown."""
    page = visit().open(model=model)
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    page.get_by_role("radio", name=part, exact=True).click()
    page.locator(".vitrine.tensors[data-painted]").wait_for()
    stands_still(page)  # nothing of the page before is left
    return page


def numbers(page: Page, name: str) -> dict[str, str]:
    """What the tree says of a tensor, by the titles of its columns; in full, as its cells' titles do."""
    page.locator(".vitrine.tensors .search").fill(name)
    row = page.locator(".vitrine.tensors .plane .line").first
    expect(row.locator(".cell.name")).to_have_attribute("title", name[:400])
    read = """(tree) => [
      [...tree.querySelectorAll(".head .cell")].map((cell) => cell.innerText),
      [...tree.querySelector(".plane .line").children].map((cell) => cell.title || cell.textContent),
    ]"""
    found: dict[str, str] = {}

    def measured() -> bool:
        titles, cells = page.locator(".vitrine.tensors").evaluate(read)
        found.update(zip([title.split(" ")[0] for title in titles], cells, strict=True))
        return all(found[title] for title in ("mean", "deviation", "greatest"))

    eventually(page, measured)
    return found


@pytest.mark.slow
def test_a_tensor_is_found_and_its_numbers_are_those_of_torch(visit, saved):
    page = opened(visit, "reading-1", "Read")
    values = saved["reading-1"][QUERY]
    found = numbers(page, QUERY)
    for title, expected in (
        ("mean", values.mean()),
        ("deviation", values.std(correction=0)),
        ("greatest", values.max()),
    ):
        assert float(found[title].replace("−", "-")) == pytest.approx(float(expected), abs=1e-6)
    page.locator(".vitrine.tensors .plane .line").first.click()
    sentence = page.locator(".vitrine.chart").filter(has_text="Singular values").locator(".heading")
    expect(sentence).to_contain_text(f"spectral norm {float(torch.linalg.matrix_norm(values, 2)):.3g}")
    expect(page.locator(".vitrine.heatmap .heading")).to_contain_text("rows 0 to 15, columns 0 to 15")
    eventually(page, lambda: f"tensor={QUERY}" in page.url)
    page.locator(".vitrine.tensors .search").fill("")
    tree = page.locator(".vitrine.tensors .scroll")
    page.get_by_role("button", name="close all").click()
    expect(page.locator(".vitrine.tensors .plane .line")).to_have_count(3)  # decoder, encoder, output
    tree.press("Home")
    tree.press("ArrowRight")
    eventually(page, lambda: page.locator(".vitrine.tensors .plane .line").count() > 3)


@pytest.mark.slow
def test_the_health_report_leads_to_the_tensor(visit, saved):
    page = opened(visit, "reading-2", "Read")
    page.get_by_role("radio", name="Health", exact=True).click()
    dead = page.locator(".vitrine.findings section").filter(has_text="Dead units")
    finding = dead.get_by_role("button").filter(has_text=f"{HIDDEN}.weight")
    expect(finding).to_contain_text(": 3")
    expect(page.locator(".vitrine.findings section").filter(has_text="NaN values")).to_contain_text("encoder.norm.bias")
    finding.click()
    expect(finding).to_have_class("chosen")
    expect(page.locator(".vitrine.heatmap .heading")).to_contain_text("rows 0 to 23")


@pytest.mark.slow
def test_two_checkpoints_are_compared_and_their_traces_shown(visit, saved):
    page = opened(visit, "reading-2", "Compare")
    row = page.locator(".vitrine.tensors .plane .line").first
    expect(row.locator(".cell.name")).to_have_attribute("title", QUERY)  # the most moved is the first
    one, other = (saved[name][QUERY] for name in ("reading-1", "reading-2"))
    change = float((other - one).norm() / one.norm())
    moved = row.locator(".cell").nth(4)
    eventually(page, lambda: float(moved.get_attribute("title") or "nan") == pytest.approx(change, rel=1e-4))
    expect(page.locator(".vitrine.heatmap .heading")).to_contain_text("Difference")
    page.get_by_role("button", name="Their traces on the same sentence").click()
    expect(page.get_by_role("radio", name="Logit lens")).to_be_checked()  # the answer by depth
    page.locator(".vitrine.heatmap[data-painted]").first.wait_for()
    page.get_by_role("button", name="● pinned").click()
    expect(page.get_by_text("reading-1").first).to_be_visible()


@pytest.mark.slow
def test_a_phone_tells_the_moved_tensors_apart(visit, saved):
    page = opened(visit, "reading-2", "Compare")
    names = page.locator(".vitrine.tensors .plane .cell.name")
    high = names.first.bounding_box()["height"]
    page.set_viewport_size({"width": 390, "height": 844})
    eventually(page, lambda: names.first.bounding_box()["height"] > high)
    # A line more would be 14 pixels; what the face keeps free below its letters is one or two.
    whole = """(all) => all.length > 0 && all.every((cell) => {
      const text = cell.querySelector("bdi");
      return text.innerText === cell.title && text.scrollHeight <= text.clientHeight + 2;
    })"""
    eventually(page, lambda: names.evaluate_all(whole))
    page.locator(".vitrine.tensors .scroll").evaluate("(list) => (list.scrollTop = list.scrollHeight)")
    expect(names.filter(has_text="attention_block").first).to_be_visible()  # which takes three lines
    eventually(page, lambda: names.evaluate_all(whole))
    assert page.locator(".st-key-input_bar").bounding_box()["height"] <= 48  # with checks that fail, too


@pytest.mark.slow
def test_names_of_tensors_are_shown_literally_and_never_run(visit, saved):
    page = opened(visit, "reading-1", "Read")
    field = page.get_by_role("combobox", name="Checkpoint")
    field.fill("reading-hostile")
    field.press("Enter")
    lines = page.locator(".vitrine.tensors .plane .line")
    expect(lines).to_have_count(len(NAMES))
    titles = "(all) => all.map((cell) => cell.title)"
    shown = sorted(name[:400] for name in NAMES)
    eventually(page, lambda: sorted(lines.locator(".cell.name").evaluate_all(titles)) == shown)
    for at in range(len(NAMES)):
        stamp = page.locator(".vitrine.heatmap").get_attribute("data-painted")
        lines.nth(at).click()
        expect(lines.nth(at)).to_have_class("line chosen active")
        if at:
            eventually(
                page, lambda before=stamp: page.locator(".vitrine.heatmap").get_attribute("data-painted") != before
            )
    assert page.evaluate(INTRUDERS) == 0
