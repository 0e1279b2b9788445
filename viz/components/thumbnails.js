// Every head of one kind of attention as a thumbnail: a row a layer.
// All thumbnails are painted on one canvas over the grid: a canvas each costs the browser a third of its frame.

// One picture of a pixel per cell: layers below each other, heads side by side.
// signed: weights are differences, in the colours of differences.
function cellPicture(canvas, weights, visible, { layers, heads, rows, columns, tops, signed }) {
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
        const weight = weights[index * cells + cell];
        const hue = signed ? DIFFERENCE[weight < 0 ? 0 : 1] : HUE;
        image.data[at] = hue[0];
        image.data[at + 1] = hue[1];
        image.data[at + 2] = hue[2];
        image.data[at + 3] = Math.min(255, (255 * Math.abs(weight)) / top);
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
function thumbnailPlaces(root) {
  const grid = root.grid.getBoundingClientRect();
  return root.thumbnails.map((button) => {
    const box = button.querySelector(".map").getBoundingClientRect();
    return [box.left - grid.left, box.top - grid.top, box.width, box.height];
  });
}

function paintThumbnails(root) {
  const { cells, hatched, heads, rows, columns } = root.picture;
  const { clientWidth, clientHeight } = root.grid;
  if (!clientWidth) return; // not laid out yet: the observer of its size calls again
  root.places ??= thumbnailPlaces(root);
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

function buildThumbnails(root, layers, heads, choose) {
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
      title.append(dot, element("span", "name", `${layer + 1}.${head + 1}`));
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
    paintThumbnails(root);
  });
}
