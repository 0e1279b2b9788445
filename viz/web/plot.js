// What heatmaps and charts share: two pens for one drawing, a canvas on the page and SVG in a file; heading, tip and the
// menu of files. Lengths are CSS pixels.

const LETTERS = 16; // of a label
const FONT = 12;
const MARK = "#0072b2"; // the query's blue
const ODD_COLOUR = "#d6005f"; // of what is not finite: no scale has it
const ODD_PIXEL = 0xff5f00d6; // the same as 0xAABBGGRR
const BRIGHT = "#45a5e6"; // and as a line on a dark page
const PINNED = ["#963cbe", "#c58be6"]; // words about what is pinned, on a light page and on a dark one

// Control characters as their pictures: SVG may not hold them.
function shortened(label) {
  const picture = (letter) => (letter < " " ? String.fromCodePoint(0x2400 + letter.charCodeAt(0)) : "?");
  const letters = [...shown(label).replace(/[\0-\x1f\ufffe\uffff]/g, picture)];
  return letters.length > LETTERS ? letters.slice(0, LETTERS - 1).join("") + "…" : letters.join("");
}

// Both ends of a scale, and between them the round numbers that leave the ends their room.
function ticks(low, high, most) {
  const rough = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((factor) => factor * size > 0.999 * rough);
  const found = [low];
  for (let count = Math.ceil(low / step); count * step < high; count++) {
    const value = count * step;
    if (value - low > 0.5 * step && high - value > 0.5 * step) found.push(value);
  }
  return [...found, high].map((value) => [value, String(Number(value.toPrecision(3))).replace("-", "−")]);
}

// Calls `redraw` when another theme is chosen, and gives what ends that: a canvas keeps the colours it was drawn with.
function onTheme(redraw) {
  const watching = new MutationObserver(() => requestAnimationFrame(redraw));
  watching.observe(document.querySelector(".stApp") ?? document.body, { attributeFilter: ["class"] });
  return () => watching.disconnect();
}

// The faces and colours of the page's theme. What has just been taken off the page has none.
function appearance(root) {
  const style = getComputedStyle(root);
  const parts = style.color.match(/\d+/g) ?? [0];
  const dark = Math.max(...parts.slice(0, 3)) > 128; // light text
  return {
    text: style.fontFamily,
    token: `${style.getPropertyValue("--st-code-font") || "monospace"}, "Noto Sans Mono CJK SC", monospace`,
    colour: style.color,
    background: style.getPropertyValue("--st-background-color") || "#fff",
    mark: dark ? BRIGHT : MARK,
    pinned: PINNED[Number(dark)],
  };
}

const widths = new Map(); // of texts by their face: a keystroke changes a few of hundreds
const MOST_WIDTHS = 20_000;

function measurer(context, look) {
  const wide = (face) => {
    if (!widths.has(face)) widths.set(face, new Map());
    const known = widths.get(face);
    if (known.size > MOST_WIDTHS) known.clear();
    return (text) => {
      if (!known.has(text)) {
        context.font = `${FONT}px ${face}`;
        known.set(text, context.measureText(text).width);
      }
      return known.get(text);
    };
  };
  return Object.assign(wide(look.token), { words: wide(look.text) }); // of labels, and of all else that is written
}

const UPRIGHT = /[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff07\uff0a-\uffef]/; // letters that stand in a column; brackets turn
const STANDS = new RegExp(`${UPRIGHT.source}|^\\s*\\d{1,2}\\s*$`);

// A pen's text that runs up or down: Chinese letters stand one below the other, and so do short numbers between them; all
// else is turned.
function inColumns(text, measure) {
  return (words, x, y, options) => {
    if (Math.abs(options.turn ?? 0) !== 90 || !UPRIGHT.test(words)) return text(words, x, y, options);
    const { align = "left", size = FONT } = options;
    const pieces = words.split(new RegExp(`(${UPRIGHT.source})`)).filter((piece) => piece.trim());
    const wide = options.token ? measure : measure.words;
    const lengths = pieces.map((piece) => (STANDS.test(piece) ? size : (wide(piece.trim()) * size) / FONT + 3));
    const whole = lengths.reduce((a, b) => a + b, 0);
    let from = y - whole * { left: options.turn < 0 ? 1 : 0, center: 0.5, right: options.turn < 0 ? 0 : 1 }[align];
    pieces.forEach((piece, index) => {
      text(piece.trim(), x, from + lengths[index] / 2, { ...options, align: "center", turn: STANDS.test(piece) ? 0 : 90 });
      from += lengths[index];
    });
  };
}

