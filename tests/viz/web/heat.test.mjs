import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.__vitrine = Object.assign(new EventTarget(), { lit: {}, views: new Map() });
globalThis.innerHeight = 900;
globalThis.document = { documentElement: { dataset: {} } };
const { arrange } = await import("../../../viz/web/heat.js");

const measure = Object.assign((/** @type {string} */ label) => 7.2 * [...label].length, { words: (/** @type {string} */ text) => 6.5 * text.length });
const arranged = (labels, width, title = "query (from)") =>
  arrange({ rows: { title, labels: ["a", "b"] }, columns: { title: "key (to)", labels }, scale: { low: 0, high: 1, title: "weight" } }, width, 1, measure);

test("labels of columns are as far apart as a lit one is high, however they are turned", () => {
  const texts = [["<s>", "她", "昨天", "买", "</s>"], ["·She", "·bought", "·yesterday", "."], Array.from({ length: 24 }, (_, at) => `unit ${at}`)];
  for (const labels of texts) {
    for (let width = 180; width < 1200; width += 7) {
      const { turns, wide, every, levels } = arranged(labels, width);
      const apart = wide * every.columns * levels;
      turns.forEach((turn, column) => {
        if (turn === 0) assert.ok(measure(labels[column]) + 6 <= wide);
        else assert.ok((turn === -45 ? 0.71 * apart : apart + 3) >= 16, `${labels[column]} in ${width}: ${turn}`);
      });
    }
  }
});

test("where all words fit, a special token that does not is turned by itself", () => {
  const { turns, wide } = arranged(["<s>", "r", "e", "v", "</s>"], 200);
  assert.ok(wide < measure("</s>"));
  assert.deepEqual(turns.slice(1), [0, 0, 0, -90]);
});

test("between slanted words a special token stands upright where it fits", () => {
  const labels = ["·She", "·bought", "·yesterday", "</s>"];
  const slanted = Array.from({ length: 100 }, (_, at) => arranged(labels, 200 + 5 * at)).filter(({ turns }) => turns[2] === -45);
  assert.ok(slanted.some(({ turns }) => turns[3] === 0));
  for (const { turns, wide } of slanted) assert.equal(turns[3], measure("</s>") + 6 > wide ? -45 : 0);
});

test("a title of one sign stands beside its axis, and has its room; a longer one is turned", () => {
  const [short, long] = ["σ", "query (from)"].map((title) => arranged(["a"], 300, title));
  assert.deepEqual([short.titles.rows.turn, long.titles.rows.turn], [0, 90]);
  assert.ok(short.left > long.left);
});

test("on a phone so few ranks are shown that their words are whole", () => {
  const texts = ["✓ ·yesterday", "·today", "·now", "·then", "✓ </s>", ".", "!", "?"];
  const ranked = (width) =>
    arrange({ rows: { title: "position", labels: ["a", "b"] }, columns: { title: "rank", labels: ["1", "2", "3", "4"] }, scale: { low: 0, high: 1, title: "p" }, texts, ranked: true }, width, 1, measure);
  const phone = ranked(370);
  assert.ok(phone.count.columns >= 2 && phone.count.columns < 4);
  assert.ok(phone.held.every((words, cell) => cell % 4 >= phone.count.columns || words === texts[cell]));
  assert.equal(ranked(1000).count.columns, 4);
});
