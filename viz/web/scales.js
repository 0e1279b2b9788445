// From values to places, and the marks beside an axis or a colour bar.

import { strengthOf } from "./colours.js";
import { raised, signed, withPower } from "./numbers.js";

// Both ends of a scale, and between them the round numbers that leave the ends their room.
/** @param {number} low @param {number} high @param {number} most @returns {Mark[]} */
export function ticks(low, high, most) {
  const rough = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5, 10].find((factor) => factor * size > 0.999 * rough) ?? 10);
  const found = [low];
  for (let count = Math.ceil(low / step); count * step < high; count++) {
    const value = count * step;
    if (value - low > 0.5 * step && high - value > 0.5 * step) found.push(value);
  }
  return [...found, high].map((value) => [value, signed(Number(value.toPrecision(3)))]);
}

// Where a value is between the scale's ends, 0 to 1.
/** @param {ScaleEnds} scale @param {number} value */
export function placeOn(scale, value) {
  const { low, high, floor } = scale;
  if (!floor) return Math.max(0, Math.min(1, (value - low) / (high - low)));
  const strength = strengthOf(value, scale);
  return low < 0 ? 0.5 + 0.5 * Math.sign(value) * strength : strength;
}

// Which of the colours is that of a value.
/** @param {number} value @param {ScaleEnds} scale */
export const shade = (value, scale) => Math.round(255 * placeOn(scale, value));

// What stands beside the colour bar: [value, text] of about so many; of a logarithmic scale powers of ten, and where it
// has two sides the floor of both in the middle.
/** @param {ScaleHeader} scale @param {number} most @returns {Mark[]} */
export function marksOf(scale, most) {
  const { low, high, floor } = scale;
  if (!floor) return ticks(low, high, most);
  const decades = Math.round(Math.log10(high / floor));
  const step = Math.ceil((low < 0 ? 2 * decades : decades) / most);
  const powers = [];
  for (let power = decades; power > 0; power -= step) powers.push(Number((high / 10 ** (decades - power)).toPrecision(3)));
  const least = Number(floor.toPrecision(3));
  if (low >= 0) return [least, ...powers.reverse()].map((value) => [value, signed(value)]);
  return [[0, `±${signed(least)}`], ...powers.flatMap((value) => /** @type {Mark[]} */ ([[-value, signed(-value)], [value, signed(value)]]))];
}

/** @param {number} value */
export const finite = (value) => Number.isFinite(value);

// The range of an axis: what the header says, else that of the values with a little room; bars begin at 0.
/** @param {NumericAxis} axis @param {number[]} values */
export function range({ low, high, log, zero }, values) {
  const usable = values.filter((value) => finite(value) && (!log || value > 0));
  let bottom = low ?? usable.reduce((least, value) => Math.min(least, value), Infinity);
  let top = high ?? usable.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!finite(bottom) || !finite(top)) return log ? [0.1, 1] : [0, 1];
  if (zero) [bottom, top] = [Math.min(0, bottom), Math.max(0, top)];
  if (log) return bottom < top ? [bottom, top] : [bottom / 2, top * 2];
  const room = bottom < top ? 0.04 * (top - bottom) : 0.5 * Math.abs(top) || 0.5;
  return [low ?? (zero && bottom === 0 ? 0 : bottom - room), high ?? (zero && top === 0 ? 0 : top + room)];
}

// Marks of an axis: round numbers, or powers of ten.
/** @param {number[]} pair @param {boolean | undefined} log @param {number} most @returns {Mark[]} */
export function axisMarks([low, high], log, most) {
  if (!log) {
    const marks = roundMarks(low, high, most);
    return marks.length > 1 ? marks : roundMarks(low, high, 2 * most); // one alone says nothing of the scale
  }
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const every = Math.max(1, Math.ceil((last - first) / most));
  /** @type {Mark[]} */
  const found = [];
  for (let power = first; power <= last; power += every) found.push([10 ** power, powerName(power)]);
  if (found.length > 1) return found;
  const within = [first - 1, first, first + 1].flatMap((power) => [1, 2, 5].map((factor) => Number((factor * 10 ** power).toPrecision(12))));
  /** @type {Mark[]} */
  const steps = within.filter((value) => value >= low && value <= high).map((value) => [value, brief(value)]);
  return steps.length > 1 ? steps : roundMarks(low, high, most);
}

/** @param {number} power */
const powerName = (power) => (power >= -4 && power <= 4 ? (10 ** power).toLocaleString("en", { maximumFractionDigits: 4 }) : raised(power));

/** @param {number} low @param {number} high @param {number} most @returns {Mark[]} */
function roundMarks(low, high, most) {
  const rough = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5, 10].find((factor) => factor * size > 0.999 * rough) ?? 10);
  /** @type {Mark[]} */
  const found = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + 1e-9 * step; count++) {
    const value = Number((count * step).toPrecision(12));
    found.push([value, brief(value)]);
  }
  return found;
}

/** @param {number} value */
function brief(value) {
  if (!value || (Math.abs(value) >= 1e-4 && Math.abs(value) < 1e7)) return value.toLocaleString("en", { maximumSignificantDigits: 12 }).replaceAll("-", "−");
  return withPower(value.toExponential());
}

// From a value to its place between two ends.
/** @param {number[]} pair @param {boolean | undefined} log @param {number} from @param {number} to */
export function scaleOf([low, high], log, from, to) {
  const place = log ? Math.log10 : (/** @type {number} */ value) => value;
  const [first, span] = [place(low), place(high) - place(low)];
  return (/** @type {number} */ value) => from + ((place(value) - first) / span) * (to - from);
}

const LEGIBLE = 40; // labels on an axis; above that every k-th
const LEVELS = 3;

// Turned labels that are `room` apart and need `wide` each: `every` k-th is drawn, on so many `levels` that none lies over
// another; rather on three than left out.
/** @param {number} count @param {number} room @param {number} wide */
export function spread(count, room, wide) {
  const needed = Math.max(1, Math.ceil(wide / Math.max(room, 0.1)));
  if (count <= LEGIBLE && needed <= LEVELS) return { every: 1, levels: needed };
  return { every: Math.max(needed, Math.ceil(count / LEGIBLE)), levels: 1 };
}
