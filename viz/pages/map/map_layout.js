// Where everything on the map goes: stacks beside each other, or on a narrow screen below each other; in a stack rows of
// blocks from the bottom up; beside them the residual stream. Lengths are CSS pixels.

import { windowHeight } from "../../web/elements.js";
import { shortened } from "../../web/pens.js";

export const SPACE = { layer: 18, rail: 24, between: 58, gap: 12, items: 14, title: 18, pad: 5, norm: 58, end: 48, strip: 14, experts: 42, chip: 20, guess: 16, edge: 14 };
export const THUMB = { most: 60, titled: 30, scrolled: 28, least: 18, gap: 4, spread: 22 };
const NARROW = 640; // below it stacks stand under each other
const DENSE = { two: 44, one: 118 }; // at least, for titles beside the pictures, where there is no room above them: of two stacks short ones
export const LINE = 15; // of a title
export const TOKEN_LINES = 2; // there is always room for so many: typing moves nothing
const FIXED = ["norm", "residual"]; // whose width does not depend on the room

// How much of the window the input bar covers, which stays on top.
export function covered() {
  const bar = document.querySelector(".vitrine-sticky");
  return Math.round((bar?.getBoundingClientRect().height ?? 156) + 46); // until it is there: of the usual height
}

/** @param {string} kind */
export const isAttention = (kind) => kind.endsWith("attention");

// A head's thumbnail is at most `most` large; heads wrap into lines where they would be too small.
/** @param {number} heads @param {number} width @param {number} most */
function fitThumbs(heads, width, most) {
  for (let lines = 1; ; lines++) {
    const each = Math.ceil(heads / lines);
    const size = Math.min(most, Math.floor((width - (each - 1) * THUMB.gap) / each));
    const spread = Math.min(THUMB.spread, Math.floor((width - each * size) / Math.max(1, each - 1)));
    if (size >= Math.min(most, THUMB.least) || each === 1) return { lines, each, size, step: size + Math.max(THUMB.gap, spread) };
  }
}

// A title as long as there is room for it: parts between points are left out from the end.
/** @param {string} text @param {number} room @param {Measure} measure */
function fitted(text, room, measure) {
  const parts = text.split(" · ");
  while (parts.length > 1 && measure(parts.join(" · ")) > room) parts.pop();
  let [found] = [parts.join(" · ")];
  while (found.length > 2 && measure(found) > room) found = `${found.slice(0, -2)}…`;
  return found;
}

// Of a feed-forward network's picture: a strip of units, or a row for each expert.
/** @param {number} rows */
export const stripHeight = (rows) => Math.max(SPACE.strip, Math.min(SPACE.experts, 6 * (rows ?? 1)));

// The lines of a block's title: one above its picture, or as many as there is room for beside it, or none.
/** @param {any} part @param {number} width @param {any} heights @param {any} settings */
function titleOf({ block, note, guess, keyWidth = 0 }, width, { beside, title }, { two, measure }) {
  if (beside) return two ? [block.short] : block.title.split(" · ");
  if (title < LINE) return [];
  const parts = block.kind === "output" ? [guess, block.title] : [block.title, note];
  return [fitted(parts.filter(Boolean).join(" · "), width - 16 - keyWidth, measure)];
}

// Height of a block and what is inside of it, at a width.
/** @param {any} part @param {number} width @param {any} settings */
function measureItem(part, width, settings) {
  const { block, heads, guesses } = part;
  const { thumb, dense, two, titles } = settings;
  const beside = dense && (isAttention(block.kind) || block.kind === "feed-forward") ? (two ? titles : DENSE.one) : 0;
  const title = beside || (dense && block.kind === "norm") ? 4 : SPACE.title;
  const text = titleOf(part, width, { beside, title }, settings);
  const inner = width - 16 - beside;
  if (isAttention(block.kind)) {
    const thumbs = fitThumbs(heads, inner, thumb);
    return { beside, title, text, thumbs, height: title + thumbs.lines * (thumbs.size + THUMB.gap) + 2 };
  }
  /** @type {Record<string, number>} */
  const fixed = { embedding: 28, recurrence: 28, readout: 0, output: guesses * SPACE.guess + 2, norm: 12 };
  const content = fixed[block.kind] ?? stripHeight(part.rows);
  return { beside, title, text, height: title + content + SPACE.pad };
}

