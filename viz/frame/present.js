// Presenting: one figure of the page alone in the window, in type that is read from the last row; beside it the text of a
// lesson's step, where one is open. Begun from the menu, the lesson, or by a double click on a figure; its keys: present_keys.js.
// A window that follows a teacher's presents what that does, and shows its pointer.

import { bus } from "../web/bus.js";
import { element, write } from "../web/elements.js";
import { area, figures, figureWith, inOrder, keepOrder, keyOf, mainFigure, namedFigure, rootIn } from "../web/figures.js";
import { movePointer, placePointer, pointAt, pointer, removePointer, togglePointer } from "./present_pointer.js";
import { showText } from "./present_text.js";
import { uncoverPage } from "./sidebar.js";

const ZOOM = 1.85; // of the page's 13 pixels to 24
const OF_HEADS = 1.4; // of thumbnails, where large maps count more than the words above them
const LOW = 800; // pixels of a window in which a large map's words are no larger than those over thumbnails
const LEAST = 1; // of a figure that is too high otherwise
const MOST = 3.6; // of one that is low
const PHONE = "(max-width: 640px)"; // no wider: a figure has the size that it has on the page, and is seen whole
const IN_HAND = 1.4; // the most there of numbers and of small maps, which find room below each other
const FULL = 0.7; // of the window, from which a figure is not low
const TRIES = 7; // of zooms until one fits
const MARGIN = 24; // beside a figure, in pixels of the screen
const SETTLES = 150; // milliseconds between looks for the figure of a page that is being made
const LEAST_AREA = 10_000; // of a figure that is drawn
const PATIENCE = 20_000; // of such looks
const NAMED = 2000; // milliseconds of looks for the figure that a lesson names
const RETURNS = 1000; // milliseconds in which a page has its heights again
const TWICE = 600; // milliseconds in which a second press is of the same double one
const SAYS = 2500; // how long a sentence about the last figure stays

/** @type {HTMLElement | null} */
let shown = null; // the container of the presented figure
/** @type {HTMLElement | null} */
let bar = null; // there while something is presented
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

const page = () => document.documentElement;
export const presenting = () => bar !== null;

function leave() {
  document.querySelectorAll("[data-presented]").forEach((each) => each.removeAttribute("data-presented"));
  if (!shown) return;
  rootIn(shown)?.classList.remove("presented");
  shown.style.marginTop = "";
  delete shown.dataset.tooHigh;
  delete shown.dataset.tooWide;
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
  zoom(Math.min(low || root?.classList.contains("heads") ? OF_HEADS : ZOOM, most(figure)));
  figure.style.marginTop = "";
  if (!figure.querySelector(".stPlotlyChart")) fit(figure, TRIES); // it has the size of the window, see frame.css
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
  const all = inOrder();
  const [at, lesson] = [all.indexOf(/** @type {HTMLElement} */ (shown)) + 1, bus.lesson];
  const place = lesson ? lesson.place : `${at} / ${all.length}`;
  write(bar.querySelector(".place"), sentence || place);
  bar.classList.toggle("says", Boolean(sentence));
  const [first, last] = lesson ? [lesson.step === 0, lesson.step === lesson.count - 1] : [at <= 1, at === all.length];
  for (const [name, ends] of /** @type {[string, boolean][]} */ ([["before", first], ["next", last]])) {
    bar.querySelector(`.${name}`)?.classList.toggle("ends", ends); // pressed, it says so
  }
  if (sentence) setTimeout(() => say(""), SAYS);
}

/** @param {number} factor */
function zoom(factor) {
  page().dataset.presenting = String(factor);
  page().style.setProperty("--presenting", String(factor));
  window.dispatchEvent(new Event("resize"));
  if (led && bus.screen) pointAt(bus.screen.pointer, shown);
}

/** @param {HTMLElement} figure */
function most(figure) {
  if (!matchMedia(PHONE).matches) return MOST;
  const root = rootIn(figure);
  return root?.matches(".panels") || root?.querySelector("table") ? IN_HAND : LEAST;
}

// A table, say, that would have to be scrolled sideways.
/** @param {HTMLElement} figure */
const isTooWide = (figure) => [...(rootIn(figure)?.querySelectorAll(".scroll") ?? [])].some(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1);

