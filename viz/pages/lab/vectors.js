// Vectors in the plane that are dragged by their tips, or moved with the arrow keys. The first is the query, the others
// are keys; dotted lines lead from each key to its shadow on the query's line. Lengths are CSS pixels.

import { unpack } from "../../web/bytes.js";
import { element, ending, labelled, shorten } from "../../web/elements.js";
import { ARROWS, buildPlot, paint, showPlot } from "../../web/plot.js";

const REACH = 4; // units from the origin to the nearest edge
const STEP = 0.1; // of an arrow key; with Shift ten times as far
const OFTEN = 80; // milliseconds between two messages while a tip is dragged
const HANDLE = 26;

/** @param {VectorsHeader} header @param {number} width */
function arrangeVectors({ tall = 340 }, width) {
  const height = Math.min(tall, Math.max(240, width));
  const unit = Math.min(width, height) / (2 * REACH);
  const [x, y] = [width / 2, height / 2];
  const across = width / 2 / unit;
  return { width, height, unit, across, at: (/** @type {Point} */ [right, up]) => [x + right * unit, y - up * unit] };
}

/** @param {Pen} pen @param {any} place @param {Point} vector @param {string} colour @param {string} name */
function drawArrow(pen, place, vector, colour, name) {
  const [from, to] = [place.at([0, 0]), place.at(vector)];
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  pen.line([from, to], { colour, width: 2.6 });
  const [right, up] = length ? [(to[0] - from[0]) / length, (to[1] - from[1]) / length] : [1, 0];
  /** @param {number} turn */
  const barb = (turn) => [to[0] - 11 * right + turn * 5 * up, to[1] - 11 * up - turn * 5 * right];
  pen.line([barb(1), to, barb(-1)], { colour, width: 2.6 });
  pen.dot(to[0], to[1], 5, colour);
  pen.text(name, to[0] + 13 * (right < 0 ? -1 : 1), to[1] - 12 * (up > 0.3 ? -1 : 1), { strong: true, size: 14, align: right < 0 ? "right" : "left" });
}

/** @param {Pen} pen @param {any} place @param {{ header: VectorsHeader }} options */
function drawVectors(pen, place, { header }) {
  const edge = Math.floor(place.across);
  for (let at = -edge; at <= edge; at++) pen.line([place.at([at, -REACH]), place.at([at, REACH])], { width: 1, faint: true });
  for (let at = -REACH; at <= REACH; at++) pen.line([place.at([-place.across, at]), place.at([place.across, at])], { width: 1, faint: true });
  pen.line([place.at([-place.across, 0]), place.at([place.across, 0])], { width: 1 });
  pen.line([place.at([0, -REACH]), place.at([0, REACH])], { width: 1 });
  const [query, ...keys] = header.vectors;
  const size = query.place[0] ** 2 + query.place[1] ** 2;
  for (const { place: key, colour } of size ? keys : []) {
    const share = (key[0] * query.place[0] + key[1] * query.place[1]) / size;
    const foot = [share * query.place[0], share * query.place[1]];
    pen.line([place.at(key), place.at(foot)], { colour, dash: [2, 4], width: 1.2 });
    pen.line([place.at([0, 0]), place.at(foot)], { colour: query.colour, dash: [5, 4], width: 1 });
  }
  for (const { place: vector, colour, name } of header.vectors) drawArrow(pen, place, vector, colour, name);
}

/** @param {number} value */
const rounded = (value) => Math.round(value * 20) / 20;
/** @param {PlotRoot} root @param {Point} options */
const limited = ({ place: { across } }, [right, up]) => [
  rounded(Math.max(-across + 0.2, Math.min(across - 0.2, right))), rounded(Math.max(-REACH + 0.2, Math.min(REACH - 0.2, up))),
];

/** @param {VectorsHeader} header */
const placesOf = ({ vectors }) => String(vectors.map(({ place }) => place));

// Whether these places are older than what has been told since: answers come late, and some are skipped.
/** @param {PlotRoot} root @param {string} incoming */
function isBehind(root, incoming) {
  const answered = root.asked.indexOf(incoming);
  if (answered >= 0) root.asked.splice(0, answered + 1);
  else if (incoming !== root.answered) root.asked = []; // it came from elsewhere, as from a button
  root.answered = incoming;
  return root.asked.length > 0;
}

