// The norms of a frame of the film, as strips of heat: a row for each layer, a cell for each token, the mean behind it.
// One picture for each stack, so that a frame costs little to draw. `bus.film` is that of film_store.js.

import { cleared, element, shorten, write } from "../../web/elements.js";
import { largest, significant } from "../../web/numbers.js";
import { PLAIN } from "../../web/colours.js";
import { paletteOf } from "../../web/palettes.js";
import { appearance, ODD_PIXEL } from "../../web/pens.js";
import { shade } from "../../web/scales.js";
import { hover, ofTokens } from "../../web/bus.js";
import { shown } from "../../web/chips.js";
import { filmHere, filmLabels, overRuns } from "../../web/film_store.js";

const ROW = 18; // CSS pixels
const QUANTITIES = ["stream", "mean", "std"];

// found: called when another quantity is chosen.
/** @param {HTMLElement} parent @param {() => void} found */
export function buildNorms(parent, found) {
  const root = /** @type {any} */ (parent.appendChild(element("div", "norms")));
  root.select = root.appendChild(element("select"));
  root.select.append(...QUANTITIES.map((name) => new Option(name, name)));
  root.select.addEventListener("change", () => {
    root.tops = undefined;
    found();
  });
  root.stacks = root.appendChild(element("div"));
  return root;
}

/** @param {any} root */
function newStack(root) {
  const made = root.stacks.appendChild(element("div", "stack"));
  made.names = made.appendChild(element("div", "names"));
  made.canvas = made.appendChild(element("canvas", "cells"));
  made.canvas.setAttribute("role", "img");
  made.means = made.appendChild(element("div", "means"));
  made.canvas.addEventListener("pointermove", (/** @type {Pointed} */ event) => {
    const { group, values, cells } = made.shown;
    const box = made.canvas.getBoundingClientRect();
    const [row, position] = [Math.floor((event.clientY - box.top) / ROW), Math.floor(((event.clientX - box.left) / box.width) * cells)];
    const value = values[row * cells + position];
    if (value === undefined) return;
    const label = filmLabels(group.side)[position];
    made.canvas.title = `${group.rows[row]} · ${shown(label ?? "")} · ${significant(value)}`;
    hover(ofTokens(group.side), position);
  });
  made.canvas.addEventListener("pointerleave", () => made.shown && hover(ofTokens(made.shown.group.side), -1));
  return made;
}

// The largest value of a quantity on the whole film, so that colours mean the same at every step: each frame is looked
// at once, and the next one of the same film can only widen it.
/** @param {any} root @param {any[]} groups */
function widenTops(root, groups) {
  const { edition, frames } = filmHere();
  if (root.tops?.edition !== edition) root.tops = { edition, largest: 0, known: new WeakSet() };
  const { tops } = root;
  for (const frame of frames.values()) {
    if (tops.known.has(frame)) continue;
    tops.known.add(frame);
    for (const { first, rows, positions } of groups) {
      for (let at = first; at < first + rows.length * positions; at++) {
        const size = Math.abs(frame.norms[at]);
        if (size > tops.largest && size < Infinity) tops.largest = size;
      }
    }
  }
}

// groups: of every quantity and stack, where its rows stand in a frame's norms. before: the frame that is taken off, if any.
// renewed: frames have come or gone.
/**
 * @param {any} root @param {any[]} groups @param {any[]} options @param {Record<string, any>} words
 * @param {boolean} renewed
 */
export function showNorms(root, groups, [frame, before], words, renewed) {
  const wanted = groups.filter(({ quantity }) => quantity === root.select.value);
  if (renewed || root.tops === undefined) widenTops(root, wanted);
  QUANTITIES.forEach((name, index) => write(root.select.options[index], words.norms[name]));
  root.select.title = words.normsOf;
  root.select.setAttribute("aria-label", words.normsOf);
  shorten(root.stacks, wanted.length);
  wanted.forEach((group, index) => {
    const { first, rows, positions } = group;
    const [now, then] = [frame, before].map((each) => each?.norms.subarray(first, first + rows.length * positions));
    const values = then ? now.map((/** @type {number} */ value, /** @type {number} */ at) => value - then[at]) : now;
    const made = root.stacks.children[index] ?? newStack(root);
    const runs = filmHere().runs[group.side]?.firsts;
    made.shown = { group, values: runs ? overRuns(values, positions, runs) : values, cells: runs?.length ?? positions };
    paintNorms(made, before ? largest(values) : root.tops.largest, Boolean(before));
    made.canvas.setAttribute("aria-label", words.norms[group.quantity]);
    for (const side of ["names", "means"]) {
      shorten(made[side], rows.length);
      while (made[side].children.length < rows.length) made[side].appendChild(element("div"));
    }
    rows.forEach((/** @type {string} */ name, /** @type {number} */ row) => {
      write(made.names.children[row], name);
      made.names.children[row].title = name;
      let sum = 0;
      for (let at = row * positions; at < (row + 1) * positions; at++) sum += values[at];
      write(made.means.children[row], significant(sum / positions));
    });
  });
}

/** @param {any} given @param {number} top @param {boolean} difference */
function paintNorms({ canvas, shown: { group, values, cells } }, top, difference) {
  const context = cleared(canvas, cells, group.rows.length);
  canvas.style.height = `${group.rows.length * ROW}px`;
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const signed = difference || group.quantity === "mean";
  const scale = { low: signed ? -top : 0, high: top || 1, difference, colour: signed ? undefined : PLAIN };
  const palette = paletteOf(scale, appearance(canvas)).pixels;
  values.forEach((/** @type {number} */ value, /** @type {number} */ cell) => (pixels[cell] = Number.isFinite(value) ? palette[shade(value, scale)] : ODD_PIXEL));
  context.putImageData(image, 0, 0);
}
