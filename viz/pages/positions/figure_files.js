// The title and the menu of files of a plotly figure. The figure stands in the same container of the page and is drawn
// by plotly: its files are what is seen of it, zoomed as it is. The menu is that of the other plots.

import { unpack } from "../../web/bytes.js";
import { cleared, element, newRoot, write } from "../../web/elements.js";
import { exact } from "../../web/numbers.js";
import { appearance } from "../../web/pens.js";
import { buildAbout, buildMenu, FILES, nameMenu, showAbout } from "../../web/plot.js";

const SHARP = 3; // pixels of a PNG to one of the page

/** @param {PlotRoot} root */
function figureOf(root) {
  return root.getRootNode().host.closest(":has(.js-plotly-plot)").querySelector(".js-plotly-plot");
}

// The layers of the figure, one above the other, as one drawing.
/** @param {PlotRoot} root */
function drawingOf(root) {
  const layers = [...figureOf(root).querySelectorAll(".main-svg")].filter((each) => !each.closest(".modebar"));
  const { width, height } = layers[0].getBoundingClientRect();
  const look = appearance(root);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const sizes = { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": look.text };
  for (const [name, value] of Object.entries(sizes)) svg.setAttribute(name, value);
  const ground = svg.appendChild(document.createElementNS(svg.namespaceURI, "rect"));
  for (const [name, value] of Object.entries({ width, height, fill: look.background })) ground.setAttribute(name, value);
  for (const layer of layers) {
    const copy = svg.appendChild(layer.cloneNode(true));
    copy.removeAttribute("style"); // a background of its own would hide the layers below
    copy.querySelectorAll("[style*=vector-effect]").forEach((/** @type {any} */ { style }) => (style.vectorEffect = "none")); // lines grow with the rest
    copy.querySelectorAll(".hoverlayer, .zoomlayer, .drag, .draglayer").forEach((/** @type {any} */ each) => each.remove());
  }
  return { width, height, blob: new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }) };
}

/** @param {PlotRoot} root */
async function pngOf(root) {
  const { width, height, blob } = drawingOf(root);
  const image = new Image(width * SHARP, height * SHARP);
  image.src = URL.createObjectURL(blob);
  await image.decode();
  const canvas = element("canvas");
  cleared(canvas, image.width, image.height).drawImage(image, 0, 0, image.width, image.height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done));
}

/** @param {any} given */
function figureLines({ header: { words, curves, columns, arrays } }) {
  if (columns) return [words.csv, ...[...arrays[0]].map((value, cell) => [String(Math.floor(cell / columns)), String(cell % columns), exact(value)])];
  /** @param {string} name @param {number} index */
  const points = (name, index) => [...arrays[2 * index]].map((x, at) => [name, exact(x), exact(arrays[2 * index + 1][at])]);
  return [words.csv, ...curves.flatMap(points)];
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = newRoot(parentElement, "plot figure");
    root.kind = { lines: figureLines };
    root.files = { PNG: pngOf, SVG: async (/** @type {any} */ each) => drawingOf(each).blob, CSV: FILES.CSV };
    root.heading = root.appendChild(element("div", "heading"));
    root.heading.append(element("b"), buildAbout(root), buildMenu(root));
  }
  /** @type {FigureFilesHeader & Behind} */
  const header = unpack(data);
  root.shown = { header };
  root.explain = () => setTriggerValue("about", performance.now());
  write(root.heading.firstChild, header.name);
  showAbout(root, header);
  nameMenu(root, header.words.download);
}
