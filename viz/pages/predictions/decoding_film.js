// The decoding film: each token in its turn, what it looked at, what else it could have been. Played here, frame by frame,
// without asking the server: all frames are in the bytes.

import { unpack } from "../../web/bytes.js";
import { element, ending, labelled, lastIn, newRoot, shorten, write } from "../../web/elements.js";
import { exact } from "../../web/numbers.js";
import { DIFFERENCE, HUE } from "../../web/colours.js";
import { endsOf } from "../../web/palettes.js";
import { appearance, onTheme } from "../../web/pens.js";
import { hover, ofTokens } from "../../web/bus.js";
import { lightChips, showChips, shown } from "../../web/chips.js";
import { addFiles, showFiles } from "../../web/picture.js";
import { buildPlayer } from "../../web/player.js";
import { buildChoices, showChoices } from "../../web/choices.js";

const SPEEDS = [0.5, 1, 2, 4]; // frames a second

/** @param {HTMLElement} parentElement */
function build(parentElement) {
  const root = newRoot(parentElement, "film");
  root.tabIndex = 0;
  root.frame = 0;
  /** @type {Player} */
  const player = (root.player = buildPlayer(
    root,
    [
      ["first", "«", () => player.seek(0)],
      ["back", "‹", () => player.seek(root.frame - 1)],
      ["play", "▶"],
      ["on", "›", () => player.seek(root.frame + 1)],
    ],
    SPEEDS.map((speed) => [speed, `${speed}×`]),
    1,
    {
      at: () => root.frame,
      last: () => root.film.frames.length - 1,
      start: () => (root.frame + 1) % root.film.frames.length,
      go: (frame) => {
        root.frame = frame;
        show(root);
        lightUp(root);
      },
    },
  ));
  root.count = element("span", "count");
  player.speed.before(root.count);
  root.map = player.controls.appendChild(element("select", "map"));
  root.map.addEventListener("change", () => show(root));
  const time = root.appendChild(element("div", "time"));
  root.bars = time.appendChild(element("div", "bars"));
  root.scrub = time.appendChild(element("input"));
  Object.assign(root.scrub, { type: "range", min: 0, step: 1 });
  root.scrub.addEventListener("input", () => player.seek(Number(root.scrub.value)));
  const scene = (root.scene = root.appendChild(element("div", "scene")));
  root.looks = scene.appendChild(element("div", "looks"));
  root.links = root.looks.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "svg"));
  root.links.setAttribute("aria-hidden", "true");
  root.named = root.looks.appendChild(element("div", "muted"));
  root.source = root.looks.appendChild(element("div", "chips source"));
  root.written = root.looks.appendChild(element("div", "chips written"));
  root.sentence = root.looks.appendChild(element("div", "sentence"));
  root.sentence.setAttribute("aria-live", "polite");
  root.table = scene.appendChild(element("div", "lost")).appendChild(buildChoices());
  addFiles(root, () => scene, filmLines);
  root.addEventListener("keydown", (event) => player.steer(event));
  const sizes = new ResizeObserver(() => root.film && drawLinks(root));
  sizes.observe(root.looks);
  const dark = lightChips(root);
  const plain = onTheme(() => root.film && drawLinks(root));
  root.stop = () => {
    player.play(false);
    sizes.disconnect();
    dark();
    plain();
  };
  return root;
}

// The token of this frame lights up everywhere on the page.
/** @param {any} root */
function lightUp(root) {
  const { side, frames } = root.film;
  hover(ofTokens(side), frames[root.frame].place);
}

/** @param {any} root */
function show(root) {
  const { frames, source, side, words, columns, arrays, context } = root.film;
  const frame = frames[root.frame];
  const values = arrays[1];
  root.scrub.value = root.frame;
  root.scrub.setAttribute("aria-valuetext", labelled(String(root.frame + 1), shown(frame.label)));
  write(root.count, `${root.frame + 1} / ${frames.length}`);
  [...root.bars.children].forEach((bar, index) => bar.classList.toggle("past", index <= root.frame));
  // What stands there already, its last word perhaps cut, and the new token last.
  const seen = source.labels.slice(0, frame.sees);
  const before = context.labels.slice(0, frame.before);
  (before.length ? before : seen).splice(-1, 1, frame.last);
  showChips(root.source, seen, source.special, ofTokens(source.side));
  showChips(root.written, [...before, frame.label], [...context.special.slice(0, before.length), frame.special], before.length ? ofTokens(side) : "");
  [...root.written.children].forEach((chip, index) => chip.classList.toggle("newest", index === before.length));
  const weights = rowOf(root);
  const look = appearance(root);
  [...root.source.children].forEach((chip, index) => {
    const weight = weights[index];
    const missing = Number.isNaN(weight);
    chip.classList.toggle("missing", missing);
    const { colour, share } = lookOf(root.film, weight, look);
    chip.style.backgroundColor = missing ? "" : `color-mix(in srgb, ${colour} ${(62 * share).toFixed(2)}%, var(--st-background-color))`;
    chip.title = `${shown(source.labels[index])} · ${missing ? words.missing : `${words.weight} ${exact(weight)}`}`;
  });
  write(root.sentence, frame.sentence.replaceAll("/", "/\u2060")); // </s> stays in one piece
  const rows = frame.rows.map((/** @type {any} */ row, /** @type {number} */ index) => {
    const from = (root.frame * root.film.depth + index) * columns.length;
    return { ...row, values: values.subarray(from, from + columns.length) };
  });
  showChoices(root.table, columns, rows, words, (token) => root.choose({ position: frame.position, token }));
  drawLinks(root);
}

