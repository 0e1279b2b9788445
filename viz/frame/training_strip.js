// Training from the sidebar: steps, run and pause, and where it stands; of a training the loss as a line and the film's
// slider. The small print is behind a button.
// The slider plays in the browser: components that hold the film's frames listen on the bus.

import { unpack } from "../web/bytes.js";
import { cleared, element, ending, labelled, newRoot, shorten, write } from "../web/elements.js";
import { bus } from "../web/bus.js";
import { LOSS } from "../web/colours.js";
import { newPopover } from "../web/popover.js";
import { askWhile, forgetFilm, frameAt, goToFrame, isFollowed, onFilm, receiveFilm } from "../web/film_store.js";

const COUNTS = [1, 10, 100];

/** @param {HTMLElement} parentElement */
function buildStrip(parentElement) {
  const root = newRoot(parentElement, "strip");
  root.buttons = element("div", "buttons");
  root.batches = element("label", "batches");
  root.size = element("select");
  root.size.addEventListener("change", () => root.act({ name: "batch", count: Number(root.size.value) }));
  root.facts = element("div", "facts");
  root.about = element("div", "about-it");
  const standing = element("div", "standing");
  const { opener, panel } = newPopover("small-print", root);
  opener.textContent = "ⓘ";
  root.opener = opener;
  root.words = standing.appendChild(element("span", "words"));
  standing.append(opener, panel);
  panel.append(root.facts, root.batches, root.about);
  root.curve = element("canvas", "curve");
  root.curve.setAttribute("role", "img");
  root.sentence = element("div", "sentence");
  root.film = element("label", "film");
  root.film.hidden = true;
  root.frame = root.film.appendChild(element("span"));
  root.slider = root.film.appendChild(element("input"));
  Object.assign(root.slider, { type: "range", min: 0, step: 1 });
  root.slider.addEventListener("input", () => goToFrame(Number(root.slider.value)));
  root.question = element("div", "question");
  root.question.hidden = true;
  root.giveUp = root.question.appendChild(element("button", "do"));
  root.showRuns = root.question.appendChild(element("button", "do"));
  root.giveUp.type = root.showRuns.type = "button";
  root.label = element("div", "label");
  root.append(root.label, root.buttons, root.question, standing, root.curve, root.film, root.sentence);
  const sizes = new ResizeObserver(() => paintCurve(root));
  sizes.observe(root.curve);
  const silent = onFilm(() => showFilm(root), () => showFilm(root), () => false);
  const followed = () => requestAnimationFrame(() => showFilm(root)); // a view that has come has its data then
  bus.addEventListener("followers", followed);
  root.stop = () => {
    askWhile(root, false);
    sizes.disconnect();
    silent();
    bus.removeEventListener("followers", followed);
  };
  return root;
}

// Buttons are made once; later they only change: a click must not fall on one that is being replaced.
/** @param {Root} root @param {TrainingStripHeader} header */
function showButtons(root, { status, words, possible, question }) {
  root.question.hidden ||= !question.length;
  const wanted = [
    ...COUNTS.map((count) => ["advance", String(count), count === 1 ? words.one : words.advance.replace("{count}", count), { count }]),
    status === "running" || status === "waiting" ? ["pause", "❚❚", words.pause, {}] : ["run", "▶", words.run, {}],
    ["reset", "↺", words.reset, {}],
  ];
  wanted.forEach(([name, text, title, more], index) => {
    const made = root.buttons.children[index] ?? root.buttons.appendChild(element("button", "do"));
    made.type = "button";
    made.title = ["advance", "run"].includes(name) && words.of ? labelled(title, words.of) : title; // whom it trains
    made.setAttribute("aria-label", /\d/.test(text) && !title.includes(text) ? labelled(text, title) : title); // with what one sees
    made.disabled = !possible.includes(name);
    made.hidden = name === "reset" && status === "none"; // there is no training
    made.classList.toggle("main", index === COUNTS.length);
    write(made, text);
    const lost = ["advance", "run"].includes(name) && question.length; // runs of another model: the click asks first
    made.onclick = () => (lost ? ask(root, question, { name, ...more }) : root.act({ name, ...more }));
  });
}

// Beneath the buttons: go on, and lose the runs, or see them.
/** @param {Root} root @param {string[]} question @param {object} act */
function ask(root, [giveUp, show], act) {
  /** @param {object} answer */
  const close = (answer) => {
    root.question.hidden = true;
    root.act(answer);
  };
  write(root.giveUp, giveUp);
  write(root.showRuns, show);
  root.giveUp.onclick = () => close({ ...act, anew: true });
  root.showRuns.onclick = () => close({ name: "show" });
  root.question.hidden = false;
  root.giveUp.focus();
}

