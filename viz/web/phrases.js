// Headings in Chinese, which has no spaces: a line ends between two words, and not between a number and its measure word.

import { element, write } from "./elements.js";

const HAN = /[\u2e80-\u2fdf\u3400-\u9fff]/;
const OPENS = /([“‘（《「『([<]|第\s*)$/; // what follows stays with it
const NUMBER = /\d[\d.,]*%?$/;
const ENDINGS = new Set(["的", "了", "着", "过", "中", "里", "上", "下"]); // they lean on the word before

/** @type {Intl.Segmenter | undefined} */
let segmenter;

// The text as pieces that are not torn apart: a line may end after each of them.
/** @param {string} text @returns {string[]} */
export function phrases(text) {
  segmenter ??= new Intl.Segmenter("zh", { granularity: "word" });
  /** @type {string[]} */
  const found = [];
  let former = "";
  for (const { segment, isWordLike } of segmenter.segment(text)) {
    const last = found.at(-1) ?? "";
    const letters = former.length === 1 && segment.length === 1 && HAN.test(former) && HAN.test(segment); // of a word that is not known
    if (last && (letters || leans(last, segment, Boolean(isWordLike)))) found[found.length - 1] += segment;
    else found.push(segment);
    former = segment;
  }
  return found;
}

// Whether a segment stays with the piece before it.
/** @param {string} before @param {string} segment @param {boolean} isWord */
function leans(before, segment, isWord) {
  if (OPENS.test(before)) return true;
  if (!isWord) return !OPENS.test(segment);
  if (NUMBER.test(before.trimEnd()) && HAN.test(segment)) return true;
  return HAN.test(before.at(-1) ?? "") && ENDINGS.has(segment);
}

/** @param {Element} node @param {string} text */
export function writePhrases(node, text) {
  if (!HAN.test(text)) return write(node, text);
  if (node.textContent === text) return;
  node.replaceChildren();
  for (const piece of phrases(text)) {
    const words = piece.trimEnd();
    node.append(/\s/.test(words) ? element("span", "together", words) : words, piece.slice(words.length), element("wbr"));
  }
}