// What a mark on the bars of the output means, beside its title, where something is pinned.
/** @param {ShownMap} header @param {number} number @param {any} settings */
function keyOf({ blocks, predictions, words }, number, { measure }) {
  if (blocks[number].kind !== "output" || !predictions.pinned) return {};
  return { key: words.mark, keyWidth: Math.ceil(measure.words(words.mark)) + 8 };
}

// The items of a row with their widths; the row is as high as the highest of them.
/** @param {number[]} numbers @param {ShownMap} header @param {number} room @param {any} settings */
function measureRow(numbers, header, room, settings) {
  const parts = numbers.map((number) => ({
    number,
    block: header.blocks[number],
    heads: header.pictures[number].shape[0],
    rows: header.pictures[number].shape[1],
    note: header.blocks[number].note,
    guess: header.predictions.title,
    guesses: header.predictions.labels.length,
    ...keyOf(header, number, settings),
  }));
  const onRail = parts[parts.length - 1].block.kind === "residual"; // else it stands between two blocks
  const shown = parts.filter(({ block }) => block.kind !== "residual" || !onRail);
  /** @type {Record<string, number>} */
  const fixed = { norm: SPACE.norm, residual: 16 };
  const taken = shown.reduce((sum, { block }) => sum + (fixed[block.kind] ?? 0), 0) + (shown.length - 1) * SPACE.items;
  const alone = shown.every(({ block }) => FIXED.includes(block.kind)); // the norm at the end of a stack
  const items = shown.map((part) => {
    const width = alone && part.block.kind === "norm" ? Math.min(room, 3 * SPACE.norm) : (fixed[part.block.kind] ?? room - taken);
    return { ...part, width, ...measureItem(part, width, settings) };
  });
  const height = Math.max(...items.map(({ block, height }) => (block.kind === "residual" ? 0 : height)));
  return { items, height, onRail, residual: parts.find(({ block }) => block.kind === "residual")?.number };
}

// Chips in lines as wide as there is room; those that do not fit are counted.
/**
 * @param {StackHeader} header @param {number} x @param {number} width @param {Measure} measure
 * @param {any} more
 */
function placeTokens({ labels, side, special }, x, width, measure, more) {
  const chips = [];
  let [left, line] = [x, 0];
  for (const [position, label] of labels.entries()) {
    const text = shortened(label);
    const wide = Math.min(width, measure(text) + 10);
    if (left > x && left + wide > x + width) [left, line] = [x, line + 1];
    const left_out = labels.length - position;
    const full = line === TOKEN_LINES - 1 && position < labels.length - 1 && left + wide + 90 > x + width;
    if (line >= TOKEN_LINES || full) {
      chips.push({ text: more.replace("{count}", left_out), x: left, y: Math.min(line, TOKEN_LINES - 1) * SPACE.chip, width: 0 });
      break;
    }
    chips.push({ text, x: left, y: line * SPACE.chip, width: wide, side, position, label, special: special[position] });
    left += wide + 4;
  }
  return chips;
}

/**
 * @param {StackHeader} stack @param {ShownMap} header @param {number} x @param {number} width
 * @param {Measure} measure @param {any} settings
 */
function measureStack(stack, header, x, width, measure, settings) {
  const left = x + SPACE.layer + SPACE.rail;
  const room = width - SPACE.layer - SPACE.rail;
  const rows = stack.rows.map((numbers) => measureRow(numbers, header, room, settings));
  const chips = placeTokens(stack, left, room, measure, header.words.more);
  const height = rows.reduce((sum, row) => sum + row.height + settings.gap, 0) + TOKEN_LINES * SPACE.chip + settings.gap + 22;
  return { stack, x, left, width, rows, chips, height };
}

