// The cards in groups, a line each: its number, what is said, and the verdict, where there is one by now.

import { unpack } from "../../web/bytes.js";
import { element, newRoot } from "../../web/elements.js";

/** @param {StatementRow} row */
function statementLine(row) {
  const made = element("button", "statement");
  made.type = "button";
  made.dataset.name = row.name;
  made.append(element("span", "number", row.number), element("span", "said", row.statement));
  if (row.verdict) made.append(element("span", `verdict ${row.kind}`, row.verdict));
  return made;
}

/** @param {Root} root @param {StatementListHeader} header */
function drawStatements(root, { groups }) {
  root.replaceChildren(
    ...groups.map(({ title, rows }) => {
      const group = element("section", "group");
      group.append(element("h4", "", title), ...rows.map(statementLine));
      return group;
    }),
  );
}

/** @param {Given} given */
export default function ({ data: bytes, parentElement, setTriggerValue }) {
  /** @type {StatementListHeader & Behind} */
  const data = unpack(bytes);
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = newRoot(parentElement, "statements");
    root.addEventListener("click", (/** @type {any} */ { target }) => {
      const { name } = target.closest("button")?.dataset ?? {};
      if (name) root.choose(name);
    });
  }
  root.choose = (/** @type {string} */ name) => setTriggerValue("choose", name);
  const drawn = JSON.stringify(data);
  if (root.drawn !== drawn) drawStatements(root, data);
  root.drawn = drawn;
}
