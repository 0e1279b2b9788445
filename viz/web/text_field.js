// A field of one line that sends what is typed. Line breaks are signs in it. What is composed with an input method is
// sent when it is complete. Fields live on in `bus.fields` while Streamlit takes them off the page and puts them back.

import { unpack } from "./bytes.js";
import { element, ending, labelled, newRoot, write } from "./elements.js";
import { bus } from "./bus.js";

const LEARN = 400; // milliseconds without a keystroke, after which the script learns the text
const MOST_TOLD = 80; // changes of the address in so many milliseconds: Safari throws at a hundred
const WINDOW = 30_000;
const COMPOSES_ALL = /Android/.test(navigator.userAgent); // its keyboards compose every word, of any language
const SOON = 100; // and where it alone draws

/** @param {HTMLElement} parentElement @param {string} key */
function buildField(parentElement, key) {
  const root = newRoot(parentElement, "field");
  root.label = root.appendChild(element("label"));
  const line = root.appendChild(element("div", "line"));
  root.input = line.appendChild(element("input"));
  root.several = line.appendChild(element("span", "several"));
  root.note = root.appendChild(element("div", "cut muted"));
  root.note.setAttribute("role", "status");
  Object.assign(root.input, { type: "text", id: "text", autocomplete: "off", dir: "auto", spellcheck: false, enterKeyHint: "done" });
  root.label.htmlFor = "text";
  root.input.addEventListener("input", (/** @type {InputEvent} */ { isComposing }) => (!isComposing || COMPOSES_ALL) && typed(root));
  root.input.addEventListener("compositionstart", () => (root.composing = true));
  root.input.addEventListener("compositionend", () => {
    root.composing = false;
    typed(root);
  });
  root.input.addEventListener("blur", () => root.soon && !bus.channel?.isOpen() && learn(root)); // a button is pressed
  root.input.addEventListener("paste", (/** @type {ClipboardEvent} */ event) => pasted(root, event));
  root.input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = event.key === "PageUp" ? -1 : event.key === "PageDown" ? 1 : 0;
    if (event.key === "Enter" && !event.isComposing) learn(root);
    if (by && root.sentences?.count > 1) {
      event.preventDefault();
      root.act("step", by);
    }
  });
  const restored = () => {
    const text = new URLSearchParams(location.search).get(key) ?? root.first;
    if (text !== root.input.value) setText(root, text);
  };
  window.addEventListener("popstate", restored); // Back and Forward lead to texts of before
  followFocus(root, key);
  root.stop = () => {
    leave(root);
    clearTimeout(root.telling);
    window.removeEventListener("popstate", restored);
  };
  return root;
}

// A field that is taken off the page tells the script nothing more; what it had to tell waits for one that is there.
/** @param {Root} root */
export function leave(root) {
  if (root.field?.learn === root.learn) root.field.learn = undefined;
}

// Streamlit may take a field off the page while somebody types in it, and put another in its place: that one has the focus
// then, and the letters that came meanwhile.
/** @param {Root} root @param {string} key */
function followFocus(root, key) {
  const { input } = root;
  input.addEventListener("focus", () => (bus.focus = { key, root, letters: "", caret: 0 }));
  for (const name of ["input", "keyup", "pointerup"]) input.addEventListener(name, () => bus.focus && (bus.focus.caret = input.selectionStart));
  input.addEventListener("blur", () => setTimeout(() => root.isConnected && bus.focus?.root === root && (bus.focus = undefined)));
}

/** @param {KeyboardEvent} event */
function keepLetter({ key, ctrlKey, metaKey, altKey }) {
  if (!bus.focus || bus.focus.root.isConnected || document.activeElement !== document.body) return;
  if (key.length === 1 && !ctrlKey && !metaKey && !altKey) bus.focus.letters += key;
}

document.addEventListener("keydown", keepLetter);

/** @param {Root} root @param {string} key */
function takeFocus(root, key) {
  const before = bus.focus;
  if (!before || before.key !== key || before.root.isConnected || document.activeElement !== document.body) return;
  root.input.focus({ preventScroll: true });
  root.input.setSelectionRange(before.caret, before.caret);
  if (before.letters) document.execCommand("insertText", false, before.letters);
}

// A text that the user has not typed letter by letter.
/** @param {Root} root @param {string} text */
function setText(root, text) {
  root.input.value = text;
  typed(root);
}

// A field of one line drops line breaks; they are kept as signs. This way they can be undone.
/** @param {Root} root @param {ClipboardEvent} event */
export function pasted(root, event) {
  const text = event.clipboardData?.getData("text/plain") ?? "";
  if (text.length <= root.most && !/[\r\n]/.test(text)) return;
  event.preventDefault();
  // One letter more than there may be, of which it is said that it is left out: ten million would stop the window.
  document.execCommand("insertText", false, text.slice(0, root.most + 1).replace(/\r\n?|\n/g, "⏎"));
}

