"""The film of a training by itself: the strip receives it, and everything else happens in the browser."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.film_alone import KIND
from tests.browser.film_alone import own as own
from tests.browser.film_alone import shown as shown
from tests.browser.looking import PIXELS, eventually

pytestmark = pytest.mark.browser


def test_it_is_scrubbed_by_keys_and_by_the_strips_slider(shown):
    film, line = shown.film, shown.film.get_by_role("slider")
    expect(film).to_have_attribute("data-step", "12")
    line.focus()
    for key, step in (("Home", 0), ("ArrowRight", 1), ("End", 12), ("ArrowLeft", 11)):
        line.press(key)
        expect(film).to_have_attribute("data-step", str(step))
    shown.page.locator(".vitrine.strip input").fill("5")
    expect(film).to_have_attribute("data-step", "5")
    loss = shown.own.run.film.series("loss")[5]
    expect(film.locator(".standing")).to_contain_text(f"loss on this text {loss:.2f}")
    box = line.bounding_box()
    shown.page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 20)
    expect(film).to_have_attribute("data-step", "12")
    assert shown.page.evaluate("window.rows") == []  # nothing was asked of the server


def test_a_finger_leads_it_sideways_and_scrolls_the_page_upwards(shown):
    page, film, line = shown.page, shown.film, shown.film.get_by_role("slider")
    line.press("End")
    touch = page.context.new_cdp_session(page)
    box = line.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 20

    def swipe(aside, upwards):
        for at in range(7):
            point = {"x": x + aside * at / 6, "y": y - upwards * at / 6}
            name = "touchMove" if at else "touchStart"
            touch.send("Input.dispatchTouchEvent", {"type": name, "touchPoints": [point]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    assert line.evaluate("(line) => getComputedStyle(line).touchAction") == "pan-y"
    swipe(0, 120)
    expect(film).to_have_attribute("data-step", "12")
    swipe(-200, 2)
    expect(film).not_to_have_attribute("data-step", "12")
    touch.detach()


def test_it_plays_to_the_end_without_the_server(shown):
    shown.film.locator(".controls select").select_option("5")  # a slow machine leaves frames out
    shown.press("play")
    expect(shown.film.locator(".play")).to_have_text("▶")
    expect(shown.film).to_have_attribute("data-step", "12")
    assert shown.film.evaluate("(film) => film.painted") >= 5
    assert shown.page.evaluate("window.rows") == []


def test_the_largest_change_is_the_films_and_the_difference_that_of_its_frames(shown):
    film = shown.own.run.film
    differences = np.diff(film.attention(KIND)[:, 1, 0].astype(float) / 255, axis=0)
    variations = 0.5 * np.abs(differences).sum(axis=-1).mean(axis=-1)  # total variation, averaged over the queries
    largest = int(variations.argmax())
    shown.press("largest")
    expect(shown.film).to_have_attribute("data-step", str(film.steps[largest + 1]))
    expect(shown.film.locator(".note")).to_contain_text(f"{variations[largest]:.3g}"[:5])
    shown.press("difference")
    before, after = film.steps[[largest, largest + 1]]
    expect(shown.film.locator(".large .heading")).to_contain_text(f"step {after:,} minus step {before:,}")
    shown.film.locator(".opener").click()
    with shown.page.expect_download() as download:
        shown.page.get_by_role("button", name="CSV", exact=True).click()
    names, *lines = download.value.path().read_text("utf-8-sig").splitlines()
    expected = differences[largest]
    texts = [line.split(",")[-2] for line in lines]
    written = np.array(texts, float).reshape(expected.shape)
    assert np.abs(written - expected).max() <= 0.5e-4 + 1e-9  # as many digits as are known of what is kept in 255 steps
    assert max(len(text.partition(".")[2]) for text in texts) == 4
    assert names.split(",")[-2].endswith(" ± 0.004")  # of two weights, each half a step off
    shown.film.locator(".large canvas").hover(position={"x": 120, "y": 120})
    expect(shown.film.locator("div.large")).to_contain_text(re.compile(r"0\.\d+ ± 0\.004$|0 ± 0\.004"))


def test_runs_that_lie_over_each_other_are_named_above_their_lines(shown):
    names, line = shown.film.locator(".futures span"), shown.film.locator(".line")
    expect(names).to_have_count(0)
    written = """() => {
      const { fillText } = CanvasRenderingContext2D.prototype;
      window.written = [];
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        if (this.canvas.classList.contains("line")) window.written.push(text);
        fillText.call(this, text, ...place);
      };
    }"""
    shown.page.evaluate(written)
    losses = [4.0 - step / 4 for step in range(13)]
    shown.show_film(run=3, others=[{"run": number, "steps": [*range(13)], "losses": losses} for number in (1, 2)])
    expect(names).to_have_text(["run 3", "run 1", "run 2"])
    styles = names.locator("i").evaluate_all("(marks) => marks.map((mark) => mark.style.borderTopStyle)")
    assert styles == ["solid", "dashed", "dashed"]
    above, under = names.last.bounding_box(), line.bounding_box()
    assert above["y"] + above["height"] <= under["y"]
    shown.page.wait_for_function("window.written.length > 0")
    assert set(shown.page.evaluate("window.written")) == {"◆"}  # no word among the lines


def test_guesses_are_those_of_the_frame_and_the_right_one_is_marked(shown):
    film = shown.own.run.film
    shown.film.locator(".places .chip").nth(1).click()
    labels = [film.model.target_tokenizer.label(int(token)) for token in film.series("predictions.tokens")[-1, 1]]
    answer = film.model.target_tokenizer.label(film.probe.labels(film.model)[1])
    tokens = shown.film.locator(".guess .token")
    expect(tokens).to_have_text([f"{label} ✓" if label == answer else label for label in labels])


def test_pieces_are_one_in_heads_guesses_and_norms(shown):
    film = shown.own.run.film
    source, target = film.probe.source.labels, film.probe.target.labels
    firsts = {"source": [0, *range(2, len(source))], "target": [*range(len(target) - 1)]}  # the first two; the last two
    runs = {side: {"firsts": own, "labels": [f"{side} {at}" for at in own]} for side, own in firsts.items()}
    shown.strip(runs=runs)
    visible = np.ones([len(firsts[side]) for side in ("target", "source")], np.uint8)
    shown.visible = visible
    shown.show_film(labels={"rows": runs["target"]["labels"], "columns": runs["source"]["labels"]})
    weights = film.attention(KIND)[-1][1, 0].astype(float)
    expected = np.concatenate([weights[:, :2].sum(1, keepdims=True), weights[:, 2:]], axis=1)
    expected = np.concatenate([expected[:-2], expected[-2:].mean(0, keepdims=True)])
    shown.film.locator(".opener").click()
    with shown.page.expect_download() as download:
        shown.page.get_by_role("button", name="CSV", exact=True).click()
    lines = download.value.path().read_text("utf-8-sig").splitlines()[1:]
    written = np.array([line.split(",")[-2] for line in lines], float).reshape(expected.shape)
    scale = 255 if expected.max() > 1 else 1
    assert np.abs(written - expected / scale).max() <= 1 / 255  # whole levels
    chips = shown.film.locator(".places .chip")
    expect(chips).to_have_text(runs["target"]["labels"])
    chips.last.click()
    labels = [film.model.target_tokenizer.label(int(token)) for token in film.series("predictions.tokens")[-1, -1]]
    answer = film.model.target_tokenizer.label(film.probe.labels(film.model)[-1])
    expect(shown.film.locator(".guess .token")).to_have_text(
        [f"{label} ✓" if label == answer else label for label in labels]
    )
    widths = shown.film.locator(".norms canvas").evaluate_all("(all) => all.map((each) => each.width)")
    assert widths == [len(firsts["source"]), len(firsts["target"])]


def expect_mean(shown, name: str, mean: float) -> None:
    """The norm of this name comes to show this mean: names change with the quantity, and numbers with the frame."""
    read = """(norms) => [".names", ".means"].map((side) =>
      [...norms.querySelectorAll(`${side} > div`)].map((each) => each.textContent))"""

    def says() -> bool:
        names, means = shown.film.locator(".norms").evaluate(read)
        return name in names and means[names.index(name)] == f"{mean:#.3g}".replace("-", "−")

    eventually(shown.page, says)


def test_norms_are_those_of_the_frame_and_move_with_it(shown):
    film = shown.own.run.film
    expect(shown.film.locator(".standing")).to_contain_text("one frame each step")
    shown.film.get_by_role("slider").press("Home")
    for quantity, name, last in (
        ("std", "decoder norm", "decoder.norm.std"),
        ("mean", "encoder 1 self-attention", "encoder.layers.0.self_attention_block.norm.mean"),
        ("stream", "decoder 2 feed-forward", "decoder.layers.1.feed_forward_block.residual"),
    ):
        shown.film.locator(".norms select").select_option(quantity)
        for frame, key in ((0, "Home"), (3, "ArrowRight")):
            for _ in range(max(1, frame)):
                shown.film.get_by_role("slider").press(key)
            expect_mean(shown, name, float(film.series(last)[frame].mean()))
    shown.press("difference")
    series = film.series(last)
    expect_mean(shown, name, float((series[3] - series[0]).mean()))


def test_a_key_frame_offers_the_way_back(shown):
    shown.film.get_by_role("slider").press("Home")
    shown.press("keys")
    expect(shown.film.locator(".offer")).to_contain_text("step 0")
    shown.page.get_by_role("button", name="×").click()
    box = shown.film.get_by_role("slider").bounding_box()
    shown.page.mouse.click(box["x"] + 8 + (box["width"] - 16) / 3, box["y"] + 66)  # of step 4, in the lane
    shown.page.get_by_role("button", name="Branch from here").click()
    asked = "window.rows.map(([name, wanted]) => [name, wanted.step]).at(-1)"
    eventually(shown.page, lambda: shown.page.evaluate(asked) == ["branch", 4])


def test_the_slider_takes_the_heads_of_the_same_tokens_back(shown):
    shown.grid(KIND)
    grid = shown.page.locator("#grid .vitrine")
    assert not any(head["drawn"] for head in grid.evaluate(PIXELS))
    shown.page.locator(".vitrine.strip input").fill("2")
    expect(grid).to_have_attribute("data-step", "2")
    expect(grid.locator(".caption")).to_have_text("film: step 2")
    weights = shown.own.run.film.attention(KIND)[2].reshape(-1, *shown.visible.shape)
    found = grid.evaluate(PIXELS)
    assert [head["darkest"] for head in found] == pytest.approx(weights.max(axis=(1, 2)).tolist(), abs=2)
    shown.page.locator(".vitrine.strip input").fill("0")
    shown.page.locator(".vitrine.strip input").press("End")
    expect(grid).to_have_attribute("data-step", "")


def test_heads_of_another_model_stay_as_they_are(shown):
    shown.grid("")
    shown.page.locator(".vitrine.strip input").fill("2")
    expect(shown.film).to_have_attribute("data-step", "2")
    assert not any(head["drawn"] for head in shown.page.locator("#grid .vitrine").evaluate(PIXELS))


ROWS = """(standing) => {
  const range = document.createRange();
  range.selectNodeContents(standing);
  return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
}"""


def test_on_a_phone_where_it_stands_is_said_in_two_rows_however_long_its_words_are(shown):
    shown.page.set_viewport_size({"width": 390, "height": 844})
    standing = shown.film.locator(".standing")
    expect(standing).to_contain_text(" · frame 13 of 13")
    assert standing.evaluate(ROWS) == 2
