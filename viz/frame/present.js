// Presenting: one figure of the page alone in the window, in type that is read from the last row; beside it the text of a
// lesson's step, where one is open. Begun from the menu, the lesson, or by a double click on a figure. Arrows, page keys and a
// clicker lead to the next figure, in a lesson to its next step; space plays a film, B blanks, L is a pointer, Esc ends. A window that
// follows a teacher's presents what that does, and shows its pointer.

import { bus } from "../web/bus.js";
import { element, prose, write, zoomOf } from "../web/elements.js";
import { uncoverPage } from "./sidebar.js";

const ZOOM = 1.85; // of the page's 13 pixels to 24
const OF_HEADS = 1.4; // of thumbnails, where large maps count more than the words above them
const LOW = 800; // pixels of a window in which a large map's words are no larger than those over thumbnails
const LEAST = 1; // of a figure that is too high otherwise
const MOST = 3.6; // of one that is low
const PHONE = "(max-width: 640px)"; // no wider: a figure has the size that it has on the page, and is seen whole
const HELD = "(max-width: 640px), (max-height: 500px)"; // in a hand, as in frame.css: a text is not read from the last row
const FULL = 0.7; // of the window, from which a figure is not low
const TRIES = 7; // of zooms until one fits
const MARGIN = 24; // beside a figure, in pixels of the screen
const SETTLES = 150; // milliseconds between looks for the figure of a page that is being made
const LEAST_AREA = 10_000; // of a figure that is drawn
const PATIENCE = 20_000; // of such looks
const NAMED = 2000; // milliseconds of looks for the figure that a lesson names
const RETURNS = 1000; // milliseconds in which a page has its heights again
const SAYS = 2500; // how long a sentence about the last figure stays
const NEVER = new Set([ // components that are no figure
  "field", "bar", "lead", "strip", "muted", "menu_of_page", "lesson_acts", "progress_bar", "class_strip", "class_bars", "figure",
]);
const NEXT = new Set(["ArrowRight", "PageDown", "Enter", "n"]);
const BEFORE = new Set(["ArrowLeft", "PageUp", "Backspace", "p"]);
const BLANK = new Set(["b", "B"]);
const POINTER = new Set(["l", "L", "."]);

/** @type {HTMLElement | null} */
let shown = null; // the container of the presented figure
/** @type {HTMLElement | null} */
let bar = null; // there while something is presented
/** @type {HTMLElement | null} */
let text = null; // of a lesson's step
/** @type {HTMLElement | null} */
let dot = null; // that follows the pointer
/** @type {Record<string, string>} */
let words = {};
let waiting = 0; // for the figure of a page that is being made
let seeking = 0; // for the figure that the teacher presents
let led = false; // by the window of a teacher
/** @type {HTMLElement | null} */
let focused = null; // before something was presented
/** @type {{ figure: HTMLElement, top: number } | undefined} */
let begunAt; // the figure, and where it was in the window
let number = -1; // of the presented figure, among those of the page
/** @type {number[]} */
let spot = []; // of the pointer, see spotAt

const page = () => document.documentElement;
export const presenting = () => bar !== null;

// The component's element in a container of the page, or undefined.
/** @param {Element} container @returns {any} */
export const rootIn = (container) => [...container.querySelectorAll("*")].map((each) => each.shadowRoot?.querySelector(".vitrine")).find(Boolean);

/** @param {Element} container */
function isFigure(container) {
  if (container.closest('.st-key-input_bar, .st-key-lesson, [data-stale="true"]')) return false;
  if (container.querySelector(".stPlotlyChart")) return true;
  const root = rootIn(container);
  return Boolean(root) && root.classList.length > 1 && ![...root.classList].some((name) => NEVER.has(name));
}

/** @returns {HTMLElement[]} */
const figures = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".stMain .stElementContainer"))].filter(isFigure);

/** @param {HTMLElement} figure */
const area = (figure) => figure.offsetWidth * figure.offsetHeight;

// The figure that a lesson's step is about.
const namedFigure = () => {
  const here = figures().filter(area);
  return bus.lesson?.figures.map((key) => here.find((each) => keyOf(each).startsWith(key))).find(Boolean);
};

// The figure that a page is about: the one that a lesson names, its large one, else the one that takes most room.
export const mainFigure = () => {
  const named = namedFigure();
  if (named) return named;
  const all = figures().sort((one, other) => area(other) - area(one));
  return all.find((each) => rootIn(each)?.shown?.header?.large) ?? all[0];
};

