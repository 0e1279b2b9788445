// How the map is drawn: the picture of each block, the residual stream through them, keys and values, tokens.

import { cleared, contextOf, element, hatch } from "../../web/elements.js";
import { significant } from "../../web/numbers.js";
import { ATTENTION, channels, KEY, ODD_COLOUR, OUTPUT, PLAIN, RESIDUAL, VALUE } from "../../web/colours.js";
import { paletteOf } from "../../web/palettes.js";
import { MARK, ODD_PIXEL, shortened } from "../../web/pens.js";
import { isAttention, LINE, sidesOf, SPACE, stripHeight, THUMB, TOKEN_LINES } from "./map_layout.js";

/** @type {Record<string, string>} */
const ACCENTS = { "self-attention": ATTENTION, "cross-attention": ATTENTION, "feed-forward": PLAIN, recurrence: PLAIN, output: OUTPUT };
/** @param {number} alpha */
const residual = (alpha) => `rgba(${channels(RESIDUAL).join(",")},${alpha})`;
const STREAM = residual(0.62);
export const LEVELS = 65534;
export const ODD_LEVEL = 65535; // not a number, or infinite

// Scales of the pictures: of weights, of activations, of vectors, and of differences from the pin.
export const SCALES = { weight: { low: 0, high: 1 }, active: { low: 0, high: 1, colour: PLAIN }, signed: { low: -1, high: 1 }, difference: { low: -1, high: 1, difference: true } };

// Maps side by side, a pixel a cell; a cell of level 0 stays empty. tops: for each map the level drawn darkest.
/**
 * @param {HTMLCanvasElement} canvas @param {Numbers} levels @param {number[]} numbers
 * @param {Uint32Array} colours @param {number[]} tops
 */
