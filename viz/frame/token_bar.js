import { unpack } from "../web/bytes.js";
import { element, ending, newRoot, shorten, write } from "../web/elements.js";
import { bus, hover, keepHeld } from "../web/bus.js";
import { lightChips, showChips, shown } from "../web/chips.js";

// The tokens of both sides, what was cut off, and the check badges.
// The bar around this component stays on top, on the page's background. By hand: CSS would need :has(), which the
// browser evaluates again at every change of the page, and Streamlit's colours are variables inside components only.
/** @param {HTMLElement} parentElement */
function stayOnTop(parentElement) {
  const host = parentElement.getRootNode().host ?? parentElement;
  const bar = host.closest(".st-key-input_bar");
  if (!bar) return;
  bar.parentElement.classList.add("vitrine-sticky");
  const paint = () => (bar.style.backgroundColor = getComputedStyle(host).getPropertyValue("--st-background-color"));
  paint();
  bar.themed?.disconnect();
  bar.themed = new MutationObserver(() => requestAnimationFrame(paint)); // another theme is chosen, by whom ever
  bar.themed.observe(bar.closest(".stApp"), { attributeFilter: ["class"] });
}

// Folded, the bar is one line: what it says of the tokens, of what is changed and pinned. The browser remembers it.
const FOLDED = "vitrine.folded";

/** @param {Root} root */
function foldButton(root) {
  const button = element("button", "act fold");
  button.type = "button";
  button.addEventListener("click", () => {
    const folded = !root.classList.contains("folded");
    try {
      if (folded) localStorage.setItem(FOLDED, "1");
      else localStorage.removeItem(FOLDED);
    } catch {
      /* no storage is allowed: it stands as it is until the page is loaded again */
    }
    fold(root, folded);
  });
  return button;
}

/** @param {Root} root @param {boolean} folded */
function fold(root, folded) {
  root.classList.toggle("folded", folded);
  const button = root.querySelector(".fold");
  button.setAttribute("aria-expanded", !folded);
  write(button, folded ? "▼" : "▲");
}

function wasFolded() {
  try {
    return localStorage.getItem(FOLDED) !== null;
  } catch {
    return false;
  }
}

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = newRoot(parentElement, "bar");
  const rows = root.appendChild(element("div", "rows"));
  for (const side of /** @type {const} */ (["source", "target"])) {
    rows.appendChild(element("div")).appendChild(element("div", "tokens " + side)).setAttribute("role", "list");
  }
  root.appendChild(element("div", "guesses"));
  const line = root.appendChild(element("div", "line"));
  line.append(element("div", "badges"), element("div", "changed"), element("div", "pieces"), element("div", "pin"), foldButton(root));
  root.appendChild(element("div", "changes"));
  fold(root, wasFolded());
  root.stop = lightChips(root);
  return root;
}

// The checks of this input; none while they follow: then those of the input before stand there in grey.
/** @param {Root} parent @param {BadgeHeader[] | null} badges @param {string} follow */
function showBadges(parent, badges, follow) {
  if (!badges) {
    if (!parent.children.length) badges = [{ text: follow, passed: null, title: "" }];
    for (const badge of parent.children) {
      Object.assign(badge, { className: "badge waiting", title: follow });
      write(badge, "…" + badge.textContent.slice(1));
    }
  }
  if (!badges) return;
  shorten(parent, badges.length);
  badges.forEach(({ text, passed, title }, index) => {
    const badge = /** @type {HTMLElement} */ (parent.children[index] ?? parent.appendChild(element("span")));
    badge.className = "badge " + (passed === null ? "unknown" : passed ? "passed" : "failed");
    badge.title = title;
    write(badge, (passed === null ? "? " : passed ? "✓ " : "✗ ") + text);
  });
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
      button.append(element("span", "label", shown(label)), element("span", "muted", `${(100 * probability).toFixed(1)} %`));
      button.addEventListener("click", () => choose(number, token));
    }
    return row;
  });
  parent.replaceChildren(...rows);
}

// The pin: a button to keep this trace, or what is kept, how to see it and how to let it go.
/** @param {Root} parent @param {PinHeader} header @param {(name: string) => void} act */
function showPin(parent, { kept, differing, words }, act) {
  /** @param {string} text @param {string} name @param {boolean} [pressed] */
  const button = (text, name, pressed) => {
    const made = element("button", "act", text);
    made.type = "button";
    if (pressed !== undefined) made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", () => act(name));
    return made;
  };
  if (shows(parent, kept, differing, words)) return;
  if (!kept) {
    const keep = button(`⚲ ${words.keep}`, "keep");
    keep.title = words.explanation;
    return parent.replaceChildren(keep);
  }
  const name = element("span", "kept");
  name.append(element("b", "", `● ${words.pinned} `), element("bdi", "", kept.text), element("span", "muted", ` · ${kept.model}`));
  name.title = kept.text;
  parent.replaceChildren(
    name,
    button(words.values, "values", !differing),
    button(words.differences, "differences", differing),
    button(words.release, "release"),
  );
}

