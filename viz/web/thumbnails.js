// Heads as thumbnails, a button each, in any order.
// All thumbnails are painted on one canvas over the grid: a canvas each costs the browser a third of its frame.

import { cleared, contextOf, element, firstIn, hatch, pixelRatio, write, zoomOf } from "./elements.js";
import { DIFFERENCE, headColour, HUE, strengthOf } from "./colours.js";
import { bus, onHover } from "./bus.js";
import { endsOf } from "./palettes.js";
import { appearance, ODD_PIXEL, onTheme } from "./pens.js";

export const LEVELS = 65532; // of a value; the next two are not drawn
export const ODD_LEVEL = LEVELS + 3; // not a number, or infinite
const NARROW = 74; // CSS pixels of a thumbnail whose number stands below its name

// The pixel, 0xAABBGGRR, of every level from low to high; none for those above, which are not drawn. scale: of strengthOf.
/**
 * @param {number} low @param {number} high @param {{ high: number, floor?: number | null }} scale
 * @param {Hues} hues @param {number} most
 */
function levelColours(low, high, scale, hues, most) {
  const [below, above] = hues.map(([r, g, b]) => (b << 16) | (g << 8) | r);
  const colours = new Uint32Array(most + 4);
  const step = (high - low) / most;
  for (let level = 0; level <= most; level++) {
    const value = low + level * step;
    const strength = Math.round(255 * strengthOf(value, scale));
    colours[level] = (strength << 24) | (value < 0 ? below : above);
  }
  if (most === LEVELS) colours[ODD_LEVEL] = ODD_PIXEL;
  return colours;
}

