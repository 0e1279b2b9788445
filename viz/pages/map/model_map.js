// The whole model as one picture: a canvas, over it a button for each block and each head, beside it a panel that says
// what the block under the pointer is. A keystroke moves the buttons that are there already.

import { unpack } from "../../web/bytes.js";
import { cleared, element, ending, newRoot, placeIn, shorten, write } from "../../web/elements.js";
import { about, significant } from "../../web/numbers.js";
import { paletteOf } from "../../web/palettes.js";
import { appearance, onTheme } from "../../web/pens.js";
import { bus, hold, hover } from "../../web/bus.js";
import { shown } from "../../web/chips.js";
import { buildPlot, paint, showPlot } from "../../web/plot.js";
import { arrangeMap, covered, isAttention, sidesOf, SPACE } from "./map_layout.js";
import { drawMap, LEVELS, ODD_LEVEL, paintPictures, SCALES, thumbsOf } from "./map_drawing.js";

/** @param {any} given */
function mapLines({ header }) {
  return [header.words.csv, ...header.blocks.flatMap((/** @type {any} */ { name, lines }) => lines.map((/** @type {number[]} */ [label, text]) => [name, label, text]))];
}

// The token chip under the pointer.
/** @param {PlotRoot} root @param {Pointed} event */
function chipAt({ place, canvas }, event) {
  const [x, y] = placeIn(canvas, event);
  /** @param {any} chip */
  const inside = (chip) => x >= chip.x && x < chip.x + chip.width && y >= chip.y && y < chip.y + SPACE.chip;
  return place.stacks.flatMap((/** @type {any} */ { chips }) => chips).find(inside);
}

/** @param {PlotRoot} root @param {Pointed} event */
function pointMap(root, event) {
  const chip = event && chipAt(root, event);
  if (root.chip && root.chip !== chip) hover(root.chip.side, -1);
  root.chip = chip;
  if (chip) hover(chip.side, chip.position);
  root.canvas.style.cursor = chip ? "pointer" : "";
}

/** @param {PlotRoot} root @param {Pointed} event */
function clickMap(root, event) {
  const chip = chipAt(root, event);
  if (!chip) return root.show(null);
  hold(chip.side, chip.position, chip.label);
  if (chip.side === root.shown.header.predictions.side) root.tell("token", { side: chip.side, position: chip.position });
}

// Every block and every head as a place of the picture: blocks first, heads lie over theirs.
/** @param {any} place @param {any} shown */
function areasOf({ stacks, settings }, { header }) {
  /** @type {any[]} */
  const blocks = [];
  /** @type {any[]} */
  const heads = [];
  for (const { rows, rail } of stacks) {
    for (const row of rows) {
      for (const item of row.items) {
        const { number, block, x, y, width, height } = item;
        const small = block.kind === "residual";
        blocks.push({ number, head: null, box: small ? [x, y + height / 2 - 8, 16, 16] : [x, y, width, height] });
        if (!isAttention(block.kind)) continue;
        thumbsOf(item, header.pictures[number].shape[0]).forEach(([left, top, size], head) =>
          heads.push({ number, head, box: [left, top, size, size] }),
        );
      }
      if (row.onRail) blocks.push({ number: row.residual, head: null, box: [rail - 8, row.top - 0.4 * settings.gap - 8, 16, 16] });
    }
  }
  return [...blocks, ...heads];
}

/** @param {PlotRoot} root */
function newArea(root) {
  const made = /** @type {any} */ (element("button"));
  made.type = "button";
  // Not of a finger: the panel would come between it and what it touches, and there would be no click.
  made.addEventListener("pointerenter", (/** @type {PointerEvent} */ event) => event.pointerType !== "touch" && root.show(made.area));
  made.addEventListener("focus", () => made.matches(":focus-visible") && root.show(made.area));
  made.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => made.area.head !== null && pointCell(root, made, event));
  made.addEventListener("pointerleave", () => made.area.head !== null && leaveCell(root));
  made.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => (root.firstTouch = event.pointerType === "touch" && root.pressed?.number !== made.area.number));
  made.addEventListener("click", () => {
    // A finger has no hover: its first touch shows the block, the second, wherever in it, opens what it is on.
    root.pressed = { ...made.area, byFinger: root.firstTouch };
    root.show(made.area);
    if (root.firstTouch) uncover(root, made);
    else root.open(made.area);
    root.firstTouch = false;
  });
  return made;
}

