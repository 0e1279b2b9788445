// A lesson in a file: one step at a time with its figures, and its question, which is answered by what the model said when the
// file was made. The film of a training stands at the step of the lesson's. Nothing here asks a server.

import { bus } from "../web/bus.js";
import { element, write } from "../web/elements.js";
import { goToFrame, nearestFrame } from "../web/film_store.js";

/**
 * @typedef {{ sentence: string, options: string[], right: number | null, value: number | null, tolerance: number,
 *   said: Record<"right" | "wrong" | "shown", string>, said_to: string[], hints: string[] }} FileQuestion
 * @typedef {{ groups: number[], steps: (number | null)[], questions: (FileQuestion | null)[], words: Record<string, string> }} LessonFile
 */

const MOST = 9; // options that stand as buttons
/** @type {Map<number, boolean>} */
const firsts = new Map(); // whether the first guess was right, without a hint, by step

/** @param {string} text @param {Record<string, any>} values */
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** @param {FileQuestion} question @param {number} guess */
function judged({ options, right, value, tolerance }, guess) {
  if (right === null) return null;
  return options.length ? guess === right : Math.abs(guess - (value ?? 0)) <= tolerance * Math.abs(value ?? 0);
}

// A question in its place. number: of its step.
/** @param {Element} place @param {FileQuestion} question @param {Record<string, string>} words @param {number} number */
function ask(place, question, words, number) {
  let hints = 0;
  const said = element("p", "said");
  said.setAttribute("aria-live", "polite");
  const more = element("div", "hints");
  const hint = element("button", "hint", words.hint);
  /** @param {number} guess */
  const answer = (guess) => {
    const verdict = judged(question, guess);
    if (verdict !== null && !firsts.has(number)) firsts.set(number, verdict && !hints);
    write(said, question.said_to[guess] ?? (verdict === null ? question.said.shown : question.said[verdict ? "right" : "wrong"]));
    said.dataset.verdict = String(verdict);
    hint.hidden = verdict !== false || hints > question.hints.length;
  };
  place.append(element("p", "asked", question.sentence), fieldOf(question, words, answer), said, more, hint);
  hint.type = "button";
  hint.addEventListener("click", () => {
    if (hints < question.hints.length) more.append(element("p", "small", question.hints[hints]));
    else {
      write(said, question.said.shown);
      if (question.right !== null && !firsts.has(number)) firsts.set(number, false);
    }
    hints += 1;
    write(hint, hints < question.hints.length ? words.hint : words.show);
    hint.hidden = hints > question.hints.length;
  });
}

/** @param {FileQuestion} question @param {Record<string, string>} words @param {(guess: number) => void} answer */
function fieldOf({ options }, words, answer) {
  if (!options.length) return formOf(numberField(), words, (value) => answer(Number(value)));
  if (options.length > MOST) return formOf(listOf(options), words, (value) => answer(Number(value)));
  const row = element("div", "options");
  options.forEach((option, index) => {
    const button = row.appendChild(element("button", "", option));
    button.type = "button";
    button.addEventListener("click", () => {
      for (const other of row.children) other.setAttribute("aria-pressed", other === button);
      answer(index);
    });
  });
  return row;
}

function numberField() {
  const field = element("input");
  field.type = "number";
  field.step = "any";
  return field;
}

/** @param {string[]} options */
function listOf(options) {
  const list = element("select");
  list.add(new Option("", ""));
  options.forEach((option, index) => list.add(new Option(option, String(index))));
  return list;
}

/** @param {HTMLInputElement | HTMLSelectElement} field @param {Record<string, string>} words @param {(value: string) => void} answer */
function formOf(field, words, answer) {
  const row = element("div", "options");
  field.setAttribute("aria-label", words.guess);
  const button = element("button", "", words.answer);
  button.type = "button";
  const send = () => field.value !== "" && answer(field.value);
  button.addEventListener("click", send);
  field.addEventListener("keydown", (/** @type {any} */ event) => event.key === "Enter" && send());
  row.append(field, button);
  return row;
}

/** @param {LessonFile} lesson */
export function begin({ groups, steps: trained, questions, words }) {
  const steps = [...document.querySelectorAll("section")];
  const [back, ahead] = document.querySelectorAll("nav button");
  const count = document.querySelector("nav span");
  const figures = new Map([...document.querySelectorAll(".group")].map((group) => [Number(group.dataset.group), group]));
  questions.forEach((question, number) => question && ask(steps[number].querySelector(".question"), question, words, number));
  let now = 0;
  /** @param {number} number */
  const show = (number) => {
    now = Math.max(0, Math.min(steps.length - 1, number));
    const place = steps[now].querySelector(".place");
    const group = figures.get(groups[now]);
    if (group && group.parentElement !== place) place.append(group);
    steps.forEach((step, index) => (step.hidden = index !== now));
    const at = trained[groups[now]];
    if (bus.film && at !== null) goToFrame(nearestFrame(at));
    back.disabled = !now;
    ahead.disabled = now === steps.length - 1;
    const right = [...firsts.values()].filter(Boolean).length;
    const result = ahead.disabled && firsts.size ? ` · ${filled(words.result, { right, all: firsts.size })}` : "";
    write(count, filled(words.step, { number: now + 1, count: steps.length }) + result);
    scrollTo(0, 0);
  };
  back.addEventListener("click", () => show(now - 1));
  ahead.addEventListener("click", () => show(now + 1));
  addEventListener("keydown", (event) => {
    const used = event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey;
    if (used || /** @type {Element} */ (event.target).closest?.("input, select, canvas, [data-view]")) return;
    if (["ArrowRight", "PageDown"].includes(event.key)) show(now + 1);
    else if (["ArrowLeft", "PageUp"].includes(event.key)) show(now - 1);
  });
  document.body.classList.add("stepped");
  show(0);
}
