// A map as lines: queries on the left, keys on the right, between them a line as strong as the weight. A token under the
// pointer keeps its lines alone; beside the tokens that they lead to stands how strong they are. Lengths are CSS pixels.

import { unpack } from "./bytes.js";
import { ending, placeIn } from "./elements.js";
import { significant } from "./numbers.js";
import { DIFFERENCE, signedColour, strengthOf } from "./colours.js";
import { hover } from "./bus.js";
import { endsOf } from "./palettes.js";
import { FONT, shortened } from "./pens.js";
import { buildPlot, cellLines, largeHeight, litOf, paint, paintSoon, showPlot, within } from "./plot.js";

/** @typedef {ReturnType<typeof arrangeLines>} LinesPlace */

const FAINT = 1 / 255; // lines weaker than this share of the scale are not drawn
const LEAST = 0.005; // weaker ones, as a share of the scale, get no number
const ROOM = { widest: 640, token: 10, number: 52, top: 30 };

/** @param {LinesHeader} header @param {number} width @param {number} ratio @param {Measure} measure */
function arrangeLines({ rows, columns, large }, width, ratio, measure) {
  const names = { rows: rows.labels.map(shortened), columns: columns.labels.map(shortened) };
  const most = Math.max(names.rows.length, names.columns.length);
  const usual = Math.max(3, Math.min(24, Math.max(16, 520 / most), 1600 / most));
  const high = large ? Math.max(Math.min(16, usual), Math.min(60, (largeHeight() - ROOM.top) / most)) : usual;
  /** @param {string[]} labels */
  const widest = (labels) => Math.max(...labels.map(measure)) + 2 * ROOM.token;
  const span = Math.min(width, ROOM.widest);
  const start = (width - span) / 2;
  const left = start + ROOM.number + Math.min(0.3 * span, widest(names.rows));
  const right = start + span - ROOM.number - Math.min(0.3 * span, widest(names.columns));
  // The shorter text stands in the middle of the longer one.
  /** @param {string[]} labels */
  const top = (labels) => ROOM.top + ((most - labels.length) * high) / 2;
  const tops = { rows: top(names.rows), columns: top(names.columns) };
  return {
    names, high, left, right, width, start, tops,
    every: Math.max(1, Math.ceil((FONT + 1) / high)),
    y: (/** @type {"rows" | "columns"} */ side, /** @type {number} */ index) => tops[side] + (index + 0.5) * high,
    height: Math.ceil(ROOM.top + most * high + 8),
  };
}

// The token whose lines stand alone: the one under the pointer here, or one lit elsewhere on the page.
/** @param {ShownLines} shown */
function alone({ header, lit = {}, pointed = {} }) {
  const { rows, columns, block = [1, 1] } = header;
  if (pointed.axis) return pointed;
  if (litOf(lit, rows) >= 0) return { axis: "rows", index: Math.floor(litOf(lit, rows) / block[0]) };
  if (litOf(lit, columns) >= 0) return { axis: "columns", index: Math.floor(litOf(lit, columns) / block[1]) };
  return {};
}

/** @param {LinesHeader} header @param {number} value @param {Look} look @param {number} [strength] */
function lineColour({ scale, colour }, value, look, strength = 1) {
  const strong = strengthOf(value, scale);
  if (scale.difference) return signedColour(Math.sign(value) * strong, 1, strength, endsOf(DIFFERENCE, look));
  return `rgba(${colour.join(",")},${(strength * strong).toFixed(3)})`;
}

