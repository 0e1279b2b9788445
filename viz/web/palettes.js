// Palettes: the colours of a scale from the page's background on, by opacity, to an end that stands out from it in a light
// theme as in a dark one.

import { channels, DIFFERENCE, HUE, SIGNED } from "./colours.js";

const CONTRAST = 4.5; // of the end of a scale against the page
const OF_GREY = 10; // where no hue tells a step from the next, lightness alone does
const GREY = 32; // channels that differ by less are a grey's
const STEP = 0.01;

// Relative luminance (WCAG 2.2).
/** @param {number[]} colour */
function luminance(colour) {
  const [r, g, b] = colour.slice(0, 3).map((part) => (part <= 10.31 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** @param {number[]} one @param {number[]} other */
export function contrast(one, other) {
  const [dark, bright] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
}

/** @param {number[]} one @param {number[]} other @param {number} share */
export const blend = (one, other, share) => one.map((part, at) => part + share * (other[at] - part));

// A hue as the end of a scale on this page: as it is where it stands out, else lighter on a dark page, darker on a light one.
/** @param {number[]} hue @param {number[]} page */
function endOf(hue, page) {
  const least = Math.max(...hue) - Math.min(...hue) < GREY ? OF_GREY : CONTRAST;
  const towards = luminance(page) < 0.18 ? [255, 255, 255] : [0, 0, 0];
  let share = 0;
  while (share < 1 && contrast(blend(hue, towards, share), page) < least) share += STEP;
  return blend(hue, towards, share).map(Math.round);
}

/** @type {Map<string, number[][]>} */
const ends = new Map();

// The ends of these hues on the page of this look.
/** @param {Hues} hues @param {Look} look */
export function endsOf(hues, { background }) {
  const key = `${background} ${hues.join(" ")}`;
  const known = ends.get(key);
  if (known) return known;
  const made = hues.map((hue) => endOf(hue, channels(background)));
  ends.set(key, made);
  return made;
}

// How strong the colours of cells that hold words are: as strong as leaves these legible on every one.
/** @param {Hues} hues @param {Look} look */
function underWords(hues, { background, colour }) {
  const [page, words] = [channels(background), channels(colour)];
  let strength = 1;
  while (strength > STEP && hues.some((end) => contrast(words, blend(page, end, strength)) < CONTRAST + 0.1)) strength -= STEP;
  return strength;
}

/** @type {Map<string, Palette>} */
const palettes = new Map();
const MOST = 200; // palettes that are remembered: a film's scale may be another in each frame

// 256 colours from a scale's low end to its high end; where it begins below 0 both sides have a hue. words: its cells hold some.
/** @param {ScaleEnds} scale @param {Look} look @param {boolean} [words] */
export function paletteOf({ low, high, difference, colour }, look, words = false) {
  const key = [low < 0 ? low / high : 0, difference, colour, look.background, look.colour, words].join(" ");
  const known = palettes.get(key);
  if (known) return known;
  const hues = low < 0 ? (difference ? DIFFERENCE : SIGNED) : [colour ? channels(colour) : HUE];
  const made = madeOf(endsOf(hues, look), low < 0 ? low / high : 0, look, words);
  if (palettes.size >= MOST) palettes.clear();
  palettes.set(key, made);
  return made;
}

/** @param {Hues} hues @param {number} low @param {Look} look @param {boolean} words @returns {Palette} */
function madeOf(hues, low, look, words) {
  const strength = words ? underWords(hues, look) : 1;
  const names = Array.from({ length: 256 }, (_, index) => {
    const value = low + (index / 255) * (1 - low);
    return `rgba(${hues[value < 0 ? 0 : hues.length - 1].join(",")},${(strength * Math.min(1, Math.abs(value))).toFixed(3)})`;
  });
  return { names, pixels: Uint32Array.from(names, pixelOf) };
}

// A colour rgba(…) as the bytes of a pixel, 0xAABBGGRR.
/** @param {string} name */
function pixelOf(name) {
  const [r, g, b, a] = name.slice(5, -1).split(",").map(Number);
  return ((Math.round(255 * a) << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
