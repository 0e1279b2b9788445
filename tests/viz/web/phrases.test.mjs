import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.__vitrine = Object.assign(new EventTarget(), { lit: {}, views: new Map() });
const { phrases } = await import("../../../viz/web/phrases.js");

test("a line in Chinese ends between two words, not between a number and what it counts, nor before a sign", () => {
  const heading = "416 个输出中有 12 个为 NaN，第 3 层的“了”看“车”：0.359 → 0.351";
  const pieces = phrases(heading);
  assert.equal(pieces.join(""), heading);
  const starts = pieces.map((_, at) => pieces.slice(0, at).join("").length);
  for (const torn of ["个输出", "出中", "个为", "，", "3 层", "层的", "的“", "了”", "”看", "：", "59", "→"]) {
    assert.ok(!starts.includes(heading.indexOf(torn)), torn);
  }
  assert.ok(phrases("最难预测的词元：0.796 奈特").every((piece) => !/^(元|特)/.test(piece)), "words that no dictionary has");
  for (const whole of ["输出", "12", "“了", "“车", "0.351"]) assert.ok(starts.includes(heading.indexOf(whole)), whole);
});
