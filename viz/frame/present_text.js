// The text of a lesson's step beside the figure that is presented, in type that is read from the last row.

import { element, prose } from "../web/elements.js";

const HELD = "(max-width: 640px), (max-height: 500px)"; // in a hand, as in frame.css: a text is not read from the last row

/** @type {HTMLElement | null} */
let text = null;

// The text as elements: what it says is never read as markup.
/** @param {LessonStep} [lesson] none: it goes */
export function showText(lesson) {
  document.documentElement.toggleAttribute("data-presenting-text", Boolean(lesson));
  if (!lesson) {
    text?.remove();
    text = null;
    return;
  }
  text ??= document.body.appendChild(element("div", "presented_text"));
  const said = element("div", "said");
  text.replaceChildren(said);
  said.append(element("h2", "title", lesson.title));
  for (const { number, spans } of lesson.paragraphs) {
    const line = said.appendChild(element("p", number === null ? "line" : "line item"));
    if (number !== null) line.append(element("span", "mark", number ? `${number}.` : "•"));
    for (const [content, style] of spans) line.append(prose(TAGS[style] ?? "span", content));
  }
  if (lesson.question) {
    const question = text.appendChild(prose("p", lesson.question));
    question.className = "line question";
  }
  const markMore = () => said.classList.toggle("more", said.scrollTop + said.clientHeight < said.scrollHeight - 2);
  said.addEventListener("scroll", markMore, { passive: true });
  said.scrollTo(0, 0);
  said.tabIndex = 0; // it scrolls, and the question stays
  const [most, least] = matchMedia(HELD).matches ? [19, 16] : [30, 24];
  fewer(text, most, least);
  markMore();
}

/** @type {Record<string, "strong" | "em" | "code">} */
const TAGS = { strong: "strong", emphasis: "em", code: "code" };

// Type of this many pixels, or of fewer, until the text fits.
/** @param {HTMLElement} node @param {number} size @param {number} least */
function fewer(node, size, least) {
  node.style.fontSize = `${size}px`;
  const said = /** @type {Element} */ (node.firstElementChild);
  if (size > least && said.scrollHeight > said.clientHeight) fewer(node, Math.max(least, size - 2), least);
}
