// A labelled heatmap: rows look at columns; masked cells are hatched, cells below the threshold empty; beside it a colour
// bar. A scale that begins below 0 is a diverging one; one with a floor is logarithmic, on both sides of 0. Cells may hold
// words, in `texts`, and below them their values, where these are `valued`. Values may be off by an `error`. Lengths are
// CSS pixels.

import { contextOf, element, placeIn, quantityText } from "./elements.js";
import { about, precise, significant } from "./numbers.js";
import { hover } from "./bus.js";
import { isSpecial, shown } from "./chips.js";
import { ODD_COLOUR } from "./colours.js";
import { besideAxis, FONT, frameChosen, ODD_PIXEL, shortened } from "./pens.js";
import { paletteOf } from "./palettes.js";
import { marksOf, placeOn, shade, spread } from "./scales.js";
import { cellLines, HIDDEN, largeHeight, litOf, ODD, paint, paintSoon, showTip, within } from "./plot.js";

// Which label of an axis is the token at this position of its side; -1, none.
/** @param {LabelledAxis} axis @param {number} position @param {number} block */
function labelAt({ places }, position, block) {
  return places ? places.indexOf(position) : Math.floor(position / block);
}

/** @typedef {ReturnType<typeof arrange>} HeatPlace */

const LOWEST = 72; // of the colour bar: room for its title
const NARROW = 480; // width of a figure on a phone
const LETTERS = "✓ abc…"; // the least that a cell shows of its words, where columns can be left out for it
const LOWEST_ROW = 16; // of such a figure: what has more rows than the window has room for is higher
const LIT = FONT + 4; // height of a label that is lit
const BAR = { gap: 14, width: 10, room: 6 };

