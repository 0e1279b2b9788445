import { percent } from "../web/numbers.js";
import { unpack } from "../web/bytes.js";
import { element, ending, labelled, newRoot, shorten, write, writePath } from "../web/elements.js";
import { bus, hover, keepHeld, onHover } from "../web/bus.js";
import { lightChips, showChips, shown } from "../web/chips.js";
import { newPopover } from "../web/popover.js";

// The line of the header that stays in sight: both sides' tokens or, folded, the texts in small; the checks; the pin. What
// stands above it, texts and notes, scrolls away.

const AROUND = 10; // pixels between the header's upper edge and the line that stays
const ROOM = 20; // beside a token that is brought into sight
const PHONE = "(max-width: 640px)";
const BESIDE = 900; // pixels of the header from which two texts stand beside each other, as on a page beside a lesson they do not

/** @param {Root} root */
function placeHeader(root) {
  const { bar, cluster } = root;
  if (!bar || !cluster.offsetWidth) return; // while a page is changed the line is not laid out
  const stacked = bar.offsetWidth < BESIDE && !matchMedia(PHONE).matches && !root.classList.contains("one");
  for (const each of [root, bar.parentElement]) each.classList.toggle("stacked", stacked);
  fitLine(root);
  const above = cluster.getBoundingClientRect().top - bar.getBoundingClientRect().top - AROUND;
  const sticky = bar.parentElement;
  sticky.style.top = root.opened ? "0px" : `${-Math.max(0, above)}px`;
  sticky.style.setProperty("--cluster", `${cluster.offsetWidth}px`); // as wide is the column of the button above
}

// Where tokens are cut beside what is changed or pinned, the longer text takes what the shorter one leaves; where that is
// not enough, checks and changes are signs without words.
/** @param {Root} root */
function fitLine(root) {
  placePin(root);
  root.classList.remove("fitted", "tight");
  if (!root.classList.contains("crowded") || matchMedia(PHONE).matches) return;
  const cut = () => root.reels.some((/** @type {any} */ { row }) => row.scrollWidth > row.clientWidth + 1);
  for (const economy of ["fitted", "tight"]) if (cut()) root.classList.add(economy);
}

// What is pinned has a line of its own with the largest changes, so that tokens keep theirs. It scrolls away with the texts:
// then, and on a phone or folded, what is pinned is among the other buttons.
/** @param {Root} root */
function placePin(root) {
  const { opener, panel } = root.pinned;
  const pin = root.querySelector(".pin");
  root.pinLine.hidden = opener.hidden || root.classList.contains("folded") || matchMedia(PHONE).matches;
  const isAway = root.pinLine.hidden || (root.classList.contains("short") && !root.opened);
  const place = isAway ? root.cluster : root.pinLine;
  if (pin.parentElement !== place) for (const part of [pin, opener, panel]) place.insertBefore(part, place.lastElementChild);
  const [first] = root.largest.children;
  for (const each of root.largest.children) each.style.visibility = each.offsetTop > first.offsetTop ? "hidden" : ""; // there is no room
}

// The header on the page's background. By hand: CSS would need :has(), which the browser evaluates again at every change of
// the page, and Streamlit's colours are variables inside components only.
/** @param {Root} root @param {HTMLElement} parentElement */
function attachHeader(root, parentElement) {
  const host = parentElement.getRootNode().host ?? parentElement;
  const bar = host.closest(".st-key-input_bar");
  const texts = bar?.querySelector(".st-key-texts");
  if (!texts) return () => {};
  root.bar = bar;
  bar.parentElement.classList.add("vitrine-sticky");
  const paint = () => {
    bar.style.backgroundColor = getComputedStyle(host).getPropertyValue("--st-background-color");
    document.documentElement.style.setProperty("--vitrine-page", bar.style.backgroundColor); // of what lies over the page
  };
  paint();
  const themes = new MutationObserver(() => requestAnimationFrame(paint)); // another theme is chosen, by whom ever
  themes.observe(bar.closest(".stApp"), { attributeFilter: ["class"] });
  const sizes = new ResizeObserver(() => placeHeader(root));
  for (const part of [bar, root.cluster]) sizes.observe(part);
  const scrolled = new IntersectionObserver((entries) => {
    root.classList.toggle("short", entries[entries.length - 1].intersectionRatio < 0.5); // folded, or scrolled away
    showFold(root);
    fitLine(root);
  }, { threshold: 0.5 });
  scrolled.observe(texts);
  const ends = new AbortController();
  bar.addEventListener("focusin", () => root.classList.contains("short") && texts.contains(document.activeElement) && open(root, true), ends);
  bar.addEventListener("focusout", (/** @type {FocusEvent} */ { relatedTarget }) => bar.contains(relatedTarget) || open(root, false), ends);
  return () => {
    for (const each of [themes, sizes, scrolled]) each.disconnect();
    ends.abort();
  };
}