// How far a figure is above or below the middle of the window; 0 where it is there.
/** @param {HTMLElement} figure */
function fromMiddle(figure) {
  const { top, bottom } = figure.getBoundingClientRect();
  return Math.max(top - innerHeight / 2, 0, innerHeight / 2 - bottom);
}

// The figure that one looks at: the nearest to the middle of the window, of those beside each other the largest.
export const nearestFigure = () =>
  figures().filter(area).sort((one, other) => fromMiddle(one) - fromMiddle(other) || area(other) - area(one))[0];

// The figure whose menu this root of a component has: its own container, or the chart beside it.
/** @param {ShadowRoot | undefined} root @returns {HTMLElement | undefined} */
function figureWith(root) {
  const own = /** @type {HTMLElement | undefined} */ (root?.host.closest(".stElementContainer") ?? undefined);
  if (!own || isFigure(own)) return own;
  return figures().find((each) => root?.host.closest(":has(.stPlotlyChart)")?.contains(each));
}

function leave() {
  document.querySelectorAll("[data-presented]").forEach((each) => each.removeAttribute("data-presented"));
  if (!shown) return;
  rootIn(shown)?.classList.remove("presented");
  shown.style.marginTop = "";
  delete shown.dataset.tooHigh;
}

// The figure alone: all that is on its way to the page stays, everything beside that goes.
/** @param {HTMLElement} figure */
function show(figure) {
  leave();
  rootIn(figure)?.classList.add("presented"); // its own buttons go
  shown = figure;
  number = figures().indexOf(figure);
  page().toggleAttribute("data-presenting-wait", false);
  for (let each = /** @type {HTMLElement | null} */ (figure); each && !each.classList.contains("stMain"); each = each.parentElement) {
    each.dataset.presented = each === figure ? "figure" : "around";
  }
  const root = rootIn(figure);
  const low = root?.shown?.header?.large && innerHeight < LOW; // its rows need the height
  zoom(Math.min(low || root?.classList.contains("heads") ? OF_HEADS : ZOOM, most()));
  fit(figure, TRIES);
  say("");
  document.querySelector(".stMain")?.scrollTo(0, 0);
  tell();
}

// Those who follow are to see it.
const tell = () => bus.dispatchEvent(new Event("presented"));

// Where one is, or a sentence for a moment.
/** @param {string} sentence */
function say(sentence) {
  if (!bar) return;
  const all = figures();
  const [at, lesson] = [all.indexOf(/** @type {HTMLElement} */ (shown)) + 1, bus.lesson];
  const place = lesson ? lesson.place : `${at} / ${all.length}`;
  write(bar.querySelector(".place"), sentence || place);
  bar.classList.toggle("says", Boolean(sentence));
  if (sentence) setTimeout(() => say(""), SAYS);
}

/** @param {number} factor */
function zoom(factor) {
  page().dataset.presenting = String(factor);
  page().style.setProperty("--presenting", String(factor));
  window.dispatchEvent(new Event("resize"));
  if (led && bus.screen) pointAt(bus.screen.pointer);
}

const most = () => (matchMedia(PHONE).matches ? LEAST : MOST);

// Smaller where it is higher than the window, larger where it is low; its height at another width is known once it is
// painted. What stays low stands in the middle.
/** @param {HTMLElement} figure @param {number} tries */
function fit(figure, tries) {
  setTimeout(() => {
    if (shown !== figure || !bar) return;
    const factor = Number(page().dataset.presenting);
    const [high, room] = [figure.getBoundingClientRect().height, innerHeight - (bus.covered ?? 0) - 2 * MARGIN];
    const next = high > room ? Math.max(LEAST, factor * Math.max(0.8, room / high)) : Math.min(most(), factor * 1.15);
    const fits = high <= room && (high > FULL * room || factor === most() || figure.dataset.tooHigh === String(next));
    if (!tries || next === factor || fits) {
      figure.style.marginTop = `${Math.max(0, (room - high) / 2) / factor}px`;
      delete figure.dataset.tooHigh;
      if (led && bus.screen) pointAt(bus.screen.pointer);
      return;
    }
    if (high > room) figure.dataset.tooHigh = String(factor);
    zoom(next);
    fit(figure, tries - 1);
  }, 120);
}

