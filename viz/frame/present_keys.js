// Keys and the double click of a presentation: arrows, page keys and a clicker lead to the next figure, in a lesson to its next step;
// space plays a film, B blanks, L is a pointer, Esc ends.

import { isFigure } from "../web/figures.js";
import { end, lead, own, play, point, present, presenting, step, toggleBlank } from "./present.js";

const NEXT = new Set(["ArrowRight", "PageDown", "Enter", "n"]);
const BEFORE = new Set(["ArrowLeft", "PageUp", "Backspace", "p"]);
const BLANK = new Set(["b", "B"]);
const POINTER = new Set(["l", "L", "."]);

/** @type {[Set<string>, () => void][]} */
const ACTS = [
  [new Set(["Escape"]), end],
  [BLANK, toggleBlank],
  [POINTER, point],
  [new Set([" "]), play],
  [NEXT, () => lead(1)],
  [BEFORE, () => lead(-1)],
  [new Set(["ArrowDown"]), () => step(1)],
  [new Set(["ArrowUp"]), () => step(-1)],
];

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!presenting() || event.ctrlKey || event.metaKey || event.altKey) return;
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
  if (presenting()) own(end);
  else present(container);
}

// Once in a window, however often it is asked for.
export function listenToKeys() {
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("dblclick", onDoubleClick);
}