// The texts over the page, where that is scrolled.
/** @param {Root} root @param {boolean} opened */
function open(root, opened) {
  root.opened = opened;
  placeHeader(root);
  showFold(root);
}

// The browser remembers whether the header is folded: on pages about the text, and on others. On a phone it is, until it
// is opened, and again on the next page.
/** @param {Root} root */
const foldKey = (root) => (root.aside ? "vitrine.folded.aside" : "vitrine.folded");

/** @param {Root} root */
function isFolded(root) {
  if (root.toured) return false;
  if (matchMedia(PHONE).matches) return !root.unfolded;
  const key = foldKey(root);
  const usual = key === "vitrine.folded" ? "0" : "1";
  try {
    return (localStorage.getItem(key) ?? root.folds?.[key] ?? usual) === "1";
  } catch {
    return (root.folds?.[key] ?? usual) === "1"; // no storage is allowed: it stands so until the page is loaded again
  }
}

/** @param {Root} root */
function fold(root) {
  const folded = isFolded(root);
  root.classList.toggle("folded", folded);
  root.bar?.parentElement.classList.toggle("folded", folded);
  showFold(root);
  fitLine(root);
}

/** @param {Root} root */
function showFold(root) {
  const isOpen = !root.classList.contains("folded") && (root.opened || !root.classList.contains("short"));
  root.fold.setAttribute("aria-expanded", isOpen);
  nameButton(root.fold, isOpen ? root.words?.fold : root.words?.unfold);
}

/** @param {HTMLElement} button @param {string} name */
function nameButton(button, name) {
  button.title = name;
  button.setAttribute("aria-label", name);
}

/** @param {Root} root @param {string} folded */
function keepFold(root, folded) {
  const key = foldKey(root);
  root.folds = { ...root.folds, [key]: folded };
  try {
    localStorage.setItem(key, folded);
  } catch {
    /* see above */
  }
}