// How large the batches are that the steps take, within its sentence. The field is made once: it may be open just now.
/** @param {Root} root @param {TrainingStripHeader} header */
function showBatches(root, { batches, words, possible }) {
  root.batches.hidden = !batches.sizes.length;
  if (root.batches.hidden) return;
  if (root.sentenceOfBatches !== batches.sentence) {
    root.sentenceOfBatches = batches.sentence;
    const [before, after] = batches.sentence.split("{size}");
    root.batches.replaceChildren(before, root.size, after);
  }
  const sizes = JSON.stringify(batches.sizes);
  if (root.sizes !== sizes) {
    root.sizes = sizes;
    root.size.replaceChildren(...batches.sizes.map(([size, text]) => new Option(text, size)));
  }
  root.size.value = batches.chosen;
  root.size.disabled = !possible.includes("batch") || batches.sizes.length < 2;
  root.size.title = words.batch;
  root.size.setAttribute("aria-label", words.batch);
}

/** @param {Root} root */
function paintCurve(root) {
  const { curve } = root;
  const [width, height] = [curve.clientWidth, curve.clientHeight];
  if (!width || !root.losses) return;
  const ratio = window.devicePixelRatio || 1;
  const context = cleared(curve, Math.round(width * ratio), Math.round(height * ratio));
  const usable = root.losses.filter(Number.isFinite);
  if (usable.length < 2) return;
  const [low, high] = [Math.min(...usable), Math.max(...usable)];
  /** @param {number} index */
  const x = (index) => (3 + (index / (root.losses.length - 1)) * (width - 6)) * ratio;
  /** @param {number} loss */
  const y = (loss) => (3 + (1 - (loss - low) / (high - low || 1)) * (height - 6)) * ratio;
  context.strokeStyle = LOSS;
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  root.losses.forEach((/** @type {number} */ loss, /** @type {number} */ index) => Number.isFinite(loss) && context.lineTo(x(index), y(loss)));
  context.stroke();
}

// The slider has a place for each frame, and stands where the film stands; it is there where something follows it.
/** @param {Root} root */
function showFilm(root) {
  const { film } = bus;
  root.film.hidden = !film || film.steps.length < 2 || !isFollowed();
  if (!film || root.film.hidden) return;
  root.slider.max = film.steps.length - 1;
  root.slider.value = frameAt();
  const text = bus.at == null ? film.words.newest : film.words.film.replace("{step}", bus.at.toLocaleString("en"));
  write(root.frame, text);
  root.film.title = film.words.drag;
  root.slider.setAttribute("aria-valuetext", text);
}

/** @param {Root} root @param {TrainingStripHeader & { arrays: Numbers[] }} data */
function showStrip(root, data) {
  showButtons(root, data);
  showBatches(root, data);
  write(root.label, data.words.steps);
  write(root.words, data.summary);
  root.opener.title = data.words.more;
  root.opener.setAttribute("aria-label", data.words.more);
  shorten(root.about, data.about.length);
  data.about.forEach((text, index) => write(root.about.children[index] ?? root.about.appendChild(element("p")), text));
  shorten(root.facts, data.facts.length);
  data.facts.forEach(({ text, title }, index) => {
    const made = root.facts.children[index] ?? root.facts.appendChild(element("span"));
    made.title = title;
    write(made, text);
  });
  root.losses = data.losses;
  root.curve.hidden = data.losses.length < 2;
  root.curve.setAttribute("aria-label", data.words.curve);
  paintCurve(root);
  if (!data.film) {
    forgetFilm();
    askWhile(root, false);
  } else {
    const lacking = !receiveFilm(data.film, data.arrays);
    if (lacking && !root.asking) root.again();
    askWhile(root, lacking);
  }
  showFilm(root);
  write(root.sentence, data.sentence);
  root.sentence.className = "sentence " + data.status;
  root.dataset.step = String(data.step);
  root.dataset.status = data.status;
}

/** @param {Given} given */
export default function ({ data: bytes, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? buildStrip(parentElement);
  root.act = (/** @type {object} */ what) => setTriggerValue("act", what);
  root.again = () => setStateValue("again", performance.now()); // a trigger would take the place of a click's
  showStrip(root, unpack(bytes));
  return ending(root);
}
