// A calculation by hand: lines of small matrices, the first of them typed into, all others computed from them. While
// somebody types, what is computed stands there faintly until all cells are numbers again.

import { unpack } from "../../web/bytes.js";
import { channels } from "../../web/colours.js";
import { element, firstIn, lastIn, newRoot, write } from "../../web/elements.js";
import { exact, largest, significant } from "../../web/numbers.js";
import { addFiles, showFiles } from "../../web/picture.js";

const PAUSE = 250; // milliseconds after a letter

// Three digits, and a whole number as it is written by hand.
/** @param {number} value */
function byHand(value) {
  const size = Math.abs(value);
  return size >= 0.001 && size < 1000 ? String(Number(value.toPrecision(3))).replace("-", "−") : significant(value);
}

/** @param {Root} root @param {MatrixHeader} header */
function newMatrix(root, { rows, columns, first }) {
  const made = element("div", "matrix");
  const title = made.appendChild(element("div", "title"));
  title.append(element("b"), element("span", "formula muted"));
  const table = made.appendChild(element("table"));
  const head = table.createTHead().insertRow();
  for (let column = 0; column <= columns.length; column++) head.appendChild(element("th", "muted"));
  const body = table.createTBody();
  for (let row = 0; row < rows.length; row++) {
    const line = body.insertRow();
    line.appendChild(element("th", "muted"));
    for (let column = 0; column < columns.length; column++) {
      const cell = line.insertCell();
      if (first >= 0) cell.appendChild(newInput(root, first + row * columns.length + column, columns.length));
    }
  }
  return made;
}

/** @param {Root} root @param {number} place @param {number} wide */
function newInput(root, place, wide) {
  const made = element("input");
  made.type = "text";
  made.inputMode = "decimal";
  made.autocomplete = "off";
  made.maxLength = 24;
  made.dataset.place = String(place);
  made.addEventListener("input", () => {
    clearTimeout(root.pending);
    root.pending = setTimeout(() => send(root), PAUSE);
  });
  made.addEventListener("change", () => send(root));
  made.addEventListener("focus", () => made.select());
  made.addEventListener("keydown", (event) => {
    const step = { ArrowDown: wide, Enter: wide, ArrowUp: -wide }[event.key];
    const next = step && made.closest("table").querySelector(`input[data-place="${place + step}"]`);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return made;
}

/** @param {Root} root */
const inputs = (root) => [...root.querySelectorAll("input")];

/** @param {Root} root */
function send(root) {
  if (root.pending === undefined) return;
  clearTimeout(root.pending);
  root.pending = undefined;
  root.edit(inputs(root).map(({ value }) => value));
}

// The same matrices in the same lines: then they are filled again, and the cell that is typed into stays.
/** @param {MatricesHeader} header */
const shapeOf = ({ lines }) => JSON.stringify(lines.map(({ matrices }) => matrices.map(({ rows, columns, first }) => [rows.length, columns.length, first])));

/** @param {Root} root @param {any} header */
function build(root, header) {
  root.lines.replaceChildren();
  for (const { matrices } of header.lines) {
    const line = root.lines.appendChild(element("section"));
    line.append(element("div", "step"), element("div", "row"));
    lastIn(line).append(...matrices.map((/** @type {MatrixHeader} */ matrix) => newMatrix(root, matrix)));
  }
  root.shape = shapeOf(header);
}

/**
 * @param {HTMLElement} made @param {MatrixHeader} matrix @param {Numbers | number[]} values
 * @param {MatricesHeader} header @param {Element | null} active
 */
function showMatrix(made, matrix, values, { texts, wrong, words }, active) {
  const { name, formula, colour, rows, columns, first, top: most } = matrix;
  made.style.setProperty("--hue", colour);
  write(made.querySelector("b"), name);
  write(made.querySelector(".formula"), formula);
  const table = made.querySelector("table");
  table.setAttribute("aria-label", `${name} ${formula}`);
  columns.forEach((label, column) => write(table.tHead.rows[0].cells[column + 1], label));
  const top = most || largest(values);
  rows.forEach((label, row) => {
    const line = table.tBodies[0].rows[row];
    write(line.cells[0], label);
    columns.forEach((_, column) => {
      const cell = line.cells[column + 1];
      const place = row * columns.length + column;
      if (first < 0) {
        write(cell, byHand(values[place]));
        cell.title = exact(values[place]);
        cell.style.background = `rgba(${channels(colour).join(",")},${top ? 0.34 * Math.min(1, Math.abs(values[place]) / top) : 0})`;
        return;
      }
      const input = firstIn(cell);
      input.setAttribute("aria-label", `${name}, ${words.row} ${row + 1}, ${words.column} ${column + 1}`);
      input.setAttribute("aria-invalid", wrong === first + place);
      if (input !== active && input.value !== texts[first + place]) input.value = texts[first + place];
    });
  });
}

/** @param {any} given */
function matrixLines({ shown: { header } }) {
  const found = [header.words.csv];
  let at = 0;
  for (const { matrices } of header.lines) {
    for (const { name, rows, columns, first } of matrices) {
      const values = first < 0 ? [...header.arrays[at++]].map(exact) : header.texts.slice(first);
      rows.forEach((/** @type {number} */ row, /** @type {number} */ line) => columns.forEach((/** @type {number} */ column, /** @type {number} */ place) => found.push([name, row, column, values[line * columns.length + place]])));
    }
  }
  return found;
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  /** @type {MatricesHeader & Behind} */
  const header = unpack(data);
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = newRoot(parentElement, "matrices");
    root.appendChild(element("div", "heading")).append(element("b"), element("span"));
    root.alert = root.appendChild(element("p", "wrong"));
    root.alert.setAttribute("role", "alert");
    root.lines = root.appendChild(element("div", "lines"));
    addFiles(root, () => root.lines, matrixLines);
  }
  root.edit = (/** @type {string[]} */ texts) => setTriggerValue("edit", { texts });
  root.explain = () => setTriggerValue("about", performance.now());
  if (root.shape !== shapeOf(header)) build(root, header);
  const [name, sentence] = root.querySelector(".heading").children;
  write(name, header.name);
  write(sentence, header.sentence);
  write(root.alert, header.sentence_wrong);
  root.alert.hidden = !header.sentence_wrong;
  const active = root.pending === undefined ? root.getRootNode().activeElement : null;
  let at = 0;
  header.lines.forEach((/** @type {any} */ { title, matrices }, /** @type {number} */ index) => {
    const line = root.lines.children[index];
    write(firstIn(line), title);
    line.classList.toggle("stale", Boolean(header.sentence_wrong) && matrices.every((/** @type {any} */ { first }) => first < 0));
    matrices.forEach((/** @type {MatrixHeader} */ matrix, /** @type {number} */ place) => {
      const values = matrix.first < 0 ? header.arrays[at++] : [];
      // A letter that is still on its way stays: nothing typed is put back.
      const typed = root.pending === undefined ? header.texts : inputs(root).map(({ value }) => value);
      showMatrix(/** @type {HTMLElement} */ (lastIn(line).children[place]), matrix, values, { ...header, texts: typed }, active);
    });
  });
  showFiles(root, header);
  root.dataset.painted = header.stamp;
}