/** @param {Root} root */
function turnFold(root) {
  const [folded, isOpen] = [root.classList.contains("folded"), root.fold.getAttribute("aria-expanded") === "true"];
  const isScrolled = root.bar?.closest('[data-testid="stMain"]')?.scrollTop > 0;
  if (isOpen && root.opened && isScrolled) return open(root, false);
  if (folded || isOpen) {
    if (matchMedia(PHONE).matches) root.unfolded = folded;
    else keepFold(root, folded ? "0" : "1");
    fold(root);
  }
  if (isOpen) return;
  open(root, true);
  bus.views.get("source")?.parent.querySelector("input")?.focus({ preventScroll: true });
}

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = newRoot(parentElement, "bar");
  const notes = root.appendChild(element("div", "notes"));
  notes.append(element("div", "note"), element("div", "note"));
  const line = root.appendChild(element("div", "line"));
  root.brief = line.appendChild(element("button", "brief"));
  const rows = ["tokens source", "tokens target", "guesses"].map((classes) => element("div", classes));
  root.reels = rows.map((row) => newReel(line, row));
  root.cluster = line.appendChild(element("div", "cluster"));
  root.check = newPopover("check");
  root.check.panel.append(element("div", "badges"));
  root.pinned = newPopover("act pinned");
  root.fold = element("button", "fold");
  for (const button of [root.brief, root.fold]) {
    button.type = "button";
    button.addEventListener("click", () => turnFold(root));
  }
  const pin = element("div", "pin");
  root.cluster.append(element("div", "changed"), element("div", "pieces"), root.check.opener, root.check.panel, pin, root.pinned.opener, root.pinned.panel, root.fold);
  root.pinned.panel.append(element("div", "what-is-pinned"), element("div", "changes"));
  root.pinLine = root.insertBefore(element("div", "pin-line"), line);
  root.largest = root.pinLine.appendChild(element("div", "largest"));
  const follow = onHover((side, position) => {
    if (position >= 0) bringIntoSight(root.querySelector(`.chip[data-side="${side}"][data-position="${position}"]`));
  });
  const turned = () => { // before anything of the new page is there, which would be pushed
    root.unfolded = false;
    root.aside = root.pagesAside.includes(location.pathname.split("/").at(-1));
    fold(root);
  };
  const show = () => turnFold(root); // by a lesson's text
  const tour = (/** @type {any} */ { detail }) => {
    if (Boolean(root.toured) === detail) return;
    root.toured = detail;
    fold(root);
    open(root, detail);
  };
  /** @type {[string, (event: any) => void][]} */
  const heard = [["turned", turned], ["header", show], ["toured-header", tour]];
  for (const [name, hear] of heard) bus.addEventListener(name, hear);
  const ends = [lightChips(root), attachHeader(root, parentElement), follow, () => heard.forEach(([name, hear]) => bus.removeEventListener(name, hear)), ...root.reels.map((/** @type {any} */ { stop }) => stop)];
  root.stop = () => ends.forEach((end) => end());
  return root;
}

// A row in the line, and at each of its ends, where it goes on there, a button that leads on.
/** @param {Element} line @param {HTMLElement} row */
function newReel(line, row) {
  row.setAttribute("role", "group");
  const reel = line.appendChild(element("div", `reel of-${row.className.split(" ").pop()}`));
  const buttons = [-1, 1].map((way) => {
    const button = element("button", way < 0 ? "back" : "on", way < 0 ? "‹" : "›");
    button.type = "button";
    button.addEventListener("click", () => (row.scrollLeft += way * 0.8 * row.clientWidth));
    return button;
  });
  reel.append(buttons[0], row, buttons[1]);
  const ends = () => {
    reel.classList.toggle("before", row.scrollLeft > 1);
    reel.classList.toggle("beyond", row.scrollLeft + row.clientWidth < row.scrollWidth - 1);
  };
  row.addEventListener("scroll", ends, { passive: true });
  const sizes = new ResizeObserver(ends);
  sizes.observe(row);
  return { row, buttons, ends: () => requestAnimationFrame(ends), stop: () => sizes.disconnect() };
}

// A token that is lit elsewhere, or was written just now, comes into sight.
/** @param {Element | null | undefined} chip */
function bringIntoSight(chip) {
  const row = chip?.parentElement;
  if (!chip || !row || row.matches(":hover")) return; // nothing moves under the pointer
  const [inner, outer] = [chip.getBoundingClientRect(), row.getBoundingClientRect()];
  const over = inner.left < outer.left ? inner.left - outer.left - ROOM : Math.max(0, inner.right - outer.right + ROOM);
  if (over) row.scrollLeft += over;
}

// A sign and its words, which a phone's line leaves out where it has no room for them.
/** @param {Element} node @param {string} before @param {string} words */
function sign(node, before, words) {
  if (node.children.length && node.textContent === before + words) return;
  node.replaceChildren(before, element("span", "words", words));
  node.setAttribute("aria-label", node.textContent.trim());
}

