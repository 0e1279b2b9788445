// Answers of a class, a bar for each: its length is the share of the most frequent one. A presented question has them too.

import { bus } from "../../web/bus.js";
import { unpack } from "../../web/bytes.js";
import { element, ending, newRoot, shorten, write } from "../../web/elements.js";

/** @param {Root} root @param {ClassBarsHeader} [answers] */
function tell(root, answers) {
  if (!answers && bus.answers !== root.answers) return;
  bus.answers = root.answers = answers;
  bus.dispatchEvent(new Event("answers"));
}

/** @param {Given} given */
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? newRoot(parentElement, "class_bars");
  root.stop ??= () => tell(root, undefined);
  /** @type {ClassBarsHeader & Behind} */
  const { bars, sentence } = unpack(data);
  if (!root.list) [root.list, root.sentence] = [root.appendChild(element("div", "answers")), root.appendChild(element("div", "muted"))];
  root.sentence.setAttribute("role", "status");
  const most = Math.max(1, ...bars.map(({ count }) => count));
  shorten(root.list, bars.length);
  bars.forEach(({ label, count }, index) => {
    const row = root.list.children[index] ?? root.list.appendChild(element("div", "answer"));
    if (!row.children.length) row.append(element("span", "option"), element("span", "room"), element("span", "number"));
    const [option, room, number] = row.children;
    write(option, label);
    option.title = label;
    if (!room.children.length) room.append(element("span", "part"));
    /** @type {HTMLElement} */ (room.children[0]).style.width = `${(100 * count) / most}%`;
    write(number, String(count));
  });
  write(root.sentence, sentence);
  const total = bars.reduce((sum, { count }) => sum + count, 0);
  if (total && !root.total) root.scrollIntoView({ block: "nearest" }); // the first answer
  root.total = total;
  tell(root, { bars, sentence });
  return ending(root);
}
