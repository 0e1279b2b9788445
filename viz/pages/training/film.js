// The film of a training: every head at every step that is kept. It is played, compared and searched here, from the
// frames that the strip in the sidebar receives: see film_store.js. Going back to a key frame is the server's to do.

import { unpack } from "../../web/bytes.js";
import { cleared, element, ending, firstIn, labelled, lastIn, newRoot, write } from "../../web/elements.js";
import { about, largest, significant } from "../../web/numbers.js";
import { bus, ofTokens } from "../../web/bus.js";
import { lightChips, showChips, shown } from "../../web/chips.js";
import { LOSS, SERIES } from "../../web/colours.js";
import { appearance, canvasPen, onTheme } from "../../web/pens.js";
import { buildPlayer } from "../../web/player.js";
import { newPopover } from "../../web/popover.js";
import { buildPlot, showPlot } from "../../web/plot.js";
import { HEAT } from "../../web/heat.js";
import {
  askWhile, filmedEvery, filmError, filmHere, filmLabels, filmShape, filmWeights, frameAt, goToFrame, isFilmed,
  lastOfRun, nearestFrame, onFilm,
} from "../../web/film_store.js";
import { buildNorms, showNorms } from "./film_norms.js";
import { arrangeThumbnails, buildThumbnails, showThumbnails } from "../../web/thumbnails.js";

const SPEEDS = [5, 15, 30, 60]; // frames a second
const NEAR = 9; // CSS pixels from a key frame that still mean it
const STILL = 4; // pixels that a finger may move in a press
const LINE = { tall: 74, lane: 16, side: 8 };
const DASH = [4, 3];
/** @type {Record<string, string>} */
const FLAGS = { a: SERIES[2], b: SERIES[4] };