// The checks of this input; none while they follow: then those of the input before stand there in grey.
/** @param {Root} root @param {TokenBarHeader} header */
function showChecks(root, { badges, check, words }) {
  const [list, { opener }] = [root.querySelector(".badges"), root.check];
  if (!badges || !check) {
    if (!opener.textContent) Object.assign(opener, { className: "check waiting", textContent: `… ${words.follow}` });
    for (const badge of [opener, ...list.querySelectorAll(".badge")]) {
      badge.className = badge.className.replace(/passed|failed|unknown/, "waiting");
      badge.title = words.follow;
      write(badge, `…${badge.textContent.slice(1)}`);
    }
    return;
  }
  showBadge(opener, check, "check");
  const space = opener.textContent.indexOf(" ") + 1;
  sign(opener, opener.textContent.slice(0, space), opener.textContent.slice(space));
  opener.title = check.title;
  opener.hidden = !badges.length;
  shorten(list, badges.length);
  badges.forEach((badge, index) => {
    const row = list.children[index] ?? list.appendChild(element("div", "row"));
    if (!row.children.length) row.append(element("span"), element("div", "muted"), element("code", "muted"));
    showBadge(row.children[0], badge, "badge");
    write(row.children[1], badge.title);
    writePath(row.children[2], badge.tensor ?? "");
  });
}

/** @param {Element} node @param {BadgeHeader} badge @param {string} classes */
function showBadge(node, { text, passed }, classes) {
  node.className = `${classes} ${passed === null ? "unknown" : passed ? "passed" : "failed"}`;
  write(node, (passed === null ? "? " : passed ? "✓ " : "✗ ") + text);
}

// Whether a part shows this already: drawn again between press and release, its buttons would lose the click.
/** @param {Root} parent @param {unknown[]} what */
function shows(parent, ...what) {
  const now = JSON.stringify(what);
  if (parent.dataset.shape === now) return true;
  parent.dataset.shape = now;
  return false;
}

// What the model holds probable at a place: tokens with their probabilities, to be clicked.
/**
 * @param {Root} parent @param {GuessHeader[]} guesses @param {string} hint
 * @param {(number: number, token: number) => void} choose
 */
function showGuesses(parent, guesses, hint, choose) {
  if (shows(parent, guesses, hint)) return;
  const rows = guesses.map(({ title, choices }, number) => {
    const row = element("div", "guess");
    row.appendChild(element("span", "muted title", title));
    for (const { token, label, probability } of choices) {
      const button = row.appendChild(element("button", "choice"));
      button.type = "button";
      button.title = `${hint} · ${probability}`;
      button.style.setProperty("--share", `${100 * probability}%`);
      button.append(element("span", "label", shown(label)), element("span", "muted", percent(probability)));
      button.addEventListener("click", () => choose(number, token));
    }
    return row;
  });
  parent.replaceChildren(...rows);
}

/** @param {string} text @param {() => void} act @param {boolean} [pressed] */
function newButton(text, act, pressed) {
  const button = element("button", "act", text);
  button.type = "button";
  if (pressed !== undefined) button.setAttribute("aria-pressed", String(pressed));
  button.addEventListener("click", act);
  return button;
}

// The pin: a button to keep this trace; or whether views show differences from it, and behind a button what is kept.
/** @param {Root} root @param {PinHeader} header @param {(name: string) => void} act */
function showPin(root, { pinned, differing, comparable, words }, act) {
  const { opener, panel } = root.pinned;
  const parent = root.querySelector(".pin");
  if (shows(parent, pinned, differing, comparable, words)) return;
  opener.hidden = !pinned;
  if (!pinned) {
    panel.hidePopover();
    panel.firstElementChild.replaceChildren();
    const keep = newButton(words.keep, () => act("keep"));
    keep.title = words.explanation;
    return parent.replaceChildren(keep);
  }
  opener.replaceChildren("● ", element("span", "words", words.pinned), element("span", "words of-list", ` · ${words.list}`), " ▾");
  opener.setAttribute("aria-label", opener.textContent);
  opener.title = words.about;
  const differences = newButton(words.differences, () => act(differing ? "values" : "differences"), differing);
  differences.disabled = !comparable && !differing; // who sees them already can turn them off
  parent.replaceChildren(differences);
  const name = element("div", "kept");
  name.append(element("bdi", "", pinned.text), element("span", "muted", ` · ${pinned.model}`));
  panel.firstElementChild.replaceChildren(name, newButton(words.release, () => act("release")));
}