function mapsPicture(canvas, levels, [maps, rows, columns], colours, tops) {
  const context = cleared(canvas, maps * columns, rows);
  const image = context.createImageData(canvas.width, rows);
  const pixels = new Uint32Array(image.data.buffer);
  let cell = 0;
  for (let map = 0; map < maps; map++) {
    const factor = 255 / tops[map];
    for (let row = 0; row < rows; row++) {
      let at = row * canvas.width + map * columns;
      for (let column = 0; column < columns; column++, at++) {
        const level = levels[cell++];
        if (level === ODD_LEVEL) pixels[at] = ODD_PIXEL;
        else if (level) pixels[at] = colours[Math.min(255, Math.round((level - 1) * factor))];
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** @param {Numbers} levels @param {number[]} numbers */
function largestLevels(levels, [maps, rows, columns]) {
  return Array.from({ length: maps }, (_, map) => {
    let top = 2;
    for (let cell = map * rows * columns; cell < (map + 1) * rows * columns; cell++) if (levels[cell] > top && levels[cell] <= LEVELS) top = levels[cell];
    return top - 1;
  });
}

// Of each part of a picture of differences, whether nothing differs: no colour would say it.
/** @param {Numbers} levels @param {number[]} numbers */
function sameParts(levels, [parts, rows, columns]) {
  const of = (/** @type {number} */ part) => [...levels.slice(part * rows * columns, (part + 1) * rows * columns)];
  return Array.from({ length: parts }, (_, part) => of(part).every((level) => level === LEVELS / 2));
}

// The cells of level 0 of a map as a hatched picture; null if there are none. Heads share it, and layers mostly.
/** @param {Numbers} levels @param {number} rows @param {number} columns @param {any[]} made */
function hatchPicture(levels, rows, columns, made) {
  const hidden = levels.subarray(0, rows * columns);
  if (!hidden.includes(0)) return null;
  const known = made.find(({ mask }) => mask.length === hidden.length && mask.every((/** @type {any} */ cell, /** @type {number} */ index) => cell === (hidden[index] === 0)));
  if (known) return known.canvas;
  const scale = Math.max(1, Math.ceil(96 / Math.max(rows, columns)));
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [columns * scale, rows * scale];
  const context = contextOf(canvas);
  context.fillStyle = hatch(context, 6);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const from = column;
      while (column < columns && hidden[row * columns + column] === 0) column++;
      if (column > from) context.fillRect(from * scale, row * scale, (column - from) * scale, scale);
    }
  }
  made.push({ mask: Array.from(hidden, (level) => level === 0), canvas });
  return canvas;
}

// The picture of each block, painted once for the data that came, in the colours of this look: heads or parts side by side,
// and what is hatched.
/** @param {ShownMap} header @param {any[]} before @param {Look} look */
export function paintPictures(header, before, look) {
  /** @type {any[]} */
  const masks = [];
  const { differing, scale } = header;
  return header.blocks.map(({ kind }, number) => {
    const { shape, values } = header.pictures[number];
    if (shape.length !== 3 || !values.length) return { values, shape };
    const attention = isAttention(kind);
    const vectors = kind === "embedding" || kind === "recurrence";
    const signed = differing || vectors;
    const scaleOf = differing ? SCALES.difference : attention ? SCALES.weight : vectors ? SCALES.signed : SCALES.active;
    const colours = paletteOf(scaleOf, look).pixels;
    const tops = attention && scale === "largest" && !signed ? largestLevels(values, shape) : Array(shape[0]).fill(LEVELS - 1);
    const canvas = mapsPicture(before?.[number]?.canvas ?? element("canvas"), values, shape, colours, tops);
    const same = differing && vectors ? sameParts(values, shape) : [];
    return { canvas, shape, values, same, hatched: hatchPicture(values, shape[1], shape[2], masks) };
  });
}

// The colour of all that is of the pin, as strong as this.
/** @param {Pen} pen @param {number} alpha */
const ofPin = (pen, alpha) => `rgba(${channels(pen.look.pinned).join(",")},${alpha.toFixed(3)})`;

// The line of something that flows is as thick as its norm; thin and dashed where there is no number.
/**
 * @param {Pen} pen @param {ShownMap} header @param {Point[]} points @param {number | null} flow
 * @param {{ colour?: string, most?: number, tip?: boolean }} [options]
 */
function flowing(pen, header, points, flow, { colour, most = 9, tip = true } = {}) {
  const width = flow === null ? 1 : 1 + (most - 1) * Math.min(1, flow / header.thickest);
  const drawn = colour ?? (header.differing ? ofPin(pen, 0.7) : STREAM);
  const [[fx, fy], [x, y]] = points.slice(-2);
  const long = Math.hypot(x - fx, y - fy);
  const [dx, dy] = [(x - fx) / long, (y - fy) / long];
  pen.line(points, { colour: drawn, width, dash: flow === null ? [3, 3] : [] });
  if (!tip) return;
  const size = 3 + width / 2;
  /** @param {any} side */
  const wing = (side) => [x - dx * size - dy * side * size, y - dy * size + dx * side * size];
  pen.line([wing(1), [x, y], wing(-1)], { colour: drawn, width: 1.5 });
}

// x + y: a circle with a cross; without a short cut a point, as nothing is added.
/** @param {Pen} pen @param {number} x @param {number} y @param {ShownMap} header */
function drawSum(pen, x, y, header) {
  pen.dot(x, y, 7.5, pen.background);
  const ring = Array.from({ length: 25 }, (_, step) => [x + 7 * Math.cos((step * Math.PI) / 12), y + 7 * Math.sin((step * Math.PI) / 12)]);
  pen.line(ring, { width: 1.2 });
  if (!header.bypass) return pen.dot(x, y, 2.2, STREAM);
  pen.line([[x - 4, y], [x + 4, y]], { width: 1.2 });
  pen.line([[x, y - 4], [x, y + 4]], { width: 1.2 });
}

/** @param {ShownMap} header @param {any} item */
const flowOf = (header, item) => header.blocks[item.number].flow;

/** @param {any} given */
const isRecurrent = ({ items }) => items[0].block.kind === "recurrence";

// What flows through a recurrent stack: tokens into every unit; from each block into the one above it; and of the
// decoder's unit its state back to the attention. The encoder's two units stand beside each other in time.
/** @param {Pen} pen @param {any} place @param {any} stack @param {ShownMap} header */
function drawRecurrence(pen, place, stack, header) {
  const { rail, rows: [first, ...others] } = stack;
  const flow = flowOf(header, first.items[0]);
  const units = others.filter(isRecurrent);
  flowing(pen, header, [...leaving(place, stack, first, first.items[0]), [rail, units.at(-1).middle]], flow, { tip: false });
  for (const { middle, items: [unit] } of units) flowing(pen, header, [[rail, middle], [unit.x - 1, middle]], flow, { most: 7 });
  const last = others.at(-1);
  /** @param {any} given */
  const right = ({ items: [item], middle }) => [item.x + item.width, middle];
  if (others.every(isRecurrent)) {
    const [[x, low], [, high]] = [right(others[0]), right(last)];
    flowing(pen, header, [[x, low], [x + 10, low], [x + 10, high]], flowOf(header, others[0].items[0]), { most: 6, tip: false });
  } else others.slice(1).forEach((/** @type {any} */ { items: [above] }, /** @type {number} */ index) => {
    const [below] = others[index].items;
    const [low, high, x] = [below.y, above.y + above.height, above.x + 20];
    flowing(pen, header, [[x, low], [x, high + 1]], flowOf(header, below), { most: 5 });
    if (!isAttention(below.block.kind)) return;
    const back = above.x + above.width - 20;
    flowing(pen, header, [[back, high], [back, low - 1]], flowOf(header, above), { most: 5 });
  });
  stack.end = [right(last), flowOf(header, last.items[0])];
}

// From a block up and to the stream beside the stack.
/** @param {any} place @param {any} given @param {any} row @param {any} item */
const leaving = (place, { rail }, row, item) => {
  const up = row.top - 0.4 * place.settings.gap;
  return [[item.x + 16, item.y], [item.x + 16, up], [rail, up]];
};

// The stream beside a stack, row by row, and its branches through the blocks.
/** @param {Pen} pen @param {any} place @param {any} stack @param {ShownMap} header */
function drawStream(pen, place, stack, header) {
  const { rail, rows, bottom } = stack;
  const gap = place.settings.gap;
  const [first, ...others] = rows;
  const entry = first.items[0].x + 20;
  flowing(pen, header, [[entry, bottom - TOKEN_LINES * SPACE.chip - 2], [entry, first.low + 1]], flowOf(header, first.items[0]), { most: 5 });
  if (rows.some(isRecurrent)) return drawRecurrence(pen, place, stack, header);
  let flow = flowOf(header, first.items.at(-1));
  let from = first.top - 0.4 * gap;
  /** @type {any} */
  let entered = {}; // where the first block of a layer reads the stream: those beside it read it there, too
  flowing(pen, header, leaving(place, stack, first, first.items.at(-1)), flow, { tip: false });
  for (const row of others) {
    /** @param {any} left @param {any} right */
    const between = (left, right) => [[left.x + left.width, row.middle], [right.x - 1, row.middle]];
    const aside = header.parallel && row.layer !== null && row.layer === entered.layer;
    if (!aside) entered = { layer: row.layer, y: row.middle, flow, crossed: row.top - 0.4 * gap };
    const into = [[rail, row.middle], [row.items[0].x - 1, row.middle]];
    const past = [[rail + 11, entered.y], [rail + 11, row.middle], [row.items[0].x - 1, row.middle]];
    const up = row.top - 0.4 * gap;
    const sum = row.items.find((/** @type {any} */ { block }) => block.kind === "residual");
    const passes = row.onRail && header.bypass;
    flowing(pen, header, [[rail, from], [rail, passes ? up + 7 : row.middle]], flow, { tip: false });
    if (aside) pen.line([[rail + 11, entered.crossed + 6], [rail + 11, entered.crossed - 6]], { colour: pen.background, width: 8 });
    flowing(pen, header, aside ? past : into, aside ? entered.flow : flow, { most: aside ? 3 : 7 });
    row.items.forEach((/** @type {any} */ item, /** @type {number} */ index) => {
      if (index) flowing(pen, header, between(row.items[index - 1], item), flowOf(header, row.items[index - 1]), { most: 7 });
    });
    const last = row.items.at(-1);
    if (sum && header.bypass) {
      const low = row.low + 0.4 * gap;
      flowing(pen, header, [[rail, low], [sum.x + 8, low], [sum.x + 8, row.middle + 8]], flow, { most: 7 });
    }
    if (row.residual === undefined) {
      stack.end = [[last.x + last.width, row.middle], flowOf(header, last)];
      return;
    }
    if (row === rows.at(-1) && !row.onRail) {
      stack.end = [[last.x + 16, last.y], flowOf(header, last)]; // the norm that ends a post-norm stack without an output
      return;
    }
    flowing(pen, header, leaving(place, stack, row, last), flowOf(header, last), { most: 7, tip: row.onRail });
    flow = header.blocks[row.onRail ? row.residual : last.number].flow;
    if (row.onRail) drawSum(pen, rail, up, header);
    from = up;
  }
  const highest = rows.at(-1).top - 0.4 * gap;
  stack.end = [[rail, highest], flow];
}

// Keys and values go from the top of the encoder to every cross-attention.
/** @param {Pen} pen @param {any} place @param {ShownMap} header */
function drawMemory(pen, place, header) {
  const [encoder, decoder] = place.stacks;
  if (!decoder) return;
  const rows = decoder.rows.filter((/** @type {any} */ { items }) => items.some((/** @type {any} */ { block }) => block.kind === "cross-attention"));
  const [[x, y], flow] = encoder.end;
  const aside = y === encoder.rows.at(-1).middle; // from the right end of a norm, else from the top
  const turn = aside ? y : encoder.rows.at(-1).top - 0.4 * place.settings.gap - 4;
  const thick = { most: 6 };
  [KEY, VALUE].forEach((colour, strand) => {
    const at = place.trunk + 4 * strand;
    const begin = [...(aside ? [] : [[x + 4 * strand, y]]), [aside ? x : x + 4 * strand, turn + 4 * strand], [at, turn + 4 * strand]];
    rows.forEach((/** @type {any} */ { items, low }, /** @type {number} */ index) => {
      const item = items.find((/** @type {any} */ { block }) => block.kind === "cross-attention");
      const end = [place.narrow ? item.x + item.width + 1 : item.x - 1, low - 10 + 4 * strand];
      flowing(pen, header, [...(index ? [] : begin), [at, end[1]], end], flow, { ...thick, colour });
    });
    const ends = [turn + 4 * strand, ...rows.map((/** @type {any} */ { low }) => low - 10 + 4 * strand)];
    flowing(pen, header, [[at, Math.min(...ends)], [at, Math.max(...ends)]], flow, { ...thick, colour, tip: false });
  });
}

const DIGIT = 7; // wide

// Lines over positions: mean thin, deviation strong; the pinned ones dashed.
/**
 * @param {Pen} pen @param {any} given @param {number} x @param {number} y @param {number} width
 * @param {number} height
 */
function drawLines(pen, { values, shape: [count, length] }, x, y, width, height) {
  const known = values.filter((/** @type {number} */ value) => Number.isFinite(value));
  const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
  /** @param {number} value */
  const place = (value) => y + height - ((value - low) / (high - low || 1)) * height;
  for (let line = count - 1; line >= 0; line--) {
    const points = [];
    for (let position = 0; position <= length; position++) {
      const value = values[line * length + position];
      if (position < length && Number.isFinite(value)) points.push([x + ((position + 0.5) / length) * width, place(value)]);
      else if (points.length) {
        if (points.length > 1) pen.line(points, { width: line % 2 ? 1.6 : 0.8, dash: line > 1 ? [3, 2] : [] });
        else pen.dot(points[0][0], points[0][1], 1.6, line % 2 ? MARK : STREAM);
        points.length = 0;
      }
    }
  }
}

/** @param {Pen} pen @param {GuessesHeader} header @param {any} item */
function drawGuesses(pen, { labels, probabilities, pinned }, item) {
  const name = Math.min(110, 0.32 * item.width);
  const room = item.width - name - 66;
  labels.forEach((label, index) => {
    const y = item.y + item.title + index * SPACE.guess;
    pen.text(shortened(label), item.x + name, y + SPACE.guess / 2, { align: "right", token: true });
    pen.box(item.x + name + 8, y + 3, Math.max(1, room * probabilities[index]), SPACE.guess - 6, ACCENTS.output);
    if (pinned) pen.box(item.x + name + 7 + room * pinned[index], y, 2, SPACE.guess, pen.look.pinned);
    // The number stands at the end of its own bar; a mark that would go through it is seen above and below it.
    const [number, at] = [significant(probabilities[index]), item.x + name + 14 + room * probabilities[index]];
    pen.box(at - 2, y + 3, DIGIT * number.length + 4, SPACE.guess - 6, pen.background);
    pen.text(number, at, y + SPACE.guess / 2, {});
  });
}

/** @param {any} given @param {number} heads */
export const thumbsOf = ({ x, y, beside, title, thumbs: { each, size, step } }, heads) =>
  Array.from({ length: heads }, (_, head) => [
    x + 10 + beside + (head % each) * step,
    y + title + Math.floor(head / each) * (size + THUMB.gap),
    size,
  ]);

// The rows and columns of a head's map whose token is pointed at, as bands; see `sidesOf`.
/**
 * @param {Pen} pen @param {any} given @param {number} number @param {number[]} numbers
 * @param {number[]} numbers2
 */
function drawLit(pen, { header, lit }, number, [x, y, size], [, rows, columns]) {
  const [asking, answering] = sidesOf(header, number);
  /** @param {any} given @param {any} cells */
  const cellOf = ({ side, labels }, cells) => ((lit?.[side] ?? -1) < 0 ? -1 : Math.floor(lit[side] / Math.ceil(labels.length / cells)));
  const [row, column] = [cellOf(asking, rows), cellOf(answering, columns)];
  const [high, wide] = [size / rows, size / columns];
  if (row >= 0 && row < rows) pen.frame(x, y + row * high, size, Math.max(2, high), { colour: MARK });
  if (column >= 0 && column < columns && answering !== asking) pen.frame(x + column * wide, y, Math.max(2, wide), size, { colour: MARK });
}

const SEEN = 0.1; // of the largest move of a head's weight: less has no frame

/** @param {Pen} pen @param {any} item @param {any} view */
function drawItem(pen, item, view) {
  const { header, pictures } = view;
  const { x, y, width, height, block, beside, title, number } = item;
  if (block.kind === "residual") return drawSum(pen, x + 8, y + height / 2, header);
  pen.frame(x, y, width, height, { faint: true, radius: 6, fill: pen.background });
  if (ACCENTS[block.kind]) pen.box(x, y + 3, 3, height - 7, ACCENTS[block.kind]);
  const picture = pictures[number];
  const text = item.text.slice(0, Math.max(1, Math.floor(height / LINE)));
  if (item.key) {
    const from = x + width - 10 - item.keyWidth;
    pen.box(from, y + 3, 2, 12, pen.look.pinned);
    pen.text(item.key, from + 7, y + 9, {});
  }
  text.forEach((/** @type {any} */ line, /** @type {number} */ index) => pen.text(line, x + 9, beside ? y + height / 2 + (index - (text.length - 1) / 2) * LINE : y + 9, {}));
  const [left, room] = [x + 10 + beside, width - 18 - beside];
  const low = height - title - SPACE.pad;
  if (isAttention(block.kind)) {
    const [heads, rows, columns] = picture.shape;
    thumbsOf(item, heads).forEach(([tx, ty, size], head) => {
      pen.frame(tx, ty, size + 1, size + 1, { faint: true });
      if (picture.hatched) pen.picture(picture.hatched, [0, 0, picture.hatched.width, picture.hatched.height], tx, ty, size, size);
      if (picture.canvas) pen.picture(picture.canvas, [head * columns, 0, columns, rows], tx, ty, size, size);
      const share = block.moved && view.most ? block.moved[head] / view.most : 0;
      if (share > SEEN) pen.line([[tx, ty], [tx + size, ty], [tx + size, ty + size], [tx, ty + size], [tx, ty - 1]], { colour: ofPin(pen, share), width: 2.5 });
      drawLit(pen, view, number, [tx, ty, size], picture.shape);
    });
  } else if (block.kind === "feed-forward" && picture.canvas) {
    const [, rows, columns] = picture.shape; // of experts a row each
    pen.picture(picture.canvas, [0, 0, columns, rows], left, y + title, room, stripHeight(rows));
    pen.frame(left, y + title, room + 1, stripHeight(rows) + 1, { faint: true });
  } else if (block.kind === "norm") {
    const odd = picture.values.length > 0 && !picture.values.some((/** @type {number} */ value) => Number.isFinite(value));
    if (odd) pen.box(left - 3, y + title + 1, room + 6, low - 2, ODD_COLOUR);
    else drawLines(pen, picture, left - 3, y + title + 1, room + 6, low - 2);
  } else if ((block.kind === "embedding" || block.kind === "recurrence") && picture.canvas) {
    const [parts, rows, columns] = picture.shape;
    const each = (room - (parts - 1) * 22) / parts;
    for (let part = 0; part < parts; part++) {
      const at = left + part * (each + 22);
      if (part) pen.text("+", at - 11, y + title + 14, { align: "center" });
      pen.frame(at, y + title, each + 1, 29, { faint: true });
      if (picture.hatched) pen.picture(picture.hatched, [0, 0, picture.hatched.width, picture.hatched.height], at, y + title, each, 28);
      pen.picture(picture.canvas, [part * columns, 0, columns, rows], at, y + title, each, 28);
      if (picture.same[part]) pen.text(header.words.same, at + each / 2, y + title + 14, { align: "center" });
    }
  } else if (block.kind === "output") {
    drawGuesses(pen, header.predictions, item);
  }
}

/** @param {Pen} pen @param {any} given @param {any} shown */
function drawTokens(pen, { chips }, { lit, chosen }) {
  for (const { text, x, y, width, side, position, special } of chips) {
    const marked = width > 0 && lit?.[side] === position;
    if (width) pen.frame(x, y, width, SPACE.chip - 2, { radius: 4, width: 0, fill: marked ? MARK : residual(0.16) });
    if (width && chosen.side === side && chosen.position === position) pen.frame(x + 1, y + 1, width - 2, SPACE.chip - 4, { radius: 4, width: 2, colour: MARK });
    pen.text(text, x + 5, y + SPACE.chip / 2 - 1, { token: width > 0, marked: false, colour: marked ? "background" : undefined, faint: special });
  }
}

/** @param {Pen} pen @param {any} place @param {any} shown */
export function drawMap(pen, place, shown) {
  const { header } = shown;
  const view = { ...shown, most: Math.max(0, ...header.blocks.flatMap((/** @type {BlockHeader} */ { moved }) => moved ?? [])) };
  const layers = [];
  for (const stack of place.stacks) {
    for (const layer of new Set(stack.rows.map((/** @type {any} */ row) => row.layer).filter((/** @type {number} */ layer) => layer !== null))) {
      const rows = stack.rows.filter((/** @type {any} */ row) => row.layer === layer);
      const [top, low] = [rows.at(-1).top - 4, rows[0].low + 4];
      pen.frame(stack.x, top, stack.width, low - top, { radius: 8, width: 0, fill: residual(0.08) });
      layers.push([header.words.layer.replace("{number}", layer + 1), stack.x + 9, low - 7]);
    }
    drawStream(pen, place, stack, header);
  }
  drawMemory(pen, place, header);
  for (const [name, x, y] of layers) pen.text(name, x, y, { turn: -90 });
  for (const stack of place.stacks) {
    for (const row of stack.rows) row.items.forEach((/** @type {any} */ item) => drawItem(pen, item, view));
    drawTokens(pen, stack, { lit: view.lit, chosen: header.predictions });
    pen.text(stack.stack.name, stack.left, stack.top - 4, { strong: true });
  }
}
