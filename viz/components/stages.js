// One query of one head, step by step: score, scaled, masked, weight, weighted value, for every key; their sum below.
// Vectors are painted as strips on one canvas over the table: a canvas each costs the browser a third of its frame.

// columns: key, a number for each step before the weight, weight, weighted value.
function build(parentElement, columns) {
  const root = parentElement.appendChild(element("div", "vitrine stages"));
  const picker = element("div", "picker");
  root.queries = element("div", "chips");
  picker.append(element("span", "muted"), root.queries);
  const scroll = element("div", "scroll");
  const sheet = scroll.appendChild(element("div", "sheet"));
  root.table = sheet.appendChild(element("table"));
  root.atlas = sheet.appendChild(element("canvas", "atlas"));
  root.note = element("div", "aside muted");
  root.append(picker, root.note, scroll);
  root.head = root.table.createTHead().insertRow();
  root.body = root.table.createTBody();
  root.total = root.table.createTFoot().insertRow();
  root.columns = columns;
  for (let column = 0; column < columns; column++) {
    const title = root.head.appendChild(element("th"));
    title.append(element("span", "name"), element("span", "formula muted"));
    root.total.insertCell();
  }
  root.total.lastElementChild.appendChild(newStrip());
  addFiles(root, () => root, stageLines);
  const { draw } = root.kind;
  root.kind.draw = (pen) => {
    draw(pen);
    drawStrips(root, pen);
  };
  const sizes = new ResizeObserver(() => paintStrips(root));
  sizes.observe(sheet);
  const dark = lightChips(root);
  root.stop = () => {
    sizes.disconnect();
    dark();
  };
  return root;
}

function newStrip() {
  const made = element("span", "strip");
  made.setAttribute("role", "img");
  made.addEventListener("pointermove", (event) => {
    const { values, name } = made;
    const channel = Math.min(values.length - 1, Math.floor((event.offsetX / made.clientWidth) * values.length));
    made.title = `${name} [${channel}] = ${values[channel]}`;
  });
  return made;
}

function newRow(body, position, columns) {
  const row = body.insertRow();
  for (let column = 0; column < columns; column++) row.insertCell();
  row.cells[0].className = "key";
  row.cells[0].appendChild(newChip(position));
  row.cells[columns - 2].append(element("i", "bar"), element("span"));
  row.cells[columns - 1].appendChild(newStrip());
}

// The root for a table of so many columns; one of another number is thrown away.
function rootFor(parentElement, columns) {
  const root = parentElement.querySelector(".vitrine");
  if (root?.columns === columns) return root;
  root?.stop();
  root?.remove();
  return build(parentElement, columns);
}

function showStrip(strip, values, name) {
  strip.values = values;
  strip.name = name;
  strip.setAttribute("aria-label", name);
}

// Every strip of the table: its vector, a channel as wide as the other, over the place that the table gives it.
function paintStrips(root) {
  const ratio = window.devicePixelRatio || 1;
  const sheet = root.atlas.parentElement.getBoundingClientRect();
  if (!sheet.width || !root.top) return; // not laid out yet: the observer of its size calls again
  const places = [...root.table.querySelectorAll(".strip")].map((strip) => [strip, strip.getBoundingClientRect()]);
  const first = places[0][1];
  const edge = Math.round((first.left - sheet.left) * ratio);
  root.atlas.style.left = `${edge / ratio}px`;
  const context = cleared(root.atlas, Math.round(first.width * ratio), Math.round(sheet.height * ratio));
  root.atlas.style.width = `${root.atlas.width / ratio}px`;
  root.atlas.style.height = `${root.atlas.height / ratio}px`;
  for (const [{ values }, box] of places) {
    const top = Math.round((box.top - sheet.top) * ratio);
    const height = Math.round(box.height * ratio);
    const wide = root.atlas.width / values.length;
    values.forEach((value, channel) => {
      const left = Math.round(channel * wide);
      context.fillStyle = signedColour(value, root.top);
      context.fillRect(left, top, Math.round((channel + 1) * wide) - left, height);
    });
  }
}

// The strips in a file, above the table that it begins with.
function drawStrips(root, pen) {
  const corner = root.getBoundingClientRect();
  for (const strip of root.table.querySelectorAll(".strip")) {
    const { left, top, width, height } = strip.getBoundingClientRect();
    const wide = width / strip.values.length;
    strip.values.forEach((value, channel) => {
      pen.box(left - corner.left + EDGE + channel * wide, top - corner.top + EDGE, wide, height, signedColour(value, root.top));
    });
  }
}

// A line for each key: the numbers of its row.
function stageLines({ shown: { header } }) {
  const { keys, arrays, words } = header;
  const steps = arrays.slice(0, -2); // the weights behind them
  return [words.csv, ...keys.map((key, row) => [key, ...steps.map((step) => exact(step[row]))])];
}

export default function ({ data, parentElement, setTriggerValue }) {
  const header = unpack(data);
  const { queries, keys, places, sides, chosen, words, special, note, arrays, stamp } = header;
  const root = rootFor(parentElement, words.columns.length);
  const [weights, weighted, sum] = arrays.slice(-3);
  const steps = arrays.slice(0, -3);
  const masked = steps.at(-1);
  const channels = sum.length;
  root.choose = (position) => setTriggerValue("query", position);
  write(root.querySelector(".picker .muted"), words.query);
  showChips(root.queries, queries, special.rows, sides.rows, (side, position) => root.choose(position), places.rows);
  [...root.queries.children].forEach((made, index) => {
    made.classList.toggle("chosen", places.rows[index] === chosen);
    made.setAttribute("aria-pressed", places.rows[index] === chosen);
  });
  write(root.note, note);
  root.table.setAttribute("aria-label", header.alt);
  words.columns.forEach(({ name, formula }, column) => {
    write(root.head.cells[column].firstElementChild, name);
    write(root.head.cells[column].lastElementChild, formula);
  });

  const tops = steps.map(largest);
  while (root.body.rows.length > keys.length) root.body.lastElementChild.remove();
  while (root.body.rows.length < keys.length) newRow(root.body, root.body.rows.length, root.columns);
  [...root.body.rows].forEach(({ cells }, key) => {
    cells[0].firstElementChild.dataset.position = places.columns[key];
    showChip(cells[0].firstElementChild, keys[key], special.columns[key], sides.columns);
    steps.forEach((stage, index) => {
      const cell = cells[index + 1];
      const hidden = stage[key] === -Infinity;
      write(cell, significant(stage[key]));
      cell.title = stage[key];
      cell.className = hidden ? "masked" : "";
      cell.style.background = hidden ? "" : signedColour(stage[key], tops[index], 0.5); // the number stays legible
    });
    const weight = cells[root.columns - 2];
    weight.className = masked[key] === -Infinity ? "masked weight" : "weight";
    weight.title = weights[key];
    weight.firstElementChild.style.width = `${100 * weights[key]}%`;
    write(weight.lastElementChild, significant(weights[key]));
    const part = weighted.subarray(key * channels, (key + 1) * channels);
    showStrip(cells[root.columns - 1].firstElementChild, part, `${keys[key]} · ${words.value}`);
  });
  write(root.total.cells[0], "Σ");
  write(root.total.cells[root.columns - 2], significant(weights.reduce((a, b) => a + b, 0)));
  showStrip(root.total.cells[root.columns - 1].firstElementChild, sum, words.output);
  root.top = Math.max(largest(weighted), largest(sum));
  paintStrips(root);
  showFiles(root, header);
  root.dataset.painted = stamp;
  return () => root.stop();
}