// The largest changes of each kind in the list, and the first of each beside it; a click on one closes the list and opens the
// page that shows it.
/** @param {Root} parent @param {Root} largest @param {PinHeader} header @param {(act: any) => void} act @param {() => void} close */
function showChanges(parent, largest, { pinned, changes, words }, act, close) {
  /** @param {any} given @param {string} unit */
  const item = ({ label, value, exact, act: place, token, opens }, unit) => {
    const made = element("button", "change");
    made.type = "button";
    made.title = `${opens} · ${labelled(unit, exact)}`;
    made.append(element("bdi", "label", shown(label)), element("span", "muted", value));
    made.addEventListener("click", () => {
      bus.sought = performance.now(); // the plot that shows it comes into view
      close();
      act(place);
    });
    if (token) {
      made.addEventListener("pointerenter", () => hover(token.side, token.position));
      made.addEventListener("pointerleave", () => hover(token.side, -1));
    }
    return made;
  };
  const waiting = pinned && !changes; // they follow: those of before stand there in grey
  for (const part of [parent, largest]) part.classList.toggle("waiting", Boolean(waiting));
  if (waiting && !parent.children.length) parent.append(element("div", "muted", words.follow));
  if (waiting) return;
  if (shows(parent, pinned, changes, words)) return;
  largest.replaceChildren();
  if (!pinned || !changes) return parent.replaceChildren();
  if (!changes.length) {
    largest.append(element("div", "muted", words.none));
    return parent.replaceChildren(element("div", "muted", words.none));
  }
  for (const { title, unit, items } of changes) {
    const first = largest.appendChild(element("div", "first"));
    first.append(element("span", "muted", title), item(items[0], unit));
  }
  const lists = changes.map(({ title, unit, items }) => {
    const list = element("div", "list");
    const heading = list.appendChild(element("div", "heading", title));
    heading.appendChild(element("div", "muted", unit));
    list.append(...items.map((/** @type {any} */ each) => item(each, unit)));
    return list;
  });
  parent.replaceChildren(...lists);
}

// Whether pieces of a word are shown as one, where there are such.
/** @param {Root} parent @param {PiecesHeader} header @param {() => void} turn */
function showPieces(parent, { mergeable, merged, words }, turn) {
  if (shows(parent, mergeable, merged, words)) return;
  const button = element("button", "act", words.merge);
  button.type = "button";
  button.title = words.about;
  button.setAttribute("aria-pressed", merged);
  button.addEventListener("click", () => turn());
  parent.replaceChildren(...(mergeable ? [button] : []));
}

// What is changed in the forward pass, and the button that restores it.
/** @param {Root} parent @param {ChangedHeader} header @param {() => void} restore */
function showChanged(parent, { text, refused, words }, restore) {
  if (shows(parent, text, refused, words)) return;
  const made = [];
  if (refused) made.push(element("span", "refused", refused));
  if (text) {
    const note = element("span", "what");
    sign(note.appendChild(element("b")), "⚠ ", `${words.changed} `);
    note.append(element("bdi", "", text));
    note.title = `${text} — ${words.explanation}`;
    const button = element("button", "act", words.restore);
    button.type = "button";
    button.addEventListener("click", () => restore());
    made.push(note, button);
  }
  parent.replaceChildren(...made);
}

// Tokens that the pinned text has not are underlined; those that only it has stand between, struck through.
/** @param {Element} tokens @param {AlignmentHeader} header */
function showAlignment(tokens, { inserted, deleted }) {
  tokens.querySelectorAll(".gone").forEach((made) => made.remove());
  [...tokens.children].forEach((made, position) => made.classList.toggle("new", inserted.includes(position)));
  const chips = [...tokens.children];
  for (const { label, before } of deleted) {
    const gone = element("s", "gone", shown(label));
    tokens.insertBefore(gone, chips[before] ?? null);
  }
}

