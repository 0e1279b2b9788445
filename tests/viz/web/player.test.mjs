import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

class Element {
  listeners = {};
  children = [];
  attributes = {};
  append(...nodes) { this.children.push(...nodes); }
  appendChild(node) { return this.children.push(node), node; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  setAttribute(name, value) { this.attributes[name] = value; }
}
globalThis.document = { createElement: () => new Element() };
globalThis.Option = class extends Element {};
let asked = [];
let now = 0;
globalThis.requestAnimationFrame = (act) => asked.push(act);
globalThis.cancelAnimationFrame = () => (asked = []);
globalThis.performance = { now: () => now };
const { buildPlayer } = await import("../../../viz/web/player.js");

let at, shown, player;
const film = {
  at: () => at,
  last: () => 9,
  start: () => at,
  leaps: true,
  go(frame) {
    at = frame;
    shown.push(frame);
  },
};

function wait(milliseconds) {
  now += milliseconds;
  asked.splice(0).forEach((act) => act(now));
}

beforeEach(() => {
  [at, shown, asked, now] = [2, [], [], 0];
  player = buildPlayer(new Element(), [["play", "▶"], ["back", "‹", () => player.seek(at - 1)]], [[2, "2/s"], [4, "4/s"]], 2, film);
  player.speed.value = "2";
  player.name({ play: "Play", pause: "Pause", keys: "keys" });
});

test("it plays as many frames as the time asks for, and stops at the last one", () => {
  player.buttons.play.listeners.click();
  assert.equal(player.buttons.play.title, "Pause · keys");
  wait(400);
  assert.deepEqual(shown, [2]);
  wait(100);
  wait(1000);
  assert.deepEqual(shown, [2, 3, 5]);
  wait(60_000);
  assert.deepEqual([at, player.playing, player.buttons.play.title], [9, undefined, "Play · keys"]);
});

test("another speed counts from where it is chosen", () => {
  player.play(true);
  wait(500);
  player.speed.value = "4";
  player.speed.listeners.change();
  wait(500);
  assert.deepEqual(shown, [2, 3, 3, 5]);
});

test("who goes to a frame stops it there, and no farther than its ends", () => {
  player.play(true);
  player.buttons.back.listeners.click();
  wait(5000);
  assert.deepEqual([at, player.playing], [1, undefined]);
  player.seek(99);
  player.seek(-3);
  assert.deepEqual(shown, [2, 1, 9, 0]);
});

test("keys lead over it, but not those of a select, or with Ctrl", () => {
  const press = (key, more = {}) => player.steer({ key, target: { tagName: "DIV" }, preventDefault() {}, ...more });
  for (const key of ["ArrowRight", "PageUp", "End", "PageDown", "Home"]) assert.ok(press(key));
  assert.deepEqual(shown, [3, 4, 9, 8, 0]);
  assert.ok(!press("ArrowRight", { ctrlKey: true }) && !press("End", { target: { tagName: "SELECT" } }) && !press("a"));
  assert.ok(!press(" ", { target: { tagName: "BUTTON" } }) && press(" "));
  assert.ok(player.playing);
});
