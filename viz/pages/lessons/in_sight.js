// What a step of a lesson is about, in sight, and above the lesson's text where that lies over the page: what it lights, the figure that
// it names, that its question is answered by, or that its state asks for.

import { bus } from "../../web/bus.js";
import { area, figures, largeOf, rootIn } from "../../web/figures.js";
import { lightOnPage } from "./lights.js";

const NARROW = "(max-width: 1199px)"; // as in strip.css
const PRESENTED = "(max-width: 900px) and (max-aspect-ratio: 3/2)"; // as in frame.css: the text of a presented figure is below it
const EVERY = 200; // milliseconds between looks for the figure of a page that is being made
const LOOKS = 40;
const STANDS = 3; // looks at which it has not moved
const AIR = 8; // pixels around it

/** @param {HTMLElement} each */
const isHere = (each) => !(each.getRootNode().host ?? each).closest('[data-stale="true"]');

// What has a key that begins so, the shortest first: a view, or a place of the page.
/** @param {string} beginning @returns {HTMLElement | undefined} */
function placeOf(beginning) {
  const known = [...bus.views].filter(([key]) => key.startsWith(beginning)).sort(([one], [other]) => one.length - other.length);
  const views = known.map(([, { parent }]) => parent?.querySelector(".vitrine"));
  const places = document.querySelectorAll(`.stMain [class*="st-key-${CSS.escape(beginning)}"]`);
  return [...views, ...places].find((each) => each?.isConnected && each.offsetHeight && isHere(each));
}

// What the step is about: its figures come in turn, and what it lights after the one that it names.
/** @param {LessonStep} lesson @returns {HTMLElement | undefined} */
function subjectOf({ figures: names, lights }) {
  const named = lights.some(({ kind }) => kind === "figure");
  const lit = named ? undefined : lightOnPage(lights);
  const own = lit ?? names.map(placeOf).find(Boolean);
  if (own || !matchMedia(NARROW).matches) return own; // a page that is wide begins with its figure
  const large = largeOf(figures().filter(area));
  return large && (rootIn(large) ?? large);
}

// A figure that is higher than there is room for is seen from its canvas on.
/** @param {HTMLElement} figure @param {Element} main @param {Element} text */
function scrollTo(figure, main, text) {
  const above = document.querySelector(".st-key-input_bar")?.getBoundingClientRect().bottom ?? 0;
  const below = matchMedia(NARROW).matches ? text.getBoundingClientRect().top : innerHeight;
  const room = below - above - 2 * AIR;
  const { top, bottom, height } = figure.getBoundingClientRect();
  if (top >= above && bottom <= above + room + 2 * AIR) return;
  const canvas = figure.matches(".plot") ? (figure.querySelector("canvas")?.getBoundingClientRect().top ?? top) : top;
  main.scrollTop += (height <= room ? top : canvas) - above - AIR;
  clearRow(figure, main, below);
}

// No row of choices is cut by the header: it is whole below it where the figure stays in sight, else wholly under it.
/** @param {HTMLElement} figure @param {Element} main @param {number} below */
function clearRow(figure, main, below) {
  const above = document.querySelector(".st-key-input_bar")?.getBoundingClientRect().bottom ?? 0; // it has scrolled, too
  const rows = [...main.querySelectorAll('[class*="st-key-choices_"]')].map((row) => row.getBoundingClientRect());
  const cut = rows.filter(({ top, bottom }) => top < above && bottom > above).sort((one, other) => one.height - other.height)[0];
  if (!cut) return;
  const back = above + AIR - cut.top;
  main.scrollTop += figure.getBoundingClientRect().bottom + back <= below ? -back : cut.bottom - above;
}

const FIRST_ANSWERS = 96; // pixels below a question's words: a row of answers, and that more follow
const REST = 40; // pixels of a question that are shown with the others: less is no row of answers

// How much of the window's height the text covers: figures leave room for it. And what stays in sight while it scrolls.
export function measureText() {
  const presented = document.querySelector(".presented_text, [data-led] .st-key-lesson_panel");
  const panel = /** @type {HTMLElement | null} */ (document.querySelector(".st-key-lesson_panel"));
  if (panel) measureParts(panel);
  const text = /** @type {HTMLElement | null} */ (presented ?? panel);
  const covered = text && matchMedia(presented ? PRESENTED : NARROW).matches ? innerHeight - text.getBoundingClientRect().top : 0;
  if (covered === (bus.covered ?? 0)) return;
  bus.covered = covered;
  document.documentElement.style.setProperty("--covered", `${covered}px`);
  dispatchEvent(new Event("resize"));
}

// Heights that strip.css needs: of the line that folds the text, and of the question as far as it goes on below what is seen of it.
/** @param {HTMLElement} panel */
function measureParts(panel) {
  const partOf = (/** @type {Element | null | undefined} */ node) => [...panel.children].find((part) => part.contains(node ?? null));
  const heightOf = (/** @type {string} */ key) => partOf(panel.querySelector(`.st-key-lesson_${key}`))?.getBoundingClientRect().height ?? 0;
  const [acts, steps, question] = ["acts", "steps", "question"].map(heightOf);
  const words = panel.querySelector(".st-key-lesson_question .stMarkdown")?.getBoundingClientRect().height ?? 0;
  const seen = words + FIRST_ANSWERS + REST < question ? words + FIRST_ANSWERS : question;
  panel.style.setProperty("--lesson-acts", `${acts}px`);
  panel.style.setProperty("--lesson-question", `${steps - question + seen}px`);
}

// A presented figure is alone in the window: nothing is to be scrolled to.
export const isPresenting = () => ["data-presenting", "data-presenting-wait"].some((name) => document.documentElement.hasAttribute(name));

// A training is on its way to the step.
const isAwaited = () => Boolean(bus.views.get("lesson_training")?.parent.textContent?.trim());

let looking = 0;
const stop = () => clearInterval(looking);
for (const name of ["pointerdown", "wheel", "keydown"]) addEventListener(name, stop, { capture: true, passive: true });

// The step's text and its page from their beginning, and then its figure; whoever touches the page scrolls it from then on.
/** @param {LessonStep} lesson */
export function showStep(lesson) {
  stop();
  const text = document.querySelector(".st-key-lesson_panel");
  text?.scrollTo(0, 0);
  const main = document.querySelector(".stMain");
  if (!text || !main || isPresenting()) return;
  main.scrollTop = 0;
  measureText();
  let [looks, stood, before] = [0, 0, ""];
  looking = Number(setInterval(() => {
    measureText();
    if (isPresenting()) return stop();
    const figure = document.documentElement.hasAttribute("data-turned") ? undefined : subjectOf(lesson);
    const place = figure ? `${figure.getBoundingClientRect().top} ${figure.offsetHeight}` : "";
    stood = figure && place === before ? stood + 1 : 0;
    before = place;
    if (figure && stood === STANDS) scrollTo(figure, main, text);
    if (!isAwaited() && ++looks > LOOKS) stop();
  }, EVERY));
}
