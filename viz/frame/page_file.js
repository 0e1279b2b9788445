// The whole page as one HTML file that opens without a network: the document as it stands, shadow trees as declarative
// ones, the styles that apply, what is closed on the page too. A picture stands for every canvas; where scripts run, views
// are mounted again over their pictures from their bytes (saved_page.js), so that pointing at them says what is there.
// No script runs but that one, by its hash, and nothing asks another machine.

import { contextOf, element } from "../web/elements.js";
import { bus } from "../web/bus.js";
import { sha256 } from "./sha256.js";

const LEFT_OUT = new Set(["SCRIPT", "NOSCRIPT", "LINK", "META", "STYLE", "BASE", "OBJECT", "EMBED"]);
const CHROME = '[data-testid="stHeader"], [data-testid="stSidebarHeader"], [data-testid="stElementToolbar"], [data-testid="stToastContainer"], .vitrine.menu_of_page';
const INERT = "a, button, select, textarea, [role=button], [role=radio], [role=slider], [role=combobox], input";
const FADED = "[inert] { opacity: 0.5; cursor: default; }"; // in shadow trees, which the page's styles do not reach
const MOST = 5_000_000; // bytes of a file
const SLACK = 20_000; // of them, for what stands around the numbers
const ANSWER = 120_000; // milliseconds for the run of the script that draws what is closed, or writes a file
const QUIET = 400; // without a change in it, after which it counts as drawn
const UNQUIET = 8000; // and the most that is waited for that
// Where all is too large, first pages in the page go, as BertViz's; then pictures have so many of their pixels.
/** @type {[number, boolean][]} */
const SMALLER = [[1, false], [0.5, false], [0.25, false]];
// Views that need no server for what they do: that of a pointer, and of a player's buttons. All others stay pictures.
const ALIVE = new Set([
  "frame/token_bar", "web/heatmap", "web/lines", "web/chart", "web/panels", "pages/attention/head_grid", "pages/attention/steps",
  "pages/map/model_map", "pages/residual/wiring", "pages/predictions/ranking", "pages/predictions/decoding_film",
  "pages/predictions/beam_tree", "pages/training/film", "pages/checkpoints/tensor_tree", "pages/lab/matrices",
]);
const FILM = "pages/training/film"; // whose frames come another way
const FRAMES = 1_200_000; // bytes of them in a file
const PICTURES = ".stPlotlyChart, [data-testid=stDataFrame]"; // of Streamlit, which stay such

const VIZ = new URL("..", import.meta.url); // where modules come from

/** @typedef {Map<Node, string> & { words: Record<string, string>, still: Set<Node> }} Marks */

/** @param {number} milliseconds */
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// All rules of style sheets as text; those of sheets that may not be read are another machine's, and left out.
/** @param {CSSStyleSheet[]} sheets */
function rulesOf(sheets) {
  const texts = [];
  for (const sheet of sheets) {
    try {
      /** @param {any} match @param {any} address */
      const whole = (match, address) => (address.startsWith("data:") ? match : `url("${new URL(address, sheet.href ?? document.baseURI)}")`);
      for (const { cssText } of sheet.cssRules) texts.push(cssText.replace(/url\(["']?([^"')]+)["']?\)/g, whole));
    } catch (error) {
      console.warn(`a style sheet was left out: ${error}`);
    }
  }
  return texts.join("\n");
}

/** @param {string} text */
function styleElement(text) {
  return element("style", "", text.replaceAll("</", "<\\/"));
}

/** @param {HTMLCanvasElement} canvas @param {number} share */
function picture(canvas, share) {
  const made = element("img");
  for (const { name, value } of canvas.attributes) made.setAttribute(name, value);
  const { width, height } = canvas.getBoundingClientRect();
  if (canvas.width && canvas.height) made.src = smaller(canvas, share).toDataURL();
  made.alt = canvas.getAttribute("aria-label") ?? "";
  made.style.width = `${width}px`;
  made.style.height = `${height}px`;
  return made;
}

/** @param {HTMLCanvasElement} canvas @param {number} share */
function smaller(canvas, share) {
  if (share === 1) return canvas;
  const made = element("canvas");
  [made.width, made.height] = [canvas.width, canvas.height].map((length) => Math.max(1, Math.round(share * length)));
  contextOf(made).drawImage(canvas, 0, 0, made.width, made.height);
  return made;
}

// A closed place can be opened in the file, where nothing is to be opened there is none.
/** @param {any} made */
function frozenDetails(made) {
  const inside = made.querySelector('[data-testid="stExpanderDetails"]');
  if (inside && !inside.textContent.trim() && !inside.querySelector("img, iframe, template")) return null;
  inside?.removeAttribute("inert");
  const sign = made.querySelector('summary [data-testid="stIconMaterial"]');
  if (sign) sign.textContent = "keyboard_arrow_right"; // which the file turns
  return made;
}

