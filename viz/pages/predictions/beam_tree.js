// What a beam search tried: a column for each step, in it the candidates, best first; lines from what they continue. It
// scrolls in a frame of its own, in which the first column stays.

import { unpack } from "../../web/bytes.js";
import { element, ending, firstIn, followScroll, lastIn, newRoot, shorten, write } from "../../web/elements.js";
import { exact, significant } from "../../web/numbers.js";
import { shown } from "../../web/chips.js";
import { addFiles, showFiles } from "../../web/picture.js";

// Of a node: its height, and from one row to the next. Where the columns do not fit otherwise, and do so, its number is under its token.
const BESIDE = { row: 32, high: 26, between: 18 }; // columns at least so much
const STACKED = { row: 48, high: 42, between: 8 };
const FADES = 28; // pixels at the right edge of a tree that goes on, as in common.css
const WIDE = { least: 74, most: 164, letter: 8, sign: 14, digit: 7.2, around: 26, alone: 13 }; // nodes; a sign is a letter of Chinese

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = /** @type {any} */ (newRoot(parentElement, "tree"));
  root.legend = root.appendChild(element("div", "legend"));
  root.scroll = root.appendChild(element("div", "scroll"));
  root.scroll.addEventListener("scroll", () => root.classList.toggle("scrolled", root.scroll.scrollLeft > 0), { passive: true });
  root.plane = root.scroll.appendChild(element("div", "plane"));
  root.lines = root.plane.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
  root.lines.setAttribute("aria-hidden", "true");
  root.first = root.plane.appendChild(element("div", "first"));
  root.rest = root.plane.appendChild(element("div", "rest"));
  root.nodes = [];
  root.told = root.appendChild(element("div", "told"));
  root.told.setAttribute("aria-live", "polite");
  root.reckoned = root.appendChild(element("p", "reckoned muted"));
  root.list = root.appendChild(element("ol", "hypotheses"));
  addFiles(root, () => root, treeLines);
  const sizes = new ResizeObserver(() => {
    if (!root.data || root.classList.contains("whole")) return;
    showNodes(root);
    tell(root, root.best);
    markBeyond();
  });
  const markBeyond = followScroll(root.scroll);
  sizes.observe(root.scroll);
  root.stop = () => sizes.disconnect();
  // Files have all of the tree.
  const { arrange, draw } = root.kind;
  root.kind.arrange = () => {
    root.classList.add("whole");
    return arrange();
  };
  root.kind.draw = (/** @type {Pen} */ pen) => {
    draw(pen);
    root.classList.remove("whole");
  };
  return root;
}

// A node has room for its token beside its number.
/** @param {NodeHeader} header @param {boolean} stacked */
function roomOf({ label, probability }, stacked) {
  const letters = [...shown(label)].map((letter) => (letter >= "⺀" ? WIDE.sign : WIDE.letter));
  const [token, number] = [letters.reduce((sum, each) => sum + each, 0), WIDE.digit * significant(probability).length];
  return stacked ? WIDE.alone + Math.max(token, number) : WIDE.around + token + number;
}

/** @param {NodeHeader[]} nodes @param {boolean} stacked */
function wideOf(nodes, stacked) {
  const rooms = nodes.slice(1).map((node) => roomOf(node, stacked));
  return Math.ceil(Math.min(WIDE.most, Math.max(stacked ? 0 : WIDE.least, ...rooms)));
}

/** @param {number} wide @param {number} steps @param {number} between */
const lengthOf = (wide, steps, between) => (steps - 1) * (wide + between) + wide + 8;

// From one column to the next: the last that is seen is whole, before the edge that fades, with its button.
/** @param {number} wide @param {number} steps @param {number} seen @param {number} between */
function columnOf(wide, steps, seen, between) {
  const room = seen - FADES - 8;
  const whole = Math.floor((room + STACKED.between) / (wide + STACKED.between));
  return whole > 1 && lengthOf(wide, steps, between) > seen ? Math.floor((room - wide) / (whole - 1)) : wide + between;
}

/** @param {any} root @param {number} index */
function newNode(root, index) {
  const made = element("button", "node");
  root.nodes.push(made);
  made.type = "button";
  made.append(element("bdi"), element("small"));
  made.addEventListener("click", () => root.choose(index + 1));
  made.addEventListener("pointerenter", () => tell(root, index + 1));
  made.addEventListener("focus", () => tell(root, index + 1));
  made.addEventListener("pointerleave", () => tell(root, root.best));
  made.addEventListener("blur", () => tell(root, root.best));
}

// The nodes from the root to this one.
/** @param {NodeHeader[]} nodes @param {number} index */
function pathTo(nodes, index) {
  const path = [];
  for (; index > 0; index = nodes[index].parent) path.push(index);
  return path;
}

// Say what a node is, and mark how the search came to it.
/** @param {any} root @param {number} index */
function tell(root, index) {
  const path = new Set(pathTo(root.data.nodes, index));
  root.nodes.forEach((/** @type {HTMLElement} */ made, /** @type {number} */ at) => made.classList.toggle("path", path.has(at + 1)));
  [...root.lines.children].forEach((line, at) => line.classList.toggle("path", path.has(at + 1)));
  write(root.told, root.data.nodes[index]?.sentence ?? "");
}

