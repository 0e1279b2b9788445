// Every head of one kind of attention as a thumbnail: a row a layer. Click one to open it large.
// All thumbnails are painted on one canvas over the grid: a canvas each costs the browser a third of its frame.

// One picture of a pixel per cell: layers below each other, heads side by side.
function cellPicture(canvas, weights, visible, { layers, heads, rows, columns, tops }) {
  const context = cleared(canvas, heads * columns, layers * rows);
  const image = context.createImageData(canvas.width, canvas.height);
  const cells = rows * columns;
  for (let index = 0; index < layers * heads; index++) {
    const top = tops[index];
    const corner = Math.floor(index / heads) * rows * canvas.width + (index % heads) * columns;
    for (let row = 0; row < rows; row++) {
      let at = 4 * (corner + row * canvas.width);
      for (let cell = row * columns; cell < (row + 1) * columns; cell++, at += 4) {
        if (!visible[cell]) continue;
        image.data[at] = HUE[0];
        image.data[at + 1] = HUE[1];
        image.data[at + 2] = HUE[2];
        image.data[at + 3] = Math.min(255, (255 * weights[index * cells + cell]) / top);
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// Masked cells do not depend on the head: one hatched picture lies under all thumbnails. None: null.
function hatchPicture(visible, rows, columns) {
  if (visible.every((cell) => cell)) return null;
  const scale = Math.max(1, Math.ceil(96 / Math.max(rows, columns)));
  const canvas = element("canvas");
  canvas.width = columns * scale;
  canvas.height = rows * scale;
  const context = canvas.getContext("2d");
  context.fillStyle = hatch(context, 6);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (!visible[row * columns + column]) context.fillRect(column * scale, row * scale, scale, scale);
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
  const { cells, hatched, heads, rows, columns } = root.picture;
  const { clientWidth, clientHeight } = root.grid;
  if (!clientWidth) return; // not laid out yet: the observer of its size calls again
  root.places ??= places(root);
  const ratio = window.devicePixelRatio || 1;
  const context = cleared(root.atlas, Math.round(clientWidth * ratio), Math.round(clientHeight * ratio));
  root.places.forEach((place, index) => {
    const [left, top, width, height] = place.map((length) => Math.round(length * ratio));
    context.imageSmoothingEnabled = rows > height || columns > width;
    if (hatched) context.drawImage(hatched, left, top, width, height);
    const [x, y] = [(index % heads) * columns, Math.floor(index / heads) * rows];
    context.drawImage(cells, x, y, columns, rows, left, top, width, height);
  });
}

function build(root, layers, heads, choose) {
  const grid = element("div", "grid");
  grid.style.setProperty("--heads", heads);
  root.thumbnails = [];
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      const button = element("button", "head");
      button.type = "button";
      const title = element("span", "title");
      const dot = element("i", "dot");
      dot.style.background = `hsl(${(head * 137.5) % 360} 65% 50%)`; // a head's fixed colour
      title.append(dot, element("span", "name", `${layer + 1}.${head + 1}`), element("span", "entropy"));
      button.append(title, element("span", "map"));
      button.addEventListener("click", () => choose(layer, head));
      root.thumbnails.push(button);
      grid.appendChild(button);
    }
  }
  root.grid = grid;
  root.cells = element("canvas");
  root.atlas = grid.appendChild(element("canvas", "atlas"));
  root.tip = element("div", "tip muted");
  root.replaceChildren(grid, root.tip);
  root.places = undefined;
  root.sizes?.disconnect();
  root.sizes = new ResizeObserver(() => {
    root.places = undefined;
    paint(root);
  });
}

export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = element("div", "vitrine heads");
    parentElement.appendChild(root);
  }
  const { layers, heads, rows, columns, chosen, entropy, tops, words, stamp, labels, sides, arrays } = unpack(data);
  const [weights, visible] = arrays;
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
    build(root, layers, heads, (layer, head) => root.choose(layer, head));
  }
  const shape = { layers, heads, rows, columns, tops };
  root.picture = { ...shape, cells: cellPicture(root.cells, weights, visible, shape), hatched: hatchPicture(visible, rows, columns) };
  paint(root);
  root.sizes.observe(root.grid);
  root.thumbnails.forEach((button, index) => {
    const from = index * rows * columns;
    const [layer, head] = [Math.floor(index / heads), index % heads];
    const map = button.querySelector(".map");
    write(button.querySelector(".entropy"), `H ${entropy[index].toFixed(2)}`);
    const name = `${words.layer} ${layer + 1}, ${words.head} ${head + 1}`;
    button.setAttribute("aria-label", `${name}, ${words.entropy} ${entropy[index].toFixed(2)}`);
    map.onpointermove = (event) => {
      const box = map.getBoundingClientRect();
      const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
      const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
      const cell = row * columns + column;
      const value = visible[cell] ? significant(weights[from + cell] / 65535) : words.masked;
      root.tip.textContent = `${name}: ${labels.rows[row]} → ${labels.columns[column]}  ${value}`;
      hover(sides.rows, row);
      if (sides.columns !== sides.rows) hover(sides.columns, column);
    };
    map.onpointerleave = () => {
      root.tip.textContent = words.caption;
      hover(sides.rows, -1);
      hover(sides.columns, -1);
    };
  });
  root.tip.textContent = words.caption;
  mark(...chosen);
  root.dataset.cells = `${columns} ${rows}`;
  root.dataset.painted = stamp;
}
