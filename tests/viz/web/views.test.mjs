import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

globalThis.IntersectionObserver = class {
  observe() {}
  unobserve() {}
};
const { bus } = await import("../../../viz/web/bus.js");
const { isLater, markBehind, mount, readFrame, tryToDraw } = await import("../../../viz/web/views.js");
const { frame } = await import("./packed.mjs");

let drawn, ended;
const module = {
  default({ data }) {
    drawn.push(data[0]);
    return () => ended.push(data[0]);
  },
};

function host() {
  const attributes = new Map();
  const made = {
    attributes,
    title: "",
    toggleAttribute: (name, on) => (on ? attributes.set(name, "") : attributes.delete(name)),
    removeAttribute: (name) => attributes.delete(name),
  };
  return Object.assign(made, { getRootNode: () => made });
}

const sent = (moment, of = "session", live = []) => frame({ key: "heads", of, moment, live }, [moment]);
const give = (parentElement, moment, of) => mount("web/a", module, { parentElement, key: "heads", data: sent(moment, of), setTriggerValue() {}, setStateValue() {} });

beforeEach(() => {
  [drawn, ended] = [[], []];
  bus.views.clear();
  bus.frames.clear();
  bus.channel = undefined;
});

test("the newest frame is painted, and never an older one", () => {
  const parent = host();
  for (const moment of [3, 2, 5, 4, 5]) give(parent, moment);
  assert.deepEqual(drawn, [3, 5]);
});

test("one that came by the channel before the view was mounted counts", () => {
  bus.frames.set("heads", readFrame(sent(7)));
  give(host(), 6);
  assert.deepEqual(drawn, [7]);
});

test("of two sessions the one that comes later counts, whatever its clock says", () => {
  const parent = host();
  give(parent, 9, "one");
  give(parent, 2, "other");
  assert.deepEqual(drawn, [9, 2]);
  assert.ok(!isLater(readFrame(sent(9, "one")), readFrame(sent(2, "other"))));
});

test("a call that a later one has overtaken ends nothing", () => {
  const parent = host();
  const [first, second] = [give(parent, 1), give(parent, 2)];
  first();
  assert.deepEqual([ended, bus.views.size], [[], 1]);
  second();
  assert.deepEqual([ended, bus.views.size], [[2], 0]);
});

test("a click goes by the channel where that answers it, else by Streamlit", () => {
  const [channel, script] = [[], []];
  let ways;
  const clicked = { default: (given) => void (ways = given) };
  const given = { parentElement: host(), key: "heads", data: sent(1, "session", ["head"]), setTriggerValue: (...what) => script.push(what) };
  mount("web/a", clicked, given);
  ways.setTriggerValue("head", 1);
  bus.channel = { isOpen: () => true, send: (message) => channel.push(message) };
  ways.setTriggerValue("head", 2);
  ways.setTriggerValue("about", 3);
  assert.deepEqual(script, [["head", 1], ["about", 3]]);
  assert.deepEqual(channel, [{ answer: "heads", name: "head", value: 2 }]);
});

test("what cannot be drawn leaves the others alone, and what is of the text before says so", (context) => {
  context.mock.method(console, "error", () => {});
  give(host(), 1);
  const view = bus.views.get("heads");
  view.module = { default: () => assert.fail("broken") };
  tryToDraw(view, readFrame(sent(2)));
  assert.ok(view.failed);
  bus.channel = { words: { behind: "of the text before" } };
  markBehind(view, true);
  assert.equal(view.parent.title, "of the text before");
  assert.ok(view.parent.attributes.has("data-behind"));
  markBehind(view, false);
  assert.equal(view.parent.attributes.size, 0);
});
