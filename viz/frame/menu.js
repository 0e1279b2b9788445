// The menu of the page, in the visitor's language: theme, presenting, print, the page as a file, its link. Streamlit's own, which is in English,
// is hidden.

import { element, newRoot, write } from "../web/elements.js";
import { bus } from "../web/bus.js";
import { nearestFigure } from "../web/figures.js";
import { buildLink } from "../web/link.js";
import { newPopover } from "../web/popover.js";
import { listenToFolds } from "./explanations.js";
import { translateLists } from "./list_words.js";
import { answered, wholePage } from "./page_file.js";
import { listen, present } from "./present.js";
import { uncoverPage } from "./sidebar.js";
import { listenToKeys } from "./present_keys.js";
import { begin } from "./tour.js";

/** @type {Record<string, string>} */
const BUTTONS = { file: "save", lesson: "lesson", notebook: "notebook" }; // their words
const THEMES = ["System", "Light", "Dark"]; // as Streamlit calls them

// Streamlit keeps the theme by the path of the page on which a visit began.
/** @param {string} path */
const stored = (path) => `stActiveTheme-${path}-v2`;

function theme() {
  try {
    return JSON.parse(localStorage.getItem(stored(location.pathname)) ?? '"System"');
  } catch {
    return "System";
  }
}

// By its own hidden menu: it has no other way.
/** @param {string} name */
async function choose(name) {
  /** @type {HTMLElement | null} */
  const opener = document.querySelector('[data-testid="stMainMenuButton"]');
  const open = () => opener?.getAttribute("aria-expanded") === "true";
  if (!open()) opener?.click();
  await new Promise(requestAnimationFrame);
  const items = document.querySelectorAll('[data-testid="stThemeSwitcher"] [role^="menuitem"]');
  /** @type {HTMLElement | undefined} */ (items[THEMES.indexOf(name)])?.click();
  await new Promise(requestAnimationFrame);
  if (open()) opener?.click();
  try {
    /** @type {NodeListOf<HTMLAnchorElement>} */
    const links = document.querySelectorAll('[data-testid="stSidebar"] a[href]');
    const first = new URL("../../../", import.meta.url); // web/VERSION/frame/ is within it
    for (const { pathname } of [first, location, ...links]) localStorage.setItem(stored(pathname), JSON.stringify(name));
  } catch {
    /* no storage is allowed: it stays until the page is loaded again */
  }
}

/** @param {HTMLElement} parentElement */
function buildMenu(parentElement) {
  const root = newRoot(parentElement, "menu_of_page");
  const { opener, panel } = newPopover("dots");
  opener.textContent = "⋮";
  root.append(opener, panel);
  root.opener = opener;
  root.heading = panel.appendChild(element("div", "part"));
  root.themes = panel.appendChild(element("div", "themes"));
  for (const name of THEMES) {
    const button = root.themes.appendChild(element("button"));
    button.type = "button";
    button.addEventListener("click", async () => {
      await choose(name);
      showThemes(root);
    });
  }
  panel.addEventListener("beforetoggle", () => showThemes(root));
  for (const name of ["present", "class", "print", "file", "lesson", "notebook", "tour"]) {
    root[name] = panel.appendChild(element("button", `item ${name}`));
    root[name].type = "button";
  }
  root.link = buildLink("item link", (address) => root.askCode(address));
  root.print.before(root.link.opener, root.link.panel);
  root.present.addEventListener("click", () => {
    panel.hidePopover();
    present(nearestFigure());
  });
  root.class.addEventListener("click", () => {
    panel.hidePopover();
    root.beginClass();
  });
  root.tour.addEventListener("click", () => {
    panel.hidePopover();
    bus.tour?.();
  });
  root.print.addEventListener("click", () => {
    panel.hidePopover();
    window.print();
  });
  root.file.addEventListener("click", () => saveFile(root, panel, "file", "html", () => wholePage(root.words, root)));
  root.lesson.addEventListener("click", () => saveFile(root, panel, "lesson", "html", () => madeFile(root, "lesson", "text/html")));
  root.notebook.addEventListener("click", () => saveFile(root, panel, "notebook", "ipynb", () => madeFile(root, "notebook", "application/x-ipynb+json")));
  return root;
}

/** @param {Root} root */
function showThemes(root) {
  const now = theme();
  [...root.themes.children].forEach((button, index) => button.setAttribute("aria-pressed", THEMES[index] === now));
}

// A file that the server writes.
/** @param {Root} root @param {string} kind @param {string} type */
async function madeFile(root, kind, type) {
  const handed = await answered((number) => root.make({ number, kind }));
  if (!handed?.file) throw new Error(root.words.unanswered);
  return new Blob([handed.file], { type });
}

// name: of the button; make: gives the file.
/** @param {Root} root @param {HTMLElement} panel @param {string} name @param {string} ending @param {() => Promise<Blob>} make */
async function saveFile(root, panel, name, ending, make) {
  const { words } = root;
  root[name].disabled = true;
  write(root[name], words.saving);
  try {
    const link = element("a");
    link.href = URL.createObjectURL(await make());
    const lesson = name === "lesson" && new URLSearchParams(location.search).get("lesson");
    link.download = `vitrine-${lesson || location.pathname.replaceAll("/", "") || "map"}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    panel.hidePopover();
    write(root[name], words[BUTTONS[name]]);
  } catch (error) {
    console.warn(`${name} was not saved: ${error}`);
    write(root[name], words.unsaved);
  }
  root[name].disabled = false;
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildMenu(parentElement);
  const words = (root.words = data.words);
  if (root.model !== undefined && root.model !== data.model && !data.trained) uncoverPage(); // another model was chosen there
  root.model = data.model;
  root.askCode = (/** @type {string} */ address) => setTriggerValue("code", address);
  root.link.show(data.link, data.code);
  root.prepare = (/** @type {number} */ number) => setTriggerValue("prepare", number);
  root.make = (/** @type {unknown} */ wish) => setTriggerValue("make", wish);
  bus.tour = () => begin(words, words.tour_steps);
  write(root.tour, words.tour);
  root.tour.title = words.tour_about;
  root.opener.title = words.menu;
  root.opener.setAttribute("aria-label", words.menu);
  write(root.heading, words.theme);
  THEMES.forEach((name, index) => write(root.themes.children[index], words[name]));
  listen(words);
  listenToKeys();
  listenToFolds();
  translateLists(words.lists);
  write(root.present, words.present);
  root.present.title = words.presenting;
  root.beginClass = () => setTriggerValue("class", performance.now());
  write(root.class, words.class);
  root.class.title = words.classes;
  root.class.hidden = !words.class;
  write(root.print, words.print);
  root.file.title = words.explanation;
  root.notebook.title = words.notebook_explanation;
  root.lesson.title = words.lesson_explanation;
  root.lesson.hidden = !words.lesson;
  for (const [name, word] of Object.entries(BUTTONS)) if (!root[name].disabled) write(root[name], words[word]);
}
