// Texts of lessons as elements: what they say is never read as markup.

import { element } from "./elements.js";

/** @type {Record<string, "strong" | "em" | "code">} */
const TAGS = { strong: "strong", emphasis: "em", code: "code" };

// A text in an element of its own; the index of a width, as in d_k, stands low.
/** @template {keyof HTMLElementTagNameMap} Name @param {Name} tag @param {string} content */
export function prose(tag, content) {
  const made = element(tag);
  content.split(/\bd_(k|v|model|ff)\b/).forEach((part, place) => {
    if (place % 2) made.append(element("i", "", "d"), element("sub", "", part));
    else made.append(part);
  });
  return made;
}

// A paragraph of spans, each a text and its style; a number: it is an item of a list, 0: without one.
/** @param {LessonStep["paragraphs"][number]} given */
export function paragraph({ number, spans }) {
  const made = element("p", number === null ? "" : "item");
  if (number !== null) made.append(element("span", "mark", number ? `${number}.` : "•"));
  const words = made.appendChild(element("span"));
  for (const [content, style] of spans) words.append(prose(TAGS[style] ?? "span", content));
  return made;
}