// One picture of a pixel per cell: as many thumbnails side by side as the grid has columns. most: the level of `high`.
// tops: of each thumbnail the value with the full colour. floor: of a logarithmic
// scale, the same for all. states: 1, the cell is drawn.
/** @param {HTMLCanvasElement} canvas @param {ShownThumbnails} shown @param {Look} look */
function cellPicture(canvas, { levels, states, count, columns, rows, cells, low, high, most = LEVELS, tops, floor, difference }, look) {
  const context = cleared(canvas, columns * cells, Math.ceil(count / columns) * rows);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const hues = endsOf(difference ? DIFFERENCE : [HUE, HUE], look);
  let colours = new Uint32Array();
  for (let index = 0; index < count; index++) {
    if (tops[index] !== tops[index - 1]) colours = levelColours(low, high, { high: tops[index], floor }, hues, most);
    const corner = Math.floor(index / columns) * rows * canvas.width + (index % columns) * cells;
    for (let row = 0; row < rows; row++) {
      let at = corner + row * canvas.width;
      let from = (index * rows + row) * cells;
      for (let cell = row * cells; cell < (row + 1) * cells; cell++, at++, from++) {
        if (states[cell] === 1) pixels[at] = colours[levels[from]];
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Masked cells do not depend on the head: one hatched picture, as large as a thumbnail, lies under all. None: null.
/**
 * @param {Numbers} states @param {number} rows @param {number} columns @param {number} width
 * @param {number} height
 */
function hatchPicture(states, rows, columns, width, height) {
  if (states.every((state) => state === 1)) return null;
  const canvas = element("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = contextOf(canvas);
  context.fillStyle = hatch(context, 6);
  const [x, y] = [(/** @type {number} */ column) => Math.round((column * width) / columns), (/** @type {number} */ row) => Math.round((row * height) / rows)];
  for (let row = 0; row < rows; row++) {
    for (let column = 0, end; column < columns; column = end) {
      end = column + 1;
      if (states[row * columns + column] === 1) continue;
      while (end < columns && states[row * columns + end] !== 1) end++;
      context.fillRect(x(column), y(row), x(end) - x(column), y(row + 1) - y(row));
    }
  }
  return canvas;
}

// Where the thumbnails are on the grid, and its size, in CSS pixels; they stay there until that changes, and are not asked
// for at each painting: the browser would have to lay out the page first.
/** @param {ThumbnailsRoot} root */
function thumbnailPlaces(root) {
  const grid = root.grid.getBoundingClientRect();
  if (!grid.width) return undefined;
  root.grid.classList.toggle("narrow", grid.width / zoomOf(root.grid) / root.shown.columns < NARROW);
  const zoom = zoomOf(root.grid);
  root.size = [root.grid.clientWidth, root.grid.clientHeight];
  return root.thumbnails.map((button) => {
    const box = button.querySelector(".map").getBoundingClientRect();
    return [box.left - grid.left, box.top - grid.top, box.width, box.height].map((length) => length / zoom);
  });
}

// The hatched picture of the same cells in the same size is made once: a film paints many frames over it.
/** @param {ThumbnailsRoot} root @param {number} width @param {number} height */
function hatchedUnder(root, width, height) {
  const { states, rows, cells } = root.shown;
  const known = root.hatched;
  if (known?.states === states && known.width === width && known.height === height) return known.picture;
  root.hatched = { states, width, height, picture: hatchPicture(states, rows, cells, width, height) };
  return root.hatched.picture;
}

// The row and the column of what is lit somewhere on the page, on a thumbnail at this place, in pixels of the canvas.
/** @param {CanvasRenderingContext2D} context @param {ThumbnailsRoot} root @param {string} mark @param {number[]} numbers */
function drawLit(context, { shown: { sides, block = [1, 1], rows, cells }, lit }, mark, [left, top, width, height]) {
  const [row, column] = [Math.floor(lit[sides?.rows] / block[0]), Math.floor(lit[sides?.columns] / block[1])];
  /** @param {number} place @param {number} count @param {number} length */
  const strip = (place, count, length) => [Math.round((place * length) / count), Math.max(2, Math.ceil(length / count))];
  context.strokeStyle = mark;
  context.lineWidth = Math.max(1, Math.floor(window.devicePixelRatio || 1));
  if (row >= 0 && row < rows) {
    const [from, high] = strip(row, rows, height);
    context.strokeRect(left + 0.5, top + from + 0.5, width - 1, high - 1);
  }
  if (column >= 0 && column < cells) {
    const [from, wide] = strip(column, cells, width);
    context.strokeRect(left + from + 0.5, top + 0.5, wide - 1, height - 1);
  }
}

// root.shown: what `cellPicture` draws; of the tokens its `sides` and `block`.
/** @param {ThumbnailsRoot} root */
function paintThumbnails(root) {
  if (!root.shown) return;
  root.places ??= thumbnailPlaces(root);
  if (!root.places) return; // not laid out yet: the observer of its size calls again
  const { columns, rows, cells } = root.shown;
  const ratio = pixelRatio(root.atlas);
  const context = cleared(root.atlas, Math.round(root.size[0] * ratio), Math.round(root.size[1] * ratio));
  const { mark } = appearance(root);
  const [, , wide, high] = root.places[0] ?? [];
  const hatched = wide ? hatchedUnder(root, Math.round(wide * ratio), Math.round(high * ratio)) : null;
  root.places.forEach((place, index) => {
    if (root.shown.waiting?.[index]) return; // it is not computed yet
    const [left, top, width, height] = place.map((/** @type {number} */ length) => Math.round(length * ratio));
    context.imageSmoothingEnabled = rows > height || cells > width;
    if (hatched) context.drawImage(hatched, left, top, width, height);
    const [x, y] = [(index % columns) * cells, Math.floor(index / columns) * rows];
    context.drawImage(root.picture, x, y, cells, rows, left, top, width, height);
    drawLit(context, root, mark, [left, top, width, height]);
  });
}

// One painting for all that is lit until the next frame.
/** @param {ThumbnailsRoot} root @param {string} side @param {number} position */
function light(root, side, position) {
  if (root.lit[side] === position || !Object.values(root.shown?.sides ?? {}).includes(side)) return;
  root.lit[side] = position;
  root.soon ??= requestAnimationFrame(() => {
    root.soon = undefined;
    paintThumbnails(root);
  });
}

/** @param {ThumbnailsRoot} root @param {any} shown */
export function showThumbnails(root, shown) {
  root.shown = shown;
  cellPicture(root.picture, shown, appearance(root));
  paintThumbnails(root);
}

// The grid, its canvases and the line below. made: gets each new thumbnail, its map and its number, to listen to them.
/**
 * @param {ThumbnailsRoot} root
 * @param {(button: HTMLButtonElement, map: HTMLElement, index: number) => void} made
 */
export function buildThumbnails(root, made) {
  root.grid = element("div", "grid");
  root.picture = element("canvas");
  root.atlas = root.grid.appendChild(element("canvas", "atlas"));
  root.caption = element("div", "caption muted");
  root.append(root.grid, root.caption);
  root.thumbnails = [];
  root.made = made;
  root.sizes = new ResizeObserver(() => {
    root.places = undefined;
    paintThumbnails(root);
  });
  root.sizes.observe(root.grid);
  root.lit = { ...bus.lit };
  const dark = onHover((side, position) => light(root, side, position));
  const plain = onTheme(() => root.shown && showThumbnails(root, root.shown));
  root.stop = () => {
    root.sizes.disconnect();
    dark();
    plain();
  };
}

/** @param {ThumbnailsRoot} root @param {number} index */
function newThumbnail(root, index) {
  const button = element("button", "head");
  button.type = "button";
  const title = element("span", "title");
  title.append(element("i", "dot"), element("span", "name"), " ", element("span", "number"));
  const map = element("span", "map");
  button.append(title, map);
  root.made(button, map, index);
  root.grid.insertBefore(button, root.atlas);
  return button;
}

// One for each [layer, head], so many beside each other; those that are there are used again.
/** @param {ThumbnailsRoot} root @param {number[][]} order @param {number} columns */
export function arrangeThumbnails(root, order, columns) {
  const before = `${root.thumbnails.length} ${root.style.getPropertyValue("--columns")}`;
  root.style.setProperty("--columns", String(columns));
  root.style.setProperty("--lines", String(Math.ceil(order.length / columns)));
  while (root.thumbnails.length > order.length) root.thumbnails.pop()?.remove();
  while (root.thumbnails.length < order.length) root.thumbnails.push(newThumbnail(root, root.thumbnails.length));
  if (before !== `${order.length} ${columns}`) root.places = undefined;
  order.forEach(([layer, head], index) => {
    const [dot, name] = /** @type {any} */ (firstIn(root.thumbnails[index]).children);
    dot.style.background = headColour(head);
    write(name, `${layer + 1}.${head + 1}`);
  });
}