/** @param {any} root */
function showNodes(root) {
  const { nodes, words } = root.data;
  const count = nodes.length - 1;
  const steps = Math.max(0, ...nodes.map((/** @type {any} */ { step }) => step));
  const seen = root.scroll.clientWidth;
  const stacked = lengthOf(wideOf(nodes, false), steps, BESIDE.between) > seen && lengthOf(wideOf(nodes, true), steps, STACKED.between) <= seen;
  root.classList.toggle("stacked", stacked);
  const { row: rowHigh, high, between } = stacked ? STACKED : BESIDE;
  const wide = wideOf(nodes, stacked);
  const column = columnOf(wide, steps, seen, between);
  /** @param {NodeHeader} header */
  const topOf = ({ row }) => row * rowHigh + 4;
  /** @param {any} given */
  const leftOf = ({ step }) => (step - 1) * column + 4;
  while (root.nodes.length > count) root.nodes.pop().remove();
  while (root.nodes.length < count) newNode(root, root.nodes.length);
  shorten(root.lines, count);
  while (root.lines.children.length < count) root.lines.appendChild(document.createElementNS(root.lines.namespaceURI, "path"));
  nodes.slice(1).forEach((/** @type {any} */ node, /** @type {number} */ at) => {
    const made = root.nodes[at];
    const layer = node.step === 1 ? root.first : root.rest;
    if (made.parentElement !== layer) layer.appendChild(made);
    made.className = `node ${node.fate}${node.greedy ? " greedy" : ""}`;
    made.style.left = `${leftOf(node)}px`;
    made.style.width = `${wide}px`;
    made.style.top = `${topOf(node)}px`;
    made.style.height = `${high}px`;
    made.disabled = !node.open;
    made.title = `${node.sentence}${node.open ? ` · ${words.continue}` : ""}`;
    write(firstIn(made), shown(node.label));
    write(lastIn(made), significant(node.probability));
    const middle = topOf(node) + high / 2;
    const parent = nodes[node.parent];
    const line = root.lines.children[at];
    const [x1, y1] = node.parent ? [leftOf(parent) + wide, topOf(parent) + high / 2] : [0, middle];
    const x2 = leftOf(node);
    line.setAttribute("d", `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${middle} ${x2} ${middle}`);
    line.setAttribute("class", node.fate);
  });
  const rows = Math.max(0, ...nodes.slice(1).map((/** @type {NodeHeader} */ { row }) => row + 1));
  root.plane.style.width = `${(steps - 1) * column + wide + 8}px`;
  root.plane.style.height = `${rows * rowHigh + 4}px`;
  root.first.style.width = `${wide + 8}px`;
  root.scroll.style.scrollPaddingLeft = `${column + 4}px`; // the column behind the first rests where it began
}

/** @param {any} root */
function showHypotheses(root) {
  const { hypotheses, words } = root.data;
  write(root.reckoned, words.reckoned);
  shorten(root.list, hypotheses.length);
  while (root.list.children.length < hypotheses.length) {
    const button = root.list.appendChild(element("li")).appendChild(element("button"));
    button.type = "button";
    button.append(element("span", "score"), element("bdi"));
    const place = root.list.children.length - 1;
    button.addEventListener("click", () => root.choose(root.data.hypotheses[place].node));
    button.addEventListener("pointerenter", () => tell(root, root.data.hypotheses[place].node));
    button.addEventListener("pointerleave", () => tell(root, root.best));
  }
  hypotheses.forEach((/** @type {any} */ { node, text, score }, /** @type {number} */ index) => {
    const button = firstIn(root.list.children[index]);
    button.disabled = !root.data.nodes[node].open;
    button.title = words.continue;
    write(firstIn(button), `${words.score} ${score}`);
    write(lastIn(button), text);
  });
}

/** @param {any} root */
function showLegend(root) {
  const { legend, words } = root.data;
  const keys = [...legend, { fate: "greedy", name: words.greedy }, { fate: "path", name: words.path }, { fate: "order", name: words.order }];
  shorten(root.legend, keys.length);
  keys.forEach((/** @type {any} */ { fate, name }, /** @type {number} */ index) => {
    const made = root.legend.children[index] ?? root.legend.appendChild(element("span"));
    made.className = fate === "order" ? "muted" : `key ${fate}`;
    write(made, name);
  });
}

// A line for each candidate.
/** @param {any} root */
function treeLines(root) {
  const { nodes, legend, words } = root.data;
  const fates = Object.fromEntries(legend.map((/** @type {any} */ { fate, name }) => [fate, name]));
  /** @param {any} node @param {number} at */
  const line = (node, at) => [at + 1, node.step, node.parent, node.label, exact(node.probability), fates[node.fate]].map(String);
  return [words.csv, ...nodes.slice(1).map(line)];
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  root.data = unpack(data);
  root.choose = (/** @type {any} */ node) => setTriggerValue("node", node);
  root.explain = () => setTriggerValue("about", performance.now());
  root.best = root.data.hypotheses[0]?.node ?? 0;
  root.setAttribute("aria-label", root.data.alt);
  showLegend(root);
  showNodes(root);
  showHypotheses(root);
  tell(root, root.best);
  showFiles(root, root.data);
  root.dataset.painted = root.data.stamp;
  return ending(root);
}
