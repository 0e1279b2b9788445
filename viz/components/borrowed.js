// Instead of a component's script, which would come again with each of its messages: it is in the library (library.js).
globalThis.__vitrineLibrary ??= Promise.withResolvers();

export default async function (given) {
  const read = await globalThis.__vitrineLibrary.promise;
  return (await read(PARTS)).default(given);
}
