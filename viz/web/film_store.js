// The film of the training, kept where every component of the page finds it: `bus.film`, filled by the strip in the
// sidebar, `bus.at`, the step it stands at, null at the newest, and `bus.flags`, the steps that are compared. "film" on the bus: frames have come or gone;
// "frame": it stands somewhere else. Neither asks the server for anything.

import { bus } from "./bus.js";

const PATIENCE = 2000; // milliseconds
const MOST_PATIENCE = 30_000;

// Add what has come. All kinds of attention stand in a frame's weights one after the other, `kinds` says where; its
// values are loss, tokens and probabilities (position, rank), and norms. runs: by its side, the first token and the label of
// each run of tokens that is shown as one; a side without has each token alone. Steps that are not in `steps` any more are forgotten.
// Gives whether all frames are here: a message may have been lost, and with it the names of tokens in a later one's frames.
/** @param {FilmHeader} header @param {Numbers[]} options */
export function receiveFilm({ edition, run, steps, kinds, tokens, runs = {}, answers, names, keys, ranks, words }, [order, weights, losses, best, probabilities, norms]) {
  const same = bus.film?.edition === edition;
  const old = same && bus.film ? bus.film.frames : new Map();
  const frames = new Map();
  const known = { ...(same && bus.film ? bus.film.names : {}), ...names };
  const size = order.length ? weights.length / order.length : 0;
  const values = order.length ? best.length / order.length : 0;
  const sizes = order.length ? norms.length / order.length : 0;
  order.forEach((step, index) => {
    const guessed = best.slice(index * values, (index + 1) * values);
    if (!guessed.every((token) => token in known)) return;
    // Copies: a part of a message would hold all of it.
    old.set(step, {
      weights: weights.slice(index * size, (index + 1) * size),
      best: guessed,
      probabilities: probabilities.slice(index * values, (index + 1) * values),
      norms: norms.slice(index * sizes, (index + 1) * sizes),
      loss: losses[index],
    });
  });
  const here = steps.filter((step) => old.has(step));
  for (const step of here) frames.set(step, old.get(step));
  if (bus.film?.run !== run) follow(); // another run
  bus.film = { edition, run, steps: here, frames, kinds, tokens, runs, answers, keys, ranks, words, names: known };
  if (bus.at != null && !frames.has(bus.at)) bus.at = same && here.length ? here[nearestFrame(bus.at)] : null;
  bus.dispatchEvent(new CustomEvent("film"));
  return here.length === steps.length;
}

// Stand at the newest frame, with no flags.
function follow() {
  Object.assign(bus, { at: null, flags: {}, comparing: false });
}

export const filmHere = () => /** @type {Film} */ (bus.film);

// What was lost on its way, or overtaken, is asked for until it is here: root.again asks. Each time it waits twice as long:
// the answer may be large, and on its way.
/** @param {Root} root @param {boolean} lacking @param {number} [wait] */
export function askWhile(root, lacking, wait = PATIENCE) {
  if (!lacking) {
    clearTimeout(root.asking);
    root.asking = undefined;
    return;
  }
  root.asking ??= setTimeout(() => {
    root.again();
    root.asking = undefined;
    askWhile(root, true, Math.min(2 * wait, MOST_PATIENCE));
  }, wait);
}

export function forgetFilm() {
  if (!bus.film) return;
  bus.film = undefined;
  follow();
  bus.dispatchEvent(new CustomEvent("film"));
}

// The number of the frame whose step is nearest.
/** @param {number} step */
export function nearestFrame(step) {
  const { steps } = filmHere();
  let best = 0;
  steps.forEach((each, index) => {
    if (Math.abs(each - step) < Math.abs(steps[best] - step)) best = index;
  });
  return best;
}

// The number of the frame that is shown.
export function frameAt() {
  return bus.at == null ? filmHere().steps.length - 1 : filmHere().steps.indexOf(bus.at);
}

// Stand at a frame; at the last one, go on with those that come. led: by a teacher's window.
/** @param {number} number */
export function goToFrame(number, led = false) {
  const { steps } = filmHere();
  const index = Math.max(0, Math.min(steps.length - 1, number));
  const at = index === steps.length - 1 ? null : steps[index];
  if (at === (bus.at ?? null)) return;
  bus.at = at;
  bus.dispatchEvent(new CustomEvent("frame", { detail: { led } }));
}

// Labels of what is one row, or one column: tokens, or runs of them.
/** @param {string} side */
export const filmLabels = (side) => filmHere().runs[side]?.labels ?? filmHere().tokens[side];

