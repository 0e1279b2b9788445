// What a step of a lesson points at, lit on the page: tokens, heads and controls get a ring, a cell of a large map a frame.

import { bus } from "../../web/bus.js";
import { paintSoon } from "../../web/plot.js";

const EVERY = 500; // milliseconds: figures come and go, and are drawn again
const RING = "2px solid currentColor";
const CONTROLS = 'button, summary, label, a, [role="radio"], [role="option"]';

/** @param {Element} each */
const written = (each) => ((each.matches("summary") ? each.querySelector("p") : each)?.textContent ?? "").trim(); // of a fold without its icon

// Shadow roots of the components that are mounted.
/** @returns {ParentNode[]} */
const roots = () => [...bus.views.values()].map(({ parent }) => parent).filter(Boolean);

/** @type {Record<string, (what: string) => any[]>} */
const PLACES = {
  token: (what) => roots().flatMap((root) => [...root.querySelectorAll(".chip")].filter((chip) => chip.title.replaceAll("▁", "").trim() === what)),
  head(what) {
    const name = what.split(".").map((part) => Number(part) + 1).join(".");
    return roots().flatMap((root) => [...root.querySelectorAll(".head")].filter((head) => head.querySelector(".name")?.textContent === name));
  },
  control(what) {
    const here = [document.querySelector(".stMain"), document.querySelector('[data-testid="stSidebar"]'), ...roots()];
    const all = here.flatMap((root) => [...(root?.querySelectorAll(CONTROLS) ?? [])]);
    return all.filter((each) => written(each) === what || written(each).startsWith(`${what} ·`));
  },
};

// The first thing of a step's lights that stands on the page itself, and not in its header or beside it.
/** @param {LessonLight[]} lights @returns {HTMLElement | undefined} */
export function lightOnPage(lights) {
  const all = lights.filter(({ kind }) => kind in PLACES).flatMap(({ kind, what }) => PLACES[kind](what));
  return all.find((each) => {
    const host = each.getRootNode().host ?? each;
    return each.offsetHeight && host.closest(".stMain") && !host.closest('.st-key-input_bar, .st-key-lesson_panel, [data-stale="true"]');
  });
}

const lit = new Set(); // elements that have a ring

/** @param {LessonLight[]} lights */
function light(lights) {
  const wanted = new Set(lights.filter(({ kind }) => kind in PLACES).flatMap(({ kind, what }) => PLACES[kind](what)));
  for (const each of lit) {
    if (wanted.has(each)) continue;
    each.style.outline = each.style.outlineOffset = "";
    lit.delete(each);
  }
  for (const each of wanted) {
    if (lit.has(each)) continue;
    [each.style.outline, each.style.outlineOffset] = [RING, "2px"];
    lit.add(each);
  }
  const cells = lights.filter(({ kind }) => kind === "cell").map(({ what }) => what.split(".").map(Number));
  for (const root of roots()) {
    const plot = root.querySelector(".vitrine.heatmap");
    if (!plot?.shown?.header.large || String(plot.shown.framed ?? "") === String(cells)) continue;
    plot.shown.framed = cells;
    paintSoon(plot);
  }
}

/** @type {LessonLight[]} */
let now = [];
let looking = 0;

// These are lit from now on; none: nothing is.
/** @param {LessonLight[]} lights */
export function showLights(lights) {
  now = lights;
  light(now);
  if (now.length && !looking) looking = Number(setInterval(() => light(now), EVERY));
  if (now.length || !looking) return;
  clearInterval(looking);
  looking = 0;
}
