// Several small matrices side by side, each with its own scale: masks, and what they make of scores. Hidden cells are
// hatched, changed ones framed; cells and labels of panels that can be changed are clicked. Lengths are CSS pixels.

import { unpack } from "./bytes.js";
import { isSpecial, shown } from "./chips.js";
import { contextOf, element, ending, placeIn } from "./elements.js";
import { exact, precise, significant } from "./numbers.js";
import { CHANGED, channels, HUE, ODD_COLOUR } from "./colours.js";
import { hover } from "./bus.js";
import { FONT, frameChosen, ODD_PIXEL, shortened } from "./pens.js";
import { paletteOf } from "./palettes.js";
import { shade, spread } from "./scales.js";
import { buildPlot, largeHeight, litOf, paintSoon, showPlot, showTip, within } from "./plot.js";

/** @typedef {any} PanelPlace
 *  @typedef {ReturnType<typeof arrangePanels>} PanelsPlace */

const SLOT = 170; // a panel needs so much; on a narrow page fewer stand in a line
const PHONE = 480; // a narrower place has its panels below each other, rather than labels left out
const GAP = 18;
const NARROW = 88; // the least of a panel in a large figure that has them all in one line, for they would be too low otherwise
const [ABOVE, BELOW] = [60, 34]; // pixels over the rows of a large panel, and for its scale under them
const LARGEST = 72; // of a cell in a large figure
const LABELLED = 24; // rows that a large figure has room for, with a label each
const LEGIBLE = 12; // pixels of a row with a label, where each has one
const ROW = 16; // of a large figure, where it may be so high: labels stand apart, a marked one too
const APART = 15; // of labels where not each row has one
const SMALL = 3; // cells of fewer pixels are painted as one picture
const SEEN = `rgba(${HUE.join(",")},0.42)`;

// Which token of its side a label of an axis is; -1, none.
/** @param {LabelledAxis} axis @param {number} index */
const tokenAt = ({ places }, index) => (places && index >= 0 ? places[index] : index);

/** @param {LabelledAxis} axis @param {number} index @param {Record<string, number>} lit */
const isLit = (axis, index, lit) => Boolean(axis.side) && tokenAt(axis, index) >= 0 && tokenAt(axis, index) === litOf(lit, axis);

/** @param {LabelledAxis} one @param {LabelledAxis} other */
const sameLabels = (one, other) => one.labels.length === other.labels.length && one.labels.every((label, index) => label === other.labels[index]);

// Whether a large figure has less height than its rows with labels need where each of its lines is broken into so many.
/** @param {PanelsHeader} header @param {number} pieces */
function isLow({ panels }, pieces) {
  const rows = Math.min(LABELLED, ...panels.map(({ rows }) => rows.labels.length));
  const lines = pieces * new Set(panels.map(({ line }) => line)).size;
  return largeHeight() / lines - ABOVE - BELOW < LEGIBLE * rows;
}

// The panels of each line of the page, in their order; on a phone, so few that each of their columns has its label.
/** @param {PanelsHeader} header @param {number} width @param {Measure} measure */
function linesOf(header, width, measure) {
  const { panels, slot = SLOT, large } = header;
  let most = Math.max(1, Math.floor((width + GAP) / (slot + GAP)));
  if (width < PHONE) {
    const beside = 24 + Math.max(0, ...panels.flatMap(({ rows }) => rows.labels.map((label) => measure(shortened(label)))));
    const counts = panels.filter(({ columns }) => columns.labels.some(Boolean)).map(({ columns }) => columns.labels.length);
    const needed = Math.max(0, ...counts) * (FONT + 1);
    while (most > 1 && (width - beside - GAP * (most - 1)) / most < needed) most--;
  }
  const count = Math.max(...panels.map(({ line }) => panels.filter((each) => each.line === line).length));
  if (large && innerWidth >= PHONE && width / count > NARROW && isLow(header, Math.ceil(count / most))) most = count;
  // As many in each piece of a line: four are two and two, not three and one.
  /** @param {number} line */
  const even = (line) => {
    const all = panels.filter((each) => each.line === line).length;
    return Math.ceil(all / Math.ceil(all / most));
  };
  /** @type {number[][]} */
  const lines = [];
  panels.forEach((panel, index) => {
    const last = lines.at(-1);
    if (!last || last.length === even(panel.line) || panels[last[last.length - 1]].line !== panel.line) lines.push([index]);
    else last.push(index);
  });
  return lines;
}

