import assert from "node:assert/strict";
import { test } from "node:test";

import { about, exact, largest, percent, precise, precisionOf, significant } from "../../../viz/web/numbers.js";

test("three digits on the screen", () => {
  assert.deepEqual([0, 1, -0.5, 0.12345, 999.9, -1234, 1.234e6, 0.000439, -1e-9].map(significant), ["0", "1.00", "−0.500", "0.123", "1,000", "−1,234", "1.23×10⁶", "0.000439", "−1.00×10⁻⁹"]);
  assert.deepEqual([Infinity, -Infinity, NaN].map(significant), ["∞", "−∞", "NaN"]);
});

test("four digits of what is pointed at, with a true minus", () => {
  assert.deepEqual([0, 1, -0.547019482, 0.12345, 12345, -1e-9, NaN].map(precise), ["0", "1", "−0.547", "0.1235", "12,345", "−10⁻⁹", "NaN"]);
});

test("a float32 is read back from what is written of it", () => {
  for (const value of new Float32Array([0.1, 1 / 3, 123456789, -1e-30])) assert.equal(Math.fround(Number(exact(value))), value);
});

test("a number that may be off says so where three digits would promise more", () => {
  assert.equal(about(0.5, 0), "0.500");
  assert.equal(about(0.5, 0.002), "0.5 ± 0.0021");
  assert.equal(about(0.5, 0.0001), "0.500");
  assert.deepEqual(precisionOf(0.5 / 255), { digits: 4, off: 0.0021 });
});

test("what is not finite is not the largest", () => {
  assert.equal(largest([1, -3, NaN, Infinity]), 3);
  assert.equal(largest(new Float32Array()), 0);
});

test("a share has one form, in the browser too", () => {
  assert.deepEqual([0, 0.1077, 0.0003, 1].map((share) => percent(share)), ["0\u00a0%", "10.8\u00a0%", "< 0.1\u00a0%", "100.0\u00a0%"]);
});