// What was touched in sight, where the panel has come to lie over it.
/** @param {PlotRoot} root @param {HTMLElement} made */
function uncover({ panel, shown }, made) {
  made.style.scrollMargin = `${shown.header.covered + 8}px 0 ${panel.offsetHeight + (bus.covered ?? 0) + 8}px`;
  made.scrollIntoView({ block: "nearest" });
}

/** @param {Area} one @param {Area} other */
const same = (one, other) => one?.number === other?.number && one?.head === other?.head;

const NARROW = 860; // as in model_map.css: the panel lies over the map, as long as a block is pointed at

// The panel makes way once no pointer is on the map. A finger's block stays.
/** @param {PlotRoot} root */
function makeWay(root) {
  const mouse = matchMedia("(hover: hover)").matches && !root.pressed?.byFinger;
  const isUsed = root.matches(":hover") || root.querySelector(":focus-visible"); // a click's focus keeps nothing
  const over = root.clientWidth <= NARROW && mouse && !isUsed;
  if (over && root.about) root.show(null);
}

/** @param {PlotRoot} root */
function placeAreas(root) {
  const { areas, canvas, shown } = root;
  const { header } = shown;
  areas.style.top = `${canvas.offsetTop}px`;
  const wanted = areasOf(root.place, shown);
  shorten(areas, wanted.length);
  wanted.forEach((area, index) => {
    const made = areas.children[index] ?? areas.appendChild(newArea(root));
    const place = area.box.join(" ");
    made.area = area;
    if (made.place !== place) {
      made.place = place;
      ["left", "top", "width", "height"].forEach((side, at) => (made.style[side] = `${area.box[at]}px`));
    }
    const { name } = header.blocks[area.number];
    const label = area.head === null ? name : `${name} · ${header.words.head} ${area.head + 1}`;
    if (made.getAttribute("aria-label") !== label) made.setAttribute("aria-label", label);
    made.className = area.head === null ? "block" : "head";
  });
  markShown(root);
  makeWay(root);
}

/** @param {PlotRoot} root */
function markShown(root) {
  for (const made of root.areas.children) made.classList.toggle("shown", same(made.area, root.about));
}

// Which cell of a head's map is under the pointer: between which tokens, and its level.
/** @param {PlotRoot} root @param {any} made @param {Pointed} event */
function pointCell(root, made, event) {
  const { header } = root.shown;
  const { number, head } = made.area;
  const { shape, values } = header.pictures[number];
  const [, rows, columns] = shape;
  const box = made.getBoundingClientRect();
  const row = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
  const column = Math.max(0, Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)));
  const level = values[(head * rows + row) * columns + column];
  const [asking, answering] = sidesOf(header, number);
  /** @param {any} given @param {number} cell @param {any} cells */
  const token = ({ labels }, cell, cells) => shown(labels[Math.min(labels.length - 1, cell * Math.ceil(labels.length / cells))]);
  const pair = `${token(asking, row, rows)} → ${token(answering, column, columns)}`;
  write(root.panel.cell, `${pair}  ${valueOf(header, level)}${rows < asking.labels.length ? ` · ${header.words.pooled}` : ""}`);
  if (rows === asking.labels.length) hover(asking.side, row);
  if (columns === answering.labels.length && answering.side !== asking.side) hover(answering.side, column);
}