function canvasPen(context, ratio, look) {
  const hatched = hatch(context, Math.round(6 * ratio));
  hatched.setTransform(new DOMMatrix().scale(1 / ratio));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textBaseline = "middle";
  const box = (x, y, width, height, colour) => {
    context.fillStyle = colour;
    context.fillRect(x, y, width, height);
  };
  const text = (words, x, y, { align = "left", turn = 0, marked, strong, token, colour, faint, size = FONT }) => {
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.font = `${strong ? "bold " : ""}${size}px ${token ? look.token : look.text}`;
    context.textAlign = align;
    if (marked) {
      const width = context.measureText(words).width;
      box({ left: -3, center: -width / 2 - 3, right: -width - 3 }[align], -FONT / 2 - 2, width + 6, FONT + 4, MARK);
    }
    context.globalAlpha = faint ? 0.72 : 1;
    context.fillStyle = marked ? "#fff" : (look[colour] ?? colour ?? look.colour);
    context.fillText(words, 0, 0);
    context.restore();
  };
  const frame = (x, y, width, height, { width: line = 1, colour = look.colour, faint, radius = 0, fill }) => {
    context.beginPath();
    context.roundRect(x - 0.5, y - 0.5, width, height, radius); // in the gap before the next cell
    if (fill) context.fillStyle = fill;
    if (fill) context.fill();
    context.globalAlpha = faint ? 0.25 : 1;
    context.strokeStyle = colour === MARK ? look.mark : colour;
    context.lineWidth = line;
    if (line) context.stroke();
    context.globalAlpha = 1;
  };
  // A part [x, y, width, height] of another canvas.
  const picture = (canvas, part, x, y, width, height) => {
    context.imageSmoothingEnabled = part[2] > width * ratio || part[3] > height * ratio;
    context.drawImage(canvas, ...part, x, y, width, height);
  };
  const line = (points, { colour, width = 1.5, dash = [], faint }) => {
    context.globalAlpha = faint ? 0.18 : 1;
    context.strokeStyle = colour ?? look.colour;
    context.lineWidth = width;
    context.lineJoin = "round";
    context.setLineDash(dash);
    context.beginPath();
    points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  };
  const dot = (x, y, radius, colour) => {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  };
  const { background } = look;
  const columns = inColumns(text, measurer(context, look));
  return { text: columns, box, frame, line, dot, picture, background, hatch: (x, y, width, height) => box(x, y, width, height, hatched) };
}