/** @param {HTMLElement} parentElement */
function buildFilm(parentElement) {
  const root = newRoot(parentElement, "training-film");
  root.whose = root.appendChild(element("div", "whose"));
  Object.assign(root, { position: 0, painted: 0 });
  /** @type {(act: () => void) => () => void} */
  const filmed = (act) => () => bus.film?.steps.length && act();
  /** @type {Player} */
  const player = (root.player = buildPlayer(
    root,
    [
      ["play", "▶", filmed(() => player.play(!player.playing))],
      ["back", "‹", filmed(() => player.seek(frameAt() - 1))],
      ["on", "›", filmed(() => player.seek(frameAt() + 1))],
      ["a", "", filmed(() => putFlag(root, "a"))],
      ["b", "", filmed(() => putFlag(root, "b"))],
      ["difference", "", filmed(() => {
        bus.comparing = !bus.comparing;
        showFilmSoon(root);
      })],
      ["largest", "", filmed(() => findLargest(root))],
      ["keys", "", filmed(() => offer(root, nearestKey(filmHere().steps[frameAt()])))],
    ],
    SPEEDS.map((speed) => [speed, `${speed}/s`]),
    15,
    {
      at: () => (bus.film ? frameAt() : -1),
      last: () => (bus.film?.steps.length ?? 0) - 1,
      start: () => (bus.at == null ? 0 : frameAt()),
      go: goToFrame,
      leaps: true,
    },
  ));
  player.controls.insertBefore(player.speed, player.buttons.a);
  const { opener, panel } = newPopover("step about");
  opener.textContent = "?";
  panel.classList.add("signs");
  player.buttons.keys.after(opener, panel);
  [root.opener, root.signs] = [opener, panel];
  root.standing = player.controls.appendChild(element("span", "standing"));
  root.standing.setAttribute("aria-live", "off");
  root.standing.append(element("span"), element("span", "between", " · "), element("span"));
  root.futures = root.appendChild(element("div", "futures"));
  const track = root.appendChild(element("div", "track"));
  root.line = track.appendChild(element("canvas", "line"));
  root.cursor = track.appendChild(element("div", "cursor"));
  root.line.tabIndex = 0;
  root.line.setAttribute("role", "slider");
  root.line.setAttribute("aria-valuemin", 0);
  /** @param {any} event */
  const drag = (event) => event.buttons && player.seek(frameUnder(root, event));
  // The key frame that is pressed, and where. What is pressed waits until the pointer goes aside, or is lifted; a finger
  // that goes up or down scrolls the page, and moves no film.
  let [key, x, y, does] = [/** @type {any} */ (null), 0, 0, ""]; // does: "waits", "drags", or nothing
  root.line.addEventListener("pointerdown", (/** @type {any} */ event) => {
    root.line.setPointerCapture(event.pointerId);
    [key, x, y] = [keyUnder(root, event), event.clientX, event.clientY];
    does = key !== null || event.pointerType === "touch" ? "waits" : "drags";
    if (does === "drags") drag(event);
  });
  root.line.addEventListener("pointermove", (/** @type {any} */ event) => {
    if (does === "waits" && Math.abs(event.clientX - x) >= STILL) does = "drags";
    else if (does === "waits" && event.pointerType === "touch" && Math.abs(event.clientY - y) >= STILL) does = "";
    if (does === "drags") drag(event);
  });
  root.line.addEventListener("pointerup", (/** @type {any} */ event) => {
    if (does === "waits" && key !== null) offer(root, key);
    else if (does === "waits") player.seek(frameUnder(root, event));
    does = "";
  });
  root.line.addEventListener("pointercancel", () => (does = "")); // the page scrolls
  root.line.addEventListener("keydown", (/** @type {any} */ event) => steerFilm(root, event));
  root.offer = root.appendChild(element("div", "offer"));
  root.offer.hidden = true;
  root.note = root.appendChild(element("div", "note"));
  const scene = root.appendChild(element("div", "scene"));
  root.heads = scene.appendChild(element("div", "heads"));
  buildThumbnails(root.heads, (button, _map, index) => button.addEventListener("click", () => chooseHead(root, index)));
  root.large = buildPlot(scene.appendChild(element("div", "large")), "heatmap", HEAT);
  const guesses = scene.appendChild(element("div", "guesses"));
  root.named = guesses.appendChild(element("div", "muted"));
  root.places = guesses.appendChild(element("div", "places"));
  root.rows = guesses.appendChild(element("div", "rows"));
  root.norms = buildNorms(scene, () => showFilmSoon(root));
  root.large.choose = (/** @type {number} */ row) => choosePosition(root, row);
  const sizes = new ResizeObserver(() => {
    paintLine(root);
    moveCursor(root);
  });
  sizes.observe(root.line);
  const silent = onFilm(
    () => showFilmSoon(root),
    () => (player.playing ? showFrame(root) : showFilmSoon(root, false)), // playing is in an animation frame already
  );
  const dark = lightChips(root);
  const plain = onTheme(() => root.header && showFilmSoon(root));
  root.stop = () => {
    player.play(false);
    askWhile(root, false);
    cancelAnimationFrame(root.soon); // it would ask
    sizes.disconnect();
    root.heads.stop();
    root.large.stop();
    silent();
    dark();
    plain();
  };
  return root;
}

/** @param {Root} root @param {KeyboardEvent} event */
function steerFilm(root, event) {
  if (!bus.film?.steps.length || root.player.steer(event) || event.key !== "Enter") return;
  offer(root, nearestKey(filmHere().steps[frameAt()]));
  event.preventDefault();
}

// A flag stands at a step; putting it where it stands already takes it away.
/** @param {Root} root @param {string} name */
function putFlag(root, name) {
  const step = filmHere().steps[frameAt()];
  bus.flags[name] = bus.flags[name] === step ? undefined : step;
  showFilmSoon(root);
}

// The frames that are compared: flag A, else the first; flag B, else where the film stands.
function compared() {
  const { steps, frames } = filmHere();
  /** @param {string} name @param {any} otherwise */
  const flag = (name, otherwise) => (frames.has(bus.flags[name]) ? bus.flags[name] : otherwise);
  return [flag("a", steps[0]), flag("b", steps[frameAt()])];
}

