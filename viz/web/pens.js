// Two pens for one drawing: a canvas on the page, and SVG in a file. Lengths are CSS pixels.

import { contextOf, element, hatch } from "./elements.js";
import { shown } from "./chips.js";
import { PINNED_WORDS, SELECTED } from "./colours.js";

const LETTERS = 16; // of a label
export const FONT = 12;
export const MARK = "mark"; // the colour of what is chosen or lit, by the name that a look has for it
export const ODD_PIXEL = 0xff5f00d6; // of what is not finite, as 0xAABBGGRR

// The frame of what is chosen: it stands out from cells of any strength, for the page's own colour is on both its sides.
// A frame of one pixel is around cells that are too small for that.
/** @param {Pen} pen @param {number} x @param {number} y @param {number} width @param {number} height @param {number} line */
export function frameChosen(pen, x, y, width, height, line) {
  if (line > 1) pen.frame(x, y, width, height, { width: line + 2, colour: "background" });
  pen.frame(x, y, width, height, { width: line, colour: MARK });
}

// Control characters as their pictures: SVG may not hold them.
/** @param {string} label */
export function shortened(label) {
  /** @param {string} letter */
  const picture = (letter) => (letter < " " ? String.fromCodePoint(0x2400 + letter.charCodeAt(0)) : "?");
  const letters = [...shown(label).replace(/[\0-\x1f\ufffe\uffff]/g, picture)];
  return letters.length > LETTERS ? letters.slice(0, LETTERS - 1).join("") + "…" : letters.join("");
}

// Calls `redraw` when another theme is chosen, and gives what ends that: a canvas keeps the colours it was drawn with.
/** @param {() => void} redraw */
export function onTheme(redraw) {
  const watching = new MutationObserver(() => requestAnimationFrame(redraw));
  watching.observe(document.querySelector(".stApp") ?? document.body, { attributeFilter: ["class"] });
  return () => watching.disconnect();
}

// The faces and colours of the page's theme. What has just been taken off the page has none.
/** @param {Element} root */
export function appearance(root) {
  const style = getComputedStyle(root);
  const parts = (style.color.match(/\d+/g) ?? [0]).map(Number);
  const dark = Math.max(...parts.slice(0, 3)) > 128; // light text
  return {
    text: style.fontFamily,
    token: `${style.getPropertyValue("--st-code-font") || "monospace"}, "Noto Sans Mono CJK SC", monospace`,
    colour: style.color,
    background: style.getPropertyValue("--st-background-color") || "#fff",
    mark: SELECTED[Number(dark)],
    pinned: PINNED_WORDS[Number(dark)],
  };
}

const STANDING = 24; // CSS pixels of a title beside an axis: one so short stands, for turned it is not read

// A title beside an axis: whether it is turned, and where its middle is from the left edge.
/** @param {string} title @param {Measure} measure */
export const besideAxis = (title, measure) => (measure.words(title) > STANDING ? { turn: 90, middle: 8, room: 0 } : { turn: 0, middle: STANDING / 2, room: 8 });

const widths = new Map(); // of texts by their face: a keystroke changes a few of hundreds
const MOST_WIDTHS = 20_000;

// Labels were drawn in another face until theirs had come.
export const forgetWidths = () => widths.clear();

/** @param {CanvasRenderingContext2D} context @param {Look} look */
export function measurer(context, look) {
  /** @param {string} face */
  const wide = (face) => {
    if (!widths.has(face)) widths.set(face, new Map());
    const known = widths.get(face);
    if (known.size > MOST_WIDTHS) known.clear();
    return (/** @type {string} */ text) => {
      if (!known.has(text)) {
        context.font = `${FONT}px ${face}`;
        known.set(text, context.measureText(text).width);
      }
      return known.get(text);
    };
  };
  return Object.assign(wide(look.token), { words: wide(look.text) }); // of labels, and of all else that is written
}

const UPRIGHT = /[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff07\uff0a-\uffef]/; // letters that stand in a column; brackets turn
const STANDS = new RegExp(`${UPRIGHT.source}|^\\s*(\\d{1,2}|Δ)\\s*$`);

const TURNED = /[A-Za-z]{2}|[→←↔↛]/; // words and arrows that do not stand in a column

