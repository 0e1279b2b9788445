// Colours of values and of heads.

export const HUE = [92, 124, 250]; // attention weights: one hue over the page's background, by opacity

// The diverging scale of signed values: vermilion below 0, blue above, by opacity over the page's background.
export const SIGNED = [[213, 94, 0], [0, 114, 178]];

// That of differences from the pinned trace is another: nobody shall take a difference for a value.
export const DIFFERENCE = [[150, 60, 190], [0, 140, 110]];

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
