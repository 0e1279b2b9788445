// A worksheet to print, in the place of all else in its window: title, figures, questions with lines; on a second page the key.
// Figures are drawn by the application itself, each from its state in a frame that nobody sees, and taken from there as SVG.

import { element, ending, labelled, newRoot, write } from "../../web/elements.js";
import { largeOf } from "../../web/figures.js";
import { FILES } from "../../web/plot.js";
import { paragraph, prose } from "../../web/prose.js";

const FRAME = { width: "1180px", height: "560px" }; // as in a window with a sidebar, a low one: figures are not high
const WIDTH = 290; // of a figure, so that its 12 pixels are legible on a third of a sheet
const WIDE = 860; // of one that stands wide
const TALL = 2; // heights of a figure in widths, from which on it does
const THIRD = 320; // of the widest figure that a third of the sheet has room for
const PAGE = 1010; // of the height that is printed on A4, and a little less
const SCALES = [0.76, 0.72, 0.68, 0.64, 0.6, 0.56, 0.52, 0.48]; // of figures: the first with which the questions are on one page with them
const LOOK = 400; // milliseconds between looks into a frame
const STILL = 4; // such looks at the same figure until it is taken
const PATIENCE = 90_000;

// The figure whose key begins with a name, else the large one, else the one that takes most room.
/** @param {Document} inside @param {any} window @param {string} name */
function figureIn(inside, window, name) {
  const views = window.__vitrine?.views;
  if (!views || inside.querySelector('[data-stale="true"] [data-view]')) return undefined;
  if (views.get("lesson_training")?.parent.textContent.trim()) return undefined; // it is not at its step yet
  const all = [...views];
  const named = name ? all.filter(([key]) => key.startsWith(name)).sort(([one], [other]) => one.length - other.length).slice(0, 1) : [];
  const roots = (named.length ? named : all).flatMap(([, { parent }]) => [...parent.querySelectorAll(".vitrine")]).filter((root) => root.shown && (root.width || root.offsetWidth) && (root.files ?? FILES).SVG && root.canvas);
  return largeOf(roots);
}

// SVG of a figure as it is in a place of this width.
/** @param {any} root @param {number} width @returns {Promise<Blob | null>} */
async function pictureIn(root, width) {
  const before = root.width;
  if (before) root.width = Math.min(before, width); // thumbnails are as wide as they stand there
  try {
    return await (root.files ?? FILES).SVG(root);
  } finally {
    root.width = before;
  }
}

/** @typedef {{ address: string, width: number }} Drawing width: of the figure, in its own pixels */

// Picture of a figure as on a third of a sheet; wide where there its parts would stand one below the other.
/** @param {any} root @returns {Promise<Drawing>} */
async function picture(root) {
  let svg = /** @type {Blob} */ (await pictureIn(root, WIDTH));
  const [width, height] = await sizeOf(svg);
  if (height > TALL * width) svg = /** @type {Blob} */ (await pictureIn(root, WIDE));
  return { address: URL.createObjectURL(svg), width: (await sizeOf(svg))[0] };
}

/** @param {Blob} svg */
async function sizeOf(svg) {
  const box = new DOMParser().parseFromString(await svg.text(), "image/svg+xml").documentElement.getAttribute("viewBox") ?? "";
  return box.split(" ").slice(2).map(Number);
}

// Figures as large as leaves the questions on one page with them, a wide one smaller than others; where its letters would
// be too small to be read the largest of them is left out.
/** @param {HTMLElement} sheet */
async function fit(sheet) {
  const [first] = /** @type {any} */ (sheet.children);
  const images = /** @type {HTMLImageElement[]} */ ([...first.querySelectorAll("img")]);
  await Promise.all(images.map((image) => image.decode().catch(() => {})));
  sheet.classList.add("printed"); // as wide as on paper, whatever the window
  const suits = (/** @type {number} */ scale) => {
    sheet.style.setProperty("--scale", `${scale}`);
    return first.scrollHeight <= PAGE && images.every((image) => Number(image.dataset.width) * scale <= first.clientWidth);
  };
  const area = (/** @type {HTMLImageElement} */ image) => image.offsetWidth * image.offsetHeight;
  suits(SCALES[0]);
  images.sort((one, other) => area(other) - area(one));
  while (!SCALES.some(suits) && images.length > 1) images.shift()?.closest("figure")?.remove();
  sheet.classList.remove("printed");
}