// A pen's text that runs up or down: Chinese letters stand one below the other, and so do short numbers between them. Where
// others are among them, all of it is turned: a line is read in one way.
/** @param {Pen["text"]} text @param {Measure} measure */
function inColumns(text, measure) {
  /** @type {Pen["text"]} */
  return (words, x, y, options) => {
    const { turn = 0 } = options;
    if (Math.abs(turn) !== 90 || !UPRIGHT.test(words)) return text(words, x, y, options);
    const { align = "left", size = FONT } = options;
    const others = words.split(new RegExp(UPRIGHT.source, "g"));
    if (others.some((piece) => TURNED.test(piece))) return text(words, x, y, options);
    const pieces = words.split(new RegExp(`(${UPRIGHT.source})`)).filter((piece) => piece.trim());
    const wide = options.token ? measure : measure.words;
    const lengths = pieces.map((piece) => (STANDS.test(piece) ? size + 1 : (wide(piece.trim()) * size) / FONT + 3));
    const whole = lengths.reduce((a, b) => a + b, 0);
    let from = y - whole * { left: turn < 0 ? 1 : 0, center: 0.5, right: turn < 0 ? 0 : 1 }[align];
    pieces.forEach((piece, index) => {
      text(piece.trim(), x, from + lengths[index] / 2, { ...options, align: "center", turn: STANDS.test(piece) ? 0 : 90 });
      from += lengths[index];
    });
  };
}

/** @param {CanvasRenderingContext2D} context @param {number} ratio @param {Look} look @returns {Pen} */
export function canvasPen(context, ratio, look) {
  const hatched = hatch(context, Math.round(6 * ratio));
  hatched.setTransform(new DOMMatrix().scale(1 / ratio));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textBaseline = "middle";
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string | CanvasPattern} colour */
  const box = (x, y, width, height, colour) => {
    context.fillStyle = colour;
    context.fillRect(x, y, width, height);
  };
  /** @param {string} words @param {number} x @param {number} y @param {TextStyle} style */
  const text = (words, x, y, { align = "left", turn = 0, marked, room = FONT + 4, strong, token, colour, faint, size = FONT }) => {
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.font = `${strong ? "bold " : ""}${size}px ${token ? look.token : look.text}`;
    context.textAlign = align;
    if (marked) {
      const width = context.measureText(words).width;
      const high = Math.min(FONT + 4, room);
      box({ left: -3, center: -width / 2 - 3, right: -width - 3 }[align], -high / 2, width + 6, high, look.mark);
    }
    context.globalAlpha = faint ? 0.72 : 1;
    context.fillStyle = marked ? look.background : (colour ? (look[colour] ?? colour) : look.colour);
    context.fillText(words, 0, 0);
    context.restore();
  };
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {FrameStyle} style */
  const frame = (x, y, width, height, { width: line = 1, colour = look.colour, faint, radius = 0, fill }) => {
    context.beginPath();
    context.roundRect(x - 0.5, y - 0.5, width, height, radius); // in the gap before the next cell
    if (fill) context.fillStyle = look[fill] ?? fill;
    if (fill) context.fill();
    context.globalAlpha = faint ? 0.25 : 1;
    context.strokeStyle = look[colour] ?? colour;
    context.lineWidth = line;
    if (line) context.stroke();
    context.globalAlpha = 1;
  };
  // A part [x, y, width, height] of another canvas.
  /**
   * @param {HTMLCanvasElement} canvas @param {Rect} part @param {number} x @param {number} y
   * @param {number} width @param {number} height
   */
  const picture = (canvas, part, x, y, width, height) => {
    context.imageSmoothingEnabled = part[2] > width * ratio || part[3] > height * ratio;
    context.drawImage(canvas, ...part, x, y, width, height);
  };
  /** @param {Point[]} points @param {LineStyle} style */
  const line = (points, { colour, width = 1.5, dash = [], faint }) => {
    context.globalAlpha = faint ? 0.18 : 1;
    context.strokeStyle = colour ?? look.colour;
    context.lineWidth = width;
    context.lineJoin = "round";
    context.setLineDash(dash);
    context.beginPath();
    points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  };
  /** @param {number} x @param {number} y @param {number} radius @param {string} colour */
  const dot = (x, y, radius, colour) => {
    context.fillStyle = look[colour] ?? colour;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  };
  const { background } = look;
  const columns = inColumns(text, measurer(context, look));
  return { look, text: columns, box, frame, line, dot, picture, background, hatch: (...place) => box(...place, hatched) };
}