/** @param {ShownMap} header @param {number} level */
function valueOf(header, level) {
  if (!level) return header.words.masked;
  if (level === ODD_LEVEL) return header.words.odd;
  const [low, high] = header.differing ? [-header.top, header.top] : [0, 1];
  return about(low + ((level - 1) / (LEVELS - 1)) * (high - low), (0.5 * (high - low)) / (LEVELS - 1));
}

/** @param {PlotRoot} root */
function leaveCell(root) {
  write(root.panel.cell, "");
  for (const { side } of root.shown.header.stacks) hover(side, -1);
}

/** @param {HTMLElement} parent */
function buildPanel(parent) {
  const panel = /** @type {any} */ (parent.appendChild(element("aside", "panel")));
  panel.tabIndex = 0; // it scrolls where it is higher than there is room for
  panel.legend = panel.appendChild(element("div", "legend"));
  panel.legend.append(element("span", "what"), element("span", "ramp"), element("span", "ends"));
  panel.legend.lastChild.append(element("span"), element("span"));
  panel.name = panel.appendChild(element("h4"));
  panel.go = panel.appendChild(element("button", "go"));
  panel.go.type = "button";
  panel.large = panel.appendChild(element("canvas", "large"));
  panel.cell = panel.appendChild(element("div", "cell"));
  panel.hint = panel.appendChild(element("p", "hint"));
  panel.list = panel.appendChild(element("dl"));
  return panel;
}

const WIDE = /\n|[\u2e80-\uffef]{7}|.{23}/;

// What the panel says: the block that was last pointed at, or the whole model.
/** @param {PlotRoot} root */
function showPanel(root) {
  const { panel, about } = root;
  const { header } = root.shown;
  const block = about && header.blocks[about.number];
  const head = about?.head ?? null;
  const { words } = header;
  write(panel.name, !block ? words.whole : head === null ? block.name : `${block.name} · ${words.head} ${head + 1}`);
  write(panel.hint, words.pointed);
  panel.hint.hidden = Boolean(block);
  panel.classList.toggle("of-block", Boolean(block));
  panel.classList.toggle("at-right", Boolean(block) && about.box[0] + about.box[2] / 2 < root.canvas.clientWidth / 2);
  panel.large.hidden = panel.cell.hidden = head === null;
  panel.go.hidden = !block;
  if (block) write(panel.go, block.open);
  const said = block ? block.lines : header.summary;
  shorten(panel.list, said.length);
  said.forEach((/** @type {string[]} */ [label, text], /** @type {number} */ index) => {
    let line = panel.list.children[index];
    if (!line) {
      line = panel.list.appendChild(element("div"));
      line.append(element("dt"), element("dd"));
    }
    line.classList.toggle("long", WIDE.test(text)); // a sentence stands below its label, a number beside it
    write(line.firstChild, label);
    write(line.lastChild, text);
  });
  if (head !== null) drawLarge(root, about);
}

/** @param {PlotRoot} root @param {Area} area */
function drawLarge({ panel, shown }, { number, head }) {
  const { canvas, hatched, shape } = shown.pictures[number];
  const [, rows, columns] = shape;
  const size = Math.round(160 * (window.devicePixelRatio || 1));
  const context = cleared(panel.large, size, size);
  context.imageSmoothingEnabled = false;
  if (hatched) context.drawImage(hatched, 0, 0, size, size);
  if (canvas) context.drawImage(canvas, (head ?? 0) * columns, 0, columns, rows, 0, 0, size, size);
}

// What the colour of no scale means, where a picture has it.
/** @param {PlotRoot} root @param {HTMLElement} legend */
function showOdd(root, legend) {
  const { pictures, words } = root.shown.header;
  const there = pictures.some((/** @type {any} */ { shape, values }) => shape.length === 3 && values.includes(ODD_LEVEL));
  showNote(legend, "odd", there ? words.odd : "");
}

// What else is drawn, where it is.
/** @param {Element} legend @param {string} name @param {string} text */
function showNote(legend, name, text) {
  const known = legend.querySelector(`.${name}`);
  if (!text) return known?.remove();
  write(known ?? legend.insertBefore(element("div", `${name} muted`), legend.children[3] ?? null), text);
}

