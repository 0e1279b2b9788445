// Figures of the page: which of its containers are one, which of them is meant.

import { bus } from "./bus.js";

const NEVER = new Set([ // components that are no figure
  "field", "bar", "lead", "strip", "muted", "menu_of_page", "lesson_acts", "progress_bar", "class_strip", "class_bars", "figure",
]);

// The component's element in a container of the page, or undefined.
/** @param {Element} container @returns {any} */
export const rootIn = (container) => [...container.querySelectorAll("*")].map((each) => each.shadowRoot?.querySelector(".vitrine")).find(Boolean);

/** @param {Element} container */
export function isFigure(container) {
  if (container.closest('.st-key-input_bar, .st-key-lesson, [data-stale="true"]')) return false;
  if (container.querySelector(".stPlotlyChart")) return true;
  const root = rootIn(container);
  return Boolean(root) && root.classList.length > 1 && ![...root.classList].some((name) => NEVER.has(name));
}

/** @returns {HTMLElement[]} */
export const figures = () => [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".stMain .stElementContainer"))].filter(isFigure);

const BESIDE = 40; // pixels by which the tops of figures beside each other differ at most
/** @type {(HTMLElement | string)[]} */
let seen = []; // figures and their keys, in the order in which they stood on the screen

// Keeps the order of the figures as they stand on the screen: row by row, whatever column of the page each is in.
export function keepOrder() {
  const placed = figures().filter(area).map((figure) => ({ figure, box: figure.getBoundingClientRect() }));
  placed.sort(({ box: one }, { box: other }) => (Math.abs(one.top - other.top) > BESIDE ? one.top - other.top : one.left - other.left));
  seen = placed.flatMap(({ figure }) => [figure, keyOf(figure)]);
}

// Figures in the order that was kept: one alone is presented, the others have no place then. A run of the script may have
// made some anew: these are known by their keys.
export function inOrder() {
  /** @param {HTMLElement} figure */
  const place = (figure) => {
    const at = seen.indexOf(figure);
    const again = at < 0 && keyOf(figure) ? seen.indexOf(keyOf(figure)) : at;
    return again < 0 ? seen.length : again;
  };
  return figures().sort((one, other) => place(one) - place(other));
}

/** @param {HTMLElement} figure */
export const area = (figure) => figure.offsetWidth * figure.offsetHeight;

// The figure that a lesson's step is about.
export const namedFigure = () => {
  const here = figures().filter(area);
  return bus.lesson?.figures.map((key) => here.find((each) => keyOf(each).startsWith(key))).find(Boolean);
};

// The large one of these figures, or of their roots, else the one that takes most room.
/** @param {any[]} these @returns {any} */
export function largeOf(these) {
  const all = [...these].sort((one, other) => area(other) - area(one));
  return all.find((each) => (each.shown ?? rootIn(each)?.shown)?.header?.large) ?? all[0];
}

// The figure that a page is about: the one that a lesson names, else its large one.
/** @returns {HTMLElement | undefined} */
export const mainFigure = () => namedFigure() ?? largeOf(figures());

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
export function figureWith(root) {
  const own = /** @type {HTMLElement | undefined} */ (root?.host.closest(".stElementContainer") ?? undefined);
  if (!own || isFigure(own)) return own;
  return figures().find((each) => root?.host.closest(":has(.stPlotlyChart)")?.contains(each));
}

/** @param {Element | null} figure */
export const keyOf = (figure) => [...(figure?.classList ?? [])].find((name) => name.startsWith("st-key-"))?.slice("st-key-".length) ?? "";
