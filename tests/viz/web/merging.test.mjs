import assert from "node:assert/strict";
import { test } from "node:test";

import { bus } from "../../../viz/web/bus.js";
import { filmError, filmLabels, filmShape, filmWeights, forgetFilm, frameAt, goToFrame, isFilmed, lastOfRun, overRuns, receiveFilm } from "../../../viz/web/film_store.js";

globalThis.CustomEvent ??= Event; // Node 18 has none

const HEADER = {
  edition: 1,
  run: 1,
  steps: [0, 10],
  kinds: { cross: { first: 0, shape: [1, 1, 2, 3], rows: "target", columns: "source" } },
  tokens: { source: ["un", "able", "."], target: ["a", "b"] },
  runs: {},
  answers: [],
  names: { 4: "d" },
  keys: [],
  ranks: 1,
  words: {},
};
const RUNS = { source: { firsts: [0, 2], labels: ["unable", "."] } };
const arrays = (steps) => [
  Int32Array.from(steps),
  Uint8Array.from(steps.flatMap(() => [100, 55, 100, 0, 55, 200])),
  Float32Array.from(steps),
  Int32Array.from(steps.map(() => 4)),
  Float32Array.from(steps.map(() => 1)),
  Float32Array.from(steps),
];

test("tokens of a run are averaged, or added up", () => {
  assert.deepEqual([...overRuns([1, 2, 3, 4, 5, 6], 3, [0, 2])], [1.5, 3, 4.5, 6]);
  assert.deepEqual([...overRuns([1, 2, 3, 4, 5, 6], 3, [0, 2], { mean: false })], [3, 3, 9, 6]);
  assert.deepEqual([...overRuns([1, 2, 3, 4, 5, 6], 3, [0, 1], { rest: 2 })], [1, 2, 4, 5]);
});

test("weights to a run are added up, those of its rows averaged, and their error grows", () => {
  assert.ok(receiveFilm({ ...HEADER, runs: RUNS }, arrays([0, 10])));
  assert.deepEqual([...filmWeights("cross", 10)], [155, 100, 55, 200]);
  assert.deepEqual(filmShape("cross"), [1, 1, 2, 2]);
  assert.deepEqual(filmLabels("source"), ["unable", "."]);
  assert.deepEqual([lastOfRun("source", 0), lastOfRun("source", 1), lastOfRun("target", 1)], [1, 2, 1]);
  assert.ok(isFilmed("cross", ["a", "b"], ["unable", "."]));
  assert.ok(!isFilmed("cross", ["a", "b"], ["un", "able", "."]));
  const merged = filmError("cross");
  receiveFilm(HEADER, arrays([]));
  assert.deepEqual([...filmWeights("cross", 10)], [100, 55, 100, 0, 55, 200]);
  assert.ok(filmError("cross") < merged);
});

test("a frame that is lacking is known, and the film stands where one put it", () => {
  forgetFilm();
  assert.ok(!receiveFilm(HEADER, arrays([0])));
  assert.ok(receiveFilm({ ...HEADER, names: {} }, arrays([10])));
  goToFrame(0);
  assert.deepEqual([bus.at, frameAt()], [0, 0]);
  goToFrame(5);
  assert.deepEqual([bus.at, frameAt()], [null, 1]);
  goToFrame(0);
  receiveFilm({ ...HEADER, edition: 2, run: 2 }, arrays([0, 10]));
  assert.equal(bus.at, null);
});