// The chips of both sides, and above them notes.
/** @param {Root} root @param {TokenBarHeader} data */
function showTokens(root, data) {
  const sides = /** @type {const} */ (["source", "target"]);
  sides.forEach((side, index) => {
    const tokens = root.querySelector(".tokens." + side);
    const labels = data[side].map(({ label }) => label);
    const special = data[side].map((token) => token.special);
    tokens.setAttribute("aria-label", data.words[side]);
    keepHeld(side, labels);
    tokens.querySelectorAll(".gone").forEach((/** @type {any} */ made) => made.remove());
    showChips(tokens, labels, special, side, (...token) => root.choose(...token));
    showAlignment(tokens, data.pin.alignments[side]);
    const written = labels.findIndex((label, place) => label !== root.labels?.[side]?.[place]);
    if (written >= 0 && bus.views.get(side)?.parent.querySelector(":focus")) bringIntoSight(tokens.querySelectorAll(".chip")[written]);
    root.labels = { ...root.labels, [side]: labels };
    const note = root.querySelector(".notes").children[index];
    write(note, data.notes[side]);
    note.title = data.notes[side];
  });
  writeBrief(root.brief, data.texts);
  root.classList.toggle("one", !data.target.length);
}

// The texts on one line: where it is short each of them is cut, and none left out.
/** @param {Element} brief @param {string[]} texts */
function writeBrief(brief, texts) {
  const parts = texts.flatMap((text, index) => (index ? [" → ", text] : [text]));
  shorten(brief, parts.length);
  parts.forEach((part, index) => write(brief.children[index] ?? brief.appendChild(element("span", index % 2 ? "to" : "text")), part));
}

/** @param {Given} given */
export default function ({ data: bytes, parentElement, setTriggerValue }) {
  /** @type {TokenBarHeader & Behind} */
  const data = unpack(bytes);
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  const line = root.querySelector(".line");
  const wasOne = root.classList.contains("one");
  Object.assign(root, { words: data.words, aside: data.aside, pagesAside: data.pages_aside });
  fold(root);
  root.choose = (/** @type {string} */ side, /** @type {number} */ position) => setTriggerValue("token", { side, position });
  if (!shows(line, data.source, data.target, data.notes, data.texts, data.pin.alignments, data.words)) showTokens(root, data);
  root.guess = (/** @type {number} */ number, /** @type {number} */ token) => setTriggerValue("guess", { number, token });
  showGuesses(root.querySelector(".guesses"), data.guesses, data.words.guess, (...guess) => root.guess(...guess));
  root.classList.toggle("guessing", Boolean(data.guesses.length) && !data.target.length);
  for (const { buttons, ends } of root.reels) {
    [data.words.back, data.words.on].forEach((words, index) => nameButton(buttons[index], words));
    ends();
  }
  showChecks(root, data);
  root.restore = () => setTriggerValue("restore", true);
  showChanged(root.querySelector(".changed"), data.changed, () => root.restore());
  bus.merged = data.pieces.merged;
  root.merge = () => setTriggerValue("pieces", true);
  showPieces(root.querySelector(".pieces"), data.pieces, () => root.merge());
  root.act = (/** @type {string} */ name) => setTriggerValue("pin", name);
  const fails = data.check && data.check.passed !== true; // which takes more words
  root.classList.toggle("crowded", Boolean(data.pin.pinned || data.changed.text || fails));
  showPin(root, data.pin, (name) => root.act(name));
  root.change = (/** @type {any} */ place) => setTriggerValue("change", place);
  showChanges(root.querySelector(".changes"), root.largest, data.pin, (place) => root.change(place), () => root.pinned.panel.hidePopover());
  if (root.classList.contains("one") === wasOne) fitLine(root);
  else placeHeader(root); // another model has one text, or two
  return ending(root);
}
