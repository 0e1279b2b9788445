// Every head of one kind of attention as a thumbnail: a row a layer. Click one to open it large.
const TITLE = 15; // px above a thumbnail

function drawHead(canvas, weights, visible, from, rows, columns, top) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let cell = 0; cell < rows * columns; cell++) {
    const at = 4 * cell;
    if (visible[cell]) {
      image.data[at] = HUE[0];
      image.data[at + 1] = HUE[1];
      image.data[at + 2] = HUE[2];
      image.data[at + 3] = Math.min(255, (255 * weights[from + cell]) / top);
    }
  }
  context.putImageData(image, 0, 0);
}

// Masked cells do not depend on the head: one hatched picture serves all thumbnails as their background.
function hatchPicture(visible, rows, columns) {
  if (visible.every((cell) => cell)) return "none";
  const scale = Math.max(1, Math.ceil(96 / Math.max(rows, columns)));
  const canvas = document.createElement("canvas");
  canvas.width = columns * scale;
  canvas.height = rows * scale;
  const context = canvas.getContext("2d");
  context.fillStyle = hatch(context, 6);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (!visible[row * columns + column]) context.fillRect(column * scale, row * scale, scale, scale);
    }
  }
  return `url(${canvas.toDataURL()})`;
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
      button.append(title, element("canvas"));
      button.addEventListener("click", () => choose(layer, head));
      root.thumbnails.push(button);
      grid.appendChild(button);
    }
  }
  root.tip = element("div", "tip muted");
  root.replaceChildren(grid, root.tip);
}

export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = element("div", "vitrine heads");
    parentElement.appendChild(root);
  }
  const { layers, heads, rows, columns, chosen, entropy, tops, words, labels, sides, arrays } = unpack(data);
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
  const background = hatchPicture(visible, rows, columns);
  root.thumbnails.forEach((button, index) => {
    const from = index * rows * columns;
    const [layer, head] = [Math.floor(index / heads), index % heads];
    const canvas = button.querySelector("canvas");
    drawHead(canvas, weights, visible, from, rows, columns, tops[index]);
    canvas.style.backgroundImage = background;
    button.querySelector(".entropy").textContent = `H ${entropy[index].toFixed(2)}`;
    const name = `${words.layer} ${layer + 1}, ${words.head} ${head + 1}`;
    button.setAttribute("aria-label", `${name}, ${words.entropy} ${entropy[index].toFixed(2)}`);
    canvas.onpointermove = (event) => {
      const box = canvas.getBoundingClientRect();
      const row = Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows));
      const column = Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
      const cell = row * columns + column;
      const value = visible[cell] ? significant(weights[from + cell] / 65535) : words.masked;
      root.tip.textContent = `${name}: ${labels.rows[row]} → ${labels.columns[column]}  ${value}`;
      hover(sides.rows, row);
      if (sides.columns !== sides.rows) hover(sides.columns, column);
    };
    canvas.onpointerleave = () => {
      root.tip.textContent = words.caption;
      hover(sides.rows, -1);
      hover(sides.columns, -1);
    };
  });
  root.tip.textContent = words.caption;
  mark(...chosen);
  root.dataset.painted = words.stamp;
}
