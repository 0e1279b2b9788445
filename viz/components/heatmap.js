// A labelled heatmap: rows look at columns; masked cells are hatched; beside it a colour bar. A scale that begins below 0
// is a diverging one. One drawing for two pens: a canvas on the page, SVG in a file. Lengths are CSS pixels.

const LEGIBLE = 40; // labels on an axis; above that every k-th
const LETTERS = 16; // of a label
const FONT = 12;
const LOWEST = 72; // of the colour bar: room for its title
const BAR = { gap: 14, width: 10, room: 6 };
const MARK = "#0072b2"; // the query's blue

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

// 256 colours from the scale's low end to its high end; `at` gives that of a value.
function palette({ low, high }) {
  const colours = Array.from({ length: 256 }, (_, index) => {
    const value = low + (index / 255) * (high - low);
    return low < 0 ? signedColour(value, high) : `rgba(${HUE.join(",")},${(value / high).toFixed(3)})`;
  });
  return (value) => colours[Math.max(0, Math.min(255, Math.round((255 * (value - low)) / (high - low))))];
}

// Where everything goes in the width there is. measure: how wide a label will be drawn.
function arrange({ rows, columns, scale }, width, ratio, measure) {
  const names = { rows: rows.labels.map(shortened), columns: columns.labels.map(shortened) };
  const count = { rows: names.rows.length, columns: names.columns.length };
  const widths = names.columns.map(measure);
  const widest = Math.max(...widths);
  const marks = ticks(scale.low, scale.high, count.rows < 4 ? 2 : 5);
  const markWidth = Math.max(...marks.map(([, text]) => measure(text)));
  const snap = (length) => Math.round(length * ratio) / ratio;
  const left = snap(30 + Math.max(...names.rows.map(measure)));
  const bar = BAR.gap + BAR.width + BAR.room + markWidth + 22;
  // Cells are alike where they are a whole number of the screen's pixels; very small ones share what there is.
  const whole = (length) => (length * ratio < 6 ? length : Math.floor(length * ratio) / ratio);
  let right = bar;
  let wide, turn;
  for (let attempt = 0; attempt < 2; attempt++) {
    wide = whole(Math.min(64, Math.max(1, (width - left - right) / count.columns)));
    turn = widest + 6 <= wide ? 0 : wide >= 1.3 * FONT ? -45 : -90;
    // A slanted label of one of the last columns reaches out to the right.
    const reach = widths.map((label, column) => 0.71 * (label + FONT) - (count.columns - column - 0.5) * wide);
    right = turn === -45 ? Math.max(bar, ...reach) : bar;
  }
  const tall = Math.max(34, Math.min(64, 240 / count.rows)); // few rows may be as high as wide
  const high = whole(Math.min(Math.max(wide, 22), tall, Math.max(600 / count.rows, 4)));
  const top = snap(34 + (turn === 0 ? FONT : turn === -45 ? 0.71 * (widest + FONT) : widest));
  const every = (total, room) => Math.max(Math.ceil(total / LEGIBLE), Math.ceil((FONT + 1) / room));
  return {
    names, count, marks, markWidth, turn, left, top, wide, high, width,
    x: (column) => snap(left + column * wide),
    y: (row) => snap(top + row * high),
    length: Math.max(count.rows * high, LOWEST),
    gap: Math.min(wide, high) >= 8 ? 1 : 0,
    every: { rows: every(count.rows, high), columns: turn ? every(count.columns, wide) : 1 },
    height: Math.ceil(top + Math.max(count.rows * high, LOWEST) + 6),
  };
}