// The colour bar of the thumbnails, and how far it reaches.
/** @param {PlotRoot} root */
function showLegend(root) {
  const { legend } = root.panel;
  const { words, differing, scale, top } = root.shown.header;
  const [what, ramp, ends] = legend.children;
  legend.style.setProperty("--of-pin", appearance(root).pinned);
  write(what, words.scale);
  const { names } = paletteOf(differing ? SCALES.difference : SCALES.weight, appearance(root));
  ramp.style.background = `linear-gradient(to right, ${[0, 127, 128, 255].map((at) => names[at]).join(", ")})`;
  write(ends.firstChild, differing ? significant(-top) : "0");
  write(ends.lastChild, differing ? significant(top) : scale === "one" ? "1" : words.largest);
  showOdd(root, legend);
  showNote(legend, "moved", differing ? words.moved : "");
  showNote(legend, "moved-head", differing ? words.movedHead : "");
  showNote(legend, "pinned-mark", root.shown.header.predictions.pinned ? words.pinned : "");
  const options = differing ? [] : Object.entries(words.scales);
  const buttons = [...legend.querySelectorAll("button")];
  while (buttons.length > options.length) buttons.pop().remove();
  options.forEach(([name, text], index) => {
    const made = buttons[index] ?? legend.appendChild(element("button"));
    made.type = "button";
    made.onclick = () => root.tell("scale", name);
    made.setAttribute("aria-pressed", name === scale);
    write(made, text);
  });
}

// The pictures and the colour bar of another theme.
/** @param {PlotRoot} root */
function inTheme(root) {
  if (!root.shown) return;
  root.shown.pictures = paintPictures(root.shown.header, root.shown.pictures, appearance(root));
  paint(root);
  showPanel(root);
  showLegend(root);
}

const MAP = { arrange: arrangeMap, draw: drawMap, point: pointMap, click: clickMap, lines: mapLines, placed: placeAreas, sides: (/** @type {any} */ { stacks }) => stacks.map((/** @type {any} */ { side }) => side) };

/** @param {HTMLElement} parentElement */
function buildMap(parentElement) {
  const frame = parentElement.appendChild(element("div", "frame"));
  const model = newRoot(frame, "model");
  const root = buildPlot(model, "model_map", MAP);
  root.areas = element("div", "areas");
  root.tip.before(root.areas);
  root.panel = buildPanel(model);
  root.about = null;
  root.show = (/** @type {any} */ area) => {
    if (root.about && same(area, root.about)) return;
    root.about = area;
    markShown(root);
    showPanel(root);
  };
  root.open = (/** @type {Area} */ { number, head }) => root.tell("open", { block: number, head });
  root.panel.go.addEventListener("click", () => root.open(root.about));
  root.addEventListener("pointerleave", () => makeWay(root));
  const { stop } = root;
  const plain = onTheme(() => inTheme(root));
  root.stop = () => {
    stop();
    plain();
  };
  return root;
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".model_map") ?? buildMap(parentElement);
  root.tell = setTriggerValue;
  root.explain = () => setTriggerValue("about", performance.now());
  /** @type {ShownMap & Behind} */
  const header = unpack(data);
  header.pictures = header.arrays.map((/** @type {Numbers} */ values, /** @type {number} */ number) => ({ values, shape: header.shapes[number] }));
  header.covered = covered();
  root.panel.style.setProperty("--above", `${header.covered}px`);
  header.thickest = Math.max(...header.blocks.map((/** @type {any} */ { flow }) => flow ?? 0)) || 1;
  if (root.about && !header.blocks[root.about.number]) root.about = null; // another model's
  const pictures = paintPictures(header, root.shown?.pictures, appearance(root));
  showPlot(root, { header, pictures });
  showPanel(root);
  showLegend(root);
  return ending(root);
}
