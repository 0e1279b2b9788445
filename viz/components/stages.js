// One query of one head, step by step: score, scaled, masked, weight, weighted value, for every key; their sum below.
const SIGNED = [[213, 94, 0], [0, 114, 178]]; // negative, positive: the diverging scale of signed values

function signedColour(value, top, strength = 0.85) {
  const [r, g, b] = SIGNED[value < 0 ? 0 : 1];
  return `rgba(${r},${g},${b},${top ? strength * Math.min(1, Math.abs(value) / top) : 0})`;
}

function strip(values, top, title) {
  const canvas = element("canvas", "strip");
  canvas.width = values.length;
  canvas.height = 1;
  const context = canvas.getContext("2d");
  values.forEach((value, channel) => {
    context.fillStyle = signedColour(value, top);
    context.fillRect(channel, 0, 1, 1);
  });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", title);
  canvas.onpointermove = (event) => {
    const channel = Math.min(values.length - 1, Math.floor((event.offsetX / canvas.clientWidth) * values.length));
    canvas.title = `${title} [${channel}] = ${values[channel]}`;
  };
  return canvas;
}

function largest(values) {
  return values.reduce((top, value) => (Number.isFinite(value) ? Math.max(top, Math.abs(value)) : top), 0);
}

export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".vitrine");
  if (!root) {
    root = element("div", "vitrine stages");
    root.stop = lightChips(root);
    parentElement.appendChild(root);
  }
  const { queries, keys, sides, chosen, words, special, arrays } = unpack(data);
  const [scores, scaled, masked, weights, weighted, sum] = arrays;
  const channels = sum.length;
  const choose = (side, position) => setTriggerValue("query", position);

  const picker = element("div", "picker");
  picker.appendChild(element("span", "muted", words.query));
  queries.forEach((label, position) => {
    const made = chip(label, sides.rows, position, special.rows[position], choose);
    made.classList.toggle("chosen", position === chosen);
    made.setAttribute("aria-pressed", position === chosen);
    picker.appendChild(made);
  });

  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const { name, formula } of words.columns) {
    const cell = element("th");
    cell.append(element("span", "name", name), element("span", "formula muted", formula));
    head.appendChild(cell);
  }
  const tops = [largest(scores), largest(scaled), largest(masked)];
  const topWeighted = Math.max(largest(weighted), largest(sum));
  const body = table.createTBody();
  keys.forEach((label, key) => {
    const row = body.insertRow();
    const name = row.insertCell();
    name.className = "key";
    name.appendChild(chip(label, sides.columns, key, special.columns[key]));
    [scores, scaled, masked].forEach((stage, index) => {
      const cell = row.insertCell();
      cell.textContent = significant(stage[key]);
      cell.title = stage[key];
      if (stage[key] === -Infinity) cell.className = "masked";
      else cell.style.background = signedColour(stage[key], tops[index], 0.5); // the number stays legible
    });
    const weight = row.insertCell();
    weight.className = masked[key] === -Infinity ? "masked weight" : "weight";
    weight.title = weights[key];
    const bar = element("i", "bar");
    bar.style.width = `${100 * weights[key]}%`;
    weight.append(bar, element("span", "", significant(weights[key])));
    const part = weighted.subarray(key * channels, (key + 1) * channels);
    row.insertCell().appendChild(strip(part, topWeighted, `${label} · ${words.value}`));
  });
  const total = table.createTFoot().insertRow();
  total.insertCell().textContent = "Σ";
  for (let column = 0; column < 3; column++) total.insertCell();
  total.insertCell().textContent = significant(weights.reduce((a, b) => a + b, 0));
  total.insertCell().appendChild(strip(sum, topWeighted, words.output));

  const scroll = element("div", "scroll");
  const before = root.querySelector(".scroll");
  scroll.appendChild(table);
  root.replaceChildren(picker, scroll);
  if (before) scroll.scrollTop = before.scrollTop;
  return () => root.stop();
}
