// One query of one head, step by step: score, scaled, masked, weight, weighted value, for every key; their sum below.
// Vectors are painted as strips on one canvas over the table: a canvas each costs the browser a third of its frame.
// Where something is pinned, its numbers stand below; the upper ones may be the differences from them.

import { unpack } from "../../web/bytes.js";
import { cleared, contextOf, element, ending, firstIn, followScroll, labelled, lastIn, newRoot, shorten, write, zoomOf } from "../../web/elements.js";
import { exact, largest, significant } from "../../web/numbers.js";
import { DIFFERENCE, SIGNED, signedColour } from "../../web/colours.js";
import { endsOf } from "../../web/palettes.js";
import { appearance, onTheme } from "../../web/pens.js";
import { lightChips, newChip, showChip, showChips } from "../../web/chips.js";
import { addFiles, EDGE, showFiles } from "../../web/picture.js";

// columns: key, a number for each step before the weight, weight, weighted value. beside: with the pinned ones below.
/** @param {HTMLElement} parentElement @param {number} columns @param {boolean} beside */
function build(parentElement, columns, beside) {
  const root = newRoot(parentElement, "stages");
  const picker = element("div", "picker");
  root.queries = element("div", "chips");
  picker.append(element("span", "muted"), root.queries);
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0; // it scrolls in itself, by keys too
  const sheet = scroll.appendChild(element("div", "sheet"));
  root.table = sheet.appendChild(element("table"));
  root.atlas = sheet.appendChild(element("canvas", "atlas"));
  root.note = element("div", "note muted");
  root.append(picker, root.note, scroll);
  root.head = root.table.createTHead().insertRow();
  root.body = root.table.createTBody();
  root.total = root.table.createTFoot().insertRow();
  [root.columns, root.beside] = [columns, beside];
  for (let column = 0; column < columns; column++) {
    const title = root.head.appendChild(element("th"));
    title.append(element("span", "name"), element("span", "formula muted"));
    root.total.insertCell();
  }
  root.total.cells[columns - 2].append(element("span"), ...(beside ? [element("div", "before")] : []));
  lastIn(root.total).append(...newStrips(beside));
  const markBeyond = followScroll(scroll);
  const sizes = new ResizeObserver(() => {
    paintStrips(root);
    markBeyond();
  });
  sizes.observe(sheet);
  addFiles(root, () => root.table, stageLines);
  const { draw } = root.kind;
  root.kind.draw = (/** @type {Pen} */ pen) => {
    draw(pen);
    drawStrips(pen, root);
  };
  const dark = lightChips(root);
  const plain = onTheme(() => paintStrips(root));
  root.stop = () => {
    sizes.disconnect();
    dark();
    plain();
  };
  return root;
}

function newStrip() {
  const made = /** @type {any} */ (element("span", "strip"));
  made.setAttribute("role", "img");
  made.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const { values, name } = made.drawn;
    const channel = Math.min(values.length - 1, Math.floor((event.offsetX / made.clientWidth) * values.length));
    made.title = `${name} [${channel}] = ${values[channel]}`;
  });
  return made;
}

/** @param {boolean} beside */
const newStrips = (beside) => [newStrip(), ...(beside ? [newStrip()] : [])];

/** @param {HTMLTableSectionElement} body @param {number} position @param {Root} options */
function newRow(body, position, { columns, beside }) {
  const row = body.insertRow();
  for (let column = 0; column < columns; column++) row.insertCell();
  row.cells[0].className = "key";
  row.cells[0].appendChild(newChip(position));
  for (let column = 1; column < columns - 2; column++) row.cells[column].append(element("span"));
  row.cells[columns - 2].append(element("i", "bar"), element("span"));
  if (beside) {
    for (let column = 1; column < columns - 1; column++) row.cells[column].append(element("div", "before"));
    row.cells[columns - 2].append(element("i", "bar then"));
  }
  row.cells[columns - 1].append(...newStrips(beside));
}

// The root for a table of so many columns; one of another shape is thrown away.
/** @param {HTMLElement} parentElement @param {number} columns @param {boolean} beside */
function rootFor(parentElement, columns, beside) {
  const root = parentElement.querySelector(".vitrine");
  if (root?.columns === columns && root.beside === beside) return root;
  root?.stop();
  root?.remove();
  return build(parentElement, columns, beside);
}

/** @param {any} strip @param {any} values @param {string} name @param {number} top @param {Hues} hues */
function showStrip(strip, values, name, top, hues) {
  strip.drawn = { values, name, top, hues };
  strip.setAttribute("aria-label", name);
}