function draw(pen, place, { header, values, visible, chosen, lit = {}, pointed = {} }) {
  const { rows, columns, scale } = header;
  const { names, count, turn, left, top, length, gap, every, x, y } = place;
  const [right, bottom] = [x(count.columns), y(count.rows)];
  pen.text(columns.title, (left + right) / 2, 9, { align: "center" });
  pen.text(rows.title, 8, top + length / 2, { align: "center", turn: -90 });
  names.columns.forEach((name, column) => {
    const marked = column === pointed.column || column === lit[columns.side];
    if (column % every.columns && !marked) return;
    const align = turn ? "left" : "center";
    pen.text(name, (x(column) + x(column + 1)) / 2, top - 9, { align, turn, marked, token: true });
  });
  names.rows.forEach((name, row) => {
    const marked = row === pointed.row || row === lit[rows.side];
    if (row % every.rows && !marked) return;
    pen.text(name, left - 8, (y(row) + y(row + 1)) / 2, { align: "right", marked, strong: row === chosen, token: true });
  });

  const colour = palette(scale);
  for (let row = 0; row < count.rows; row++) {
    for (let column = 0; column < count.columns; column++) {
      const cell = row * count.columns + column;
      const box = [x(column), y(row), x(column + 1) - x(column) - gap, y(row + 1) - y(row) - gap];
      if (visible[cell]) pen.box(...box, colour(values[cell]));
      else pen.hatch(...box);
    }
  }
  pen.frame(left, top, right - left, bottom - top, { faint: true });
  const around = (row, column, span, style) =>
    pen.frame(x(column), y(row), x(column + span) - x(column), y(row + 1) - y(row), style);
  if (chosen >= 0) around(chosen, 0, count.columns, { width: gap + 1, colour: MARK });
  if (pointed.row >= 0) around(pointed.row, pointed.column, 1, {});

  const edge = right + BAR.gap;
  const [low, high] = [scale.low, scale.high];
  for (let slice = 0; slice < length; slice++) {
    pen.box(edge, top + slice, BAR.width, Math.min(1, length - slice), colour(high - (slice / length) * (high - low)));
  }
  pen.frame(edge, top, BAR.width, length, { faint: true });
  for (const [value, text] of place.marks) {
    const at = top + ((high - value) / (high - low)) * length;
    pen.text(text, edge + BAR.width + BAR.room, Math.max(top + 5, Math.min(top + length - 5, at)), {});
  }
  const beside = edge + BAR.width + BAR.room + place.markWidth + 12;
  pen.text(scale.title, beside, top + length / 2, { align: "center", turn: 90 });
}

// The faces and colours of the page's theme.
function appearance(root) {
  const style = getComputedStyle(root);
  return {
    text: style.fontFamily,
    token: `${style.getPropertyValue("--st-code-font") || "monospace"}, "Noto Sans Mono CJK SC", monospace`,
    colour: style.color,
    background: style.getPropertyValue("--st-background-color") || "#fff",
  };
}

function measurer(context, look) {
  context.font = `${FONT}px ${look.token}`;
  return (text) => context.measureText(text).width;
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
  const text = (words, x, y, { align = "left", turn = 0, marked, strong, token }) => {
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.font = `${strong ? "bold " : ""}${FONT}px ${token ? look.token : look.text}`;
    context.textAlign = align;
    if (marked) {
      const width = context.measureText(words).width;
      box({ left: -3, center: -width / 2 - 3, right: -width - 3 }[align], -FONT / 2 - 2, width + 6, FONT + 4, MARK);
    }
    context.fillStyle = marked ? "#fff" : look.colour;
    context.fillText(words, 0, 0);
    context.restore();
  };
  const frame = (x, y, width, height, { width: line = 1, colour = look.colour, faint }) => {
    context.globalAlpha = faint ? 0.25 : 1;
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(x - 0.5, y - 0.5, width, height); // in the gap before the next cell
    context.globalAlpha = 1;
  };
  return { text, box, frame, hatch: (x, y, width, height) => box(x, y, width, height, hatched) };
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
  const box = (x, y, width, height, colour) => {
    const [, rgb, alpha] = colour.match(/^rgba\((.*),(.*)\)$/) ?? [];
    const fill = rgb ? { fill: `rgb(${rgb})`, "fill-opacity": alpha } : { fill: colour };
    add(svg, "rect", { x, y, width, height, ...fill });
  };
  const text = (words, x, y, { align = "left", turn = 0, strong, token }) => {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const place = { transform: `translate(${x} ${y}) rotate(${turn})`, "text-anchor": anchor };
    const style = { "font-family": token ? look.token : look.text, "font-size": FONT, fill: look.colour };
    const weight = strong ? { "font-weight": "bold" } : {};
    add(svg, "text", { ...place, ...style, ...weight, dy: "0.35em", direction: "ltr" }, words);
  };
  const frame = (x, y, width, height, { width: line = 1, colour = look.colour, faint }) => {
    const stroke = { stroke: colour, "stroke-width": line, "stroke-opacity": faint ? 0.25 : 1 };
    add(svg, "rect", { x: x - 0.5, y: y - 0.5, width, height, fill: "none", ...stroke });
  };
  return { text, box, frame, hatch: (x, y, width, height) => box(x, y, width, height, "url(#masked)") };
}

