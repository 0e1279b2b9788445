// Shared by all components. v2 code is not sandboxed: text goes in by textContent, never by innerHTML.

const HUE = [92, 124, 250]; // attention weights: one hue over the page's background, by opacity
const ARRAY_TYPES = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array, int32: Int32Array };

// bytes: header length (4, little-endian), JSON header, arrays at multiples of 8. See registry.py.
function unpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  let header = JSON.parse(text);
  if (header.odd) header = JSON.parse(text, (_name, value) => (value?.["~"] === undefined ? value : Number(value["~"]))); // NaN, ∞
  const start = 4 + length;
  header.arrays = header.arrays.map(({ offset, type, shape }) => {
    const kind = ARRAY_TYPES[type];
    const count = shape.reduce((a, b) => a * b, 1);
    const from = bytes.byteOffset + start + offset;
    // Typed arrays need aligned memory; a copy of a small slice is cheap.
    return new kind(bytes.buffer.slice(from, from + count * kind.BYTES_PER_ELEMENT));
  });
  return header;
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// What ends a component, for Streamlit to call when it goes. It calls what earlier calls gave it too, and late, where newer
// data came while the script was being loaded: a later call may have gone on with the same root, or will make another.
function ending(root) {
  const turn = (root.turn = {});
  return () => {
    if (root.turn !== turn) return;
    root.stop();
    root.remove();
  };
}

// Three significant digits on the screen.
function significant(value) {
  if (Math.abs(value) === Infinity) return value < 0 ? "−∞" : "∞";
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  const text = size >= 1000 || size < 0.001 ? value.toExponential(2) : value.toPrecision(3);
  return text.replaceAll("-", "−");
}

// All digits that a float32 has, and no more: reading them back gives the same number.
function exact(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : significant(value);
}

// Of numbers that may be off by `error`: how many decimals to write of them, and how far off they then are.
function precisionOf(error) {
  const digits = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return { digits, off: Number((Math.ceil(error * 10 ** digits + 0.5) / 10 ** digits).toPrecision(3)) };
}

const signed = (number) => String(number).replaceAll("-", "−");

// A number on the screen that may be off by `error`: with it, where three digits would promise more.
function about(value, error) {
  const third = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  if (!error || !Number.isFinite(value) || error <= third / 2) return significant(value);
  const { digits, off } = precisionOf(error);
  return `${signed(Number(value.toFixed(digits)))} ± ${signed(off)}`;
}

function largest(values) {
  return values.reduce((top, value) => (Number.isFinite(value) ? Math.max(top, Math.abs(value)) : top), 0);
}

// The diverging scale of signed values: vermilion below 0, blue above, by opacity over the page's background.
const SIGNED = [[213, 94, 0], [0, 114, 178]];

// That of differences from the pinned trace is another: nobody shall take a difference for a value.
const DIFFERENCE = [[150, 60, 190], [0, 140, 110]];

// A head's fixed colour, the same in every view.
function headColour(head, opacity = 1) {
  return `hsla(${(head * 137.5) % 360}, 65%, 50%, ${opacity})`;
}

function signedColour(value, top, strength = 0.85, hues = SIGNED) {
  const [r, g, b] = hues[value < 0 ? 0 : 1];
  return `rgba(${r},${g},${b},${top ? strength * Math.min(1, Math.abs(value) / top) : 0})`;
}

// How strong a value's colour is, 0 to 1: as its size beside the scale's end; on a scale with a floor, as the logarithm of
// that, from the floor on.
function strengthOf(value, { high, floor }) {
  const share = Math.min(1, Math.abs(value) / high);
  return floor ? Math.max(0, 1 - Math.log(share) / Math.log(floor / high)) : share;
}

const HELD = "vitrine.held"; // in the storage of this window

// What was lit by a click before the page was loaded again.
function heldBefore() {
  try {
    const { held, named } = JSON.parse(sessionStorage.getItem(HELD) ?? "{}");
    return { held, named, lit: held };
  } catch {
    return {};
  }
}

// Tokens light up together wherever they are drawn: components share one event target.
const bus = (window.__vitrine ??= Object.assign(new EventTarget(), heldBefore()));

// Pictures whose places are tokens, also where pieces of words are one elsewhere: there a place is a run of them.
const ofTokens = (side) => (bus.merged ? "" : side);

function hover(side, position) {
  if (!side) return; // what it names is no token
  const at = position < 0 ? heldAt(side) : position;
  bus.lit = { ...bus.lit, [side]: at }; // for what is mounted later
  bus.dispatchEvent(new CustomEvent("hover", { detail: { side, position: at } }));
}

// A click leaves a token lit where no other of its side is pointed at, and a second click no longer.
const heldAt = (side) => bus.held?.[side] ?? -1;

function hold(side, position, label) {
  bus.held = { ...bus.held, [side]: heldAt(side) === position ? -1 : position };
  bus.named = { ...bus.named, [side]: label };
  try {
    sessionStorage.setItem(HELD, JSON.stringify({ held: bus.held, named: bus.named }));
  } catch {
    /* no storage is allowed: a reload lets it go */
  }
  hover(side, -1);
}

// The texts are these now: what was held and has become another token is let go.
function keepHeld(side, labels) {
  const held = heldAt(side);
  if (held >= 0 && labels[held] !== bus.named[side]) hold(side, held);
}

function onHover(listener) {
  const handle = (event) => listener(event.detail.side, event.detail.position);
  bus.addEventListener("hover", handle);
  return () => bus.removeEventListener("hover", handle);
}

// A row of tokens as chips: special tokens dimmed, hovering announced, a click given to `choose` of the chip's side and
// position. Chips that are there already are used again: typing changes a few of them. places: of each token in its
// text, where not all of that is shown.
function showChips(parent, labels, special, side, choose, places) {
  while (parent.children.length > labels.length) parent.lastElementChild.remove();
  labels.forEach((label, index) => {
    const made = parent.children[index] ?? parent.appendChild(newChip(index, choose));
    if (places) made.dataset.position = places[index];
    showChip(made, label, special[index], side);
  });
}

function newChip(position, choose) {
  const made = element(choose ? "button" : "span", "chip");
  made.dataset.position = position;
  made.dir = "auto";
  const place = () => Number(made.dataset.position);
  made.addEventListener("pointerenter", () => hover(made.dataset.side, place()));
  made.addEventListener("pointerleave", () => hover(made.dataset.side, -1));
  if (choose) {
    made.type = "button";
    made.addEventListener("click", () => {
      hold(made.dataset.side, place(), made.title);
      choose(made.dataset.side, place());
    });
  }
  return made;
}

// A token as it is written on the screen: what would be invisible gets a sign.
function shown(label) {
  return label === " " ? "␣" : label.replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

function showChip(made, label, special, side) {
  made.classList.toggle("special", special);
  made.dataset.side = side;
  made.classList.toggle("lit", bus.lit?.[side] === Number(made.dataset.position));
  if (made.title === label && made.textContent) return;
  made.title = label;
  made.textContent = shown(label);
}

function lightChips(root) {
  return onHover((side, position) => {
    for (const made of root.querySelectorAll(`.chip[data-side="${side}"]`)) {
      made.classList.toggle("lit", Number(made.dataset.position) === position);
    }
  });
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// The empty canvas, so many pixels large; its memory is kept where it can be: new memory is what costs.
function cleared(canvas, width, height) {
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
function hatch(context, step) {
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

