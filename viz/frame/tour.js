// The tour: a lit box around a real control, a sentence, and the next one. It begins where it is asked for, and nothing on the
// page is stopped by it: what is lit can be used. Once seen, the browser remembers, and it is offered no more.

import { element, write } from "../web/elements.js";
import { bus } from "../web/bus.js";
import { mainFigure, rootIn } from "../web/figures.js";
import { openSidebar, SIDEBAR, uncoverPage } from "./sidebar.js";

const FIGURE = "figure"; // in the place of a selector: the largest of the page
const SEEN = "vitrine.tour";
const EDGE = 6; // around what is lit
const GAP = 12; // between that and the card, and between the card and the window's edge
/** @type {{ box: HTMLElement, card: HTMLElement, parts: any, stops: TourStop[], at: number, words: Record<string, string>, before: Element | null, frame: number } | null} */
let tour = null;

export function tourSeen() {
  try {
    return localStorage.getItem(SEEN) !== null;
  } catch {
    return true; // no storage is allowed: it would be offered for ever
  }
}

function remember() {
  try {
    localStorage.setItem(SEEN, "1");
  } catch {
    /* it was not offered */
  }
  bus.dispatchEvent(new Event("toured"));
}

// What a step is about: the first of its controls that has a place on the page, or in the sidebar, open or not; or a part of that.
/** @param {TourStop} stop @returns {HTMLElement | undefined} */
function targetOf({ target, part }) {
  const found = target === FIGURE ? [mainFigure()].filter(Boolean) : [...document.querySelectorAll(target)];
  const parts = part ? found.map((each) => rootIn(each)?.querySelector(part)).filter(Boolean) : found;
  return parts.find((each) => {
    const { width, height } = each.getBoundingClientRect();
    return width > 0 && height > 0;
  });
}

// What a step speaks of lies open, and nothing over it: the sidebar, where its control is in that, and the header.
/** @param {TourStop} [stop] */
function unfold(stop) {
  bus.dispatchEvent(new CustomEvent("toured-header", { detail: Boolean(stop?.header) }));
  if (stop && targetOf(stop)?.closest(SIDEBAR)) openSidebar();
  else uncoverPage();
}

/** @param {any} words */
function build(words) {
  const box = document.body.appendChild(element("div", "tour_box"));
  const card = document.body.appendChild(element("div", "tour_card"));
  const { color, backgroundColor } = getComputedStyle(document.querySelector(".stApp"));
  Object.assign(card.style, { color, backgroundColor });
  box.style.color = color;
  card.setAttribute("role", "dialog");
  card.setAttribute("aria-label", words.tour);
  const sentence = card.appendChild(element("p"));
  sentence.setAttribute("aria-live", "polite");
  const row = card.appendChild(element("div"));
  const [count, skip, back, next] = [row.appendChild(element("span")), .../** @type {const} */ (["skip", "back", "next"]).map((name) => row.appendChild(element("button", name)))];
  /** @type {[HTMLButtonElement, () => void][]} */
  const acts = [[/** @type {any} */ (skip), end], [/** @type {any} */ (back), () => go(-1)], [/** @type {any} */ (next), () => go(1)]];
  for (const [button, act] of acts) {
    button.type = "button";
    button.addEventListener("click", act);
  }
  return { box, card, parts: { sentence, count, skip, back, next } };
}

/** @param {Record<string, string>} words @param {TourStop[]} all */
export function begin(words, all) {
  if (tour) end();
  if (!all.some(targetOf)) return;
  tour = { ...build(words), words, stops: all, at: -1, before: document.activeElement, frame: 0 };
  addEventListener("keydown", onKey, true);
  go(1);
  follow();
}

// Steps whose control is there now: it may come later than the tour begins.
/** @param {TourStop[]} stops */
const places = (stops) => stops.flatMap((stop, place) => (targetOf(stop) ? [place] : []));

// Which of the steps this is, and how many there are.
function count() {
  if (!tour) return;
  const { parts, stops, at, words } = tour;
  const there = places(stops);
  const last = at >= Math.max(...there);
  write(parts.count, `${Math.max(1, there.indexOf(at) + 1)} / ${there.length}`);
  write(parts.skip, words.tour_skip);
  write(parts.back, words.tour_back);
  write(parts.next, last ? words.tour_end : words.tour_next);
  parts.skip.hidden = last;
  parts.back.hidden = at <= there[0];
}

/** @param {number} by */
function go(by) {
  if (!tour) return;
  const { at: before, parts, stops } = tour;
  const there = places(stops);
  const at = by > 0 ? there.find((place) => place > before) : (there.findLast((place) => place < before) ?? before);
  if (at === undefined) return end();
  tour.at = at;
  write(parts.sentence, matchMedia("(pointer: coarse)").matches ? stops[at].touch : stops[at].sentence);
  unfold(stops[at]);
  count();
  const target = targetOf(stops[at]);
  if (target && !inWindow(target)) target.scrollIntoView({ block: "center" });
  parts.next.focus({ preventScroll: true });
}

/** @param {Element} target */
function inWindow(target) {
  const { top, bottom, height } = target.getBoundingClientRect();
  return height > innerHeight ? top < innerHeight / 2 && bottom > innerHeight / 2 : top >= 0 && bottom <= innerHeight;
}

// Where the control is now: pages are drawn anew, and scrolled.
function follow() {
  if (!tour) return;
  const { box, card, stops, at } = tour;
  const target = targetOf(stops[at]);
  box.hidden = !target;
  if (target) place(box, card, target.getBoundingClientRect());
  if (tour.frame % 20 === 0) count();
  tour.frame = requestAnimationFrame(follow);
}

/** @param {HTMLElement} box @param {HTMLElement} card @param {DOMRect} target */
function place(box, card, target) {
  const [left, top] = [Math.max(2, target.left - EDGE), Math.max(2, target.top - EDGE)];
  const [right, bottom] = [Math.min(innerWidth - 2, target.right + EDGE), Math.min(innerHeight - 2, target.bottom + EDGE)];
  Object.assign(box.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  const { offsetWidth: wide, offsetHeight: high } = card;
  /** @param {number} at @param {number} size @param {number} room */
  const inside = (at, size, room) => Math.max(GAP, Math.min(room - size - GAP, at));
  const places = [
    { fits: bottom + GAP + high < innerHeight, x: left, y: bottom + GAP },
    { fits: top - GAP - high > 0, x: left, y: top - GAP - high },
    { fits: right + GAP + wide < innerWidth, x: right + GAP, y: top },
    { fits: left - GAP - wide > 0, x: left - GAP - wide, y: top },
  ];
  const { x, y } = places.find(({ fits }) => fits) ?? { x: right - wide - GAP, y: bottom - high - GAP };
  Object.assign(card.style, { left: `${inside(x, wide, innerWidth)}px`, top: `${inside(y, high, innerHeight)}px` });
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!tour || event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "Escape") end();
  else if (event.key === "ArrowRight" && !typing) go(1);
  else if (event.key === "ArrowLeft" && !typing) go(-1);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function end() {
  if (!tour) return;
  cancelAnimationFrame(tour.frame);
  removeEventListener("keydown", onKey, true);
  tour.box.remove();
  tour.card.remove();
  const { before } = tour;
  tour = null;
  unfold();
  for (const each of document.querySelectorAll(`${SIDEBAR}, ${SIDEBAR} [data-testid="stSidebarContent"]`)) each.scrollTop = 0; // its name and menu are in sight again
  if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  remember();
}