// The weights of this frame over the source, of the chosen map.
/** @param {any} root */
function rowOf(root) {
  const { frames, source, arrays } = root.film;
  const width = source.labels.length;
  const from = (Math.max(0, root.map.selectedIndex) * frames.length + root.frame) * width;
  return arrays[0].subarray(from, from + frames[root.frame].sees);
}

// Colour of a weight, and how strong it is, 0 to 1.
/** @param {any} film @param {number} weight @param {Look} look */
function lookOf({ difference, top }, weight, look) {
  const share = Number.isFinite(weight) ? Math.min(1, Math.abs(weight) / (difference ? top || 1 : 1)) : 0;
  const [below, above] = endsOf(difference ? DIFFERENCE : [HUE, HUE], look);
  return { colour: `rgb(${(weight < 0 ? below : above).join(",")})`, share };
}

// From the new token to what it looks at, the stronger the more.
/** @param {any} root */
function drawLinks(root) {
  const corner = root.looks.getBoundingClientRect();
  const newest = lastIn(root.written);
  if (!corner.width || !newest) return;
  const to = newest.getBoundingClientRect();
  const weights = rowOf(root);
  const look = appearance(root);
  shorten(root.links, weights.length);
  while (root.links.children.length < weights.length) root.links.appendChild(document.createElementNS(root.links.namespaceURI, "path"));
  [...root.source.children].forEach((chip, index) => {
    const box = chip.getBoundingClientRect();
    const [x1, y1] = [box.left + box.width / 2 - corner.left, box.bottom - corner.top];
    const [x2, y2] = [to.left + to.width / 2 - corner.left, to.top - corner.top];
    const middle = (y1 + y2) / 2;
    const link = root.links.children[index];
    const { colour, share } = lookOf(root.film, weights[index], look);
    link.setAttribute("d", `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`);
    link.setAttribute("stroke", colour);
    link.setAttribute("stroke-opacity", share < 0.01 ? 0 : Math.min(1, 0.15 + share));
    link.setAttribute("stroke-width", 1 + 4 * share);
  });
}

/** @param {any} root */
function showControls(root) {
  const { words, maps, frames } = root.film;
  const names = { first: words.first, back: words.back, on: words.on };
  for (const [name, text] of Object.entries(names)) {
    root.player.buttons[name].title = text;
    root.player.buttons[name].setAttribute("aria-label", text);
  }
  root.player.speed.setAttribute("aria-label", words.speed);
  root.map.setAttribute("aria-label", words.map);
  root.scrub.setAttribute("aria-label", words.scrub);
  root.player.name(words);
  root.setAttribute("aria-label", words.alt);
  root.scrub.max = frames.length - 1;
  if (JSON.stringify([...root.map.options].map(({ text }) => text)) !== JSON.stringify(maps)) {
    const chosen = root.map.selectedIndex;
    root.map.replaceChildren(...maps.map((/** @type {string} */ name) => new Option(name)));
    root.map.selectedIndex = Math.max(0, Math.min(chosen, maps.length - 1));
  }
  shorten(root.bars, frames.length);
  while (root.bars.children.length < frames.length) {
    const place = root.bars.children.length;
    root.bars.appendChild(element("i")).addEventListener("click", () => root.player.seek(place));
  }
  frames.forEach((/** @type {any} */ { share, label }, /** @type {number} */ index) => {
    const bar = root.bars.children[index];
    bar.style.setProperty("--share", `${Math.max(4, 100 * (share ?? 0))}%`);
    bar.title = shown(label);
  });
  root.style.setProperty("--frames", frames.length);
}

// A line for each token that could have been written.
/** @param {any} given */
function filmLines({ film: { frames, columns, depth, arrays, words } }) {
  const names = columns.map((/** @type {any} */ { name }) => name);
  const lines = frames.flatMap((/** @type {any} */ { label, rows }, /** @type {any} */ frame) =>
    rows.map((/** @type {any} */ row, /** @type {number} */ index) => {
      const from = (frame * depth + index) * columns.length;
      const values = [...arrays[1].subarray(from, from + columns.length)].map(exact);
      return [String(frame + 1), label, row.rank, row.label, ...values];
    }),
  );
  return [[...words.csv, ...names], ...lines];
}

/** @param {Given} given */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  root.film = unpack(data);
  root.choose = (/** @type {any} */ choice) => setTriggerValue("choice", choice);
  root.explain = () => setTriggerValue("about", performance.now());
  root.frame = Math.max(0, Math.min(root.frame, root.film.frames.length - 1));
  write(root.named, root.film.words.looks);
  showControls(root);
  show(root);
  showFiles(root, root.film);
  root.dataset.painted = root.film.stamp;
  return ending(root);
}
