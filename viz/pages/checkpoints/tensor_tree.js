// Tensors as a tree by the dots of their names, or, searched or sorted, as a list; beside each what it measures. Only the
// rows in view are in the page: a model may have tens of thousands. Nothing here recurses: names nest as deep as they like.

import { unpack } from "../../web/bytes.js";
import { element, firstIn, followScroll, newRoot, partsOf, shorten, write, writePath } from "../../web/elements.js";
import { exact, percent, significant } from "../../web/numbers.js";

const ROW = 26; // CSS pixels
const [LINE, AROUND] = [14, 6]; // of a row whose name has several lines, and what is free around these
const OPENED = 24; // rows that are open at first
const LONGEST = 160; // letters of a label; the rest stands in its title
const NARROW = 640; // CSS pixels of a screen where every name may stand in several lines
const [LEAST, MOST] = [2, 3]; // such lines
const LETTERS = 24; // of a line there
const [LETTER, BESIDE] = [7.9, 16]; // CSS pixels of such a letter, and around the line
const DEEPEST = 12; // steps of indentation
const GROUP = -1; // instead of the number of a tensor
const MERGED = -2; // a node that is written with its parent

/** @type {Record<string, number>} */
const WIDTHS = { picture: 84, text: 120 }; // of columns, CSS pixels
const WIDE = 64; // of others

const natural = new Intl.Collator("en", { numeric: true }).compare;