/** @param {any} values */
const total = (values) => {
  const known = values.filter((/** @type {number} */ value) => !Number.isNaN(value)); // of the pinned trace some may have no counterpart
  return known.length || !values.length ? known.reduce((/** @type {any} */ sum, /** @type {number} */ value) => sum + value, 0) : NaN;
};

// Every strip of the table: its vector, a channel as wide as the other, over the place that the table gives it.
/** @param {Root} root */
function paintStrips(root) {
  const [ratio, zoom] = [window.devicePixelRatio || 1, zoomOf(root.atlas)]; // places are those on the screen, sizes are not
  const sheet = root.atlas.parentElement.getBoundingClientRect();
  if (!sheet.width || !root.table.querySelector(".strip")?.drawn) return; // not laid out yet: the observer of its size calls again
  const places = [...root.table.querySelectorAll(".strip")].map((strip) => [strip, strip.getBoundingClientRect()]);
  const first = places[0][1];
  const edge = Math.round((first.left - sheet.left) * ratio);
  root.atlas.style.left = `${edge / ratio / zoom}px`;
  const context = cleared(root.atlas, Math.round(first.width * ratio), Math.round(sheet.height * ratio));
  root.atlas.style.width = `${root.atlas.width / ratio / zoom}px`;
  root.atlas.style.height = `${root.atlas.height / ratio / zoom}px`;
  const look = appearance(root);
  for (const [{ drawn: { values, top: most, hues } }, box] of places) {
    const top = Math.round((box.top - sheet.top) * ratio);
    const height = Math.round(box.height * ratio);
    const wide = root.atlas.width / values.length;
    values.forEach((/** @type {number} */ value, /** @type {number} */ channel) => {
      const left = Math.round(channel * wide);
      if (Number.isNaN(value)) return;
      context.fillStyle = signedColour(value, most, 1, endsOf(hues, look));
      context.fillRect(left, top, Math.round((channel + 1) * wide) - left, height);
    });
  }
}

// The strips in a file: a picture of a pixel for each channel.
/** @param {Pen} pen @param {Root} options */
function drawStrips(pen, { table }) {
  const corner = table.getBoundingClientRect();
  const context = contextOf(element("canvas"));
  for (const strip of table.querySelectorAll(".strip")) {
    const { values, top, hues } = strip.drawn;
    const { left, top: upper, width, height } = strip.getBoundingClientRect();
    cleared(context.canvas, values.length, 1);
    values.forEach((/** @type {number} */ value, /** @type {number} */ channel) => {
      if (Number.isNaN(value)) return;
      context.fillStyle = signedColour(value, top, 1, endsOf(hues, pen.look));
      context.fillRect(channel, 0, 1, 1);
    });
    pen.picture(context.canvas, [0, 0, values.length, 1], EDGE + left - corner.left, EDGE + upper - corner.top, width, height);
  }
}

// The table of the file: a line for each key, its steps, its weight and the channels of its weighted value, and the same
// of the pinned trace; the sums; and how many keys are left out.
/** @param {any} given */
function stageLines({ shown: { header } }) {
  const { keys, words, note, runs } = header;
  const names = words.columns.map((/** @type {any} */ { name }) => name);
  /** @param {any} given @param {(name: string) => string} named */
  const titles = ({ sum }, named) => [...names.slice(1, -1).map(named), ...[...sum].map((_, channel) => `${named(names.at(-1))} [${channel}]`)];
  /** @param {any} given @param {number} at */
  const line = ({ steps, weights, weighted, sum }, at) =>
    [...steps.map((/** @type {any} */ stage) => stage[at]), weights[at], ...weighted.subarray(at * sum.length, (at + 1) * sum.length)].map(exact);
  /** @param {any} given */
  const sums = ({ steps, weights, sum }) => [...steps.map(() => ""), ...[total(weights), ...sum].map(exact)];
  return [
    [names[0], ...runs.flatMap((/** @type {any} */ run) => titles(run, run.named))],
    ...keys.map((/** @type {string} */ key, /** @type {number} */ at) => [key, ...runs.flatMap((/** @type {any} */ run) => line(run, at))]),
    ["Σ", ...runs.flatMap(sums)],
    ...(note ? [[note]] : []),
  ];
}

