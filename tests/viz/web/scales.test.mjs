import assert from "node:assert/strict";
import { test } from "node:test";

import { axisMarks, marksOf, placeOn, range, scaleOf, shade, spread, ticks } from "../../../viz/web/scales.js";

const texts = (marks) => marks.map(([, text]) => text);
const numbers = (marks) => marks.map(([value]) => value);

test("ticks have both ends and round numbers that leave these their room", () => {
  assert.deepEqual(ticks(0, 1, 5), [[0, "0"], [0.2, "0.2"], [0.4, "0.4"], [0.6000000000000001, "0.6"], [0.8, "0.8"], [1, "1"]]);
  assert.deepEqual(texts(ticks(-2, 2, 4)), ["−2", "−1", "0", "1", "2"]);
  for (const [low, high] of [[0, 0.0001], [-3, 700], [0.3, 0.31]]) {
    const found = numbers(ticks(low, high, 5));
    assert.equal(found[0], low);
    assert.equal(found.at(-1), high);
    assert.ok(found.length <= 8 && found.every((value, index) => !index || value > found[index - 1]));
  }
});

test("a value's place is between the ends of its scale, whatever it is", () => {
  const scale = { low: 0, high: 4, title: "", difference: false };
  assert.deepEqual([-1, 0, 1, 4, 9].map((value) => placeOn(scale, value)), [0, 0, 0.25, 1, 1]);
  const both = { low: -2, high: 2, title: "", difference: true };
  assert.deepEqual([-2, -1, 0, 2].map((value) => placeOn(both, value)), [0, 0.25, 0.5, 1]);
  assert.equal(shade(2, both), 255);
});

test("a logarithmic scale begins at its floor, on both sides of 0", () => {
  const scale = { low: 0, high: 1, floor: 0.001, title: "", difference: false };
  const places = [0.0001, 0.001, 0.1, 1].map((value) => placeOn(scale, value).toFixed(3));
  assert.deepEqual(places, ["0.000", "0.000", "0.667", "1.000"]);
  assert.deepEqual(texts(marksOf(scale, 5)), ["0.001", "0.01", "0.1", "1"]);
  const both = { ...scale, low: -1 };
  assert.equal(placeOn(both, -1), 0);
  assert.equal(placeOn(both, 1), 1);
  assert.equal(marksOf(both, 9)[0][1], "±0.001");
});

test("the range of an axis is that of its values with room, and bars begin at 0", () => {
  assert.deepEqual(range({ title: "" }, [0, 10]), [-0.4, 10.4]);
  assert.deepEqual(range({ title: "", zero: true }, [5, 10]), [0, 10.4]);
  assert.deepEqual(range({ title: "", low: 1, high: 2 }, [5]), [1, 2]);
  assert.deepEqual(range({ title: "" }, [NaN, Infinity]), [0, 1]);
  assert.deepEqual(range({ title: "", log: true }, [0, 1, 100]), [1, 100]);
  assert.deepEqual(range({ title: "", log: true }, [-1]), [0.1, 1]);
});

test("marks of an axis are round, and powers of ten on a logarithmic one", () => {
  assert.deepEqual(texts(axisMarks([0, 1000], false, 4)), ["0", "500", "1,000"]);
  assert.deepEqual(texts(axisMarks([0.001, 100000], true, 10)), ["0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000", "10⁵"]);
  assert.ok(axisMarks([3, 4], true, 5).length > 1);
  assert.deepEqual(texts(axisMarks([1.5e-5, 6e-5], true, 5)), ["2×10⁻⁵", "5×10⁻⁵"]); // written as powers are
  assert.deepEqual(texts(axisMarks([0, 0.0004], false, 2)), ["0", "0.0002", "0.0004"]); // as in text
});

test("a scale leads from values to places, by the logarithm where asked", () => {
  assert.equal(scaleOf([0, 10], false, 100, 200)(5), 150);
  assert.equal(scaleOf([1, 100], true, 200, 0)(10), 100);
});

test("up to forty labels that have too little room stand on levels, and none is left out; of more each k-th stands", () => {
  assert.deepEqual(spread(20, 20, 13), { every: 1, levels: 1 });
  assert.deepEqual(spread(20, 12, 13), { every: 1, levels: 2 });
  assert.deepEqual(spread(40, 5, 13), { every: 1, levels: 3 });
  assert.deepEqual(spread(40, 4, 13), { every: 4, levels: 1 });
  assert.deepEqual(spread(90, 14, 13), { every: 3, levels: 1 });
});
