// Tokens that a model could choose, most probable first: a button each, with bars and numbers beside it.
// columns: {name, formula, mark: "bar", "signed" or "number", colour}. rows: {token, label, special, actual, open: may be
// chosen, rank, values: one for each column}; a row without a token stands for many.

import { element, firstIn, lastIn, shorten, write } from "./elements.js";
import { largest, significant } from "./numbers.js";
import { DIFFERENCE, signedColour } from "./colours.js";
import { shown } from "./chips.js";

export function buildChoices() {
  const table = element("table", "choices");
  table.createTHead().insertRow();
  table.createTBody();
  return table;
}

/** @param {HTMLTableSectionElement} body @param {number} columns */
function newChoice(body, columns) {
  const row = /** @type {HTMLTableRowElement & { choose?: () => void }} */ (body.insertRow());
  for (let column = 0; column < columns + 2; column++) row.insertCell();
  row.cells[0].className = "rank muted";
  const button = row.cells[1].appendChild(element("button", "chip"));
  button.type = "button";
  button.dir = "auto";
  button.addEventListener("click", () => row.choose?.());
  for (let column = 0; column < columns; column++) row.cells[column + 2].append(element("i", "bar"), element("span"));
}

/** @param {HTMLTableCellElement} cell @param {number} value @param {ColumnHeader} column @param {number} top */
function showValue(cell, value, { mark, colour }, top) {
  const [bar, number] = /** @type {any} */ (cell.children);
  const known = Number.isFinite(value);
  cell.className = mark;
  cell.title = known ? String(value) : "";
  bar.style.width = mark === "bar" && known ? `${100 * Math.min(1, value)}%` : "0";
  if (mark === "bar") bar.style.background = colour;
  cell.style.background = mark === "signed" ? signedColour(known ? value : 0, top, 0.5, DIFFERENCE) : "";
  write(number, known || value === -Infinity ? significant(value) : "");
}

/**
 * @param {HTMLTableElement} table @param {ColumnHeader[]} columns @param {ShownChoice[]} rows
 * @param {Record<string, any>} words @param {(token: number | undefined) => void} choose
 */
export function showChoices(table, columns, rows, words, choose) {
  const head = /** @type {HTMLTableSectionElement} */ (table.tHead).rows[0];
  if (head.cells.length !== columns.length + 2) {
    head.replaceChildren(...Array.from({ length: columns.length + 2 }, () => element("th")));
    for (const cell of [...head.cells].slice(2)) cell.append(element("span", "name"), element("span", "formula muted"));
    table.tBodies[0].replaceChildren();
  }
  write(head.cells[1], words.token);
  columns.forEach(({ name, formula }, index) => {
    write(firstIn(head.cells[index + 2]), name);
    write(lastIn(head.cells[index + 2]), formula);
  });
  const body = table.tBodies[0];
  shorten(body, rows.length);
  while (body.rows.length < rows.length) newChoice(body, columns.length);
  const tops = columns.map((_, index) => largest(rows.map(({ values }) => values[index])));
  rows.forEach(({ token, label, special, actual, open, rank, values }, index) => {
    const row = /** @type {any} */ (body.rows[index]);
    const button = firstIn(row.cells[1]);
    write(row.cells[0], rank);
    write(button, (actual ? "✓ " : "") + shown(label));
    button.title = open ? `${label} · ${words.continue}` : label;
    button.disabled = !open;
    button.classList.toggle("special", Boolean(special));
    row.classList.toggle("actual", Boolean(actual));
    row.classList.toggle("many", token === undefined);
    row.choose = () => choose(token);
    columns.forEach((column, at) => showValue(row.cells[at + 2], values[at], column, tops[at]));
  });
}
