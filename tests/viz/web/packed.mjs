// What `pack` of registry.py makes, and the stamp of View.frame before it.

function behindLength(header, size = 8) {
  let text = JSON.stringify(header);
  while ((4 + new TextEncoder().encode(text).length) % size) text += " ";
  const bytes = new TextEncoder().encode(text);
  return [...new Uint8Array(new Uint32Array([bytes.length]).buffer), ...bytes];
}

export function pack(header, arrays = []) {
  let end = 0;
  const parts = [];
  const described = arrays.map((array) => {
    const offset = end;
    const bytes = new Uint8Array(array.buffer);
    parts.push(...bytes, ...new Uint8Array((8 - (bytes.length % 8)) % 8));
    end = parts.length;
    return { offset, type: array.constructor.name.replace("Array", "").toLowerCase(), shape: [array.length] };
  });
  return new Uint8Array([...behindLength({ ...header, arrays: described }), ...parts]);
}

export const frame = (stamp, data) => new Uint8Array([...behindLength(stamp), ...data]);
