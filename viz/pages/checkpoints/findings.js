// What was found in a file, in groups; a click on a finding chooses its tensor. Groups where nothing was found say what
// was looked for.

import { unpack } from "../../web/bytes.js";
import { element, firstIn, lastIn, newRoot, shorten, write, writePath } from "../../web/elements.js";

const MOST = 160; // letters of a tensor's name

/** @param {HTMLElement} parentElement */
function buildFindings(parentElement) {
  const root = newRoot(parentElement, "findings");
  root.heading = root.appendChild(element("div", "heading"));
  root.heading.append(element("b"), element("span"));
  root.list = root.appendChild(element("div", "groups"));
  root.list.tabIndex = 0; // it scrolls in itself, by keys too
  return root;
}

/** @param {Element} parent @param {number} count @param {(place: number) => Element} make */
const fitted = (parent, count, make) => {
  shorten(parent, count);
  while (parent.children.length < count) parent.appendChild(make(parent.children.length));
};

/** @param {Root} root @param {number} group */
function newGroup(root, group) {
  const made = element("section");
  const title = element("div", "title");
  title.append(element("span", "count"), element("b"), element("span", "muted"));
  made.append(title, element("ul"));
  made.dataset.group = String(group);
  return made;
}

/** @param {Root} root @param {number} group @param {number} place */
function newItem(root, group, place) {
  const made = element("li");
  const button = made.appendChild(element("button"));
  button.type = "button";
  button.append(element("bdi"), element("span"));
  button.addEventListener("click", () => root.choose({ group, place }));
  return made;
}

/** @param {Root} root @param {Root} made @param {FindingsGroup} options @param {number} group */
function showGroup(root, made, { title, explanation, items, more }, group) {
  const [heading, list] = made.children;
  const [count, name, aside] = heading.children;
  made.className = items.length ? "" : "clean";
  write(count, items.length ? String(items.length + more) : "✓");
  write(name, title);
  write(aside, explanation);
  fitted(list, items.length, (place) => newItem(root, group, place));
  items.forEach((item, place) => {
    const button = firstIn(list.children[place]);
    button.classList.toggle("chosen", item.chosen);
    button.title = item.name.slice(0, 400);
    writePath(firstIn(button), item.name.length > MOST ? `${item.name.slice(0, MOST)}…` : item.name);
    write(lastIn(button), item.sentence);
  });
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildFindings(parentElement);
  /** @type {FindingsHeader & Behind} */
  const { name, sentence, alt, stamp, groups } = unpack(data);
  root.choose = (/** @type {any} */ finding) => setTriggerValue("finding", finding);
  root.setAttribute("aria-label", alt);
  const [title, aside] = root.heading.children;
  write(title, name);
  write(aside, sentence);
  fitted(root.list, groups.length, (group) => newGroup(root, group));
  groups.forEach((/** @type {any} */ group, /** @type {number} */ at) => showGroup(root, root.list.children[at], group, at));
  root.dataset.painted = stamp;
}
