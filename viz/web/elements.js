// Elements of the page and canvases. Components share the page with Streamlit: text goes in by textContent, never by innerHTML.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {string} [className] @param {string} [text]
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

/** @param {Element} node @param {any} text */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A path goes on in another line behind its dots and underscores.
/** @param {string} path */
export const partsOf = (path) => path.split(/(?<=[._])/);

/** @param {Element} node @param {string} path */
export function writePath(node, path) {
  if (node.textContent === path) return;
  node.replaceChildren(...partsOf(path).flatMap((part) => [part, element("wbr")]));
}

// A component's element, of these classes, in its place on the page.
/** @param {HTMLElement} parentElement @param {string} classes @returns {Root} */
export const newRoot = (parentElement, classes) => parentElement.appendChild(element("div", `vitrine ${classes}`));

// No more children than these.
/** @param {Element} parent @param {number} count */
export function shorten(parent, count) {
  while (parent.children.length > count) parent.children[count].remove();
}

/** @param {Element} parent @returns {Root} */
export const firstIn = (parent) => /** @type {Root} */ (parent.firstElementChild);

/** @param {Element} parent @returns {Root} */
export const lastIn = (parent) => /** @type {Root} */ (parent.lastElementChild);

// How much larger an element stands on the screen than in its own pixels, which the layout of a presented figure counts in.
/** @param {Element} node @returns {number} */
export const zoomOf = (node) => /** @type {any} */ (node).currentCSSZoom ?? 1;

// Pixels of the screen in one of an element's own.
/** @param {Element} node */
export const pixelRatio = (node) => (window.devicePixelRatio || 1) * zoomOf(node);

// Height of the window in the pixels of a figure that stands in it; a frame that is as high as its figures says another.
export function windowHeight() {
  const { presenting, tall } = globalThis.document?.documentElement.dataset ?? {};
  return Number(tall) || innerHeight / (Number(presenting) || 1);
}

// A label and what it is of, behind the colon of the page's language.
/** @param {string} label @param {string} text */
export const labelled = (label, text) => `${label}${document.documentElement.lang.startsWith("zh") ? "：" : ": "}${text}`;

// A quantity and its number, as tips say them; behind a colon where its name has a comma or ends in a number of its own.
/** @param {string} name @param {string} number */
export const quantityText = (name, number) => (/[,，]|\d$/.test(name) ? labelled(name, number) : `${name} ${number}`.trim());

const FILLED = 0.6; // of the window, by what a presented chart draws between its axes
const PHONE = 640; // in a window no wider, a presented figure has the size that it has on the page

// How tall a chart is at least between its axes.
export function presentedHeight() {
  const presenting = globalThis.document?.documentElement.dataset.presenting;
  return presenting && innerWidth > PHONE ? FILLED * windowHeight() : 0;
}

// How the page scrolls to a place by itself.
/** @returns {ScrollBehavior} */
export const scrolling = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

// Where in an element the pointer is, in its own pixels.
/** @param {Element} node @param {{ clientX: number, clientY: number }} event @returns {[number, number]} */
export function placeIn(node, { clientX, clientY }) {
  const { left, top } = node.getBoundingClientRect();
  const zoom = zoomOf(node);
  return [(clientX - left) / zoom, (clientY - top) / zoom];
}

/** @param {HTMLCanvasElement} canvas */
export const contextOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

// What ends a component, for Streamlit to call when it goes. It calls what earlier calls gave it too, and late, where newer
// data came while the script was being loaded: a later call may have gone on with the same root, or will make another.
/** @param {Root} root */
export function ending(root) {
  const turn = (root.turn = {});
  return () => {
    if (root.turn !== turn) return;
    root.stop();
    root.remove();
  };
}

const SEEN = 240; // of what scrolls, the height in whose middle its button stands

// Whether what scrolls sideways goes on at its right is seen: there it fades, and a button leads on. Keys scroll it anyway.
/** @param {HTMLElement} scroll */
export function followScroll(scroll) {
  const on = element("button", "onward", "›");
  [on.type, on.tabIndex, on.ariaHidden] = ["button", -1, "true"];
  on.addEventListener("click", () => scroll.scrollBy({ left: 0.7 * scroll.clientWidth, behavior: scrolling() }));
  scroll.after(on);
  const mark = () => {
    const beyond = scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2;
    scroll.toggleAttribute("data-goes-on", beyond);
    on.hidden = !beyond;
    on.style.top = `${scroll.offsetTop + Math.min(scroll.clientHeight, SEEN) / 2}px`;
  };
  scroll.addEventListener("scroll", mark, { passive: true });
  return mark;
}

// The empty canvas, so many pixels large; its memory is kept where it can be: new memory is what costs.
/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function cleared(canvas, width, height) {
  const context = contextOf(canvas);
  if (canvas.width === width && canvas.height === height) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
  } else {
    canvas.width = width;
    canvas.height = height;
  }
  return context;
}

// The hatch of masked cells, as a canvas pattern.
/** @param {CanvasRenderingContext2D} context @param {number} step */
export function hatch(context, step) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = step;
  const pen = contextOf(tile);
  pen.fillStyle = "rgba(128,128,128,0.14)";
  pen.fillRect(0, 0, step, step);
  pen.strokeStyle = "rgba(128,128,128,0.55)";
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-step, 0, step]) {
    pen.moveTo(shift, step);
    pen.lineTo(shift + step, 0);
  }
  pen.stroke();
  return /** @type {CanvasPattern} */ (context.createPattern(tile, "repeat"));
}
