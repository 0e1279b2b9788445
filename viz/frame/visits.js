import { element, newRoot } from "../web/elements.js";
import { bus } from "../web/bus.js";

// Pages and models are the steps of the browser's history: Back shows the one before. What else the address says is not.
/** @param {string} first */
const named = (first) => new URL(location.href).searchParams.get("model") ?? first;

const PATIENCE = 10_000; // milliseconds for which a model of another step of the history is awaited

// On a phone the menu lies over the page that was chosen in it.
function foldMenu() {
  if (!window.matchMedia("(max-width: 640px)").matches) return;
  document.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click();
}

// What is left of the page before is hidden until the chosen one is there, see learnt.js, or for a while. Streamlit says of
// elements that they are left, not of what folds: that is known by its key, as it may be made into the new page's own.
function turned() {
  const page = document.documentElement;
  const folds = document.querySelectorAll('.stMain [class*="st-key-"]:has(> .stExpander)');
  const keys = [...folds].map(({ classList }) => [...classList].find((name) => name.startsWith("st-key-")));
  bus.left ??= document.head.appendChild(element("style"));
  /** @param {string} key */
  const row = (key) => `[data-testid="stLayoutWrapper"]:has(.${key}):not(:has(.stElementContainer:not([data-stale="true"])))`;
  const rules = keys.map((key) => CSS.escape(key)).map((key) => `html[data-turned] :is(.${key}, ${row(key)}) { display: none; }`);
  bus.left.textContent = rules.join("\n");
  page.toggleAttribute("data-turned", true);
  clearTimeout(bus.turning);
  bus.turning = setTimeout(() => page.toggleAttribute("data-turned", false), 15_000);
}

// Streamlit would make a step of every choice, and Back would lead through all of them.
function stepsOfPages() {
  const push = history.pushState.bind(history);
  history.pushState = (state, title, address) => {
    const same = new URL(address ?? location.href, location.href).pathname === location.pathname;
    if (same) history.replaceState(state, title, address);
    else {
      push(state, title, address);
      foldMenu();
      turned();
      bus.dispatchEvent(new Event("turned")); // the header folds on a phone
    }
  };
  return push;
}

/** @param {Given} given */
export default function ({ data: { model, first, language }, parentElement, setTriggerValue }) {
  document.documentElement.lang = language;
  if (!parentElement.querySelector(".vitrine")) newRoot(parentElement, "");
  const begins = !bus.visits;
  const visits = (bus.visits ??= { model, address: location.href, push: stepsOfPages() });
  visits.show = (/** @type {string} */ name) => setTriggerValue("model", name);
  visits.first = first;
  if (model !== visits.model && visits.asked === undefined) {
    const now = new URL(location.href); // Streamlit has put the model there, or will do so at once
    now.searchParams.set("model", model);
    history.replaceState(history.state, "", visits.address);
    visits.push(history.state, "", now);
  }
  visits.model = model;
  if (model === visits.asked) visits.asked = undefined;
  if (!begins) return;
  window.addEventListener("popstate", () => {
    const wanted = named(visits.first);
    if (wanted === (visits.asked ?? visits.model)) return; // Forward may come while Back is still on its way
    visits.asked = wanted;
    clearTimeout(visits.asking);
    visits.asking = setTimeout(() => (visits.asked = undefined), PATIENCE);
    visits.show(wanted);
  });
  setInterval(() => {
    if (named(visits.first) === visits.model) visits.address = location.href; // as it stands before another is chosen
  }, 250);
}