/** @param {Element} svg @param {Look} look @returns {Pen} */
export function svgPen(svg, look) {
  /**
   * @param {Element} parent @param {string} name @param {Record<string, unknown>} attributes
   * @param {string} [words]
   */
  const add = (parent, name, attributes, words) => {
    const made = parent.appendChild(document.createElementNS(svg.namespaceURI, name));
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    if (words !== undefined) made.textContent = words;
    return made;
  };
  const pattern = { id: "masked", width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  const tile = add(add(svg, "defs", {}), "pattern", pattern);
  add(tile, "rect", { width: 6, height: 6, fill: "#808080", "fill-opacity": 0.14 });
  // Darker than on the screen: paper takes thin lines for less.
  add(tile, "path", { d: "M0 6L6 0M-1 1L1 -1M5 7L7 5", stroke: "#808080", "stroke-opacity": 0.9 });
  add(svg, "rect", { width: "100%", height: "100%", fill: look.background });
  // SVG 1.1 has colours without opacity, and that apart.
  /** @param {string} use @param {string} colour */
  const paint = (use, colour) => {
    const [, rgb, alpha] = colour.match(/^rgba\((.*),(.*)\)$/) ?? [];
    return rgb ? { [use]: `rgb(${rgb})`, [`${use}-opacity`]: alpha } : { [use]: colour };
  };
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour */
  const box = (x, y, width, height, colour) => add(svg, "rect", { x, y, width, height, ...paint("fill", colour) });
  /** @param {string} words @param {number} x @param {number} y @param {TextStyle} style */
  const text = (words, x, y, { align = "left", turn = 0, strong, token, colour = look.colour, faint, size = FONT }) => {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const place = { transform: `translate(${x} ${y}) rotate(${turn})`, "text-anchor": anchor };
    const style = { "font-family": token ? look.token : look.text, "font-size": size, "fill-opacity": faint ? 0.72 : 1, ...paint("fill", look[colour] ?? colour) };
    const weight = strong ? { "font-weight": "bold" } : {};
    add(svg, "text", { ...place, ...style, ...weight, dy: "0.35em", direction: "ltr" }, words);
  };
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {FrameStyle} style */
  const frame = (x, y, width, height, { width: line = 1, colour = look.colour, faint, radius = 0, fill = "none" }) => {
    const stroke = { stroke: look[colour] ?? colour, "stroke-width": line, "stroke-opacity": faint ? 0.25 : 1 };
    add(svg, "rect", { x: x - 0.5, y: y - 0.5, width, height, rx: radius, ...paint("fill", look[fill] ?? fill), ...stroke });
  };
  /**
   * @param {HTMLCanvasElement} canvas @param {Rect} part @param {number} x @param {number} y
   * @param {number} width @param {number} height
   */
  const picture = (canvas, part, x, y, width, height) => {
    const cut = element("canvas");
    [cut.width, cut.height] = part.slice(2);
    contextOf(cut).drawImage(canvas, ...part, 0, 0, cut.width, cut.height);
    const whole = { preserveAspectRatio: "none", style: "image-rendering: pixelated" };
    add(svg, "image", { x, y, width, height, ...whole, href: cut.toDataURL() });
  };
  /** @param {Point[]} points @param {LineStyle} style */
  const line = (points, { colour = look.colour, width = 1.5, dash = [], faint }) => {
    const stroke = { "stroke-opacity": faint ? 0.18 : 1, ...paint("stroke", colour), "stroke-width": width, "stroke-linejoin": "round" };
    const dashed = dash.length ? { "stroke-dasharray": dash.join(" ") } : {};
    add(svg, "polyline", { points: points.map((point) => point.join(",")).join(" "), fill: "none", ...stroke, ...dashed });
  };
  /** @param {number} x @param {number} y @param {number} radius @param {string} colour */
  const dot = (x, y, radius, colour) => add(svg, "circle", { cx: x, cy: y, r: radius, fill: look[colour] ?? colour });
  const { background } = look;
  const columns = inColumns(text, measurer(contextOf(element("canvas")), look));
  return { vector: true, look, text: columns, box, frame, line, dot, picture, background, hatch: (...place) => box(...place, "url(#masked)") };
}
