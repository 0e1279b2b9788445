// Files of a view that is made of elements and not painted on a canvas: what stands on the page is drawn once more with a
// file's pen. The view has no other drawing to keep in step with.

import { cleared, element } from "./elements.js";
import { addMenu, nameMenu, showAbout } from "./plot.js";

export const EDGE = 12; // around the picture

/** @type {CanvasRenderingContext2D} */
let pixel; // for its colour

// A colour as every reader of SVG knows it: red, green, blue and opacity, less of it where the element is faint.
/** @param {string} colour @param {number} [opacity] */
function plainColour(colour, opacity = 1) {
  const context = (pixel ??= cleared(element("canvas"), 1, 1));
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
  const rest = (alpha / 255) * opacity;
  return { text: rest < 1 ? `rgba(${red},${green},${blue},${rest})` : `rgb(${red},${green},${blue})`, seen: rest > 0 };
}

/**
 * @param {Pen} pen @param {number} x @param {number} y @param {number} width @param {number} height
 * @param {CSSStyleDeclaration} style @param {number} opacity
 */
function drawBox(pen, x, y, width, height, style, opacity) {
  if (width <= 0 || height <= 0 || style.visibility === "hidden") return;
  if (style.backgroundImage.startsWith("repeating")) pen.hatch(x, y, width, height);
  const [fill, border] = [style.backgroundColor, style.borderTopColor].map((colour) => plainColour(colour, opacity));
  const line = style.borderTopStyle === "none" ? 0 : parseFloat(style.borderTopWidth) || 0;
  const stroke = { width: border.seen ? line : 0, colour: border.text, radius: Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2) };
  if (fill.seen || stroke.width) pen.frame(x + 0.5, y + 0.5, width, height, { ...stroke, ...(fill.seen ? { fill: fill.text } : {}) });
}

// A line of a drawing in the page, as so many straight pieces.
/** @param {Pen} pen @param {SVGPathElement} path @param {{ left: number, top: number }} corner */
function drawPath(pen, path, corner) {
  const style = getComputedStyle(path);
  const { text: colour, seen } = plainColour(style.stroke, parseFloat(style.strokeOpacity));
  if (!seen) return;
  const { left, top } = /** @type {SVGElement} */ (path.ownerSVGElement).getBoundingClientRect();
  const length = path.getTotalLength();
  const points = Array.from({ length: 25 }, (_, index) => path.getPointAtLength((length * index) / 24));
  const dash = style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat);
  const placed = points.map(({ x, y }) => [x + left - corner.left, y + top - corner.top]);
  pen.line(placed, { colour, width: parseFloat(style.strokeWidth), dash });
}

/** @param {Pen} pen @param {Text} node @param {{ left: number, top: number }} corner @param {number} opacity */
function drawText(pen, node, corner, opacity) {
  const range = document.createRange();
  range.selectNodeContents(node);
  const [box, ...more] = range.getClientRects();
  if (!box || !node.data.trim()) return;
  const style = getComputedStyle(/** @type {Element} */ (node.parentElement));
  const look = { size: parseFloat(style.fontSize), strong: Number(style.fontWeight) > 500, token: /mono|code/i.test(style.fontFamily.split(",")[0]) };
  /** @type {[string, DOMRect][]} */
  const lines = more.length ? textLines(range, node) : [[node.data.trim(), box]];
  for (const [words, { left, top, height }] of lines) {
    pen.text(words, left - corner.left, top - corner.top + height / 2, { ...look, colour: plainColour(style.color, opacity).text });
  }
}

// What stands in a field.
/**
 * @param {Pen} pen @param {HTMLInputElement} input @param {number} x @param {number} y @param {number} width
 * @param {number} height @param {CSSStyleDeclaration} style @param {number} opacity
 */
function drawTyped(pen, { value }, x, y, width, height, style, opacity) {
  const right = style.textAlign === "right";
  const inside = parseFloat(style.paddingRight) || 0;
  /** @type {TextStyle} */
  const look = { align: right ? "right" : "left", size: parseFloat(style.fontSize), colour: plainColour(style.color, opacity).text };
  pen.text(value, right ? x + width - inside : x + inside, y + height / 2, look);
}

// The lines into which the page breaks a text.
/** @param {Range} range @param {Text} node */
function textLines(range, node) {
  /** @type {[string, DOMRect][]} */
  const lines = [];
  [...node.data].reduce((at, letter) => {
    range.setStart(node, at);
    range.setEnd(node, at + letter.length);
    const box = range.getBoundingClientRect();
    const last = lines[lines.length - 1];
    if (last && Math.abs(last[1].top - box.top) < 3) last[0] += letter;
    else lines.push([letter, box]);
    return at + letter.length;
  }, 0);
  return lines;
}

/** @param {Pen} pen @param {any} node @param {{ left: number, top: number }} corner @param {number} [before] */
function drawElement(pen, node, corner, before = 1) {
  if (node.nodeType === Node.TEXT_NODE) return drawText(pen, node, corner, before);
  if (node.nodeType !== Node.ELEMENT_NODE || node.classList.contains("menu")) return;
  if (node.tagName === "path") return drawPath(pen, node, corner);
  const style = getComputedStyle(node);
  if (style.display === "none") return;
  const opacity = before * parseFloat(style.opacity);
  const { left, top, width, height } = node.getBoundingClientRect();
  const [x, y] = [left - corner.left, top - corner.top];
  if (!(node instanceof SVGElement)) drawBox(pen, x, y, width, height, style, opacity);
  if (node.tagName === "INPUT") drawTyped(pen, node, x, y, width, height, style, opacity);
  const sign = getComputedStyle(node, "::before");
  if (sign.content !== "none" && sign.content !== "normal") {
    const [wide, high] = [parseFloat(sign.width) || 0, parseFloat(sign.height) || 0];
    drawBox(pen, x, y + (height - high) / 2, wide, high, sign, opacity);
  }
  for (const child of node.childNodes) drawElement(pen, child, corner, opacity);
}

// Add the menu of files to a view. part(root): the element that is drawn; lines(root): the table of its CSV.
/** @param {any} root @param {(root: any) => Element} part @param {(root: any) => string[][]} lines */
export function addFiles(root, part, lines) {
  const scrolled = () => root.querySelectorAll(".scroll").forEach((/** @type {any} */ each) => each.scrollTo(0, 0));
  root.canvas = element("canvas");
  root.kind = {
    arrange() {
      scrolled();
      const box = part(root).getBoundingClientRect();
      const boxes = [...part(root).querySelectorAll("*")].map((each) => each.getBoundingClientRect());
      /** @param {"right" | "bottom"} side */
      const reach = (side) => Math.ceil(boxes.reduce((most, other) => Math.max(most, other[side]), box[side]));
      return { width: reach("right") - Math.floor(box.left) + 2 * EDGE, height: reach("bottom") - Math.floor(box.top) + 2 * EDGE };
    },
    draw(/** @type {Pen} */ pen) {
      const { left, top } = part(root).getBoundingClientRect();
      drawElement(pen, part(root), { left: left - EDGE, top: top - EDGE });
    },
    lines: () => lines(root),
  };
  addMenu(root);
}

// What the menu needs to know, at each change.
/** @param {PlotRoot} root @param {any} header */
export function showFiles(root, header) {
  root.shown = { header };
  nameMenu(root, header.words.download);
  showAbout(root, header);
}
