// Colours of things, values and heads: one colour for one thing, wherever it is drawn. viz/figures/colours.py and common.css
// hold the same.

// Of attention: its query, key, value and output, and the blue of its weights, which nothing else has.
export const QUERY = "#0072b2";
export const KEY = "#d55e00";
export const VALUE = "#009e73";
export const OUTPUT = "#cc79a7";
export const ATTENTION = "#5c7cfa";
export const LOSS = "#8c6d31";
export const PLAIN = "#7a8190"; // what has no colour of its own
export const PINNED = "#963cbe";
export const ODD_COLOUR = "#d6005f"; // of what is not finite: no scale has it
export const CHANGED = "#b87a00"; // a cell that a change of the model shows or hides
export const RESIDUAL = "#808296";
// Several of a kind, in their order.
export const SERIES = ["#e69f00", "#2a9d8f", "#8a63d2", "#cc6677", "#a0522d"];

// Red, green and blue of "#rrggbb", "#rgb" or "rgb(r, g, b)".
/** @param {string} colour */
export function channels(colour) {
  if (!colour.startsWith("#")) return (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  const long = colour.length === 4 ? colour.replace(/\w/g, "$&$&") : colour;
  return [1, 3, 5].map((at) => Number.parseInt(long.slice(at, at + 2), 16));
}

export const HUE = channels(ATTENTION); // one hue over the page's background, by opacity

// The diverging scale of signed values: the key's vermilion below 0, the query's blue above, by opacity over the page's background.
export const SIGNED = [channels(KEY), channels(QUERY)];

// That of differences from the pinned trace is another: nobody shall take a difference for a value.
export const DIFFERENCE = [channels(PINNED), channels("#008c6e")];

// What is chosen or lit: dark grey on a light page, light grey on a dark one; words about what is pinned.
export const SELECTED = ["#4b4d57", "#c8c9ce"];
export const PINNED_WORDS = [PINNED, "#c58be6"];

// A head's fixed colour, the same in every view.
/** @param {number} head @param {number} [opacity] */
export function headColour(head, opacity = 1) {
  return `hsla(${(head * 137.5) % 360}, 65%, 50%, ${opacity})`;
}

/** @param {number} value @param {number} top @param {number} [strength] @param {Hues} [hues] */
export function signedColour(value, top, strength = 0.85, hues = SIGNED) {
  const [r, g, b] = hues[value < 0 ? 0 : 1];
  return `rgba(${r},${g},${b},${top ? strength * Math.min(1, Math.abs(value) / top) : 0})`;
}

// How strong a value's colour is, 0 to 1: as its size beside the scale's end; on a scale with a floor, as the logarithm of
// that, from the floor on.
/** @param {number} value @param {{ high: number, floor?: number | null }} options */
export function strengthOf(value, { high, floor }) {
  const share = Math.min(1, Math.abs(value) / high);
  return floor ? Math.max(0, 1 - Math.log(share) / Math.log(floor / high)) : share;
}