// The next figure of the page, or the one before; the last says that it is.
/** @param {number} by */
function step(by) {
  const all = figures();
  const at = all.indexOf(/** @type {HTMLElement} */ (shown));
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))];
  if (next && next !== shown) show(next);
  else say(by > 0 ? words.last : words.first);
}

// In a lesson its next step, else the next figure.
/** @param {number} by */
function lead(by) {
  const { lesson } = bus;
  if (!lesson) return step(by);
  const wanted = lesson.step + by;
  if (wanted < 0 || wanted >= lesson.count) return say(by > 0 ? words.lastStep : words.firstStep);
  lesson.go(wanted);
}

// The text of the lesson's step, as elements: what it says is never read as markup.
function showText() {
  const { lesson } = bus;
  page().toggleAttribute("data-presenting-text", Boolean(bar && lesson));
  if (!bar || !lesson) {
    text?.remove();
    text = null;
    return;
  }
  text ??= document.body.appendChild(element("div", "presented_text"));
  const said = element("div", "said");
  text.replaceChildren(said);
  said.append(element("h2", "title", lesson.title));
  for (const { number, spans } of lesson.paragraphs) {
    const line = said.appendChild(element("p", number === null ? "line" : "line item"));
    if (number !== null) line.append(element("span", "mark", number ? `${number}.` : "•"));
    for (const [content, style] of spans) line.append(prose(TAGS[style] ?? "span", content));
  }
  if (lesson.question) {
    const question = text.appendChild(prose("p", lesson.question));
    question.className = "line question";
  }
  const markMore = () => said.classList.toggle("more", said.scrollTop + said.clientHeight < said.scrollHeight - 2);
  said.addEventListener("scroll", markMore, { passive: true });
  said.scrollTo(0, 0);
  said.tabIndex = 0; // it scrolls, and the question stays
  const [most, least] = matchMedia(HELD).matches ? [19, 16] : [30, 24];
  fewer(text, most, least);
  markMore();
}

/** @type {Record<string, "strong" | "em" | "code">} */
const TAGS = { strong: "strong", emphasis: "em", code: "code" };

// Type of this many pixels, or of fewer, until the text fits.
/** @param {HTMLElement} node @param {number} size @param {number} least */
function fewer(node, size, least) {
  node.style.fontSize = `${size}px`;
  const said = /** @type {Element} */ (node.firstElementChild);
  if (size > least && said.scrollHeight > said.clientHeight) fewer(node, Math.max(least, size - 2), least);
}

// The figure of the page that comes, once it is there: the page is laid out behind a cover until then.
function settle(since = performance.now()) {
  leave();
  delete page().dataset.presenting;
  page().toggleAttribute("data-presenting-wait", true);
  clearTimeout(waiting);
  waiting = Number(setTimeout(() => {
    if (!bar) return;
    const awaited = bus.lesson?.figures.length && !namedFigure() && performance.now() - since < NAMED;
    const first = awaited || page().hasAttribute("data-turned") ? undefined : mainFigure();
    if (first && area(first) > LEAST_AREA) {
      show(first);
      if (led && bus.screen) follow(bus.screen);
    } else if (performance.now() - since < PATIENCE) settle(since);
    else end();
  }, SETTLES));
}

// A run of the script may have made the page anew: the same figure by its key, else the page's own.
const observer = new MutationObserver(() => {
  if (!bar || !shown || shown.isConnected) return;
  const key = [...shown.classList].find((name) => name.startsWith("st-key-"));
  const again = key && /** @type {HTMLElement | null} */ (document.querySelector(`.stMain .${CSS.escape(key)}`));
  shown = null;
  if (again) show(again);
  else settle();
});

bus.addEventListener("present", (/** @type {any} */ event) => present(figureWith(event.detail)));
bus.addEventListener("lesson", () => {
  if (!bar) return;
  showText();
  say("");
  settle();
});

/** @param {HTMLElement} [figure] */
export function present(figure) {
  const first = figure ?? mainFigure();
  if (!first) return;
  uncoverPage(); // the sidebar was opened for its menu
  if (!bar) {
    begunAt = { figure: first, top: first.getBoundingClientRect().top };
    begin();
  }
  show(first);
}

