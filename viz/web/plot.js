// What heatmaps and charts share: two pens for one drawing, a canvas on the page and SVG in a file; heading, tip and the
// menu of files. Lengths are CSS pixels.

import { cleared, contextOf, element, newRoot, pixelRatio, scrolling, windowHeight, write, zoomOf } from "./elements.js";
import { dotted } from "./chips.js";
import { exact, precisionOf, signed } from "./numbers.js";
import { bus, onHover } from "./bus.js";
import { writePhrases } from "./phrases.js";
import { appearance, canvasPen, forgetWidths, measurer, onTheme, svgPen } from "./pens.js";

// Which token of an axis is lit somewhere on the page; -1, none.
/** @param {Record<string, number>} lit @param {Axis} axis */
export const litOf = (lit, { side }) => (side === undefined ? -1 : (lit[side] ?? -1));

const SHARE = 0.62; // of the window's height that a page's large figure takes,
const OVER = 285; // unless it would end below the window: what stands over it
const UNDER = 135; // above one that a lesson leaves room for: the header and its own heading
const HEADED = 128; // over and under one that is presented: its heading, and the room around it
export function largeHeight() {
  const high = windowHeight();
  const { presenting } = document.documentElement.dataset;
  const covered = (bus.covered ?? 0) / (Number(presenting) || 1); // by a lesson's text, under which the page goes on
  if (covered) return Math.min(SHARE * high, high - covered - UNDER);
  return presenting ? Math.max(SHARE * high, high - HEADED) : Math.min(SHARE * high, high - OVER);
}
export const HIDDEN = 2; // among visible cells (1) and masked ones (0): below the threshold, so not drawn
export const ODD = 3; // among them: not a number, or infinite

// The table of a map's CSV: a line for each row and column. Values that may be off by an `error` have no more decimals.
/** @param {ShownHeat} shown */
export function cellLines({ header, values, visible }) {
  const { rows, columns, words, texts, error } = header;
  const { digits, off } = error ? precisionOf(error) : { digits: 0, off: 0 };
  /** @param {number} value */
  const written = (value) => (error && Number.isFinite(value) ? value.toFixed(digits) : exact(value));
  const found = [error ? words.csv.map((/** @type {string} */ name, /** @type {number} */ column) => (column === 2 ? `${name} ± ${signed(off)}` : name)) : words.csv];
  values.forEach((value, cell) => {
    const row = rows.labels[Math.floor(cell / columns.labels.length)];
    const masked = visible[cell] ? "False" : "True";
    found.push([row, columns.labels[cell % columns.labels.length], written(value), masked, ...(texts ? [texts[cell]] : [])]);
  });
  return found;
}

// A plot is painted on a canvas as wide as there is room, and again where its width, its faces or the lit tokens change.
// kind: `arrange(header, width, ratio, measure)` says where everything goes, `height` among it; `draw(pen, place, view)`
// draws it with the canvas's pen or a file's; `lines(shown)` is the table of its CSV; `sides(header)` the sides of its
// tokens; `point(root, event)` follows the pointer, without an event when it has left; `click(root, event)`; `placed(root)`,
// if there is one, is told where everything has gone.
/** @param {PlotRoot} root */
export function paint(root) {
  root.width ||= root.clientWidth; // a new plot is painted at once: an empty canvas would push away what is below it
  if (!root.width || !root.shown) return; // not laid out yet: the observer of its size calls again
  const { canvas, kind } = root;
  const ratio = pixelRatio(canvas);
  const look = appearance(root);
  const measure = measurer(contextOf(canvas), look);
  const place = (root.place = kind.arrange(root.shown.header, root.width, ratio, measure));
  const context = cleared(canvas, Math.round(place.width * ratio), Math.round(place.height * ratio));
  // As wide as what is painted, or it would be blurred by a part of a pixel. A film paints sixty times a second.
  for (const side of /** @type {("width" | "height")[]} */ (["width", "height"])) {
    const length = `${place[side]}px`;
    if (canvas.style[side] !== length) canvas.style[side] = length;
  }
  kind.placed?.(root);
  kind.draw(canvasPen(context, ratio, look), place, { ...root.shown, lit: root.lit, pointed: root.pointed });
}

