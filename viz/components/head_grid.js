// Heads as thumbnails, in any order. Click one to open it large. While the film of a training stands at an earlier step,
// that frame of it is shown, from bytes that are here already.
// All thumbnails are painted on one canvas over the grid: a canvas each costs the browser a third of its frame.

const LEVELS = 65533; // of a value; above it a cell is not drawn
const NARROW = 74; // CSS pixels of a thumbnail whose number stands below its name

// The pixel, 0xAABBGGRR, of every level; none for those that are not drawn.
function levelColours(low, high, top, hues) {
  const [below, above] = hues.map(([r, g, b]) => (b << 16) | (g << 8) | r);
  const colours = new Uint32Array(LEVELS + 3);
  const step = (high - low) / LEVELS;
  for (let level = 0; level <= LEVELS; level++) {
    const value = low + level * step;
    const strength = Math.min(255, Math.round((255 * Math.abs(value)) / top));
    colours[level] = (strength << 24) | (value < 0 ? below : above);
  }
  return colours;
}

// One picture of a pixel per cell: as many thumbnails side by side as the grid has columns.
function cellPicture(canvas, levels, states, { count, columns, rows, cells, low, high, tops, difference }) {
  const context = cleared(canvas, columns * cells, Math.ceil(count / columns) * rows);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const hues = difference ? DIFFERENCE : [HUE, HUE];
  let colours;
  for (let index = 0; index < count; index++) {
    if (tops[index] !== tops[index - 1]) colours = levelColours(low, high, tops[index], hues);
    const corner = Math.floor(index / columns) * rows * canvas.width + (index % columns) * cells;
    for (let row = 0; row < rows; row++) {
      let at = corner + row * canvas.width;
      let from = (index * rows + row) * cells;
      for (let cell = row * cells; cell < (row + 1) * cells; cell++, at++, from++) {
        if (states[cell] === 1) pixels[at] = colours[levels[from]];
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Masked cells do not depend on the head: one hatched picture, as large as a thumbnail, lies under all. None: null.
function hatchPicture(states, rows, columns, width, height) {
  if (states.every((state) => state === 1)) return null;
  const canvas = element("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.fillStyle = hatch(context, 6);
  const [x, y] = [(column) => Math.round((column * width) / columns), (row) => Math.round((row * height) / rows)];
  for (let row = 0; row < rows; row++) {
    for (let column = 0, end; column < columns; column = end) {
      end = column + 1;
      if (states[row * columns + column] === 1) continue;
      while (end < columns && states[row * columns + end] !== 1) end++;
      context.fillRect(x(column), y(row), x(end) - x(column), y(row + 1) - y(row));
    }
  }
  return canvas;
}

// Where the thumbnails are on the grid, in CSS pixels; they stay there until the grid's size changes.
function places(root) {
  const grid = root.grid.getBoundingClientRect();
  return root.thumbnails.map((button) => {
    const box = button.querySelector(".map").getBoundingClientRect();
    return [box.left - grid.left, box.top - grid.top, box.width, box.height];
  });
}

function paint(root) {
  const { picture, columns, rows, cells, states } = root.shown;
  const { clientWidth, clientHeight } = root.grid;
  if (!clientWidth) return; // not laid out yet: the observer of its size calls again
  if (!root.places) root.grid.classList.toggle("narrow", clientWidth / columns < NARROW);
  root.places ??= places(root);
  const ratio = window.devicePixelRatio || 1;
  const context = cleared(root.atlas, Math.round(clientWidth * ratio), Math.round(clientHeight * ratio));
  const sizes = root.places.length ? root.places[0].slice(2).map((length) => Math.round(length * ratio)) : [];
  const hatched = sizes.length ? hatchPicture(states, rows, cells, ...sizes) : null;
  root.places.forEach((place, index) => {
    const [left, top, width, height] = place.map((length) => Math.round(length * ratio));
    context.imageSmoothingEnabled = rows > height || cells > width;
    if (hatched) context.drawImage(hatched, left, top, width, height);
    const [x, y] = [(index % columns) * cells, Math.floor(index / columns) * rows];
    context.drawImage(picture, x, y, cells, rows, left, top, width, height);
  });
}

function build(parentElement) {
  const root = parentElement.appendChild(element("div", "vitrine heads"));
  root.grid = element("div", "grid");
  root.picture = element("canvas");
  root.atlas = root.grid.appendChild(element("canvas", "atlas"));
  root.tip = element("div", "tip muted");
  root.append(root.grid, root.tip);
  root.thumbnails = [];
  root.sizes = new ResizeObserver(() => {
    root.places = undefined;
    paint(root);
  });
  root.sizes.observe(root.grid);
  const again = () => root.sent?.kind && showHeads(root);
  root.still = onFilm(again, again);
  return root;
}

function newThumbnail(root, index) {
  const button = element("button", "head");
  button.type = "button";
  const title = element("span", "title");
  title.append(element("i", "dot"), element("span", "name"), element("span", "number"));
  const map = element("span", "map");
  button.append(title, map);
  button.addEventListener("click", () => choose(root, ...root.shown.order[index]));
  map.addEventListener("pointermove", (event) => point(root, index, map, event));
  map.addEventListener("pointerleave", () => leave(root));
  root.grid.insertBefore(button, root.atlas);
  return button;
}

function mark(root) {
  const [layer, head] = root.chosen;
  root.thumbnails.forEach((button, index) => {
    const here = root.shown.order[index][0] === layer && root.shown.order[index][1] === head;
    button.classList.toggle("chosen", here);
    button.setAttribute("aria-pressed", here);
  });
}

function choose(root, layer, head) {
  root.chosen = [layer, head];
  mark(root);
  root.send({ layer, head });
}

// What the tip says of a cell: its tokens and its value.
function point(root, index, map, event) {
  const { rows, cells, block, levels, states, low, high, order, words, labels, sides, difference } = root.shown;
  const box = map.getBoundingClientRect();
  const row = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
  const cell = Math.max(0, Math.min(cells - 1, Math.floor(((event.clientX - box.left) / box.width) * cells)));
  const level = levels[(index * rows + row) * cells + cell];
  const state = states[row * cells + cell];
  const number = significant(low + (level / LEVELS) * (high - low));
  const value =
    state === 0 ? words.masked : level === LEVELS + 1 || state === 2 ? words.missing : level > LEVELS ? words.hidden : `${difference ? "Δ " : ""}${number}`;
  const [first, second] = [row * block[0], cell * block[1]];
  const pooled = block[0] * block[1] > 1;
  const many = pooled ? ` (${words.block.replace("{rows}", block[0]).replace("{columns}", block[1])})` : "";
  root.tip.textContent = `${headName(words, order[index])}: ${labels.rows[first]} → ${labels.columns[second]}  ${value}${many}`;
  hover(sides.rows, first);
  if (sides.columns !== sides.rows) hover(sides.columns, second);
}

function leave(root) {
  root.tip.textContent = root.shown.words.caption;
  hover(root.shown.sides.rows, -1);
  hover(root.shown.sides.columns, -1);
}

const headName = (words, [layer, head]) => `${words.layer} ${layer + 1}, ${words.head} ${head + 1}`;

// A frame of the film where it stands at an earlier step of these very tokens, in the place of what the server sent.
function filmed(sent) {
  const { kind, labels, order, rows, cells, tops, words } = sent;
  if (bus.at == null || !kind || !isFilmed(kind, labels.rows, labels.columns)) return sent;
  const weights = filmWeights(kind, bus.at);
  const heads = bus.film.kinds[kind].shape[1];
  const size = rows * cells;
  const levels = new Uint16Array(order.length * size);
  const highest = order.map(([layer, head], index) => {
    const part = weights.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
    part.forEach((weight, cell) => (levels[index * size + cell] = Math.round((weight / 255) * LEVELS)));
    return part.reduce((top, weight) => Math.max(top, weight / 255), 1 / 255);
  });
  const caption = words.film.replace("{step}", bus.at.toLocaleString("en"));
  const scale = { low: 0, high: 1, tops: tops.every((top) => top === 1) ? tops : highest };
  return { ...sent, ...scale, levels, notes: order.map(() => ""), words: { ...words, caption }, step: bus.at };
}

function showHeads(root) {
  const shown = (root.shown = filmed(root.sent));
  shown.order.forEach((place, index) => {
    write(root.thumbnails[index].querySelector(".number"), shown.notes[index]);
    root.thumbnails[index].setAttribute("aria-label", `${headName(shown.words, place)}, ${shown.words.metric} ${shown.notes[index]}`);
  });
  shown.picture = cellPicture(root.picture, shown.levels, shown.states, shown);
  paint(root);
  write(root.tip, shown.words.caption);
  root.dataset.step = shown.step ?? "";
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".vitrine") ?? build(parentElement);
  const shown = unpack(data);
  const { order, columns, chosen, stamp, rows, cells } = shown;
  const [levels, states] = shown.arrays;
  root.send = (place) => setTriggerValue("head", place);
  root.chosen = chosen;
  const before = `${root.thumbnails.length} ${root.style.getPropertyValue("--columns")}`;
  root.style.setProperty("--columns", columns);
  while (root.thumbnails.length > order.length) root.thumbnails.pop().remove();
  while (root.thumbnails.length < order.length) root.thumbnails.push(newThumbnail(root, root.thumbnails.length));
  if (before !== `${order.length} ${columns}`) root.places = undefined;
  order.forEach(([layer, head], index) => {
    const [dot, name] = root.thumbnails[index].firstElementChild.children;
    dot.style.background = headColour(head);
    write(name, `${layer + 1}.${head + 1}`);
  });
  root.sent = { ...shown, levels, states };
  showHeads(root);
  mark(root);
  root.dataset.cells = `${cells} ${rows}`;
  root.dataset.painted = stamp;
  return () => {
    root.sizes.disconnect();
    root.still();
  };
}
