"""A server that dies while it saves a model, and is started anew: the old or the new model is there, whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import CONFIG, TRAINING, WEIGHTS
from tests.browser.conftest import Visit
from tests.browser.looking import eventually, stands_still, thumbnails
from tests.browser.server import PATIENCE, answers, free_port, serve
from tests.browser.test_training import reaches
from viz.state.checkpoints import bundled_names

pytestmark = [pytest.mark.browser, pytest.mark.slow]
COLD = 2 * PATIENCE  # for the first page of a server
DEATHS = {  # where the server dies, and the step of the model that is there afterwards
    "fsync 1": 1,  # half of the weights are written
    "replace 1": 1,  # the weights lie there under another name
    "fsync 4": 1,  # all files are written, one of them in half
    "rename 1": 1,  # all files are written
    "rename 2": 1,  # the new folder stands beside the old one
    "rename 3": 2,  # neither has the name
    "rmdir 1": 2,  # the new one has the name, and the old one lies there without its files
}


def begin_to_save(page: Page, name: str, replace: bool) -> None:
    place = page.locator('input[aria-label="Name: letters, digits, - and _"]')
    place.fill(name)
    place.press("Enter")
    agree = page.get_by_text("Replace the saved model of this name")
    expect(agree).to_have_count(int(replace))
    if replace:
        agree.click()
    stands_still(page)
    page.get_by_role("button", name="Save as a checkpoint").click()


def train_and_save(page: Page, step: int, name: str, replace: bool) -> None:
    page.get_by_role("button", name="Train one step").click()
    reaches(page, step)
    expect(page.locator(".vitrine.strip")).to_have_attribute("data-status", "idle")
    begin_to_save(page, name, replace)
    expect(page.get_by_text(f"Saved as {name}")).to_be_visible()


def contents(folder: Path) -> list[bytes]:
    """All but the card, which says the name."""
    return [(folder / name).read_bytes() for name in (CONFIG, WEIGHTS, TRAINING)]


def expect_models(page: Page) -> None:
    """The page, still open, has found the new server; it lists the models that are whole, and opens one of them."""
    sidebar = page.locator('[data-testid="stSidebar"]')
    expect(page.get_by_text("or the server was started anew")).to_be_visible(timeout=COLD)
    sidebar.get_by_role("combobox").first.click()
    expect(page.get_by_role("option")).to_have_text(["mine", "other", *bundled_names()])
    page.get_by_role("option", name="mine").click()
    expect(sidebar).to_contain_text("172 k")
    sidebar.get_by_role("link", name="Attention", exact=True).click()
    expect(thumbnails(page).first).to_be_visible()
    eventually(page, lambda: "model=mine" in page.url)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-US")
    yield Visit(context, "").page
    context.close()


def places(folder: Path) -> tuple[Path, Path, dict[str, str]]:
    """Where models are saved, the file that says where the server dies, and its environment."""
    saved, dies = folder / "saved", folder / "death"
    dying = str(Path(__file__).parent / "dying")
    return saved, dies, {"VITRINE_SAVED": str(saved), "DEATH": str(dies), "PYTHONPATH": dying}


def test_a_server_killed_while_it_saves_leaves_the_old_model_whole(page, tmp_path):
    saved, dies, environment = places(tmp_path)
    with serve("app.py", **environment) as address:
        page.goto(f"{address}/training?model=reverse&training_part=runs")
        page.get_by_role("button", name="Train one step").wait_for(timeout=COLD)
        train_and_save(page, 1, "mine", replace=False)
        old = contents(saved / "mine")
        page.get_by_role("button", name="Train one step").click()
        reaches(page, 2)
        dies.write_text("fsync 4")
        begin_to_save(page, "mine", replace=True)
        eventually(page, lambda: not answers(address))
    assert contents(saved / "mine") == old
    assert open_checkpoint(saved / "mine").training["steps"] == 1


def test_a_server_killed_while_it_saves_leaves_one_model_whole(page, tmp_path):
    port, (saved, dies, environment) = free_port(), places(tmp_path)
    for number, death in enumerate(DEATHS):
        with serve("app.py", port=port, **environment) as address:
            if number:
                expect_models(page)
            page.goto(f"{address}/training?model=reverse&training_part=runs")
            page.get_by_role("button", name="Train one step").wait_for(timeout=COLD)
            train_and_save(page, 1, "mine", replace=number > 0)
            train_and_save(page, 2, "other", replace=number > 0)
            versions = {1: contents(saved / "mine"), 2: contents(saved / "other")}
            dies.write_text(death)
            begin_to_save(page, "mine", replace=True)
            eventually(page, lambda: not answers(address))
        dies.unlink()
        model = open_checkpoint(saved / "mine")
        assert model.training["steps"] == DEATHS[death], death
        assert contents(saved / "mine") == versions[DEATHS[death]], death
    with serve("app.py", port=port, **environment):
        expect_models(page)
