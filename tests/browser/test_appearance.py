"""Themes, languages, sizes: what is written can be read."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.looking import eventually, expect_painted, figure, stands_still, texts, thumbnails
from viz.state.session import FIRST_SOURCE

pytestmark = pytest.mark.browser

# Every visible text with the contrast of its colour, through all opacities, to what is painted behind it.
CONTRASTS = """
() => {
  const parse = (text) => {
    const srgb = text.match(/^color\\(srgb ([^)]*)\\)/);
    const numbers = (srgb ? srgb[1] : text).match(/[\\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    const [r, g, b, a = 1] = srgb ? [...numbers.slice(0, 3).map((v) => v * 255), numbers[3] ?? 1] : numbers;
    return [r, g, b, a];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, index) => value * a + below[index] * (1 - a));
  const light = (colour) => colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }).reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const parent = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const page = parse(getComputedStyle(document.querySelector('.stApp')).backgroundColor).slice(0, 3);
  const found = [];
  const look = (root) => {
    for (const node of root.querySelectorAll('*')) {
      if (node.shadowRoot) look(node.shadowRoot);
      const words = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data);
      const own = words.join('').trim();
      const text = own || (node.tagName === 'INPUT' ? node.value || node.placeholder : '');
      const box = node.getBoundingClientRect();
      if (!text || box.width < 2 || box.height < 2 || node.closest('style, script, .katex')) continue;
      const chain = [];
      for (let each = node; each; each = parent(each)) chain.push(each);
      const styles = chain.map((each) => getComputedStyle(each));
      if (styles.some((style) => style.visibility === 'hidden' || style.opacity === '0')) continue;
      let behind = page;
      for (const style of [...styles].reverse()) behind = over(parse(style.backgroundColor), behind);
      const opacity = styles.reduce((product, style) => product * Number(style.opacity), 1);
      const svg = node.closest('svg') && node.tagName === 'text';
      const own_style = node.placeholder && !node.value ? getComputedStyle(node, '::placeholder') : styles[0];
      const [r, g, b, a] = parse(svg ? own_style.fill : own_style.color);
      const colour = over([r, g, b, a * opacity * (svg ? Number(own_style.fillOpacity) : 1)], behind);
      const [dark, bright] = [light(colour), light(behind)].sort((x, y) => x - y);
      found.push({ text: text.slice(0, 40), tag: node.tagName, of: String(node.className.baseVal ?? node.className),
        contrast: (bright + 0.05) / (dark + 0.05) });
    }
  };
  look(document);
  return found;
}
"""


@pytest.mark.slow  # test_pages.py looks at every page, light and dark
@pytest.mark.parametrize(("scheme", "kind"), [("light", "cross"), ("dark", "decoder")])
def test_every_text_has_a_contrast_of_4_5(visit, model, scheme, kind):
    page = visit(color_scheme=scheme).open(attention=kind, target="我" * 200, layer="0", head="0")
    expect_painted(page, model, FIRST_SOURCE)
    shown = {"Vitrine", "4 checks", "Attention", "<s>", "weight", "1.1", "Layer 1, head 1", FIRST_SOURCE}
    eventually(page, lambda: shown <= {each["text"] for each in page.evaluate(CONTRASTS)})
    stands_still(page)
    found = page.evaluate(CONTRASTS)
    background = page.locator(".stApp").evaluate("(app) => getComputedStyle(app).backgroundColor")
    brightness = sum(int(value) for value in re.findall(r"\d+", background)[:3]) / 3
    assert brightness > 230 if scheme == "light" else brightness < 40
    faint = {(each["of"], each["text"], round(each["contrast"], 2)) for each in found if each["contrast"] < 4.5}
    assert not faint, "\n".join(map(str, sorted(faint)))
    # The large figure is painted: its texts have the colour of the page's own, on the page's background.
    drawn = figure(page)
    app = page.locator(".stApp")
    assert {text.get("fill") for text in drawn.iter("{http://www.w3.org/2000/svg}text")} == {
        app.evaluate("(app) => getComputedStyle(app).color")
    }


@pytest.mark.slow
def test_the_browsers_language_is_the_first_one(visit, model):
    page = visit(locale="zh-CN").open(layer="0", head="0")
    expect(page.locator('input[aria-label="原文"]')).to_have_value(FIRST_SOURCE)
    expect(page.get_by_text("第 1 层，第 1 头")).to_be_visible()
    expect(page.locator(".badge").first).to_contain_text("每行之和为 1")
    expect(page.locator(".vitrine.stages th").nth(1)).to_contain_text("分数")
    assert "".join(texts(figure(page))[:9]) == "键（被关注的词元）查询（当前词元）"  # the 2nd upright, letter by letter
    for word in ("Source", "Target", "Attention", "Translate", "Encoder", "query", "entropy", "rows sum"):
        assert page.get_by_text(word, exact=True).count() == 0, word


@pytest.mark.slow
def test_the_language_can_be_switched_and_is_kept(visit, model):
    page = visit().open()
    page.get_by_text("中文", exact=True).click()
    expect(page.locator('input[aria-label="原文"]')).to_have_value(FIRST_SOURCE)
    expect(page.get_by_text("一个查询，逐步计算")).to_be_visible()
    page.wait_for_url("**language=zh*")
    page.locator('input[aria-label="原文"]').fill("I am a teacher.")
    expect_painted(page, model, "I am a teacher.")
    expect(page.get_by_text("一个查询，逐步计算")).to_be_visible()
    page.reload()
    expect(page.locator('input[aria-label="原文"]')).to_have_value("I am a teacher.")


@pytest.mark.slow
def test_a_phone_scrolls_down_but_not_sideways(visit, model):
    page = visit(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True).open()
    expect_painted(page, model, FIRST_SOURCE)
    stands_still(page)
    spare = """() =>
      [document.scrollingElement, ...document.querySelectorAll('[data-testid="stMain"], .block-container')]
        .map((node) => node.scrollWidth - node.clientWidth)"""
    eventually(page, lambda: max(page.evaluate(spare)) <= 0)
    assert page.evaluate("document.scrollingElement.clientWidth") == 390
    places = "(all) => all.map((canvas) => canvas.getBoundingClientRect().toJSON())"

    def fit() -> bool:
        boxes = thumbnails(page).evaluate_all(places)
        within = [box["width"] >= 28 and box["left"] >= 0 and box["right"] <= 390 for box in boxes]
        return within == [True] * 24

    eventually(page, fit)
    page.locator(".bar .fold").tap()  # the texts come over the page
    page.locator('input[aria-label="Source"]').fill("I am a teacher.")
    expect_painted(page, model, "I am a teacher.")
    stands_still(page)
    page.locator(".vitrine.heads .head").nth(10).tap()
    expect(page.get_by_text("Layer 2, head 3")).to_be_visible()


@pytest.mark.slow
def test_on_a_phone_no_bar_lies_over_a_text_and_no_button_is_cut_open(visit):
    page = visit(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True).open(model="reverse")
    page.locator('a[href$="training"]').dispatch_event("click")  # the sidebar is closed
    stands_still(page)
    page.get_by_role("radio", name="A new model").tap()
    page.get_by_role("radio", name="Your own file or text").tap()
    stands_still(page)
    table = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"source,target\na,b\nlonely\nc,d\n"}
    page.locator('[data-testid="stFileUploaderDropzoneInput"]').set_input_files(table)
    bars = page.locator('[data-testid="stElementToolbar"]')
    expect(bars).to_have_count(2)
    stands_still(page)
    above = """(bars) => bars.map((bar) => {
      const before = bar.closest(".stElementContainer").previousElementSibling;
      return bar.getBoundingClientRect().top - before.getBoundingClientRect().bottom;
    })"""
    eventually(page, lambda: [room >= 0 for room in bars.evaluate_all(above)] == [True] * 2)
    borders = """(buttons) => buttons.flatMap((button) => ["Top", "Right", "Bottom", "Left"].map((side) =>
      getComputedStyle(button)[`border${side}Color`])).filter((colour) => / 0\\)$/.test(colour))"""
    buttons = page.locator('.st-key-training_data [role="radio"]')
    tops = "(all) => all.map((each) => each.offsetTop)"
    eventually(page, lambda: len(set(buttons.evaluate_all(tops))) == 2)  # it takes two lines
    eventually(page, lambda: buttons.evaluate_all(borders) == [])


@pytest.mark.slow
def test_the_page_can_be_read_out_and_used_from_the_keyboard(visit):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    heads = page.locator(".vitrine.heads .head")
    expect(heads.first).to_have_attribute("aria-label", re.compile("Layer 1, head 1: entropy"))
    heads.nth(5).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Layer 1, head 6")).to_be_visible()
    alternative = page.locator('[aria-label^="Layer 1, head 6, target looks at source. 6 queries"]')
    expect(alternative).to_have_count(1)


def test_the_input_bar_stays_on_top_and_hides_what_scrolls_under_it(visit):
    page = visit(color_scheme="dark", viewport={"width": 1440, "height": 600}).open()
    expect(page.locator(".vitrine-sticky")).to_have_count(1)
    stands_still(page)  # as tall as it will be
    page.mouse.move(700, 450)
    page.mouse.wheel(0, 400)
    bar = page.locator(".st-key-input_bar")
    eventually(page, lambda: page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop") > 100)
    eventually(page, lambda: bar.bounding_box()["y"] + bar.bounding_box()["height"] == pytest.approx(48, abs=3))
    colour = "(node) => getComputedStyle(node).backgroundColor"
    eventually(page, lambda: bar.evaluate(colour) == page.locator(".stApp").evaluate(colour))
    assert not bar.evaluate(colour).startswith("rgba")  # opaque
    dark = bar.evaluate(colour)
    page.emulate_media(color_scheme="light")
    eventually(page, lambda: dark != bar.evaluate(colour) == page.locator(".stApp").evaluate(colour))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.slow
def test_a_main_button_can_be_read_while_it_is_pointed_at(visit, theme):
    page = visit(color_scheme=theme).open()
    page.get_by_role("link", name="Training", exact=True).click()
    button = page.get_by_role("button", name="Begin and run")
    expect(button).to_be_visible()
    stands_still(page)  # else it is drawn elsewhere while the pointer is on its way
    page.mouse.move(0, 0)
    button.hover()
    page.wait_for_timeout(500)  # Streamlit fades its colours
    assert button.evaluate("(button) => button.matches(':hover')")
    (found,) = [each for each in page.evaluate(CONTRASTS) if each["text"] == "Begin and run"]
    assert found["contrast"] > 4.5, found
