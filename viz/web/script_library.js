// The scripts of all components, which come to the page once, behind one that every page has; and the views that they
// draw, by their keys in `bus.views`: each shows the newest frame that it has seen, whichever way that came.
const texts = (bus.scripts = TEXTS); // by the names of the parts
const modules = new Map(); // by the names of all their parts
globalThis[LIBRARY] ??= Promise.withResolvers();
globalThis[LIBRARY].resolve({ read: readParts, mount: mountView });

// The module of these parts, one after the other.
function readParts(parts) {
  const name = parts.join(" ");
  if (!modules.has(name)) {
    const named = `//# sourceURL=vitrine_${parts.at(-1)}.js\n`; // for the browser's tools
    const text = new Blob([...parts.map((part) => texts[part]), named], { type: "text/javascript" });
    modules.set(name, import(URL.createObjectURL(text)));
  }
  return modules.get(name);
}

// A component of these parts that Streamlit mounts, or mounts again. What is no view is drawn as it is given.
function mountView(module, parts, given) {
  if (!(given.data instanceof Uint8Array)) return module.default(given);
  const frame = readFrame(given.data);
  const { key } = frame;
  let view = bus.views.get(key);
  if (view?.parent !== given.parentElement) {
    bus.views.set(key, (view = { parent: given.parentElement, moment: -1 }));
    watchView(view, key);
  }
  Object.assign(view, { module, parts, given });
  const waiting = bus.frames.get(key);
  drawView(view, isLater(waiting, frame) ? waiting : frame);
  if (!channel.isOpen()) markBehind(view, false); // no other frame of it comes
  const turn = (view.turn = {});
  return () => {
    if (view.turn !== turn) return; // a later call has gone on with it
    view.end?.();
    if (bus.views.get(key) !== view) return;
    unwatchView(view, key);
    bus.views.delete(key);
  };
}
