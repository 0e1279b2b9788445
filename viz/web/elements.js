// Elements of the page and canvases. Components share the page with Streamlit: text goes in by textContent, never by innerHTML.

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// What ends a component, for Streamlit to call when it goes. It calls what earlier calls gave it too, and late, where newer
// data came while the script was being loaded: a later call may have gone on with the same root, or will make another.
export function ending(root) {
  const turn = (root.turn = {});
  return () => {
    if (root.turn !== turn) return;
    root.stop();
    root.remove();
  };
}

// The empty canvas, so many pixels large; its memory is kept where it can be: new memory is what costs.
export function cleared(canvas, width, height) {
  const context = canvas.getContext("2d");
  if (canvas.width === width && canvas.height === height) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
  } else {
    canvas.width = width;
    canvas.height = height;
  }
  return context;
}

// The hatch of masked cells, as a canvas pattern.
export function hatch(context, step) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = step;
  const pen = tile.getContext("2d");
  pen.fillStyle = "rgba(128,128,128,0.14)";
  pen.fillRect(0, 0, step, step);
  pen.strokeStyle = "rgba(128,128,128,0.55)";
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-step, 0, step]) {
    pen.moveTo(shift, step);
    pen.lineTo(shift + step, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}
