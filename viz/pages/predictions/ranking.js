// One position's most probable tokens, with what is known of the actual one above them.

import { unpack } from "../../web/bytes.js";
import { element, newRoot, shorten, write } from "../../web/elements.js";
import { exact } from "../../web/numbers.js";
import { addFiles, showFiles } from "../../web/picture.js";
import { buildChoices, showChoices } from "../../web/choices.js";

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = newRoot(parentElement, "ranking");
  const heading = root.appendChild(element("div", "heading"));
  heading.append(element("b"), element("span", "muted"));
  root.facts = root.appendChild(element("div", "facts"));
  root.table = root.appendChild(buildChoices());
  addFiles(root, () => root, rankingLines);
  return root;
}

/** @param {Element} parent @param {string[]} facts */
function showFacts(parent, facts) {
  shorten(parent, facts.length);
  facts.forEach((fact, index) => write(parent.children[index] ?? parent.appendChild(element("span", "fact")), fact));
}

// A line for each token.
/** @param {any} given */
function rankingLines({ shown: { header } }) {
  /** @param {any} given */
  const numbers = ({ values }) => [...values].map(exact);
  return [header.words.csv, ...header.rows.map((/** @type {any} */ row) => [row.rank, row.label, ...numbers(row)])];
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  /** @type {RankingHeader & Behind} */
  const header = unpack(data);
  const { name, sentence, facts, columns, rows, words, position, stamp, arrays } = header;
  const [title, aside] = root.querySelector(".heading").children;
  write(title, name);
  write(aside, sentence);
  showFacts(root.facts, facts);
  const [values] = arrays;
  const filled = rows.map((/** @type {any} */ row, /** @type {number} */ index) => ({ ...row, values: values.subarray(index * columns.length, (index + 1) * columns.length) }));
  showChoices(root.table, columns, filled, words, (token) => setTriggerValue("choice", { position, token }));
  root.explain = () => setTriggerValue("about", performance.now());
  showFiles(root, { ...header, rows: filled });
  root.dataset.painted = stamp;
}
