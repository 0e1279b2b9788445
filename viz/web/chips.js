// Tokens as chips.

import { element, shorten } from "./elements.js";
import { bus, hold, hover, onHover } from "./bus.js";

// A row of tokens as chips: special tokens dimmed, hovering announced, a click given to `choose` of the chip's side and
// position. Chips that are there already are used again: typing changes a few of them. places: of each token in its
// text, where not all of that is shown.
/**
 * @param {Element} parent @param {string[]} labels @param {boolean[]} special @param {string} side
 * @param {(side: string, position: number) => void} [choose] @param {number[]} [places]
 */
export function showChips(parent, labels, special, side, choose, places) {
  shorten(parent, labels.length);
  labels.forEach((label, index) => {
    const made = /** @type {HTMLElement} */ (parent.children[index] ?? parent.appendChild(newChip(index, choose)));
    if (places) made.dataset.position = String(places[index]);
    showChip(made, label, special[index], side);
  });
}

/** @param {number} position @param {(side: string, position: number) => void} [choose] */
export function newChip(position, choose) {
  const made = element(choose ? "button" : "span", "chip");
  made.dataset.position = String(position);
  made.dir = "auto";
  const place = () => Number(made.dataset.position);
  made.addEventListener("pointerenter", () => hover(made.dataset.side, place()));
  made.addEventListener("pointerleave", () => hover(made.dataset.side, -1));
  if (choose) {
    made.setAttribute("type", "button");
    made.addEventListener("click", () => {
      const { side = "" } = made.dataset;
      hold(side, place(), made.title);
      choose(side, place());
    });
  }
  return made;
}

// Spaces of tokens in a text as dots.
/** @param {string} text */
export const dotted = (text) => text.replaceAll("▁", "·");

// A token as it is written on the screen: a space is a dot, and what would be invisible gets a sign.
/** @param {string} label */
export function shown(label) {
  return dotted(label === " " ? "·" : label).replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

/** @param {string} label */
export const isSpecial = (label) => /^<.*>$/.test(label);

/** @param {HTMLElement} made @param {string} label @param {boolean} special @param {string} side */
export function showChip(made, label, special, side) {
  made.classList.toggle("special", special);
  made.dataset.side = side;
  made.classList.toggle("lit", bus.lit?.[side] === Number(made.dataset.position));
  if (made.title === label && made.textContent) return;
  made.title = label;
  made.textContent = shown(label);
}

/** @param {ParentNode} root */
export function lightChips(root) {
  return onHover((side, position) => {
    for (const made of root.querySelectorAll(`.chip[data-side="${side}"]`)) {
      made.classList.toggle("lit", Number(made.dataset.position) === position);
    }
  });
}