// The colour bar below a panel: about as long as its cells are wide, and as its two ends need beside each other; where
// there is no room for that, they stand below each other.
/**
 * @param {ScaleHeader} scale @param {number} wide @param {number} room
 * @param {(text: string) => number} measure
 */
function barOf({ low, high }, wide, room, measure) {
  const ends = [low, high].map(significant);
  const needed = measure(ends[0]) + measure(ends[1]) + 10;
  const length = Math.min(room, Math.max(40, Math.min(110, wide), needed));
  return { ends, length, below: length < needed ? FONT + 2 : 0 };
}

const TITLE = 16; // pixels of a line of a title, and of a note
const BOLD = 1.08; // as wide as plain words

// A title or note in lines of so much room: the next panel's begins behind that.
/** @param {string} text @param {number} room @param {(text: string) => number} measure */
function broken(text, room, measure) {
  /** @type {string[]} */
  const found = [];
  for (const piece of text.split(/(?<=[ \u2e80-\uffef])/)) { // behind a space, or a Chinese letter
    const longer = (found.at(-1) ?? "") + piece;
    if (found.length && measure(longer.trim()) <= room) found[found.length - 1] = longer;
    else found.push(piece);
  }
  return found.map((line) => line.trim()).filter(Boolean);
}

/** @param {PanelsHeader} header @param {number} width @param {number} ratio @param {Measure} measure */
function arrangePanels(header, width, ratio, measure) {
  const { panels, large } = header;
  /** @param {number} length */
  const snap = (length) => Math.round(length * ratio) / ratio;
  /** @param {number} length */
  const whole = (length) => (length * ratio < SMALL ? length : Math.floor(length * ratio) / ratio);
  const lines = linesOf(header, width, measure);
  const columnsOf = Math.max(...lines.map((line) => line.length));
  /** @param {number} index */
  const labelled = (index) => 24 + Math.max(0, ...panels[index].rows.labels.map((label) => measure(shortened(label))));
  const first = width < PHONE ? 0 : Math.max(0, ...lines.map(([index]) => labelled(index))); // below each other, first panels begin alike
  /** @type {PanelPlace[]} */
  const places = [];
  let top = 0;
  for (const line of lines) {
    /** @type {PanelPlace[]} */
    const shapes = line.map((index, at) => {
      const { rows, columns } = panels[index];
      const named = at === 0 || !sameLabels(rows, panels[line[at - 1]].rows);
      const names = { rows: rows.labels.map(shortened), columns: columns.labels.map(shortened) };
      return { index, names, named, left: named ? Math.max(at ? 0 : first, labelled(index)) : 0, count: [rows.labels.length, columns.labels.length] };
    });
    const used = shapes.reduce((sum, { left }) => sum + left, 0) + GAP * (columnsOf - 1);
    const room = Math.max(20, (width - used) / columnsOf);
    // One height of rows for a line, so that the same query stands at the same place in all its panels.
    const most = Math.max(1, ...shapes.map(({ count }) => count[0]));
    const cell = header.cell ?? 34;
    const widest = Math.max(...shapes.map(({ count }) => Math.min(cell, room / Math.max(1, count[1]))));
    const above = Math.max(
      ...shapes.map((shape) => {
        shape.wide = whole(Math.min(large ? LARGEST : cell, room / Math.max(1, shape.count[1])));
        // Where all words fit only special tokens that do not are turned.
        /** @type {number[]} */
        const widths = shape.names.columns.map(measure);
        const widest = Math.max(0, ...widths.filter((_, column) => !isSpecial(shape.names.columns[column])));
        const upright = widest + 3 <= Math.max(shape.wide, FONT + 4);
        shape.turns = widths.map((label) => (upright && label <= Math.max(widest, shape.wide) ? 0 : -90));
        const tall = widths.map((label, column) => (label ? (shape.turns[column] ? label : FONT) : 0));
        Object.assign(shape, spread(tall.length, shape.wide, FONT + 1), { step: Math.max(0, ...tall) + 4 });
        return Math.max(...tall) ? shape.levels * shape.step + 4 : 4;
      }),
    );
    let begins = 0;
    shapes.forEach((shape, at) => {
      const next = shapes[at + 1];
      begins += shape.left;
      const beyond = next ? room + GAP + next.left - 8 : width - begins;
      begins += room + GAP;
      const { name, note = "" } = panels[shape.index];
      Object.assign(shape, { titles: broken(name, beyond / BOLD, measure.words), notes: broken(note, beyond, measure.words) });
    });
    const titled = TITLE * Math.max(0, ...shapes.map(({ titles }) => titles.length - 1));
    const noted = TITLE * Math.max(0, ...shapes.map(({ notes }) => notes.length));
    const beneath = shapes.some(({ index }) => panels[index].scale) ? BELOW : 0;
    const usual = Math.min(cell, Math.max(widest, Math.min(16, 380 / most)), Math.max(420 / most, 1.5));
    const high = whole(large && innerWidth >= PHONE ? Math.min(LARGEST, Math.max(Math.min(ROW, 380 / most), (largeHeight() / lines.length - 18 - titled - noted - above - beneath) / most)) : usual);
    let x = 0;
    for (const shape of shapes) {
      const start = x + shape.left;
      const { scale } = panels[shape.index];
      places[shape.index] = {
        ...shape, high, from: x, measure: measure.words,
        left: snap(start),
        bar: scale && barOf(scale, shape.count[1] * shape.wide, room, measure.words),
        title: top + 8,
        noted: top + 8 + titled,
        labelled: top + 8 + titled + noted, // the last line above the labels
        top: snap(top + 18 + titled + noted + above),
        every: [high >= LEGIBLE ? 1 : Math.ceil(APART / high), shape.every],
      };
      x = start + room + GAP;
    }
    const bottom = Math.max(...shapes.map(({ index }) => places[index].top + places[index].count[0] * high));
    top = bottom + Math.max(8, ...line.map((index) => (places[index].bar ? BELOW + places[index].bar.below : 0)));
  }
  return { places, width, height: Math.ceil(top) };
}