function svgPen(svg, look) {
  const add = (parent, name, attributes, words) => {
    const made = parent.appendChild(document.createElementNS(svg.namespaceURI, name));
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (words !== undefined) made.textContent = words;
    return made;
  };
  const pattern = { id: "masked", width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  const tile = add(add(svg, "defs", {}), "pattern", pattern);
  add(tile, "rect", { width: 6, height: 6, fill: "#808080", "fill-opacity": 0.14 });
  add(tile, "path", { d: "M0 6L6 0M-1 1L1 -1M5 7L7 5", stroke: "#808080", "stroke-opacity": 0.55 });
  add(svg, "rect", { width: "100%", height: "100%", fill: look.background });
  // SVG 1.1 has colours without opacity, and that apart.
  const paint = (use, colour) => {
    const [, rgb, alpha] = colour.match(/^rgba\((.*),(.*)\)$/) ?? [];
    return rgb ? { [use]: `rgb(${rgb})`, [`${use}-opacity`]: alpha } : { [use]: colour };
  };
  const box = (x, y, width, height, colour) => add(svg, "rect", { x, y, width, height, ...paint("fill", colour) });
  const text = (words, x, y, { align = "left", turn = 0, strong, token, colour = look.colour, faint, size = FONT }) => {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const place = { transform: `translate(${x} ${y}) rotate(${turn})`, "text-anchor": anchor };
    const style = { "font-family": token ? look.token : look.text, "font-size": size, "fill-opacity": faint ? 0.72 : 1, ...paint("fill", look[colour] ?? colour) };
    const weight = strong ? { "font-weight": "bold" } : {};
    add(svg, "text", { ...place, ...style, ...weight, dy: "0.35em", direction: "ltr" }, words);
  };
  const frame = (x, y, width, height, { width: line = 1, colour = look.colour, faint, radius = 0, fill = "none" }) => {
    const stroke = { stroke: colour, "stroke-width": line, "stroke-opacity": faint ? 0.25 : 1 };
    add(svg, "rect", { x: x - 0.5, y: y - 0.5, width, height, rx: radius, ...paint("fill", fill), ...stroke });
  };
  const picture = (canvas, part, x, y, width, height) => {
    const cut = element("canvas");
    [cut.width, cut.height] = part.slice(2);
    cut.getContext("2d").drawImage(canvas, ...part, 0, 0, cut.width, cut.height);
    const whole = { preserveAspectRatio: "none", style: "image-rendering: pixelated" };
    add(svg, "image", { x, y, width, height, ...whole, href: cut.toDataURL() });
  };
  const line = (points, { colour = look.colour, width = 1.5, dash = [], faint }) => {
    const stroke = { "stroke-opacity": faint ? 0.18 : 1, ...paint("stroke", colour), "stroke-width": width, "stroke-linejoin": "round" };
    const dashed = dash.length ? { "stroke-dasharray": dash.join(" ") } : {};
    add(svg, "polyline", { points: points.map((point) => point.join(",")).join(" "), fill: "none", ...stroke, ...dashed });
  };
  const dot = (x, y, radius, colour) => add(svg, "circle", { cx: x, cy: y, r: radius, fill: colour });
  const { background } = look;
  const columns = inColumns(text, measurer(element("canvas").getContext("2d"), look));
  return { vector: true, text: columns, box, frame, line, dot, picture, background, hatch: (x, y, width, height) => box(x, y, width, height, "url(#masked)") };
}

const HIDDEN = 2; // among visible cells (1) and masked ones (0): below the threshold, so not drawn
const ODD = 3; // among them: not a number, or infinite

// The table of a map's CSV: a line for each row and column. Values that may be off by an `error` have no more decimals.
function cellLines({ header, values, visible }) {
  const { rows, columns, words, texts, error } = header;
  const { digits, off } = error ? precisionOf(error) : {};
  const written = (value) => (error && Number.isFinite(value) ? value.toFixed(digits) : exact(value));
  const found = [error ? words.csv.map((name, column) => (column === 2 ? `${name} ± ${signed(off)}` : name)) : words.csv];
  values.forEach((value, cell) => {
    const row = rows.labels[Math.floor(cell / columns.labels.length)];
    const masked = visible[cell] ? "False" : "True";
    found.push([row, columns.labels[cell % columns.labels.length], written(value), masked, ...(texts ? [texts[cell]] : [])]);
  });
  return found;
}

// A plot is painted on a canvas as wide as there is room, and again where its width, its faces or the lit tokens change.
// kind: `arrange(header, width, ratio, measure)` says where everything goes, `height` among it; `draw(pen, place, view)`
// draws it with the canvas's pen or a file's; `lines(shown)` is the table of its CSV; `sides(header)` the sides of its
// tokens; `point(root, event)` follows the pointer, without an event when it has left; `click(root, event)`; `placed(root)`,
// if there is one, is told where everything has gone.
function paint(root) {
  root.width ||= root.clientWidth; // a new plot is painted at once: an empty canvas would push away what is below it
  if (!root.width || !root.shown) return; // not laid out yet: the observer of its size calls again
  const { canvas, kind } = root;
  const ratio = window.devicePixelRatio || 1;
  const look = appearance(root);
  const measure = measurer(canvas.getContext("2d"), look);
  const place = (root.place = kind.arrange(root.shown.header, root.width, ratio, measure));
  const context = cleared(canvas, Math.round(place.width * ratio), Math.round(place.height * ratio));
  const tall = `${place.height}px`;
  if (canvas.style.height !== tall) canvas.style.height = tall; // a film paints sixty times a second
  kind.placed?.(root);
  kind.draw(canvasPen(context, ratio, look), place, { ...root.shown, lit: root.lit, pointed: root.pointed });
}

function paintSoon(root) {
  root.soon ??= requestAnimationFrame(() => {
    root.soon = undefined;
    paint(root);
  });
}

const FILES = {
  async PNG(root) {
    const look = appearance(root);
    const canvas = element("canvas");
    const [context, ratio] = [canvas.getContext("2d"), 3];
    const place = root.kind.arrange(root.shown.header, root.width, ratio, measurer(context, look));
    canvas.width = place.width * ratio;
    canvas.height = place.height * ratio;
    context.fillStyle = look.background;
    context.fillRect(0, 0, canvas.width, canvas.height);
    root.kind.draw(canvasPen(context, ratio, look), place, root.shown);
    return new Promise((done) => canvas.toBlob(done));
  },
  async SVG(root) {
    const look = appearance(root);
    const place = root.kind.arrange(root.shown.header, root.width, 1, measurer(root.canvas.getContext("2d"), look));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${place.width} ${place.height}`);
    root.kind.draw(svgPen(svg, look), place, root.shown);
    return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  },
  async CSV(root) {
    const number = /^[-+−]?(\d+\.?\d*|\.\d+)(e[-+−]?\d+)?$/i;
    const harmless = (text) => (/^[=+\-@\t\r]/.test(text) && !number.test(text) ? `'${text}` : text); // else spreadsheets compute it
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${harmless(text).replaceAll('"', '""')}"` : harmless(text));
    const text = root.kind.lines(root.shown).map((line) => line.map(quoted).join(",") + "\n").join("");
    return new Blob(["\ufeff", text], { type: "text/csv" }); // the mark tells spreadsheets that it is UTF-8
  },
};

async function save(root, kind) {
  const link = element("a");
  link.href = URL.createObjectURL(await FILES[kind](root));
  link.download = `${root.shown.header.file}.${kind.toLowerCase()}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function buildMenu(root) {
  const menu = element("div", "menu");
  const opener = menu.appendChild(element("button", "opener", "↓"));
  const list = menu.appendChild(element("div", "list"));
  const open = (wanted) => {
    list.hidden = !wanted;
    opener.setAttribute("aria-expanded", wanted);
  };
  opener.type = "button";
  opener.addEventListener("click", () => open(list.hidden));
  for (const kind of Object.keys(FILES)) {
    const button = list.appendChild(element("button", "", kind));
    button.type = "button";
    button.addEventListener("click", () => {
      open(false);
      opener.focus();
      save(root, kind);
    });
  }
  menu.addEventListener("keydown", (event) => event.key === "Escape" && open(false));
  menu.addEventListener("focusout", (event) => menu.contains(event.relatedTarget) || open(false));
  open(false);
  return menu;
}

// What the plot shows, as a sentence; a click asks the page for formula and code.
function buildAbout(root) {
  const button = element("button", "about", "?");
  button.type = "button";
  button.hidden = true;
  button.addEventListener("click", () => root.explain?.());
  return button;
}

function showAbout(root, { about = "" }) {
  const button = root.querySelector(".about");
  if (button.title === about) return;
  button.hidden = !about;
  button.title = about;
  button.setAttribute("aria-label", about);
}

const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

// The plot from the keyboard: arrows lead from place to place as the pointer would, and Enter is a click there.
function listenToKeys(root) {
  const { canvas, kind } = root;
  const there = ([right, down]) => {
    const { left, top } = canvas.getBoundingClientRect();
    root.cursor = kind.walk(root, root.cursor, right, down);
    return { clientX: left + root.cursor.x, clientY: top + root.cursor.y };
  };
  canvas.tabIndex = 0;
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && kind.point(root, there([0, 0])));
  canvas.addEventListener("blur", () => kind.point(root));
  canvas.addEventListener("keydown", (event) => {
    const arrow = ARROWS[event.key];
    if (!arrow && !["Enter", " "].includes(event.key)) return;
    event.preventDefault(); // the page does not scroll
    if (arrow) kind.point(root, there(arrow));
    else kind.click(root, there([0, 0]));
  });
  root.tip.setAttribute("aria-live", "polite");
}

const within = (place, count) => Math.max(0, Math.min(count - 1, place));

// A plot of this kind in `parentElement`: heading with a menu of files, canvas, tip. Nothing is shown in it yet.
function buildPlot(parentElement, name, kind) {
  const root = parentElement.appendChild(element("div", `vitrine plot ${name}`));
  root.kind = kind;
  root.heading = element("div", "heading");
  root.heading.append(element("b"), element("span"), element("span", "aside"), buildMenu(root));
  root.heading.firstChild.after(buildAbout(root));
  root.canvas = element("canvas");
  root.canvas.height = 0; // until it is painted
  root.canvas.setAttribute("role", "img");
  root.tip = element("div", "tip");
  root.append(root.heading, root.canvas, root.tip);
  root.lit = { ...bus.lit };
  root.pointed = {};
  root.canvas.addEventListener("pointermove", (event) => kind.point(root, event));
  root.canvas.addEventListener("pointerleave", () => kind.point(root));
  root.canvas.addEventListener("click", (event) => kind.click(root, event));
  if (kind.walk) listenToKeys(root);
  const sizes = new ResizeObserver(([{ contentRect }]) => {
    if (Math.floor(contentRect.width) === root.width) return;
    root.width = Math.floor(contentRect.width);
    paint(root);
  });
  sizes.observe(root);
  const dark = onHover((side, position) => {
    if (root.lit[side] === position || !kind.sides(root.shown.header).includes(side)) return;
    root.lit[side] = position;
    paintSoon(root);
  });
  const fonts = () => {
    widths.clear(); // labels were drawn in another face until theirs had come
    paint(root);
  };
  document.fonts.addEventListener("loadingdone", fonts);
  const plain = onTheme(() => paint(root));
  root.stop = () => {
    sizes.disconnect();
    dark();
    plain();
    document.fonts.removeEventListener("loadingdone", fonts);
  };
  return root;
}

const SOUGHT = 4000; // milliseconds in which a plot answers a click elsewhere

// A plot that shows another thing after a click far from it, on a screen where it is out of sight.
function bringIntoView(root, { name, chosen }) {
  const before = root.shown.header;
  if (!bus.sought || performance.now() - bus.sought > SOUGHT || (name === before.name && chosen === before.chosen)) return;
  const { top, bottom } = root.getBoundingClientRect();
  bus.sought = 0;
  if (top > innerHeight - 120 || bottom < 120) root.scrollIntoView({ block: "nearest", behavior: "smooth" });
}

// Show `shown`, {header, …}: heading and alternative text come from the header {name, sentence, note, alt, stamp, words}.
function showPlot(root, shown) {
  const { header } = shown;
  if (root.shown) bringIntoView(root, header);
  root.shown = shown;
  const [name, , sentence, note] = root.heading.children;
  write(name, header.name);
  write(sentence, header.sentence ?? "");
  write(note, header.note ?? "");
  showAbout(root, header);
  const opener = root.heading.querySelector(".opener");
  if (opener.title !== header.words.download) {
    opener.title = header.words.download;
    opener.setAttribute("aria-label", header.words.download);
  }
  root.canvas.setAttribute("aria-label", header.alt);
  root.tip.hidden = true;
  root.pointed = {};
  paint(root);
  root.dataset.painted = header.stamp;
}

// The tip says these lines beside a place of the canvas.
function showTip(root, nodes, x, y) {
  const { place, tip, canvas } = root;
  tip.hidden = !nodes;
  if (!nodes) return;
  tip.replaceChildren(...nodes);
  tip.style.left = `${Math.max(0, Math.min(place.width - tip.offsetWidth, x))}px`;
  tip.style.top = `${canvas.offsetTop + Math.max(0, y - tip.offsetHeight - 6)}px`;
}