/** @param {PlotRoot} root */
export function paintSoon(root) {
  root.soon ??= requestAnimationFrame(() => {
    root.soon = undefined;
    paint(root);
  });
}

/** @type {Record<string, (root: PlotRoot) => Promise<Blob | null>>} */
export const FILES = {
  async PNG(root) {
    const look = appearance(root);
    const canvas = element("canvas");
    const [context, ratio] = [contextOf(canvas), 3];
    const place = root.kind.arrange(root.shown.header, root.width, ratio, measurer(context, look));
    canvas.width = place.width * ratio;
    canvas.height = place.height * ratio;
    context.fillStyle = look.background;
    context.fillRect(0, 0, canvas.width, canvas.height);
    root.kind.draw(canvasPen(context, ratio, look), place, root.shown);
    return new Promise((done) => canvas.toBlob(done));
  },
  async SVG(root) {
    const look = appearance(root);
    const place = root.kind.arrange(root.shown.header, root.width, 1, measurer(contextOf(root.canvas), look));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${place.width} ${place.height}`);
    root.kind.draw(svgPen(svg, look), place, root.shown);
    return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  },
  async CSV(root) {
    const number = /^[-+−]?(\d+\.?\d*|\.\d+)(e[-+−]?\d+)?$/i;
    /** @param {string} text */
    const harmless = (text) => (/^[=+\-@\t\r]/.test(text) && !number.test(text) ? `'${text}` : text); // else spreadsheets compute it
    /** @param {string} text */
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${harmless(text).replaceAll('"', '""')}"` : harmless(text));
    const text = root.kind.lines(root.shown).map((line) => line.map(quoted).join(",") + "\n").join("");
    return new Blob(["\ufeff", text], { type: "text/csv" }); // the mark tells spreadsheets that it is UTF-8
  },
};

/** @param {PlotRoot} root @param {string} kind */
async function save(root, kind) {
  download(/** @type {Blob} */ (await (root.files ?? FILES)[kind](root)), `${root.shown.header.file}.${kind.toLowerCase()}`);
}

// Key of the view that a plot stands in; undefined where it is by itself.
/** @param {PlotRoot} root */
const keyOf = (root) => [...bus.views].find(([, { parent }]) => parent.contains(root))?.[0];

// Lines of Python that give the plot's numbers, into the clipboard or, where there is none, into a file.
/** @param {PlotRoot} root */
async function copyPython(root) {
  const { name, code, file } = root.shown.header;
  const lines = [bus.python, `page["${keyOf(root)}"].table()  # ${String(name).replace(/\s+/g, " ")}`, ...(code ? [code] : [])];
  const text = `${lines.join("\n")}\n`;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    download(new Blob([text], { type: "text/x-python" }), `${file}.py`);
  }
}

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {PlotRoot} root */
export function buildMenu(root) {
  const menu = element("div", "menu");
  const opener = menu.appendChild(element("button", "opener", "⋯"));
  const list = menu.appendChild(element("div", "list"));
  /** @param {boolean} wanted */
  const open = (wanted) => {
    list.hidden = !wanted;
    const { copy } = root.shown?.header.words ?? {};
    python.hidden = !copy || !bus.python || !keyOf(root);
    write(python, copy ?? "");
    write(large, bus.present ?? "");
    large.hidden = !bus.present;
    opener.setAttribute("aria-expanded", String(wanted));
  };
  opener.type = "button";
  opener.addEventListener("click", () => open(list.hidden));
  const large = list.appendChild(element("button", "large"));
  large.type = "button";
  large.addEventListener("click", () => {
    open(false);
    bus.dispatchEvent(new CustomEvent("present", { detail: root.getRootNode() }));
  });
  for (const kind of Object.keys(FILES)) {
    const button = list.appendChild(element("button", "", kind));
    button.type = "button";
    button.addEventListener("click", () => {
      open(false);
      opener.focus();
      save(root, kind);
    });
  }
  const python = list.appendChild(element("button", "python"));
  python.type = "button";
  python.addEventListener("click", async () => {
    open(false);
    opener.focus();
    await copyPython(root);
    opener.classList.add("copied");
    setTimeout(() => opener.classList.remove("copied"), 1500);
  });
  menu.addEventListener("keydown", (event) => event.key === "Escape" && open(false));
  menu.addEventListener("focusout", (event) => menu.contains(/** @type {Node | null} */ (event.relatedTarget)) || open(false));
  open(false);
  return menu;
}

