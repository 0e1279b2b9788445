// The one object that all components of the page share, whichever version of a script they came with.

const HELD = "vitrine.held"; // in the storage of this window

// What was lit by a click before the page was loaded again.
function heldBefore() {
  try {
    const { held, named } = JSON.parse(sessionStorage.getItem(HELD) ?? "{}");
    return { held, named, lit: held };
  } catch {
    return {};
  }
}

// Tokens light up together wherever they are drawn: components share one event target.
/** @type {Bus} */
export const bus = (globalThis.__vitrine ??= Object.assign(new EventTarget(), heldBefore(), {
  views: new Map(), // what is mounted, by keys; see views.js
  frames: new Map(), // the newest that came by the channel, by keys
  fields: new Map(), // of text, by keys; see text_field.js
  flags: {}, // steps of the film that are compared; see film_store.js
  comparing: false,
}));

// Pictures whose places are tokens, also where pieces of words are one elsewhere: there a place is a run of them.
/** @param {string} side @returns {string} */
export const ofTokens = (side) => (bus.merged ? "" : side);

/** @param {string | null | undefined} side @param {number} position */
export function hover(side, position) {
  if (!side) return; // what it names is no token
  const at = position < 0 ? heldAt(side) : position;
  bus.lit = { ...bus.lit, [side]: at }; // for what is mounted later
  bus.dispatchEvent(new CustomEvent("hover", { detail: { side, position: at } }));
}

// A click leaves a token lit where no other of its side is pointed at, and a second click no longer.
/** @param {string} side */
const heldAt = (side) => bus.held?.[side] ?? -1;

/** @param {string} side @param {number} position @param {string} label */
export function hold(side, position, label) {
  bus.held = { ...bus.held, [side]: heldAt(side) === position ? -1 : position };
  bus.named = { ...bus.named, [side]: label };
  try {
    sessionStorage.setItem(HELD, JSON.stringify({ held: bus.held, named: bus.named }));
  } catch {
    /* no storage is allowed: a reload lets it go */
  }
  hover(side, -1);
}

// The texts are these now: what was held and has become another token is let go.
/** @param {string} side @param {string[]} labels */
export function keepHeld(side, labels) {
  const held = heldAt(side);
  if (held >= 0 && labels[held] !== bus.named?.[side]) hold(side, held, "");
}

/** @param {(side: string, position: number) => void} listener */
export function onHover(listener) {
  /** @type {(event: any) => void} */
  const handle = (event) => listener(event.detail.side, event.detail.position);
  bus.addEventListener("hover", handle);
  return () => bus.removeEventListener("hover", handle);
}

// A place of a figure was clicked: a lesson may have asked for it.
/** @param {ClickedPlace} place */
export const tellPlace = (place) => bus.dispatchEvent(new CustomEvent("place", { detail: place }));
