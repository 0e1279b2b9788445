// The scripts of all components, which come to the page once, behind one that every page has.
const texts = TEXTS; // by the names of the parts
const modules = new Map(); // by the names of all their parts
globalThis[LIBRARY] ??= Promise.withResolvers();

// The module of these parts, one after the other.
globalThis[LIBRARY].resolve((parts) => {
  const name = parts.join(" ");
  if (!modules.has(name)) {
    const named = `//# sourceURL=vitrine_${parts.at(-1)}.js\n`; // for the browser's tools
    const text = new Blob([...parts.map((part) => texts[part]), named], { type: "text/javascript" });
    modules.set(name, import(URL.createObjectURL(text)));
  }
  return modules.get(name);
});
