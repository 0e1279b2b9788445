import assert from "node:assert/strict";
import { test } from "node:test";

import { unpack } from "../../../viz/web/bytes.js";
import { pack } from "./packed.mjs";

test("header and arrays come back, wherever in memory they lie", () => {
  const data = pack({ text: "我", none: null }, [new Uint8Array([1, 2, 3]), new Float32Array([0.5, NaN]), new Int32Array()]);
  const aside = new Uint8Array(data.length + 3);
  aside.set(data, 3);
  for (const bytes of [data, aside.subarray(3)]) {
    const { text, none, arrays } = unpack(bytes);
    assert.deepEqual([text, none], ["我", null]);
    assert.deepEqual(arrays, [new Uint8Array([1, 2, 3]), new Float32Array([0.5, NaN]), new Int32Array()]);
  }
});

test("what JSON does not have is read where the header says that there is such", () => {
  const losses = [{ "~": "NaN" }, { "~": "-Infinity" }, 1];
  assert.deepEqual(unpack(pack({ losses, escaped: true })).losses, [NaN, -Infinity, 1]);
  assert.deepEqual(unpack(pack({ losses })).losses, losses);
});