// ½ Σ |w' − w| of each query's weights, averaged over the queries, between neighbouring frames.
/** @param {string} kind @param {number} layer @param {number} head */
function largestChange(kind, layer, head) {
  const [, heads, rows, columns] = filmShape(kind);
  const from = (layer * heads + head) * rows * columns;
  let found = { variation: -1, before: 0, after: 0 };
  filmHere().steps.slice(1).forEach((step, index) => {
    const [before, after] = [filmHere().steps[index], step].map((each) => filmWeights(kind, each));
    let moved = 0;
    for (let cell = from; cell < from + rows * columns; cell++) moved += Math.abs(after[cell] - before[cell]);
    const variation = moved / (2 * 255 * rows);
    if (variation > found.variation) found = { variation, before: index, after: index + 1 };
  });
  return found;
}

/** @param {Root} root */
function findLargest(root) {
  const { kind, words } = root.header;
  if (filmHere().steps.length < 2) return;
  const [layer, head] = root.chosen;
  const { variation, before, after } = largestChange(kind, layer, head);
  const { steps } = filmHere();
  bus.flags = { a: steps[before], b: steps[after] };
  const moved = about(variation, filmShape(kind)[3] * filmError(kind)); // half of the change of as many weights
  /** @type {Record<string, unknown>} */
  const text = { head: `${layer + 1}.${head + 1}`, before: steps[before], after: steps[after], moved };
  write(root.note, words.moved.replace(/{(\w+)}/g, (/** @type {string} */ _, /** @type {string} */ name) => text[name]));
  root.player.seek(after);
  showFilmSoon(root);
}

/** @param {number} step */
function nearestKey(step) {
  return filmHere().keys.reduce((best, key) => (Math.abs(key - step) < Math.abs(best - step) ? key : best), filmHere().keys[0]);
}

// Going back to a key frame, or branching from it, is offered; nothing happens before the user says so.
/** @param {Root} root @param {number | undefined} key */
function offer(root, key) {
  if (key === undefined) return;
  const { words } = root.header;
  root.player.seek(nearestFrame(key));
  /** @param {string} name @param {string} text @param {any} title */
  const button = (name, text, title) => {
    const made = element("button", "act", text);
    made.type = "button";
    made.title = title;
    made.addEventListener("click", () => {
      root.offer.hidden = true;
      if (name) root.trigger(name, { step: key, edition: filmHere().edition });
    });
    return made;
  };
  root.offer.replaceChildren(
    element("span", "", words.key.replace("{step}", key.toLocaleString("en"))),
    button("rewind", words.rewind, words.rewinding),
    button("branch", words.branch, words.branching),
    button("", "×", words.close),
  );
  root.offer.hidden = false;
  root.offer.querySelector("button").focus();
}

// Where the steps are on the line.
/** @param {Root} root */
function lineScale(root) {
  const { steps } = filmHere();
  const last = Math.max(steps[steps.length - 1], ...root.header.others.map((/** @type {any} */ other) => other.steps.at(-1)));
  const [first, span] = [steps[0], last - steps[0] || 1];
  const wide = root.line.clientWidth - 2 * LINE.side;
  return { x: (/** @type {number} */ step) => LINE.side + ((step - first) / span) * wide, step: (/** @type {number} */ x) => first + ((x - LINE.side) / wide) * span };
}

/** @param {Root} root @param {any} event */
function frameUnder(root, event) {
  return nearestFrame(lineScale(root).step(event.clientX - root.line.getBoundingClientRect().left));
}

// The key frame at the pointer, which is in their lane; null elsewhere.
/** @param {Root} root @param {any} event */
function keyUnder(root, event) {
  const box = root.line.getBoundingClientRect();
  if (event.clientY - box.top < LINE.tall - LINE.lane || !bus.film?.keys.length) return null;
  const { x, step } = lineScale(root);
  const key = nearestKey(step(event.clientX - box.left));
  return Math.abs(x(key) - (event.clientX - box.left)) <= NEAR ? key : null;
}