// An element of the page as one of the file; null for one that the file does not have. marks: keys of views, by their
// places. share: of pictures' pixels.
/** @param {any} node @param {Marks} marks @param {number} share */
function frozen(node, marks, share) {
  if (node.nodeType === Node.TEXT_NODE) return node.cloneNode();
  if (node.nodeType !== Node.ELEMENT_NODE || LEFT_OUT.has(node.tagName) || node.matches(CHROME)) return null;
  if (node.tagName === "CANVAS") return picture(node, share);
  const made = node.cloneNode();
  for (const name of node.getAttributeNames()) if (name.startsWith("on")) made.removeAttribute(name);
  if (node.matches(INERT)) made.setAttribute(node.matches("input[type=text]") ? "readonly" : "inert", "");
  if (node.tagName === "INPUT") made.setAttribute("value", node.value);
  if (node.tagName === "A") {
    made.removeAttribute("href");
    if (getComputedStyle(node).backgroundColor !== "rgba(0, 0, 0, 0)") made.setAttribute("aria-current", "page");
  }
  if (node.tagName === "IMG" && !node.src.startsWith("data:")) made.removeAttribute("src");
  if (node.tagName === "IFRAME") made.removeAttribute("allow");
  if (marks.has(node)) made.dataset.view = marks.get(node);
  if (node.shadowRoot) {
    if (marks.has(node.shadowRoot)) made.dataset.view = marks.get(node.shadowRoot);
    const template = made.appendChild(element("template"));
    template.setAttribute("shadowrootmode", "open");
    const { styleSheets, adoptedStyleSheets, childNodes } = node.shadowRoot;
    template.content.append(styleElement(`${rulesOf([...styleSheets, ...adoptedStyleSheets])}\n${FADED}`), ...frozenAll(childNodes, marks, share));
  }
  made.append(...frozenAll(node.childNodes, marks, share));
  if (marks.still.has(node)) made.append(element("p", "saved_lacks", marks.words.still));
  return node.tagName === "DETAILS" ? frozenDetails(made) : made;
}

// Places of what no script of the file draws again.
function stillPlaces() {
  const views = [...bus.views.values()].filter(({ name, parent }) => !ALIVE.has(name) && parent.querySelector("canvas"));
  const hosts = views.map(({ parent }) => parent.getRootNode().host ?? parent);
  const pictures = [...hosts, ...document.querySelectorAll(PICTURES)].filter((each) => each.closest(".stMain"));
  return new Set(pictures.map((each) => each.closest('[data-testid="stElementContainer"]')));
}

/** @param {Iterable<Node>} nodes @param {Marks} marks @param {number} share */
const frozenAll = (nodes, marks, share) => [...nodes].map((node) => frozen(node, marks, share)).filter(Boolean);

/** @param {string} url */
async function asData(url) {
  const blob = await (await fetch(url)).blob();
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(blob);
  });
}

// The faces of what is closed are not loaded before somebody opens it.
async function loadClosedFonts() {
  const texts = new Map();
  for (const node of document.querySelectorAll("details:not([open]) *")) {
    const text = [...node.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data).join("");
    if (!text.trim()) continue;
    const { fontStyle, fontWeight, fontFamily } = getComputedStyle(node);
    const face = `${fontStyle} ${fontWeight} 16px ${fontFamily}`;
    texts.set(face, (texts.get(face) ?? "") + text);
  }
  await Promise.all([...texts].map(([face, text]) => document.fonts.load(face, text)));
}

