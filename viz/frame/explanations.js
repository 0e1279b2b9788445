// An explanation beside the page goes at Escape, as at its own button: that of a figure first, which lies over the page's.

const FIGURE = ".st-key-explained_figure_close button";
const PAGE = '.stMain [class*="explanation"] details[open] > summary';

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {Element} */ (event.composedPath()[0]);
  if (event.key !== "Escape" || event.defaultPrevented || target.matches("input, select, textarea, :popover-open *")) return;
  /** @type {HTMLElement | null} */
  const close = document.querySelector(FIGURE) ?? document.querySelector(PAGE);
  close?.click();
}

// For whoever wants no motion what is opened stands open at once: Streamlit moves it by a script, past the styles.
function animateAtOnce() {
  const { animate } = Element.prototype;
  /** @type {typeof animate} */
  Element.prototype.animate = function (frames, options) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    return animate.call(this, frames, still ? { ...Object(options), duration: 0 } : options);
  };
}

let listening = false;

// Once in a window.
export function listenToFolds() {
  if (listening) return;
  listening = true;
  document.addEventListener("keydown", onKey);
  animateAtOnce();
}