// The menu of files in a view that has no heading.
/** @param {PlotRoot} root */
export function addMenu(root) {
  root.append(buildAbout(root), buildMenu(root));
  root.classList.add("filed");
}

// The button that opens the menu is called by what is in it: where a figure can be presented, that and files.
/** @param {Root} root @param {string} files */
export function nameMenu(root, files) {
  const opener = root.querySelector(".opener");
  const name = bus.present ? `${bus.present} · ${files}` : files;
  if (opener.title === name) return;
  opener.title = name;
  opener.setAttribute("aria-label", name);
}

const DRAWER = 1200; // in a narrower window the explanation comes from below (frame.css), and the plot goes up

// What the plot shows, as a sentence; a click asks the page for formula and code.
/** @param {Root} root */
export function buildAbout(root) {
  const button = element("button", "about", "?");
  button.type = "button";
  button.hidden = true;
  button.addEventListener("click", () => {
    root.explain?.();
    if (innerWidth < DRAWER) setTimeout(() => root.scrollIntoView({ block: "start", behavior: scrolling() }), 600);
  });
  return button;
}

/** @param {Root} root @param {{ about?: string }} options */
export function showAbout(root, { about = "" }) {
  const button = root.querySelector(".about");
  if (button.title === about) return;
  button.hidden = !about;
  button.title = about;
  button.setAttribute("aria-label", about);
}

/** @type {Record<string, number[]>} */
export const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

// The plot from the keyboard: arrows lead from place to place as the pointer would, and Enter is a click there.
/** @param {PlotRoot} root */
function listenToKeys(root) {
  const { canvas, kind } = root;
  /** @param {number[]} pair */
  const there = ([right, down]) => {
    const { left, top } = canvas.getBoundingClientRect();
    root.cursor = kind.walk?.(root, root.cursor, right, down);
    const zoom = zoomOf(canvas);
    return { clientX: left + zoom * root.cursor.x, clientY: top + zoom * root.cursor.y };
  };
  canvas.tabIndex = 0;
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && kind.point(root, there([0, 0])));
  canvas.addEventListener("blur", () => kind.point(root));
  canvas.addEventListener("keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow && !["Enter", " "].includes(event.key)) return;
    event.preventDefault(); // the page does not scroll
    if (arrow) kind.point(root, there(arrow));
    else kind.click(root, there([0, 0]));
  });
  root.tip.setAttribute("aria-live", "polite");
}

/** @param {number} place @param {number} count */
export const within = (place, count) => Math.max(0, Math.min(count - 1, place));

const READ = 3000; // milliseconds in which a plot that a touch has changed says its place again

// A click, and what a finger has touched: it hovers nowhere, so the tip stays until something else is touched.
/** @param {PlotRoot} root */
function listenToTouch(root) {
  const { canvas, kind } = root;
  canvas.addEventListener("click", (event) => {
    kind.click(root, event);
    if (/** @type {PointerEvent} */ (event).pointerType !== "touch") return;
    const { left, top } = canvas.getBoundingClientRect();
    root.touched = { x: event.clientX - left, y: event.clientY - top, at: performance.now() };
    pointTouched(root);
  });
  const elsewhere = (/** @type {PointerEvent} */ event) => {
    if (!root.touched || event.composedPath().includes(canvas)) return;
    root.touched = undefined;
    kind.point(root);
  };
  document.addEventListener("pointerdown", elsewhere);
  return () => document.removeEventListener("pointerdown", elsewhere);
}

/** @param {PlotRoot} root */
function pointTouched(root) {
  const { touched, canvas, kind } = root;
  if (!touched || performance.now() - touched.at > READ) return;
  const { left, top } = canvas.getBoundingClientRect();
  kind.point(root, { clientX: left + touched.x, clientY: top + touched.y });
}

