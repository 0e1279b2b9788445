// The pointer of a presentation: a large soft dot, which a class sees in the same place of the same figure.

import { element, zoomOf } from "../web/elements.js";
import { rootIn } from "../web/figures.js";

/** @type {HTMLElement | null} */
let dot = null;
/** @type {number[]} */
let spot = []; // see spotAt
let [mouseX, mouseY] = [0, 0]; // where the mouse was last

export const pointer = () => spot;

// A large soft dot where the mouse is, which is seen from the last row.
export function togglePointer() {
  if (dot) return removePointer();
  dot = document.body.appendChild(element("div", "presenting_dot"));
}

export function removePointer() {
  dot?.remove();
  dot = null;
  spot = [];
}

// Whether there is one to be moved.
/** @param {PointerEvent} event @param {Element | null} figure */
export function movePointer({ clientX, clientY }, figure) {
  if (!dot) return false;
  dot.style.translate = `${clientX}px ${clientY}px`;
  [mouseX, mouseY] = [clientX, clientY];
  return placePointer(figure);
}

// The same place of the window is another one of another figure.
/** @param {Element | null} figure */
export function placePointer(figure) {
  if (dot) spot = spotAt(mouseX, mouseY, figure);
  return dot !== null;
}

// Where a pointer is in the presented figure, whatever the size of that is: in cells of a map, else in shares of what is under it: the
// canvas, a button, counted from 1, or all of the figure.
const [CELLS, CANVAS, ALL] = [-2, -1, 0];

/** @param {number} x @param {number} y @param {Element | null} figure */
function spotAt(x, y, figure) {
  if (!figure) return [];
  const root = rootIn(figure);
  const inside = (/** @type {Element | undefined} */ each) => {
    const { left, top, right, bottom } = each?.getBoundingClientRect() ?? new DOMRect();
    return x >= left && x < right && y >= top && y < bottom;
  };
  const button = [...(root?.querySelectorAll("button") ?? [])].findIndex(inside);
  const unit = button >= 0 ? button + 1 : !inside(root?.canvas) ? ALL : root.place?.wide && root.place.high ? CELLS : CANVAS;
  const { left, top, wide, high } = areaOf(unit, figure) ?? { left: 0, top: 0, wide: 1, high: 1 };
  return [unit, (x - left) / wide, (y - top) / high];
}

// Where such a unit begins on the screen, and how large it is.
/** @param {number} unit @param {Element | null} figure */
function areaOf(unit, figure) {
  const root = figure && rootIn(figure);
  const node = unit > 0 ? root?.querySelectorAll("button")[unit - 1] : unit === ALL ? figure : root?.canvas;
  if (!node) return undefined;
  const { left, top, width, height } = node.getBoundingClientRect();
  if (!width || !height) return undefined;
  const [zoom, { place }] = [zoomOf(node), root ?? {}];
  if (unit !== CELLS || !place?.wide) return { left, top, wide: width, high: height };
  return { left: left + zoom * place.left, top: top + zoom * place.top, wide: zoom * place.wide, high: zoom * place.high };
}

// The dot of a teacher's pointer.
/** @param {number[]} pointer @param {Element | null} figure */
export function pointAt([unit, x, y], figure) {
  const area = unit === undefined ? undefined : areaOf(unit, figure);
  if (!area) return removePointer();
  dot ??= document.body.appendChild(element("div", "presenting_dot led"));
  dot.style.translate = `${area.left + x * area.wide}px ${area.top + y * area.high}px`;
}
