// A lesson's part in the browser: what its step lights up, the step for presenting and for the teacher's second window, the
// link to it with its QR code, and what folds the text on a narrow window.

import { bus } from "../../web/bus.js";
import { element, ending, newRoot, write } from "../../web/elements.js";
import { newPopover } from "../../web/popover.js";
import { measureText, showStep } from "./in_sight.js";
import { showLights } from "./lights.js";

const CHANNEL = "vitrine.lesson"; // between the windows of one browser
const OURS = ["run", "notes", "worksheet"]; // in the address: of this window, and of no other
const SVG = "http://www.w3.org/2000/svg";
const SETTLES = 400; // milliseconds from a run of the script until the address bar has what it has set
const OWN = Math.random().toString(36).slice(2); // name of this window

// Address of the present page, for another browser.
/** @param {Record<string, string>} [others] */
function linkHere(others = {}) {
  const address = new URL(location.href);
  for (const name of OURS) address.searchParams.delete(name);
  if (address.searchParams.get("model") === "training") address.searchParams.delete("model");
  for (const [name, value] of Object.entries(others)) address.searchParams.set(name, value);
  return address.href;
}

// Dark on light in either theme: so it is read by every camera.
/** @param {{ size: number, path: string }} code @param {string} name */
function drawing({ size, path }, name) {
  const svg = document.createElementNS(SVG, "svg");
  const [ground, dark] = ["rect", "path"].map((tag) => svg.appendChild(document.createElementNS(SVG, tag)));
  const given = { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": name, "shape-rendering": "crispEdges" };
  for (const [attribute, value] of Object.entries(given)) svg.setAttribute(attribute, value);
  for (const [attribute, value] of Object.entries({ width: size, height: size, fill: "white" })) ground.setAttribute(attribute, value);
  for (const [attribute, value] of Object.entries({ d: path, fill: "black" })) dark.setAttribute(attribute, value);
  return svg;
}

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
  root.present = button(root, "present", () => bus.dispatchEvent(new Event("present")));
  root.notes = button(root, "notes", () => window.open(linkHere({ notes: "1" }), "vitrine_notes", "width=900,height=760"));
  const { opener, panel } = newPopover("act link");
  root.append(opener, panel);
  [root.link, root.panel] = [opener, panel];
  const inside = panel.appendChild(element("div", "step_link"));
  root.field = inside.appendChild(element("input"));
  root.field.readOnly = true;
  root.copy = button(inside, "copy", async () => {
    await navigator.clipboard?.writeText(root.field.value).catch(() => root.field.select());
    write(root.copy, root.words.copied);
  });
  root.code = inside.appendChild(element("div", "code"));
  root.here = inside.appendChild(element("div", "here"));
  panel.addEventListener("beforetoggle", (/** @type {ToggleEvent} */ event) => {
    if (event.newState !== "open") return;
    root.field.value = "";
    write(root.copy, root.words.copy);
    askCode(root);
  });
  root.worksheet = button(root, "worksheet", () => window.open(linkHere({ worksheet: "1" }), "_blank"));
  const channel = new BroadcastChannel(CHANNEL);
  channel.addEventListener("message", ({ data }) => {
    if (data.kind === "hello" && data.lesson === root.given.lesson) root.tell();
    if (data.kind === "go" && data.to === OWN) root.go(data.step);
  });
  root.tell = () => channel.postMessage({ kind: "at", from: OWN, lesson: root.given.lesson, step: root.given.step });
  root.stop = () => {
    channel.close();
    showLights([]);
    bus.covered = 0;
    dispatchEvent(new Event("resize"));
    if (bus.lesson?.root === root) bus.lesson = undefined;
    bus.dispatchEvent(new Event("lesson"));
  };
  return root;
}

// The link as the address is now, and its code, which the server draws. That run may bring the address what was clicked last.
/** @param {Root} root */
function askCode(root) {
  if (!root.panel.matches(":popover-open") && root.field.value) return;
  const now = linkHere();
  if (now === root.field.value) return;
  root.field.value = now;
  root.code.replaceChildren();
  root.trigger("code", now);
}

/** @param {Root} root @param {boolean} open */
function foldText(root, open) {
  root.fold.setAttribute("aria-expanded", open);
  write(root.fold, open ? root.words.fold : root.words.unfold);
  measureText();
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
  for (const name of ["present", "notes", "link", "worksheet"]) write(root[name], words[name]);
  root.notes.hidden = !data.notes;
  foldText(root, !document.documentElement.hasAttribute("data-lesson-folded"));
  root.field.setAttribute("aria-label", words.link);
  write(root.here, ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname) ? words.here : "");
  if (data.code && data.code.href === root.field.value) root.code.replaceChildren(drawing(data.code, words.code));
  if (root.field.value) setTimeout(() => askCode(root), SETTLES);
  showLights(data.lights);
  if (before?.step !== data.step || before?.lesson !== data.lesson) showStep();
  bus.lesson = { ...data, root, go: root.go };
  if (before?.step !== data.step || before?.lesson !== data.lesson || before?.question !== data.question) {
    bus.dispatchEvent(new Event("lesson"));
    root.tell();
  }
  return ending(root);
}