// What the arrays of a trace are; named: how its columns are called.
/** @param {Numbers[]} arrays @param {(name: string) => string} named */
function runOf(arrays, named) {
  const [weights, weighted, sum] = arrays.slice(-3);
  return { steps: arrays.slice(0, -3), weights, weighted, sum, named };
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  /** @type {StepsHeader & Behind} */
  const header = unpack(data);
  const { queries, keys, places, sides, chosen, words, special, note, arrays, stamp, masked, pinned, alt } = header;
  const root = rootFor(parentElement, words.columns.length, Boolean(pinned));
  const own = pinned ? arrays.slice(0, arrays.length / 2) : arrays;
  const before = pinned ? arrays.slice(arrays.length / 2) : null;
  const differing = Boolean(pinned?.differing);
  const hues = differing ? DIFFERENCE : SIGNED;
  const run = runOf(own, (name) => (differing ? `Δ ${name}` : name));
  const { steps, weights, weighted, sum } = run;
  const channels = sum.length;
  root.choose = (/** @type {number} */ position) => setTriggerValue("query", position);
  root.explain = () => setTriggerValue("about", performance.now());
  root.table.setAttribute("aria-label", alt);
  showFiles(root, { ...header, runs: [run, ...(before ? [runOf(before, (name) => `${name}, ${words.pinned}`)] : [])] });
  write(root.querySelector(".picker .muted"), words.query);
  showChips(root.queries, queries, special.rows, sides.rows, (side, position) => root.choose(position), places.rows);
  [...root.queries.children].forEach((made, index) => {
    made.classList.toggle("chosen", places.rows[index] === chosen);
    made.setAttribute("aria-pressed", places.rows[index] === chosen);
  });
  write(root.note, note);
  words.columns.forEach((/** @type {any} */ { name, formula }, /** @type {number} */ column) => {
    write(firstIn(root.head.cells[column]), differing && column ? `Δ ${name}` : name);
    write(lastIn(root.head.cells[column]), formula);
  });
  for (const { cells } of [root.head, root.total]) cells[steps.length].classList.add("mask");
  root.table.classList.toggle("unhidden", !masked.some(Boolean));

  const tops = [...steps, weights].map(largest);
  const [top, topBefore] = [own, before ?? []].map((found) => Math.max(...found.slice(-2).map(largest)));
  const common = before && !differing ? Math.max(top, topBefore) : top;
  // Two vectors: what is shown, and below it the pinned one.
  /** @param {Element} cell @param {string} name @param {any} now @param {any} then */
  const showStrips = (cell, name, now, then) => {
    showStrip(firstIn(cell), now, differing ? `Δ ${name}` : name, common, hues);
    if (before) showStrip(lastIn(cell), then, `${name}, ${words.pinned}`, differing ? topBefore : common, SIGNED);
  };
  /** @param {number} value */
  const missing = (value) => Boolean(before) && Number.isNaN(value); // the pinned trace has no such key
  /** @param {number} value */
  const known = (value) => (missing(value) ? "–" : significant(value));
  /** @param {Root} cell @param {number} value @param {any} then */
  const number = (cell, value, then) => {
    write(cell.querySelector("span"), differing && value > 0 ? `+${known(value)}` : known(value));
    cell.title = missing(value) ? words.missing : value;
    if (!before) return;
    const below = cell.querySelector(".before");
    write(below, known(then));
    below.title = missing(then) ? words.missing : labelled(words.pinned, then);
  };
  shorten(root.body, keys.length);
  while (root.body.rows.length < keys.length) newRow(root.body, root.body.rows.length, root);
  [...root.body.rows].forEach(({ cells }, key) => {
    firstIn(cells[0]).dataset.position = places.columns[key];
    showChip(firstIn(cells[0]), keys[key], special.columns[key], sides.columns);
    steps.forEach((stage, index) => {
      const cell = cells[index + 1];
      const hidden = index === steps.length - 1 && masked[key];
      number(cell, stage[key], before?.[index][key]);
      cell.className = `${hidden ? "masked" : ""}${index === steps.length - 1 ? " mask" : ""}`;
      // The number stays legible.
      cell.style.background = hidden || !Number.isFinite(stage[key]) ? "" : signedColour(stage[key], tops[index], 0.5, hues);
    });
    const weight = cells[root.columns - 2];
    const then = before?.at(-3)?.[key];
    weight.className = masked[key] ? "masked weight" : "weight";
    number(weight, weights[key], then);
    firstIn(weight).style.width = differing ? "0" : `${100 * weights[key]}%`;
    weight.style.background = differing && !masked[key] && weights[key] ? signedColour(weights[key], tops.at(-1), 0.5, hues) : "";
    if (before) weight.querySelector(".then").style.width = `${100 * (then || 0)}%`;
    /** @param {any} values */
    const part = (values) => values.subarray(key * channels, (key + 1) * channels);
    showStrips(cells[root.columns - 1], `${keys[key]} · ${words.value}`, part(weighted), before && part(before.at(-2)));
  });
  write(root.total.cells[0], "Σ");
  number(root.total.cells[root.columns - 2], total(weights), before && total(before.at(-3)));
  showStrips(root.total.cells[root.columns - 1], words.output, sum, before?.at(-1));
  paintStrips(root);
  root.dataset.painted = stamp;
  return ending(root);
}
