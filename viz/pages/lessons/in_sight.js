// The figure that a step of a lesson is about, in sight above the lesson's text, where that lies over the page.

import { bus } from "../../web/bus.js";

const NARROW = "(max-width: 1199px)"; // as in strip.css
const PRESENTED = "(max-width: 900px)"; // as in frame.css: the text of a presented figure is below it
const EVERY = 200; // milliseconds between looks for the figure of a page that is being made
const LOOKS = 40;
const STANDS = 3; // looks at which it has not moved
const AIR = 8; // pixels around it

// The page's large figure, else the one that takes most room.
/** @returns {HTMLElement | undefined} */
function figureOfPage() {
  const roots = [...bus.views.values()].map(({ parent }) => parent?.querySelector(".plot")).filter((root) => root?.isConnected && root.offsetWidth);
  const here = roots.filter((root) => !root.getRootNode().host?.closest('[data-stale="true"]'));
  const area = (/** @type {HTMLElement} */ { offsetWidth, offsetHeight }) => offsetWidth * offsetHeight;
  return here.find((root) => root.shown?.header?.large) ?? here.sort((one, other) => area(other) - area(one))[0];
}

// A figure that is higher than there is room for is seen from its canvas on.
/** @param {HTMLElement} figure @param {Element} main @param {Element} text */
function scrollTo(figure, main, text) {
  const above = document.querySelector(".st-key-input_bar")?.getBoundingClientRect().bottom ?? 0;
  const room = text.getBoundingClientRect().top - above - 2 * AIR;
  const { top, bottom, height } = figure.getBoundingClientRect();
  if (top >= above && bottom <= above + room + 2 * AIR) return;
  const canvas = figure.querySelector("canvas")?.getBoundingClientRect().top ?? top;
  main.scrollTop += (height <= room ? top : canvas) - above - AIR;
}

// How much of the window's height the text covers: figures leave room for it.
export function measureText() {
  const presented = document.querySelector(".presented_text");
  const text = /** @type {HTMLElement | null} */ (presented ?? document.querySelector(".st-key-lesson_panel"));
  const covered = text && matchMedia(presented ? PRESENTED : NARROW).matches ? text.offsetHeight : 0;
  if (covered === (bus.covered ?? 0)) return;
  bus.covered = covered;
  dispatchEvent(new Event("resize"));
}

let looking = 0;
const stop = () => clearInterval(looking);
for (const name of ["pointerdown", "wheel", "keydown"]) addEventListener(name, stop, { capture: true, passive: true });

// The step's text from its beginning, and then its figure; whoever touches the page scrolls it from then on.
export function showStep() {
  stop();
  const text = document.querySelector(".st-key-lesson_panel");
  text?.scrollTo(0, 0);
  const main = document.querySelector(".stMain");
  if (!text || !main || !matchMedia(NARROW).matches) return;
  measureText();
  let [looks, stood, before] = [0, 0, ""];
  looking = Number(setInterval(() => {
    measureText();
    const figure = document.documentElement.hasAttribute("data-turned") ? undefined : figureOfPage();
    const place = figure ? `${figure.getBoundingClientRect().top} ${figure.offsetHeight}` : "";
    stood = figure && place === before ? stood + 1 : 0;
    before = place;
    if (figure && stood === STANDS) scrollTo(figure, main, text);
    if (++looks > LOOKS) stop();
  }, EVERY));
}
