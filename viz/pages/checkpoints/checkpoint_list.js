// What can be opened, a line each in groups; buttons show a model, read its tensors, or take it out of the list.

import { unpack } from "../../web/bytes.js";
import { element, newRoot } from "../../web/elements.js";

/**
 * @param {string} words @param {string} act @param {string} name @param {boolean} disabled
 * @param {string} title
 */
function button(words, act, name, disabled, title) {
  const made = element("button", `do ${act}`, words);
  made.type = "button";
  made.disabled = disabled;
  made.title = title;
  made.setAttribute("aria-label", `${words} ${name}`);
  made.dataset.act = act;
  made.dataset.name = name;
  return made;
}

/** @param {CheckpointRow} row @param {Record<string, any>} words */
function line(row, words) {
  const made = element("div", "line");
  made.setAttribute("role", "row");
  made.classList.toggle("shown", row.current);
  made.dataset.name = row.name;
  const name = element("div", "name");
  const title = name.appendChild(element("bdi", "title", row.name));
  title.title = row.where;
  if (row.current) name.appendChild(element("span", "mark", words.shown));
  if (row.does) name.appendChild(element("div", "does", row.does));
  const cells = [
    [row.kind, ""],
    [row.format, ""],
    [row.parameters, "number"],
    [row.bytes, "number"],
    [row.needs, row.fits ? "number" : "number wide"],
  ].map(([text, kind], index) => {
    const cell = element("div", `cell ${kind}`, text);
    cell.dataset.title = words.columns[index + 1];
    return cell;
  });
  const buttons = element("div", "buttons");
  const cannot = row.problem || row.refused;
  const show = button(words.show, "show", row.name, row.current || Boolean(cannot), cannot || words.showing);
  if (row.computes) buttons.append(show);
  buttons.append(button(words.read, "read", row.name, Boolean(row.problem), row.problem || words.reading));
  if (row.removable) buttons.append(button("✕", "remove", row.name, false, words.remove));
  for (const cell of [name, ...cells, buttons]) cell.setAttribute("role", "cell");
  made.append(name, ...cells, buttons);
  if (cannot) made.append(element("div", "problem", cannot));
  return made;
}

/** @param {Root} root @param {CheckpointListHeader} header */
function draw(root, { groups, words }) {
  const head = element("div", "line head");
  head.setAttribute("role", "row");
  words.columns.forEach((/** @type {string} */ text, /** @type {number} */ index) => {
    const cell = element("div", index > 2 && index < 6 ? "cell number" : "cell", text);
    cell.setAttribute("role", "columnheader");
    head.append(cell);
  });
  const parts = groups.flatMap((group) => [
    Object.assign(element("div", "group", group.title), { title: group.where }),
    ...group.rows.map((row) => line(row, words)),
  ]);
  root.replaceChildren(head, ...parts);
}

/** @param {Given} given */
export default function ({ data: bytes, parentElement, setTriggerValue }) {
  /** @type {CheckpointListHeader & Behind} */
  const data = unpack(bytes);
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = newRoot(parentElement, "list");
    root.setAttribute("role", "table");
    root.addEventListener("click", (/** @type {any} */ { target }) => {
      const { act, name } = target.closest("button")?.dataset ?? {};
      if (act) root.act({ act, name });
    });
  }
  root.act = (/** @type {any} */ what) => setTriggerValue("act", what);
  root.setAttribute("aria-label", data.words.alt);
  const drawn = JSON.stringify(data);
  if (root.drawn !== drawn) draw(root, data);
  root.drawn = drawn;
}
