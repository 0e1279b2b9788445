import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { test } from "node:test";
import { Script } from "node:vm";

import { linked } from "../../../viz/web/link.js";

const VIZ = new URL("../../../viz/", import.meta.url);
const read = (path) => readFile(new URL(path, VIZ), "utf8");
const run = (text) => new Script(`(() => {${text}\nreturn modules;})()`).runInThisContext();

test("modules become one script: each once, behind what it imports, names private", async () => {
  const files = {
    "web/a.js": 'import { two as both } from "./b.js";\n\nconst own = 1;\nexport const sum = () => own + both();\n',
    "web/b.js": "const own = 2;\nexport function two() {\n  return own;\n}\n",
    "pages/c/d.js": 'import { two } from "../../web/b.js";\nimport {\n  sum,\n} from "../../web/a.js";\n\nexport default function () {\n  return [two(), sum()];\n}\n',
  };
  const text = await linked(["pages/c/d.js", "web/a.js"], async (path) => files[path]);
  assert.equal(text.split("const own = 2").length, 2);
  const modules = run(text);
  assert.deepEqual(modules["pages/c/d.js"].default(), [2, 3]);
  assert.deepEqual(Object.keys(modules["web/b.js"]), ["two"]);
});

test("every module of ours can be linked", async () => {
  const folders = ["web", "frame", ...(await readdir(new URL("pages/", VIZ))).map((name) => `pages/${name}`)];
  for (const folder of folders) {
    const names = await readdir(new URL(`${folder}/`, VIZ)).catch(() => []);
    for (const name of names.filter((each) => each.endsWith(".js"))) {
      const text = await linked([`${folder}/${name}`], read);
      assert.doesNotMatch(text.replaceAll("import.meta.url", ""), /^(import|export)\b/m);
      new Script(text.replaceAll("import.meta.url", '""'));
    }
  }
});