// An attribute is written only where it changes: writing has the browser look at the whole element again.
/** @param {Element} node @param {string} name @param {any} value */
function put(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** @param {Root} root */
function moveCursor(root) {
  if (!bus.film?.steps.length) return;
  root.cursor.style.transform = `translateX(${lineScale(root).x(filmHere().steps[frameAt()]).toFixed(1)}px)`;
}

// The loss over the steps, key frames below it, and flags; not painted again while the film plays.
/** @param {Root} root */
function paintLine(root) {
  const { line } = root;
  const width = line.clientWidth;
  if (!width || !bus.film?.steps.length) return;
  const ratio = window.devicePixelRatio || 1;
  const pen = canvasPen(cleared(line, Math.round(width * ratio), LINE.tall * ratio), ratio, appearance(root));
  const { steps, frames, keys } = filmHere();
  const { x } = lineScale(root);
  const losses = steps.map((step) => frames.get(step)?.loss ?? NaN);
  const { others } = root.header;
  const usable = [losses, ...others.map((/** @type {any} */ other) => other.losses)].flat().filter(Number.isFinite);
  const [low, high] = [Math.min(...usable), Math.max(...usable)];
  const bottom = LINE.tall - LINE.lane;
  /** @param {number} loss */
  const y = (loss) => bottom - 4 - ((loss - low) / (high - low || 1)) * (bottom - 12);
  pen.box(0, 0, width, bottom, "rgba(128,128,128,0.08)");
  /** @param {number[]} at @param {number[]} of @param {LineStyle} style */
  const drawn = (at, of, style) => {
    const points = at.flatMap((step, index) => (Number.isFinite(of[index]) ? [[x(step), y(of[index])]] : []));
    if (points.length > 1) pen.line(points, style);
  };
  others.forEach((/** @type {any} */ other, /** @type {number} */ index) => {
    drawn(other.steps, other.losses, { colour: SERIES[index % SERIES.length], dash: DASH });
  });
  drawn(steps, losses, { colour: LOSS });
  for (const key of keys) if (key >= steps[0] && key <= steps[steps.length - 1]) pen.text("◆", x(key), bottom + 8, { align: "center", faint: true });
  for (const name of ["a", "b"]) {
    if (!frames.has(bus.flags[name])) continue;
    const at = x(bus.flags[name]);
    pen.line([[at, 0], [at, bottom]], { colour: FLAGS[name], width: 2 });
    const left = at > width - 20 || (name === "a" && at > 20);
    pen.box(at + (left ? -16 : 2), 2, 14, 14, pen.background); // over the lines
    pen.text(name.toUpperCase(), at + (left ? -5 : 5), 9, { colour: FLAGS[name], strong: true, align: left ? "right" : "left" });
  }
}

// lined: the line has changed too, and not only where the film stands.
/** @param {Root} root @param {boolean} [lined] */
function showFilmSoon(root, lined = true) {
  root.lined ||= lined;
  root.soon ??= requestAnimationFrame(() => {
    root.soon = undefined;
    showFrame(root);
  });
}

/** @param {Root} root @param {number} position */
function choosePosition(root, position) {
  root.position = position;
  showFilmSoon(root);
}

/** @param {Root} root @param {number} index */
function chooseHead(root, index) {
  const heads = root.heads.shown.columns;
  const [layer, head] = [Math.floor(index / heads), index % heads];
  root.chosen = [layer, head];
  root.trigger("head", { layer, head });
  showFilmSoon(root);
}

/** @param {Root} root */
function showFrame(root) {
  const { kind, words, labels, visible } = root.header;
  const filmed = isFilmed(kind, labels.rows, labels.columns);
  root.classList.toggle("waiting", !filmed);
  askWhile(root, !filmed);
  if (!filmed) return write(root.note, words.waiting);
  if (root.note.textContent === words.waiting) write(root.note, "");
  const { steps, frames } = filmHere();
  const number = frameAt();
  const step = steps[number];
  const frame = /** @type {FilmFrame} */ (frames.get(step));
  const [layers, heads, rows, columns] = filmShape(kind);
  const cells = rows * columns;
  if (root.heads.shape !== `${layers}x${heads}`) {
    root.heads.shape = `${layers}x${heads}`;
    const order = Array.from({ length: layers * heads }, (_, index) => [Math.floor(index / heads), index % heads]);
    arrangeThumbnails(root.heads, order, heads);
  }
  const [layer, head] = (root.chosen = [Math.min(root.chosen[0], layers - 1), Math.min(root.chosen[1], heads - 1)]);
  /** @type {Uint8Array | Int16Array} */
  let weights = filmWeights(kind, step);
  let sentence = words.frame.replace("{step}", step.toLocaleString("en"));
  /** @type {(FilmFrame | undefined)[]} */
  let norms = [frame];
  if (bus.comparing) {
    const [a, b] = compared();
    norms = [frames.get(b), frames.get(a)];
    const [before, after] = [filmWeights(kind, a), filmWeights(kind, b)];
    weights = Int16Array.from(after, (weight, cell) => weight - before[cell]);
    sentence = words.between.replace("{a}", a.toLocaleString("en")).replace("{b}", b.toLocaleString("en"));
  }
  const top = bus.comparing ? Math.max(1, largest(weights)) : 255;
  const count = layers * heads;
  const scale = bus.comparing
    ? { low: -1, high: 1, most: 510, levels: Uint16Array.from(weights, (weight) => weight + 255) }
    : { low: 0, high: 1, most: 255, levels: weights };
  const tops = Array(count).fill(top / 255);
  showThumbnails(root.heads, { ...scale, tops, difference: bus.comparing, states: visible, count, columns: heads, rows, cells: columns, sides: root.header.sides });
  root.heads.thumbnails.forEach((/** @type {any} */ button, /** @type {number} */ index) => {
    const here = index === layer * heads + head;
    button.classList.toggle("chosen", here);
    put(button, "aria-pressed", here);
    const named = words.head.replace("{layer}", Math.floor(index / heads) + 1).replace("{head}", (index % heads) + 1);
    put(button, "aria-label", labelled(named, button.querySelector(".title").textContent));
  });
  showLarge(root, weights.subarray((layer * heads + head) * cells, (layer * heads + head + 1) * cells), top / 255, sentence, step);
  showGuesses(root, frame);
  showNorms(root.norms, root.header.norms, norms, words, root.lined);
  if (root.lined || root.every === undefined) root.every = everyWords(words);
  const loss = Number.isFinite(frame.loss) ? ` · ${words.loss.replace("{loss}", significant(frame.loss))}` : "";
  const place = words.place.replace("{number}", (number + 1).toLocaleString("en")).replace("{count}", steps.length.toLocaleString("en"));
  write(firstIn(root.standing), `${words.step.replace("{step}", step.toLocaleString("en"))}${loss}`);
  write(lastIn(root.standing), `${place}${root.every}`);
  put(root.line, "aria-valuemax", steps.length - 1);
  put(root.line, "aria-valuenow", number);
  put(root.line, "aria-valuetext", root.standing.textContent);
  put(root.player.buttons.difference, "aria-pressed", bus.comparing);
  for (const name of ["a", "b"]) put(root.player.buttons[name], "aria-pressed", frames.has(bus.flags[name]));
  moveCursor(root);
  if (root.lined) paintLine(root);
  root.lined = false;
  root.painted += 1;
  root.dataset.step = String(step);
  root.dataset.frames = String(steps.length);
}

// Which steps the film holds.
/** @param {Record<string, any>} words */
function everyWords(words) {
  const [least, most] = filmedEvery();
  if (filmHere().steps.length < 2) return "";
  const sentence = most === 1 ? words.every : least === most ? words.everyFew : words.everySome;
  return ` · ${sentence.replace("{least}", least).replace("{most}", most)}`;
}

/** @param {Root} root @param {any} weights @param {number} top @param {string} sentence @param {number} step */
function showLarge(root, weights, top, sentence, step) {
  const { labels, sides, titles, words, visible, kind } = root.header;
  const [layer, head] = root.chosen;
  const scale = { low: bus.comparing ? -top : 0, high: top, title: bus.comparing ? words.difference : words.weight, difference: bus.comparing };
  const name = words.head.replace("{layer}", layer + 1).replace("{head}", head + 1);
  const header = {
    rows: { title: titles.rows, labels: labels.rows, side: sides.rows },
    columns: { title: titles.columns, labels: labels.columns, side: sides.columns },
    scale, name, sentence, words, about: root.header.about,
    error: (bus.comparing ? 2 : 1) * filmError(kind),
    alt: `${name}, ${sentence}`, file: `film-${kind}-layer${layer + 1}-head${head + 1}-step${step}`, stamp: String(step),
  };
  showPlot(root.large, { header, values: Float32Array.from(weights, (weight) => weight / 255), visible, chosen: root.position });
}

// What the model held for most probable at the chosen position, at this step; the right answer is marked.
/** @param {Root} root @param {FilmFrame} frame */
function showGuesses(root, frame) {
  const { tokens, names, ranks, answers } = filmHere();
  const { words } = root.header;
  const side = tokens.target.length ? "target" : "source";
  const labels = filmLabels(side);
  root.position = Math.min(root.position, labels.length - 1);
  const last = lastOfRun(side, root.position); // what is written next is written after the last piece
  showChips(root.places, labels, labels.map(() => false), ofTokens(side), (_, position) => choosePosition(root, position));
  [...root.places.children].forEach((chip, position) => chip.classList.toggle("chosen", position === root.position));
  write(root.named, words.guesses);
  while (root.rows.children.length < ranks) {
    const row = root.rows.appendChild(element("div", "guess"));
    row.append(element("i"), element("bdi", "token"), element("span", "share"));
  }
  [...root.rows.children].forEach((row, rank) => {
    const at = last * ranks + rank;
    const right = frame.best[at] === answers[last];
    row.classList.toggle("right", right);
    row.firstChild.style.transform = `scaleX(${frame.probabilities[at].toFixed(4)})`;
    write(row.children[1], `${shown(names[frame.best[at]])}${right ? " ✓" : ""}`);
    write(row.children[2], significant(frame.probabilities[at]));
  });
}

// Which line is whose, above the lines: beside one of them a name would lie on another.
/** @param {Root} root */
function showFutures(root) {
  const { run, others, words } = root.header;
  const all = others.map((/** @type {any} */ other, /** @type {number} */ index) => ({ ...other, colour: SERIES[index % SERIES.length], style: "dashed" }));
  const named = others.length ? [{ run, colour: LOSS, style: "solid" }, ...all] : [];
  root.futures.hidden = !named.length;
  root.futures.replaceChildren(
    ...named.map(({ run: number, colour, style }) => {
      const made = element("span", "", words.run.replace("{number}", number));
      made.prepend(element("i"));
      firstIn(made).style.borderTop = `2px ${style} ${colour}`;
      return made;
    }),
  );
}

/** @param {Root} root */
function showWords(root) {
  const { words } = root.header;
  for (const [name, { text, title }] of Object.entries(words.buttons)) {
    const button = root.player.buttons[name];
    button.title = title;
    if (text) write(button, text);
    else button.setAttribute("aria-label", title);
  }
  const signs = Object.values(words.buttons).filter(({ text }) => text);
  root.signs.replaceChildren(
    ...signs.map(({ text, title }) => {
      const made = element("p");
      made.append(element("b", "", text), ` · ${title}`);
      return made;
    }),
  );
  root.opener.title = words.signs;
  root.opener.setAttribute("aria-label", words.signs);
  root.whose.hidden = !root.header.title;
  write(root.whose, root.header.title ?? "");
  root.player.speed.setAttribute("aria-label", words.speed);
  root.player.speed.title = words.speed;
  root.line.setAttribute("aria-label", words.scrub);
  root.line.title = words.scrub;
  root.setAttribute("aria-label", words.alt);
  showFutures(root);
  root.player.name({ ...words, keys: words.help });
}

/** @param {any} given */
export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine.training-film") ?? buildFilm(parentElement);
  /** @type {TrainingFilmHeader & Behind} */
  const header = unpack(data);
  root.header = { ...header, visible: header.arrays[0] };
  root.trigger = (/** @type {string} */ name, /** @type {unknown} */ value) => setTriggerValue(name, value);
  root.again = () => setStateValue("again", performance.now());
  root.large.explain = () => setTriggerValue("about", performance.now());
  root.chosen = header.chosen;
  showWords(root);
  root.lined = true;
  showFrame(root);
  return ending(root);
}
