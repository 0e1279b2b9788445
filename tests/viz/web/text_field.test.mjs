import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

const inserted = [];
const attributes = new Set();
Object.defineProperty(globalThis, "navigator", { value: { userAgent: "" }, configurable: true });
globalThis.window = globalThis;
globalThis.location = { href: "http://here.test/", search: "" };
globalThis.history = { replaceState() {} };
globalThis.document = {
  addEventListener() {},
  execCommand: (...what) => inserted.push(what),
  documentElement: { toggleAttribute: (name, on) => (on ? attributes.add(name) : attributes.delete(name)) },
};
const { bus } = await import("../../../viz/web/bus.js");
const { default: show, leave, pasted } = await import("../../../viz/web/text_field.js");
const { pack } = await import("./packed.mjs");

const HEADER = { label: "Text", first: "", placeholder: "", most: 10, words: { long: "long" } };

// A field whose value remembers who wrote it: what a script writes, the browser cannot undo.
function field(value) {
  const written = [];
  const input = { setAttribute() {}, get value() { return value; }, set value(text) { written.push((value = text)); } };
  const node = () => ({ textContent: "", replaceChildren() {} });
  return { written, root: { input, label: node(), note: node(), several: node(), dataset: {}, isConnected: true, stop() { leave(this); }, remove() {} } };
}

function give(root, text, edit) {
  const parentElement = { querySelector: () => root };
  return show({ data: pack({ ...HEADER, text, edit }), key: "source", parentElement, setStateValue() {}, setTriggerValue() {} });
}

beforeEach(() => {
  bus.fields.clear();
  inserted.length = 0;
});

test("what is pasted goes in as if it were typed, so that it can be undone", () => {
  const { root, written } = field("");
  Object.assign(root, { most: 10 });
  const event = { clipboardData: { getData: () => "a\r\nb\nc" }, preventDefault: () => inserted.push("prevented") };
  pasted(root, event);
  assert.deepEqual(inserted, ["prevented", ["insertText", false, "a⏎b⏎c"]]);
  assert.deepEqual(written, []);
  inserted.length = 0;
  pasted(root, { ...event, clipboardData: { getData: () => "abc" } });
  assert.deepEqual(inserted, []); // the browser does it
  pasted(root, { ...event, clipboardData: { getData: () => "x".repeat(1000) } });
  assert.equal(inserted.at(-1)[2].length, 11);
});

test("an answer that is as old as what stands there writes nothing, or undo would be lost", () => {
  const { root, written } = field("abc");
  give(root, "abc", 3);
  give(root, "ab", 2);
  assert.deepEqual(written, []);
  assert.equal(bus.fields.get("source").text, "abc");
});

test("a later text is written, but not while an input method composes", () => {
  const { root, written } = field("abc");
  give(root, "abc", 3);
  root.composing = true;
  give(root, "other", 4);
  assert.deepEqual(written, []);
  root.composing = false;
  give(root, "other", 4);
  assert.deepEqual(written, ["other"]);
});

test("what a field had to tell when it was taken off the page is learnt from one that is there", (context) => {
  const [learnt, timers] = [[], []];
  context.mock.method(globalThis, "setTimeout", (act) => timers.push(act));
  const mounted = (key, words) => {
    const { root } = field("");
    const parentElement = { querySelector: () => root };
    const setStateValue = (_name, typed) => learnt.push([key, words, typed.turn]);
    return show({ data: pack({ ...HEADER, text: "", edit: 0 }), key, parentElement, setStateValue, setTriggerValue() {} });
  };
  mounted("source", "before")();
  const end = mounted("target", "before");
  bus.learnLater(400); // a figure was pressed, and the page changes
  end();
  timers.shift()();
  assert.deepEqual(learnt, []);
  assert.ok(bus.due && attributes.has("data-unlearnt"));
  mounted("source", "after");
  timers.shift()();
  assert.deepEqual(learnt, [["source", "after", bus.turn]]);
  assert.equal(bus.due, false);
});
