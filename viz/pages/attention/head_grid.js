// Heads as thumbnails, in any order. Click one to open it large, and to present it where the grid is presented. While the film
// of a training stands at an earlier step, that frame of it is shown, from bytes that are here already.

import { unpack } from "../../web/bytes.js";
import { element, ending, labelled, newRoot, write } from "../../web/elements.js";
import { about, precisionOf, signed, significant } from "../../web/numbers.js";
import { bus, hover } from "../../web/bus.js";
import { shown } from "../../web/chips.js";
import { nameMenu, showAbout } from "../../web/plot.js";
import { addFiles, EDGE } from "../../web/picture.js";
import { filmError, filmShape, filmWeights, isFilmed, onFilm } from "../../web/film_store.js";
import { arrangeThumbnails, buildThumbnails, LEVELS, ODD_LEVEL, showThumbnails } from "../../web/thumbnails.js";

const MOST_LINES = 200_000; // of a CSV: some 8 MB
const LARGE = ["head_large", "head_lines"]; // keys of a chosen head's figure: its map, or lines

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = /** @type {any} */ (newRoot(parentElement, "heads head_grid"));
  buildThumbnails(root, (button, map, index) => {
    button.addEventListener("click", () => choose(root, root.shown.order[index]));
    map.addEventListener("pointermove", (event) => point(root, index, map, event));
    map.addEventListener("pointerleave", () => leave(root));
  });
  const again = () => root.sent?.kind && showHeads(root);
  const [stop, still] = [root.stop, onFilm(again, again, () => Boolean(root.sent?.kind))];
  root.stop = () => {
    stop();
    still();
  };
  root.grid.setAttribute("role", "group");
  root.best = element("div", "best");
  root.prepend(root.best);
  addFiles(root, () => root.grid, gridLines);
  const { draw } = root.kind;
  root.kind.draw = (/** @type {Pen} */ pen) => {
    draw(pen);
    drawMaps(pen, root);
  };
  return root;
}

// The maps are painted, and not made of elements: a file's pen gets them as the pictures they are.
/** @param {Pen} pen @param {any} given */
function drawMaps(pen, { places, picture, hatched, shown: { columns, rows, cells } }) {
  places.forEach((/** @type {number[]} */ [left, top, width, height], /** @type {number} */ index) => {
    /** @type {Rect} */
    const place = [EDGE + left, EDGE + top, width, height];
    const under = hatched?.picture;
    if (under) pen.picture(under, [0, 0, under.width, under.height], ...place);
    pen.picture(picture, [(index % columns) * cells, Math.floor(index / columns) * rows, cells, rows], ...place);
    pen.frame(...place, { faint: true });
  });
}

// The table of the file: a line for each cell of as many whole heads as it may hold, in the order of the page; then what
// it does not say. Values are as exact as the picture's: half a step off, and of a film's frame as far as it says.
/** @param {any} given */
function gridLines({ shown }) {
  const { order, rows, cells, block, levels, states, low, high, labels, words, error } = shown;
  const size = rows * cells;
  const step = (high - low) / LEVELS;
  const exactly = Math.max(0, 5 + Math.ceil(-Math.log10(step))); // so many that rounding them adds nothing
  const { digits, off } = error ? precisionOf(error) : { digits: exactly, off: roundedUp(step / 2 + 0.5 * 10 ** -exactly) };
  const there = order.map((/** @type {any} */ _, /** @type {number} */ index) => index).filter((/** @type {number} */ index) => !shown.waiting?.[index]);
  const held = Math.min(there.length, Math.floor(MOST_LINES / size));
  const names = [...words.csv];
  names[4] += ` ± ${error ? signed(off) : significant(off)}`;
  const found = [names];
  /** @param {any} level @param {any} state */
  const value = (level, state) => {
    if (level === LEVELS + 1 || state === 2) return words.missing;
    if (level === ODD_LEVEL && state) return words.odd;
    return level > LEVELS ? words.hidden : (low + level * step).toFixed(digits);
  };
  for (let at = 0; at < held * size; at++) {
    const index = there[Math.floor(at / size)];
    const [layer, head] = order[index];
    const [row, cell] = [Math.floor((at % size) / cells), at % cells];
    const state = states[at % size];
    const pair = [labels.rows[row * block[0]], labels.columns[cell * block[1]]];
    found.push([String(layer + 1), String(head + 1), ...pair, value(levels[index * size + (at % size)], state), state ? "False" : "True"]);
  }
  if (block[0] * block[1] > 1) found.push([blockOf(shown)]);
  if (held < order.length) found.push([words.left_out.replace("{count}", order.length - held)]);
  return found;
}

// Three significant digits that are no less.
/** @param {number} value */
function roundedUp(value) {
  const nearest = Number(value.toPrecision(3));
  return nearest >= value ? nearest : Number((nearest + 10 ** (Math.floor(Math.log10(value)) - 2)).toPrecision(3));
}

/** @param {HeadGridHeader} header */
const blockOf = ({ words, block }) => words.block.replace("{rows}", block[0]).replace("{columns}", block[1]);

/** @param {any} root */
function mark(root) {
  const [layer, head] = root.chosen;
  root.thumbnails.forEach((/** @type {any} */ button, /** @type {number} */ index) => {
    const here = root.shown.order[index][0] === layer && root.shown.order[index][1] === head;
    button.classList.toggle("chosen", here);
    button.setAttribute("aria-pressed", here);
  });
}

/** @param {any} root @param {number[]} place */
function choose(root, [layer, head]) {
  root.chosen = [layer, head];
  mark(root);
  root.send({ layer, head });
  bus.dispatchEvent(new CustomEvent("chosen", { detail: LARGE }));
}

