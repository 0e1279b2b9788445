// Modules as one script that imports nothing, for a saved page: each becomes a function that gives what it exports. They
// must import names alone, and export functions and constants where they stand.

const IMPORTS = /^import \{([^}]*)\} from "([^"]+)";$/gm;
const EXPORTS = /^export (?=(?:async )?(?:function\*?|const) (\w+))/gm;

/** @param {string} path @param {string} from */
const resolved = (path, from) => new URL(path, `file:///${from}`).pathname.slice(1);

// The script of these modules and of those that they import, each once and behind what it imports. read(path): a module's
// text. In the script `modules[path]` is what a module exports.
/** @param {string[]} paths @param {(path: string) => Promise<string>} read */
export async function linked(paths, read) {
  const parts = new Map();
  /** @param {string} path */
  const add = async (path) => {
    if (parts.has(path)) return;
    parts.set(path, "");
    const text = await read(path);
    const needed = [...text.matchAll(IMPORTS)].map(([, , other]) => resolved(other, path));
    for (const each of needed) await add(each);
    parts.delete(path);
    parts.set(path, asFunction(path, text));
  };
  for (const path of paths) await add(path);
  return `const modules = {};\n${[...parts.values()].join("\n")}`;
}

/** @param {string} path @param {string} text */
function asFunction(path, text) {
  const names = [...text.matchAll(EXPORTS)].map(([, name]) => name);
  const body = text
    .replace(IMPORTS, (_, imported, other) => `const {${imported.replaceAll(" as ", ": ")}} = modules[${JSON.stringify(resolved(other, path))}];`)
    .replace(EXPORTS, "")
    .replace(/^export default /m, "exported.default = ");
  return `modules[${JSON.stringify(path)}] = ((exported) => {\n${body}\nreturn Object.assign(exported, { ${names.join(", ")} });\n})({});`;
}