// (layers, heads, rows, columns) of one kind.
/** @param {string} kind */
export function filmShape(kind) {
  const { shape, rows, columns } = filmHere().kinds[kind];
  return [shape[0], shape[1], filmHere().runs[rows]?.firsts.length ?? shape[2], filmHere().runs[columns]?.firsts.length ?? shape[3]];
}

// The last token of a row.
/** @param {string} side @param {number} run */
export function lastOfRun(side, run) {
  const firsts = filmHere().runs[side]?.firsts;
  return firsts ? (firsts[run + 1] ?? filmHere().tokens[side].length) - 1 : run;
}

// Values (row, token), or (row, token, rest), with the tokens of each run added up, or averaged.
/**
 * @param {ArrayLike<number>} values @param {number} tokens @param {number[]} firsts
 * @param {{ rest?: number, mean?: boolean }} [options]
 */
export function overRuns(values, tokens, firsts, { rest = 1, mean = true } = {}) {
  const rows = values.length / (tokens * rest);
  const found = new Float32Array(rows * firsts.length * rest);
  firsts.forEach((first, run) => {
    const end = firsts[run + 1] ?? tokens;
    for (let row = 0; row < rows; row++) {
      for (let at = 0; at < rest; at++) {
        let sum = 0;
        for (let token = first; token < end; token++) sum += values[(row * tokens + token) * rest + at];
        found[(row * firsts.length + run) * rest + at] = mean ? sum / (end - first) : sum;
      }
    }
  });
  return found;
}

// How far a weight of one kind may be off: it is kept in steps of 1 / 255, and those of the tokens of a run are added up.
/** @param {string} kind */
export function filmError(kind) {
  const { shape, rows, columns } = filmHere().kinds[kind];
  const [queries, keys] = [filmHere().runs[rows]?.firsts, filmHere().runs[columns]?.firsts];
  if (!queries && !keys) return 0.5 / 255;
  const longest = keys ? Math.max(...keys.map((first, run) => (keys[run + 1] ?? shape[3]) - first)) : 1;
  return (0.5 * longest + 0.5) / 255; // their sum is rounded once more
}

// The weights (layer, head, row, column) of one kind, 0 to 255, at a step: rows of a run averaged, columns added up.
/** @param {string} kind @param {number} step */
export function filmWeights(kind, step) {
  const { first, shape, rows, columns } = filmHere().kinds[kind];
  const weights = /** @type {FilmFrame} */ (filmHere().frames.get(step)).weights.subarray(first, first + shape.reduce((a, b) => a * b, 1));
  const [queries, keys] = [filmHere().runs[rows]?.firsts, filmHere().runs[columns]?.firsts];
  if (!queries && !keys) return weights;
  const averaged = queries ? overRuns(weights, shape[2], queries, { rest: shape[3] }) : weights;
  const summed = keys ? overRuns(averaged, shape[3], keys, { mean: false }) : averaged;
  return Uint8Array.from(summed, (weight) => Math.min(255, Math.round(weight)));
}

// The fewest and the most steps from one frame to the next; the last one may come sooner.
export function filmedEvery() {
  const gaps = filmHere().steps.slice(1).map((step, index) => step - filmHere().steps[index]);
  const regular = gaps.length > 1 ? gaps.slice(0, -1) : gaps;
  return gaps.length ? [Math.min(...regular), Math.max(...regular, gaps[gaps.length - 1])] : [1, 1];
}

// Whether the film shows this kind of attention of these very tokens, or runs of them.
/** @param {string} kind @param {string[]} rows @param {string[]} columns */
export function isFilmed(kind, rows, columns) {
  const found = bus.film?.kinds[kind];
  if (!found || !filmHere().steps.length) return false;
  const [, , queries, keys] = filmShape(kind);
  /** @param {string[]} one @param {string[]} other */
  const same = (one, other) => one.length === other.length && one.every((label, index) => label === other[index]);
  return queries === rows.length && keys === columns.length && same(filmLabels(found.rows), rows) && same(filmLabels(found.columns), columns);
}

/** @type {Set<() => boolean>} */
const followers = new Set();

// Whether anything on the page goes where the film stands.
export const isFollowed = () => [...followers].some((follows) => follows());

// follows(): whether the listener goes along just now. "followers" on the bus: one has come or gone.
/** @param {() => void} frames @param {() => void} frame */
export function onFilm(frames, frame, follows = () => true) {
  bus.addEventListener("film", frames);
  bus.addEventListener("frame", frame);
  followers.add(follows);
  bus.dispatchEvent(new CustomEvent("followers"));
  return () => {
    bus.removeEventListener("film", frames);
    bus.removeEventListener("frame", frame);
    followers.delete(follows);
    bus.dispatchEvent(new CustomEvent("followers"));
  };
}