// Many small cells as one picture of a pixel each, made once: a box each costs the browser a tenth of a second.
/** @param {ShownHeat} shown @param {Uint32Array} colours */
function cellsPicture({ header, values, visible }, colours) {
  const canvas = element("canvas");
  canvas.width = header.columns.labels.length;
  canvas.height = header.rows.labels.length;
  const context = contextOf(canvas);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer); // 0xAABBGGRR
  for (let cell = 0; cell < values.length; cell++) {
    if (visible[cell] === ODD) pixels[cell] = ODD_PIXEL;
    else if (visible[cell] === 1 && values[cell] === values[cell]) pixels[cell] = colours[shade(values[cell], header.scale)];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const pictures = new WeakMap(); // of values, with the scale and the colours that each was made for

/** @param {ShownHeat} view @param {Uint32Array} colours */
function pictureOfCells(view, colours) {
  const { low, high, floor } = view.header.scale;
  let made = pictures.get(view.values);
  if (!made || made.low !== low || made.high !== high || made.floor !== floor || made.colours !== colours) {
    made = { low, high, floor, colours, canvas: cellsPicture(view, colours) };
    pictures.set(view.values, made);
  }
  return made.canvas;
}

/** @param {Pen} pen @param {HeatPlace} place @param {ShownHeat} view */
function drawCells(pen, place, view) {
  const { header, values, visible } = view;
  const { count, gap, held, valued, x, y } = place;
  const { names: colours, pixels } = paletteOf(header.scale, pen.look, Boolean(header.texts));
  const small = gap === 0 && !pen.vector;
  /** @param {number} cell */
  const hatched = (cell) => !visible[cell] || (Number.isNaN(values[cell]) && visible[cell] !== ODD);
  if (small) {
    const picture = pictureOfCells(view, pixels);
    pen.picture(picture, [0, 0, count.columns, picture.height], x(0), y(0), x(count.columns) - x(0), y(count.rows) - y(0));
  }
  for (let row = 0; row < count.rows; row++) {
    for (let column = 0, end; column < count.columns; column = end) {
      const cell = row * header.columns.labels.length + column;
      end = column + 1;
      if (small) while (hatched(cell) && end < count.columns && hatched(row * header.columns.labels.length + end)) end++;
      /** @type {Rect} */
      const box = [x(column), y(row), x(end) - x(column) - gap, y(row + 1) - y(row) - gap];
      if (hatched(cell)) pen.hatch(...box);
      else if (visible[cell] === ODD) small || drawOdd(pen, ...box);
      else if (!small && visible[cell] !== HIDDEN) pen.box(...box, colours[shade(values[cell], header.scale)]);
      if (!held[cell]) continue;
      const [middle, centre] = [(x(column) + x(column + 1)) / 2, (y(row) + y(row + 1)) / 2];
      pen.text(held[cell], middle, centre - (valued ? FONT / 2 + 2 : 0), { align: "center", token: true });
      if (valued) pen.text(rounded(values[cell]), middle, centre + FONT / 2 + 2, { align: "center" });
    }
  }
}

// A cell that is not finite: crossed out, where there is room for it.
/** @param {Pen} pen @param {number} x @param {number} y @param {number} width @param {number} height */
function drawOdd(pen, x, y, width, height) {
  pen.box(x, y, width, height, ODD_COLOUR);
  if (Math.min(width, height) < 8) return;
  const [left, right, top, low] = [x + 0.3 * width, x + 0.7 * width, y + 0.3 * height, y + 0.7 * height];
  pen.line([[left, top], [right, low]], { colour: "#ffffff", width: 1.5 });
  pen.line([[left, low], [right, top]], { colour: "#ffffff", width: 1.5 });
}

// As much of a cell's words as there is room for.
/** @param {string} words @param {number} room @param {Measure} measure */
function fitted(words, room, measure) {
  const letters = [...shortened(words)];
  if (measure(letters.join("")) <= room) return letters.join("");
  while (letters.length && measure(`${letters.join("")}…`) > room) letters.pop();
  return letters.length ? `${letters.join("")}…` : "";
}

// A value in two digits, with its sign.
/** @param {number} value */
function rounded(value) {
  if (!Number.isFinite(value)) return significant(value);
  return `${value > 0 ? "+" : ""}${Number(value.toPrecision(2))}`.replace("-", "−");
}

// How many ranks are shown in so much room: as many as have each of their words whole; of long words four at least, on a
// phone two, where there is room for some letters of each.
/** @param {string[]} texts @param {number} ranks @param {number} room @param {boolean} phone @param {Measure} measure */
function ranksWithRoom(texts, ranks, room, phone, measure) {
  const most = Math.min(ranks, Math.max(1, Math.floor(room / (measure(LETTERS) + 6))));
  const widths = texts.map((words) => measure(shortened(words)) + 6);
  /** @param {number} shown */
  const whole = (shown) => widths.every((wide, cell) => cell % ranks >= shown || wide <= Math.floor(room / shown));
  let shown = most;
  while (shown > (phone ? 2 : 4) && !whole(shown)) shown--;
  return shown;
}

// Where everything goes in the width there is. measure: how wide a label will be drawn.
/** @param {HeatmapHeader} header @param {number} width @param {number} ratio @param {Measure} measure */
export function arrange({ rows, columns, scale, texts, ranked, valued, highest, large, square, odd, wanted = 0 }, width, ratio, measure) {
  const names = { rows: rows.labels.map(shortened), columns: columns.labels.map(shortened) };
  const count = { rows: names.rows.length, columns: names.columns.length };
  const marks = marksOf(scale, count.rows < 4 ? 2 : 5);
  const markWidth = Math.max(...marks.map(([, text]) => measure(text)));
  /** @param {number} length */
  const snap = (length) => Math.round(length * ratio) / ratio;
  const titled = besideAxis(rows.title, measure);
  const left = snap(30 + titled.room + Math.max(...names.rows.map(measure)));
  const bar = BAR.gap + BAR.width + BAR.room + markWidth + 22;
  // Cells are alike where they are a whole number of the screen's pixels; very small ones share what there is.
  /** @param {number} length */
  const whole = (length) => (length * ratio < 6 ? length : Math.floor(length * ratio) / ratio);
  if (ranked) names.columns.length = count.columns = ranksWithRoom(texts ?? [], count.columns, width - left - bar, width < NARROW, measure);
  const widths = names.columns.map(measure);
  // Where all words fit only special tokens that do not are turned.
  const words = widths.filter((_, column) => !isSpecial(names.columns[column]));
  const [widest, widestWord] = [Math.max(...widths), Math.max(...(words.length ? words : widths))];
  let right = bar;
  let [wide, turn] = [0, 0];
  for (let attempt = 0; attempt < 2; attempt++) {
    wide = whole(Math.min(texts || large ? 120 : 64, Math.max(0.05, (width - left - right) / count.columns)));
    turn = widestWord + 6 <= wide ? 0 : 0.71 * wide >= LIT ? -45 : -90; // slanted ones stand 0.71 of that apart
    // A slanted label of one of the last columns reaches out to the right.
    const reach = widths.map((label, column) => 0.71 * (label + FONT) - (count.columns - column - 0.5) * wide);
    right = turn === -45 ? Math.max(bar, ...reach) : bar;
  }
  const tall = Math.max(34, Math.min(64, 240 / count.rows)); // few rows may be as high as wide
  const least = highest ? highest / count.rows : Math.max(600 / count.rows, 4);
  // At least as long as what is written beside it; then few rows are higher.
  const beside = Math.max(LOWEST, measure(scale.title), measure(rows.title));
  const some = Math.max(wide, 22, beside / count.rows, wanted / count.rows);
  const steps = spread(count.columns, wide, FONT + 1);
  const thinned = width < NARROW && names.columns.every((name) => /^\d+$/.test(name)); // numbers in steps are not read
  const named = turn === -90 ? (thinned ? { every: steps.every * steps.levels, levels: 1 } : steps) : { every: turn ? spread(count.columns, FONT + 1, FONT + 1).every : 1, levels: 1 };
  // Slanted, the brackets of a special token look cut: where it fits it stands upright between words that are turned.
  const turns = widths.map((label, column) => {
    if (label + 6 > wide) return turn || -90;
    return isSpecial(names.columns[column]) ? 0 : turn;
  });
  const top = snap(34 + (turn === 0 ? Math.max(FONT, ...widths.filter((_, column) => turns[column])) : turn === -45 ? 0.71 * (widest + FONT) : named.levels * (widest + 6) - 6));
  const filling = Math.max(Math.min(least, LOWEST_ROW), Math.min(110, (largeHeight() - top) / count.rows));
  const usual = Math.min(some, Math.max(tall, Math.min(64, beside / count.rows)), least);
  const high = square ? wide : whole(large ? filling : usual);
  const length = Math.max(count.rows * high, beside);
  const everyRow = Math.max(spread(count.rows, FONT + 1, FONT + 1).every, Math.ceil((FONT + 1) / high));
  const held = texts && high >= FONT + 2 ? texts.map((words) => fitted(words, wide - 6, measure)) : [];
  return {
    titles: { rows: titled, scale: besideAxis(scale.title, measure) },
    held, valued: valued && high >= 2 * FONT + 8, names, count, marks, markWidth, turns, left, top, wide, high, width,
    x: (/** @type {number} */ column) => (wide * ratio < 1 ? left + column * wide : snap(left + column * wide)), // narrower than a pixel: shared
    y: (/** @type {number} */ row) => snap(top + row * high),
    length,
    gap: Math.min(wide, high) >= 8 ? 1 : 0,
    every: { rows: everyRow, columns: named.every }, levels: named.levels, widest,
    height: Math.ceil(top + length + 6) + (odd ? FONT + 8 : 0),
  };
}

/** @param {Pen} pen @param {HeatPlace} place @param {ShownHeat} shown */
function draw(pen, place, { header, values, visible, chosen, column: chosenColumn = -1, framed = [], lit = {}, pointed = {} }) {
  const { rows, columns, scale } = header;
  const { names, count, turns, left, top, high, length, gap, every, levels, widest, x, y } = place;
  const [tall, broad] = header.block ?? [1, 1];
  const inside = pointed.row >= 0; // then its row and its column stand out alone, where both axes have the same tokens
  const [litRow, litColumn] = [labelAt(rows, litOf(lit, rows), tall), labelAt(columns, litOf(lit, columns), broad)];
  const [right, bottom] = [x(count.columns), y(count.rows)];
  pen.text(columns.title, (left + right) / 2, 9, { align: "center" });
  pen.text(rows.title, place.titles.rows.middle, top + length / 2, { align: "center", turn: -place.titles.rows.turn });
  names.columns.forEach((name, column) => {
    const marked = column === (inside ? pointed.column : litColumn);
    if (column % every.columns && !marked) return;
    const [middle, up] = [(x(column) + x(column + 1)) / 2, (column % levels) * (widest + 6)];
    if (up) pen.line([[middle, top - 3], [middle, top - 6 - up]], { width: 1, faint: true });
    pen.text(name, middle, top - 9 - up, { align: turns[column] ? "left" : "center", turn: turns[column], marked, token: !columns.prose });
  });
  names.rows.forEach((name, row) => {
    const marked = row === (inside ? pointed.row : litRow);
    if (row % every.rows && !marked) return;
    pen.text(name, left - 8, (y(row) + y(row + 1)) / 2, { align: "right", marked, strong: row === chosen, token: !rows.prose });
  });

  drawCells(pen, place, { header, values, visible, chosen });
  pen.frame(left, top, right - left, bottom - top, { faint: true });
  /** @param {number} row @param {number} column @param {number} span @returns {Rect} */
  const around = (row, column, span) => [x(column), y(row), x(column + span) - x(column), y(row + 1) - y(row)];
  if (chosen >= 0) frameChosen(pen, ...around(chosen, 0, count.columns), gap + 1);
  if (chosenColumn >= 0) frameChosen(pen, x(chosenColumn), top, x(chosenColumn + 1) - x(chosenColumn), bottom - top, gap + 1);
  const { tokens } = header;
  tokens?.places.forEach((token, cell) => {
    if (token < 0 || token !== lit[tokens.side]) return;
    frameChosen(pen, ...around(Math.floor(cell / columns.labels.length), cell % columns.labels.length, 1), gap + 1);
  });
  for (const [row, column] of framed) if (row < count.rows && column < count.columns) frameChosen(pen, ...around(row, column, 1), 3);
  if (pointed.row >= 0) pen.frame(...around(pointed.row, pointed.column, 1), {});

  const edge = right + BAR.gap;
  const colours = paletteOf(scale, pen.look, Boolean(header.texts)).names;
  for (let slice = 0; slice < length; slice++) {
    const [from, to] = [y(slice / high), y(Math.min(slice + 1, length) / high)]; // on whole pixels of the screen, or gaps are seen
    pen.box(edge, from, BAR.width, to - from, colours[Math.round(255 * (1 - slice / length))]);
  }
  pen.frame(edge, top, BAR.width, length, { faint: true });
  for (const [value, text] of place.marks) {
    const at = top + (1 - placeOn(scale, value)) * length;
    pen.text(text, edge + BAR.width + BAR.room, Math.max(top + 5, Math.min(top + length - 5, at)), {});
  }
  const beside = edge + BAR.width + BAR.room + place.markWidth + 12;
  pen.text(scale.title, beside, top + length / 2, { align: "center", turn: place.titles.scale.turn });
  if (!header.odd) return;
  const legend = top + length + 8;
  drawOdd(pen, left, legend, FONT, FONT);
  pen.text(header.words.odd_count.replace("{count}", header.odd.toLocaleString("en")), left + FONT + 6, legend + FONT / 2, {});
}

// The cell under the pointer: its row and column, -1 outside.
/** @param {PlotRoot<HeatPlace, ShownHeat>} root @param {Pointed} event */
export function cellAt({ place, canvas }, event) {
  const [x, y] = placeIn(canvas, event);
  const column = Math.floor((x - place.left) / place.wide);
  const row = Math.floor((y - place.top) / place.high);
  const inside = row >= 0 && row < place.count.rows && column >= 0 && column < place.count.columns;
  return inside ? { row, column } : { row: -1, column: -1 };
}

/** @param {PlotRoot<HeatPlace, ShownHeat>} root @param {Pointed} [event] */
function point(root, event) {
  const { header, values, visible } = root.shown;
  const { rows, columns, scale, words, texts, error } = header;
  const { row, column } = (root.pointed = event ? cellAt(root, event) : { row: -1, column: -1 });
  const [high, wide] = header.block ?? [1, 1]; // tokens that a cell stands for
  const cell = row * columns.labels.length + column;
  const token = row >= 0 ? (header.tokens?.places[cell] ?? -1) : -1;
  hover(rows.side, rows.places?.[row] ?? row * high);
  if (columns.side !== rows.side) hover(columns.side, columns.places?.[column] ?? column * wide);
  if (header.tokens) hover(header.tokens.side, token);
  root.canvas.style.cursor = row < 0 && (!event || rowOfLabel(root, event) < 0) ? "" : "pointer";
  paintSoon(root);
  if (row < 0) return showTip(root);
  const pair = element("div", "pair");
  for (const label of [rows.labels[row], " → ", columns.labels[column]]) pair.appendChild(element("bdi", "", shown(label)));
  const missing = Number.isNaN(values[cell]) && words.missing;
  const weak = visible[cell] === HIDDEN ? ` (${words.hidden})` : "";
  const value = visible[cell] ? (visible[cell] === ODD ? false : missing) || `${quantityText(scale.title, error ? about(values[cell], error) : precise(values[cell]))}${weak}` : words.masked;
  const label = texts?.[cell] ?? header.tokens?.labels[token];
  const held = label ? [element("div", "pair", shown(label))] : [];
  showTip(root, [pair, ...held, element("div", "", value)], root.place.x(column + 1) + 6, root.place.y(row));
}

// The row whose label is under the pointer, -1 elsewhere.
/** @param {PlotRoot<HeatPlace, ShownHeat>} root @param {Pointed} event */
function rowOfLabel({ place, canvas }, event) {
  const [x, y] = placeIn(canvas, event);
  const row = Math.floor((y - place.top) / place.high);
  return x < place.left && row >= 0 && row < place.count.rows ? row : -1;
}

/** @param {PlotRoot<HeatPlace, ShownHeat>} root @param {Pointed} event */
function click(root, event) {
  let { row, column } = cellAt(root, event);
  if (row < 0) [row, column] = [rowOfLabel(root, event), Math.max(0, root.shown.column ?? 0)];
  if (row < 0) return;
  if (event.detail === 2 && !root.shown.header.cells) row = root.beforeClick ?? row; // shown large: what was chosen stays so
  else root.beforeClick = root.shown.chosen >= 0 ? root.shown.chosen : undefined;
  root.shown.chosen = row;
  if (root.shown.header.cells) root.shown.column = column;
  paint(root);
  root.choose(row * (root.shown.header.block?.[0] ?? 1), column);
}

// The next cell in a direction, and where its middle is.
/** @param {PlotRoot<HeatPlace, ShownHeat>} root @param {any} from @param {number} right @param {number} down */
function walk({ place, shown }, from, right, down) {
  const row = within((from?.row ?? Math.max(0, shown.chosen)) + down, place.count.rows);
  const column = within((from?.column ?? 0) + right, place.count.columns);
  return { row, column, x: (place.x(column) + place.x(column + 1)) / 2, y: (place.y(row) + place.y(row + 1)) / 2 };
}

/** @type {PlotKind<HeatPlace, ShownHeat>} */
export const HEAT = { arrange, draw, point, click, walk, lines: cellLines, sides: ({ rows, columns, tokens }) => [rows.side, columns.side, tokens?.side] };
