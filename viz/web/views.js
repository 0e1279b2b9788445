// The views that components draw, by their keys in `bus.views`: each shows the newest frame that it has seen, whichever
// way that came.

import { bus } from "./bus.js";

const REST = 400; // after a click, before the script learns of it
export const LATE = 350; // milliseconds without what was typed last, after which the picture of the text before is taken away

// A frame: a stamp {key, of, moment, live} behind its length, and the view's bytes.
/** @param {Uint8Array} bytes */
export function readFrame(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const stamp = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  return { ...stamp, data: bytes.subarray(4 + length) };
}

// Whether a frame is of the same session as another, and as late: of two sessions the one that comes later counts.
/** @param {Frame | undefined} one @param {Frame} other */
export const isLater = (one, other) => one?.of === other.of && one.moment >= other.moment;

// Paint a frame, unless what is painted is as new. Clicks go by the channel where it answers them.
/** @param {MountedView} view @param {Frame} frame */
function drawView(view, { key, of, moment, live, data }) {
  if (of === view.of && moment <= view.moment) return;
  Object.assign(view, { of, moment, data });
  view.failed = false;
  /** @param {"setTriggerValue" | "setStateValue"} way */
  const answer = (way) => (/** @type {string} */ name, /** @type {unknown} */ value) => {
    if (live.includes(name) && bus.channel?.send({ answer: key, name, value })) bus.learnLater?.(REST);
    else view.given[way](name, value);
  };
  const ways = { setTriggerValue: answer("setTriggerValue"), setStateValue: answer("setStateValue") };
  view.end = view.module.default({ ...ways, data, key, parentElement: view.parent });
}

// What cannot be drawn leaves the others and the channel alone.
/** @param {MountedView} view @param {Frame} frame */
export function tryToDraw(view, frame) {
  try {
    drawView(view, frame);
  } catch (error) {
    console.error(`${frame.key} could not be drawn: ${error}`);
    view.failed = true;
  }
}

// A view that still shows the text of before says so. awaited: the new one is on its way, and after a moment nothing is
// shown in its place.
/** @param {MountedView} view @param {boolean} behind @param {boolean} [awaited] */
export function markBehind(view, behind, awaited = false) {
  const host = hostOf(view);
  host.toggleAttribute("data-behind", behind);
  if (behind) host.title = bus.channel?.words.behind ?? "";
  else host.removeAttribute("title");
  if (behind && awaited) view.late ??= setTimeout(() => host.toggleAttribute("data-awaited", true), LATE);
  else {
    clearTimeout(view.late);
    view.late = undefined;
    host.removeAttribute("data-awaited");
  }
}

// The server is told which views can be seen: of a training it sends no others.
export const seen = new Set();

const watcher = globalThis.IntersectionObserver && new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) seen[isIntersecting ? "add" : "delete"](keys.get(target));
  bus.channel?.send({ visible: [...seen] });
});
const keys = new WeakMap(); // of views, by their hosts

/** @param {MountedView} view @param {string} key */
function watchView(view, key) {
  keys.set(hostOf(view), key);
  watcher.observe(hostOf(view));
}

/** @param {MountedView} view @param {string} key */
function unwatchView(view, key) {
  watcher.unobserve(hostOf(view));
  seen.delete(key);
}

/** @param {MountedView} view */
const hostOf = (view) => view.parent.getRootNode().host ?? view.parent;

// A component that Streamlit mounts, or mounts again. name: of its script, `module`. What is no view is drawn as it is given.
/** @param {string} name @param {Component} module @param {Given} given */
export function mount(name, module, given) {
  if (!(given.data instanceof Uint8Array)) return module.default(given);
  const frame = readFrame(given.data);
  const { key } = frame;
  const before = bus.views.get(key);
  const again = before?.parent === given.parentElement;
  /** @type {MountedView} */
  const view = again ? Object.assign(before, { name, module, given }) : { name, module, given, parent: given.parentElement, moment: -1 };
  if (!again) {
    bus.views.set(key, view);
    watchView(view, key);
  }
  const waiting = bus.frames.get(key);
  drawView(view, waiting && isLater(waiting, frame) ? waiting : frame);
  if (!bus.channel?.isOpen()) markBehind(view, false); // no other frame of it comes
  const turn = (view.turn = {});
  return () => {
    if (view.turn !== turn) return; // a later call has gone on with it
    view.end?.();
    if (bus.views.get(key) !== view) return;
    unwatchView(view, key);
    bus.views.delete(key);
  };
}
