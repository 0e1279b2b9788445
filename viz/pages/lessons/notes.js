// The teacher's notes on a step, in a window of their own: it follows the window of this browser that shows the lesson, and its
// buttons and keys lead that.

import { element, ending, newRoot, write } from "../../web/elements.js";
import { paragraph } from "../../web/prose.js";

const CHANNEL = "vitrine.lesson"; // between the windows of one browser, see lesson.js
const MINUTE = 60_000;
const NEXT = new Set(["ArrowRight", "PageDown", " "]);
const BEFORE = new Set(["ArrowLeft", "PageUp"]);

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = newRoot(parentElement, "lesson_notes");
  const sheet = root.appendChild(element("div", "notes_page"));
  root.head = sheet.appendChild(element("div", "head"));
  root.clock = sheet.appendChild(element("div", "clock"));
  root.clock.append(element("b"), element("span"), element("button", "act again"));
  root.heading = sheet.appendChild(element("h1"));
  root.text = sheet.appendChild(element("div", "text"));
  root.next = sheet.appendChild(element("div", "next"));
  const row = sheet.appendChild(element("div", "row"));
  [root.back, root.ahead] = ["back", "ahead"].map((name) => row.appendChild(element("button", `act ${name}`)));
  root.alone = sheet.appendChild(element("div", "alone"));
  for (const each of root.querySelectorAll("button")) each.type = "button";
  const channel = new BroadcastChannel(CHANNEL);
  const go = (/** @type {number} */ by) => {
    const step = root.step + by;
    if (step < 0 || step >= root.given.steps.length) return;
    if (root.from) channel.postMessage({ kind: "go", to: root.from, step });
    else show(root, step);
  };
  channel.addEventListener("message", ({ data }) => {
    if (data.kind !== "at" || data.lesson !== root.given.lesson) return;
    root.from = data.from;
    show(root, data.step);
  });
  root.back.addEventListener("click", () => go(-1));
  root.ahead.addEventListener("click", () => go(1));
  root.clock.querySelector("button").addEventListener("click", () => {
    root.since = Date.now();
    tell(root);
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (!NEXT.has(event.key) && !BEFORE.has(event.key)) return;
    if (event.key === " " && /** @type {Element} */ (event.composedPath()[0]).matches?.("button")) return;
    go(NEXT.has(event.key) ? 1 : -1);
    event.preventDefault();
  };
  document.addEventListener("keydown", onKey);
  root.since = Date.now();
  const timer = setInterval(() => tell(root), 5000);
  root.hello = () => channel.postMessage({ kind: "hello", lesson: root.given.lesson });
  root.stop = () => {
    clearInterval(timer);
    document.removeEventListener("keydown", onKey);
    channel.close();
  };
  return root;
}

// Minutes that have gone, beside those that are planned until the end of the step.
/** @param {Root} root */
function tell(root) {
  const { given, step } = root;
  const planned = given.steps.slice(0, step + 1).reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + (each.minutes ?? 0), 0);
  const gone = Math.floor((Date.now() - root.since) / MINUTE);
  const words = given.words.gone.replace("{gone}", gone).replace("{planned}", planned || "–").replace("{minutes}", given.minutes);
  write(root.clock.querySelector("span"), words);
  root.clock.classList.toggle("late", Boolean(planned) && gone > planned);
}

/** @param {Root} root @param {number} step */
function show(root, step) {
  const { given } = root;
  const { words, steps } = given;
  root.step = Math.max(0, Math.min(steps.length - 1, step));
  const { title, minutes, notes } = steps[root.step];
  write(root.head, `${given.title} · ${words.place.replace("{number}", root.step + 1).replace("{count}", steps.length)}`);
  write(root.heading, title);
  write(root.clock.querySelector("b"), minutes ? words.minutes.replace("{minutes}", minutes) : "");
  root.text.replaceChildren(...(notes.length ? notes : [{ number: null, spans: [[words.none, "emphasis"]] }]).map(paragraph));
  const next = steps[root.step + 1];
  write(root.next, next ? words.next.replace("{title}", next.title) : words.last);
  root.back.disabled = !root.step;
  root.ahead.disabled = !next;
  write(root.alone, root.from ? "" : words.alone);
  document.title = `${title} · ${given.title}`;
  tell(root);
}

/** @param {Given} given */
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  const first = !root.given;
  root.given = data;
  document.documentElement.lang = data.language;
  for (const name of ["back", "ahead"]) write(root[name], data.words[name]);
  write(root.clock.querySelector("button"), data.words.again);
  show(root, first ? data.step : root.step);
  if (first) root.hello();
  return ending(root);
}
