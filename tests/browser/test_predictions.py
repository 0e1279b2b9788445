"""The page of predictions: its film plays without the server, its tokens can be clicked."""

from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import expect_tokens, stands_still, target
from tests.browser.test_hostile import INTRUDERS, SCRIPT
from viz.state.session import FIRST_SOURCE

pytestmark = pytest.mark.browser

FILM = ".vitrine.film"
VIEWS = ["Positions", "Temperature, top-k, top-p", "Logit lens", "Decoding film", "Beam tree"]


def predictions(page: Page, view: str) -> Page:
    """The page, opened from the navigation, with this view chosen."""
    page.get_by_role("link", name="Predictions", exact=True).click()
    page.get_by_role("radio", name=view, exact=True).wait_for()
    stands_still(page)  # nothing of the page before is left
    page.get_by_role("radio", name=view, exact=True).click()
    return page


@pytest.mark.slow
def test_the_film_plays_without_asking_the_server(visit, model):
    visited = visit()
    sent = []
    visited.page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page = predictions(visited.open(), "Decoding film")
    tokens = model.trace(FIRST_SOURCE).target_tokens
    count = page.locator(f"{FILM} .count")
    expect(count).to_have_text(f"1 / {len(tokens)}")
    page.locator(f"{FILM} select").first.select_option("4")
    stands_still(page)
    page.wait_for_timeout(500)
    before = len(sent)
    page.locator(f"{FILM} .play").click()
    expect(count).to_have_text(f"{len(tokens)} / {len(tokens)}")
    expect(page.locator(f"{FILM} .written .chip")).to_have_text([*tokens, "</s>"])
    page.locator(FILM).focus()
    page.keyboard.press("Home")
    expect(count).to_have_text(f"1 / {len(tokens)}")
    page.keyboard.press("ArrowRight")
    expect(page.locator(f"{FILM} .written .chip")).to_have_text(tokens[:3])
    expect(page.locator(".vitrine .tokens.target .chip.lit")).to_have_text(tokens[2])  # lit up in the bar too
    expect(page.locator(f"{FILM} svg path")).to_have_count(len(model.source_tokens(FIRST_SOURCE)))
    page.locator(f"{FILM} input").fill("4")
    expect(count).to_have_text(f"5 / {len(tokens)}")
    assert len(sent) == before


@pytest.mark.slow
def test_a_token_that_was_not_chosen_is_continued_from(visit, model):
    page = predictions(visit().open(), "Decoding film")
    page.locator(FILM).focus()
    page.keyboard.press("ArrowRight")
    generation = model.generate(FIRST_SOURCE)
    second = generation.alternatives[1][1]
    lost = page.locator(f"{FILM} tbody .chip").nth(1)
    expect(lost).to_have_text(second.label)
    lost.click()
    expected = model.continue_from(FIRST_SOURCE, generation.text, 1, [second.token])
    expect(target(page)).to_have_value(expected)
    expect_tokens(page, "target", model.trace(FIRST_SOURCE, expected).target_tokens)
    page.get_by_role("radio", name="Beam tree", exact=True).click()
    tree = model.generate(FIRST_SOURCE, beam=4).tree
    expect(page.locator(".vitrine.tree .node")).to_have_count(len(tree.nodes) - 1)
    page.locator(".vitrine.tree .hypotheses button").nth(1).click()
    ids = [tree.nodes[index].token for index in tree.path(tree.ranked()[1])]
    expect(target(page)).to_have_value(model.target_tokenizer.decode(ids))


@pytest.mark.slow
def test_hostile_tokens_are_shown_and_never_run(visit, model):
    page = predictions(visit().open(source=SCRIPT, target=SCRIPT), "Positions")
    for view in VIEWS:
        page.get_by_role("radio", name=view, exact=True).click()
        component = {"Decoding film": FILM, "Beam tree": ".vitrine.tree", "Logit lens": ".vitrine.heatmap"}
        expect(page.locator(f"{component.get(view, '.vitrine.ranking')}[data-painted]").first).to_be_visible()
        page.wait_for_timeout(200)
        assert page.evaluate(INTRUDERS) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "component", "columns"),
    [
        ("Positions", ".vitrine.ranking", "rank,token,probability"),
        ("Decoding film", FILM, "step,actual token,rank,token"),
        ("Beam tree", ".vitrine.tree", "candidate,step,continues row,token"),
    ],
)
def test_what_is_made_of_elements_is_saved_as_it_stands(visit, model, view, component, columns):
    page = predictions(visit().open(), view)
    made = page.locator(component)
    expect(made).to_have_attribute("data-painted", " ".join(model.source_tokens(FIRST_SOURCE).labels))
    files = {}
    for kind in ("PNG", "SVG", "CSV"):
        made.locator(".opener").click()
        with page.expect_download() as download:
            made.get_by_role("button", name=kind, exact=True).click()
        files[kind] = download.value.path().read_bytes()
    assert files["PNG"].startswith(b"\x89PNG")
    assert files["CSV"].decode("utf-8-sig").startswith(columns)
    drawing = ElementTree.fromstring(files["SVG"])
    drawn = {node.text for node in drawing.iter("{http://www.w3.org/2000/svg}text")}
    chips = made.locator("tbody .chip, .chips .chip, .node bdi").all_inner_texts()
    assert chips
    assert {text.strip() for text in chips} <= drawn
    _left, _top, width, height = map(float, drawing.attrib["viewBox"].split())
    assert width > 200
    assert height > 150
