// The channel of this window: what is typed and clicked goes up, frames of views come down and are painted at once. Where
// it cannot be had the script does all of that; it is tried again and again.

import { unpack } from "./bytes.js";
import { newRoot, write } from "./elements.js";
import { bus } from "./bus.js";
import { isLater, LATE, markBehind, readFrame, seen, tryToDraw } from "./views.js";

const FIRST_WAIT = 500; // milliseconds before it is opened again, twice as long each time
const LAST_WAIT = 15_000;
const SILENT = 3000; // milliseconds without a message after which an open channel counts as dead
const LOST = 3; // failures after which it is said
const GONE = 4401; // the session is no more

const ASIDE = new Set(["training_strip", "source", "target"]); // views that do not show the text's trace

// What is typed now is drawn soon, or all views wait for it.
function awaitViews() {
  clearTimeout(channel.awaiting);
  channel.awaiting = setTimeout(() => {
    if (!isUndrawn()) return;
    for (const [key, view] of bus.views) if (bus.followed?.has(key)) markBehind(view, true, true);
  }, LATE);
}

// Whether something that was typed has not been painted yet.
const isUndrawn = () => channel.isOpen() && [...bus.fields.values()].some(({ key, edit }) => edit > (channel.drawn[key] ?? 0));

// Frames of one input are painted together; of a long text, those that are still to come are marked.
/** @param {Uint8Array} bytes */
function receive(bytes) {
  /** @type {MessageHeader} */
  const { number, edits, frames, more, gone, moved, took } = unpack(bytes);
  if (gone) channel.took = took; // for those who measure: of the pictures, which the checks follow
  let from = 4 + new DataView(bytes.buffer).getUint32(0, true);
  for (const size of frames) {
    const frame = readFrame(bytes.subarray(from, from + size));
    from += size;
    channel.came.add(frame.key);
    if (!isLater(bus.frames.get(frame.key), frame)) bus.frames.set(frame.key, frame);
    const view = bus.views.get(frame.key);
    if (view) tryToDraw(view, frame);
  }
  if (gone) {
    /** @param {string} key */
    const toCome = (key) => more && !channel.came.has(key) && !ASIDE.has(key);
    /** @param {string} key */
    const awaited = (key) => toCome(key) && bus.followed?.has(key);
    for (const [key, view] of bus.views) markBehind(view, view.failed || gone.includes(key) || toCome(key), awaited(key));
    if (isUndrawn()) awaitViews(); // something was typed meanwhile
  }
  // What the script draws is of an earlier step, until it runs.
  if (moved && [...channel.came].some((key) => !ASIDE.has(key))) document.documentElement.toggleAttribute("data-unlearnt", true);
  if (!more) channel.came.clear();
  Object.assign(channel.drawn, edits);
  channel.say("");
  afterPaint(() => channel.send({ seen: number }));
}

// Behind the frame that is drawn next: the server checks what it has sent when the picture is there, not beside it.
/** @param {() => void} act */
function afterPaint(act) {
  if (document.hidden) act(); // nothing is painted
  else requestAnimationFrame(() => setTimeout(act));
}

function openChannel() {
  const { token, base } = channel.data;
  const place = new URL(`${base}/channel`, location.origin);
  place.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = (channel.socket = new WebSocket(place));
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    for (const message of [{ token }, { hidden: document.hidden }, { visible: [...seen] }]) socket.send(JSON.stringify(message));
    for (const { key, text, edit } of bus.fields.values()) if (edit) channel.send({ type: key, text, edit });
  };
  socket.onmessage = ({ data }) => {
    if (channel.socket !== socket) return; // of a session that is no more
    Object.assign(channel, { failures: 0, heard: performance.now() });
    if (data instanceof ArrayBuffer) return receive(new Uint8Array(data));
    /** @type {Partial<Hello & RunScript & Waiting & Screen>} */
    const { hello, script, waiting, typing, screen } = JSON.parse(data); // or {works}: a sign of life
    if (screen !== undefined) {
      bus.screen = screen;
      bus.dispatchEvent(new Event("screen"));
    }
    if (hello) channel.say("");
    if (script) channel.run();
    if (waiting) channel.say(channel.words.waiting.replace("{seconds}", String(waiting)).replace("{typing}", String(typing)));
  };
  socket.onclose = ({ code }) => {
    if (channel.socket !== socket) return; // another session's has taken its place
    channel.failures += 1;
    if (channel.failures === LOST) channel.say(channel.words.lost);
    if (code === GONE && channel.gone !== token) channel.run(); // which brings another token
    if (code === GONE) channel.gone = token;
    for (const view of bus.views.values()) if (view.late) markBehind(view, true); // the script draws it, some time
    channel.again = setTimeout(openChannel, Math.min(LAST_WAIT, FIRST_WAIT * 2 ** (channel.failures - 1)));
    lookByScript();
  };
}

function openNow() {
  clearTimeout(channel.again);
  channel.heard = performance.now();
  const before = channel.socket;
  openChannel();
  before?.close();
}

// Without a channel the script is run again and again where something goes on: every so many milliseconds.
function lookByScript() {
  clearTimeout(channel.looking);
  if (channel.isOpen() || !bus.looks) return;
  channel.looking = setTimeout(() => {
    if (!channel.isOpen() && !document.hidden) channel.run();
    lookByScript();
  }, bus.looks);
}

/** @type {Channel} */
const channel = (bus.channel ??= {
  drawn: {}, // of each field, the edit that is painted
  came: new Set(), // views of an input of which others are still to come
  failures: 0,
  isOpen: () => channel.socket?.readyState === WebSocket.OPEN,
  // Whether it was sent.
  send(message) {
    if (!channel.isOpen()) return false;
    channel.socket?.send(JSON.stringify(message));
    return true;
  },
  // Whether something that was typed has not been painted yet, and will be: a channel that is silent is opened anew.
  isBehind() {
    const behind = isUndrawn();
    channel.since = behind ? (channel.since ?? performance.now()) : undefined;
    if (!behind || performance.now() - Math.max(channel.since ?? 0, channel.heard ?? 0) < SILENT) return behind;
    openNow();
    return false;
  },
  lookByScript,
  await: awaitViews,
  say: (text) => channel.root && write(channel.root, text),
  run: () => {}, // until Streamlit has mounted it
  data: undefined,
  words: {},
});

document.addEventListener("visibilitychange", () => channel.send({ hidden: document.hidden }));

window.addEventListener("online", () => channel.isOpen() || openNow());

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? newRoot(parentElement, "muted");
  root.setAttribute("role", "status");
  const other = channel.data?.token !== data.token;
  Object.assign(channel, { data, root, words: data.words, run: () => setTriggerValue("again", performance.now()) });
  if (other) {
    bus.turn = 0; // another session has learnt nothing yet
    openNow();
  }
  lookByScript();
}
