// The text of a lesson's step beside the figure that is presented, in type that is read from the last row.

import { bus } from "../web/bus.js";
import { element } from "../web/elements.js";
import { paragraph, prose } from "../web/prose.js";

const HELD = "(max-width: 640px), (max-height: 500px)"; // in a hand, as in frame.css: a text is not read from the last row

const LOW = "(max-height: 700px)"; // smaller type is read from nearer, text below the edge is not read at all

/** @type {HTMLElement | null} */
let text = null;

// The text as elements: what it says is never read as markup. Who is led has the lesson's panel in its place, where questions are answered.
/** @param {LessonStep} [lesson] none: it goes @param {boolean} [led] */
export function showText(lesson, led = false) {
  document.documentElement.toggleAttribute("data-presenting-text", Boolean(lesson));
  document.documentElement.toggleAttribute("data-led", Boolean(lesson && led));
  if (!lesson || led) {
    text?.remove();
    text = null;
    return;
  }
  text ??= document.body.appendChild(element("div", "presented_text"));
  const said = element("div", "said");
  text.replaceChildren(said);
  const asides = lesson.asides.map((each) => element("p", "aside", each));
  said.append(element("h2", "title", lesson.title), ...asides, ...lesson.paragraphs.map(paragraph));
  if (lesson.question) text.appendChild(questionOf(lesson));
  const markMore = () => said.classList.toggle("more", said.scrollTop + said.clientHeight < said.scrollHeight - 2);
  said.addEventListener("scroll", markMore, { passive: true });
  said.scrollTo(0, 0);
  said.tabIndex = 0; // it scrolls, and the question stays
  const [most, least] = matchMedia(HELD).matches ? [19, 16] : [30, matchMedia(LOW).matches ? 18 : 24];
  fewer(text, most, least);
  markMore();
}

// The question with what there is to choose; of who teaches a class with its answers: how often each was given, and its share of
// the most frequent one's.
/** @param {LessonStep} lesson */
function questionOf({ question, options }) {
  const asked = element("div", "question");
  asked.append(prose("p", question));
  const { bars, sentence } = bus.answers ?? { bars: [], sentence: "" };
  const [counts, most] = [new Map(bars.map(({ label, count }) => [label, count])), Math.max(1, ...bars.map(({ count }) => count))];
  const offered = options.length ? options : [...counts.keys()];
  if (offered.length) asked.appendChild(element("p", "options")).append(...offered.map((each) => offeredOption(each, most, counts.get(each))));
  if (sentence) asked.appendChild(element("p", "answered", sentence)).setAttribute("role", "status");
  return asked;
}

/** @param {string} label @param {number} most @param {number} [count] */
function offeredOption(label, most, count) {
  const option = element("span", "", label);
  if (count === undefined) return option;
  option.append(element("b", "", String(count)));
  option.style.setProperty("--part", `${(100 * count) / most}%`);
  return option;
}

bus.addEventListener("answers", () => {
  if (bus.lesson) text?.querySelector(".question")?.replaceWith(questionOf(bus.lesson));
});

// Type of this many pixels, or of fewer, until the text fits.
/** @param {HTMLElement} node @param {number} size @param {number} least */
function fewer(node, size, least) {
  node.style.fontSize = `${size}px`;
  const said = /** @type {Element} */ (node.firstElementChild);
  if (size > least && said.scrollHeight > said.clientHeight) fewer(node, Math.max(least, size - 2), least);
}