// One of several sentences: which, and the way to the others. A text of several lines can be made several sentences.
/** @param {Root} root */
function showSeveral(root) {
  const { sentences, several, input } = root;
  if (!sentences) return several.replaceChildren();
  const { count, place, words } = sentences;
  const lines = input.value.split(/⏎|\n/).filter((/** @type {string} */ line) => line.trim()).length;
  const stamp = JSON.stringify([count, place, lines, words]);
  if (several.stamp === stamp) return;
  several.stamp = stamp;
  /** @param {string} sign @param {string} title @param {string} name @param {number} [by] */
  const button = (sign, title, name, by = 0) => {
    const made = element("button", "several-act", sign);
    made.type = "button";
    made.title = title;
    made.setAttribute("aria-label", sign.includes(words.another) && !title.includes(words.another) ? labelled(words.another, title) : title);
    made.addEventListener("click", () => root.act(name, by));
    return made;
  };
  const held = [...several.children].indexOf(root.getRootNode().activeElement);
  const steps = [button("‹", words.back, "step", -1), element("span", "count", `${place + 1} / ${count}`), button("›", words.on, "step", 1)];
  const shown = [...(count > 1 ? steps : []), button(count > 1 ? "+" : `+ ${words.another}`, words.add, "add")];
  if (count > 1) shown.push(button("−", words.remove, "remove"), button(words.join, words.joining, "join"));
  else if (lines > 1) shown.push(button(words.part.replace("{count}", lines), words.parting, "part"));
  root.classList.toggle("many", shown.length > 1);
  several.replaceChildren(...shown);
  several.children[held]?.focus();
}

/** @param {Root} root */
function typed(root) {
  const { input, field } = root;
  const long = input.value.length > root.most;
  if (long) input.value = input.value.slice(0, root.most);
  write(root.note, long ? root.words.long : "");
  const text = input.value.toWellFormed?.() ?? input.value; // half a letter cannot be sent
  if (text === field.text) return;
  field.text = text;
  field.edit += 1;
  const sent = bus.channel?.send({ type: field.key, text: field.text, edit: field.edit });
  if (sent) bus.channel?.await();
  learnSoon(root, sent ? LEARN : SOON);
  tellAddress(root);
  showSeveral(root);
}

// The address has it at once: who reloads the page finds it again. Only who types very much waits for that.
/** @param {Root} root */
function tellAddress(root) {
  const now = performance.now();
  const told = (bus.told = (bus.told ?? []).filter((at) => now - at < WINDOW));
  if (told.length >= MOST_TOLD) return void (root.telling ??= setTimeout(() => tellAddress(root), told[0] + WINDOW - now));
  root.telling = clearTimeout(root.telling);
  told.push(now);
  const { field: { key, text }, first } = root;
  const address = new URL(location.href);
  if (text === first) address.searchParams.delete(key);
  else address.searchParams.set(key, text);
  history.replaceState(history.state, "", address);
}

// The script learns it when nobody types, the channel has drawn what was typed, and a field is on the page: this one, or one that
// has come in its place, for of one that is gone the script hears nothing. Until then what the script drew of the text before is
// faint.
/** @param {Root} root @param {number} wait */
function learnSoon(root, wait) {
  document.documentElement.toggleAttribute("data-unlearnt", true);
  bus.due = true;
  clearTimeout(root.soon);
  root.soon = setTimeout(() => (bus.channel?.isBehind() || !fieldFor(root) ? learnSoon(root, wait) : learn(root)), wait);
}

/** @param {Root} root */
const fieldFor = (root) => (root.field.learn ? root.field : [...bus.fields.values()].find((field) => field.learn));

/** @param {Root} root */
function learn(root) {
  const field = fieldFor(root);
  clearTimeout(root.soon);
  root.soon = undefined;
  bus.due = false;
  bus.turn = (bus.turn ?? 0) + 1;
  field?.learn?.({ text: field.text, edit: field.edit, turn: bus.turn });
}

/** @param {Given} given */
export default function ({ data, key, parentElement, setStateValue, setTriggerValue }) {
  const before = parentElement.querySelector(".vitrine");
  const root = before ?? buildField(parentElement, key);
  /** @type {TextFieldHeader & Behind} */
  const { label, text, edit, first, placeholder, most, words, several } = unpack(data);
  const field = (root.field = bus.fields.get(key) ?? { key, text, edit });
  bus.fields.set(key, field);
  if (edit > field.edit) Object.assign(field, { text, edit });
  bus.learnLater = (wait) => learnSoon(root, wait);
  Object.assign(root, { most, words, first });
  root.learn = field.learn = (/** @type {object} */ typed) => setStateValue("text", typed);
  if ((root.input.value.toWellFormed?.() ?? root.input.value) !== field.text && !root.composing) root.input.value = field.text;
  write(root.label, label);
  root.sentences = several;
  root.act = (/** @type {string} */ name, /** @type {number} */ by) => {
    if (name === "add") root.input.focus();
    if (root.soon && !bus.channel?.isOpen()) learn(root);
    setTriggerValue("several", { name, by });
  };
  showSeveral(root);
  root.input.placeholder = placeholder;
  root.input.setAttribute("aria-label", label);
  root.dataset.edit = edit;
  if (!before) takeFocus(root, key);
  return ending(root);
}