// A plot of this kind in `parentElement`: heading with a menu of files, canvas, tip. Nothing is shown in it yet.
/** @param {HTMLElement} parentElement @param {string} name @param {PlotKind} kind */
export function buildPlot(parentElement, name, kind) {
  const root = /** @type {PlotRoot} */ (newRoot(parentElement, `plot ${name}`));
  root.kind = kind;
  root.heading = element("div", "heading");
  root.heading.append(element("h3"), element("b"), element("span"), element("span", "aside"), buildMenu(root));
  root.heading.querySelector("b").after(buildAbout(root));
  root.canvas = element("canvas");
  root.canvas.height = 0; // until it is painted
  root.canvas.setAttribute("role", "img");
  root.tip = element("div", "tip");
  root.append(root.heading, root.canvas, root.tip);
  root.lit = { ...bus.lit };
  root.pointed = {};
  root.canvas.addEventListener("pointermove", (event) => kind.point(root, event));
  root.canvas.addEventListener("pointerleave", () => kind.point(root));
  const noTouch = listenToTouch(root);
  if (kind.walk) listenToKeys(root);
  const taller = () => root.shown?.header.large && paintSoon(root);
  window.addEventListener("resize", taller);
  const sizes = new ResizeObserver(([{ contentRect }]) => {
    if (Math.floor(contentRect.width) === root.width) return;
    root.width = Math.floor(contentRect.width);
    paint(root);
  });
  sizes.observe(root);
  const dark = onHover((side, position) => {
    if (root.lit[side] === position || !kind.sides(root.shown.header).includes(side)) return;
    root.lit[side] = position;
    paintSoon(root);
  });
  const fonts = () => {
    forgetWidths(); // labels were drawn in another face until theirs had come
    paint(root);
  };
  document.fonts.addEventListener("loadingdone", fonts);
  const plain = onTheme(() => paint(root));
  root.stop = () => {
    sizes.disconnect();
    noTouch();
    dark();
    plain();
    window.removeEventListener("resize", taller);
    document.fonts.removeEventListener("loadingdone", fonts);
  };
  return root;
}

const SOUGHT = 4000; // milliseconds in which a plot answers a click elsewhere

// A plot that shows another thing after a click far from it, on a screen where it is out of sight.
/** @param {PlotRoot} root @param {any} given */
function bringIntoView(root, { name, chosen }) {
  const before = root.shown.header;
  if (!bus.sought || performance.now() - bus.sought > SOUGHT || (name === before.name && chosen === before.chosen)) return;
  const { top, bottom } = root.getBoundingClientRect();
  bus.sought = 0;
  if (top > innerHeight - 120 || bottom < 120) root.scrollIntoView({ block: "nearest", behavior: scrolling() });
}

// Show `shown`, {header, …}: heading and alternative text come from the header {finding, name, sentence, note, alt, stamp, words}.
/** @param {PlotRoot} root @param {any} shown */
export function showPlot(root, shown) {
  const { header } = shown;
  if (root.shown) bringIntoView(root, header);
  root.shown = shown;
  const [finding, name, , sentence, note] = /** @type {any} */ (root.heading.children);
  writePhrases(finding, dotted(header.finding ?? ""));
  root.heading.classList.toggle("found", Boolean(header.finding));
  write(name, dotted(header.name));
  write(sentence, dotted(header.sentence ?? ""));
  write(note, dotted(header.note ?? ""));
  showAbout(root, header);
  nameMenu(root, header.words.download);
  root.canvas.setAttribute("aria-label", header.alt);
  root.tip.hidden = true;
  root.pointed = {};
  paint(root);
  root.dataset.painted = header.stamp;
  pointTouched(root);
}

const UNDER_FINGER = 34; // pixels of a tip below its place

// The tip says these lines beside a place of the canvas.
/** @param {PlotRoot} root @param {Element[]} [nodes] @param {number} [x] @param {number} [y] */
export function showTip(root, nodes, x = 0, y = 0) {
  const { place, tip, canvas } = root;
  tip.hidden = !nodes;
  if (!nodes) return;
  tip.replaceChildren(...nodes);
  tip.style.left = `${Math.max(0, Math.min(place.width - tip.offsetWidth, x))}px`;
  tip.style.top = `${canvas.offsetTop + Math.max(0, y - tip.offsetHeight - 6)}px`;
  const header = document.querySelector(".st-key-input_bar")?.getBoundingClientRect().bottom ?? 0;
  if (tip.getBoundingClientRect().top < header) tip.style.top = `${canvas.offsetTop + y + UNDER_FINGER}px`; // which lies over it
}