/** @param {Pen} pen @param {LinesPlace} place @param {ShownLines} view */
function drawLines(pen, place, view) {
  const { header, values, visible, chosen } = view;
  const { rows, columns, scale } = header;
  const { names, left, right, y, every, high, start } = place;
  const { axis, index } = alone(view);
  const ends = [left - ROOM.token, right + ROOM.token];
  pen.text(rows.title, start, 9, {});
  pen.text(columns.title, place.width - start, 9, { align: "right" });
  /** @param {number} row @param {number} column */
  const drawn = (row, column) => {
    const cell = row * names.columns.length + column;
    if (visible[cell] !== 1 || !(strengthOf(values[cell], scale) >= FAINT)) return;
    pen.line([[left, y("rows", row)], [right, y("columns", column)]], { colour: lineColour(header, values[cell], pen.look), width: axis ? 2.5 : 2 });
    if (axis === "rows") beside("columns", column, values[cell]);
    if (axis === "columns") beside("rows", row, values[cell]);
  };
  // Behind a token at the other end of a line, and as a number: how strong that is.
  /** @param {"rows" | "columns"} side @param {number} at @param {number} value */
  const beside = (side, at, value) => {
    const [from, to, edge] = side === "columns" ? [right, place.width - start, place.width - start - 4] : [start, left, start + 4];
    pen.box(from, y(side, at) - high / 2, to - from, high - 1, lineColour(header, value, pen.look, 0.45));
    if (at % every || (!scale.floor && strengthOf(value, scale) < LEAST)) return;
    pen.text(significant(value), edge, y(side, at), { align: side === "columns" ? "right" : "left" });
  };
  for (let row = 0; row < names.rows.length; row++) {
    if (axis === "rows" && row !== index) continue;
    for (let column = 0; column < names.columns.length; column++) {
      if (axis !== "columns" || column === index) drawn(row, column);
    }
  }
  /** @param {string} name @param {"rows" | "columns"} side @param {number} at */
  const label = (name, side, at) => {
    const marked = axis === side && at === index;
    if (at % every && !marked) return;
    const align = side === "rows" ? "right" : "left";
    pen.text(name, ends[side === "rows" ? 0 : 1], y(side, at), { align, marked, strong: side === "rows" && at === chosen, token: true });
  };
  names.rows.forEach((name, at) => label(name, "rows", at));
  names.columns.forEach((name, at) => label(name, "columns", at));
}

// The token under the pointer: on the left half of the picture a query, on the right a key.
/** @param {PlotRoot<LinesPlace, ShownLines>} root @param {Pointed} event */
function tokenAt({ place, canvas }, event) {
  const [x, y] = placeIn(canvas, event);
  const axis = x < (place.left + place.right) / 2 ? "rows" : "columns";
  const index = Math.floor((y - place.tops[axis]) / place.high);
  return index >= 0 && index < place.names[axis].length ? { axis, index } : {};
}

/** @param {PlotRoot<LinesPlace, ShownLines>} root @param {Pointed} [event] */
function pointLine(root, event) {
  const { rows, columns, block = [1, 1] } = root.shown.header;
  const found = event ? tokenAt(root, event) : {};
  root.pointed = found;
  hover(rows.side, found.axis === "rows" ? found.index * block[0] : -1);
  if (columns.side !== rows.side) hover(columns.side, found.axis === "columns" ? found.index * block[1] : -1);
  root.canvas.style.cursor = found.axis === "rows" ? "pointer" : "";
  paintSoon(root);
}

/** @param {PlotRoot<LinesPlace, ShownLines>} root @param {Pointed} event */
function clickLine(root, event) {
  const { axis, index } = tokenAt(root, event);
  if (axis !== "rows") return;
  root.shown.chosen = index;
  paint(root);
  root.choose(index * (root.shown.header.block?.[0] ?? 1));
}

// The next token of a side, or the one beside it on the other.
/** @param {PlotRoot<LinesPlace, ShownLines>} root @param {any} from @param {number} right @param {number} down */
function walkLines({ place }, from, right, down) {
  /** @type {"rows" | "columns"} */
  const axis = right < 0 ? "rows" : right > 0 ? "columns" : (from?.axis ?? "rows");
  const index = within((from?.index ?? 0) + down, place.names[axis].length);
  return { axis, index, x: axis === "rows" ? place.left - ROOM.token : place.right + ROOM.token, y: place.y(axis, index) };
}

/** @type {PlotKind<LinesPlace, ShownLines>} */
const LINES = {
  arrange: arrangeLines, draw: drawLines, point: pointLine, click: clickLine, walk: walkLines, lines: cellLines,
  sides: ({ rows, columns }) => [rows.side, columns.side],
};

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildPlot(parentElement, "lines", LINES);
  /** @type {LinesHeader & Behind} */
  const header = unpack(data);
  const [values, visible] = header.arrays;
  root.choose = (/** @type {number} */ row) => setTriggerValue("row", row);
  root.explain = () => setTriggerValue("about", performance.now());
  showPlot(root, { header, values, visible, chosen: header.chosen });
  return ending(root);
}