/** @param {PlotRoot} root @param {boolean} [at_once] */
function tell(root, at_once) {
  const send = () => {
    root.sent = performance.now();
    root.waiting = undefined;
    root.asked.push(placesOf(root.shown.header));
    root.move(root.shown.header.vectors.map((/** @type {any} */ { place }) => place).flat());
  };
  clearTimeout(root.waiting);
  const left = OFTEN - (performance.now() - (root.sent ?? 0));
  if (at_once || left <= 0) send();
  else root.waiting = setTimeout(send, left);
}

/** @param {PlotRoot} root @param {number} index @param {Point} place @param {boolean} [at_once] */
function moveTo(root, index, place, at_once) {
  root.shown.header.vectors[index].place = limited(root, place);
  paint(root);
  tell(root, at_once);
}

/** @param {PlotRoot} root @param {number} index */
function newHandle(root, index) {
  const made = element("div", "handle");
  made.tabIndex = 0;
  made.setAttribute("role", "slider");
  /** @param {Pointed} event */
  const from = (event) => {
    const { left, top } = root.canvas.getBoundingClientRect();
    const { unit, width, height } = root.place;
    return [(event.clientX - left - width / 2) / unit, (height / 2 - (event.clientY - top)) / unit];
  };
  made.addEventListener("pointerdown", (event) => {
    made.setPointerCapture(event.pointerId);
    root.dragged = index;
  });
  made.addEventListener("pointermove", (event) => root.dragged === index && moveTo(root, index, from(event)));
  const end = () => {
    if (root.dragged === index) tell(root, true);
    root.dragged = undefined;
  };
  made.addEventListener("pointerup", end);
  made.addEventListener("pointercancel", end);
  made.addEventListener("keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow) return;
    event.preventDefault(); // the page does not scroll
    const [right, up] = root.shown.header.vectors[index].place;
    const far = STEP * (event.shiftKey ? 10 : 1);
    moveTo(root, index, [right + far * arrow[0], up - far * arrow[1]]);
  });
  return made;
}

// The handles lie over the tips of the arrows.
/** @param {PlotRoot} root */
function placeHandles(root) {
  const { vectors, words } = root.shown.header;
  shorten(root.handles, vectors.length);
  while (root.handles.children.length < vectors.length) root.handles.append(newHandle(root, root.handles.children.length));
  vectors.forEach((/** @type {any} */ { name, place }, /** @type {number} */ index) => {
    const [x, y] = root.place.at(place);
    const made = root.handles.children[index];
    made.style.transform = `translate(${x - HANDLE / 2}px, ${root.canvas.offsetTop + y - HANDLE / 2}px)`;
    made.setAttribute("aria-label", labelled(name, words.drag));
    made.setAttribute("aria-valuenow", Math.hypot(...place).toFixed(2));
    made.setAttribute("aria-valuetext", `(${place.map((/** @type {any} */ each) => each.toFixed(2)).join(", ")})`);
    made.title = words.drag;
  });
}

const VECTORS = {
  arrange: arrangeVectors,
  draw: drawVectors,
  placed: placeHandles,
  point: () => {},
  click: () => {},
  lines: (/** @type {{ header: VectorsHeader }} */ { header }) => [header.words.csv, ...header.vectors.map(({ name, place }) => [name, ...place.map(String)])],
  sides: () => [],
};

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = buildPlot(parentElement, "vectors", VECTORS);
    root.handles = root.appendChild(element("div", "handles"));
    root.asked = [];
  }
  root.move = (/** @type {any} */ places) => setTriggerValue("move", { places });
  root.explain = () => setTriggerValue("about", performance.now());
  /** @type {VectorsHeader & Behind} */
  const header = unpack(data);
  // What is being moved is ahead of what comes back.
  const ahead = isBehind(root, placesOf(header)) || root.dragged !== undefined || root.waiting !== undefined;
  if (ahead) header.vectors.forEach((/** @type {any} */ vector, /** @type {number} */ index) => (vector.place = root.shown.header.vectors[index].place));
  showPlot(root, { header });
  return ending(root);
}
