// In a saved page: views drawn again from their bytes, over their pictures, by the scripts of their components (MODULES,
// by the names of all their parts). Clicks do what needs no server; all others are quiet, and look so.

const BLOCKED = ":host { --saved: 1; } canvas, button { cursor: default !important; } .head, .chip, .controls .step { cursor: pointer !important; }"
  + " button:disabled { pointer-events: none; } .go, .legend > button, .pin .act, .pieces .act, .changed .act { display: none !important; }";
const USES = { // buttons that do something here, by the component
  token_bar: ".chip, .changes .first > .act",
  steps: ".chip",
  head_grid: ".head",
  model_map: ".areas button",
  decoding_film: ".controls .step, .bars i",
};

const { views, choices, words } = JSON.parse(document.getElementById("vitrine-numbers").textContent);
const drawn = new Map(); // views by their keys

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

function* placesIn(root) {
  for (const node of root.querySelectorAll("*")) {
    if (node.dataset.view !== undefined) yield [node.dataset.view, node.shadowRoot ?? node];
    if (node.shadowRoot) yield* placesIn(node.shadowRoot);
  }
}

// A view's bytes, drawn in its place: for the first time, or others after a click.
function draw(view, bytes) {
  const { key, component, parent } = view;
  const trigger = (name, value) => {
    const shown = choices[`${key} ${name} ${JSON.stringify(value)}`] ?? {};
    for (const [other, text] of Object.entries(shown)) draw(drawn.get(other), bytesOf(text));
  };
  view.mount({ key, data: bytes, parentElement: parent, setTriggerValue: trigger, setStateValue: () => {} });
  const uses = usesOf(component);
  for (const button of parent.querySelectorAll("button")) button.disabled = !button.matches(uses);
}

const choosesHeads = Object.keys(choices).length > 0;

function usesOf(component) {
  const own = component === "head_grid" && !choosesHeads ? undefined : USES[component];
  return [".menu button", own].filter(Boolean).join(", ");
}

// Only what has a use here hears of clicks.
function quieten({ component, parent }) {
  const uses = usesOf(component);
  const stop = (event) => event.stopImmediatePropagation();
  parent.addEventListener("click", (event) => event.target.closest?.(uses) || stop(event), true);
  parent.addEventListener("keydown", (event) => event.target.tagName === "CANVAS" && ["Enter", " "].includes(event.key) && stop(event), true);
}

function mountAgain({ key, name, bytes }, parent) {
  const component = name.split(" ").at(-1);
  const pictures = [...parent.childNodes].filter(({ nodeName }) => nodeName !== "STYLE");
  for (const each of pictures) each.remove();
  try {
    const view = { key, component, parent, mount: MODULES[name]() };
    drawn.set(key, view);
    draw(view, bytesOf(bytes));
    const style = parent.appendChild(document.createElement("style"));
    style.textContent = BLOCKED;
    quieten(view);
    HINTS[component]?.(parent.querySelector(".vitrine"));
  } catch (error) {
    console.error(`${key} could not be drawn: ${error}`);
    drawn.delete(key);
    parent.replaceChildren(...[...parent.childNodes].filter(({ nodeName }) => nodeName === "STYLE"), ...pictures);
  }
}

// What cannot be clicked does not say that it can.
const HINTS = {
  head_grid(root) {
    const said = root.sent.words;
    if (!choosesHeads) said.caption = said.caption.replace(` · ${words.click}`, "");
    root.caption.textContent = said.caption;
  },
  model_map(model) {
    const root = model.querySelector(".model_map");
    root.shown.header.words.pointed = root.panel.hint.textContent = words.point;
  },
};

addEventListener("load", async () => {
  await document.fonts.ready; // text on a canvas does not change when its face comes
  const places = new Map(placesIn(document));
  for (const view of views) if (places.has(view.key)) mountAgain(view, places.get(view.key));
  document.body.classList.toggle("saved_alive", [...drawn.values()].some(({ component }) => component !== "token_bar"));
});
