// A button and the panel that it opens over the page; a click elsewhere, or Escape, closes it.

import { element } from "./elements.js";

const GAP = 6; // pixels between the two, and between the panel and the window's edge

// The panel hangs from the button's side that is nearer to the window's edge.
/** @param {HTMLElement} opener @param {HTMLElement} panel */
function place(opener, panel) {
  const { left, right, top, bottom } = opener.getBoundingClientRect();
  const { clientWidth: width, clientHeight: height } = document.documentElement;
  const narrow = width <= 640;
  const [isLeft, isHigh] = [left + right < width, top + bottom < height];
  Object.assign(panel.style, {
    left: narrow ? `${GAP}px` : isLeft ? `${left}px` : "auto",
    right: narrow ? `${GAP}px` : isLeft ? "auto" : `${width - right}px`,
    top: isHigh ? `${bottom + GAP}px` : "auto",
    bottom: isHigh ? "auto" : `${height - top + GAP}px`,
    maxHeight: `${(isHigh ? height - bottom : top) - 2 * GAP}px`,
  });
}

/** @param {HTMLElement} panel @returns {Element | null} */
const focusIn = (panel) => panel.getRootNode().activeElement;

// Who was in the panel with the keyboard is at its button again, unless he has gone elsewhere: in a shadow tree no browser does it.
/** @param {HTMLElement} opener @param {HTMLElement} panel */
function giveFocusBack(opener, panel) {
  if (document.activeElement === document.body || panel.contains(focusIn(panel))) opener.focus();
}

// Both, to be put beside each other. classes: of the button. beside: from what the panel hangs, if not from the button.
/** @param {string} classes @param {HTMLElement} [beside] @returns {{ opener: HTMLButtonElement, panel: HTMLDivElement }} */
export function newPopover(classes, beside) {
  const opener = element("button", classes);
  const panel = element("div", "over-page");
  opener.type = "button";
  panel.popover = "auto";
  opener.popoverTargetElement = panel;
  panel.addEventListener("beforetoggle", ({ newState }) => {
    opener.setAttribute("aria-expanded", String(newState === "open"));
    if (newState === "open") place(beside ?? opener, panel);
    else if (panel.contains(focusIn(panel))) setTimeout(() => giveFocusBack(opener, panel));
  });
  opener.setAttribute("aria-expanded", "false");
  return { opener, panel };
}