function begin() {
  focused = /** @type {HTMLElement | null} */ (document.activeElement);
  while (focused?.shadowRoot?.activeElement) focused = /** @type {HTMLElement} */ (focused.shadowRoot.activeElement);
  bar = document.body.appendChild(element("div", "presenting_bar"));
  for (const [name, sign, act] of /** @type {[string, string, () => void][]} */ ([
    ["before", "‹", () => lead(-1)], ["place", "", () => {}], ["next", "›", () => lead(1)], ["end", "✕", end],
  ])) {
    const part = bar.appendChild(element(name === "place" ? "span" : "button", name, sign));
    if (name === "place") {
      part.setAttribute("aria-live", "polite");
      continue;
    }
    part.title = words[name];
    part.setAttribute("aria-label", words[name]);
    part.addEventListener("click", () => own(act));
  }
  observer.observe(document.body, { childList: true, subtree: true });
  showText();
}

// Whoever does something himself while he is led looks around alone.
/** @param {() => void} act */
function own(act) {
  if (!led) return act();
  end();
  bus.dispatchEvent(new Event("alone"));
}

/** @param {Element | null} figure */
const keyOf = (figure) => [...(figure?.classList ?? [])].find((name) => name.startsWith("st-key-"))?.slice("st-key-".length) ?? "";

// What this window presents, for those who follow it.
/** @returns {Omit<TeacherScreen, "step">} */
export const presentation = () => ({
  figure: bar ? keyOf(shown) : "",
  place: bar ? number : -1,
  blank: page().hasAttribute("data-blank"),
  pointer: dot ? spot : [],
});

// Present what a teacher's window does, as soon as its figure is here.
/** @param {TeacherScreen | null} screen */
export function follow(screen, since = performance.now()) {
  clearTimeout(seeking);
  if (!screen || screen.place < 0) {
    if (led) end();
    return;
  }
  const figure = figureOf(screen);
  if (!figure || page().hasAttribute("data-turned")) {
    if (performance.now() - since < PATIENCE) seeking = Number(setTimeout(() => follow(screen, since), SETTLES));
    return;
  }
  if (!bar) begin();
  led = true;
  bar?.classList.add("led");
  if (figure !== shown) show(figure);
  page().toggleAttribute("data-blank", screen.blank);
  pointAt(screen.pointer);
}

/** @param {TeacherScreen} screen */
function figureOf({ figure, place }) {
  if (figure && shown?.isConnected && keyOf(shown) === figure) return shown;
  const all = figures();
  return figure ? all.find((each) => keyOf(each) === figure) : all[place];
}

export function end() {
  leave();
  const last = shown;
  for (const name of ["presenting", "blank", "presentingText", "presentingWait"]) delete page().dataset[name];
  clearTimeout(waiting);
  for (const each of [bar, text, dot]) each?.remove();
  bar = text = dot = shown = null;
  led = false;
  tell();
  observer.disconnect();
  window.dispatchEvent(new Event("resize"));
  if (focused?.isConnected) focused.focus({ preventScroll: true });
  focused = null;
  if (last && !bus.lesson) comeBack(last); // a lesson shows its step
}

// The page at the figure that was presented last: where that stood when presenting began, another one in the middle of the window.
// What is above is drawn again, and has its height only then; whoever touches the page scrolls it.
/** @param {HTMLElement} figure */
function comeBack(figure, since = performance.now()) {
  const touched = new AbortController();
  for (const name of ["pointerdown", "wheel", "keydown"]) addEventListener(name, () => touched.abort(), { capture: true, passive: true, signal: touched.signal });
  const place = begunAt?.figure === figure ? begunAt.top : undefined;
  const look = () => {
    if (touched.signal.aborted) return;
    if (bar || !figure.isConnected || performance.now() - since > RETURNS) return touched.abort();
    const covered = document.querySelector(".st-key-input_bar")?.getBoundingClientRect().bottom ?? 0;
    const { top, height } = figure.getBoundingClientRect();
    const wanted = place ?? Math.max(covered + 8, (innerHeight - height) / 2);
    document.querySelector(".stMain")?.scrollBy({ top: top - wanted, behavior: "instant" });
    requestAnimationFrame(look);
  };
  look();
}

// A large soft dot where the mouse is, which is seen from the last row.
function togglePointer() {
  dot?.remove();
  dot = dot ? null : document.body.appendChild(element("div", "presenting_dot"));
  spot = [];
  tell();
}

/** @param {PointerEvent} event */
function movePointer({ clientX, clientY }) {
  if (!dot || led) return;
  dot.style.translate = `${clientX}px ${clientY}px`;
  spot = spotAt(clientX, clientY);
  tell();
}

