// Numbers as they are written on the screen and in files.

// A number's digits as they are written on the screen: with a true minus, and with a power of ten as the axes have it. As
// `with_power` in viz/i18n/format.py.
/** @param {string} text */
export function withPower(text) {
  const [number, power] = text.split("e");
  const [sign, digits] = number.startsWith("-") ? ["−", number.slice(1)] : ["", number];
  if (!power) return sign + digits;
  return `${sign}${digits === "1" ? "" : `${digits}×`}${raised(Number(power))}`;
}

/** @param {number} power */
export const raised = (power) => `10${String(power).replace(/./g, (sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)]))}`;

// Three significant digits on the screen; all of a whole number below a million.
/** @param {number} value */
export function significant(value) {
  if (Math.abs(value) === Infinity) return value < 0 ? "−∞" : "∞";
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 999.5 && size < 1e6) return value.toLocaleString("en", { maximumFractionDigits: 0 }).replaceAll("-", "−");
  return withPower(size >= 1e6 || size < 0.0001 ? value.toExponential(2) : value.toPrecision(3));
}

// A share in percent; one that would vanish is said to be less. As `percent` in viz/i18n/format.py.
/** @param {number} share @param {number} [decimals] */
export function percent(share, decimals = 1) {
  const least = 10 ** -decimals;
  const small = share > 0 && 100 * share < least / 2;
  const number = share ? (100 * share).toFixed(decimals) : "0";
  return `${small ? `< ${least}` : number}\u00a0%`;
}

// Four significant digits: what is pointed at, a digit more than what is written in a picture.
/** @param {number} value */
export function precise(value) {
  if (!Number.isFinite(value)) return significant(value);
  const size = Math.abs(value);
  if (size >= 9999.5 && size < 1e6) return significant(value);
  return signed(Number(value.toPrecision(4)));
}

// All digits that a float32 has, and no more: reading them back gives the same number.
/** @param {number} value */
export function exact(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : significant(value);
}

// Of numbers that may be off by `error`: how many decimals to write of them, and how far off they then are.
/** @param {number} error */
export function precisionOf(error) {
  const digits = Math.min(20, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return { digits, off: Number((Math.ceil(error * 10 ** digits + 0.5) / 10 ** digits).toPrecision(3)) };
}

/** @param {number} number */
export const signed = (number) => withPower(String(number));

// A number on the screen that may be off by `error`: with it, where three digits would promise more.
/** @param {number} value @param {number | undefined} error */
export function about(value, error) {
  const third = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  if (!error || !Number.isFinite(value) || error <= third / 2) return significant(value);
  const { digits, off } = precisionOf(error);
  return `${signed(Number(value.toFixed(digits)))} ± ${signed(off)}`;
}

/** @param {any} values */
export function largest(values) {
  return values.reduce((/** @type {number} */ top, /** @type {number} */ value) => (Number.isFinite(value) ? Math.max(top, Math.abs(value)) : top), 0);
}
