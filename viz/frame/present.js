// Presenting: one figure of the page alone in the window, in type that is read from the last row. Begun from the menu, or by
// a double click on a figure; arrows, page keys and a clicker lead to the next figure, space plays a film, B blanks, Esc ends.

import { element, write } from "../web/elements.js";

const ZOOM = 1.85; // of the page's 13 pixels to 24
const LEAST = 1; // of a figure that is too high otherwise
const MOST = 2.6; // of one that is low
const FULL = 0.6; // of the window, from which a figure is not low
const MARGIN = 24; // beside a figure, in pixels of the screen
const NEVER = new Set(["field", "bar", "lead", "strip", "muted", "menu_of_page", "class_strip", "class_bars"]); // components that are no figure
const NEXT = new Set(["ArrowRight", "ArrowDown", "PageDown", "Enter", "n"]);
const BEFORE = new Set(["ArrowLeft", "ArrowUp", "PageUp", "Backspace", "p"]);
const BLANK = new Set(["b", "B", "."]);

/** @type {HTMLElement | null} */
let shown = null; // the container of the presented figure
/** @type {HTMLElement | null} */
let bar = null;
/** @type {Record<string, string>} */
let words = {};

const page = () => document.documentElement;
export const presenting = () => shown !== null;

// The component's element in a container of the page, or undefined.
/** @param {Element} container @returns {any} */
const rootIn = (container) => [...container.querySelectorAll("*")].map((each) => each.shadowRoot?.querySelector(".vitrine")).find(Boolean);

/** @param {Element} container */
function isFigure(container) {
  if (container.closest(".st-key-input_bar")) return false;
  if (container.querySelector(".stPlotlyChart")) return true;
  const root = rootIn(container);
  return Boolean(root) && root.classList.length > 1 && ![...root.classList].some((name) => NEVER.has(name));
}

/** @returns {HTMLElement[]} */
const figures = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".stMain .stElementContainer"))].filter(isFigure);

/** @param {HTMLElement} figure */
const area = (figure) => figure.offsetWidth * figure.offsetHeight;

function leave() {
  document.querySelectorAll("[data-presented]").forEach((each) => each.removeAttribute("data-presented"));
  if (shown) rootIn(shown)?.classList.remove("presented");
}

// The figure alone: all that is on its way to the page stays, everything beside that goes.
/** @param {HTMLElement} figure */
function show(figure) {
  leave();
  rootIn(figure)?.classList.add("presented"); // its own buttons go
  shown = figure;
  for (let each = /** @type {HTMLElement | null} */ (figure); each && !each.classList.contains("stMain"); each = each.parentElement) {
    each.dataset.presented = each === figure ? "figure" : "around";
  }
  zoom(ZOOM);
  fit(figure, 3);
  const all = figures();
  if (bar) write(bar.querySelector(".place"), `${all.indexOf(figure) + 1} / ${all.length}`);
  document.querySelector(".stMain")?.scrollTo(0, 0);
}

/** @param {number} factor */
function zoom(factor) {
  page().dataset.presenting = String(factor);
  page().style.setProperty("--presenting", String(factor));
  window.dispatchEvent(new Event("resize"));
}

// Smaller where it is higher than the window, larger where it is low; its height at another width is known once it is painted.
/** @param {HTMLElement} figure @param {number} tries */
function fit(figure, tries) {
  setTimeout(() => {
    if (shown !== figure) return;
    const factor = Number(page().dataset.presenting);
    const [high, room] = [figure.getBoundingClientRect().height, innerHeight - 2 * MARGIN];
    const next = high > room ? Math.max(LEAST, factor * Math.max(0.8, room / high)) : Math.min(MOST, factor * 1.25);
    if (!tries || next === factor || (high <= room && high > FULL * room)) return;
    zoom(next);
    fit(figure, tries - 1);
  }, 120);
}

/** @param {number} by */
function step(by) {
  const all = figures();
  const at = all.indexOf(/** @type {HTMLElement} */ (shown));
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))];
  if (next && next !== shown) show(next);
}

// A run of the script may have made the page anew: the same figure by its key, else the first one.
const observer = new MutationObserver(() => {
  if (!shown || shown.isConnected) return;
  const key = [...shown.classList].find((name) => name.startsWith("st-key-"));
  const again = (key && /** @type {HTMLElement | null} */ (document.querySelector(`.stMain .${CSS.escape(key)}`))) || figures()[0];
  if (again) show(again);
  else end();
});

/** @param {HTMLElement} [figure] */
export function present(figure) {
  const first = figure ?? figures().sort((one, other) => area(other) - area(one))[0];
  if (!first) return;
  if (!bar) {
    bar = document.body.appendChild(element("div", "presenting_bar"));
    for (const [name, sign, act] of /** @type {[string, string, () => void][]} */ ([
      ["before", "‹", () => step(-1)], ["place", "", () => {}], ["next", "›", () => step(1)], ["end", "✕", end],
    ])) {
      const part = bar.appendChild(element(name === "place" ? "span" : "button", name, sign));
      if (name === "place") continue;
      part.title = words[name];
      part.setAttribute("aria-label", words[name]);
      part.addEventListener("click", act);
    }
    observer.observe(document.body, { childList: true, subtree: true });
  }
  show(first);
}

export function end() {
  leave();
  for (const name of ["presenting", "blank"]) delete page().dataset[name];
  bar?.remove();
  [shown, bar] = [null, null];
  observer.disconnect();
  window.dispatchEvent(new Event("resize"));
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!shown || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = /** @type {Element} */ (event.composedPath()[0]);
  if (target.matches?.("input, select, textarea")) return;
  if (event.key === "Escape") end();
  else if (BLANK.has(event.key)) page().toggleAttribute("data-blank");
  else if (event.key === " ") rootIn(shown)?.querySelector(".controls .play")?.click();
  else if (NEXT.has(event.key) || BEFORE.has(event.key)) step(NEXT.has(event.key) ? 1 : -1);
  else return;
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
  if (shown) end();
  else present(container);
}

let listening = false;

// Once in a window. said: words of the buttons.
/** @param {Record<string, string>} said */
export function listen(said) {
  words = said;
  if (listening) return;
  listening = true;
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("dblclick", onDoubleClick);
  window.addEventListener("popstate", () => shown && end());
}