// Signs that are not seen, or that turn the direction of what follows, as <U+202E>; no more letters than a row can hold.
/** @param {string} text */
function labelText(text) {
  const cut = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  /** @param {any} sign */
  const code = (sign) => `<U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;
  return cut.replace(/[\0-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, code) || "∅";
}

// Groups and leaves, each after its parent; the first is the whole file. A group of a single one is written with it.
/** @param {string[]} names */
function treeOf(names) {
  /** @type {any[]} */
  const nodes = [{ label: "", path: "", row: GROUP, parent: -1, children: [], groups: new Map() }];
  /** @param {any} parent @param {string} label @param {number} row */
  const add = (parent, label, row) => {
    const above = nodes[parent];
    nodes.push({ label, path: parent ? `${above.path}.${label}` : label, row, parent, children: [], groups: new Map() });
    above.children.push(nodes.length - 1);
    return nodes.length - 1;
  };
  names.forEach((name, row) => {
    const parts = name.split(".");
    let at = 0;
    for (let place = 0; place < parts.length - 1; place++) {
      const { groups } = nodes[at];
      if (!groups.has(parts[place])) groups.set(parts[place], add(at, parts[place], GROUP));
      at = groups.get(parts[place]);
    }
    add(at, parts[parts.length - 1], row);
  });
  for (let at = nodes.length - 1; at > 0; at--) {
    const node = nodes[at];
    if (node.row >= 0 || node.children.length !== 1) continue;
    const only = nodes[node.children[0]];
    Object.assign(node, { label: `${node.label}.${only.label}`, path: only.path, row: only.row, children: only.children });
    only.row = MERGED;
    for (const child of node.children) nodes[child].parent = at;
  }
  for (const node of nodes) node.children.sort((/** @type {any} */ one, /** @type {any} */ other) => natural(nodes[one].label, nodes[other].label));
  return nodes;
}

// What is in a group: tensors, and parameters and bytes of those that are not another's again.
/** @param {TreeNode[]} nodes @param {TensorTreeHeader} header */
function addUp(nodes, { elements, bytes, same }) {
  for (const node of nodes) node.sum = { tensors: 0, parameters: 0, bytes: 0 };
  for (let at = nodes.length - 1; at >= 0; at--) {
    const { row, sum, children } = nodes[at];
    if (row >= 0) Object.assign(sum, { tensors: 1, parameters: same[row] < 0 ? elements[row] : 0, bytes: same[row] < 0 ? bytes[row] : 0 });
    for (const child of children) for (const key of /** @type {const} */ (["tensors", "parameters", "bytes"])) sum[key] += nodes[child].sum[key];
  }
}

// Groups that are open at first: from the outside in, while there is room, and those around the chosen tensor.
/** @param {TreeNode[]} nodes @param {number} chosen */
function openFirst(nodes, chosen) {
  const open = new Set();
  let rows = nodes[0].children.length;
  const waiting = [...nodes[0].children];
  for (let next = 0; next < waiting.length; next++) {
    const { row, children, path } = nodes[waiting[next]];
    if (row >= 0 || rows + children.length > OPENED) continue;
    open.add(path);
    rows += children.length;
    waiting.push(...children);
  }
  for (let at = nodes.findIndex(({ row }) => row >= 0 && row === chosen); at > 0; at = nodes[at].parent) open.add(nodes[at].path);
  return open;
}

// The rows to show, each {node, depth}: of the tree what is open, else the tensors that are searched, in their order.
/** @param {any} root */
function rowsOf(root) {
  const { nodes, header, open, query, sorting } = root;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && sorting.column < 0) {
    const found = [];
    const waiting = nodes[0].children.map((/** @type {Node} */ node) => ({ node, depth: 0 })).reverse();
    while (waiting.length) {
      const next = waiting.pop();
      found.push(next);
      const { row, path, children } = nodes[next.node];
      if (row >= 0 || !open.has(path)) continue;
      for (let at = children.length - 1; at >= 0; at--) waiting.push({ node: children[at], depth: next.depth + 1 });
    }
    return found;
  }
  /** @param {any} given */
  const matches = ({ row }) => row >= 0 && words.every((/** @type {string} */ word) => root.lower[row].includes(word));
  const found = nodes.flatMap((/** @type {Node} */ node, /** @type {number} */ at) => (matches(node) ? [{ node: at, depth: 0, whole: true }] : []));
  const key = sortKey(header, sorting.column);
  /** @param {any} value */
  const number = (value) => (typeof value === "number" && Number.isNaN(value) ? -Infinity : value);
  /** @param {any} one @param {any} other */
  const compare = (one, other) => (typeof one === "string" ? natural(one, other) : number(other) - number(one) || 0);
  return found.sort((/** @type {any} */ one, /** @type {any} */ other) => sorting.sign * compare(key(nodes[one.node].row), key(nodes[other.node].row)));
}

// What rows are sorted by: name, shape, type, bytes, then the measured columns.
/** @param {any} header @param {number} column */
function sortKey(header, column) {
  const { names, elements, dtypes, bytes, columns, values } = header;
  const fixed = [(/** @type {any} */ row) => names[row], (/** @type {any} */ row) => elements[row], (/** @type {any} */ row) => dtypes[row], (/** @type {any} */ row) => bytes[row]];
  return fixed[Math.max(0, column)] ?? ((row) => values[row * columns.length + column - fixed.length]);
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** @param {number} bytes */
function bytesText(bytes) {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(bytes || 1) / 3)));
  return power ? `${(bytes / 1000 ** power).toPrecision(3)} ${UNITS[power]}` : `${bytes} B`;
}

/** @param {any} value @param {string} kind */
function cellText(value, kind) {
  if (kind === "text") return value;
  if (kind === "count") return value.toLocaleString("en");
  if (kind === "share") return percent(value, 2);
  return significant(value);
}

// A small histogram: bars from the bottom, in the colour of the text.
/** @param {number[]} heights */
function pictureOf(heights) {
  return heights.map((height, at) => (height ? `M${at} ${255 - height}H${at + 1}V255H${at}Z` : "")).join("");
}

/** @param {HTMLElement} parentElement */
function buildTree(parentElement) {
  const root = /** @type {any} */ (newRoot(parentElement, "tensors"));
  const bar = root.appendChild(element("div", "bar"));
  root.field = bar.appendChild(element("input", "search"));
  root.field.type = "search";
  root.facts = bar.appendChild(element("span", "muted"));
  root.progress = bar.appendChild(element("span", "progress"));
  root.progress.append(element("span", "track"), element("span"));
  firstIn(root.progress).append(element("span", "done"));
  root.progress.setAttribute("role", "status");
  root.buttons = ["all", "none"].map((name) => {
    const button = bar.appendChild(element("button", "act"));
    button.type = "button";
    button.addEventListener("click", () => openAll(root, name === "all"));
    return button;
  });
  root.scroll = root.appendChild(element("div", "scroll"));
  root.scroll.tabIndex = 0;
  root.scroll.setAttribute("role", "treegrid");
  root.head = root.scroll.appendChild(element("div", "line head"));
  root.head.setAttribute("role", "row");
  root.plane = root.scroll.appendChild(element("div", "plane"));
  root.plane.setAttribute("role", "rowgroup");
  root.pool = [];
  root.field.addEventListener("input", () => {
    root.query = root.field.value;
    root.at = 0;
    root.scroll.scrollTop = 0;
    arrangeRows(root);
  });
  root.field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation(); // letters are no shortcuts of the page
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    root.scroll.focus();
  });
  root.scroll.addEventListener("scroll", () => drawRows(root), { passive: true });
  root.scroll.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => pressKey(root, event));
  root.markBeyond = followScroll(root.scroll);
  root.sizes = new ResizeObserver(() => {
    if (!root.rows || root.letters === lettersOf(root)) return drawRows(root);
    root.tall = 0;
    arrangeRows(root);
  });
  root.sizes.observe(root.scroll);
  return root;
}

/** @param {any} root @param {boolean} wanted */
function openAll(root, wanted) {
  root.open = new Set(wanted ? root.nodes.filter((/** @type {any} */ { row }) => row < 0).map((/** @type {any} */ { path }) => path) : []);
  arrangeRows(root);
}

/** @param {any} root */
function showHead(root) {
  const { words, columns } = root.header;
  const titles = [...words.fixed.map((/** @type {string} */ title) => ({ title })), ...columns];
  shorten(root.head, titles.length);
  titles.forEach(({ title, kind }, column) => {
    const cell = root.head.children[column] ?? root.head.appendChild(element("div", "cell"));
    cell.setAttribute("role", "columnheader");
    cell.className = `cell ${classOf(column, kind)}`;
    if (kind === "picture") return write(cell, title);
    if (!firstIn(cell)) {
      const button = element("button");
      button.type = "button";
      button.addEventListener("click", () => sortBy(root, column));
      cell.replaceChildren(button);
    }
    const { column: by, sign } = root.sorting;
    write(firstIn(cell), `${title}${by === column ? (sign > 0 ? " ↓" : " ↑") : ""}`);
    cell.setAttribute("aria-sort", by === column ? (sign > 0 === (column > 0) ? "descending" : "ascending") : "none");
  });
}

/** @param {number} column @param {string | undefined} kind */
const classOf = (column, kind) => (column === 0 ? "name" : column === 2 || kind === "text" ? "word" : kind === "picture" ? "picture" : "number");

// The largest first, then the smallest, then the tree again.
/** @param {any} root @param {number} column */
function sortBy(root, column) {
  const { sorting } = root;
  if (sorting.column !== column) root.sorting = { column, sign: 1 };
  else root.sorting = sorting.sign > 0 ? { column, sign: -1 } : { column: -1, sign: 1 };
  root.scroll.scrollTop = 0;
  showHead(root);
  arrangeRows(root);
}

/** @param {any} root */
function arrangeRows(root) {
  root.narrow = root.scroll.clientWidth <= NARROW;
  root.letters = lettersOf(root);
  root.rows = rowsOf(root);
  const least = root.narrow ? LEAST : 1;
  const lines = root.rows.some((/** @type {any} */ { whole }) => whole) ? Math.max(least, longest(root.header, root.letters)) : least;
  root.several = lines > 1;
  root.classList.toggle("several", root.several);
  root.row = root.several ? LINE * lines + AROUND : ROW;
  root.style.setProperty("--row", `${root.row}px`);
  root.style.setProperty("--lines", lines);
  root.at = Math.max(0, Math.min(root.at, root.rows.length - 1));
  root.plane.style.height = `${Math.max(1, root.rows.length) * root.row}px`;
  const height = Math.min(root.header.most, Math.max(4, root.rows.length)) * root.row + 30;
  if (!root.tall || root.tall < height) root.scroll.style.height = `${(root.tall = height)}px`; // it never shrinks while one searches
  root.scroll.setAttribute("aria-rowcount", root.rows.length + 1);
  drawRows(root);
}

// Letters of a line of the column of names, as small as they are where a name has several.
/** @param {any} root */
function lettersOf({ scroll, head }) {
  return scroll.clientWidth <= NARROW ? LETTERS : Math.max(LETTERS, Math.floor((firstIn(head).offsetWidth - BESIDE) / LETTER));
}

// Lines of the name that takes most of them; counted once for each width.
/** @param {any} header @param {number} letters */
function longest(header, letters) {
  header.lines ??= new Map();
  const most = (/** @type {number} */ most, /** @type {string} */ name) => (most < MOST ? Math.max(most, linesOf(name, letters)) : most);
  if (!header.lines.has(letters)) header.lines.set(letters, Math.min(MOST, header.names.reduce(most, 1)));
  return header.lines.get(letters);
}

// The rows in view, each drawn into an element that is there already.
/** @param {any} root */
function drawRows(root) {
  const { scroll, plane, rows, pool } = root;
  if (!rows) return;
  const first = Math.max(0, Math.floor(scroll.scrollTop / root.row) - 2);
  const count = Math.min(rows.length - first, Math.ceil(scroll.clientHeight / root.row) + 4);
  while (pool.length > Math.max(0, count)) pool.pop().remove();
  while (pool.length < count) pool.push(plane.appendChild(newLine(root)));
  for (let at = 0; at < count; at++) drawLine(root, pool[at], first + at);
  const active = pool.find((/** @type {HTMLElement} */ line) => Number(line.dataset.at) === root.at);
  if (active) scroll.setAttribute("aria-activedescendant", active.id);
  else scroll.removeAttribute("aria-activedescendant");
  root.markBeyond();
  plane.dataset.empty = rows.length ? "" : root.header.words.none;
}

/** @param {any} root */
function newLine(root) {
  const line = element("div", "line");
  line.setAttribute("role", "row");
  line.addEventListener("click", () => {
    root.at = Number(line.dataset.at);
    act(root);
  });
  return line;
}

// A click or Enter: a group opens or closes, a tensor is chosen.
/** @param {any} root */
function act(root) {
  const node = root.nodes[root.rows[root.at]?.node];
  if (!node) return;
  if (node.row < 0) {
    if (!root.open.delete(node.path)) root.open.add(node.path);
    return arrangeRows(root);
  }
  root.header.chosen = node.row;
  drawRows(root);
  root.choose(node.row);
}

// Where there is no room for all of it the end of a name says more than its beginning.
/** @param {any} root @param {string} name */
function wholeName({ several, letters }, name) {
  if (!several || linesOf(name, letters) <= MOST) return labelText(name);
  const parts = partsOf(name.slice(-MOST * letters));
  while (parts.length > 1 && linesOf(`…${parts.join("")}`, letters) > MOST) parts.shift();
  return `…${labelText(parts.join(""))}`;
}

// How many lines of so many letters a name takes: a part that has no room in one stands in the next.
/** @param {string} name @param {number} letters */
function linesOf(name, letters) {
  let [lines, used] = [1, 0];
  for (const { length } of partsOf(name)) {
    if (used && used + length > letters) [lines, used] = [lines + 1, 0];
    lines += Math.ceil((used + length) / letters) - 1;
    used = (used + length) % letters || letters;
  }
  return lines;
}

/** @param {any} root @param {Root} line @param {number} at */
function drawLine(root, line, at) {
  const { header, nodes, open } = root;
  const { node: place, depth, whole } = root.rows[at];
  const { row, label, path, sum } = nodes[place];
  const group = row < 0;
  const { words, columns } = header;
  const count = words.fixed.length + columns.length;
  shorten(line, count);
  while (line.children.length < count) line.appendChild(element("div", "cell")).setAttribute("role", "gridcell");
  line.dataset.at = String(at);
  line.id = `row-${at}`;
  line.style.transform = `translateY(${at * root.row}px)`;
  line.className = `line${group ? " group" : ""}${whole ? " whole" : ""}${row >= 0 && row === header.chosen ? " chosen" : ""}${at === root.at ? " active" : ""}`;
  line.setAttribute("aria-rowindex", at + 2);
  line.setAttribute("aria-level", depth + 1);
  line.setAttribute("aria-selected", String(!group && row === header.chosen));
  if (group) line.setAttribute("aria-expanded", String(open.has(path)));
  else line.removeAttribute("aria-expanded");
  const [name, ...cells] = /** @type {any} */ (line.children);
  if (!firstIn(name)) name.append(element("span", "turn"), element("bdi"), element("span", "muted"));
  name.className = "cell name";
  name.style.paddingLeft = `${(whole ? 8 : 4) + (root.narrow ? 8 : 14) * Math.min(depth, DEEPEST)}px`;
  const [turn, text, aside] = name.children;
  write(turn, group ? (open.has(path) ? "▾" : "▸") : "");
  writePath(text, whole ? wholeName(root, header.names[row]) : labelText(label));
  const own = group ? path : header.names[row];
  name.title = own.slice(0, 400);
  write(aside, group ? `${sum.tensors}` : header.same[row] < 0 ? "" : `= ${labelText(header.names[header.same[row]])}`);
  const numbers = group
    ? [words.parameters.replace("{count}", sum.parameters.toLocaleString("en")), "", bytesText(sum.bytes)]
    : [header.shapes[row], header.dtypes[row], bytesText(header.bytes[row])];
  cells.forEach((/** @type {any} */ cell, /** @type {number} */ column) => {
    const { kind } = columns[column - 3] ?? {};
    cell.className = `cell ${classOf(column + 1, kind)}`;
    if (column < 3) return write(cell, numbers[column]);
    drawCell(cell, kind, group ? -1 : row, column - 3, header);
  });
}

/**
 * @param {any} cell @param {string | undefined} kind @param {number} row @param {number} column
 * @param {any} options
 */
function drawCell(cell, kind, row, column, { states, values, columns, pictures, bins, texts }) {
  const known = row >= 0 && states[row];
  if (kind === "picture") {
    if (!firstIn(cell)) {
      cell.replaceChildren(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
      firstIn(cell).setAttribute("preserveAspectRatio", "none");
      firstIn(cell).setAttribute("aria-hidden", "true");
      firstIn(cell).append(document.createElementNS("http://www.w3.org/2000/svg", "path"));
    }
    firstIn(cell).setAttribute("viewBox", `0 0 ${bins} 255`);
    const heights = known ? Array.from(pictures.subarray(row * bins, (row + 1) * bins)) : [];
    firstIn(firstIn(cell)).setAttribute("d", pictureOf(heights));
    return;
  }
  const value = kind === "text" ? texts[column]?.[row] ?? "" : values[row * columns.length + column];
  const missing = !known || (kind !== "text" && Number.isNaN(value));
  write(cell, missing ? (known ? "–" : "") : cellText(value, kind ?? ""));
  cell.title = missing || kind === "text" ? "" : exact(value);
  cell.classList.toggle("wrong", kind === "count" && !missing && value > 0);
  cell.classList.toggle("nothing", kind === "count" && !missing && !value);
}

/** @param {any} root @param {KeyboardEvent} event */
function pressKey(root, event) {
  if (event.target !== root.scroll) return;
  const page = Math.max(1, Math.floor(root.scroll.clientHeight / root.row) - 2);
  /** @type {Record<string, number>} */
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const shown = root.rows[root.at];
  const node = root.nodes[shown?.node];
  if (event.key in steps) root.at = Math.max(0, Math.min(root.rows.length - 1, root.at + steps[event.key]));
  else if (event.key === "Enter" || event.key === " ") act(root);
  else if (event.key === "ArrowRight" && node?.row < 0 && !root.open.has(node.path)) act(root);
  else if (event.key === "ArrowLeft" && node?.row < 0 && root.open.has(node.path)) act(root);
  else if (event.key === "ArrowLeft" && !shown?.whole) root.at = Math.max(0, root.rows.findIndex((/** @type {any} */ { node: at }) => at === node?.parent));
  else return;
  event.preventDefault();
  event.stopPropagation();
  reveal(root);
  drawRows(root);
}

// Scroll as far as the active row needs, no further.
/** @param {any} root */
function reveal(root) {
  const room = root.scroll.clientHeight - root.head.offsetHeight;
  const top = root.at * root.row;
  if (top < root.scroll.scrollTop) root.scroll.scrollTop = top;
  else if (top + root.row > root.scroll.scrollTop + room) root.scroll.scrollTop = top + root.row - room;
}

/** @param {any} root @param {TensorTreeHeader} header */
function showProgress(root, { progress }) {
  root.progress.hidden = !progress;
  if (!progress) return;
  const [track, text] = root.progress.children;
  firstIn(track).style.width = `${100 * progress.share}%`;
  write(text, progress.text);
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildTree(parentElement);
  /** @type {TensorTreeHeader & Behind & Record<string, any>} */
  const header = unpack(data);
  [header.values, header.pictures, header.states] = header.arrays;
  root.choose = (/** @type {any} */ row) => setTriggerValue("tensor", row);
  const first = !root.header || root.header.file !== header.file;
  const moved = !first && root.header.chosen !== header.chosen;
  root.header = header;
  if (first) {
    root.nodes = treeOf(header.names);
    root.lower = header.names.map((/** @type {string} */ name) => name.toLowerCase());
    addUp(root.nodes, header);
    root.open = openFirst(root.nodes, header.chosen);
    root.query = root.field.value = "";
    root.sorting = { column: header.sorted ?? -1, sign: 1 };
    root.at = 0;
    root.tall = 0;
  }
  root.field.placeholder = header.words.search;
  root.field.setAttribute("aria-label", header.words.search);
  root.scroll.setAttribute("aria-label", header.alt);
  const widths = header.columns.map((/** @type {any} */ { kind }) => WIDTHS[kind] ?? WIDE);
  root.style.setProperty("--type", header.dtypes.some((/** @type {string} */ type) => type.length > 9) ? "124px" : "66px"); // two types, A's → B's
  root.style.setProperty("--columns", widths.map((/** @type {number} */ wide) => `${wide}px`).join(" "));
  root.style.setProperty("--measured", `${widths.reduce((/** @type {any} */ sum, /** @type {number} */ wide) => sum + wide + 8, 0)}px`);
  write(root.facts, header.sentence);
  root.buttons.forEach((/** @type {any} */ button, /** @type {number} */ at) => write(button, at ? header.words.collapse : header.words.expand));
  showProgress(root, header);
  showHead(root);
  if (moved) for (let at = root.nodes.findIndex((/** @type {any} */ { row }) => row >= 0 && row === header.chosen); at > 0; at = root.nodes[at].parent) root.open.add(root.nodes[at].path);
  arrangeRows(root);
  if ((first || moved) && header.jump) {
    const place = root.rows.findIndex((/** @type {any} */ { node }) => root.nodes[node].row === header.chosen && header.chosen >= 0);
    if (place >= 0) {
      root.at = place;
      reveal(root);
      drawRows(root);
    }
  }
  root.dataset.painted = header.stamp;
}
