// A button that opens the link to what its window shows, with its QR code, which the server draws.

import { element, write } from "./elements.js";
import { newPopover } from "./popover.js";

const SVG = "http://www.w3.org/2000/svg";
const OURS = ["notes", "worksheet", "join", "class"]; // in the address: of this window, and of no other
const SETTLES = 400; // milliseconds from a run of the script until the address bar has what it has set
const LOCAL = ["localhost", "127.0.0.1", "[::1]"];

// Address of the present page, for another browser. others: parameters beside those that it has. A lesson trains its own model
// there, else a training is seen there.
/** @param {Record<string, string>} [others] */
export function linkHere(others = {}) {
  const address = new URL(location.href);
  for (const name of OURS) address.searchParams.delete(name);
  if (address.searchParams.has("lesson")) {
    address.searchParams.delete("run");
    if (address.searchParams.get("model") === "training") address.searchParams.delete("model");
  }
  for (const [name, value] of Object.entries(others)) address.searchParams.set(name, value);
  return address.href;
}

// Dark on light in either theme: so it is read by every camera.
/** @param {QrHeader} code @param {string} name */
export function qrPicture({ size, path }, name) {
  const svg = document.createElementNS(SVG, "svg");
  const [ground, dark] = ["rect", "path"].map((tag) => svg.appendChild(document.createElementNS(SVG, tag)));
  const given = { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": name, "shape-rendering": "crispEdges" };
  for (const [attribute, value] of Object.entries(given)) svg.setAttribute(attribute, value);
  for (const [attribute, value] of Object.entries({ width: size, height: size, fill: "white" })) ground.setAttribute(attribute, value);
  for (const [attribute, value] of Object.entries({ d: path, fill: "black" })) dark.setAttribute(attribute, value);
  return svg;
}

// Button and panel, to be put beside each other. classes: of the button. ask: has the server draw the code of an address.
/** @param {string} classes @param {(address: string) => void} ask */
export function buildLink(classes, ask) {
  const { opener, panel } = newPopover(classes);
  const inside = panel.appendChild(element("div", "page_link"));
  const field = inside.appendChild(element("input"));
  field.readOnly = true;
  const copy = inside.appendChild(element("button", "act copy"));
  copy.type = "button";
  const [code, here] = ["code", "here"].map((name) => inside.appendChild(element("div", name)));
  /** @type {LinkWords} */
  let words;
  copy.addEventListener("click", async () => {
    field.select(); // to be copied by hand, where nothing else is allowed
    const copied = await navigator.clipboard?.writeText(field.value).then(() => true, () => false); // none without HTTPS
    if (copied || document.execCommand("copy")) write(copy, words.copied);
  });
  // The link as the address is now. The run that draws its code may bring the address what was clicked last.
  const look = () => {
    const now = linkHere();
    if (!panel.matches(":popover-open") || now === field.value) return;
    field.value = now;
    code.replaceChildren();
    ask(now);
  };
  panel.addEventListener("toggle", ({ newState }) => {
    if (newState !== "open") return;
    field.value = "";
    write(copy, words.copy);
    look();
  });
  return {
    opener,
    panel,
    /** @param {LinkWords} given @param {QrHeader | null} [drawn] */
    show(given, drawn) {
      words = given;
      write(opener, words.link);
      field.setAttribute("aria-label", words.link);
      if (!copy.textContent) write(copy, words.copy);
      write(here, LOCAL.includes(location.hostname) ? words.here : "");
      if (drawn?.href === field.value) code.replaceChildren(qrPicture(drawn, words.code));
      setTimeout(look, SETTLES);
    },
  };
}
