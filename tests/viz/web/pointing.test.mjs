import assert from "node:assert/strict";
import { test } from "node:test";

import { cellAt } from "../../../viz/web/heat.js";
import { panelAt } from "../../../viz/web/panels.js";

const canvas = { getBoundingClientRect: () => ({ left: 10, top: 20 }) };
const at = (clientX, clientY) => ({ clientX, clientY });

test("the cell under the pointer, and none beside the map", () => {
  const root = { canvas, place: { left: 100, top: 50, wide: 20, high: 10, count: { rows: 3, columns: 2 } } };
  assert.deepEqual(cellAt(root, at(110, 70)), { row: 0, column: 0 });
  assert.deepEqual(cellAt(root, at(149.9, 99.9)), { row: 2, column: 1 });
  for (const [x, y] of [[109.9, 75], [150, 75], [120, 69.9], [120, 100]]) assert.deepEqual(cellAt(root, at(x, y)), { row: -1, column: -1 });
});

test("a panel's cell, and its labels where these can be clicked", () => {
  const place = { left: 40, from: 0, top: 60, wide: 10, high: 10, count: [2, 3], labelled: 8 };
  const places = [place, { ...place, left: 140, from: 100 }];
  const root = { canvas, place: { places }, shown: { header: { panels: [{ choose: true }, {}] } } };
  assert.deepEqual(panelAt(root, at(55, 95)), { panel: 0, row: 1, column: 0 });
  assert.deepEqual(panelAt(root, at(175, 85)), { panel: 1, row: 0, column: 2 });
  assert.deepEqual(panelAt(root, at(20, 85)), { panel: 0, row: 0, column: -1 });
  assert.deepEqual(panelAt(root, at(55, 60)), { panel: 0, row: -1, column: 0 });
  assert.deepEqual(panelAt(root, at(120, 85)), { panel: -1, row: -1, column: -1 });
});