// The faces that are in use are put into the file, the others are left out.
/** @param {string} text */
async function withFonts(text) {
  /** @param {any} given */
  const name = ({ family, weight, style }) => [family.replace(/["']/g, ""), weight || "normal", style || "normal"].join(" ").replace(/\b400\b/, "normal");
  const used = new Set([...document.fonts].filter(({ status }) => status === "loaded").map(name));
  const faces = [...text.matchAll(/@font-face \{[^}]*\}/g)].map(([face]) => face);
  for (const face of faces) {
    /** @param {any} what */
    const said = (what) => face.match(new RegExp(`${what}: ["']?([^;"']+)`))?.[1];
    const address = face.match(/url\(["']?([^"')]+)["']?\)/)?.[1];
    let kept = "";
    if (used.has(name({ family: said("font-family") ?? "", weight: said("font-weight"), style: said("font-style") })) && address && new URL(address).origin === location.origin) {
      const data = await asData(address);
      kept = face.replace(/src: [^;]*;/, `src: url("${data}");`);
    }
    text = text.replace(face, () => kept);
  }
  return text;
}

// What the script hands over once it has been asked to, by a number; null where no answer comes.
/** @param {(number: number) => void} ask */
export async function answered(ask) {
  const number = Math.ceil(performance.now());
  const answer = new Promise((done) => (bus.preparing = { number, done }));
  ask(number);
  const handed = await Promise.race([answer, wait(ANSWER).then(() => null)]);
  bus.preparing = undefined;
  return handed;
}

// Have the script draw what is closed too, unseen: what is handed over with it, or null where no answer comes.
/** @param {Root} root */
async function prepared(root) {
  const handed = await answered((number) => root.prepare(number));
  if (!handed) return null;
  const folds = [...document.querySelectorAll("details")];
  let last = performance.now();
  const end = last + UNQUIET;
  const changes = new MutationObserver(() => (last = performance.now()));
  for (const each of folds) changes.observe(each, { childList: true, subtree: true, characterData: true });
  const drawing = () => performance.now() - last < QUIET || folds.some((each) => each.querySelector('[data-testid="stSkeleton"]'));
  while (performance.now() < end && drawing()) await wait(50);
  changes.disconnect();
  await loadClosedFonts();
  return handed;
}

/** @param {Uint8Array} bytes */
function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

// The film with as many of its frames, evenly, as there is room for; the last one among them.
function filmNumbers() {
  if (!bus.film?.steps.length) return undefined;
  const { frames, steps, ...rest } = bus.film;
  const all = steps.map((step) => [step, packedFrame(/** @type {FilmFrame} */ (frames.get(step)))]);
  const each = Math.ceil(JSON.stringify(all).length / FRAMES);
  const kept = all.filter((_, index) => (all.length - 1 - index) % each === 0);
  return { ...rest, at: bus.at, steps: kept.map(([step]) => step), frames: kept };
}

/** @param {FilmFrame} frame */
const packedFrame = ({ loss, ...arrays }) => ({ loss, ...Object.fromEntries(Object.entries(arrays).map(([name, array]) => [name, packedArray(array)])) });

/** @param {Uint8Array | Int32Array | Float32Array} array */
const packedArray = (array) => [array.constructor.name, base64(new Uint8Array(array.buffer, array.byteOffset, array.byteLength))];

// The views that the file can mount again, from the top of the page to its foot.
function aliveViews() {
  const found = [...bus.views].filter(([, { name, data, parent }]) => ALIVE.has(name) && data && parent.isConnected !== false);
  /** @param {[string, any]} entry */
  const top = ([, { parent }]) => (parent.host ?? parent).getBoundingClientRect().top;
  const order = found.map((each) => ({ at: top(each), each })).sort((one, other) => one.at - other.at);
  return order.map(({ each: [key, { name, data = new Uint8Array() }] }) => ({ key, name, data }));
}

// The script of the file: modules of the components, and what mounts them.
/** @param {SavedView[]} views */
async function scriptOf(views) {
  const names = [...new Set(views.map(({ name }) => name))];
  const wanted = [...names.map((name) => `${name}.js`), "frame/saved_page.js"].map((path) => ["module", path]);
  const answer = await fetch(new URL(`linked?${new URLSearchParams(wanted)}`, VIZ));
  if (!answer.ok) throw new Error(`the scripts of the file are not there: ${answer.status}`);
  const modules = await answer.text();
  const mounts = names.map((name) => `${JSON.stringify(name)}: modules[${JSON.stringify(`${name}.js`)}].default`);
  const script = `"use strict";\n(() => {\n${modules}\nmodules["frame/saved_page.js"].showAgain({ ${mounts.join(", ")} });\n})();\n`;
  if (/<\/script|<!--/i.test(script)) throw new Error("a component's script would end the file's");
  return script;
}

// Scripts of pages in the page, as BertViz's: only these may run there, too.
function framedScripts() {
  const addresses = [...document.querySelectorAll("iframe")].map(({ src }) => src);
  const pages = addresses.filter((address) => address.startsWith("data:text/html;charset=utf-8;base64,")).map((address) => {
    const bytes = Uint8Array.from(atob(address.split(",")[1]), (letter) => letter.charCodeAt(0));
    return new DOMParser().parseFromString(new TextDecoder().decode(bytes), "text/html");
  });
  return pages.flatMap((page) => [...page.querySelectorAll("script:not([type])")].map(({ textContent }) => textContent));
}

/** @param {string[]} scripts */
function policyOf(scripts) {
  const hashes = scripts.map((script) => `'sha256-${sha256(script)}'`).join(" ");
  return `default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-src data:; base-uri 'none'; form-action 'none'; script-src ${hashes}`;
}

// As much of the numbers as there is room for: first of the views, from the top of the page; then what clicks show.
/** @param {SavedView[]} views @param {any} handed @param {number} room */
function fitting(views, handed, room) {
  /** @param {any} given */
  const size = ({ length }) => Math.ceil(length / 3) * 4 + 200;
  const kept = [];
  for (const view of views) {
    room -= size(view.data);
    if (room < 0) break;
    kept.push(view);
  }
  /** @type {Record<string, Record<string, string>>} */
  const choices = {};
  const alive = new Set(kept.map(({ key }) => key));
  /** @type {{ key: string, click: string, bytes: Uint8Array }[]} */
  const wanted = (handed?.choices ?? []).filter((/** @type {any} */ { key, click }) => alive.has(key) && alive.has(click.split(" ")[0]));
  const all = wanted.reduce((sum, { bytes }) => sum + size(bytes), 0) <= room && kept.length === views.length;
  if (all) for (const { click, key, bytes } of wanted) (choices[click] ??= {})[key] = base64(bytes);
  return { kept, choices, leftChoice: Boolean(handed?.leftOut || (wanted.length && !all)), left: views.length - kept.length };
}

// JSON that no reader of HTML takes for the end of its element.
/** @param {unknown} value */
const embedded = (value) => JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** @param {string[]} sentences @param {Record<string, string>} words */
function noteOf(sentences, words) {
  const note = element("footer", "saved_note");
  note.append(element("b", "", words.saved), element("span", "", new Date().toLocaleString(words.language)), element("span", "address", location.href));
  note.append(element("span", "use", words.use)); // where scripts run
  for (const sentence of sentences) note.append(element("span", "", sentence));
  return note;
}

// The document without its numbers.
/** @param {string} text @param {number} share @param {Record<string, string>} words */
function documentOf(text, share, words) {
  const page = document.implementation.createHTMLDocument(document.title);
  page.documentElement.lang = document.documentElement.lang;
  const characters = page.createElement("meta");
  characters.setAttribute("charset", "utf-8");
  page.head.prepend(characters);
  const width = page.head.appendChild(page.createElement("meta"));
  width.name = "viewport";
  width.content = "width=device-width, initial-scale=1";
  page.head.append(styleElement(text));
  page.documentElement.setAttribute("style", document.documentElement.getAttribute("style") ?? "");
  page.body.className = `${document.body.className} saved_page`;
  page.body.setAttribute("style", document.body.getAttribute("style") ?? "");
  const marks = Object.assign(new Map([...bus.views].map(([key, { parent }]) => [parent, key])), { words, still: stillPlaces() });
  page.body.append(...frozenAll(document.body.childNodes, marks, share));
  return page;
}

/** @param {Document} page */
const sizeOf = (page) => new Blob([page.documentElement.outerHTML]).size;

/** @param {Record<string, string>} words @param {Root} root */
export async function wholePage(words, root) {
  const handed = await prepared(root);
  const styles = await withFonts(rulesOf([...document.styleSheets, ...document.adoptedStyleSheets]));
  const views = aliveViews();
  const script = await scriptOf(views);
  const film = views.some(({ name }) => name === FILM) ? filmNumbers() : undefined;
  const around = new Blob([script, JSON.stringify(film ?? "")]).size + SLACK;
  let page = documentOf(styles, 1, words);
  let [room, share] = [MOST - around - sizeOf(page), 1];
  /** @type {Element[]} */
  let frames = [];
  for (const [smaller, framed] of SMALLER) {
    if (room > 0) break;
    [share, page] = [smaller, documentOf(styles, smaller, words)];
    frames = framed ? [] : [...page.querySelectorAll("iframe")];
    for (const each of frames) each.remove();
    room = MOST - around - sizeOf(page);
  }
  root.prepare(0);
  const { kept, choices, leftChoice, left } = fitting(views, handed, room);
  const said = [
    !handed && words.unanswered,
    frames.length && words.left_frames,
    share < 1 && words.coarse,
    left && words.left_pictures.replace("{count}", String(left)),
    leftChoice && words.left_choice,
  ];
  page.body.append(noteOf(said.filter((each) => typeof each === "string"), words));
  const numbers = page.body.appendChild(page.createElement("script"));
  numbers.type = "application/json";
  numbers.id = "vitrine-numbers";
  const mounted = kept.map(({ key, name, data }) => ({ key, name, bytes: base64(data) }));
  numbers.textContent = embedded({ views: mounted, choices, python: bus.python, film, words: { click: words.click, point: words.point } });
  page.body.appendChild(page.createElement("script")).textContent = script;
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = policyOf([script, ...framedScripts()]);
  page.head.firstChild?.after(policy);
  return new Blob(["<!DOCTYPE html>\n", page.documentElement.outerHTML], { type: "text/html" });
}