// The largest change of each kind, and all that are listed when asked for; a click on one selects it.
/** @param {Root} parent @param {PinHeader} header @param {(act: any) => void} act */
function showChanges(parent, { kept, changes, words }, act) {
  /** @param {any} given @param {string} unit @param {string} [title] */
  const item = ({ label, value, exact, act: place, token }, unit, title = "") => {
    const made = element("button", "change");
    made.type = "button";
    made.title = `${unit}: ${exact}`;
    made.append(...(title ? [element("span", "muted", title)] : []), element("bdi", "label", shown(label)), element("span", "muted", value));
    made.addEventListener("click", () => {
      bus.sought = performance.now(); // the plot that shows it comes into view
      act(place);
    });
    if (token) {
      made.addEventListener("pointerenter", () => hover(token.side, token.position));
      made.addEventListener("pointerleave", () => hover(token.side, -1));
    }
    return made;
  };
  const waiting = kept && !changes; // they follow: those of before stand there in grey
  parent.classList.toggle("waiting", Boolean(waiting));
  if (waiting && !parent.children.length) parent.append(element("div", "first muted", words.follow));
  if (waiting) return;
  if (shows(parent, kept, changes, words)) return;
  if (!kept || !changes) return parent.replaceChildren();
  if (!changes.length) return parent.replaceChildren(element("div", "first muted", words.none));
  const first = element("div", "first");
  first.append(element("span", "muted", words.most), ...changes.map(({ title, unit, items }) => item(items[0], unit, `${title}:`)));
  const more = element("button", "act", words.all);
  more.type = "button";
  const lists = element("div", "lists");
  for (const { title, unit, items } of changes) {
    const list = lists.appendChild(element("div", "list"));
    const heading = list.appendChild(element("div", "heading", title));
    heading.appendChild(element("div", "muted", unit));
    list.append(...items.map((each) => item(each, unit)));
  }
  /** @param {boolean} wanted */
  const open = (wanted) => {
    parent.dataset.open = String(wanted);
    lists.hidden = !wanted;
    more.setAttribute("aria-expanded", wanted);
  };
  more.addEventListener("click", () => open(lists.hidden));
  first.appendChild(more);
  open(parent.dataset.open === "true");
  parent.replaceChildren(first, lists);
}

// Whether pieces of a word are shown as one, where there are such.
/** @param {Root} parent @param {PiecesHeader} header @param {() => void} turn */
function showPieces(parent, { found, merged, words }, turn) {
  if (shows(parent, found, merged, words)) return;
  const button = element("button", "act", words.merge);
  button.type = "button";
  button.title = words.about;
  button.setAttribute("aria-pressed", merged);
  button.addEventListener("click", () => turn());
  parent.replaceChildren(...(found ? [button] : []));
}

// What is changed in the forward pass, and the button that restores it.
/** @param {Root} parent @param {ChangedHeader} header @param {() => void} restore */
function showChanged(parent, { text, refused, words }, restore) {
  if (shows(parent, text, refused, words)) return;
  const made = [];
  if (refused) made.push(element("span", "refused", refused));
  if (text) {
    const note = element("span", "what");
    note.append(element("b", "", `⚠ ${words.changed} `), element("bdi", "", text));
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

// The chips of both sides, and beneath them what was cut off.
/** @param {Root} root @param {Element} rows @param {TokenBarHeader} data */
function showTokens(root, rows, data) {
  for (const side of /** @type {const} */ (["source", "target"])) {
    const tokens = root.querySelector(".tokens." + side);
    const labels = data[side].map(({ label }) => label);
    const special = data[side].map((token) => token.special);
    tokens.setAttribute("aria-label", data.words[side]);
    keepHeld(side, labels);
    tokens.querySelectorAll(".gone").forEach((/** @type {any} */ made) => made.remove());
    showChips(tokens, labels, special, side, (...token) => root.choose(...token));
    showAlignment(tokens, data.pin.alignments[side]);
    tokens.nextElementSibling?.remove();
    if (data.notes[side]) tokens.after(element("div", "note", data.notes[side]));
  }
  rows.classList.toggle("one", !data.target.length);
}

/** @param {Given} given */
export default function ({ data: bytes, parentElement, setTriggerValue }) {
  /** @type {TokenBarHeader & Behind} */
  const data = unpack(bytes);
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  root.choose = (/** @type {string} */ side, /** @type {number} */ position) => setTriggerValue("token", { side, position });
  const rows = root.querySelector(".rows");
  if (!shows(rows, data.source, data.target, data.notes, data.pin.alignments, data.words)) showTokens(root, rows, data);
  root.guess = (/** @type {number} */ number, /** @type {number} */ token) => setTriggerValue("guess", { number, token });
  showGuesses(root.querySelector(".guesses"), data.guesses, data.words.guess, (...guess) => root.guess(...guess));
  showBadges(root.querySelector(".badges"), data.badges, data.words.follow);
  root.querySelector(".fold").title = data.words.fold;
  root.restore = () => setTriggerValue("restore", true);
  showChanged(root.querySelector(".changed"), data.changed, () => root.restore());
  bus.merged = data.pieces.merged;
  root.merge = () => setTriggerValue("pieces", true);
  showPieces(root.querySelector(".pieces"), data.pieces, () => root.merge());
  root.act = (/** @type {string} */ name) => setTriggerValue("pin", name);
  showPin(root.querySelector(".pin"), data.pin, (name) => root.act(name));
  root.change = (/** @type {any} */ place) => setTriggerValue("change", place);
  showChanges(root.querySelector(".changes"), data.pin, (place) => root.change(place));
  stayOnTop(parentElement);
  return ending(root);
}
