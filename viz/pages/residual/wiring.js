// Blocks as wires: what a block does to the stream, from left to right, with the way past it above. Each row is one way
// of placing the norm; the row of the loaded model is framed. Lengths are CSS pixels.

import { unpack } from "../../web/bytes.js";
import { ending } from "../../web/elements.js";
import { channels, SERIES } from "../../web/colours.js";
import { MARK } from "../../web/pens.js";
import { buildPlot, showPlot } from "../../web/plot.js";

const ROW = { name: 20, formula: 20, bypass: 26, box: 30, beside: 46, gap: 22 };
const [NORM, SUBLAYER] = SERIES.map((colour) => `rgba(${channels(colour).join(",")},0.31)`);
const KINDS = { norm: NORM, sublayer: SUBLAYER, dropout: "rgba(128,128,128,0.20)", sum: "rgba(0,0,0,0)" };

/** @param {WiringHeader} header @param {number} width */
function arrangeWiring({ rows }, width) {
  const tall = ROW.name + ROW.formula + ROW.bypass + ROW.box;
  let top = 4;
  const places = rows.map(({ beside }) => {
    const bottom = top + tall + (beside ? ROW.beside : 0);
    const place = { top, line: top + ROW.name + ROW.formula + ROW.bypass + ROW.box / 2, bottom };
    top = bottom + ROW.gap;
    return place;
  });
  return { places, width, height: Math.ceil(top - ROW.gap + 12) };
}

/** @param {Pen} pen @param {number} from @param {number} to @param {number} y @param {string} [colour] */
function arrow(pen, from, to, y, colour) {
  pen.line([[from, y], [to, y]], { colour });
  pen.line([[to - 5, y - 4], [to, y], [to - 5, y + 4]], { colour });
}

/** @param {Pen} pen @param {ReturnType<typeof arrangeWiring>} place @param {{ header: WiringHeader }} shown */
function drawWiring(pen, { places, width }, { header }) {
  header.rows.forEach((row, index) => {
    const { top, line, bottom } = places[index];
    if (row.own) pen.frame(1, top - 3, width - 3, bottom - top + 12, { width: 2, colour: MARK });
    pen.text(row.name, 10, top + 10, { strong: true });
    pen.text(row.formula, 10, top + 30, {});
    const parts = row.boxes.length;
    const step = (width - 56) / parts;
    const wide = Math.min(104, step - 12);
    /** @param {number} place */
    const middle = (place) => 32 + step * (place + 0.5);
    /** @param {number} place */
    const half = (place) => (row.boxes[place].kind === "sum" ? 9 : wide / 2);
    pen.text("x", 14, line, { token: true });
    /** @param {WireHeader[]} boxes @param {number} y */
    const chain = (boxes, y) => boxes.forEach(({ text, kind }, place) => {
      const [x, reach] = [middle(place), half(place)];
      const before = place ? middle(place - 1) + half(place - 1) : 26;
      arrow(pen, before, x - reach, y);
      if (kind === "sum") {
        pen.frame(x - 8.5, y - 8.5, 18, 18, {});
        pen.text("+", x, y, { align: "center", strong: true });
      } else {
        pen.box(x - reach, y - ROW.box / 2, 2 * reach, ROW.box, KINDS[kind]);
        pen.text(text, x, y, { align: "center" });
      }
    });
    chain(row.boxes, line);
    if (row.beside) {
      chain(row.beside, line + ROW.beside);
      drawBeside(pen, row, line, middle, wide);
    }
    arrow(pen, middle(parts - 1) + half(parts - 1), width - 12, line);
    if (row.past) drawPast(pen, row, line, middle);
  });
}

// The way past the block: from the stream to the sum, through a norm where the wrong form puts one.
/** @param {Pen} pen @param {WiringRow} options @param {number} line @param {(place: number) => number} middle */
function drawPast(pen, { past, boxes }, line, middle) {
  const [end, above] = [middle(boxes.findIndex(({ kind }) => kind === "sum")), line - ROW.box / 2 - 16];
  const [centre, half] = [(28 + end) / 2, past === "bare" ? 0 : 44];
  pen.line([[28, line], [28, above], [centre - half, above]], {});
  pen.line([[centre + half, above], [end, above], [end, line - 9]], {});
  pen.line([[end - 4, line - 14], [end, line - 9], [end + 4, line - 14]], {});
  if (past === "bare") return;
  pen.box(centre - half, above - 10, 2 * half, 20, KINDS.norm);
  pen.text(past, centre, above, { align: "center" });
}

// A second block that reads the same x: from the stream to its boxes below, and from them up to the last sum.
/**
 * @param {Pen} pen @param {any} given @param {number} line @param {(place: number) => number} middle
 * @param {number} wide
 */
function drawBeside(pen, { boxes, beside }, line, middle, wide) {
  const end = middle(boxes.findLastIndex((/** @type {any} */ { kind }) => kind === "sum"));
  const y = line + ROW.beside;
  pen.line([[28, line], [28, y], [30, y]], {});
  pen.line([[middle(beside.length - 1) + wide / 2, y], [end, y], [end, line + 9]], {});
  pen.line([[end - 4, line + 14], [end, line + 9], [end + 4, line + 14]], {});
}

const WIRING = {
  arrange: arrangeWiring,
  draw: drawWiring,
  point: () => {},
  click: () => {},
  lines: (/** @type {{ header: WiringHeader }} */ { header }) => [header.words.csv, ...header.rows.map(({ name, formula, own }) => [name, formula, String(own)])],
  sides: () => [],
};

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildPlot(parentElement, "wiring", WIRING);
  root.explain = () => setTriggerValue("about", performance.now());
  showPlot(root, { header: unpack(data) });
  return ending(root);
}
