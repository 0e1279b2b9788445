import { unpack } from "../web/bytes.js";
import { element, ending, firstIn, lastIn, newRoot, write } from "../web/elements.js";
import { lightChips, newChip, showChip } from "../web/chips.js";
import { bus } from "../web/bus.js";
import { tourSeen } from "./tour.js";

// What a page shows, and hints for who is here for the first time; the browser remembers that they were put away.
const DISMISSED = "vitrine.dismissed.";

/** @param {string} page */
function remembered(page) {
  try {
    return localStorage.getItem(DISMISSED + page) !== null;
  } catch {
    return false; // no storage is allowed: they are there at each visit
  }
}

/** @param {string} page */
function remember(page) {
  try {
    localStorage.setItem(DISMISSED + page, "1");
  } catch {
    /* they are put away until the page is opened again */
  }
}

// Words, and tokens that light up wherever they are drawn.
/** @param {Element} parent @param {(string | HintToken)[]} parts */
function showHint(parent, parts) {
  parent.replaceChildren(
    ...parts.map((part) => {
      if (typeof part === "string") return element("span", part === "→" ? "arrow" : "", part);
      const chip = newChip(part.position);
      showChip(chip, part.label, part.special, part.side);
      return chip;
    }),
  );
}

// The tour, where it is offered; and what puts the hints away.
/** @param {Root} root @param {Element} list */
function buildButtons(root, list) {
  const row = list.appendChild(element("div", "acts"));
  const [around, dismiss] = ["around", "dismiss"].map((name) => row.appendChild(element("button", name)));
  around.type = dismiss.type = "button";
  around.addEventListener("click", () => bus.tour?.());
  const toured = () => around.toggleAttribute("hidden", true);
  bus.addEventListener("toured", toured);
  const stop = root.stop;
  root.stop = () => {
    stop();
    bus.removeEventListener("toured", toured);
  };
  dismiss.addEventListener("click", () => {
    remember(root.page);
    root.away = list.toggleAttribute("hidden", true);
  });
}

/** @param {Given} given */
export default function ({ data, parentElement }) {
  /** @type {LeadHeader & Behind} */
  const { page, sentence, hints, words } = unpack(data);
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = newRoot(parentElement, "lead");
    root.append(element("div", "sentence"), element("div", "hints"));
    const stop = lightChips(root);
    const turned = () => lastIn(root).toggleAttribute("hidden", true); // hints of the page before would push the next
    bus.addEventListener("turned", turned);
    root.stop = () => {
      stop();
      bus.removeEventListener("turned", turned);
    };
  }
  const [line, list] = root.children;
  write(line, sentence);
  root.away = root.page === page ? root.away : remembered(page);
  root.page = page;
  list.hidden = root.away || !hints.length;
  if (list.hidden) return ending(root);
  while (list.children.length > hints.length + 1) firstIn(list).remove();
  if (!list.children.length) buildButtons(root, list);
  const [around, dismiss] = /** @type {any} */ (lastIn(list).children);
  around.hidden = !words.tour || tourSeen();
  write(around, words.tour ?? "");
  write(dismiss, words.dismiss);
  while (list.children.length < hints.length + 1) list.insertBefore(element("div", "hint"), lastIn(list));
  hints.forEach((/** @type {(string | HintToken)[]} */ parts, /** @type {number} */ number) => showHint(list.children[number], parts));
  list.classList.toggle("numbered", hints.length > 1);
  return ending(root);
}
