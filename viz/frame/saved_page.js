// In a saved page: views drawn again from their bytes, over their pictures, by the scripts of their components. Clicks do what
// needs no server; all others are quiet, and look so.

import { bus } from "../web/bus.js";

const BLOCKED = "canvas, button { cursor: default !important; } .head, .chip, .reel > button, .controls .step { cursor: pointer !important; }"
  + " button:disabled { pointer-events: none; } .go, .legend > button, .pin .act, .what-is-pinned .act, .pieces .act, .changed .act, .fold, .controls .keys, .offer { display: none !important; }";
/** @type {Record<string, string>} */
const USES = { // buttons that do something here, by the component
  "frame/token_bar": ".chip, .check, .pinned, .reel > button",
  "pages/attention/steps": ".chip",
  "pages/attention/head_grid": ".head",
  "pages/map/model_map": ".areas button",
  "pages/predictions/decoding_film": ".controls .step, .bars i",
  "pages/training/film": "button",
  "pages/checkpoints/tensor_tree": "*",
};

const { views, choices, words, more = {}, python, film } = JSON.parse(document.getElementById("vitrine-numbers")?.textContent ?? "");
const drawn = new Map(); // views by their keys

/** @param {string} text */
const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** @param {ParentNode} root @returns {Generator<[string, any]>} */
function* placesIn(root) {
  for (const node of root.querySelectorAll("*")) {
    if (node.dataset.view !== undefined) yield [node.dataset.view, node.shadowRoot ?? node];
    if (node.shadowRoot) yield* placesIn(node.shadowRoot);
  }
}

// A view's bytes, drawn in its place: for the first time, or others after a click.
/** @param {any} view @param {Uint8Array} bytes */
function draw(view, bytes) {
  const { key, parent } = view;
  /** @param {string} act @param {unknown} value */
  const trigger = (act, value) => {
    const shown = choices[`${key} ${act} ${JSON.stringify(value)}`] ?? {};
    for (const [other, text] of Object.entries(shown)) draw(drawn.get(other), bytesOf(text));
  };
  view.show({ key, data: bytes, parentElement: parent, setTriggerValue: trigger, setStateValue: () => {} });
  const uses = usesOf(view);
  for (const button of parent.querySelectorAll("button")) button.disabled = !button.matches(uses);
  for (const field of parent.querySelectorAll("input:not([type=search])")) field.readOnly = true; // nobody computes
}

/** @param {string} view */
const choosesHeads = (view) => Object.keys(choices).some((click) => click.startsWith(`${view} `));

/** @param {{ key: string, name: string }} view */
function usesOf({ key, name }) {
  const own = name === "pages/attention/head_grid" && !choosesHeads(key) ? undefined : USES[name];
  return [".menu button", own].filter(Boolean).join(", ");
}

// Only what has a use here hears of clicks.
/** @param {any} view */
function quieten(view) {
  const { parent } = view;
  const uses = usesOf(view);
  /** @param {Event} event */
  const stop = (event) => event.stopImmediatePropagation();
  parent.addEventListener("click", (/** @type {any} */ event) => event.target.closest?.(uses) || stop(event), true);
  parent.addEventListener("keydown", (/** @type {any} */ event) => event.target.tagName === "CANVAS" && ["Enter", " "].includes(event.key) && stop(event), true);
}

// show: the function of its script.
/**
 * @param {{ key: string, name: string, bytes: string }} options @param {any} parent
 * @param {Component["default"]} show
 */
function mountAgain({ key, name, bytes }, parent, show) {
  const pictures = [...parent.childNodes].filter(({ nodeName }) => nodeName !== "STYLE");
  for (const each of pictures) each.remove();
  try {
    const view = { key, name, parent, show };
    drawn.set(key, view);
    draw(view, bytesOf(bytes));
    const style = parent.appendChild(document.createElement("style"));
    style.textContent = BLOCKED;
    quieten(view);
    HINTS[name]?.(parent.querySelector(".vitrine"), key);
  } catch (error) {
    console.error(`${key} could not be drawn: ${error}`);
    drawn.delete(key);
    parent.replaceChildren(...[...parent.childNodes].filter(({ nodeName }) => nodeName === "STYLE"), ...pictures);
  }
}

// What cannot be clicked does not say that it can.
/** @type {Record<string, (root: any, key: string) => void>} */
const HINTS = {
  "pages/attention/head_grid"(root, key) {
    const said = root.sent.words;
    if (!choosesHeads(key)) said.caption = said.caption.replace(` · ${words.click}`, "");
    root.caption.textContent = said.caption;
  },
  "pages/map/model_map"(model) {
    const root = model.querySelector(".model_map");
    root.shown.header.words.pointed = root.panel.hint.textContent = words.point;
  },
};

// In a notebook's output: the notebook's own theme, and a frame as high as what is in it. Where it may not be asked, neither.
function fitFrame() {
  try {
    const frame = /** @type {HTMLElement | null} */ (window.frameElement);
    if (!frame || !document.documentElement.dataset.tall) return;
    const light = frame.ownerDocument.body.dataset.jpThemeLight ?? "true"; // of JupyterLab
    document.documentElement.toggleAttribute(light === "false" ? "data-dark" : "data-light", true);
    const fit = () => (frame.style.height = `${Math.ceil(document.body.getBoundingClientRect().height)}px`);
    new ResizeObserver(fit).observe(document.body);
  } catch {
    /* it is another's */
  }
}

// In a frame, of slides perhaps: Escape gives the keys back to the page around it, whose arrows turn the slides again.
function giveKeysBack() {
  if (parent === window) return;
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
    parent.focus();
  });
}

/** @type {Record<string, any>} */
const ARRAYS = { Uint8Array, Int32Array, Float32Array };

// The film of a training, from its frames.
/** @param {any} film */
function playAgain({ at, frames, ...rest }) {
  /** @param {any} part */
  const unpacked = (part) => (Array.isArray(part) ? new ARRAYS[part[0]](bytesOf(part[1]).buffer) : part);
  /** @param {[number, any]} entry @returns {[number, any]} */
  const frameOf = ([step, frame]) => [step, Object.fromEntries(Object.entries(frame).map(([name, part]) => [name, unpacked(part)]))];
  const film = { ...rest, frames: new Map(frames.map(frameOf)) };
  bus.film = film;
  bus.at = film.frames.has(at) ? at : null;
}

// shows: functions of the scripts, by their names. begins: those of further modules, each given its data.
/** @param {Record<string, Component["default"]>} shows @param {Record<string, (data: any) => void>} [begins] */
export function showAgain(shows, begins = {}) {
  fitFrame();
  giveKeysBack();
  if (python) bus.python = python;
  if (film) playAgain(film);
  addEventListener("load", async () => {
    await document.fonts.ready; // text on a canvas does not change when its face comes
    const places = new Map(placesIn(document));
    for (const view of views) if (places.has(view.key)) mountAgain(view, places.get(view.key), shows[view.name]);
    for (const [path, begin] of Object.entries(begins)) begin(more[path]);
    document.body.classList.toggle("saved_alive", [...drawn.values()].some(({ name }) => name !== "frame/token_bar"));
  });
}