// What the line below says of a cell: its tokens and its value.
/** @param {any} root @param {number} index @param {HTMLElement} map @param {PointerEvent} event */
function point(root, index, map, event) {
  const { rows, cells, block, levels, states, low, high, order, words, labels, sides, difference, error } = root.shown;
  const box = map.getBoundingClientRect();
  const row = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
  const cell = Math.max(0, Math.min(cells - 1, Math.floor(((event.clientX - box.left) / box.width) * cells)));
  const level = levels[(index * rows + row) * cells + cell];
  const state = states[row * cells + cell];
  const number = about(low + (level / LEVELS) * (high - low), error ?? (0.5 * (high - low)) / LEVELS);
  const said = { [LEVELS + 1]: words.missing, [LEVELS + 2]: words.hidden, [ODD_LEVEL]: words.odd };
  const value = root.shown.waiting?.[index] ? words.waiting : state === 0 ? words.masked : state === 2 ? words.missing : (said[level] ?? `${difference ? "Δ " : ""}${number}`);
  const [first, second] = [row * block[0], cell * block[1]];
  const pooled = block[0] * block[1] > 1;
  const many = pooled ? ` (${blockOf(root.shown)})` : "";
  root.caption.style.minHeight ||= `${root.caption.offsetHeight}px`; // shorter words move nothing
  root.caption.textContent = labelled(headName(words, order[index]), `${shown(labels.rows[first])} → ${shown(labels.columns[second])}  ${value}${many}`);
  hover(sides.rows, first);
  if (sides.columns !== sides.rows) hover(sides.columns, second);
}

/** @param {any} root */
function leave(root) {
  root.caption.textContent = root.shown.words.caption;
  root.caption.style.minHeight = "";
  hover(root.shown.sides.rows, -1);
  hover(root.shown.sides.columns, -1);
}

/** @param {Record<string, any>} words @param {number[]} pair */
const headName = (words, [layer, head]) => words.place.replace("{layer}", layer + 1).replace("{head}", head + 1);

// A frame of the film where it stands at an earlier step of these very tokens, in the place of what the server sent.
/** @param {any} sent */
function filmed(sent) {
  const { kind, labels, order, rows, cells, tops, words } = sent;
  if (bus.at == null || !kind || !isFilmed(kind, labels.rows, labels.columns)) return sent;
  const weights = filmWeights(kind, bus.at);
  const [, heads] = filmShape(kind);
  const size = rows * cells;
  const levels = new Uint16Array(order.length * size);
  const highest = order.map((/** @type {number[]} */ [layer, head], /** @type {number} */ index) => {
    const part = weights.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
    part.forEach((weight, cell) => (levels[index * size + cell] = Math.round((weight / 255) * LEVELS)));
    return part.reduce((top, weight) => Math.max(top, weight / 255), 1 / 255);
  });
  const caption = words.film.replace("{step}", bus.at.toLocaleString("en"));
  const scale = { low: 0, high: 1, tops: tops.every((/** @type {number} */ top) => top === 1) ? tops : highest };
  const error = filmError(kind) + 0.5 / LEVELS;
  return { ...sent, ...scale, levels, error, notes: order.map(() => ""), best: [], words: { ...words, caption }, step: bus.at };
}

// The best head of each kind of attention: a press opens that kind with it.
/** @param {any} root @param {HeadGridHeader} shown */
function showBest(root, { best, words }) {
  const row = JSON.stringify([words.best, best]);
  if (row === root.best.dataset.row) return; // the button in focus stays
  root.best.dataset.row = row;
  const buttons = best.map(({ kind, layer, head, label }) => {
    const button = element("button", "", label);
    button.type = "button";
    button.addEventListener("click", () => root.sendBest({ kind, layer, head }));
    return button;
  });
  root.best.replaceChildren(...(buttons.length ? [element("span", "muted", words.best), ...buttons] : []));
}

/** @param {any} root */
function showHeads(root) {
  const shown = filmed(root.sent);
  shown.order.forEach((/** @type {any} */ place, /** @type {number} */ index) => {
    root.thumbnails[index].classList.toggle("waiting", Boolean(shown.waiting?.[index]));
    const title = root.thumbnails[index].querySelector(".title");
    write(title.querySelector(".number"), shown.notes[index]);
    root.thumbnails[index].setAttribute("aria-label", labelled(headName(shown.words, place), `${shown.words.metric} ${title.textContent}`));
  });
  const { file, words } = shown;
  showThumbnails(root, { ...shown, header: { file, words } });
  write(root.caption, words.caption);
  showBest(root, shown);
  root.dataset.step = shown.step ?? "";
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  /** @type {HeadGridHeader & Behind} */
  const shown = unpack(data);
  const { order, columns, chosen, stamp, rows, cells, alt, words } = shown;
  const [levels, states] = shown.arrays;
  root.send = (/** @type {any} */ place) => setTriggerValue("head", place);
  root.sendBest = (/** @type {any} */ place) => setTriggerValue("best", place);
  root.explain = () => setTriggerValue("about", performance.now());
  root.chosen = chosen;
  arrangeThumbnails(root, order, columns);
  root.grid.setAttribute("aria-label", alt);
  nameMenu(root, words.download);
  showAbout(root, shown);
  root.sent = { ...shown, levels, states };
  showHeads(root);
  mark(root);
  root.dataset.cells = `${cells} ${rows}`;
  root.dataset.painted = stamp;
  return ending(root);
}
