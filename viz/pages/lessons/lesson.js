// A lesson's part in the browser: what its step lights up, the step for presenting and for the teacher's second window, the
// link to it with its QR code, and what folds the text on a narrow window. Where a question asks for a cell or a step, the one that is
// clicked in a figure, or at which the film was left, goes to the server, whose button then asks whether it is that.

import { bus } from "../../web/bus.js";
import { element, ending, newRoot, write } from "../../web/elements.js";
import { buildLink, linkHere } from "../../web/link.js";
import { isPresenting, measureText, showStep } from "./in_sight.js";
import { showLights } from "./lights.js";

const CHANNEL = "vitrine.lesson"; // between the windows of one browser
const SETTLES = 300; // milliseconds for which a film stands still where somebody has led it
const REMARKED = 150; // until what was said is drawn
let unfolded = ""; // name of the lesson that was opened last: another one begins with its text
const OWN = Math.random().toString(36).slice(2); // name of this window

/** @param {HTMLElement} parent @param {string} name @param {() => void} act */
function button(parent, name, act) {
  const made = parent.appendChild(element("button", `act ${name}`));
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = newRoot(parentElement, "lesson_acts");
  root.fold = button(root, "fold", () => foldText(root, !document.documentElement.toggleAttribute("data-lesson-folded")));
  // Of a phone, where the header is folded, and there is room for few buttons.
  root.header = button(root, "header", () => bus.dispatchEvent(new Event("header")));
  root.more = button(root, "more", () => {
    root.more.setAttribute("aria-expanded", root.classList.toggle("all"));
    measureText();
  });
  root.more.setAttribute("aria-expanded", false);
  root.present = button(root, "present", () => bus.dispatchEvent(new Event("present")));
  root.notes = button(root, "notes", () => window.open(linkHere({ notes: "1" }), "vitrine_notes", "width=900,height=760"));
  root.link = buildLink("act link", (address) => root.trigger("code", address));
  root.append(root.link.opener, root.link.panel);
  root.worksheet = button(root, "worksheet", () => window.open(linkHere({ worksheet: "1" }), "_blank"));
  const channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", ({ data }) => {
    if (data.kind === "hello" && data.lesson === root.given.lesson) root.tell();
    if (data.kind === "go" && data.to === OWN) root.go(data.step);
  });
  const noPlaces = listenToPlaces(root);
  const unmeasured = followSizes(root);
  const presented = () => {
    const before = root.presented;
    root.presented = isPresenting();
    measureText();
    if (before && !root.presented && bus.lesson) showStep(bus.lesson); // the page was scrolled to its top
  };
  bus.addEventListener("presented", presented);
  root.tell = () => channel.postMessage({ kind: "at", from: OWN, lesson: root.given.lesson, step: root.given.step });
  root.stop = () => {
    channel.close();
    noPlaces();
    unmeasured();
    bus.removeEventListener("presented", presented);
    showLights([]);
    bus.covered = 0;
    document.documentElement.style.removeProperty("--covered");
    dispatchEvent(new Event("resize"));
    if (bus.lesson?.root === root) bus.lesson = undefined;
    bus.dispatchEvent(new Event("lesson"));
  };
  return root;
}

// The panel grows and shrinks with what is said in it.
/** @param {Root} root */
function followSizes(root) {
  const sizes = new ResizeObserver(measureText);
  const parts = new MutationObserver(measureText);
  root.follow = (/** @type {Element | null} */ panel) => {
    if (!panel || panel === root.panel) return;
    root.panel = panel;
    sizes.observe(panel);
    parts.observe(panel, { childList: true, subtree: true });
  };
  return () => {
    sizes.disconnect();
    parts.disconnect();
  };
}

/** @param {Root} root */
function listenToPlaces(root) {
  let [timer, before] = [0, ""];
  const tell = (/** @type {object} */ place) => {
    const now = JSON.stringify([root.given.lesson, root.given.step, place]);
    if (now !== before) root.trigger("place", place);
    before = now;
  };
  const placed = (/** @type {any} */ { detail: { key, row, column, x } }) => {
    if (root.given.find === "step" && key.startsWith("curves_")) tell({ step: x });
    if (root.given.find === "cell" && key === "head_large") tell({ row, column });
  };
  const framed = (/** @type {any} */ { detail }) => {
    clearTimeout(timer);
    if (root.given.find === "step" && !detail.led) timer = Number(setTimeout(() => tell({ step: bus.at ?? bus.film?.steps.at(-1) }), SETTLES));
  };
  bus.addEventListener("place", placed);
  bus.addEventListener("frame", framed);
  return () => {
    clearTimeout(timer);
    bus.removeEventListener("place", placed);
    bus.removeEventListener("frame", framed);
  };
}

/** @param {Root} root @param {boolean} open */
function foldText(root, open) {
  root.fold.setAttribute("aria-expanded", open);
  write(root.fold, open ? root.words.fold : root.words.unfold);
  measureText();
}

// What was said last to a guess, or a hint, above the panel's buttons: from where the question is when it is not held in sight.
function showRemarks() {
  const panel = document.querySelector(".st-key-lesson_panel");
  panel?.toggleAttribute("data-loose", true);
  document.querySelector(".st-key-lesson_remarks > :last-child")?.scrollIntoView({ block: "nearest" });
  panel?.toggleAttribute("data-loose", false);
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  const before = root.given;
  const { words } = data;
  [root.given, root.words, root.trigger] = [data, words, setTriggerValue];
  root.go = (/** @type {number} */ step) => {
    if (step >= 0 && step < data.count && step !== data.step) setTriggerValue("go", step);
  };
  for (const name of ["header", "more", "present", "notes", "worksheet"]) write(root[name], words[name]);
  root.notes.hidden = !data.notes;
  if (unfolded !== data.lesson) document.documentElement.removeAttribute("data-lesson-folded");
  unfolded = data.lesson;
  foldText(root, !document.documentElement.hasAttribute("data-lesson-folded"));
  root.follow(document.querySelector(".st-key-lesson_panel"));
  root.link.show(words.link, data.code);
  showLights(data.lights);
  /** @type {LessonStep} */
  const lesson = (bus.lesson = { ...data, root, go: root.go });
  const same = before?.step === data.step && before?.lesson === data.lesson;
  if (!same) showStep(lesson);
  else if (before.remarks !== data.remarks) setTimeout(showRemarks, REMARKED);
  const parts = (/** @type {any} */ given) => JSON.stringify([given?.lesson, given?.step, given?.question, given?.asides]);
  if (parts(before) !== parts(data)) {
    bus.dispatchEvent(new Event("lesson"));
    root.tell();
  }
  return ending(root);
}