// A figure of a state, as an address of its picture; undefined where none comes.
/** @param {string} address @param {string} name @returns {Promise<Drawing | undefined>} */
function drawn(address, name) {
  const frame = document.body.appendChild(element("iframe", "worksheet_source"));
  Object.assign(frame.style, FRAME);
  frame.setAttribute("aria-hidden", "true");
  frame.tabIndex = -1;
  const source = new URL(address, new URL(".", location.href));
  source.searchParams.set("embed", "true");
  source.searchParams.set("embed_options", "light_theme"); // paper is white
  frame.src = source.href;
  const since = performance.now();
  return new Promise((done) => {
    let [stamp, still] = ["", 0];
    const look = async () => {
      const inside = frame.contentDocument;
      const root = inside && figureIn(inside, frame.contentWindow, name);
      const now = root?.dataset.painted ?? "";
      still = now && now === stamp ? still + 1 : 0;
      stamp = now;
      if (root && still >= STILL) {
        const drawing = await picture(root);
        frame.remove();
        return done(drawing);
      }
      if (performance.now() - since > PATIENCE) {
        frame.remove();
        return done(undefined);
      }
      setTimeout(look, LOOK);
    };
    setTimeout(look, LOOK);
  });
}

/** @param {any} data @param {HTMLElement} sheet */
async function showFigures({ figures, words }, sheet) {
  const row = sheet.querySelector(".figures");
  for (const { title, what } of figures) {
    const figure = row.appendChild(element("figure"));
    const caption = element("figcaption", "", title);
    caption.append(element("span", "what", what));
    figure.append(caption, element("div", "awaited", words.drawing));
  }
  for (const [index, { address, name }] of figures.entries()) {
    const drawing = await drawn(address, name); // one after the other: each is a visit
    const place = row.children[index].querySelector(".awaited");
    if (!drawing) {
      place.textContent = words.missing;
      continue;
    }
    const image = element("img");
    image.src = drawing.address;
    image.dataset.width = String(drawing.width);
    row.children[index].style.setProperty("--width", `${drawing.width}px`);
    row.children[index].style.setProperty("--more", drawing.width > THIRD ? "1" : "1.3");
    image.alt = figures[index].title;
    place.replaceWith(image);
  }
  await fit(sheet);
  sheet.dataset.ready = "true";
  const print = sheet.querySelector(".print");
  print.disabled = false;
  write(print, words.print);
}

/** @param {any} question @param {number} number */
function questionOf({ question, options, text, changes, paragraphs, step }, number) {
  const item = element("li");
  item.append(prose("b", question || step));
  if (text) item.append(element("div", "source", text));
  if (changes) item.append(element("div", "changes", changes));
  item.append(...paragraphs.map(paragraph));
  if (options.length) {
    const row = item.appendChild(element("div", "options"));
    for (const option of options) row.append(element("span", "option", `☐ ${option}`));
  } else item.append(element("div", "line"));
  item.value = number;
  return item;
}

/** @param {any} data */
function sheetOf({ title, level, questions, words }) {
  const sheet = element("main", "worksheet");
  const first = sheet.appendChild(element("section"));
  const print = first.appendChild(element("button", "print", words.drawing));
  print.disabled = true; // until all of it is there
  print.type = "button";
  print.addEventListener("click", () => window.print());
  const head = first.appendChild(element("header"));
  head.append(element("h1", "", title), element("span", "level", level), element("span", "name", words.name));
  first.append(element("div", "figures"));
  const list = first.appendChild(element("ol"));
  questions.forEach((/** @type {any} */ each, /** @type {number} */ index) => list.append(questionOf(each, index + 1)));
  const second = sheet.appendChild(element("section", "key"));
  second.append(element("h2", "", labelled(words.key, title)));
  const keys = second.appendChild(element("ol"));
  for (const { question, key } of questions) {
    const item = keys.appendChild(element("li"));
    item.append(prose("span", question), element("div", "answer", key));
  }
  const time = new Date().toLocaleString(document.documentElement.lang, { dateStyle: "long", timeStyle: "short" });
  second.append(element("p", "computed", words.computed.replace("{model}", words.model).replace("{time}", time)));
  return sheet;
}

/** @param {Given} given */
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".vitrine") ?? newRoot(parentElement, "");
  root.stop = () => {};
  if (!root.sheet) {
    document.documentElement.lang = data.language;
    root.sheet = document.body.appendChild(sheetOf(data));
    document.title = data.title;
    showFigures(data, root.sheet);
    root.stop = () => root.sheet.remove();
  }
  return ending(root);
}
