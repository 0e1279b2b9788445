// Instead of a component's script, which would come again with each of its messages: it is in the library (script_library.js).
globalThis[LIBRARY] ??= Promise.withResolvers();

export default async function (given) {
  const { read, mount } = await globalThis[LIBRARY].promise;
  return mount(await read(PARTS), PARTS, given);
}