// Where one of both texts has no such token a value is NaN. A difference of an infinite value is not painted either; of
// all else what is not finite is broken.
/** @param {PanelHeader} panel */
const compared = ({ scale, pinned }) => Boolean(scale?.difference || pinned);
/** @param {ShownPanel} panel @param {number} cell */
const missing = (panel, cell) => {
  const value = panel.values[cell];
  return panel.scale?.difference ? !Number.isFinite(value) : Boolean(panel.pinned) && Number.isNaN(value);
};

// Cells too small for boxes, one pixel each.
/** @param {ShownPanel} panel @param {number[]} pair @param {Look} look */
function pictureOf(panel, [rows, columns], look) {
  const { values, flags, scale } = panel;
  const canvas = element("canvas");
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const context = contextOf(canvas);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const palette = scale && paletteOf(scale, look);
  flags.forEach((flag, cell) => {
    const seen = flag & 1 && !missing(panel, cell);
    let colour = seen ? [...HUE, 0.42] : [128, 128, 128, 0.4];
    if (!palette && flag & 2) colour = [...channels(CHANGED), seen ? 0.7 : 0.35];
    if (!palette || !seen) image.data.set([colour[0], colour[1], colour[2], 255 * colour[3]], 4 * cell);
    else pixels[cell] = Number.isFinite(values[cell]) ? palette.pixels[shade(values[cell], scale)] : ODD_PIXEL;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** @param {Pen} pen @param {PanelPlace} place @param {ShownPanel} panel @param {number} measured */
function drawCells(pen, place, panel, measured) {
  const { left, top, wide, high, count } = place;
  const { values, flags, scale } = panel;
  const [rows, columns] = count;
  if (measured < SMALL) {
    const whole = pictureOf(panel, count, pen.look);
    return pen.picture(whole, [0, 0, whole.width, whole.height], left, top, columns * wide, rows * high);
  }
  const palette = scale && paletteOf(scale, pen.look);
  const gap = Math.min(wide, high) >= 7 ? 1 : 0;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const cell = row * columns + column;
      const value = values[cell];
      /** @type {Rect} */
      const box = [left + column * wide, top + row * high, wide - gap, high - gap];
      if (!(flags[cell] & 1) || missing(panel, cell)) pen.hatch(...box);
      else if (!palette) pen.box(...box, SEEN);
      else if (Number.isFinite(value)) pen.box(...box, palette.names[shade(value, scale)]);
      else pen.box(...box, ODD_COLOUR);
    }
  }
}

// Frames of changed cells, over that of the chosen row.
/** @param {Pen} pen @param {PanelPlace} place @param {ShownPanel} panel */
function frameChanged(pen, { left, top, wide, high, count: [rows, columns] }, { flags }) {
  const gap = Math.min(wide, high) >= 7 ? 1 : 0;
  const line = Math.min(wide, high) < 18 ? 1.2 : 2;
  for (let cell = 0; cell < rows * columns; cell++) {
    if (!(flags[cell] & 2)) continue;
    const [x, y] = [left + (cell % columns) * wide, top + Math.floor(cell / columns) * high];
    pen.frame(x + 1.5, y + 1.5, wide - gap - 2, high - gap - 2, { width: line, colour: CHANGED });
  }
}

/**
 * @param {Pen} pen @param {PanelPlace} place @param {ShownPanel} panel @param {Record<string, number>} lit
 * @param {any} pointed
 */
function drawLabels(pen, place, panel, lit, pointed) {
  const { left, top, wide, high, names, turns, named, every, levels, step } = place;
  const { rows, columns } = panel;
  const here = pointed.panel === place.index; // then its row and its column stand out alone
  names.columns.forEach((/** @type {string} */ name, /** @type {number} */ column) => {
    const marked = here ? column === pointed.column : isLit(columns, column, lit);
    if (column % every[1] && !marked) return;
    const [turn, middle, up] = [turns[column], left + (column + 0.5) * wide, (column % levels) * step];
    if (up && name) pen.line([[middle, top - 2], [middle, top - up - 3]], { width: 1, faint: true });
    pen.text(name, middle, top - 8 - up, { align: turn ? "left" : "center", turn, marked, token: !columns.prose });
  });
  if (!named) return;
  names.rows.forEach((/** @type {string} */ name, /** @type {number} */ row) => {
    const marked = here ? row === pointed.row : isLit(rows, row, lit);
    if (row % every[0] && !marked) return;
    pen.text(name, left - 8, top + (row + 0.5) * high, { align: "right", marked, room: high, strong: row === panel.chosen, token: !rows.prose });
  });
  if (rows.title && names.rows.length * high > place.measure(rows.title)) pen.text(rows.title, place.from + 7, top + (names.rows.length * high) / 2, { align: "center", turn: -90 });
}

/** @param {Pen} pen @param {PanelPlace} place @param {ShownPanel} panel */
function drawScale(pen, place, { scale }) {
  const { left: start, top, high, count, bar: { ends, length, below } } = place;
  const y = top + count[0] * high + 7;
  const { names } = paletteOf(/** @type {ScaleHeader} */ (scale), pen.look);
  for (let slice = 0; slice < length; slice += 2) pen.box(start + slice, y, 2, 6, names[Math.round((255 * slice) / length)]);
  pen.frame(start, y, length, 6, { faint: true });
  pen.text(ends[0], start, y + 15, {});
  pen.text(ends[1], below ? start : start + length, y + 15 + below, { align: below ? "left" : "right" });
}

/** @param {Pen} pen @param {PanelsPlace} place @param {ShownPanels} shown */
function drawPanels(pen, { places }, { header, lit = {}, pointed = {} }) {
  header.panels.forEach((panel, index) => {
    const place = places[index];
    const { left, top, wide, high, count } = place;
    place.titles.forEach((/** @type {string} */ line, /** @type {number} */ at) => {
      pen.text(line, left, place.title + TITLE * at, { strong: true, colour: panel.pinned ? "pinned" : undefined });
    });
    place.notes.forEach((/** @type {string} */ line, /** @type {number} */ at) => pen.text(line, left, place.noted + TITLE * (at + 1), {}));
    drawColumnsTitle(pen, place, panel);
    drawLabels(pen, place, panel, lit, pointed);
    const measured = Math.min(wide, high) * (window.devicePixelRatio || 1);
    drawCells(pen, place, panel, measured);
    pen.frame(left, top, count[1] * wide, count[0] * high, { faint: true });
    const { chosen = -1 } = panel;
    if (chosen >= 0) frameChosen(pen, left, top + chosen * high, count[1] * wide, high, 2);
    if (measured >= SMALL) frameChanged(pen, place, panel);
    if (panel.framed) frameChosen(pen, left + panel.framed[1] * wide, top + panel.framed[0] * high, wide, high, 2);
    if (pointed.panel === index && pointed.row >= 0 && pointed.column >= 0) {
      pen.frame(left + pointed.column * wide, top + pointed.row * high, wide, high, {});
    }
    if (panel.scale) drawScale(pen, place, panel);
  });
}

// What the columns are, at the right end of the line above their labels, where there is room for it.
/** @param {Pen} pen @param {PanelPlace} place @param {ShownPanel} panel */
function drawColumnsTitle(pen, { left, title, titles, noted, notes, labelled, wide, count, measure }, { columns }) {
  const right = left + count[1] * wide;
  const last = notes.length ? noted + TITLE * notes.length : title + TITLE * (titles.length - 1);
  const beside = last === labelled ? [...titles, ...notes].at(-1) : "";
  const room = right - left - BOLD * measure(beside) - 10;
  if (columns.title && measure(columns.title) <= room) pen.text(columns.title, right, labelled, { align: "right" });
}

// The panel, row and column under the pointer; -1 beside the cells, over a label.
/** @param {PlotRoot<PanelsPlace, ShownPanels>} root @param {Pointed} event */
export function panelAt({ place, canvas, shown }, event) {
  const [x, y] = placeIn(canvas, event);
  for (const [index, { left, from, top, wide, high, count, labelled }] of place.places.entries()) {
    const [column, row] = [Math.floor((x - left) / wide), Math.floor((y - top) / high)];
    const [inColumn, inRow] = [column >= 0 && column < count[1], row >= 0 && row < count[0]];
    if (inColumn && inRow) return { panel: index, row, column };
    if (!shown.header.panels[index].choose) continue;
    if (inRow && x < left && x >= from) return { panel: index, row, column: -1 };
    if (inColumn && y < top && y > labelled + 8) return { panel: index, row: -1, column };
  }
  return { panel: -1, row: -1, column: -1 };
}

/** @param {PlotRoot<PanelsPlace, ShownPanels>} root @param {Pointed} [event] */
function pointPanels(root, event) {
  const { header } = root.shown;
  const found = (root.pointed = event ? panelAt(root, event) : { panel: -1, row: -1, column: -1 });
  const panel = header.panels[found.panel];
  for (const side of new Set(sidesOfPanels(header))) {
    let lit = -1;
    if (panel?.columns.side === side) lit = tokenAt(panel.columns, found.column);
    if (panel?.rows.side === side && found.row >= 0) lit = tokenAt(panel.rows, found.row);
    hover(side, lit);
  }
  root.canvas.style.cursor = panel?.choose ? "pointer" : "";
  paintSoon(root);
  if (!panel || found.row < 0 || found.column < 0) return showTip(root);
  const cell = found.row * panel.columns.labels.length + found.column;
  const pair = element("div", "pair");
  const column = panel.columns.labels[found.column] || `${panel.columns.title} ${found.column}`;
  for (const label of [panel.rows.labels[found.row], panel.joined ?? " → ", column]) pair.appendChild(element("bdi", "", shown(label)));
  const seen = panel.flags[cell] & 1;
  const value = compared(panel) && Number.isNaN(panel.values[cell]) ? header.words.missing : panel.scale ? precise(panel.values[cell]) : header.words.visible;
  const says = [seen ? value : header.words.masked];
  if (panel.flags[cell] & 2) says.push(header.words.changed);
  const place = root.place.places[found.panel];
  showTip(root, [pair, element("div", "", says.join(" · "))], place.left + (found.column + 1) * place.wide + 6, place.top + found.row * place.high);
}

/** @param {PlotRoot<PanelsPlace, ShownPanels>} root @param {Pointed} event */
function clickPanels(root, event) {
  const found = panelAt(root, event);
  if (root.shown.header.panels[found.panel]?.choose) root.choose(found);
}

// The next cell in a direction, from panel to panel; before the first one of a row or column stands its label, if that
// can be clicked.
/** @param {PlotRoot<PanelsPlace, ShownPanels>} root @param {any} from @param {number} right @param {number} down */
function walkPanels({ place: { places }, shown }, from, right, down) {
  let panel = within(from?.panel ?? 0, places.length);
  const first = () => (shown.header.panels[panel].choose ? -1 : 0);
  let [row, column] = [(from?.row ?? 0) + down, (from?.column ?? 0) + right];
  if (column >= places[panel].count[1] && panel + 1 < places.length) [panel, column] = [panel + 1, 0];
  else if (column < first() && panel > 0) [panel, column] = [panel - 1, places[panel - 1].count[1] - 1];
  row = Math.max(column < 0 ? 0 : first(), within(row, places[panel].count[0]) + Math.min(0, row));
  column = Math.max(row < 0 ? 0 : first(), within(column, places[panel].count[1]) + Math.min(0, column));
  const { left, top, wide, high } = places[panel];
  return { panel, row, column, x: column < 0 ? left - 4 : left + (column + 0.5) * wide, y: row < 0 ? top - 4 : top + (row + 0.5) * high };
}

/** @param {ShownPanels} shown */
function panelLines({ header }) {
  /** @type {string[][]} */
  const found = [header.words.csv];
  for (const { name, rows, columns, values, flags, scale } of header.panels) {
    flags.forEach((flag, cell) => {
      const column = cell % columns.labels.length;
      const value = scale ? exact(values[cell]) : "";
      found.push([name, rows.labels[Math.floor(cell / columns.labels.length)], columns.labels[column] || String(column), value, flag & 1 ? "False" : "True"]);
    });
  }
  return found;
}

/** @param {PanelsHeader} header */
const sidesOfPanels = ({ panels }) => panels.flatMap(({ rows, columns }) => [rows.side, columns.side]).filter(Boolean);

/** @type {PlotKind<PanelsPlace, ShownPanels>} */
const PANELS = {
  arrange: arrangePanels, draw: drawPanels, point: pointPanels, click: clickPanels, walk: walkPanels, lines: panelLines, sides: sidesOfPanels,
};

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildPlot(parentElement, "panels", PANELS);
  /** @type {ShownPanelsHeader & Behind} */
  const header = unpack(data);
  header.panels.forEach((/** @type {ShownPanel} */ panel, /** @type {number} */ index) => {
    panel.values = header.arrays[2 * index];
    panel.flags = header.arrays[2 * index + 1];
  });
  root.choose = (/** @type {number} */ cell) => setTriggerValue("cell", cell);
  root.explain = () => setTriggerValue("about", performance.now());
  showPlot(root, { header });
  return ending(root);
}