// Where a pointer is in the presented figure, whatever the size of that is: in cells of a map, else in shares of what is under it: the
// canvas, a button, counted from 1, or all of the figure.
const [CELLS, CANVAS, ALL] = [-2, -1, 0];

/** @param {number} x @param {number} y */
function spotAt(x, y) {
  if (!shown) return [];
  const root = rootIn(shown);
  const inside = (/** @type {Element | undefined} */ each) => {
    const { left, top, right, bottom } = each?.getBoundingClientRect() ?? new DOMRect();
    return x >= left && x < right && y >= top && y < bottom;
  };
  const button = [...(root?.querySelectorAll("button") ?? [])].findIndex(inside);
  const unit = button >= 0 ? button + 1 : !inside(root?.canvas) ? ALL : root.place?.wide && root.place.high ? CELLS : CANVAS;
  const { left, top, wide, high } = areaOf(unit) ?? { left: 0, top: 0, wide: 1, high: 1 };
  return [unit, (x - left) / wide, (y - top) / high];
}

// Where such a unit begins on the screen, and how large it is.
/** @param {number} unit */
function areaOf(unit) {
  const root = shown && rootIn(shown);
  const node = unit > 0 ? root?.querySelectorAll("button")[unit - 1] : unit === ALL ? shown : root?.canvas;
  if (!node) return undefined;
  const { left, top, width, height } = node.getBoundingClientRect();
  const [zoom, { place }] = [zoomOf(node), root ?? {}];
  if (unit !== CELLS || !place?.wide) return { left, top, wide: width || 1, high: height || 1 };
  return { left: left + zoom * place.left, top: top + zoom * place.top, wide: zoom * place.wide, high: zoom * place.high };
}

// The dot of a teacher's pointer.
/** @param {number[]} pointer */
function pointAt([unit, x, y]) {
  const area = unit === undefined ? undefined : areaOf(unit);
  if (!area) {
    dot?.remove();
    dot = null;
    return;
  }
  dot ??= document.body.appendChild(element("div", "presenting_dot led"));
  dot.style.translate = `${area.left + x * area.wide}px ${area.top + y * area.high}px`;
}

function play() {
  const root = shown && rootIn(shown);
  const film = [root, ...figures().map(rootIn)].find((each) => each?.querySelector(".controls .play"));
  film?.querySelector(".controls .play").click();
}

/** @type {[Set<string>, () => void][]} */
const ACTS = [
  [new Set(["Escape"]), end],
  [BLANK, () => {
    page().toggleAttribute("data-blank");
    tell();
  }],
  [POINTER, togglePointer],
  [new Set([" "]), play],
  [NEXT, () => lead(1)],
  [BEFORE, () => lead(-1)],
  [new Set(["ArrowDown"]), () => step(1)],
  [new Set(["ArrowUp"]), () => step(-1)],
];

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!bar || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = /** @type {Element} */ (event.composedPath()[0]);
  if (target.matches?.("input, select, textarea")) return;
  if (["Enter", " "].includes(event.key) && target.closest?.(".presenting_bar")) return; // its own button
  const act = ACTS.find(([keys]) => keys.has(event.key))?.[1];
  if (!act) return;
  own(act);
  event.preventDefault();
  event.stopPropagation();
}

/** @param {MouseEvent} event */
function onDoubleClick(event) {
  const path = /** @type {HTMLElement[]} */ (event.composedPath());
  if (path.some((each) => each.matches?.("button, input, select, textarea, summary, a"))) return;
  const container = path.find((each) => each.classList?.contains("stElementContainer"));
  if (!container || container.querySelector(".stPlotlyChart") || !container.closest(".stMain") || !isFigure(container)) return;
  getSelection()?.removeAllRanges();
  if (bar) own(end);
  else present(container);
}

let listening = false;

// Once in a window. said: words of the buttons.
/** @param {Record<string, string>} said */
export function listen(said) {
  words = said;
  bus.present = words.figure;
  if (listening) return;
  listening = true;
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("dblclick", onDoubleClick);
  document.addEventListener("pointermove", movePointer);
  window.addEventListener("popstate", () => bar && end());
  window.addEventListener("resize", ({ isTrusted }) => isTrusted && bar && shown && show(shown)); // a phone is turned
}
