// The menu of the page, in the visitor's language: theme, presenting, print, the page as a file. Streamlit's own, which is in English,
// is hidden.

import { element, newRoot, write } from "../web/elements.js";
import { newPopover } from "../web/popover.js";
import { wholePage } from "./page_file.js";
import { listen, present } from "./present.js";

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
  [root.present, root.print, root.file] = ["present", "print", "file"].map((name) => panel.appendChild(element("button", `item ${name}`)));
  root.present.type = root.print.type = root.file.type = "button";
  root.present.addEventListener("click", () => {
    panel.hidePopover();
    present();
  });
  root.print.addEventListener("click", () => {
    panel.hidePopover();
    window.print();
  });
  root.file.addEventListener("click", () => saveFile(root, panel));
  return root;
}

/** @param {Root} root */
function showThemes(root) {
  const now = theme();
  [...root.themes.children].forEach((button, index) => button.setAttribute("aria-pressed", THEMES[index] === now));
}

/** @param {Root} root @param {HTMLElement} panel */
async function saveFile(root, panel) {
  const { words } = root;
  root.file.disabled = true;
  write(root.file, words.saving);
  try {
    const link = element("a");
    link.href = URL.createObjectURL(await wholePage(words, root));
    link.download = `vitrine-${location.pathname.replaceAll("/", "") || "map"}.html`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    panel.hidePopover();
  } finally {
    root.file.disabled = false;
    write(root.file, words.save);
  }
}

/** @param {Given} given */
export default function ({ data: words, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildMenu(parentElement);
  root.words = words;
  root.prepare = (/** @type {number} */ number) => setTriggerValue("prepare", number);
  root.opener.title = words.menu;
  root.opener.setAttribute("aria-label", words.menu);
  write(root.heading, words.theme);
  THEMES.forEach((name, index) => write(root.themes.children[index], words[name]));
  listen({ before: words.before, next: words.next, end: words.end });
  write(root.present, words.present);
  root.present.title = words.presenting;
  write(root.print, words.print);
  root.file.title = words.explanation;
  if (!root.file.disabled) write(root.file, words.save);
}
