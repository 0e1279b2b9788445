import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.__vitrine = Object.assign(new EventTarget(), { lit: {}, views: new Map() });
const { LEVELS, movedWeights } = await import("../../../viz/pages/map/map_drawing.js");

test("how much of a head's weight moved is half of what its weights changed, in the mean over its queries", () => {
  const top = 0.8;
  const level = (change) => 1 + Math.round(((change / top + 1) / 2) * (LEVELS - 1));
  const still = level(0);
  const levels = Uint16Array.from([still, still, still, 0, level(-0.8), level(0.8), level(0.2), level(-0.2)]);
  const [first, second] = movedWeights(levels, [2, 2, 2], top);
  assert.ok(Math.abs(first) < 1e-4);
  assert.ok(Math.abs(second - (0.8 + 0.2) / 2) < 1e-4);
});