// Smaller where it is higher than the window, larger where it is low; its height at another width is known once it is
// painted. What stays low stands in the middle.
/** @param {HTMLElement} figure @param {number} tries */
function fit(figure, tries) {
  setTimeout(() => {
    if (shown !== figure || !bar) return;
    const factor = Number(page().dataset.presenting);
    const [high, room] = [figure.getBoundingClientRect().height, innerHeight - (bus.covered ?? 0) - 2 * MARGIN];
    const tooWide = factor > LEAST && isTooWide(figure);
    if (tooWide) figure.dataset.tooWide = "";
    const over = tooWide ? 0.9 : room / high;
    const next = over < 1 ? Math.max(LEAST, factor * Math.max(0.8, over)) : Math.min(most(figure), factor * 1.15);
    const fits = over >= 1 && ("tooWide" in figure.dataset || high > FULL * room || factor === most(figure) || figure.dataset.tooHigh === String(next));
    if (!tries || next === factor || fits) {
      figure.style.marginTop = `${Math.max(0, (room - high) / 2) / factor}px`;
      delete figure.dataset.tooHigh;
      delete figure.dataset.tooWide;
      if (led && bus.screen) pointAt(bus.screen.pointer, shown);
      else if (placePointer(shown)) tell();
      return;
    }
    if (high > room) figure.dataset.tooHigh = String(factor);
    zoom(next);
    fit(figure, tries - 1);
  }, 120);
}

// The next figure of the page, or the one before; the last says that it is.
/** @param {number} by */
export function step(by) {
  const all = inOrder();
  const at = all.indexOf(/** @type {HTMLElement} */ (shown));
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))];
  if (next && next !== shown) show(next);
  else say(by > 0 ? words.last : words.first);
}

// In a lesson its next step, else the next figure.
/** @param {number} by */
export function lead(by) {
  const { lesson } = bus;
  if (!lesson) return step(by);
  const wanted = lesson.step + by;
  if (wanted < 0 || wanted >= lesson.count) return say(by > 0 ? words.lastStep : words.firstStep);
  lesson.go(wanted);
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
      keepOrder();
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
// Of thumbnails that are presented one was pressed: it is seen large. A lesson's step keeps its figure, its question is about that.
bus.addEventListener("chosen", (/** @type {any} */ { detail }) => {
  const large = figures().find((each) => detail.includes(keyOf(each)));
  if (!bar || led || bus.lesson || !large) return;
  addEventListener("dblclick", (event) => event.stopPropagation(), { capture: true, signal: AbortSignal.timeout(TWICE) }); // it would end
  show(large);
});
bus.addEventListener("lesson", () => {
  if (!bar) return;
  showText(bus.lesson, led);
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
    keepOrder();
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
  showText(bus.lesson, led);
}

// Whoever does something himself while he is led looks around alone.
/** @param {() => void} act */
export function own(act) {
  if (!led) return act();
  end();
  bus.dispatchEvent(new Event("alone"));
}

// What this window presents, for those who follow it.
/** @returns {Omit<TeacherScreen, "step">} */
export const presentation = () => ({
  figure: bar ? keyOf(shown) : "",
  place: bar ? number : -1,
  blank: page().hasAttribute("data-blank"),
  pointer: pointer(),
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
  const before = led;
  led = true;
  if (!bar) begin();
  else if (!before) showText(bus.lesson, led);
  bar?.classList.add("led");
  if (figure !== shown) show(figure);
  page().toggleAttribute("data-blank", screen.blank);
  pointAt(screen.pointer, shown);
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
  for (const name of ["presenting", "blank", "presentingWait"]) delete page().dataset[name];
  clearTimeout(waiting);
  showText();
  removePointer();
  bar?.remove();
  bar = shown = null;
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

export function toggleBlank() {
  page().toggleAttribute("data-blank");
  tell();
}

export function point() {
  togglePointer();
  tell();
}

export function play() {
  const root = shown && rootIn(shown);
  const film = [root, ...figures().map(rootIn)].find((each) => each?.querySelector(".controls .play"));
  film?.querySelector(".controls .play").click();
}

let listening = false;

// Once in a window. said: words of the buttons.
/** @param {Record<string, string>} said */
export function listen(said) {
  words = said;
  bus.present = words.present;
  if (listening) return;
  listening = true;
  document.addEventListener("pointermove", (event) => !led && movePointer(event, shown) && tell());
  window.addEventListener("popstate", () => bar && end());
  window.addEventListener("resize", ({ isTrusted }) => isTrusted && bar && shown && show(shown)); // a phone is turned
}
