// What comes as bytes: a header of JSON, and arrays behind it. See registry.py.

const ARRAY_TYPES = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array, int32: Int32Array };

// bytes: header length (4, little-endian), JSON header, arrays at multiples of 8. See registry.py.
/** @param {Uint8Array} bytes */
export function unpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  let header = JSON.parse(text);
  if (header.escaped) header = JSON.parse(text, (_name, value) => (value?.["~"] === undefined ? value : Number(value["~"]))); // NaN, ∞
  const start = 4 + length;
  header.arrays = header.arrays.map((/** @type {{ offset: number, type: "uint8" | "uint16" | "float32" | "int32", shape: number[] }} */ { offset, type, shape }) => {
    const kind = ARRAY_TYPES[type];
    const count = shape.reduce((a, b) => a * b, 1);
    const from = bytes.byteOffset + start + offset;
    // Typed arrays need aligned memory; a copy of a small slice is cheap.
    return new kind(/** @type {ArrayBuffer} */ (bytes.buffer).slice(from, from + count * kind.BYTES_PER_ELEMENT));
  });
  return header;
}