function paint(root) {
  if (!root.width || !root.shown) return; // not laid out yet: the observer of its size calls again
  const { canvas } = root;
  const ratio = window.devicePixelRatio || 1;
  const look = appearance(root);
  const measure = measurer(canvas.getContext("2d"), look);
  const place = (root.place = arrange(root.shown.header, root.width, ratio, measure));
  const context = cleared(canvas, Math.round(place.width * ratio), Math.round(place.height * ratio));
  canvas.style.height = `${place.height}px`;
  draw(canvasPen(context, ratio, look), place, { ...root.shown, lit: root.lit, pointed: root.pointed });
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
    const place = arrange(root.shown.header, root.width, ratio, measurer(context, look));
    canvas.width = place.width * ratio;
    canvas.height = place.height * ratio;
    context.fillStyle = look.background;
    context.fillRect(0, 0, canvas.width, canvas.height);
    draw(canvasPen(context, ratio, look), place, root.shown);
    return new Promise((done) => canvas.toBlob(done));
  },
  async SVG(root) {
    const look = appearance(root);
    const place = arrange(root.shown.header, root.width, 1, measurer(root.canvas.getContext("2d"), look));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${place.width} ${place.height}`);
    draw(svgPen(svg, look), place, root.shown);
    return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  },
  async CSV(root) {
    const { header, values, visible } = root.shown;
    const { rows, columns, words } = header;
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [words.csv];
    values.forEach((value, cell) => {
      const row = rows.labels[Math.floor(cell / columns.labels.length)];
      lines.push([row, columns.labels[cell % columns.labels.length], exact(value), visible[cell] ? "False" : "True"]);
    });
    const text = lines.map((line) => line.map(quoted).join(",") + "\n").join("");
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

// The cell under the pointer: its row and column, -1 outside.
function cellAt({ place, canvas }, event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - place.left) / place.wide);
  const row = Math.floor((event.clientY - box.top - place.top) / place.high);
  const inside = row >= 0 && row < place.count.rows && column >= 0 && column < place.count.columns;
  return inside ? { row, column } : { row: -1, column: -1 };
}

function point(root, event) {
  const { header, values, visible } = root.shown;
  const { rows, columns, scale, words } = header;
  const { row, column } = (root.pointed = event ? cellAt(root, event) : { row: -1, column: -1 });
  hover(rows.side, row);
  if (columns.side !== rows.side) hover(columns.side, column);
  const cell = row * columns.labels.length + column;
  root.tip.hidden = row < 0;
  root.canvas.style.cursor = row < 0 ? "" : "pointer";
  paintSoon(root);
  if (row < 0) return;
  const pair = element("div", "pair");
  for (const label of [rows.labels[row], " → ", columns.labels[column]]) pair.appendChild(element("bdi", "", label));
  const value = visible[cell] ? `${scale.title} ${exact(values[cell])}` : words.masked;
  root.tip.replaceChildren(pair, element("div", "", value));
  const { place, tip } = root;
  tip.style.left = `${Math.max(0, Math.min(place.width - tip.offsetWidth, place.x(column + 1) + 6))}px`;
  tip.style.top = `${root.canvas.offsetTop + Math.max(0, place.y(row) - tip.offsetHeight - 6)}px`;
}

function build(parentElement) {
  const root = parentElement.appendChild(element("div", "vitrine heatmap"));
  root.heading = element("div", "heading");
  root.heading.append(element("b"), element("span"), element("span", "aside"), buildMenu(root));
  root.canvas = element("canvas");
  root.canvas.setAttribute("role", "img");
  root.tip = element("div", "tip");
  root.append(root.heading, root.canvas, root.tip);
  root.lit = {};
  root.pointed = { row: -1, column: -1 };
  root.canvas.addEventListener("pointermove", (event) => point(root, event));
  root.canvas.addEventListener("pointerleave", () => point(root));
  root.canvas.addEventListener("click", (event) => {
    const { row } = cellAt(root, event);
    if (row < 0) return;
    root.shown.chosen = row;
    paint(root);
    root.choose(row);
  });
  const sizes = new ResizeObserver(([{ contentRect }]) => {
    if (Math.floor(contentRect.width) === root.width) return;
    root.width = Math.floor(contentRect.width);
    paint(root);
  });
  sizes.observe(root);
  const dark = onHover((side, position) => {
    const { rows, columns } = root.shown.header;
    if (root.lit[side] === position || (side !== rows.side && side !== columns.side)) return;
    root.lit[side] = position;
    paintSoon(root);
  });
  const fonts = () => paint(root); // labels were drawn in another face until theirs had come
  document.fonts.addEventListener("loadingdone", fonts);
  root.stop = () => {
    sizes.disconnect();
    dark();
    document.fonts.removeEventListener("loadingdone", fonts);
  };
  return root;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  const header = unpack(data);
  const [values, visible] = header.arrays;
  root.shown = { header, values, visible, chosen: header.chosen };
  root.choose = (row) => setTriggerValue("row", row);
  const [name, sentence, note] = root.heading.children;
  write(name, header.name);
  write(sentence, header.sentence);
  write(note, header.note);
  const opener = root.heading.querySelector(".opener");
  opener.title = header.words.download;
  opener.setAttribute("aria-label", header.words.download);
  root.canvas.setAttribute("aria-label", header.alt);
  root.tip.hidden = true;
  root.pointed = { row: -1, column: -1 };
  paint(root);
  root.dataset.painted = header.stamp;
  return () => root.stop();
}
