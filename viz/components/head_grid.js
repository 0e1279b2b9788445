// Every head of one kind of attention as a thumbnail. Click one to open it large.
// While the film of a training stands at an earlier step, that frame of it is shown, from bytes that are here already.

// What is shown: a frame of the film where it stands at an earlier step of these very tokens, else what came from the
// server. Weights are parts of `unit`.
function showing({ header, arrays: [weights, visible] }) {
  const { kind, labels, tops, layers, heads, rows, columns } = header;
  const shape = { layers, heads, rows, columns };
  if (bus.at == null || !kind || !isFilmed(kind, labels.rows, labels.columns)) {
    return { weights, visible, shape: { ...shape, tops }, unit: 65535, step: null };
  }
  const filmed = filmWeights(kind, bus.at);
  const cells = rows * columns;
  const toOne = tops.every((top) => top === 65535);
  const highest = (index) => filmed.subarray(index * cells, (index + 1) * cells).reduce((a, b) => Math.max(a, b), 1);
  return { weights: filmed, visible, shape: { ...shape, tops: tops.map((_, index) => (toOne ? 255 : highest(index))) }, unit: 255, step: bus.at };
}

function showHeads(root) {
  const { header } = root.data;
  const { heads, rows, columns, entropy, words, labels, sides, stamp } = header;
  const { weights, visible, shape, unit, step } = (root.now = showing(root.data));
  root.picture = { ...shape, cells: cellPicture(root.cells, weights, visible, shape), hatched: (root.hatched ??= { picture: hatchPicture(visible, rows, columns) }).picture };
  paintThumbnails(root);
  const caption = step === null ? words.caption : words.film.replace("{step}", step.toLocaleString("en"));
  root.sizes.observe(root.grid);
  root.thumbnails.forEach((button, index) => {
    const from = index * rows * columns;
    const [layer, head] = [Math.floor(index / heads), index % heads];
    const map = button.querySelector(".map");
    const bits = step === null ? `H ${entropy[index].toFixed(2)}` : ""; // of the newest step alone
    write(button.querySelector(".entropy"), bits);
    const name = `${words.layer} ${layer + 1}, ${words.head} ${head + 1}`;
    button.setAttribute("aria-label", step === null ? `${name}, ${words.entropy} ${entropy[index].toFixed(2)}` : name);
    map.onpointermove = (event) => {
      const box = map.getBoundingClientRect();
      const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
      const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
      const cell = row * columns + column;
      const value = visible[cell] ? significant(root.now.weights[from + cell] / root.now.unit) : words.masked;
      root.tip.textContent = `${name}: ${labels.rows[row]} → ${labels.columns[column]}  ${value}`;
      hover(sides.rows, row);
      if (sides.columns !== sides.rows) hover(sides.columns, column);
    };
    map.onpointerleave = () => {
      root.tip.textContent = caption;
      hover(sides.rows, -1);
      hover(sides.columns, -1);
    };
  });
  root.tip.textContent = caption;
  root.dataset.cells = `${columns} ${rows}`;
  root.dataset.step = step ?? "";
  root.dataset.painted = stamp;
}

export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = element("div", "vitrine heads");
    parentElement.appendChild(root);
    const again = () => root.data && (root.now.step !== null || bus.at != null) && showHeads(root);
    root.stop = onFilm(again, again);
  }
  const header = unpack(data);
  const { layers, heads, chosen } = header;
  const mark = (layer, head) =>
    root.thumbnails.forEach((button, index) => {
      const here = index === layer * heads + head;
      button.classList.toggle("chosen", here);
      button.setAttribute("aria-pressed", here);
    });
  root.choose = (layer, head) => {
    mark(layer, head);
    setTriggerValue("head", { layer, head });
  };
  if (root.shape !== `${layers}x${heads}`) {
    root.shape = `${layers}x${heads}`;
    buildThumbnails(root, layers, heads, (layer, head) => root.choose(layer, head));
  }
  root.data = { header, arrays: header.arrays };
  root.hatched = undefined;
  showHeads(root);
  mark(...chosen);
  return () => root.stop();
}