// From the bottom up: tokens, embedding, sublayers, the end of the stack.
/** @param {any} measured @param {any} bottom @param {any} given */
function placeStack(measured, bottom, { gap }) {
  let y = bottom - TOKEN_LINES * SPACE.chip;
  const chips = measured.chips.map((/** @type {any} */ chip) => ({ ...chip, y: chip.y + y }));
  y -= gap;
  const rows = measured.rows.map((/** @type {any} */ row) => {
    const [top, low] = [y - row.height, y];
    y = top - gap;
    let x = measured.left;
    const items = row.items.map((/** @type {any} */ item) => {
      // A norm beside the predictions need not be as high as they are.
      const high = item.block.kind === "norm" ? Math.min(row.height, SPACE.end) : row.height;
      const placed = { ...item, x, y: (top + low - high) / 2, height: high };
      x += item.width + SPACE.items;
      return placed;
    });
    return { ...row, items, top, low, middle: (top + low) / 2, layer: row.items[0].block.layer };
  });
  return { ...measured, rows, chips, rail: measured.x + SPACE.layer + SPACE.rail / 2 - 4, top: y, bottom };
}

/** @param {ShownMap} header @param {number} width @param {number} ratio @param {Measure} measure */
export function arrangeMap(header, width, ratio, measure) {
  const two = header.stacks.length > 1;
  const narrow = two && width < NARROW;
  const edge = narrow ? SPACE.edge : 0; // where the keys and values go up
  const wide = narrow || !two ? width - edge : (width - SPACE.between) / 2;
  const post = header.stacks.some(({ rows }) => rows.some((/** @type {any} */ row) => header.blocks[row.at(-1)].kind === "norm" && row.length > 1));
  const titles = Math.max(DENSE.two, ...header.blocks.map(({ short }) => Math.ceil(measure(short ?? "")) + 6));
  const settings = { measure, two, titles, thumb: THUMB.most, dense: false, gap: SPACE.gap + (post ? 6 : 0) };
  const all = () => header.stacks.map((stack, index) => measureStack(stack, header, narrow ? 0 : index * (wide + SPACE.between), wide, measure, settings));
  // How high the map may be before its thumbnails shrink: what the window shows of it.
  const budget = Math.max(520, windowHeight() - header.covered - 60);
  let measured = all();
  const total = () => (narrow ? 0 : Math.max(...measured.map(({ height }) => height)));
  // Smaller thumbnails first, then no titles above them.
  while (total() > budget && (settings.thumb > THUMB.least || !settings.dense)) {
    if (settings.thumb > (settings.dense ? THUMB.least : THUMB.titled)) settings.thumb -= 2;
    else [settings.dense, settings.thumb] = [true, THUMB.most];
    measured = all();
  }
  if (total() > budget) {
    // The page must be scrolled anyway: then the thumbnails may as well be legible.
    [settings.thumb, settings.gap] = [THUMB.scrolled, settings.gap - 3];
    measured = all();
  }
  const heights = measured.map(({ height }) => height);
  const height = Math.ceil(narrow ? heights.reduce((a, b) => a + b + 14, 0) : Math.max(...heights));
  let bottom = height - 2;
  const stacks = measured.map((stack) => {
    const placed = placeStack(stack, bottom, settings);
    if (narrow) bottom -= stack.height + 14;
    return placed;
  });
  return { stacks, narrow, width, height, settings, trunk: narrow ? width - 7 : wide + SPACE.between / 2 - 8 };
}

// The stacks whose tokens are the rows and columns of an attention's maps.
/** @param {ModelMapHeader} header @param {number} number @returns {StackHeader[]} */
export function sidesOf({ stacks, blocks }, number) {
  const own = stacks.find(({ rows }) => rows.some((row) => row.includes(number))) ?? stacks[0];
  return [own, blocks[number].kind === "cross-attention" ? stacks[0] : own];
}
